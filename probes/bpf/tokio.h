/* Tokio: which task a worker thread polls. With probes where tasks are woken (`record --runtimes=tokio`) also which task set another one going
 * that sends for it, as clients do that have a task for each connection. */
#ifndef WAKEPATH_TOKIO_H
#define WAKEPATH_TOKIO_H

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

#define TOKIO_WAKERS 3

/* Who woke a task since it was idle. */
struct tokio_woken {
	/* What describes its kind: the same for all tasks of one future's type. */
	u64 of;
	/* The tasks that did, 0 where none did, as the driver of sockets and timers; when; and where in the program. */
	u64 by[TOKIO_WAKERS];
	u64 at[TOKIO_WAKERS];
	u64 site[TOKIO_WAKERS];
	u32 count;
	/* Others may have too, or it sent already. */
	u32 is_over;
	/* What it wanted to send had to wait, so that its next bytes may be older than who woke it. */
	u32 is_held;
	/* It sent what another task had woken it for. */
	u32 has_sent;
	/* Which task made it, and when; 0 where that was not seen. */
	u64 maker;
	u64 made;
	/* Another task woke it. */
	u32 is_anyones;
	/* It did something; first of all it received. */
	u32 has_acted;
	u32 is_asked;
};

/* By its number. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct owned_key);
	__type(value, struct tokio_woken);
} tokio_woken SEC(".maps");

/* A task was noted: without probes none is, and no operation need look. */
u32 tokio_is_noted SEC(".data") = 0;

/* Tasks that are loops of threads, which wait for descriptors. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct owned_key);
	__type(value, u8);
} tokio_loops SEC(".maps");

/* In what describes a way to set a task going: it was made. */
#define TOKIO_BORN 1

/* A task was woken by another: told where it sends, and where a task that sends for others resumes one. */
static __noinline int tokio_hands_over(struct owned_key *to, u64 from, u64 of, u64 sent, u64 now)
{
	struct wp_handover *r;
	u64 position;

	if (!to)
		return 0;
	r = reserve(this_cpu(), sizeof(*r), DROP_TASK, &position);
	if (!r)
		return 0;
	r->ts_ns = now;
	r->sent_ns = r->first_ns = sent;
	r->tgid = to->tgid;
	r->flags = sent == now ? HANDOVERF_EMPTY : 0;
	r->to = to->of;
	r->from = from;
	/* whom somebody made had nothing from anybody before */
	r->first = of & TOKIO_BORN ? 0 : from;
	r->of = of;
	commit(r, position, sizeof(*r), KIND_HANDOVER, RUNTIME_TOKIO);
	return 0;
}

/* A task acts. It sends for one of those that woke it since it was idle; or for the one that made it, if no other task ever woke it. */
__noinline int tokio_acts(u32 tgid, u64 number, u64 now, u32 op)
{
	struct owned_key key = { .tgid = tgid, .of = number };
	struct tokio_woken *w = tokio_is_noted ? bpf_map_lookup_elem(&tokio_woken, &key) : 0;

	if (!w)
		return 0;
	if (!w->has_acted) {
		w->has_acted = 1;
		w->is_asked = op == OP_RECV;
	}
	if (op != OP_SEND)
		return 0;
	if (w->maker && !w->is_asked)
		tokio_hands_over(&key, w->is_anyones ? 0 : w->maker, w->of | TOKIO_BORN, w->made, now - 1);
	if (!w->is_over && !w->is_held) {
		w->has_sent = 1;
		/* before the operation, of which rows have the same time */
		for (u32 i = 0; i < TOKIO_WAKERS && i < w->count; i++)
			tokio_hands_over(&key, w->by[i], w->of ^ w->site[i] << 20, w->at[i], now - 1);
	}
	w->is_over = 1;
	w->is_held = 0;
	return 0;
}

static __always_inline bool tokio_task(struct task_struct *task, struct wp_runtime *r, struct wp_logical *who, u64 flow)
{
	if (!r->tls) {
		sample_local_words(task, r, flow);
		return false;
	}
	/* a thread's loop is nobody's work, though it may be a task itself */
	who->key = user_word(THREAD_POINTER(task) + (s64)r->tls);
	if (who->key >= TOKIO_TASK_MAX) {
		__sync_fetch_and_add(&r->refuted, 1);
		return false;
	}
	if (r->is_marked && who->key && !flow) {
		struct owned_key loop = { .tgid = task->tgid, .of = who->key };
		const u8 is_one = 1;

		if (!bpf_map_lookup_elem(&tokio_loops, &loop))
			bpf_map_update_elem(&tokio_loops, &loop, &is_one, BPF_ANY);
	}
	return who->key && flow;
}

/* A send had no room: what is sent next may have waited since. */
__noinline int tokio_is_held(s32 ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owned_key key = { .tgid = task->tgid };
	struct wp_runtime *r = ret == -EAGAIN && runtime_processes ? bpf_map_lookup_elem(&runtimes, &key.tgid) : 0;
	struct tokio_woken *w;

	if (!r || r->kind != RUNTIME_TOKIO || !r->is_marked || !r->tls)
		return 0;
	key.of = user_word(THREAD_POINTER(task) + (s64)r->tls);
	w = bpf_map_lookup_elem(&tokio_woken, &key);
	if (w)
		w->is_held = 1;
	return 0;
}

/* The header of a task: its state, the next one of a queue, and the address of what describes its kind. That has, behind nine words, how far
 * after the header its number is. */
#define TOKIO_NUMBER_AT 72
#define TOKIO_NUMBER_FAR 4096
#define TOKIO_RUNS_OR_IS_DONE 3
#define TOKIO_IS_DONE 2
#define TOKIO_NOTIFIED 4
#define TOKIO_AT_ONCE_NS 20000

/* Notes who woke a task, by what place in the program. */
static __always_inline void tokio_notes(struct tokio_woken *w, u64 by, u64 site, u64 now)
{
	u32 i;

	for (i = 0; i < TOKIO_WAKERS && i < w->count; i++) {
		if (w->by[i] == by && w->site[i] == site)
			return;
	}
	if (i >= TOKIO_WAKERS) {
		w->is_over = 1;
		return;
	}
	w->by[i] = by;
	w->at[i] = now;
	w->site[i] = site;
	w->count = i + 1;
}

/* What a probe finds. */
struct tokio_at {
	/* The task that the thread runs, 0 where it is none, or its loop; and what is known of it. */
	u64 by;
	struct tokio_woken *waker;
	/* The other one's header, and its number. */
	u64 header[3];
	struct owned_key key;
	u64 now;
};

static __always_inline bool tokio_at(u64 header, struct tokio_at *a)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct wp_runtime *r;
	struct owned_key waker = { .tgid = task->tgid };
	u64 far;

	a->key = waker;
	r = bpf_map_lookup_elem(&runtimes, &waker.tgid);
	if (!r || r->kind != RUNTIME_TOKIO || !r->is_marked || !r->tls || is_refuted(r))
		return false;
	if (bpf_probe_read_user(a->header, sizeof(a->header), (void *)header) || a->header[0] & TOKIO_IS_DONE)
		return false;
	far = user_word(a->header[2] + TOKIO_NUMBER_AT);
	waker.of = a->by = user_word(THREAD_POINTER(task) + (s64)r->tls);
	if (far > TOKIO_NUMBER_FAR || a->by >= TOKIO_TASK_MAX)
		return false;
	a->key.of = user_word(header + far);
	if (!a->key.of || a->key.of >= TOKIO_TASK_MAX || a->key.of == a->by)
		return false;
	a->now = bpf_ktime_get_ns();
	if (a->by && bpf_map_lookup_elem(&tokio_loops, &waker))
		a->by = 0;
	a->waker = a->by ? bpf_map_lookup_elem(&tokio_woken, &waker) : 0;
	return true;
}

/* wake_by_val and wake_by_ref of a task's waker: somebody wakes the task whose header is the first argument. */
static __always_inline int tokio_wakes(struct pt_regs *regs)
{
	struct tokio_woken *w, first = { .is_over = 1 };
	struct tokio_at a = {};

	if (!tokio_at(ARG1(regs), &a))
		return 0;
	w = bpf_map_lookup_elem(&tokio_woken, &a.key);
	if (!w) {
		first.of = a.header[2];
		tokio_is_noted = 1;
		bpf_map_update_elem(&tokio_woken, &a.key, &first, BPF_ANY);
		w = bpf_map_lookup_elem(&tokio_woken, &a.key);
		if (!w)
			return 0;
	}
	/* another processor may wake it at the same time, which found it idle, too */
	if (!(a.header[0] & (TOKIO_RUNS_OR_IS_DONE | TOKIO_NOTIFIED)) && (w->is_over || a.now - w->at[0] > TOKIO_AT_ONCE_NS))
		w->count = w->is_over = 0;
	tokio_notes(w, a.by, CALLED_AT(regs), a.now);
	w->is_anyones |= a.by != 0;
	/* who sends for others resumes them */
	if (a.waker && a.waker->has_sent)
		tokio_hands_over(&a.key, a.by, a.waker->of, a.now, a.now);
	return 0;
}

/* schedule_option_task_without_yield(…, header): the thread's task made another. */
static __always_inline int tokio_spawns(struct pt_regs *regs)
{
	struct tokio_woken made = { .is_over = 1 };
	struct tokio_at a = {};

	if (!ARG2(regs) || !tokio_at(ARG2(regs), &a) || !a.by)
		return 0;
	made.of = a.header[2];
	made.maker = a.by;
	made.made = a.now;
	tokio_is_noted = 1;
	bpf_map_update_elem(&tokio_woken, &a.key, &made, BPF_ANY);
	return 0;
}

RUNTIME_PROBE(on_tokio_wakes, tokio_wakes(regs))
RUNTIME_PROBE(on_tokio_spawns, tokio_spawns(regs))

#endif
