/* Waits: each interval in which a task did not run, closed here and written once, when it runs again. Whose: see related.h. */
#ifndef WAKEPATH_WAITS_H
#define WAKEPATH_WAITS_H

/*
 * Whether a thread does what interrupts leave to it. Such a one is woken on the way out of an interrupt, after the hooks of its end:
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
	/* who is not selected is not in that call any more, or its files are nobody's concern */
	struct file *file = drop == DROP_WAIT ? waited_file(task, t, now - blocked) : 0;

	if (t->runtime)
		size += sizeof(struct wp_logical);
	if (file)
		size += sizeof(struct wp_wait_file);
	r = reserve(c, size, drop, &position);
	if (!r) {
		t->unwritten = 2;
		return cause;
	}
	if (t->runtime) {
		struct wp_logical who = { .key = t->logical, .parent = t->maker, .runtime = t->runtime };

		__builtin_memcpy(r + 1, &who, sizeof(who));
		named = SUB_LOGICAL;
	}
	if (file) {
		void *next = r + 1;

		name_file(named ? next + sizeof(struct wp_logical) : next, file);
		named |= SUB_FILE;
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
	} else if (is_marked(c)) {
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
		if (cfg_calls)
			note_own_sending(c, t->woken_ns);
	}
	if (!cfg_watch_all && t->by_tid && (t->related || is_watched(t, p)))
		relate(p, t);
	return 0;
}

#endif
