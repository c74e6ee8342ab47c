/* Python: the context in which asyncio runs a task or a callback, or the greenlet that a thread runs; and in whose name uvloop reads and
 * sends. */
#ifndef WAKEPATH_PYTHON_H
#define WAKEPATH_PYTHON_H

/* A context of Python's, or a greenlet, with what made it, and what made that: frameworks make a task in a task for each layer that a request goes
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

/* The same in all versions since 2.0, and held together by types: no other object has greenlet's. */
#define GREENLET_MAIN 0
#define GREENLET_CURRENT 8
#define OBJECT_TYPE 8
#define TYPE_BASE 256
/* gevent's Greenlet is one below greenlet's, its Hub four, and what programs derive from them is below that */
#define TYPES_MAX 8

/* The greenlet that the thread runs; 0 where it is the thread's own, or the thread has none. */
static __always_inline u64 greenlet(struct task_struct *task, struct wp_runtime *r)
{
	u64 words = library_words(task, r), state = words ? user_word(words + r->thread_word) : 0, main, current, type;
	u32 i;

	/* a thread that has not used greenlets yet has 1 there, and nothing when it ends */
	main = state > 1 ? user_word(state + GREENLET_MAIN) : 0;
	if (!main)
		return 0;
	current = user_word(state + GREENLET_CURRENT);
	if (user_word(main + OBJECT_TYPE) == r->greenlets) {
		if (current == main)
			return 0;
		type = user_word(current + OBJECT_TYPE);
#pragma unroll
		for (i = 0; i < TYPES_MAX; i++) {
			if (type == r->greenlets)
				return current;
			type = user_word(type + TYPE_BASE);
		}
	}
	__sync_fetch_and_add(&r->refuted, 1);
	return 0;
}

/* The context that the thread runs in, else the greenlet; 0 where it runs in none that was made for something. */
static __always_inline u64 python_context(struct task_struct *task, struct wp_runtime *r)
{
	/* Py_tss_t: an int, 1 where it was initialized, then the key of the thread's value that holds its state. The interpreter's
	 * own word for it is empty amid a system call. */
	u64 word = user_word(r->python_key), key = word >> 32, thread = THREAD_POINTER(task), state, context;

	/* values are in blocks of 32 keys, a number and the value each */
	if ((u32)word != 1 || key >= 1024)
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
	/* a thread has one of its own, which nobody entered, and so has a greenlet */
	if (context && (u32)user_word(context + r->context_entered) == 1)
		return context;
	return r->greenlets ? greenlet(task, r) : 0;
}

/* What a map takes for one of which nothing is known: not on the stack, of which a chain of calls has 512 bytes. */
static const struct python_context no_context;

/* What is known of the last context or greenlet at an address, to be written over: an update takes another node of the map each time, at several
 * times the price. Nobody else reads it then, since that one is no more. */
static __always_inline struct python_context *python_context_over(struct owned_key *key)
{
	struct python_context *found = bpf_map_lookup_elem(&python_contexts, key);

	if (found)
		return found;
	bpf_map_update_elem(&python_contexts, key, &no_context, BPF_ANY);
	return bpf_map_lookup_elem(&python_contexts, key);
}

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

/* What uvloop has read in its turn. */
struct uv_read {
	/* of the connection that it has just read, until it leaves the context in which it tells what came; 0 then */
	u64 reader;
	/* when the first of its timers is due, as it told the kernel when it last waited */
	u64 due;
	/* how often it next left, after it had read, a context within another one, and how often one alone. Until 0.22 it tells what came by the
	 * interpreter, at whose end there is no probe: the next that it leaves is one of a callback, which it calls in one of its own. Later it
	 * leaves the one in which it told what came */
	u32 nested;
	u32 alone;
};

/* By the thread that uvloop runs on. Other threads of the process read and write outside of contexts too, and are threads. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct owned_key);
	__type(value, struct uv_read);
} uv_reading SEC(".maps");

static const struct uv_connection no_connection;

/* From a context's count of entries back to the context that its thread left for it: two words stand between, in all versions. */
#define CONTEXT_OUTER 24

/* The context from which a thread entered another; 0 where nobody had entered one. */
static __always_inline u64 outer_context(struct wp_runtime *r, u64 context)
{
	u64 outer = user_word(context + r->context_entered - CONTEXT_OUTER);

	return outer && (u32)user_word(outer + r->context_entered) == 1 ? outer : 0;
}

/* Whether it calls by the interpreter, at whose end there is no probe: until 0.22 so. */
static __always_inline bool uv_is_old(struct uv_read *reading)
{
	return reading->nested > reading->alone;
}

/* Timers are told to the kernel in milliseconds. */
#define UV_ROUNDED_NS 2000000

/* In whose name a thread reads that runs in `context`, 0 for nobody's. Until 0.22, uvloop tells what came by the interpreter's own call, at
 * whose end there is no probe: then it goes on with callbacks within one of its own, which is in a context too, or with a timer that is due,
 * which is in one alone as what came is. */
static __always_inline u64 uv_reader(struct owned_key *thread, struct wp_runtime *r, u64 context)
{
	struct uv_read *reading = r->other_loop ? bpf_map_lookup_elem(&uv_reading, thread) : 0;

	if (!reading || !reading->reader)
		return 0;
	if (context && outer_context(r, context)) {
		reading->reader = 0;
		reading->nested++;
	}
	if (context && uv_is_old(reading) && bpf_ktime_get_ns() + UV_ROUNDED_NS >= reading->due)
		reading->reader = 0;
	return reading->reader;
}

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
static __always_inline bool uv_acts(struct task_struct *task, struct owned_key *key, struct wp_logical *who, u64 flow)
{
	struct uv_connection *c;
	u8 op = who->runtime;
	struct uv_read *reading;

	key->of = task->pid;
	reading = bpf_map_lookup_elem(&uv_reading, key);
	if (!reading)
		return false;
	key->of = flow;
	if (op == OP_SEND && flow)
		return uv_sends(key, who);
	c = op == OP_RECV && flow ? uv_connection(key) : 0;
	if (c && !c->reader)
		c->reader = bpf_ktime_get_ns();
	if (!flow) {
		struct cpu_state *cpu = this_cpu();

		reading->due = cpu ? cpu->poll_due : 0;
	}
	who->key = reading->reader = c ? c->reader : 0;
	return c;
}

/* In which context, or for which reader of uvloop's, the thread computes; 0 of one that is older than the probes. */
static __always_inline u64 python_runs(struct task_struct *task, struct wp_runtime *r)
{
	struct owned_key key = { .tgid = task->tgid, .of = task->pid };
	u64 context = python_context(task, r), reader;
	struct python_context *found;

	if (!context)
		return 0;
	reader = uv_reader(&key, r, context);
	if (reader)
		return reader;
	key.of = context;
	found = bpf_map_lookup_elem(&python_contexts, &key);
	return found ? found->id : 0;
}

/* `who->runtime`: what it does there. */
static __always_inline bool python_task(struct task_struct *task, struct wp_runtime *r, struct wp_logical *who, u64 flow, u64 now)
{
	struct owned_key key = { .tgid = task->tgid, .of = task->pid };
	struct python_context *found;
	struct uv_connection *c;
	u64 context, reader;

	/* What probes did not see made may have another's address. */
	if (!r->is_marked)
		return false;
	/* whatever the loop waits for, it waits for in nobody's name */
	if (!flow)
		return r->other_loop && uv_acts(task, &key, who, 0);
	context = python_context(task, r);
	reader = context ? uv_reader(&key, r, context) : 0;
	key.of = context;
	found = context ? bpf_map_lookup_elem(&python_contexts, &key) : 0;
	/* the loop's own context is nobody's */
	if (!context || (found && !found->id))
		return r->other_loop && uv_acts(task, &key, who, flow);
	if (reader) {
		who->key = reader;
		return true;
	}
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
	if (!r->other_loop || who->runtime != OP_SEND)
		return true;
	/* with what another wrote there before */
	key.of = flow;
	c = bpf_map_lookup_elem(&uv_connections, &key);
	if (!c || !c->is_queued)
		return true;
	c->is_queued = 0;
	return c->writer == who->key;
}

#endif
