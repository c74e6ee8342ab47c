/* Probes in programs of Go, in CPython and in greenlet: who made a logical task, who has a connection, and when a goroutine ends. Placed only
 * where somebody asked for them (`record --runtimes`). */
#ifndef WAKEPATH_RUNTIME_PROBES_H
#define WAKEPATH_RUNTIME_PROBES_H

/* The goroutine in its register, where the thread is known to its runtime; 0 else. Arguments are in registers yet. */
static __always_inline u64 go_at_probe(struct task_struct *task, struct wp_runtime *r, u64 g)
{
	if (r->kind != RUNTIME_GO || is_refuted(r))
		return 0;
	if (user_word(user_word(g + r->g_m) + r->m_procid) != own_number(task)) {
		__sync_fetch_and_add(&r->refuted, 1);
		return 0;
	}
	return go_number(g, r);
}

/* A goroutine at a probe. */
struct go_at {
	struct wp_runtime *r;
	u32 tgid;
	u32 pad;
	u64 goroutine;
	u64 now;
};

static __always_inline bool go_at(struct pt_regs *regs, struct go_at *a)
{
	struct task_struct *task = bpf_get_current_task_btf();

	a->tgid = task->tgid;
	a->pad = 0;
	a->r = bpf_map_lookup_elem(&runtimes, &a->tgid);
	a->goroutine = a->r && a->r->is_marked ? go_at_probe(task, a->r, GO_G(regs)) : 0;
	a->now = bpf_ktime_get_ns();
	return a->goroutine != 0;
}

/* (*persistConn).roundTrip: the goroutine takes the connection that is its first argument. `.writeLoop`: the goroutine will write what the connection
 * that is its first argument is asked to. */
static __always_inline int go_probe(struct pt_regs *regs, bool takes)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 tgid = task->tgid;
	struct wp_runtime *r = bpf_map_lookup_elem(&runtimes, &tgid);
	struct owned_key writer = { .tgid = tgid }, conn = { .tgid = tgid };
	struct wp_logical who = {};
	struct go_owner owner;
	u64 waiter, parent;

	who.key = r ? go_at_probe(task, r, GO_G(regs)) : 0;
	if (!who.key)
		return 0;
	conn.of = GO_ARG1(regs);
	if (!takes) {
		writer.of = who.key;
		go_writes(&writer, conn.of);
		return 0;
	}
	owner.goroutine = who.key;
	owner.at = GO_G(regs);
	go_owns(&conn, &owner);
	/* it may be another goroutine that first acts in its name */
	parent = go_parent(r, owner.at);
	if (parent)
		go_born(tgid, &who, owner.at, parent, bpf_ktime_get_ns());
	/* the writer of a connection that is older than the probes waits for what to write */
	waiter = user_word(user_word(conn.of + r->conn_writes) + r->chan_waiters);
	if (waiter)
		writer.of = go_number(user_word(waiter + r->waiter_g), r);
	if (writer.of)
		go_writes(&writer, conn.of);
	return 0;
}

/* gostartcallfn, on the scheduler's stack: the thread's goroutine makes another, whose `sched` is the first argument. */
static __always_inline int go_makes(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owned_key key = { .tgid = task->tgid };
	struct wp_runtime *r = bpf_map_lookup_elem(&runtimes, &key.tgid);
	struct go_birth *maker, *made;
	u64 m, at, number;
	u32 i;

	if (!r || r->kind != RUNTIME_GO || is_refuted(r))
		return 0;
	m = user_word(GO_G(regs) + r->g_m);
	if (user_word(m + r->m_procid) != own_number(task)) {
		__sync_fetch_and_add(&r->refuted, 1);
		return 0;
	}
	at = user_word(m + r->m_curg);
	number = go_number(at, r);
	maker = at ? go_birth(key.tgid, at, number, go_parent(r, at)) : 0;
	key.of = GO_ARG1(regs) - r->g_sched;
	made = go_birth_over(&key);
	if (!made)
		return 0;
	made->goroutine = 0;
	made->born = bpf_ktime_get_ns();
	made->has_made = 0;
	made->makers[0] = number;
	made->born_makers[0] = maker ? maker->born : 0;
#pragma unroll
	for (i = 1; i < MAKERS_MAX; i++) {
		made->makers[i] = maker ? maker->makers[i - 1] : 0;
		made->born_makers[i] = maker ? maker->born_makers[i - 1] : 0;
	}
	if (maker)
		maker->has_made = 1;
	return 0;
}

/* goexit1: the thread's goroutine is done. */
static __always_inline int go_ends(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owned_key key = { .tgid = task->tgid, .of = GO_G(regs) };
	struct wp_runtime *r = bpf_map_lookup_elem(&runtimes, &key.tgid);
	struct go_birth *birth = r ? bpf_map_lookup_elem(&go_births, &key) : 0;
	struct wp_logical who = {};
	struct wp_ended *told;
	u64 position, now;

	if (!birth || (!birth->goroutine && !birth->has_made))
		return 0;
	who.key = go_at_probe(task, r, key.of);
	if (!who.key)
		return 0;
	now = bpf_ktime_get_ns();
	go_born(key.tgid, &who, key.of, go_parent(r, key.of), now);
	if (!who.born_ns)
		return 0;
	told = reserve(this_cpu(), sizeof(*told), DROP_TASK, &position);
	if (!told)
		return 0;
	told->ts_ns = now;
	told->tgid = key.tgid;
	told->pad = 0;
	told->key = who.key;
	told->parent = who.parent;
	told->born_ns = who.born_ns;
	commit(told, position, sizeof(*told), KIND_ENDED, RUNTIME_GO);
	return 0;
}

RUNTIME_PROBE(on_go_takes, go_probe(regs, true))
RUNTIME_PROBE(on_go_writes, go_probe(regs, false))
RUNTIME_PROBE(on_go_makes, go_makes(regs))
RUNTIME_PROBE(on_go_ends, go_ends(regs))

/* A context or greenlet was made at `at`: by the one that the thread runs in, or of none. */
static __always_inline int python_made(u64 at, bool is_of_one)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owned_key key = { .tgid = task->tgid };
	struct wp_runtime *r = bpf_map_lookup_elem(&runtimes, &key.tgid);
	struct python_context *maker = 0, *made;
	struct owned_key thread = {};
	u64 now, first = 0;
	u32 i;

	if (!r || r->kind != RUNTIME_PYTHON || is_refuted(r) || !at)
		return 0;
	now = bpf_ktime_get_ns();
	if (is_of_one) {
		key.of = python_context(task, r);
		thread.tgid = key.tgid;
		thread.of = task->pid;
		first = key.of ? uv_reader(&thread, r, key.of) : 0;
	}
	if (is_of_one && key.of && !first)
		maker = bpf_map_lookup_elem(&python_contexts, &key);
	if (maker && !maker->id) /* the loop's own */
		maker = 0;
	key.of = at;
	made = python_context_over(&key);
	if (!made)
		return 0;
	made->id = made->born = now;
	made->acted = 0;
	made->makers[0] = maker ? maker->id : first;
#pragma unroll
	for (i = 1; i < MAKERS_MAX; i++)
		made->makers[i] = maker ? maker->makers[i - 1] : 0;
	return 0;
}

RUNTIME_RETURN_PROBE(on_python_copies, python_made(RESULT(regs), true))
RUNTIME_RETURN_PROBE(on_python_makes, python_made(RESULT(regs), false))
/* UserGreenlet's constructor, whose second argument is the greenlet that Python sees */
RUNTIME_PROBE(on_greenlet_makes, python_made(ARG2(regs), true))

/* The layout of an object of uvloop's for a connection, and of libuv's behind it, the same in all versions that were tried. Held together by
 * words that point to themselves or back: of any other object they do not. */
#define UV_HANDLE 24	 /* object -> libuv's uv_stream_t */
#define UV_DATA 0	 /* and back */
#define UV_KIND 16
#define UV_PIPE 7
#define UV_TCP 12
#define UV_DESCRIPTOR 184 /* io_watcher.fd */
#define UV_UNSENT 192	  /* write_queue: empty, it points to itself */
#define UV_COMPLETED 208 /* write_completed_queue: the same */

/* uvloop adds something to a set. A connection, if a task wrote on it: it is sent when the loop has come round. */
static __always_inline int uv_queues(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owned_key key = { .tgid = task->tgid };
	struct wp_runtime *r = bpf_map_lookup_elem(&runtimes, &key.tgid);
	u64 object = ARG2(regs), handle;
	struct wp_logical who = {};
	struct uv_connection *c;
	u32 kind;
	struct file *file;
	struct sock *sk;
	bool is_known;

	if (!r || r->kind != RUNTIME_PYTHON || !r->other_loop || is_refuted(r))
		return 0;
	handle = user_word(object + UV_HANDLE);
	if (!handle || user_word(handle + UV_DATA) != object || user_word(handle + UV_COMPLETED) != handle + UV_COMPLETED)
		return 0;
	kind = user_word(handle + UV_KIND);
	if (kind != UV_TCP && kind != UV_PIPE)
		return 0;
	file = file_at(task, (u32)user_word(handle + UV_DESCRIPTOR));
	sk = file ? sock_in(file) : 0;
	/* a socket that was used has its cookie */
	key.of = sk ? field(sk, __sk_common.skc_cookie.counter) : 0;
	if (!key.of)
		return 0;
	who.runtime = OP_SHUTDOWN;
	is_known = python_task(task, r, &who, key.of, bpf_ktime_get_ns());
	c = uv_connection(&key);
	if (!c)
		return 0;
	/* several wrote, or the next that is sent there is what is left of somebody's */
	if (!is_known || (c->is_queued && c->writer != who.key) || user_word(handle + UV_UNSENT) != handle + UV_UNSENT)
		who.key = 0;
	c->writer = who.key;
	c->maker = who.parent;
	c->born = who.born_ns;
	c->is_queued = 1;
	return 0;
}

/* uvloop leaves a context: with what it read last it is done. Where it goes on in another, that is one of its own, in which it calls all that
 * are due, and then sends what they wrote: until 0.22 so. */
static __always_inline int uv_leaves(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owned_key thread = { .tgid = task->tgid, .of = task->pid }, key = { .tgid = task->tgid };
	struct uv_read *reading = bpf_map_lookup_elem(&uv_reading, &thread), nothing = {};
	struct wp_runtime *r = bpf_map_lookup_elem(&runtimes, &key.tgid);
	struct python_context *loops = 0;
	u64 context = 0;

	if (r && r->kind == RUNTIME_PYTHON && r->other_loop && !is_refuted(r)) {
		context = python_context(task, r);
		key.of = context ? outer_context(r, context) : 0;
		loops = key.of ? python_context_over(&key) : 0;
	}
	if (loops)
		loops->id = 0;

	if (!reading) {
		bpf_map_update_elem(&uv_reading, &thread, &nothing, BPF_ANY);
		return 0;
	}
	if (reading->reader) {
		/* of many the older count for less, so that none overflows */
		if ((reading->nested | reading->alone) >> 30) {
			reading->nested >>= 1;
			reading->alone >>= 1;
		}
		reading->nested += !!loops;
		reading->alone += context && !loops;
	}
	reading->reader = 0;
	return 0;
}

RUNTIME_PROBE(on_uvloop_queues, uv_queues(regs))
RUNTIME_PROBE(on_uvloop_leaves, uv_leaves(regs))

#endif
