/* What a processor is in the middle of: marks that tell who wakes a task. */
#ifndef WAKEPATH_INTERRUPTS_H
#define WAKEPATH_INTERRUPTS_H

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

#endif
