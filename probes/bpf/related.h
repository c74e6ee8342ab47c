/* Which waits are recorded where tasks are selected: those of the selected, and of those who let them go on. A neighbour's wait
 * stays in its state, and is written when that task wakes a selected one; so are its next waits, since who did so once often does
 * so again. Who had the processor that a selected task waited for is told by name, without that one's own waits. */
#ifndef WAKEPATH_RELATED_H
#define WAKEPATH_RELATED_H

/* `told` of a task that is not watched: its name is written; its end is to be. */
#define TOLD_NAME 1
#define TOLD_LIFE 2

/* Writes who a task is that a record is about to name: forks and programs of those who are not watched are not recorded. */
static __always_inline void tell_task(struct task_struct *task, struct task_state *t)
{
	u64 position;
	struct wp_task *r;

	if (t->told & TOLD_NAME)
		return;
	r = reserve(this_cpu(), sizeof(*r), DROP_OTHERS, &position);
	if (!r)
		return;
	fill_task(r, task, bpf_ktime_get_ns());
	commit(r, position, sizeof(*r), KIND_TASK, TASK_SNAPSHOT);
	t->told |= TOLD_NAME | TOLD_LIFE;
}

/* A task that is not watched got another name: the next record that names it tells that. */
static __always_inline void forget_name(struct task_state *t)
{
	if (t)
		t->told &= ~TOLD_NAME;
}

/* Whether a step in a task's life is recorded. */
static __always_inline bool is_life_told(struct task_struct *task, struct task_state *t)
{
	return cfg_watch_all || (t && (is_watched(t, task) || t->told & TOLD_LIFE));
}

/* Whether a task's waits are written as they end. */
static __always_inline bool is_recorded(struct task_struct *task, struct task_state *t)
{
	return cfg_watch_all || t->related || is_watched(t, task);
}

/* A task that is not watched had a processor. */
struct stay {
	u64 from;
	u64 to; /* 0 = none yet */
	u32 tid;
	u32 tgid;
	u32 told;
	/* of one that ended then, and so cannot be asked any more: flags, and the rest; else 0 */
	u32 ended;
	u64 start_ns;
	u64 cgroup;
	char comm[16];
};
_Static_assert(sizeof(struct stay) == 64, "one cache line");

/* The last stays on a processor. */
struct history {
	u32 next;
	u32 pad[15];
	struct stay stays[STAYS];
};

/* One a processor: the loader sets how many. Mapped by nobody: the flag aligns it to a page. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct history);
} histories SEC(".maps");

/* Keeps that `prev` had this processor until now. */
static __always_inline void note_stay(struct cpu_state *c, struct task_struct *prev, struct task_state *t, u64 now, bool ends)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct history *h = bpf_map_lookup_elem(&histories, &cpu);
	struct stay *s;

	if (!h || !c->came_ns)
		return;
	s = &h->stays[h->next & (STAYS - 1)];
	s->from = c->came_ns;
	s->tid = prev->pid;
	s->tgid = prev->tgid;
	s->told = 0;
	s->ended = 0;
	if (ends && t && !(t->told & TOLD_NAME)) {
		s->ended = 1 | (prev->flags & PF_KTHREAD);
		s->start_ns = prev->start_time;
		s->cgroup = field(prev, cgroups, dfl_cgrp, kn, id);
		bpf_probe_read_kernel(s->comm, sizeof(s->comm), prev->comm);
	}
	/* last: another processor may look */
	store_ordered(&s->to, now);
	h->next++;
}

/* Names a task that had a processor; nothing is done where it was named before. */
static __always_inline void tell_holder(const struct stay *s, u64 now)
{
	struct task_state *t;
	struct wp_task *r;
	u64 position;

	if (!s->ended) {
		t = slot_of(s->tid);
		if (t && t->owner && !(t->told & TOLD_NAME)) {
			struct task_struct *task = (struct task_struct *)t->owner;

			/* its slot may be another's by now */
			if (BPF_CORE_READ(task, pid) != s->tid)
				return;
			r = reserve(this_cpu(), sizeof(*r), DROP_OTHERS, &position);
			if (!r)
				return;
			r->ts_ns = now;
			r->start_ns = BPF_CORE_READ(task, start_time);
			r->cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
			r->tgid = s->tgid;
			r->tid = s->tid;
			r->flags = BPF_CORE_READ(task, flags);
			r->parent_tid = 0;
			r->parent_tgid = 0;
			r->cmdline_bytes = 0;
			BPF_CORE_READ_INTO(&r->comm, task, comm);
			commit(r, position, sizeof(*r), KIND_TASK, TASK_SNAPSHOT);
			t->told |= TOLD_NAME | TOLD_LIFE;
		}
		return;
	}
	r = reserve(this_cpu(), sizeof(*r), DROP_OTHERS, &position);
	if (!r)
		return;
	r->ts_ns = now;
	r->start_ns = s->start_ns;
	r->cgroup = s->cgroup;
	r->tgid = s->tgid;
	r->tid = s->tid;
	r->flags = s->ended & PF_KTHREAD;
	r->parent_tid = 0;
	r->parent_tgid = 0;
	r->cmdline_bytes = 0;
	__builtin_memcpy(r->comm, s->comm, sizeof(r->comm));
	commit(r, position, sizeof(*r), KIND_TASK, TASK_SNAPSHOT);
}

static __always_inline bool emit_stay(const struct stay *s, u32 cpu, u64 now)
{
	u64 position;
	struct wp_stay *r = reserve(this_cpu(), sizeof(*r), DROP_OTHERS, &position);

	if (!r)
		return false;
	r->ts_ns = now;
	r->from_ns = s->from;
	r->to_ns = s->to;
	r->tid = s->tid;
	r->tgid = s->tgid;
	r->cpu = cpu;
	r->pad = 0;
	commit(r, position, sizeof(*r), KIND_STAY, 0);
	return true;
}

/* Tells one stay, where it was not told before; 0: it was over at `since`, or found no room, and so no more need be looked at. Not
 * static: verified once, by itself, and not at each place of the loop. */
__noinline int tell_stay(u32 cpu, u32 at, u64 since, u64 now)
{
	struct history *h;
	struct stay *kept, s;

	if (cpu >= MAX_CPUS)
		return 0;
	h = bpf_map_lookup_elem(&histories, &cpu);
	if (!h)
		return 0;
	kept = &h->stays[at & (STAYS - 1)];
	if (load_ordered(&kept->to) <= since)
		return 0;
	if (kept->told)
		return 1;
	s = *kept;
	/* its processor may be at this place again */
	if (s.to <= since || load_ordered(&h->next) - at > STAYS - 2)
		return 0;
	tell_holder(&s, now);
	if (!emit_stay(&s, cpu, now))
		return 0;
	kept->told = 1;
	return 1;
}

/* Tells who has another processor yet. */
__noinline int tell_unfinished_stay(u32 cpu, u64 now)
{
	struct cpu_state *c = &cpus[cpu & (MAX_CPUS - 1)];
	struct stay s = {};

	s.tid = c->on_tid;
	s.tgid = c->on_tgid;
	s.from = c->came_ns;
	s.to = now;
	if (s.tid && s.from < now) {
		tell_holder(&s, now);
		emit_stay(&s, cpu, now);
	}
	return 0;
}

/* Tells who had a processor since a moment, as far as that was not told before. Verified once. */
__noinline int tell_stays(u32 cpu, u64 since, u64 now)
{
	struct history *h = bpf_map_lookup_elem(&histories, &cpu);
	u32 i, at;

	if (!h)
		return 0;
	if (cpu != bpf_get_smp_processor_id())
		tell_unfinished_stay(cpu, now);
	at = load_ordered(&h->next);
	for (i = 0; i < STAYS; i++) {
		if (!tell_stay(cpu, --at, since, now))
			break;
	}
	return 0;
}

#endif
