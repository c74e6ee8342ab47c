/* Switches of tasks: one leaves a processor, and another comes onto it, whose wait ends. */
#ifndef WAKEPATH_SWITCHES_H
#define WAKEPATH_SWITCHES_H

/* The program's own stack where the current task goes to sleep. Its pages are read without waiting for any: a frame that
 * is not in memory cuts the stack there. The kernel keeps each stack once and says which one this is. */
static __always_inline s32 stack_now(void *ctx, struct task_state *t, struct task_struct *task)
{
	if (!is_watched(t, task))
		return NO_STACK;
	return bpf_get_stackid(ctx, &stacks, BPF_F_USER_STACK);
}

static __always_inline void fill_stack(struct wp_stack *r, struct task_struct *task, struct task_state *t, u64 now)
{
	r->ts_ns = now;
	r->blocked_ns = t->blocked_ns;
	r->image = field(task, mm, start_stack);
	r->tgid = task->tgid;
	r->tid = task->pid;
	r->id = t->stack;
	r->syscall = t->syscall;
	r->pad = 0;
}

/* One that finds no room counts as a wait that found none. */
static __always_inline void emit_stack(struct task_struct *task, struct task_state *t, u64 now, u8 cause)
{
	u64 position;
	struct wp_stack *r = reserve(this_cpu(), sizeof(*r), DROP_WAIT, &position);

	if (!r)
		return;
	fill_stack(r, task, t, now);
	commit(r, position, sizeof(*r), KIND_STACK, cause);
}

/* Who had the processor while a task was ready to run, here and where it had lost one. */
static __always_inline void tell_who_had_it(struct task_state *t, u64 woken, u64 now)
{
	u32 here = bpf_get_smp_processor_id();
	u64 since = t->state && woken > t->blocked_ns ? woken : t->blocked_ns;

	/* nobody told of its waking */
	if (t->state && !woken)
		return;
	tell_stays(here, since, now);
	if (!t->state && t->cpu != here)
		tell_stays(t->cpu, since, now);
}

/* The task came onto this processor at `now`. */
static __always_inline void came(struct task_struct *task, struct task_state *t, u64 now)
{
	bool is_own = cfg_watch_all || is_watched(t, task);
	u8 cause;

	if (is_own || t->related) {
		if (!is_own)
			t->related--;
		cause = emit_wait(task, t, t->blocked_ns, t->woken_ns, now, is_own ? DROP_WAIT : DROP_OTHERS);
		if (cfg_stacks && t->stack != NO_STACK)
			emit_stack(task, t, now, cause);
		if (!cfg_watch_all)
			tell_who_had_it(t, t->woken_ns, now);
	} else {
		this_cpu()->unrecorded++;
		t->unwritten = t->unwritten ? 2 : 1;
	}
	if (!cfg_watch_all) {
		t->came_ns = now;
		t->slept_ns = t->blocked_ns;
		t->ready_ns = t->woken_ns;
	}
	t->blocked_ns = RUNS;
	t->woken_ns = 0;
}

/* Some kernels tell nothing of the switches of some tasks, and so not of who comes after them. Such a one goes now: it
 * came where the processor time that it used since begins. Only the fair class keeps that: others came when they were
 * woken. */
static __noinline int came_unseen(struct cpu_state *c, struct task_struct *task, struct task_state *t, u64 now)
{
	u64 ran = ~0ULL, since = t->blocked_ns;

	if (t->state && t->woken_ns > since)
		since = t->woken_ns;
	if (bpf_core_field_exists(task->se.prev_sum_exec_runtime))
		ran = task->se.sum_exec_runtime - task->se.prev_sum_exec_runtime;
	came(task, t, ran < now - since ? now - ran : since);
	if (cfg_watch_all || is_watched(t, task))
		lost(c, DROP_WAIT_END);
	return 0;
}

/* Whether the kernel keeps a task that could run off the processor, since a cgroup of it has used up its quota. */
static __always_inline u8 is_throttled(struct task_struct *task)
{
	if (!bpf_core_field_exists(((struct cfs_rq *)0)->throttle_count) ||
	    !bpf_core_field_exists(((struct sched_entity *)0)->cfs_rq))
		return 0;
	return field(task, se.cfs_rq, throttle_count) > 0;
}

#define AMID_TIMER 0x80

/* The state of a task that leaves its processor, 0 where it has none. Never allocated here: the run queue's lock is held, and an
 * allocation may wake a task that needs it. The fork makes it, and the iterator for whoever was there before; where the kernel left
 * the fork's program out (it was preempted in another's), a free slot will do. */
static __always_inline struct task_state *state_of_leaving(struct cpu_state *c, struct task_struct *prev, bool is_dead)
{
	struct task_state *t = state_of(prev);

	if (!t && !is_dead) {
		t = claim_slot(prev);
		if (!t)
			lost(c, cfg_watch_all ? DROP_WAIT : DROP_OTHERS);
	}
	return t;
}

/* Where no program sees a call begin: one that polls began, as far as is told, when it first slept; one that sends, when what it sent was
 * there to read. See entry_of(). */
static __always_inline void note_first_sleep(struct task_struct *task, struct task_state *t, u64 number)
{
	u8 class = class_of(number);
	u64 ready;

	if ((!is_poll(class) && !is_send(class)) || entered_classes >> class & 1 || (t->entered_ns && t->entered_in == number))
		return;
	ready = is_send(class) ? own_ready(this_cpu(), task) : 0;
	t->entered_ns = ready ? ready : t->blocked_ns;
	t->entered_in = number;
	t->entered_by = ENTERED_SLEPT;
}

/* Where in its program a task goes to sleep. */
static __always_inline void note_sleep(void *ctx, struct task_struct *prev, struct task_state *t)
{
	struct pt_regs *regs = regs_of(prev);

	t->syscall = recorded_call(regs);
	t->arg0 = slept_with(t->syscall, regs);
	if (cfg_calls)
		note_first_sleep(prev, t, call_number(regs));
	if (t->syscall == FUTEX_CALL)
		t->rcv_seq = is_recorded(prev, t) ? lock_slept_for(prev, regs) : 0;
	else if (is_file_call(t->syscall))
		t->rcv_seq = is_recorded(prev, t) ? file_slept_for(prev, t->arg0) : 0;
	if (cfg_stacks)
		t->stack = stack_now(ctx, t, prev);
}

/* A task leaves its processor to `next`: its wait begins. `state`: what it sleeps in, 0 = it could run on. */
static __always_inline void leave(void *ctx, struct task_struct *prev, struct task_state *t, struct task_struct *next, u32 state, u8 amid,
				  u64 now)
{
	/* a signal is pending for who is to be frozen: only in the freezer itself it can sleep so */
	if (state & TASK_INTERRUPTIBLE && field(prev, jobctl) & JOBCTL_TRAP_FREEZE)
		state |= TASK_FROZEN;
	t->state = state & 0xffff;
	/* behind the state: a waking on another processor looks at both */
	store_ordered(&t->blocked_ns, now);
	t->syscall = NO_SYSCALL;
	t->amid = amid;
	t->runtime = runtime_processes && !(prev->flags & PF_KTHREAD) ? leaves_in_name_of(prev, t) : 0;
	if (cfg_stacks)
		t->stack = NO_STACK;
	if (!state) {
		t->by_tid = next->pid;
		t->woken_ns = 0;
		t->throttled = is_throttled(prev);
	} else if (!(prev->flags & PF_KTHREAD)) {
		note_sleep(ctx, prev, t);
	}
	/* whoever reads what was sent may take the processor from who sent it */
	if (cfg_calls && !state && this_cpu()->own_ready_ns && !(prev->flags & PF_KTHREAD))
		note_first_sleep(prev, t, call_number(regs_of(prev)));
}

/* Where tasks are selected: keeps that a task had this processor. Whether it is selected, and could run on. */
static __always_inline bool note_left(struct cpu_state *c, struct task_struct *prev, struct task_state *t, bool is_dead, u64 now)
{
	bool is_own = t && is_watched(t, prev);

	if (t)
		t->cpu = bpf_get_smp_processor_id();
	if (!is_own)
		note_stay(c, prev, t, now, is_dead);
	if (!is_own && (!t || !t->related))
		c->others_ns += now - c->came_ns;
	return is_own && t->state == 0;
}

/* A task comes onto this processor. `is_named`: a record of who left it will name this task. */
static __always_inline void come(struct cpu_state *c, struct task_struct *next, bool is_named, u64 now)
{
	struct task_state *t = state_of(next);

	if (is_named && t && !is_watched(t, next))
		tell_task(next, t);
	if (t && t->blocked_ns > RUNS) {
		came(next, t, now);
		if (t->amid) {
			c->softirq = t->amid & ~AMID_TIMER;
			c->timer = t->amid >> 7;
			t->amid = 0;
		}
	} else if (t) {
		if (t->blocked_ns == RUNS)
			lost(c, cfg_watch_all || is_watched(t, next) ? DROP_SWITCH : DROP_OTHERS);
		t->blocked_ns = RUNS;
	}
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	u64 now = bpf_ktime_get_ns();
	struct cpu_state *c = this_cpu();
	struct task_state *t;
	bool leaves_own = false, is_dead = prev_state & TASK_DEAD;
	u8 amid = c->softirq | (c->timer ? AMID_TIMER : 0);

	clear_marks(c);
	c->reported = 0;
	/* with PREEMPT_RT softirqs and timers run in tasks and are preempted with them: what comes next is not in them */
	if (amid)
		c->softirq = c->timer = 0;
	if (prev->pid && prev->tgid != cfg_agent_tgid) {
		t = state_of_leaving(c, prev, is_dead);
		if (t && t->blocked_ns > RUNS)
			came_unseen(c, prev, t, now);
		/* a task on its way to sleep that is preempted is still to run */
		if (t)
			leave(ctx, prev, t, next, preempt ? 0 : prev_state, amid, now);
		if (!cfg_watch_all)
			leaves_own = note_left(c, prev, t, is_dead, now);
		/* it does not come again */
		if (t && t->state & TASK_DEAD)
			leave_slot(t, prev);
	} else if (!cfg_watch_all && prev->pid) {
		note_stay(c, prev, 0, now, false);
	}
	if (!cfg_watch_all) {
		c->came_ns = now;
		c->on_tid = next->pid;
		c->on_tgid = next->tgid;
	}
	if (next->pid && next->tgid != cfg_agent_tgid)
		come(c, next, leaves_own, now);
	c->own_ready_ns = 0;
	return 0;
}

#endif
