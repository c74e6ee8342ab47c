/* Logical tasks: whose work a thread does, read from the memory of its runtime as the agent described it. */
#ifndef WAKEPATH_RUNTIMES_H
#define WAKEPATH_RUNTIMES_H

#define RUNTIME_PROCESSES 4096

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RUNTIME_PROCESSES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct wp_runtime);
} runtimes SEC(".maps");

/* Something of a process's. */
struct owned_key {
	u32 tgid;
	u32 pad;
	u64 of;
};

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

#define MAKERS_MAX (sizeof(((struct wp_makers *)0)->line) / sizeof(u64))

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

/* A context of Python's, with what made it, and what made that: frameworks make a task in a task for each layer that a request goes
 * through, and most of them do no operation. */
struct python_context {
	u64 id;
	u64 born;
	u64 acted;
	u64 makers[MAKERS_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 262144);
	__type(key, struct owned_key);
	__type(value, struct python_context);
} python_contexts SEC(".maps");

#define LOCAL_WORDS 256

/* Thread-local words as operations found them, until the agent knows which one names the task. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LOCAL_WORDS);
	__type(key, u32);
	__type(value, struct wp_local_words);
} local_words SEC(".maps");

/* How many were taken since the agent emptied it. */
u32 local_words_taken SEC(".data") = 0;

/* How many processes are in `runtimes`: where there is none, nobody looks. Beside watch_generation, which the agent writes too. */
u32 runtime_processes SEC(".data") = 0;

static __always_inline u64 user_word(u64 at)
{
	u64 word = 0;

	/* what cannot be read is zero */
	bpf_probe_read_user(&word, sizeof(word), (void *)at);
	return word;
}

/* The thread's number as its own process sees it. */
static __always_inline u32 own_number(struct task_struct *task)
{
	struct upid number = {};
	u64 pid = 0;
	u32 level = 0;

	/* as a number: older verifiers (6.1) add none to a pointer */
	bpf_probe_read_kernel(&pid, sizeof(pid), &task->thread_pid);
	bpf_probe_read_kernel(&level, sizeof(level), (void *)(pid + bpf_core_field_offset(struct pid, level)));
	if (level > 32)
		return 0;
	pid += bpf_core_field_offset(struct pid, numbers) + level * bpf_core_type_size(struct upid);
	bpf_probe_read_kernel(&number, sizeof(number), (void *)pid);
	return number.nr;
}

/* Few of the numbers that a runtime keeps of its threads may be another thread's (it writes its own a moment after it began): where
 * more are, it is not the layout that the agent took it for, and no more is read of the process. */
static __always_inline bool is_refuted(struct wp_runtime *r)
{
	return r->refuted > 16 && r->refuted > r->verified >> 6;
}

/* What made a logical task, before it is named for the first time. `born`: when each of `makers` was made. */
static __always_inline bool tell_makers(u32 tgid, u8 runtime, const u64 *makers, const u64 *born, u64 now)
{
	u64 position;
	struct wp_makers *r = reserve(this_cpu(), sizeof(*r), DROP_TASK, &position);

	if (!r)
		return false;
	r->ts_ns = now;
	r->tgid = tgid;
	r->pad = 0;
	__builtin_memcpy(r->line, makers, sizeof(r->line));
	__builtin_memcpy(r->born_ns, born, sizeof(r->born_ns));
	commit(r, position, sizeof(*r), KIND_MAKERS, runtime);
	return true;
}

/* The number of the goroutine at `at`; 0 where there is none. Its state (runtime.g.atomicstatus) stands directly before it, which
 * scripts/runtime-offsets holds for each version. Where a layout is wrong by a word, that state would be the number of all goroutines that
 * run, or an address behind it: neither has a state before it and is as small as a number. */
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

/* The birth of a goroutine that is at `at`, if it was seen. `parent`: who made it as its runtime remembers, 0 where that was not asked:
 * then only of one that acted. */
static __always_inline struct go_birth *go_birth(u32 tgid, u64 at, u64 goroutine, u64 parent)
{
	struct owned_key key = { .tgid = tgid, .of = at };
	struct go_birth *birth = bpf_map_lookup_elem(&go_births, &key);

	if (!birth || (birth->goroutine ? birth->goroutine != goroutine : !parent || parent != birth->makers[0]))
		return 0;
	return birth;
}

/* Adds when, and by which, a goroutine was made. */
static __always_inline void go_born(u32 tgid, struct wp_logical *who, u64 at, u64 parent, u64 now)
{
	struct go_birth *birth = go_birth(tgid, at, who->key, parent);

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
	who->parent = user_word(at + r->g_parent);
	if (user_word(m + r->m_procid) != own_number(task)) {
		__sync_fetch_and_add(&r->refuted, 1);
		return false;
	}
	if (r->is_marked && !polls && who->key && !go_behalf(task->tgid, who, now) && who->parent)
		go_born(task->tgid, who, at, who->parent, now);
	return who->key != 0;
}

/* The context that the thread runs in, 0 where it runs in none that was made for something. */
static __always_inline u64 python_context(struct task_struct *task, struct wp_runtime *r)
{
	/* Py_tss_t: an int, then the key of the thread's value that holds its state. The interpreter's own word for it is empty
	 * amid a system call. */
	u64 key = user_word(r->python_key) >> 32, thread = THREAD_POINTER(task), state, context;

	/* values are in blocks of 32 keys, a number and the value each */
	if (key >= 1024)
		return 0;
	state = user_word(thread + r->thread_values + 8 * (key / 32));
	state = state ? user_word(state + 16 * (key % 32) + 8) : 0;
	if (!state)
		return 0;
	/* what pthread_self() gives */
	if (user_word(state + r->state_thread) != thread) {
		__sync_fetch_and_add(&r->refuted, 1);
		return 0;
	}
	context = user_word(state + r->state_context);
	/* a thread has one of its own, which nobody entered */
	return context && (u32)user_word(context + r->context_entered) == 1 ? context : 0;
}

/* What a map takes for one of which nothing is known: not on the stack, of which a chain of calls has 512 bytes. */
static const struct python_context no_context;

/* A connection of uvloop's, which reads and writes outside of contexts. */
struct uv_connection {
	/* in whose name it is read: what stands for asyncio's context of its reader */
	u64 reader;
	/* who wrote what waits to be sent: a context's id, 0 for nobody or several */
	u64 writer;
	u64 maker;
	u64 born;
	u64 is_queued;
};

/* By its flow. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, struct owned_key);
	__type(value, struct uv_connection);
} uv_connections SEC(".maps");

/* Thread -> reader of the connection that uvloop has just read there, until it leaves the context of which it tells what came. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct owned_key);
	__type(value, u64);
} uv_reading SEC(".maps");

static const struct uv_connection no_connection;

static __always_inline struct uv_connection *uv_connection(struct owned_key *key)
{
	struct uv_connection *found = bpf_map_lookup_elem(&uv_connections, key);

	if (found)
		return found;
	bpf_map_update_elem(&uv_connections, key, &no_connection, BPF_ANY);
	return bpf_map_lookup_elem(&uv_connections, key);
}

/* Who wrote what uvloop sends now; nobody where that were several, or the loop itself. */
static __always_inline bool uv_sends(struct owned_key *flow, struct wp_logical *who)
{
	struct uv_connection *c = bpf_map_lookup_elem(&uv_connections, flow);

	if (!c || !c->is_queued)
		return false;
	c->is_queued = 0;
	who->key = c->writer;
	who->parent = c->maker;
	who->born_ns = c->born;
	return who->key != 0;
}

/* An operation of uvloop's, outside of contexts. */
static __always_inline bool uv_acts(struct task_struct *task, struct wp_logical *who, u64 flow, u8 op)
{
	struct owned_key thread = { .tgid = task->tgid, .of = task->pid }, key = { .tgid = task->tgid, .of = flow };
	struct uv_connection *c;

	if (op == OP_SEND && flow)
		return uv_sends(&key, who);
	bpf_map_delete_elem(&uv_reading, &thread);
	if (op != OP_RECV || !flow)
		return false;
	c = uv_connection(&key);
	if (!c)
		return false;
	if (!c->reader)
		c->reader = bpf_ktime_get_ns();
	who->key = c->reader;
	bpf_map_update_elem(&uv_reading, &thread, &who->key, BPF_ANY);
	return true;
}

static __always_inline bool python_task(struct task_struct *task, struct wp_runtime *r, struct wp_logical *who, u64 flow,
					u8 op, u64 now)
{
	struct owned_key key = { .tgid = task->tgid, .of = task->pid };
	struct python_context *found;
	struct uv_connection *c;
	u64 *reader;

	/* What probes did not see made may have another's address. */
	if (!r->is_marked)
		return false;
	/* whatever the loop waits for, it waits for in nobody's name */
	if (!flow)
		return r->other_loop && uv_acts(task, who, 0, 0);
	reader = r->other_loop ? bpf_map_lookup_elem(&uv_reading, &key) : 0;
	key.of = python_context(task, r);
	if (!key.of)
		return r->other_loop && uv_acts(task, who, flow, op);
	if (reader) {
		who->key = *reader;
		return true;
	}
	found = bpf_map_lookup_elem(&python_contexts, &key);
	if (!found) {
		/* older than the probes */
		bpf_map_update_elem(&python_contexts, &key, &no_context, BPF_ANY);
		found = bpf_map_lookup_elem(&python_contexts, &key);
		if (!found)
			return false;
		found->acted = 1;
		found->id = bpf_ktime_get_ns();
	}
	if (!found->acted)
		found->acted = !found->makers[0] || tell_makers(key.tgid, RUNTIME_PYTHON, found->makers, found->makers, now);
	who->key = found->id;
	who->parent = found->makers[0];
	who->born_ns = found->born;
	if (!r->other_loop || op != OP_SEND)
		return true;
	/* with what another wrote there before */
	key.of = flow;
	c = bpf_map_lookup_elem(&uv_connections, &key);
	if (!c || !c->is_queued)
		return true;
	c->is_queued = 0;
	return c->writer == who->key;
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
	/* glibc: behind the thread pointer's own word, the address of a pair of words for each library; all ones where the thread
	 * never used that library's */
	u64 libraries = user_word(THREAD_POINTER(task) + 8);
	u64 words = user_word(libraries + 16 * (u64)r->module);
	u64 thread = words && words != ~0ULL ? user_word(words + r->thread_word) : 0;
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

static __always_inline void sample_local_words(struct task_struct *task, struct wp_runtime *r, u64 flow)
{
	struct wp_local_words *sample;
	u32 bytes = r->block_bytes, place;

	if (local_words_taken >= LOCAL_WORDS || bytes > sizeof(sample->words))
		return;
	place = __sync_fetch_and_add(&local_words_taken, 1);
	sample = bpf_map_lookup_elem(&local_words, &place);
	if (!sample)
		return;
	sample->flow = flow;
	sample->tid = task->pid;
	sample->tgid = bpf_probe_read_user(sample->words, bytes, (void *)(THREAD_POINTER(task) - bytes)) ? 0 : task->tgid;
}

/* Numbers are given in order, so that none is as large as an address. */
#define TOKIO_TASK_MAX (1ULL << 40)

static __always_inline bool tokio_task(struct task_struct *task, struct wp_runtime *r, struct wp_logical *who, u64 flow)
{
	if (!r->tls) {
		sample_local_words(task, r, flow);
		return false;
	}
	/* a thread's loop is nobody's work, though it may be a task itself */
	who->key = user_word(THREAD_POINTER(task) + (s64)r->tls);
	if (who->key < TOKIO_TASK_MAX)
		return who->key && flow;
	__sync_fetch_and_add(&r->refuted, 1);
	return false;
}

static __always_inline bool task_of(struct task_struct *task, struct wp_runtime *r, struct wp_logical *who, u64 flow, u8 op,
				    u64 now)
{
	switch (r->kind) {
	case RUNTIME_GO:
		return go_task(task, r, who, !flow, now);
	case RUNTIME_PYTHON:
		return python_task(task, r, who, flow, op, now);
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
 * descriptors to be ready. `op`: what it does there. `now`: of the record that names it. */
static __noinline bool logical_task(struct task_struct *task, struct wp_logical *who, u64 flow, u8 op, u64 now)
{
	u32 tgid = task->tgid;
	struct wp_runtime *r = bpf_map_lookup_elem(&runtimes, &tgid);

	if (!r || !who || is_refuted(r))
		return false;
	if (!task_of(task, r, who, flow, op, now))
		return false;
	/* a lower bound does */
	r->verified++;
	who->runtime = r->kind;
	return true;
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
		t->maker = m ? user_word(m + r->g_parent) : 0;
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
