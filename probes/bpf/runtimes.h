/* Logical tasks: whose work a thread does, read from the memory of its runtime as the agent described it. */
#ifndef WAKEPATH_RUNTIMES_H
#define WAKEPATH_RUNTIMES_H

/* What a connection of Go's net/http client works for. Its goroutine `writer` is known by the connection for which it waits,
 * the goroutine that has it by a probe where it takes it. A connection has one request at a time.
 * Goroutine that writes -> connection: */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, struct owned_key);
	__type(value, u64);
} go_writers SEC(".maps");

/* A goroutine: its number, and where it is in memory. */
struct go_owner {
	u64 goroutine;
	u64 at;
};

/* Connection -> goroutine that has it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, struct owned_key);
	__type(value, struct go_owner);
} go_owners SEC(".maps");

/* When a goroutine was made, by which, and what made that. */
struct go_birth {
	/* Its number, which it gets after it was made: 0 until it acts. */
	u64 goroutine;
	u64 born;
	u64 has_made;
	u64 makers[MAKERS_MAX];
	u64 born_makers[MAKERS_MAX];
};

/* By where it is in memory: a place is another goroutine's only after that one was made, too. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct owned_key);
	__type(value, struct go_birth);
} go_births SEC(".maps");

/* What a map takes for one of which nothing is known: not on the stack, of which a chain of calls has 512 bytes. */
static const struct go_birth no_birth;

/* What is known of the last goroutine at a place, to be written over: an update takes another node of the map each time, at several times the
 * price. Nobody else reads it then, since that goroutine has ended. */
static __always_inline struct go_birth *go_birth_over(struct owned_key *key)
{
	struct go_birth *found = bpf_map_lookup_elem(&go_births, key);

	if (found)
		return found;
	bpf_map_update_elem(&go_births, key, &no_birth, BPF_ANY);
	return bpf_map_lookup_elem(&go_births, key);
}

/* The goroutine `writer` writes what the connection `of` is asked to. */
static __always_inline void go_writes(struct owned_key *writer, u64 of)
{
	u64 *found = bpf_map_lookup_elem(&go_writers, writer);

	if (!found)
		bpf_map_update_elem(&go_writers, writer, &of, BPF_ANY);
	else if (*found != of)
		*found = of;
}

/* A goroutine has a connection. Who writes there is told by this one, so that it does not read in between. */
static __always_inline void go_owns(struct owned_key *conn, struct go_owner *owner)
{
	struct go_owner *found = bpf_map_lookup_elem(&go_owners, conn);

	if (found)
		*found = *owner;
	else
		bpf_map_update_elem(&go_owners, conn, owner, BPF_ANY);
}

/* The number of the goroutine at `at`; 0 where there is none. Its state (runtime.g.atomicstatus) stands directly before it, which
 * scripts/runtime-offsets holds for each version. Where a layout is wrong by a word, that state would be the number of all goroutines that
 * run, or an address after it: neither has a state before it and is as small as a number. */
#define GO_STATES 15
#define GO_SCANNED 0x1000U
#define GO_NUMBER_MAX (1ULL << 39) /* Go has its heap behind it */
static __always_inline u64 go_number(u64 at, struct wp_runtime *r)
{
	u64 words[2] = {}; /* the state and a lock, the number */

	if (!at || bpf_probe_read_user(words, sizeof(words), (void *)(at + r->g_goid - sizeof(u64))) || !words[1])
		return 0;
	if (((u32)words[0] & ~GO_SCANNED) - 1 < GO_STATES && words[0] >> 33 == 0 && words[1] < GO_NUMBER_MAX)
		return words[1];
	__sync_fetch_and_add(&r->refuted, 1);
	return 0;
}

/* Who made the goroutine at `at`, as its runtime remembers. Up to Go 1.20 it does not: then only the probe that saw it made can tell. */
#define GO_FORGOTTEN (~0ULL)
static __always_inline u64 go_parent(struct wp_runtime *r, u64 at)
{
	return r->g_parent ? user_word(at + r->g_parent) : GO_FORGOTTEN;
}

/* The birth of a goroutine that is at `at`, if it was seen. `parent`: who made it as its runtime remembers, 0 where that was not asked:
 * then only of one that acted. */
static __always_inline struct go_birth *go_birth(u32 tgid, u64 at, u64 goroutine, u64 parent)
{
	struct owned_key key = { .tgid = tgid, .of = at };
	struct go_birth *birth = bpf_map_lookup_elem(&go_births, &key);

	if (!birth || (birth->goroutine && birth->goroutine != goroutine))
		return 0;
	/* that it did not act yet leaves open which one it is: memory of one that ended is used again */
	if (!birth->goroutine && (!parent || (parent != GO_FORGOTTEN && parent != birth->makers[0])))
		return 0;
	return birth;
}

/* Adds when, and by which, a goroutine was made. */
static __always_inline void go_born(u32 tgid, struct wp_logical *who, u64 at, u64 parent, u64 now)
{
	struct go_birth *birth = go_birth(tgid, at, who->key, parent);

	if (who->parent == GO_FORGOTTEN)
		who->parent = 0;
	if (!birth || (!birth->goroutine && !tell_makers(tgid, RUNTIME_GO, birth->makers, birth->born_makers, now)))
		return;
	birth->goroutine = who->key;
	who->parent = birth->makers[0];
	who->born_ns = birth->born;
}

/* A goroutine that writes what others ask for works for the one that has its connection. */
static __always_inline bool go_behalf(u32 tgid, struct wp_logical *who, u64 now)
{
	struct owned_key writer = { .tgid = tgid, .of = who->key }, conn = { .tgid = tgid };
	u64 *of = bpf_map_lookup_elem(&go_writers, &writer);
	struct go_owner *owner;

	if (!of)
		return false;
	conn.of = *of;
	owner = bpf_map_lookup_elem(&go_owners, &conn);
	if (!owner)
		return false;
	who->key = owner->goroutine;
	who->parent = 0;
	go_born(tgid, who, owner->at, 0, now);
	return true;
}

static __always_inline bool go_task(struct task_struct *task, struct wp_runtime *r, struct wp_logical *who, bool polls, u64 now)
{
	u64 at = user_word(THREAD_POINTER(task) + (s64)r->tls);
	u64 m = user_word(at + r->g_m);

	if (!at || !m)
		return false;
	/* on its scheduler's stack a thread still works for the goroutine that it runs */
	if (user_word(m + r->m_g0) == at)
		at = polls ? 0 : user_word(m + r->m_curg);
	if (!at)
		return false;
	who->key = go_number(at, r);
	who->parent = go_parent(r, at);
	if (user_word(m + r->m_procid) != own_number(task)) {
		__sync_fetch_and_add(&r->refuted, 1);
		return false;
	}
	if (r->is_marked && !polls && who->key && !go_behalf(task->tgid, who, now) && who->parent)
		go_born(task->tgid, who, at, who->parent, now);
	if (who->parent == GO_FORGOTTEN)
		who->parent = 0;
	return who->key != 0;
}

/* What the agent for the JVM keeps: words by which it is known. */
struct jvm_words {
	u64 magic[2];
	u32 layout;
	u32 process;
	/* how many tasks were told to work for others */
	u64 others;
};

/* And of each thread what it works at now. Only the thread itself writes it. Behind it are the makers. */
struct jvm_slot {
	u64 thread;
	u64 id;
	u64 born;
	u64 maker;
};

#define JVM_TABLE 4096
#define JVM_SLOTS (JVM_TABLE + 4 * JVM_THREADS)
#define JVM_AT_OTHERS (JVM_SLOTS + JVM_SLOT_BYTES * JVM_SLOTS_MAX)

/* Tasks of the JVM's executors whose makers were told. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct owned_key);
	__type(value, u8);
} jvm_told SEC(".maps");

/* Tells what made a task of an executor's: as many as the agent keeps, straight from the slot. */
static __always_inline bool tell_jvm_makers(u32 tgid, u64 makers, u64 now)
{
	u64 position;
	struct wp_makers *r = reserve(this_cpu(), sizeof(*r), DROP_TASK, &position);

	if (!r)
		return false;
	r->ts_ns = now;
	r->tgid = tgid;
	r->pad = 0;
	/* what cannot be read is zero, and zeros name nobody */
	bpf_probe_read_user(r->line, sizeof(r->line) + sizeof(r->born_ns), (void *)makers);
	commit(r, position, sizeof(*r), KIND_MAKERS, RUNTIME_JVM);
	return true;
}

/* Tells which task works for others, the next one of them. False where some were lost: then nobody knows of which. Inlined, and without
 * anything on the stack: older kernels allow all frames together 512 bytes. */
static __always_inline bool tell_jvm_others(u32 tgid, struct wp_runtime *r, u64 count, u64 now)
{
	u64 position, next = r->others_told;
	struct wp_ended *o;

	if (count - next > JVM_OTHERS)
		return false;
	o = reserve(this_cpu(), sizeof(*o), DROP_TASK, &position);
	/* without room it stays the next one */
	if (!o)
		return true;
	o->ts_ns = now;
	o->tgid = tgid;
	o->pad = 0;
	o->parent = o->born_ns = 0;
	/* what cannot be read is zero, and that is nobody */
	bpf_probe_read_user(&o->key, sizeof(o->key), (void *)(r->helper_words + JVM_AT_OTHERS + 8 * (next % JVM_OTHERS)));
	commit(o, position, sizeof(*o), KIND_FOR_OTHERS, RUNTIME_JVM);
	/* another thread may tell the same: who is told of twice is told of */
	r->others_told = next + 1;
	return true;
}

/* The task of an executor's that a thread of the JVM runs, where the agent keeps it. `now`: 0 where nothing may be told. */
static __always_inline bool jvm_agent_task(struct task_struct *task, struct wp_runtime *r, struct wp_logical *who, u64 now)
{
	struct owned_key key = { .tgid = task->tgid };
	u32 number = own_number(task), place = 0;
	struct jvm_words words = {};
	struct jvm_slot slot = {};
	const u8 told = 1;
	u64 at;

	/* of a thread that ends nothing can be read any more, which refutes nothing */
	if (bpf_probe_read_user(&words, sizeof(words), (void *)r->helper_words))
		return false;
	if (words.magic[0] != JVM_MAGIC_0 || words.magic[1] != JVM_MAGIC_1 || (words.layout && words.layout != JVM_LAYOUT)) {
		__sync_fetch_and_add(&r->refuted, 1);
		return false;
	}
	/* the agent was taken away, and may come again; a number beyond them no thread has */
	if (!words.layout || number >= JVM_THREADS)
		return false;
	if (now && words.others != r->others_told && !tell_jvm_others(key.tgid, r, words.others, now)) {
		__sync_fetch_and_add(&r->refuted, 1);
		return false;
	}
	bpf_probe_read_user(&place, sizeof(place), (void *)(r->helper_words + JVM_TABLE + 4 * (u64)number));
	if (!place)
		return false;
	at = r->helper_words + JVM_SLOTS + JVM_SLOT_BYTES * (u64)place;
	if (bpf_probe_read_user(&slot, sizeof(slot), (void *)at))
		return false;
	if (slot.thread != number || (slot.id && slot.id < JVM_AGENT_KEYS) || (now && slot.born > now)) {
		__sync_fetch_and_add(&r->refuted, 1);
		return false;
	}
	if (!slot.id)
		return false;
	who->key = key.of = slot.id;
	who->born_ns = slot.born;
	who->parent = slot.maker;
	if (now && slot.maker && !bpf_map_lookup_elem(&jvm_told, &key) &&
	    tell_jvm_makers(key.tgid, at + __builtin_offsetof(struct jvm_slot, maker), now))
		bpf_map_update_elem(&jvm_told, &key, &told, BPF_ANY);
	return true;
}

/* The virtual thread that a thread of the JVM runs: its number, which no other ever has. A platform thread runs tasks of executors,
 * where the agent tells. */
static __always_inline bool jvm_task(struct task_struct *task, struct wp_runtime *r, struct wp_logical *who, u64 now)
{
	u64 words = library_words(task, r);
	u64 thread = words ? user_word(words + r->thread_word) : 0;
	/* versions without virtual threads have no such byte */
	u8 is_virtual = thread && r->thread_is_virtual ? user_word(thread + r->thread_is_virtual) : 0;
	u32 number;

	if (!is_virtual)
		return r->helper_words && jvm_agent_task(task, r, who, now);
	number = user_word(user_word(thread + r->thread_os) + r->os_number);
	who->key = user_word(thread + r->thread_runs);
	if (is_virtual != 1 || number != own_number(task) ||
	    (r->thread_owner && user_word(thread + r->thread_owner) != who->key)) {
		__sync_fetch_and_add(&r->refuted, 1);
		return false;
	}
	return who->key != 0;
}

/* What the helper for Node.js keeps: words by which it is known, then whose bytes the main thread writes. */
struct node_words {
	u64 magic[2];
	u32 pid;
	u32 layout;
	u64 request;
	u32 born_s;
	u32 born_ns;
};

static __always_inline bool node_task(struct task_struct *task, struct wp_runtime *r, struct wp_logical *who, bool polls)
{
	struct node_words words = {};

	/* other threads run no JavaScript, or that of a worker, which has no helper */
	if (polls || task->pid != task->tgid)
		return false;
	bpf_probe_read_user(&words, sizeof(words), (void *)r->helper_words);
	if (words.magic[0] != NODE_MAGIC_0 || words.magic[1] != NODE_MAGIC_1 || words.pid != own_number(task) ||
	    (words.layout && words.layout != NODE_LAYOUT)) {
		__sync_fetch_and_add(&r->refuted, 1);
		return false;
	}
	/* the helper was taken away, and may come again */
	if (!words.layout)
		return false;
	who->key = words.request;
	who->born_ns = words.born_s * 1000000000ULL + words.born_ns;
	return who->key != 0;
}

static __always_inline bool task_of(struct task_struct *task, struct wp_runtime *r, struct wp_logical *who, u64 flow, u64 now)
{
	switch (r->kind) {
	case RUNTIME_GO:
		return go_task(task, r, who, !flow, now);
	case RUNTIME_PYTHON:
		return python_task(task, r, who, flow, now);
	case RUNTIME_JVM:
		return jvm_task(task, r, who, now);
	case RUNTIME_NODE:
		return node_task(task, r, who, !flow);
	case RUNTIME_TOKIO:
		return tokio_task(task, r, who, flow);
	}
	return false;
}

/* Tells in whose name the current thread acts; false where that is not known. `flow`: what it acts on, 0 where it waits for
 * descriptors to be ready; there `who->runtime` is what it does until that is told. `now`: of the record that names it. Older kernels allow a
 * chain of calls 512 bytes of stack, of which nothing is left. A global function: what may come of it is not verified again in each of its callers. */
__noinline int logical_task(struct wp_logical *who, u64 flow, u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 tgid = task->tgid;
	struct wp_runtime *r = bpf_map_lookup_elem(&runtimes, &tgid);

	if (!r || !who || is_refuted(r))
		return 0;
	if (!task_of(task, r, who, flow, now))
		return 0;
	/* a lower bound does */
	r->verified++;
	who->runtime = r->kind;
	return 1;
}

/* In whose name the current thread ran until now, where it may neither wait, nor allocate, nor write a record: the runtime that tells, and
 * the logical task's key, 0 where the thread ran none and looked for work. 0 where nothing tells. */
static __noinline u8 leaves_in_name_of(struct task_struct *task, struct task_state *t)
{
	u32 tgid = task->tgid;
	struct wp_runtime *r = bpf_map_lookup_elem(&runtimes, &tgid);
	struct wp_logical who = {};
	u64 m;

	if (!r || !t || is_refuted(r))
		return 0;
	if (r->kind == RUNTIME_GO) {
		m = user_word(user_word(THREAD_POINTER(task) + (s64)r->tls) + r->g_m);
		if (!m || user_word(m + r->m_procid) != own_number(task))
			return 0;
		m = user_word(m + r->m_curg);
		t->logical = go_number(m, r);
		t->maker = m && r->g_parent ? user_word(m + r->g_parent) : 0;
		return RUNTIME_GO;
	}
	if (r->kind == RUNTIME_JVM) {
		t->logical = jvm_task(task, r, &who, 0) ? who.key : 0;
		t->maker = 0;
		return RUNTIME_JVM;
	}
	return 0;
}

#endif
