/* Operations: which task moved which bytes on which flow, with the message head where one may begin. */
#ifndef WAKEPATH_OPS_H
#define WAKEPATH_OPS_H

#define PEER_BYTES 32
#define MAX_IOV 6

/* Copies at most `room` bytes of user memory behind `done` bytes of the head already taken; the new total. */
static __always_inline u32 take(void *dst, u32 done, u32 room, u64 src, u64 len)
{
	if (done >= room || !src)
		return done;
	if (len > room - done)
		len = room - done;
	if (len == 0 || len > HEAD_MAX || done > HEAD_MAX)
		return done;
	asm volatile("" : "+r"(len), "+r"(done));
	if (len > HEAD_MAX || done > HEAD_MAX)
		return done;
	if (bpf_probe_read_user(dst + done, len, (void *)src))
		return done | 0x80000000;
	return done + len;
}

static __always_inline u32 take_iov(void *dst, u32 room, u64 iov, u64 count)
{
	struct user_iovec v;
	u32 done = 0;
	int i;

#pragma unroll
	for (i = 0; i < MAX_IOV; i++) {
		if (i >= count || done >= room)
			break;
		if (bpf_probe_read_user(&v, sizeof(v), (void *)(iov + i * sizeof(v))))
			break;
		done = take(dst, done, room, v.base, v.len);
		if (done & 0x80000000)
			break;
	}
	return done;
}

/* Where the caller's bytes are, by the arguments of its system call. */
struct place {
	u64 buffer; /* a flat buffer, or an iovec array where `count` */
	u64 count;
	u64 name; /* a sockaddr, 0 = none */
	u64 length; /* of a flat buffer */
};

static __always_inline bool find_place(struct place *p, struct pt_regs *regs, u8 class, struct task_struct *task)
{
	struct user_mmsghdr m;
	struct task_state *t;

	p->buffer = p->count = p->name = 0;
	p->length = ~0ULL;
	switch (class) {
	case SC_WRITE:
	case SC_READ:
		p->buffer = regs->si;
		return true;
	case SC_SENDTO:
	case SC_RECVFROM:
		p->buffer = regs->si;
		p->name = regs->r8;
		return true;
	case SC_WRITEV:
	case SC_READV:
		p->buffer = regs->si;
		p->count = regs->dx;
		return true;
	case SC_SENDMSG:
	case SC_RECVMSG:
		if (bpf_probe_read_user(&m.hdr, sizeof(m.hdr), (void *)regs->si))
			return false;
		break;
	case SC_SENDMMSG:
	case SC_RECVMMSG:
		t = current_state(task); /* sys_enter set the count to zero */
		if (!t || bpf_probe_read_user(&m, sizeof(m), (void *)(regs->si + (t->mmsg & 63) * sizeof(m))))
			return false;
		t->mmsg++;
		break;
	default:
		return false;
	}
	p->buffer = m.hdr.iov;
	p->count = m.hdr.iovlen;
	p->name = m.hdr.name;
	return true;
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
	u32 seq_end;
	s32 bytes;
	u16 flags;
	u8 op;
};

/* Binary protocols need no more than this of one run. */
#define PLAIN_HEAD 1024

/* Writes one operation. `f` is 0 where no payload is wanted (pipes, control). Inlined into its callers: the hot path. */
static __always_inline void emit_op(struct task_struct *task, struct pt_regs *regs, struct flow_state *f,
				    struct moved *m, u64 now, bool datagram)
{
	struct cpu_state *c = this_cpu();
	u32 head = 0, peer = 0, size, done;
	u64 position, ago;
	struct wp_op *r;
	struct place p;
	u16 nr = regs->orig_ax;
	u8 class = syscall_class[nr & (SYSCALLS - 1)];
	u32 word = 0;

	if (f && m->bytes > 0) {
		if (f->direction != m->op) {
			m->flags |= OPF_TURN;
			f->direction = m->op;
			f->captured = 0;
			f->http = 0;
		}
		if (cfg_head_bytes && (datagram || f->captured < cfg_head_bytes)) {
			if (!find_place(&p, regs, class, task)) {
				m->flags |= OPF_UNREADABLE;
			} else {
				u32 cap = cfg_head_bytes;

				/* only a long first operation must be looked at before its slot is sized */
				if (!datagram && !f->captured && m->bytes > PLAIN_HEAD) {
					u64 first = p.buffer;

					if (p.count)
						bpf_probe_read_user(&first, sizeof(first), (void *)p.buffer);
					bpf_probe_read_user(&word, sizeof(word), (void *)first);
					f->http = looks_like_http(word);
				}
				if (!f->http && cap > PLAIN_HEAD)
					cap = PLAIN_HEAD;
				head = datagram ? cap : cap > f->captured ? cap - f->captured : 0;
				if (head > (u32)m->bytes)
					head = m->bytes;
				if (datagram && p.name)
					peer = PEER_BYTES;
			}
		}
	}
	if (class == SC_IO_URING)
		m->flags |= OPF_IO_URING;
	if (head > HEAD_MAX)
		head = HEAD_MAX;
	size = sizeof(*r) + peer + ((head + 7) & ~7u);
	r = reserve(c, size, DROP_OP, &position);
	if (!r)
		return;
	if (peer) {
		m->flags |= OPF_PEER;
		bpf_probe_read_user((void *)(r + 1), 28, (void *)p.name);
	}
	if (head) {
		void *dst = (void *)(r + 1) + peer;

		if (p.count)
			done = take_iov(dst, head, p.buffer, p.count);
		else
			done = take(dst, 0, head, p.buffer, head);
		if (done & 0x80000000) {
			/* a page was not there: what was read before it counts */
			lost(c, DROP_HEAD_FAULT);
			m->flags |= OPF_UNREADABLE;
			done &= 0x7fffffff;
		}
		head = done;
		if (f && !datagram) {
			if (!f->captured && done >= 4)
				f->http = looks_like_http(*(u32 *)dst);
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
		ago = now - m->entered_ns;
		r->entry_ago_ns = ago > 0xffffffffULL ? 0xffffffff : ago;
		m->flags |= OPF_ENTRY;
	}
	r->arrived_ago_ns = 0;
	if (f && m->op == OP_RECV && f->arrived_ns) {
		ago = now - f->arrived_ns;
		r->arrived_ago_ns = ago > 0xffffffffULL ? 0xffffffff : ago;
		m->flags |= OPF_ARRIVED;
		/* bytes left over arrived no later than the last packet: the best bound without a record a packet */
		f->arrived_ns = m->flags & OPF_MORE ? f->last_ready_ns : 0;
	}
	r->seq_end = m->seq_end;
	r->bytes = m->bytes;
	r->flags = m->flags;
	r->head_bytes = head;
	r->syscall = nr;
	r->cpu = bpf_get_smp_processor_id();
	commit(r, position, size, KIND_OP, m->op);
}

/* A send or receive on a typed socket, after it happened (kernels from 6.3). */
static __always_inline int on_socket(struct sock *sk, int ret, u8 op, int flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct flow_state *f;
	struct tcp_sock *tp;
	struct moved m = {};
	bool datagram = false;
	u64 now;

	if (ret == -EAGAIN || ret == -EINTR || (ret == 0 && op == OP_SEND) || (flags & MSG_PEEK && op == OP_RECV))
		return 0;
	this_cpu()->reported = (u64)task;
	if (!watched(task))
		return 0;
	f = flow_of(sk);
	if (!f)
		return 0;
	now = bpf_ktime_get_ns();
	m.bytes = ret;
	m.op = op;
	m.flow = f->id;
	tp = bpf_skc_to_tcp_sock(sk);
	if (tp) {
		if (op == OP_SEND) {
			m.seq_end = tp->write_seq;
			/* when the stack last looked at the clock for this flow: it did so before it transmitted */
			m.entered_ns = tp->tcp_clock_cache;
		} else {
			m.seq_end = tp->copied_seq;
			if (tp->rcv_nxt != m.seq_end)
				m.flags |= OPF_MORE;
		}
	} else {
		u32 n = ret > 0 ? ret : 0;

		datagram = sk->sk_type == SOCK_DGRAM;
		m.flags = OPF_COUNTED;
		m.seq_end = n + __sync_fetch_and_add(op == OP_SEND ? &f->sent : &f->received, n);
	}
	if (!f->announced)
		announce(sk, f, FLOW_MET, task->tgid, now);
	emit_op(task, (struct pt_regs *)bpf_task_pt_regs(task), f, &m, now, datagram);
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

/* A send or receive on whatever a descriptor names, from the system call's exit: pipes always, sockets where the
 * kernel has no hook of its own (before 6.3). */
static __noinline int on_descriptor(struct task_struct *task, u64 entered_ns, u64 fd, s32 ret, u8 op)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct file *file = file_at(task, fd);
	struct flow_state *f = 0;
	struct pipe_state *p, none = {};
	struct moved m = {};
	struct sock *sk;
	bool datagram = false;
	u64 now, ino;
	u16 mode;

	if (!file)
		return 0;
	mode = field(file, f_inode, i_mode) & S_IFMT;
	now = bpf_ktime_get_ns();
	m.bytes = ret;
	m.op = op;
	m.entered_ns = entered_ns;
	if (mode == S_IFIFO && (ret > 0 || op == OP_RECV)) {
		u32 n = ret > 0 ? ret : 0;

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
		emit_op(task, regs, 0, &m, now, false);
		return 0;
	}
	if (mode != S_IFSOCK || cfg_sock_hooks)
		return 0;
	sk = sock_in(file);
	f = sk ? flow_at(sk) : 0;
	if (!f)
		return 0;
	m.flow = f->id;
	if (field(sk, sk_protocol) == IPPROTO_TCP && field(sk, __sk_common.skc_family) != AF_UNIX) {
		struct tcp_sock *tp = (struct tcp_sock *)sk;

		if (op == OP_SEND) {
			m.seq_end = field(tp, write_seq);
		} else {
			m.seq_end = field(tp, copied_seq);
			if (field(tp, rcv_nxt) != m.seq_end)
				m.flags |= OPF_MORE;
		}
	} else {
		u32 n = ret > 0 ? ret : 0;

		datagram = field(sk, sk_type) == SOCK_DGRAM;
		m.flags = OPF_COUNTED;
		m.seq_end = n + __sync_fetch_and_add(op == OP_SEND ? &f->sent : &f->received, n);
	}
	if (!f->announced)
		announce(sk, f, FLOW_MET, field(task, tgid), now);
	emit_op(task, regs, f, &m, now, datagram);
	return 0;
}

/* accept, connect, close, shutdown: the flow is named, no bytes move. */
static __noinline int on_control(struct task_struct *task, u64 fd, s32 ret, u8 op)
{
	struct file *file = file_at(task, fd);
	struct sock *sk = file ? sock_in(file) : 0;
	struct moved m = {};
	struct flow_state *f;
	u64 id;

	if (!sk)
		return 0;
	id = field(sk, __sk_common.skc_cookie.counter);
	if (!id && cfg_sock_hooks)
		return 0; /* never met, or UNIX: announced at its first operation */
	if (!cfg_sock_hooks) {
		f = flow_at(sk);
		if (!f)
			return 0;
		id = f->id;
		if (!f->announced && op != OP_CLOSE)
			announce(sk, f, op == OP_ACCEPT ? FLOW_ACCEPTED : FLOW_MET, field(task, tgid), bpf_ktime_get_ns());
	}
	m.flow = id;
	m.bytes = ret;
	m.op = op;
	if (op == OP_SHUTDOWN) {
		struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

		if (regs->si != 0)
			m.flags |= OPF_SHUT_WRITE;
	}
	emit_op(task, (struct pt_regs *)bpf_task_pt_regs(task), 0, &m, bpf_ktime_get_ns(), false);
	return 0;
}

static __always_inline u64 user_time(u64 address, u32 ns_per_unit)
{
	u64 v[2];

	if (!address || bpf_probe_read_user(v, sizeof(v), (void *)address))
		return ~0ULL;
	return v[0] * 1000000000ULL + v[1] * ns_per_unit;
}

/* What must be noted before the call: entries of calls that may take long, time-outs that the kernel overwrites, the
 * flow behind a descriptor that is about to go, and (without socket hooks) every entry. */
static __always_inline bool needs_entry(u8 class)
{
	switch (class) {
	case SC_NONE:
	case SC_IO_URING:
	case SC_ACCEPT:
	case SC_SHUTDOWN:
		return false;
	case SC_READ:
	case SC_READV:
	case SC_WRITE:
	case SC_WRITEV:
	case SC_SENDTO:
	case SC_SENDMSG:
	case SC_RECVFROM:
	case SC_RECVMSG:
	case SC_SENDFILE:
	case SC_SPLICE:
		return !cfg_sock_hooks;
	}
	return true;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long id)
{
	struct task_struct *task;
	struct task_state *t;
	u8 class;

	if ((u64)id >= SYSCALLS)
		return 0;
	class = syscall_class[id & (SYSCALLS - 1)];
	if (!needs_entry(class))
		return 0;
	task = bpf_get_current_task_btf();
	if (class == SC_CLOSE) {
		if (watched(task))
			on_control(task, regs->di, 0, OP_CLOSE);
		return 0;
	}
	t = current_state(task);
	if (!t || !t->watched)
		return 0;
	t->entered_ns = bpf_ktime_get_ns();
	t->mmsg = 0;
	switch (class) {
	case SC_SELECT:
		t->timeout_ns = user_time(regs->r8, 1000);
		break;
	case SC_PSELECT:
		t->timeout_ns = user_time(regs->r8, 1);
		break;
	case SC_PPOLL:
		t->timeout_ns = user_time(regs->dx, 1);
		break;
	case SC_EPOLL2:
		t->timeout_ns = user_time(regs->r10, 1);
		break;
	}
	return 0;
}

static __always_inline u64 milliseconds(s32 ms)
{
	return ms < 0 ? ~0ULL : (u64)ms * 1000000;
}

static __always_inline void on_poll(struct task_struct *task, struct task_state *t, u64 entered, u8 class, s32 ret)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct cpu_state *c = this_cpu();
	u64 position;
	struct wp_poll *r = reserve(c, sizeof(*r), DROP_POLL, &position);

	if (!r)
		return;
	r->ts_ns = bpf_ktime_get_ns();
	r->entry_ago_ns = r->ts_ns - entered;
	r->tgid = task->tgid;
	r->tid = task->pid;
	r->ready = ret;
	r->fd = class == SC_EPOLL || class == SC_EPOLL2 ? (s32)regs->di : -1;
	r->timeout_ns = class == SC_EPOLL ? milliseconds(regs->r10) :
			class == SC_POLL  ? milliseconds(regs->dx) :
					    t->timeout_ns;
	commit(r, position, sizeof(*r), KIND_POLL, class);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit, struct pt_regs *regs, long ret)
{
	struct cpu_state *c = this_cpu();
	struct task_struct *task;
	struct task_state *t;
	u64 reported = c->reported;
	u64 id = regs->orig_ax;
	u64 entered = 0;
	u8 class;

	clear_marks(c);
	c->reported = 0;
	if (id >= SYSCALLS)
		return 0;
	class = syscall_class[id & (SYSCALLS - 1)];
	if (class == SC_NONE || class == SC_IO_URING || class == SC_CLOSE)
		return 0;
	/* on sockets these have reported themselves */
	if (cfg_sock_hooks && (class == SC_SENDTO || class == SC_RECVFROM || class == SC_SENDMSG || class == SC_RECVMSG ||
			       class == SC_SENDMMSG || class == SC_RECVMMSG))
		return 0;
	task = bpf_get_current_task_btf();
	if (reported == (u64)task || ret < -4095 || !watched(task))
		return 0;
	if (needs_entry(class)) {
		t = bpf_task_storage_get(&tasks, task, 0, 0);
		if (!t)
			return 0;
		entered = t->entered_ns;
		t->entered_ns = 0;
	}
	switch (class) {
	case SC_EPOLL:
	case SC_POLL:
	case SC_SELECT:
	case SC_PSELECT:
	case SC_PPOLL:
	case SC_EPOLL2:
		if (entered)
			on_poll(task, t, entered, class, ret);
		break;
	case SC_READ:
	case SC_READV:
		if (ret >= 0)
			on_descriptor(task, entered, regs->di, ret, OP_RECV);
		break;
	case SC_WRITE:
	case SC_WRITEV:
		if (ret > 0)
			on_descriptor(task, entered, regs->di, ret, OP_SEND);
		break;
	case SC_RECVFROM:
		if (ret != -EAGAIN && ret != -EINTR && !(regs->r10 & MSG_PEEK))
			on_descriptor(task, entered, regs->di, ret, OP_RECV);
		break;
	case SC_RECVMSG:
		if (ret != -EAGAIN && ret != -EINTR && !(regs->dx & MSG_PEEK))
			on_descriptor(task, entered, regs->di, ret, OP_RECV);
		break;
	case SC_SENDTO:
	case SC_SENDMSG:
		if (ret && ret != -EAGAIN && ret != -EINTR)
			on_descriptor(task, entered, regs->di, ret, OP_SEND);
		break;
	case SC_SENDFILE:
		if (ret > 0)
			on_descriptor(task, entered, regs->di, ret, OP_SEND);
		break;
	case SC_SPLICE:
		if (ret > 0) {
			on_descriptor(task, entered, regs->di, ret, OP_RECV);
			on_descriptor(task, entered, regs->dx, ret, OP_SEND);
		}
		break;
	case SC_ACCEPT:
		if (ret >= 0)
			on_control(task, ret, 0, OP_ACCEPT);
		break;
	case SC_CONNECT:
		on_control(task, regs->di, ret, OP_CONNECT);
		break;
	case SC_SHUTDOWN:
		if (ret == 0)
			on_control(task, regs->di, 0, OP_SHUTDOWN);
		break;
	}
	return 0;
}

#endif
