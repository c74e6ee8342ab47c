/* Probes where Go parks goroutines, makes them ready, and runs them again (`record --runtimes=go-waits`): what a goroutine waits for
 * that no thread waits for. Not where it waits for a connection: that wait ends with an operation. */
#ifndef WAKEPATH_GO_WAITS_H
#define WAKEPATH_GO_WAITS_H

/* A goroutine that is parked. */
struct go_parked {
	u64 blocked;
	u64 woken;
	u64 by;
	u32 tid;
	u32 why;
};

/* By its number. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, struct owned_key);
	__type(value, struct go_parked);
} go_parked SEC(".maps");

/* What the runtime's number for a reason means: one of PARK_…. */
static __always_inline u32 park_of(struct wp_runtime *r, u8 reason)
{
	for (u32 why = PARK_SELECT; why <= PARK_WRITE_LOCK; why++) {
		if ((u8)(r->park_reasons >> 8 * (why - PARK_SELECT)) == reason)
			return why;
	}
	return PARK_OTHER;
}

/* A call of gopark(…, …, reason): the goroutine stops here. */
static __always_inline int go_parks(struct pt_regs *regs)
{
	struct go_parked parked = {};
	struct owned_key key = {};
	struct go_at a;

	if (!go_at(regs, &a))
		return 0;
	key.tgid = a.tgid;
	key.of = a.goroutine;
	parked.blocked = a.now;
	parked.tid = bpf_get_current_task_btf()->pid;
	parked.why = park_of(a.r, GO_ARG3(regs));
	bpf_map_update_elem(&go_parked, &key, &parked, BPF_ANY);
	return 0;
}

/* ready(goroutine), on the scheduler's stack: the goroutine that the thread runs, if it runs any, made another one ready. */
static __always_inline int go_readies(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owned_key key = { .tgid = task->tgid };
	struct wp_runtime *r = bpf_map_lookup_elem(&runtimes, &key.tgid);
	struct go_parked *parked;
	u64 m, by;

	if (!r || r->kind != RUNTIME_GO || is_refuted(r))
		return 0;
	m = user_word(GO_G(regs) + r->g_m);
	if (user_word(m + r->m_procid) != own_number(task)) {
		__sync_fetch_and_add(&r->refuted, 1);
		return 0;
	}
	key.of = go_number(GO_ARG1(regs), r);
	parked = key.of ? bpf_map_lookup_elem(&go_parked, &key) : 0;
	if (!parked)
		return 0;
	by = user_word(m + r->m_curg);
	parked->by = by ? go_number(by, r) : 0;
	parked->woken = bpf_ktime_get_ns();
	return 0;
}

/* Behind a call of gopark: the goroutine runs again. */
static __always_inline int go_resumes(struct pt_regs *regs)
{
	struct go_parked *parked;
	struct owned_key key = {};
	struct wp_park *told;
	struct go_at a;
	u64 position;

	if (!go_at(regs, &a))
		return 0;
	key.tgid = a.tgid;
	key.of = a.goroutine;
	parked = bpf_map_lookup_elem(&go_parked, &key);
	/* one that was parked before the probes came */
	if (!parked || !parked->blocked)
		return 0;
	told = reserve(this_cpu(), sizeof(*told), DROP_WAIT, &position);
	if (told) {
		told->ts_ns = a.now;
		told->blocked_ns = parked->blocked;
		told->woken_ns = parked->woken;
		told->key = a.goroutine;
		told->by = parked->by;
		told->tgid = a.tgid;
		told->from_tid = parked->tid;
		told->tid = bpf_get_current_task_btf()->pid;
		told->why = parked->why;
		commit(told, position, sizeof(*told), KIND_PARK, RUNTIME_GO);
	}
	/* nobody else knows its number while it runs */
	parked->blocked = 0;
	return 0;
}

RUNTIME_PROBE(on_go_parks, go_parks(regs))
RUNTIME_PROBE(on_go_readies, go_readies(regs))
RUNTIME_PROBE(on_go_resumes, go_resumes(regs))

#endif
