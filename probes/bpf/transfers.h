/* Which operation it was: sends and receives by the hooks of sockets, and what system calls did by their exits. */
#ifndef WAKEPATH_TRANSFERS_H
#define WAKEPATH_TRANSFERS_H

/* When the current task's call began, as far as it is known; 0 = it is not. Where calls have tracepoints of their own it is asked once a
 * call, and forgotten. */
static __always_inline u64 entry_of(struct task_struct *task)
{
	struct task_state *t = state_of(task);
	u64 number, entered;
	u8 class;

	if (!t || !cfg_calls)
		return t ? t->entered_ns : 0;
	number = call_number(regs_of(task));
	class = class_of(number);
	entered = t->entered_in == number ? t->entered_ns : 0;
	/* of one that was seen: by programs that are gone */
	if (t->entered_by == ENTERED_SEEN && !(entered_classes >> class & 1))
		entered = 0;
	/* the messages of one call have one beginning */
	if (!is_many(class))
		t->entered_ns = 0;
	return entered;
}

/* When TCP first passed on bytes of a send of `n`, which returns now; 0 = not known. TCP keeps by segment when it was sent, until it is
 * acknowledged, and then of the one that was sent last. */
static __always_inline u64 passed_on(struct tcp_sock *tp, u32 n, u64 now)
{
	u32 end = tp->write_seq, start = end - n, una = tp->snd_una;
	bool is_one = n <= tp->mss_cache;
	struct list_head *sent;
	u64 at;

	/* none of them yet */
	if ((s32)(tp->snd_nxt - start) <= 0)
		return now;
	if (una == end) {
		at = is_one && tp->rack.end_seq == end ? tp->rack.mstamp * 1000 : 0;
	} else {
		if (!is_one && una != start)
			return 0;
		sent = is_one ? tp->tsorted_sent_queue.prev : tp->tsorted_sent_queue.next;
		if (!sent || sent == &tp->tsorted_sent_queue)
			return 0;
		at = cast(struct sk_buff, (u64)sent - bpf_core_field_offset(struct sk_buff, tcp_tsorted_anchor))->skb_mstamp_ns;
	}
	/* pacing gives segments times to come */
	return at < now ? at : now;
}

/* When the other end may have had the first byte of a send that returns now; 0 = not known. */
static __always_inline u64 sent_since(struct cpu_state *c, struct task_struct *task, struct tcp_sock *tp, struct moved *m, u32 n, u64 now)
{
	u64 entered = entry_of(task), at;

	if (!cfg_calls || entered_classes >> m->class & 1)
		return entered;
	if (!tp)
		return entered ? entered : own_ready(c, task);
	at = passed_on(tp, n, now);
	if (at || n <= SENT_AT_ONCE)
		return at;
	/* it slept since the buffer was full: near its beginning, for so many bytes. Or else all fitted in */
	return entered ? entered : own_ready(c, task);
}

/* Whether a receive of nothing means nothing: it asked for nothing, and the stream has not ended. */
static __always_inline bool is_idle(s32 ret, u8 op, u16 type, u8 shutdown)
{
	return ret == 0 && (op == OP_SEND || (type != SOCK_DGRAM && !(shutdown & RCV_SHUTDOWN)));
}

/* A call that moved nothing and will be made again. */
static __always_inline bool is_again(s32 ret)
{
	return ret == -EAGAIN || ret == -EINTR || ret <= -ERESTARTSYS;
}

/* The end of stream takes a number of its own; when the reader passed it, its last byte's is one less. */
#define without_fin(copied, rcv_nxt, flags) ((copied) - ((copied) == (rcv_nxt) && ((flags) >> SOCK_DONE & 1)))

/* Whether the exit of a call that may use pipes is seen too, where calls have tracepoints of their own. */
static __always_inline bool has_exit(u8 class)
{
	return class == SC_READ || class == SC_READV || class == SC_WRITE || class == SC_WRITEV;
}

/* Numbers the bytes that were moved through a typed socket. */
static __always_inline void number(struct moved *m, struct sock *sk, struct tcp_sock *tp, struct flow_state *f, u32 n)
{
	if (tp) {
		if (m->op == OP_SEND) {
			m->seq_end = tp->write_seq;
			if (m->seq_end != tp->snd_nxt || tp->chrono_stat[TCP_WINDOW_LIMITED] != f->window_waits)
				m->flags |= held_for(tp, f);
		} else {
			u32 next = tp->rcv_nxt, copied = tp->copied_seq;

			m->seq_end = without_fin(copied, next, sk->__sk_common.skc_flags);
			if (next != copied)
				m->flags |= OPF_MORE;
		}
	} else {
		m->datagram = sk->sk_type == SOCK_DGRAM;
		m->flags |= OPF_COUNTED;
		m->seq_end = n + __sync_fetch_and_add(m->op == OP_SEND ? &f->sent : &f->received, n);
	}
}

/* A send or receive on a typed socket, after it happened (kernels from 6.3). */
static __always_inline int on_socket(struct sock *sk, int ret, u8 op, int flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = regs_of(task);
	struct cpu_state *c = this_cpu();
	struct task_state *t = 0;
	struct flow_state *f;
	struct tcp_sock *tp;
	struct moved m = {};
	u32 n = ret > 0 ? ret : 0;
	u64 now;

	if (is_again(ret) || (op == OP_RECV && (flags & (MSG_PEEK | MSG_ERRQUEUE | MSG_OOB)))) {
		if (op != OP_SEND)
			return 0;
		/* its next try is another call */
		if (cfg_calls && watched(task))
			entry_of(task);
		return tokio_is_held(ret);
	}
	m.class = class_now(task, regs);
	if (m.class == SC_IO_URING)
		m.flags = OPF_IO_URING;
	else if (!cfg_calls || has_exit(m.class))
		c->reported = (u64)task;
	if (is_idle(ret, op, sk->sk_type, sk->sk_shutdown) || !watched(task))
		return 0;
	f = flow_of(sk, sk->__sk_common.skc_state == TCP_CLOSE);
	if (!f)
		return 0;
	if (m.class == SC_IO_URING) {
		if (!rings_used)
			rings_used = 1;
		by_request(ring_request(sk, op));
	}
	if (is_many(m.class)) {
		t = current_state(task);
		if (!t)
			return 0;
		m.index = t->mmsg++;
	}
	now = bpf_ktime_get_ns();
	m.bytes = ret;
	m.op = op;
	m.flow = sk->__sk_common.skc_cookie.counter;
	m.readable = true;
	tp = tcp_of(sk);
	if (op == OP_SEND && m.class != SC_IO_URING)
		m.entered_ns = sent_since(c, task, tp, &m, n, now);
	c->own_ready_ns = 0;
	number(&m, sk, tp, f, n);
	if (op == OP_RECV) {
		m.arrived_ns = f->arrived_ns;
		/* bytes left over arrived no later than the last packet: the best bound without a record a packet */
		f->arrived_ns = m.flags & OPF_MORE ? f->last_ready_ns : 0;
	}
	if (!f->announced)
		announce(sk, f, moving(op, n), peer_of(sk), now);
	if (cfg_calls && m.datagram && sk->__sk_common.skc_family != AF_UNIX && !datagrams_used)
		datagrams_used = 1;
	if (m.datagram && op == OP_RECV && ret >= 0 && !sk->__sk_common.skc_dport && sk->__sk_common.skc_family != AF_UNIX &&
	    (m.class == SC_RECVFROM || m.class == SC_RECVMSG || m.class == SC_RECVMMSG) && (!cfg_calls || entered_classes >> SC_SENDTO & 1)) {
		/* its sender's address is not in user memory before the call returns */
		if (!t)
			t = current_state(task);
		if (t) {
			t->later_flow = m.flow;
			t->later_seq = m.seq_end;
			t->later_arrived_ns = m.arrived_ns;
			c->reported = 0;
		}
		return 0;
	}
	emit_op(task, regs, m.datagram ? 0 : f, &m, now);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(on_send, struct sock *sk, int ret, int flags)
{
	return on_socket(sk, ret, OP_SEND, flags);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_recv, struct sock *sk, int ret, int flags)
{
	return on_socket(sk, ret, OP_RECV, flags);
}

/* One datagram of those that a call received, at its exit. `part`: see on_descriptor. */
__noinline int on_later(u64 flow, u64 arrived_ns, u32 seq_end, s32 bytes, u32 index)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = regs_of(task);
	struct moved m = {};

	m.flow = flow;
	m.arrived_ns = arrived_ns;
	m.seq_end = seq_end;
	m.bytes = bytes;
	m.index = index;
	m.op = OP_RECV;
	m.flags = OPF_COUNTED;
	m.class = syscall_class[call_number(regs) & (SYSCALLS - 1)];
	m.datagram = m.readable = true;
	emit_op(task, regs, 0, &m, bpf_ktime_get_ns());
	return 0;
}

static const struct pipe_state no_pipe;

/* Numbers the bytes that were moved through a pipe; false where nothing was, or nothing could be kept of it. */
static __always_inline bool move_in_pipe(struct moved *m, struct file *file)
{
	u64 ino = field(file, f_inode, i_ino);
	struct pipe_state *p;

	if (m->bytes < 0 || (m->bytes == 0 && m->op == OP_SEND))
		return false;
	p = bpf_map_lookup_elem(&pipes, &ino);
	if (!p) {
		bpf_map_update_elem(&pipes, &ino, &no_pipe, BPF_ANY);
		p = bpf_map_lookup_elem(&pipes, &ino);
		if (!p)
			return false;
	}
	m->flow = FLOW_PIPE_BIT | ino;
	m->flags = OPF_COUNTED;
	m->seq_end = m->bytes + __sync_fetch_and_add(m->op == OP_SEND ? &p->written : &p->read, m->bytes);
	return true;
}

/* Whether the bytes of a pipe are looked at: where they are written, since who reads them reads the same, and until the recorder says that
 * they are nothing that it reads. */
static __always_inline void look_into_pipe(struct moved *m)
{
	u8 *wants;

	if (!cfg_head_bytes || m->op != OP_SEND)
		return;
	wants = bpf_map_lookup_elem(&wanted_heads, &m->flow);
	m->readable = !wants || *wants != WANTS_NONE;
	m->each = wants && *wants == WANTS_EACH;
}

/* Numbers the bytes that were moved through an untyped socket, whose state may be 0. `behind`: bytes that the same call moved after
 * these. */
static __always_inline void number_at(struct moved *m, struct sock *sk, struct flow_state *f, u32 behind)
{
	u32 n = m->bytes > 0 ? m->bytes : 0;

	if (field(sk, sk_protocol) == IPPROTO_TCP && field(sk, __sk_common.skc_family) != AF_UNIX) {
		struct tcp_sock *tp = (struct tcp_sock *)sk;

		if (m->op == OP_SEND) {
			m->seq_end = field(tp, write_seq);
			/* before Linux 6.2 each field takes a helper's call */
			if (CAN_CAST && f)
				m->flags |= held_for(cast(struct tcp_sock, tp), f);
		} else {
			u32 next = field(tp, rcv_nxt), copied = field(tp, copied_seq);

			m->seq_end = without_fin(copied, next, field(sk, __sk_common.skc_flags));
			if (next != copied)
				m->flags |= OPF_MORE;
		}
		m->seq_end -= behind;
	} else {
		m->flags = OPF_COUNTED;
		if (f) {
			m->datagram = field(sk, sk_type) == SOCK_DGRAM;
			m->seq_end = n + __sync_fetch_and_add(m->op == OP_SEND ? &f->sent : &f->received, n);
		} else {
			m->flags |= OPF_UNNUMBERED;
		}
	}
}

/* A send or receive on whatever a descriptor names, from the system call's exit: pipes always, sockets where the
 * kernel has no hook of its own (before 6.3, and for splice). `part` is which message of a call that moves several
 * (low half), and the bytes of those after it (high half). A global function: verified once, whoever calls it. */
__noinline int on_descriptor(u64 entered_ns, u64 fd, s32 ret, u32 op, u64 part)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = regs_of(task);
	struct file *file = file_at(task, fd);
	struct flow_state *f = 0;
	struct moved m = {};
	struct sock *sk;
	u32 n = ret > 0 ? ret : 0;
	u64 now;
	u16 mode;

	if (!file)
		return 0;
	mode = field(file, f_inode, i_mode) & S_IFMT;
	/* files, most of all */
	if (mode != S_IFIFO && mode != S_IFSOCK)
		return 0;
	now = bpf_ktime_get_ns();
	m.bytes = ret;
	m.op = op;
	m.entered_ns = entered_ns;
	m.index = (u32)part;
	m.class = syscall_class[call_number(regs) & (SYSCALLS - 1)];
	if (mode == S_IFIFO) {
		if (cfg_calls && op == OP_SEND && !entered_ns)
			m.entered_ns = own_ready(this_cpu(), task);
		if (move_in_pipe(&m, file)) {
			look_into_pipe(&m);
			emit_op(task, regs, 0, &m, now);
		}
		return 0;
	}
	/* splice out of a socket passes the hooks by */
	if (cfg_sock_hooks && (m.class != SC_SPLICE || op != OP_RECV))
		return 0;
	sk = sock_in(file);
	if (!sk || is_idle(ret, op, field(sk, sk_type), field(sk, sk_shutdown)))
		return 0;
	if (cfg_sock_hooks) {
		m.flow = field(sk, __sk_common.skc_cookie.counter);
		if (!m.flow || field(sk, sk_type) == SOCK_DGRAM)
			return 0;
	} else {
		f = flow_at(sk);
		if (!f)
			return 0;
		m.flow = f->id;
	}
	number_at(&m, sk, f, part >> 32);
	if (f && !f->announced)
		announce(sk, f, moving(op, n), peer_at(sk), now);
	m.readable = f != 0;
	emit_op(task, regs, m.datagram ? 0 : f, &m, now);
	return 0;
}

/* The messages of a sendmmsg or recvmmsg that returned `ret`, each an operation. */
static __always_inline void on_many(u64 entered_ns, struct pt_regs *regs, s32 ret, u8 op, struct task_state *later)
{
	u64 base = CALL_ARG2(regs) + __builtin_offsetof(struct user_mmsghdr, len);
	u32 total = 0, len, i;

	if (ret <= 0)
		return;
	if (ret > MMSG_MAX)
		__sync_fetch_and_add(&this_cpu()->drops[DROP_OP], ret - MMSG_MAX);
	for (i = 0; i < MMSG_MAX; i++) {
		if (i >= ret)
			break;
		len = 0;
		bpf_probe_read_user(&len, sizeof(len), (void *)(base + i * sizeof(struct user_mmsghdr)));
		total += len;
	}
	for (i = 0; i < MMSG_MAX; i++) {
		if (i >= ret)
			break;
		len = 0;
		bpf_probe_read_user(&len, sizeof(len), (void *)(base + i * sizeof(struct user_mmsghdr)));
		total -= len;
		if (later)
			on_later(later->later_flow, later->later_arrived_ns, later->later_seq - total, len, i);
		else
			on_descriptor(entered_ns, CALL_ARG1(regs), len, op, i | (u64)total << 32);
	}
}

/* accept, connect, close, shutdown: the flow is named, no bytes move. A global function: verified once. */
__noinline int on_control(u64 fd, s32 ret, u32 op)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = regs_of(task);
	struct file *file = file_at(task, fd);
	struct sock *sk = file ? sock_in(file) : 0;
	struct moved m = {};
	struct flow_state *f;
	bool tcp, failed;
	u64 now;

	if (!sk)
		return 0;
	now = bpf_ktime_get_ns();
	tcp = field(sk, sk_protocol) == IPPROTO_TCP;
	/* of datagram sockets that are connected to look for a way, most fail and nobody minds */
	failed = op == OP_CONNECT && ret < 0 && (tcp || field(sk, __sk_common.skc_family) == AF_UNIX);
	if (cfg_sock_hooks) {
		m.flow = field(sk, __sk_common.skc_cookie.counter);
		if (!m.flow) {
			/* never met, or UNIX: announced at its first operation, and so never if it cannot connect */
			if (!failed)
				return 0;
			m.flow = inode_of(sk) | INODE_ID;
			announce_failed(sk, m.flow, CALL_ARG2(regs), CALL_ARG3(regs), now);
		}
	} else {
		u8 state = field(sk, __sk_common.skc_state);

		f = flow_at(sk);
		if (!f)
			return 0;
		m.flow = f->id;
		/* a TCP connection is announced when it stands, or fails */
		if (!f->announced && failed && state == TCP_CLOSE)
			announce_failed(sk, m.flow, CALL_ARG2(regs), CALL_ARG3(regs), now);
		else if (!f->announced && op != OP_CLOSE && !(tcp && (state == TCP_SYN_SENT || state == TCP_CLOSE)))
			announce(sk, f, (op == OP_ACCEPT && ret >= 0 ? FLOW_ACCEPTED : FLOW_MET) | ANNOUNCE_OWN, peer_at(sk), now);
	}
	m.bytes = ret;
	m.op = op;
	m.class = syscall_class[call_number(regs) & (SYSCALLS - 1)];
	if (op == OP_CONNECT || op == OP_ACCEPT)
		m.entered_ns = entry_of(task);
	if (op == OP_SHUTDOWN && CALL_ARG2(regs) != 0)
		m.flags |= OPF_SHUT_WRITE;
	emit_op(task, regs, 0, &m, now);
	return 0;
}

#endif
