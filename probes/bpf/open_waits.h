/* Waits that go on: those that began before the recording, and those that are not over when they are asked for. */
#ifndef WAKEPATH_OPEN_WAITS_H
#define WAKEPATH_OPEN_WAITS_H

/* What the kernel keeps beside the clock of its run queues, which began at another moment: read in the task that asks,
 * whose run that clock knows up to the last tick. */
static __always_inline u64 run_end(struct task_struct *task)
{
	return task->sched_info.last_arrival + task->se.sum_exec_runtime - task->se.prev_sum_exec_runtime;
}

/* When a task that sleeps went to sleep; `now` where the kernel keeps nothing that would tell. Only the fair class keeps
 * how long the last run was. */
static __always_inline u64 asleep_since(struct task_struct *task, u64 now)
{
	struct task_struct *here = bpf_get_current_task_btf();
	u64 ago;

	if (!bpf_core_field_exists(task->sched_info.last_arrival) ||
	    !bpf_core_field_exists(task->se.prev_sum_exec_runtime) || task->prio < MAX_RT_PRIO ||
	    here->prio < MAX_RT_PRIO)
		return now;
	ago = run_end(here) - run_end(task);
	return (s64)ago < 0 ? now : ago < now ? now - ago : 1;
}

static __always_inline u32 sleeps_in(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return BPF_CORE_READ((struct task_struct___old *)task, state);
}

/* A task of a program that slept before the programs came, and was not seen since: its wait began then. What was seen goes
 * before, so each word is only set where it is still as it was made. */
static __always_inline void adopt_wait(struct task_struct *task, struct task_state *t, u64 now)
{
	u32 state = sleeps_in(task);
	struct pt_regs *regs;
	u64 since, word;
	u16 syscall;

	if (!state || (state & TASK_DEAD) || task->on_cpu || task->on_rq || (task->flags & PF_KTHREAD))
		return;
	since = asleep_since(task, now);
	regs = regs_of(task);
	syscall = recorded_call(regs);
	if (cfg_stacks)
		t->stack = NO_STACK;
	/* syscall, woken_cpu, state, cause and amid */
	word = syscall | (u64)(state & 0xffff) << 32;
	if (__sync_val_compare_and_swap((u64 *)&t->syscall, 0, word))
		return;
	__sync_val_compare_and_swap(&t->arg0, 0, slept_with(syscall, regs));
	/* a lock's memory can be read by its own program alone */
	if (syscall == FUTEX_CALL)
		__sync_val_compare_and_swap(&t->rcv_seq, 0, own_futex(regs));
	__sync_val_compare_and_swap(&t->blocked_ns, 0, since > RUNS ? since : RUNS + 1);
}

/* Waits that go on: a hang is the most interesting of all. Read every few seconds and at the end; and once at the
 * start, to give a state to every task that has none, since on_switch may not. */
SEC("iter/task")
int open_waits(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_state *t;
	struct wp_wait r = {};
	struct wp_stack s = {};
	struct wp_wait_file name = {};
	struct file *file = 0;

	if (!task)
		return 0;
	learn_regs(task);
	t = state_of(task);
	/* who has ended needs none, and would never leave its slot */
	if (!t && !task->exit_state) {
		t = make_state(task);
		if (!t)
			lost(this_cpu(), DROP_WAIT);
	}
	if (!t)
		return 0;
	/* somebody who reads /proc may know it: then its end matters */
	t->told |= TOLD_LIFE;
	if (!*(volatile u64 *)&t->blocked_ns)
		adopt_wait(task, t, bpf_ktime_get_ns());
	if (has_io_uring(task) && is_watched(t, task))
		rings_used = 1;
	if (!cfg_watch_all && !t->related && !is_watched(t, task))
		return 0;
	r.blocked_ns = load_ordered(&t->blocked_ns);
	r.state = t->state;
	/* who is dead waits for nothing, nor does who runs without our having seen it come */
	if (r.blocked_ns <= RUNS || (r.state & TASK_DEAD) || task->on_cpu)
		return 0;
	r.head.bytes = sizeof(r);
	r.head.kind = KIND_WAIT;
	r.head.sub = !cfg_watch_all && t->unwritten ? CAUSE_OPEN | SUB_GAP : CAUSE_OPEN;
	r.arg0 = t->arg0;
	r.syscall = t->syscall;
	r.rcv_seq = r.syscall == FUTEX_CALL ? t->rcv_seq : 0;
	r.tid = task->pid;
	r.tgid = task->tgid;
	r.ts_ns = r.woken_ns = bpf_ktime_get_ns();
	if (is_file_call(r.syscall))
		file = file_at(task, (u32)r.arg0);
	/* of a wait that began before the programs came, nothing was kept to compare */
	if (file && (!t->rcv_seq || file_slept_for(task, r.arg0) == t->rcv_seq)) {
		name_file(&name, file);
		r.head.bytes += sizeof(name);
		r.head.sub |= SUB_FILE;
	}
	if (cfg_stacks)
		fill_stack(&s, task, t, r.ts_ns);
	/* it ran meanwhile: then its record says more */
	if (load_ordered(&t->blocked_ns) != r.blocked_ns)
		return 0;
	bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
	if (r.head.sub & SUB_FILE)
		bpf_seq_write(ctx->meta->seq, &name, sizeof(name));
	if (cfg_stacks && s.id != NO_STACK) {
		s.head.bytes = sizeof(s);
		s.head.kind = KIND_STACK;
		s.head.sub = CAUSE_OPEN;
		bpf_seq_write(ctx->meta->seq, &s, sizeof(s));
	}
	return 0;
}

#endif
