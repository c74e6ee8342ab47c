/* System calls, at tracepoints of their own: a call that has none runs no program, whoever makes it, where sys_enter and sys_exit cost
 * each call of the host some 60 ns. Beside socket hooks, on kernels that count runs that they left out (6.7). The agent attaches each
 * program to the calls that crates/capture/src/kernel/calls.rs gives it. */
#ifndef WAKEPATH_CALLS_H
#define WAKEPATH_CALLS_H

/* What these tracepoints hand over. The kernel's own word before them is not a program's to read. */
struct call_entered { u64 common; s32 number; u64 args[6]; };
struct call_returned { u64 common; s32 number; s64 result; };

/* A call begins of which the end does not tell enough. */
SEC("tp")
int on_call_entered(struct call_entered *e)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = current_state(task);

	if (calls_stopped || !t || !is_watched(t, task))
		return 0;
	note_entry(t, class_of(e->number), regs_of(task));
	t->entered_in = e->number;
	t->entered_by = ENTERED_SEEN;
	return 0;
}

/* The descriptor goes with the call. */
SEC("tp")
int on_close_entered(struct call_entered *e)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!calls_stopped && watched(task))
		on_control(CALL_ARG1(regs_of(task)), 0, OP_CLOSE);
	return 0;
}

/* A call that waits for descriptors returns, or one that makes, accepts or ends a connection. */
SEC("tp")
int on_call_returned(struct call_returned *e)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u8 class = class_of(e->number);
	struct pt_regs *regs = regs_of(task);
	s32 ret = e->result;
	u64 entered;

	if (calls_stopped)
		return 0;
	if (cfg_watch_ports && ret >= 0 && (class == SC_ACCEPT || class == SC_BIND))
		select_by_port(class == SC_ACCEPT ? ret : CALL_ARG1(regs));
	if (class == SC_BIND || !watched(task))
		return 0;
	entered = is_poll(class) ? entry_of(task) : 0;
	if (!is_again(ret) || ret == -EINTR || (ret == -EAGAIN && class == SC_CONNECT))
		moves_nothing(regs, class, ret, entered);
	return 0;
}

/* A call returns that may have moved bytes through a pipe, or out of a socket past its hooks. */
SEC("tp")
int on_bytes_returned(struct call_returned *e)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu_state *c = this_cpu();
	u8 class = class_of(e->number);
	u64 reported = c->reported;
	s32 ret = e->result;

	c->reported = 0;
	if (is_reported(class, reported) || calls_stopped || !watched(task))
		return 0;
	if (is_again(ret)) {
		if (class == SC_WRITE || class == SC_WRITEV)
			tokio_is_held(ret);
		entry_of(task);
		return 0;
	}
	moves_bytes(regs_of(task), class, ret, entry_of(task));
	return 0;
}

/* A call returns that received datagrams: who sent them is in user memory now. */
SEC("tp")
int on_datagrams_returned(struct call_returned *e)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!calls_stopped)
		on_datagrams(task, regs_of(task), class_of(e->number), e->result);
	return 0;
}

/* Memory was mapped. */
SEC("tp")
int on_mmap_returned(struct call_returned *e)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = regs_of(task);

	if (!calls_stopped && e->result > 0 && CALL_ARG3(regs) & PROT_EXEC && (s32)CALL_ARG5(regs) >= 0 && watched(task))
		on_mapped(task);
	return 0;
}

#endif
