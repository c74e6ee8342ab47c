/* Operations: which task moved which bytes on which flow. */
#ifndef WAKEPATH_OPS_H
#define WAKEPATH_OPS_H

#define PEER_BYTES 32

/* Where the caller's bytes are, by the arguments of its system call. */
struct place {
	u64 buffer; /* a flat buffer, or an iovec array where `count` */
	u64 count;
	u64 name; /* a sockaddr, 0 = none */
};

static __always_inline bool is_many(u8 class)
{
	return class == SC_SENDMMSG || class == SC_RECVMMSG;
}

/* `index`: which message of a sendmmsg or recvmmsg. */
static __always_inline bool find_place(struct place *p, struct pt_regs *regs, u8 class, u32 index)
{
	struct user_msghdr m;

	p->buffer = p->count = p->name = 0;
	switch (class) {
	case SC_WRITE:
	case SC_READ:
		p->buffer = CALL_ARG2(regs);
		return true;
	case SC_SENDTO:
	case SC_RECVFROM:
		p->buffer = CALL_ARG2(regs);
		p->name = CALL_ARG5(regs);
		return true;
	case SC_WRITEV:
	case SC_READV:
		p->buffer = CALL_ARG2(regs);
		p->count = CALL_ARG3(regs);
		return true;
	case SC_SENDMSG:
	case SC_RECVMSG:
	case SC_SENDMMSG:
	case SC_RECVMMSG:
		if (bpf_probe_read_user(&m, sizeof(m), (void *)(CALL_ARG2(regs) + (index & 1023) * sizeof(struct user_mmsghdr))))
			return false;
		break;
	default:
		return false;
	}
	p->buffer = m.iov;
	p->count = m.iovlen;
	p->name = m.name;
	return true;
}

/* The class of the system call that the task is in. Work of io_uring runs on its own threads, or on the task's way out
 * of any call: the registers then speak of something else. */
static __always_inline u8 class_now(struct task_struct *task, struct pt_regs *regs)
{
	u64 nr = call_number(regs);

	/* the kernel's own threads make no calls; those of io_uring are not among them */
	if (task->flags & PF_KTHREAD)
		return SC_NONE;
	if ((task->flags & PF_IO_WORKER) || !is_in_call(task, regs) || nr >= SYSCALLS)
		return SC_IO_URING;
	return syscall_class[nr & (SYSCALLS - 1)];
}

/* HTTP heads are longer than those of binary protocols: give them the whole cap. */
static __always_inline bool looks_like_http(u32 word)
{
	return word == 0x50545448 /* HTTP */ || word == 0x20544547 /* GET_ */ || word == 0x54534f50 /* POST */ ||
	       word == 0x20545550 /* PUT_ */ || word == 0x44414548 /* HEAD */ || word == 0x454c4544 /* DELE */ ||
	       word == 0x4954504f /* OPTI */ || word == 0x43544150 /* PATC */;
}

struct moved {
	u64 flow;
	u64 entered_ns; /* 0 = not known */
	u64 arrived_ns; /* 0 = not known */
	u32 index; /* of a sendmmsg or recvmmsg */
	u32 seq_end;
	s32 bytes;
	u16 flags;
	u8 op;
	u8 class;
	bool datagram;
	bool readable; /* its bytes may be looked at */
};

/* Binary protocols need no more than this of one run. */
#define PLAIN_HEAD 1024

static __always_inline u32 span(u64 from, u64 to)
{
	u64 ns = to - from;

	return ns > 0xffffffffULL ? 0xffffffff : ns;
}

/* How many changes of direction, or operations of which no head is taken, lie between two looks at wanted_heads: a power of
 * two. The first looks are nearer to each other: the recorder tells soon after it knows the protocol. */
#define TURNS_A_LOOK 16

static __always_inline void look(struct flow_state *f)
{
	u8 *wants;

	f->turns++;
	if (!cfg_head_bytes || f->quiet || f->streams & (STREAMS_HTTP2 | STREAMS_PLAIN))
		return;
	if ((f->turns & (TURNS_A_LOOK - 1)) && (f->turns & (f->turns - 1)))
		return;
	wants = bpf_map_lookup_elem(&wanted_heads, &f->id);
	if (wants) {
		f->quiet = *wants == WANTS_NONE;
		if (*wants == WANTS_EACH)
			f->streams = STREAMS_PLAIN;
		else if (*wants == WANTS_FRAMES) {
			f->streams = STREAMS_FRAMED | STREAMS_HTTP2;
			f->phase[0] = f->phase[1] = PHASE_UNKNOWN;
		}
	}
}

/* The flow changed its direction: a message may begin here. */
static __always_inline void turn(struct flow_state *f, u8 op)
{
	f->direction = op;
	f->captured = 0;
	look(f);
}

/* The frames of an operation are followed by who called for its record: there is no room left on the stack here. */
static __always_inline void note_frames(struct cpu_state *c, struct flow_state *f, struct moved *m, struct place *p, u64 now)
{
	if (!p->buffer || p->count > 1 || is_many(m->class)) {
		/* some pass by unseen */
		f->phase[m->op & 1] = PHASE_UNKNOWN;
		return;
	}
	c->more_flow = m->flow;
	c->more_buffer = p->buffer;
	c->more_ns = now;
	c->more_bytes = m->bytes;
	c->more_way = m->op | (p->count ? MORE_IN_IOVEC : 0) | (m->bytes > HEAD_MAX ? MORE_LAST : 0);
}

/* Writes one operation. `f` follows a stream's direction; 0 where no payload is wanted (pipes, control) and for
 * datagrams, each of which is a message. Inlined into its callers: the hot path. */
static __always_inline void emit_op(struct task_struct *task, struct pt_regs *regs, struct flow_state *f,
				    struct moved *m, u64 now)
{
	struct cpu_state *c = this_cpu();
	u32 head = 0, peer = 0, named = 0, size, done;
	bool is_body;
	struct wp_logical who = {};
	u64 position;
	struct wp_op *r;
	void *rest;
	struct place p = {};

	if (f && m->bytes > 0 && f->direction != m->op) {
		m->flags |= OPF_TURN;
		turn(f, m->op);
	} else if (f && f->captured >= PLAIN_HEAD) {
		look(f);
	}
	is_body = f && f->streams & STREAMS_HTTP2 && m->bytes > 0 && is_within_data(f, m->op, m->bytes);
	if (f && f->streams)
		f->captured = 0;
	if (cfg_head_bytes && !is_body && m->readable && m->bytes > 0 && (!f || (!f->quiet && f->captured < cfg_head_bytes))) {
		if (!find_place(&p, regs, m->class, m->index)) {
			m->flags |= OPF_UNREADABLE;
		} else {
			u32 cap = cfg_head_bytes;

			/* only a long first operation must be looked at before its slot is sized; who spoke HTTP speaks it again */
			if (f && !f->http && !f->captured && m->bytes > PLAIN_HEAD) {
				u64 first = p.buffer;

				if (p.count)
					bpf_probe_read_user(&first, sizeof(first), (void *)p.buffer);
				/* into the same place: older kernels give little stack */
				bpf_probe_read_user(&first, sizeof(first), (void *)first);
				f->http = looks_like_http(first);
				f->streams |= streams_of(first) | (begins_frame(first) ? STREAMS_FRAMED : 0);
			}
			if (f && f->streams)
				/* the option is of each message, and one operation may have many */
				cap = HEAD_MAX;
			else if (cap > PLAIN_HEAD && !(f && f->http))
				cap = PLAIN_HEAD;
			head = !f ? cap : cap > f->captured ? cap - f->captured : 0;
			if (head > (u32)m->bytes)
				head = m->bytes;
			if (m->datagram && p.name)
				peer = PEER_BYTES;
		}
	}
	/* without payload, the peer of a datagram still tells the flow */
	if (!cfg_head_bytes && m->datagram && m->readable && m->bytes > 0 && find_place(&p, regs, m->class, m->index) && p.name)
		peer = PEER_BYTES;
	if (head > HEAD_MAX)
		head = HEAD_MAX;
	if (f && m->bytes > 0 && !is_body && (f->streams & STREAMS_FRAMED || (f->streams && m->bytes > HEAD_MAX)))
		note_frames(c, f, m, &p, now);
	who.runtime = m->op;
	if (runtime_processes && logical_task(&who, m->flow, now)) {
		named = sizeof(who);
		if (who.runtime == RUNTIME_TOKIO)
			tokio_acts(task->tgid, who.key, now, m->op);
		m->op |= SUB_LOGICAL;
	}
	size = sizeof(*r) + named + peer + ((head + 7) & ~7u);
	r = reserve(c, size, DROP_OP, &position);
	if (!r) {
		/* where its frames end is kept all the same */
		c->more_way &= ~MORE_LAST;
		return;
	}
	if (c->more_flow && m->bytes > HEAD_MAX)
		m->op |= SUB_GOES_ON;
	rest = r + 1;
	if (named) {
		__builtin_memcpy(rest, &who, sizeof(who));
		rest += sizeof(who);
	}
	if (peer) {
		m->flags |= OPF_PEER;
		if (bpf_probe_read_user(rest, 28, (void *)p.name))
			/* shorter than the longest address, at the end of a page; else it stays what was sent before */
			if (bpf_probe_read_user(rest, 16, (void *)p.name))
				*(u64 *)rest = 0;
	}
	if (head) {
		void *dst = rest + peer;

		if (!p.count)
			done = take(dst, 0, head, p.buffer, head);
		else
			done = take_all((position & (cfg_ring_bytes - 1)) + sizeof(*r) + named + peer, head, p.buffer, p.count);
		if (done & 0x80000000) {
			/* a page was not there: what was read before it counts */
			lost(c, DROP_HEAD_FAULT);
			m->flags |= OPF_UNREADABLE;
			done &= 0x7fffffff;
		}
		head = done;
		if (f) {
			if (!f->http && !f->captured && done >= 4) {
				f->http = looks_like_http(*(u32 *)dst);
				f->streams |= streams_of(*(u32 *)dst);
				if (done >= 8 && begins_frame(*(u64 *)dst))
					f->streams |= STREAMS_FRAMED;
			}
			f->captured += head;
		}
		m->flags |= OPF_HEAD;
	}
	r->ts_ns = now;
	r->flow = m->flow;
	r->tgid = task->tgid;
	r->tid = task->pid;
	r->entry_ago_ns = 0;
	if (m->entered_ns) {
		r->entry_ago_ns = span(m->entered_ns, now);
		m->flags |= OPF_ENTRY;
	}
	r->arrived_ago_ns = 0;
	if (m->arrived_ns) {
		r->arrived_ago_ns = span(m->arrived_ns, now);
		m->flags |= OPF_ARRIVED;
	}
	r->seq_end = m->seq_end;
	r->bytes = m->bytes;
	r->flags = m->flags;
	r->head_bytes = head;
	r->syscall = m->class == SC_IO_URING || (task->flags & PF_KTHREAD) ? NO_SYSCALL : RECORDED_NUMBER(call_number(regs));
	r->cpu = bpf_get_smp_processor_id();
	commit(r, position, size, KIND_OP, m->op);
}

/* When the current task entered its system call; 0 = not known. */
static __always_inline u64 entry_of(struct task_struct *task)
{
	struct task_state *t = state_of(task);

	return t ? t->entered_ns : 0;
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

	if (is_again(ret) || (op == OP_RECV && (flags & (MSG_PEEK | MSG_ERRQUEUE | MSG_OOB))))
		return op == OP_SEND ? tokio_is_held(ret) : 0;
	m.class = class_now(task, regs);
	if (m.class == SC_IO_URING)
		m.flags = OPF_IO_URING;
	else
		c->reported = (u64)task;
	if (is_idle(ret, op, sk->sk_type, sk->sk_shutdown) || !watched(task))
		return 0;
	f = flow_of(sk, sk->__sk_common.skc_state == TCP_CLOSE);
	if (!f)
		return 0;
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
	if (op == OP_SEND && m.class != SC_IO_URING)
		m.entered_ns = entry_of(task);
	tp = tcp_of(sk);
	if (tp) {
		if (op == OP_SEND) {
			m.seq_end = tp->write_seq;
			if (m.seq_end != tp->snd_nxt || tp->chrono_stat[TCP_WINDOW_LIMITED] != f->window_waits)
				m.flags |= held_for(tp, f);
		} else {
			u32 next = tp->rcv_nxt, copied = tp->copied_seq;

			m.seq_end = without_fin(copied, next, sk->__sk_common.skc_flags);
			if (next != copied)
				m.flags |= OPF_MORE;
		}
	} else {
		m.datagram = sk->sk_type == SOCK_DGRAM;
		m.flags |= OPF_COUNTED;
		m.seq_end = n + __sync_fetch_and_add(op == OP_SEND ? &f->sent : &f->received, n);
	}
	if (op == OP_RECV) {
		m.arrived_ns = f->arrived_ns;
		/* bytes left over arrived no later than the last packet: the best bound without a record a packet */
		f->arrived_ns = m.flags & OPF_MORE ? f->last_ready_ns : 0;
	}
	if (!f->announced)
		announce(sk, f, FLOW_MET, task->tgid, now, peer_of(sk), op == OP_SEND ? n : 0, op == OP_RECV ? n : 0);
	if (m.datagram && op == OP_RECV && ret >= 0 && !sk->__sk_common.skc_dport && sk->__sk_common.skc_family != AF_UNIX &&
	    (m.class == SC_RECVFROM || m.class == SC_RECVMSG || m.class == SC_RECVMMSG)) {
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
	follow_noted(c);
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

/* A send or receive on whatever a descriptor names, from the system call's exit: pipes always, sockets where the
 * kernel has no hook of its own (before 6.3, and for splice). `part` is which message of a call that moves several
 * (low half), and the bytes of those behind it (high half). A global function: verified once, whoever calls it. */
__noinline int on_descriptor(u64 entered_ns, u64 fd, s32 ret, u32 op, u64 part)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = regs_of(task);
	struct file *file = file_at(task, fd);
	struct flow_state *f = 0;
	struct pipe_state *p, none = {};
	struct moved m = {};
	struct sock *sk;
	u32 n = ret > 0 ? ret : 0;
	u64 now, ino;
	u16 mode;
	bool splice;

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
		if (ret < 0 || (ret == 0 && op == OP_SEND))
			return 0;
		ino = field(file, f_inode, i_ino);
		p = bpf_map_lookup_elem(&pipes, &ino);
		if (!p) {
			bpf_map_update_elem(&pipes, &ino, &none, BPF_ANY);
			p = bpf_map_lookup_elem(&pipes, &ino);
			if (!p)
				return 0;
		}
		m.flow = FLOW_PIPE_BIT | ino;
		m.flags = OPF_COUNTED;
		m.seq_end = n + __sync_fetch_and_add(op == OP_SEND ? &p->written : &p->read, n);
		emit_op(task, regs, 0, &m, now);
		return 0;
	}
	splice = m.class == SC_SPLICE && op == OP_RECV;
	if (cfg_sock_hooks && !splice)
		return 0;
	sk = sock_in(file);
	if (!sk || is_idle(ret, op, field(sk, sk_type), field(sk, sk_shutdown)))
		return 0;
	if (cfg_sock_hooks) {
		/* splice out of a socket passes the hooks by */
		m.flow = field(sk, __sk_common.skc_cookie.counter);
		if (!m.flow || field(sk, sk_type) == SOCK_DGRAM)
			return 0;
	} else {
		f = flow_at(sk);
		if (!f)
			return 0;
		m.flow = f->id;
		this_cpu()->more_socket = (u64)sk;
	}
	if (field(sk, sk_protocol) == IPPROTO_TCP && field(sk, __sk_common.skc_family) != AF_UNIX) {
		struct tcp_sock *tp = (struct tcp_sock *)sk;

		if (op == OP_SEND) {
			m.seq_end = field(tp, write_seq);
			/* before Linux 6.2 each field takes a helper's call */
			if (CAN_CAST && f)
				m.flags |= held_for(cast(struct tcp_sock, tp), f);
		} else {
			u32 next = field(tp, rcv_nxt), copied = field(tp, copied_seq);

			m.seq_end = without_fin(copied, next, field(sk, __sk_common.skc_flags));
			if (next != copied)
				m.flags |= OPF_MORE;
		}
		m.seq_end -= (u32)(part >> 32);
	} else {
		m.flags = OPF_COUNTED;
		if (f) {
			m.datagram = field(sk, sk_type) == SOCK_DGRAM;
			m.seq_end = n + __sync_fetch_and_add(op == OP_SEND ? &f->sent : &f->received, n);
		} else {
			m.flags |= OPF_UNNUMBERED;
		}
	}
	if (f && !f->announced)
		announce(sk, f, FLOW_MET, task->tgid, now, peer_at(sk), op == OP_SEND ? n : 0, op == OP_RECV ? n : 0);
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
			announce(sk, f, op == OP_ACCEPT ? FLOW_ACCEPTED : FLOW_MET, field(task, tgid), now, peer_at(sk), 0, 0);
	}
	m.bytes = ret;
	m.op = op;
	m.class = syscall_class[call_number(regs) & (SYSCALLS - 1)];
	if (op == OP_CONNECT || op == OP_ACCEPT)
		m.entered_ns = entry_of(task);
	if (op == OP_SHUTDOWN && CALL_ARG2(regs) != 0)
		m.flags |= OPF_SHUT_WRITE;
	if (op == OP_ACCEPT)
		m.bytes = 0;
	emit_op(task, regs, 0, &m, now);
	return 0;
}

#endif
