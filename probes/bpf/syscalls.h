/* System calls: what is noted when one begins, and which operations it was when it returned. */
#ifndef WAKEPATH_SYSCALLS_H
#define WAKEPATH_SYSCALLS_H

static __always_inline u64 user_time(u64 address, u32 ns_per_unit)
{
	u64 v[2];

	if (!address || bpf_probe_read_user(v, sizeof(v), (void *)address))
		return ~0ULL;
	return v[0] * 1000000000ULL + v[1] * ns_per_unit;
}

/* What must be noted before the call: when it began (of sends, since the other end may have the bytes before we are
 * called; of what may take long), time-outs that the kernel overwrites, the flow after a descriptor that is to go. */
static __always_inline bool needs_entry(u8 class)
{
	switch (class) {
	case SC_NONE:
	case SC_IO_URING:
	case SC_SHUTDOWN:
	case SC_MMAP:
	case SC_BIND:
		return false;
	case SC_READ:
	case SC_READV:
	case SC_RECVFROM:
	case SC_RECVMSG:
		return !cfg_sock_hooks;
	}
	return true;
}

/* Notes that a call begins, and what its end does not tell any more. */
static __always_inline void note_entry(struct task_state *t, u8 class, struct pt_regs *regs)
{
	t->entered_ns = bpf_ktime_get_ns();
	switch (class) {
	case SC_SENDMMSG:
	case SC_RECVMMSG:
		t->mmsg = 0;
		break;
	case SC_SELECT:
		t->timeout_ns = user_time(CALL_ARG5(regs), 1000);
		break;
	case SC_PSELECT:
		t->timeout_ns = user_time(CALL_ARG5(regs), 1);
		break;
	case SC_PPOLL:
		t->timeout_ns = user_time(CALL_ARG3(regs), 1);
		break;
	case SC_EPOLL2:
		t->timeout_ns = user_time(CALL_ARG4(regs), 1);
		break;
	}
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long id)
{
	u64 number = ENTERED_NUMBER(regs, id);
	struct task_struct *task;
	struct task_state *t;
	u8 class;

	call_begins();
	if (number >= SYSCALLS)
		return 0;
	class = syscall_class[number & (SYSCALLS - 1)];
	if (!needs_entry(class))
		return 0;
	task = bpf_get_current_task_btf();
	if (class == SC_CLOSE) {
		if (watched(task))
			on_control(CALL_ARG1(regs), 0, OP_CLOSE);
		return 0;
	}
	t = current_state(task);
	if (!t || !is_watched(t, task))
		return 0;
	note_entry(t, class, regs);
	return 0;
}

static __always_inline u64 milliseconds(s32 ms)
{
	return ms < 0 ? ~0ULL : (u64)ms * 1000000;
}

/* A poll that returned `ret`. A global function: verified once. */
__noinline int on_poll(u64 entered, u32 class, s32 ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = regs_of(task);
	struct cpu_state *c = this_cpu();
	struct task_state *t = 0;
	struct wp_logical who = {};
	u64 position, timeout_ns;
	struct wp_poll *r;
	u32 size = sizeof(*r);
	u8 sub = class;

	if (class != SC_EPOLL && class != SC_POLL) {
		t = state_of(task);
		if (!t)
			return 0;
	}
	timeout_ns = class == SC_EPOLL ? milliseconds(CALL_ARG4(regs)) :
		     class == SC_POLL  ? milliseconds(CALL_ARG3(regs)) :
		     t		       ? t->timeout_ns :
					 ~0ULL;
	if (c)
		c->poll_due = timeout_ns == ~0ULL ? ~0ULL : entered ? entered + timeout_ns : 0;
	if (runtime_processes && logical_task(&who, 0, 0))
		size += sizeof(who);
	r = reserve(c, size, DROP_POLL, &position);
	if (!r)
		return 0;
	if (size > sizeof(*r)) {
		__builtin_memcpy(r + 1, &who, sizeof(who));
		sub |= SUB_LOGICAL;
	}
	r->ts_ns = bpf_ktime_get_ns();
	r->entry_ago_ns = entered ? r->ts_ns - entered : 0;
	r->tgid = task->tgid;
	r->tid = task->pid;
	r->ready = ret;
	r->fd = class == SC_EPOLL || class == SC_EPOLL2 ? (s32)CALL_ARG1(regs) : -1;
	r->timeout_ns = timeout_ns;
	commit(r, position, size, KIND_POLL, sub);
	return 0;
}

/* Whether a socket hook has told of a call that is over now. `reported`: the task of which one told since it began. */
static __always_inline bool is_reported(u8 class, u64 reported)
{
	if (!cfg_sock_hooks)
		return false;
	if (class == SC_SENDTO || class == SC_SENDMSG || class == SC_SENDMMSG)
		return true;
	/* a switch takes the mark away, where switches are seen: then it is the current task's */
	return reported && (cfg_waits || reported == (u64)bpf_get_current_task_btf()) && class != SC_SPLICE &&
	       class != SC_SENDFILE;
}

/* Datagrams that a socket hook left to the call's exit, since their sender is only known now. */
static __always_inline void on_datagrams(struct task_struct *task, struct pt_regs *regs, u8 class, s32 ret)
{
	struct task_state *t = state_of(task);

	if (!t || !t->later_flow)
		return;
	if (class == SC_RECVMMSG)
		on_many(0, regs, ret, OP_RECV, t);
	else if (ret >= 0)
		on_later(t->later_flow, t->later_arrived_ns, t->later_seq, ret, 0);
	t->later_flow = 0;
}

/* A call that waits for descriptors, or changes what a flow is; false of others. */
static __always_inline bool moves_nothing(struct pt_regs *regs, u8 class, s32 ret, u64 entered)
{
	switch (class) {
	case SC_EPOLL:
	case SC_POLL:
	case SC_SELECT:
	case SC_PSELECT:
	case SC_PPOLL:
	case SC_EPOLL2:
		on_poll(entered, class, ret);
		return true;
	case SC_ACCEPT:
		if (ret >= 0)
			on_control(ret, 0, OP_ACCEPT);
		else if (ret == -EMFILE || ret == -ENFILE)
			on_control(CALL_ARG1(regs), ret, OP_ACCEPT);
		return true;
	case SC_CONNECT:
		on_control(CALL_ARG1(regs), ret, OP_CONNECT);
		return true;
	case SC_SHUTDOWN:
		if (ret == 0)
			on_control(CALL_ARG1(regs), 0, OP_SHUTDOWN);
		return true;
	}
	return false;
}

/* A call that moves bytes by descriptors. */
static __always_inline void moves_bytes(struct pt_regs *regs, u8 class, s32 ret, u64 entered)
{
	switch (class) {
	case SC_READ:
	case SC_READV:
		/* a read that asked for nothing says nothing */
		if (ret || CALL_ARG3(regs))
			on_descriptor(entered, CALL_ARG1(regs), ret, OP_RECV, 0);
		break;
	case SC_WRITE:
	case SC_WRITEV:
	case SC_SENDTO:
	case SC_SENDMSG:
	case SC_SENDFILE:
		on_descriptor(entered, CALL_ARG1(regs), ret, OP_SEND, 0);
		break;
	case SC_RECVFROM:
		if (!(CALL_ARG4(regs) & (MSG_PEEK | MSG_ERRQUEUE | MSG_OOB)))
			on_descriptor(entered, CALL_ARG1(regs), ret, OP_RECV, 0);
		break;
	case SC_RECVMSG:
		if (!(CALL_ARG3(regs) & (MSG_PEEK | MSG_ERRQUEUE | MSG_OOB)))
			on_descriptor(entered, CALL_ARG1(regs), ret, OP_RECV, 0);
		break;
	case SC_RECVMMSG:
		if (!(CALL_ARG4(regs) & (MSG_PEEK | MSG_ERRQUEUE | MSG_OOB)))
			on_many(entered, regs, ret, OP_RECV, 0);
		break;
	case SC_SENDMMSG:
		on_many(entered, regs, ret, OP_SEND, 0);
		break;
	case SC_SPLICE:
		on_descriptor(entered, CALL_ARG1(regs), ret, OP_RECV, 0);
		on_descriptor(entered, CALL_ARG3(regs), ret, OP_SEND, 0);
		break;
	}
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit, struct pt_regs *regs, long ret)
{
	struct cpu_state *c = this_cpu();
	struct task_struct *task;
	u64 reported = c->reported;
	u64 id = call_number(regs);
	u64 entered = 0;
	u8 class;

	clear_marks(c);
	c->reported = 0;
	call_ends();
	if (id >= SYSCALLS)
		return 0;
	class = syscall_class[id & (SYSCALLS - 1)];
	if (class == SC_NONE || class == SC_IO_URING || class == SC_CLOSE || is_reported(class, reported))
		return 0;
	task = bpf_get_current_task_btf();
	if (cfg_sock_hooks && (class == SC_RECVFROM || class == SC_RECVMSG || class == SC_RECVMMSG)) {
		on_datagrams(task, regs, class, ret);
		return 0;
	}
	/* what it returns is an address, no count */
	if (class == SC_MMAP) {
		if (cfg_marks && ret > 0 && CALL_ARG3(regs) & PROT_EXEC && (s32)CALL_ARG5(regs) >= 0 && watched(task))
			on_mapped(task);
		return 0;
	}
	if (is_again(ret)) {
		if (class == SC_WRITE || class == SC_WRITEV || class == SC_SENDTO || class == SC_SENDMSG)
			tokio_is_held(ret);
		/* but who polls in vain took nothing, and that is a fact; and so is a listener's full queue */
		if (ret != -EINTR && !(ret == -EAGAIN && class == SC_CONNECT))
			return 0;
	}
	if (cfg_watch_ports && ret >= 0 && (class == SC_ACCEPT || class == SC_BIND))
		select_by_port(class == SC_ACCEPT ? ret : CALL_ARG1(regs));
	if (class == SC_BIND || !watched(task))
		return 0;
	if (needs_entry(class))
		entered = entry_of(task);
	if (!moves_nothing(regs, class, ret, entered) && ret != -EINTR)
		moves_bytes(regs, class, ret, entered);
	return 0;
}

#endif
