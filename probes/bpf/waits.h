/* Waits: each interval in which a task did not run, closed here and written once, when it runs again. Whose: see related.h. */
#ifndef WAKEPATH_WAITS_H
#define WAKEPATH_WAITS_H

/* Whose work the thread does that a timer interrupted, which its processor's tick does as long as it computes: between two operations
 * nothing else tells. Of loops alone, of which each thread works for many. */
static __always_inline void tell_ran(struct cpu_state *c)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct wp_runtime *r;
	struct wp_ran *told;
	u64 position, now, key;
	u32 tgid = task->tgid;

	if (task->flags & PF_KTHREAD || !tgid)
		return;
	r = bpf_map_lookup_elem(&runtimes, &tgid);
	if (!r || r->kind != RUNTIME_PYTHON || !r->is_marked || is_refuted(r))
		return;
	now = bpf_ktime_get_ns();
	key = now - c->ran_ns < RAN_EVERY_NS ? 0 : python_runs(task, r);
	if (!key)
		return;
	c->ran_ns = now;
	told = reserve(c, sizeof(*told), DROP_WAIT, &position);
	if (!told)
		return;
	told->ts_ns = now;
	told->tgid = tgid;
	told->tid = task->pid;
	told->key = key;
	commit(told, position, sizeof(*told), KIND_RAN, RUNTIME_PYTHON);
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector)
{
	struct cpu_state *c = this_cpu();

	c->softirq = vector + 1;
	clear_marks(c);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, unsigned int vector)
{
	struct cpu_state *c = this_cpu();

	c->softirq = 0;
	clear_marks(c);
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_entry, int irq)
{
	this_cpu()->irq = irq + 1;
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_exit, int irq)
{
	struct cpu_state *c = this_cpu();

	c->irq = 0;
	c->block = 0;
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_timer_entry)
{
	struct cpu_state *c = this_cpu();

	c->timer = 1;
	if (runtime_processes)
		tell_ran(c);
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(on_timer_exit)
{
	this_cpu()->timer = 0;
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_block_complete, struct request *rq)
{
	struct gendisk *d = field(rq, q, disk);
	u64 device = ((u64)field(d, major) << 20) | field(d, first_minor);

	this_cpu()->block = (device << 32) | (u32)field(rq, __sector) | (1ULL << 63);
	return 0;
}

/*
 * Whether a thread does what interrupts leave to it. Such a one is woken on the way out of an interrupt, behind the hooks of its end:
 * the current task is the one that was interrupted, and did nothing for it.
 */
static __always_inline bool serves_interrupts(struct task_struct *p)
{
	u64 name = 0;

	if (!(p->flags & PF_KTHREAD))
		return false;
	bpf_probe_read_kernel(&name, sizeof(name), p->comm);
	/* "ksoftirqd/0", "irq/16-eth0", in the order of bytes of the machines that there are */
	return name == 0x71726974666f736bULL || (u32)name == 0x2f717269;
}

/* Its leader's state, which says what stopped a thread group. A leader whose slot another task holds has none to give. */
static __always_inline struct task_state *group_state(struct task_struct *task)
{
	struct task_state *t = slot_of(task->tgid);

	return t && t->owner == (u64)task->group_leader ? t : 0;
}

/* A signal is sent. Those that stop are rare, and stop the whole thread group. */
SEC("tp_btf/signal_generate")
int BPF_PROG(on_signal, int sig, void *info, struct task_struct *task)
{
	struct task_state *t;

	if (sig < SIGSTOP || sig > SIGTTOU)
		return 0;
	t = group_state(task);
	if (t) {
		t->stop_signal = sig;
		t->stopped_by = (u32)bpf_get_current_pid_tgid();
	}
	return 0;
}

/* Writes a wait from `blocked` to `now`, whose waking came at `woken`; its cause. `drop`: as what it counts where there is no room. */
static __always_inline u8 emit_wait(struct task_struct *task, struct task_state *t, u64 blocked, u64 woken, u64 now, u32 drop)
{
	struct cpu_state *c = this_cpu();
	u64 position;
	u8 cause = t->cause, named = 0;
	u32 size = sizeof(struct wp_wait);
	struct wp_wait *r;

	if (t->runtime)
		size += sizeof(struct wp_logical);
	r = reserve(c, size, drop, &position);
	if (!r) {
		t->unwritten = 2;
		return cause;
	}
	if (size > sizeof(*r)) {
		struct wp_logical who = { .key = t->logical, .parent = t->maker, .runtime = t->runtime };

		__builtin_memcpy(r + 1, &who, sizeof(who));
		named = SUB_LOGICAL;
	}
	/* a waking from before this sleep belongs to one that was aborted */
	if (t->state == 0) {
		woken = blocked;
		cause = CAUSE_PREEMPTED;
	} else if (!woken) {
		/* nobody told of a waking, so nobody knows since when it was ready to run: it slept, as far as is known */
		woken = now;
		cause = CAUSE_UNKNOWN;
	} else if (woken < blocked) {
		woken = blocked;
	} else if (woken > now) {
		woken = now;
	}
	r->ts_ns = now;
	r->blocked_ns = blocked;
	r->woken_ns = woken;
	r->object = t->state ? t->object : t->throttled;
	r->arg0 = t->arg0;
	r->tid = task->pid;
	r->tgid = task->tgid;
	r->by_tid = t->by_tid;
	/* who let it go on says less than who stopped it */
	if (t->state & (TASK_STOPPED | TASK_TRACED | TASK_FROZEN)) {
		struct task_state *g = group_state(task);

		cause = CAUSE_STOPPED;
		r->object = g && t->state & TASK_STOPPED ? g->stop_signal : 0;
		r->by_tid = g && t->state & TASK_STOPPED ? g->stopped_by : 0;
	}
	r->rcv_seq = t->rcv_seq;
	r->state = t->state;
	r->syscall = t->syscall;
	r->cpu = bpf_get_smp_processor_id();
	r->woken_cpu = t->woken_cpu;
	if (!cfg_watch_all) {
		if (t->unwritten)
			named |= SUB_GAP;
		if (drop == DROP_OTHERS && !t->related)
			named |= SUB_LAST;
	}
	t->unwritten = 0;
	commit(r, position, size, KIND_WAIT, cause | named);
	return cause;
}

/* The current task lets go on a task that is watched, or is related to one: what it did before matters, and what it will do. Nobody is
 * related by waking a kernel thread, which works for everybody, but another one. */
static __noinline int relate(struct task_struct *wakee, struct task_state *t)
{
	struct task_struct *by = bpf_get_current_task_btf();
	struct task_state *w = state_of(by);
	u8 level = is_watched(t, wakee) ? 1 : t->level + 1;
	u64 came;

	if (!w || by->tgid == cfg_agent_tgid || is_watched(w, by))
		return 0;
	tell_task(by, w);
	if (level > RELATED_LEVELS || (wakee->flags & PF_KTHREAD && !(by->flags & PF_KTHREAD)))
		return 0;
	came = w->came_ns;
	/* its last wait, which nobody wrote: those before it are gone */
	if (!w->related && w->unwritten && came) {
		w->unwritten--;
		w->related = 1;
		emit_wait(by, w, w->slept_ns, w->ready_ns, came, DROP_OTHERS);
	}
	if (!w->related || level < w->level)
		w->level = level;
	w->related = RELATED_WAITS;
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *p)
{
	struct task_state *t = state_of(p);
	struct cpu_state *c;

	if (!t)
		return 0;
	c = this_cpu();
	/* switched out while it was still to run: it needs no waking, and its preempter stays its cause */
	if (load_ordered(&t->blocked_ns) > RUNS && !t->state)
		return 0;
	/* its last wait is not known any more, where it has not begun the next */
	if (t->blocked_ns == RUNS)
		t->came_ns = 0;
	/* the last waking before the switch-in counts, so overwrite */
	/* a packet wakes in the same breath in which it was taken up: no need to look at the clock again */
	t->woken_ns = c->sk_cookie && c->softirq && !c->irq && !c->timer ? c->sk_ns : bpf_ktime_get_ns();
	t->woken_cpu = bpf_get_smp_processor_id();
	t->object = 0;
	t->by_tid = 0;
	if (c->timer) {
		t->cause = CAUSE_TIMER;
	} else if (c->block) {
		t->cause = CAUSE_BLOCK;
		t->object = c->block & ~(1ULL << 63);
	} else if (c->irq) {
		t->cause = CAUSE_IRQ;
		t->object = c->irq - 1;
	} else if (c->sk_cookie) {
		t->cause = CAUSE_SOCKET;
		t->object = c->sk_cookie;
		t->rcv_seq = c->sk_seq;
		t->by_tid = c->softirq ? 0 : (u32)bpf_get_current_pid_tgid();
		/* one packet, one waking: the next in this softirq may be an acknowledgement for another socket's writer */
		if (c->softirq)
			c->sk_cookie = 0;
	} else if (c->softirq) {
		u32 vector = c->softirq - 1;

		t->cause = vector == SOFTIRQ_NET_RX || vector == SOFTIRQ_NET_TX ? CAUSE_NET :
			   vector == SOFTIRQ_TIMER || vector == SOFTIRQ_HRTIMER ? CAUSE_TIMER :
			   vector == SOFTIRQ_BLOCK			 ? CAUSE_BLOCK :
									   CAUSE_SOFTIRQ;
		/* of a disk's softirq nothing says which disk */
		t->object = t->cause == CAUSE_BLOCK ? 0 : vector;
	} else if (serves_interrupts(p)) {
		t->cause = CAUSE_UNKNOWN;
	} else {
		t->cause = CAUSE_TASK;
		t->by_tid = (u32)bpf_get_current_pid_tgid();
	}
	if (!cfg_watch_all && t->by_tid && (t->related || is_watched(t, p)))
		relate(p, t);
	return 0;
}

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

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	u64 now = bpf_ktime_get_ns();
	struct cpu_state *c = this_cpu();
	struct task_state *t;
	struct pt_regs *regs;
	u32 state;
	bool leaves_own = false;
	u8 amid = c->softirq | (c->timer ? AMID_TIMER : 0);

	clear_marks(c);
	c->reported = 0;
	/* with PREEMPT_RT softirqs and timers run in tasks and are preempted with them: what comes next is not in them */
	if (amid)
		c->softirq = c->timer = 0;
	if (prev->pid && prev->tgid != cfg_agent_tgid) {
		/* never allocated here: the run queue's lock is held, and an allocation may wake a task that needs it. The fork
		 * makes it, and the iterator for whoever was there before; where the kernel left the fork's program out
		 * (it was preempted in another's), a free slot will do. */
		t = state_of(prev);
		if (!t && !(prev_state & TASK_DEAD)) {
			t = claim_slot(prev);
			if (!t)
				lost(c, cfg_watch_all ? DROP_WAIT : DROP_OTHERS);
		}
		if (t) {
			if (t->blocked_ns > RUNS)
				came_unseen(c, prev, t, now);
			/* a task on its way to sleep that is preempted is still to run */
			state = preempt ? 0 : prev_state;
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
				regs = regs_of(prev);
				t->syscall = recorded_call(regs);
				t->arg0 = slept_with(t->syscall, regs);
				if (t->syscall == FUTEX_CALL)
					t->rcv_seq = is_recorded(prev, t) ? lock_slept_for(prev, regs) : 0;
				if (cfg_stacks)
					t->stack = stack_now(ctx, t, prev);
			}
		}
		if (!cfg_watch_all) {
			leaves_own = t && is_watched(t, prev);
			if (t)
				t->cpu = bpf_get_smp_processor_id();
			if (!leaves_own)
				note_stay(c, prev, t, now, prev_state & TASK_DEAD);
			if (!leaves_own && (!t || !t->related))
				c->others_ns += now - c->came_ns;
			leaves_own = leaves_own && t->state == 0;
		}
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
	if (next->pid && next->tgid != cfg_agent_tgid) {
		t = state_of(next);
		/* its record will name who took the processor */
		if (leaves_own && t && !is_watched(t, next))
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
	return 0;
}

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
	if (cfg_stacks)
		fill_stack(&s, task, t, r.ts_ns);
	/* it ran meanwhile: then its record says more */
	if (load_ordered(&t->blocked_ns) != r.blocked_ns)
		return 0;
	bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
	if (cfg_stacks && s.id != NO_STACK) {
		s.head.bytes = sizeof(s);
		s.head.kind = KIND_STACK;
		s.head.sub = CAUSE_OPEN;
		bpf_seq_write(ctx->meta->seq, &s, sizeof(s));
	}
	return 0;
}

#endif
