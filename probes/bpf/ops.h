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

/* Heads of HTTP, and of FastCGI (a BEGIN_REQUEST; parameters like HTTP's fields follow), are longer than those of binary protocols: give
 * them the whole cap. */
static __always_inline bool has_long_head(u32 word)
{
	return (word & 0xffffff) == 0x000101 || word == 0x50545448 /* HTTP */ || word == 0x20544547 /* GET_ */ || word == 0x54534f50 /* POST */ ||
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
	bool each; /* of each operation, as much as there is room for */
};

/* Binary protocols need no more than this of one run. */
#define PLAIN_HEAD 1024

/* As short_ago() of crates/wire/src/ago.rs: exact for 2 s, then in units of 2^10 and of 2^20 ns. */
static __always_inline u32 ago(u64 from, u64 to)
{
	u64 ns = to - from;

	if (ns < 1ULL << 31)
		return ns;
	if (ns < 1ULL << 40)
		return 1U << 31 | (u32)(ns >> 10);
	return ns < 1ULL << 50 ? 3U << 30 | (u32)(ns >> 20) : ~0U;
}

/* How many changes of direction, or operations of which no head is taken, lie between two looks at wanted_heads: a power of
 * two. The first looks are nearer to each other: the recorder tells soon after it knows the protocol. */
#define TURNS_A_LOOK 16

/* What the recorder has found out of the flow. */
__noinline int ask_recorder(struct flow_state *f)
{
	/* older verifiers take a key from no memory that an argument names (6.1) */
	u64 id = f ? f->id : 0;
	u8 *wants = bpf_map_lookup_elem(&wanted_heads, &id);

	if (!wants || !f)
		return 0;
	f->quiet = *wants == WANTS_NONE;
	if (*wants == WANTS_EACH) {
		f->streams = STREAMS_PLAIN;
	} else if (*wants == WANTS_FRAMES) {
		frames_are_sure(f);
	}
	return 0;
}

static __always_inline void look(struct flow_state *f)
{
	f->turns++;
	if (!cfg_head_bytes || f->quiet || f->streams & (STREAMS_HTTP2 | STREAMS_PLAIN))
		return;
	if ((f->turns & (TURNS_A_LOOK - 1)) && (f->turns & (f->turns - 1)))
		return;
	ask_recorder(f);
}

/* The flow changed its direction: a message may begin here. */
static __always_inline void turn(struct flow_state *f, u8 op)
{
	f->direction = op;
	f->captured = 0;
	look(f);
}

/* What the first bytes of a message tell of the flow's protocol. */
static __always_inline void learn_streams(struct flow_state *f, u64 first, u32 bytes)
{
	f->http = has_long_head(first);
	f->streams |= streams_of(first) | (bytes >= 8 && begins_frame(first) ? STREAMS_FRAMED : 0);
}

/* Only a long first operation must be looked at before its slot is sized; who spoke HTTP speaks it again. */
static __always_inline void look_ahead(struct flow_state *f, struct place *p)
{
	u64 first = p->buffer;

	if (p->count)
		bpf_probe_read_user(&first, sizeof(first), (void *)p->buffer);
	/* into the same place: older kernels give little stack */
	bpf_probe_read_user(&first, sizeof(first), (void *)first);
	learn_streams(f, first, sizeof(first));
}

/* How many bytes of an operation are taken as its head, where any are. */
static __always_inline u32 head_of(struct flow_state *f, struct moved *m, struct place *p)
{
	u32 cap = cfg_head_bytes, head;

	if (f && !f->http && !f->captured && m->bytes > PLAIN_HEAD)
		look_ahead(f, p);
	if (m->each || (f && f->streams))
		/* the option is of each message, and one operation may have many */
		cap = HEAD_MAX;
	else if (cap > PLAIN_HEAD && !(f && f->http))
		cap = PLAIN_HEAD;
	head = !f ? cap : cap > f->captured ? cap - f->captured : 0;
	return head > (u32)m->bytes ? m->bytes : head;
}

/* Keeps where the flow stands. Whether the operation moves nothing but the body of a frame, which is not taken. */
static __always_inline bool moves_body(struct flow_state *f, struct moved *m)
{
	bool is_body;

	if (!f)
		return false;
	if (m->bytes > 0 && f->direction != m->op) {
		m->flags |= OPF_TURN;
		turn(f, m->op);
	} else if (f->captured >= PLAIN_HEAD) {
		look(f);
	}
	is_body = f->streams & STREAMS_HTTP2 && m->bytes > 0 && is_within_data(f, m->op, m->bytes);
	if (f->streams)
		f->captured = 0;
	return is_body;
}

/* Reads where a datagram came from, or where it goes. */
static __always_inline void take_peer(void *dst, u64 name)
{
	if (bpf_probe_read_user(dst, 28, (void *)name))
		/* shorter than the longest address, at the end of a page; else it stays what was sent before */
		if (bpf_probe_read_user(dst, 16, (void *)name))
			*(u64 *)dst = 0;
}

/* Reads the head of an operation into `dst`, which is at `at` of this processor's ring; how many bytes it has. */
static __always_inline u32 take_head(struct cpu_state *c, struct flow_state *f, struct moved *m, struct place *p, void *dst, u32 at,
				     u32 head)
{
	u32 done;

	if (!p->count)
		done = take(dst, 0, head, p->buffer, head);
	else
		done = take_all(at, head, p->buffer, p->count);
	if (done & 0x80000000) {
		/* a page was not there: what was read before it counts */
		lost(c, DROP_HEAD_FAULT);
		m->flags |= OPF_UNREADABLE;
		done &= 0x7fffffff;
	}
	if (f) {
		if (!f->http && !f->captured && done >= 4)
			learn_streams(f, done >= 8 ? *(u64 *)dst : *(u32 *)dst, done);
		f->captured += done;
	}
	m->flags |= OPF_HEAD;
	return done;
}

/* Fills the record of an operation but for what follows it. */
static __always_inline void fill_op(struct wp_op *r, struct task_struct *task, struct pt_regs *regs, struct moved *m, u32 head, u64 now)
{
	r->ts_ns = now;
	r->flow = m->flow;
	r->tgid = task->tgid;
	r->tid = task->pid;
	r->entry_ago_ns = 0;
	if (m->entered_ns) {
		r->entry_ago_ns = ago(m->entered_ns, now);
		m->flags |= OPF_ENTRY;
	}
	r->arrived_ago_ns = 0;
	if (m->arrived_ns) {
		r->arrived_ago_ns = ago(m->arrived_ns, now);
		m->flags |= OPF_ARRIVED;
	}
	r->seq_end = m->seq_end;
	r->bytes = m->bytes;
	r->flags = m->flags;
	r->head_bytes = head;
	r->syscall = m->class == SC_IO_URING || (task->flags & PF_KTHREAD) ? NO_SYSCALL : RECORDED_NUMBER(call_number(regs));
	r->cpu = bpf_get_smp_processor_id();
}

/* Whether the record of an operation is the operation alone: nobody wants its bytes, and nothing tells more of it. The common case. */
static __always_inline bool is_alone(struct flow_state *f, struct moved *m, bool is_body)
{
	bool has_bytes = m->readable && m->bytes > 0 && !is_body;

	if (runtime_processes || m->datagram || tls_looks(f, m->op, m->bytes) || (f && f->streams && has_bytes))
		return false;
	return !has_bytes || !cfg_head_bytes || (f && (f->quiet || f->captured >= cfg_head_bytes));
}

/* What belongs to an operation that is written now. Not on the stack: see looked_at. */
struct written {
	struct place p;
	struct wp_logical who;
	u64 request; /* of io_uring, where the operation is its; 0 = not known */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct written);
} written_now SEC(".maps");

/* An operation of io_uring is written next: by which request it is done. */
static __always_inline void by_request(u64 request)
{
	u32 zero = 0;
	struct written *w = bpf_map_lookup_elem(&written_now, &zero);

	if (w)
		w->request = request;
}

/* Writes an operation with what belongs to it: who acted, the other end of a datagram, its head. A global function: verified once, whoever
 * calls it. Whether frames that lie in the operation are to be followed (`follow_op`). */
__noinline int emit_whole(struct flow_state *f, struct moved *m, u64 now, u32 is_body)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu_state *c = this_cpu();
	u32 head = 0, most = HEAD_MAX, peer = 0, named = 0, zero = 0, size;
	struct written *w = bpf_map_lookup_elem(&written_now, &zero);
	struct followed *frames = 0;
	u64 position;
	struct wp_op *r;
	void *rest;
	bool wants_head;

	if (!m || !w)
		return 0;
	w->p.buffer = w->p.count = w->p.name = 0;
	wants_head = cfg_head_bytes && !is_body && m->readable && m->bytes > 0 && (!f || (!f->quiet && f->captured < cfg_head_bytes));
	if (wants_head || (m->readable && tls_looks(f, m->op, m->bytes))) {
		if (m->class == SC_IO_URING && w->request)
			ring_place(&w->p.buffer, &w->p.count, w->request);
		else if (find_place(&w->p, regs_of(task), m->class, m->index) && tls_looks(f, m->op, m->bytes))
			tls_is_sent(f, m->flow, w->p.buffer, w->p.count != 0);
		if (!w->p.buffer)
			m->flags |= OPF_UNREADABLE;
		else if (f && w->p.count <= 1 && !is_many(m->class))
			most = head_most(f, m->op, w->p.buffer, w->p.count, m->bytes);
		if (wants_head && w->p.buffer)
			head = head_of(f, m, &w->p);
	} else if (!cfg_head_bytes && m->datagram && m->readable && m->bytes > 0) {
		/* without payload, the peer of a datagram still tells the flow */
		find_place(&w->p, regs_of(task), m->class, m->index);
	}
	if (m->datagram && w->p.name)
		peer = PEER_BYTES;
	if (head > most)
		head = most;
	if (head > HEAD_MAX)
		head = HEAD_MAX;
	if (f && m->bytes > 0 && !is_body && (f->streams & STREAMS_FRAMED || (f->streams && m->bytes > HEAD_MAX))) {
		if (!w->p.buffer || (w->p.count > 1 && !(f->streams & STREAMS_TLS)) || is_many(m->class))
			lose_frames(f, m->op);
		else
			frames = note_frames(m->flow, w->p.buffer, m->bytes, m->op | (w->p.count ? MORE_IN_IOVEC : 0), now);
		if (frames && most < HEAD_MAX)
			limit_head(frames, most);
	}
	if (runtime_processes) {
		__builtin_memset(&w->who, 0, sizeof(w->who));
		w->who.runtime = m->op;
		if (logical_task(&w->who, m->flow, now))
			named = sizeof(w->who);
	}
	if (named) {
		if (w->who.runtime == RUNTIME_TOKIO)
			tokio_acts(task->tgid, w->who.key, now, m->op);
		m->op |= SUB_LOGICAL;
	}
	size = sizeof(*r) + named + peer + ((head + 7) & ~7u);
	r = reserve(c, size, DROP_OP, &position);
	if (!r) {
		/* where its frames end is kept all the same */
		if (frames)
			frames->way &= ~MORE_LAST;
		return frames != 0;
	}
	if (frames && frames->way & MORE_LAST)
		m->op |= SUB_GOES_ON;
	rest = r + 1;
	if (named) {
		__builtin_memcpy(rest, &w->who, sizeof(w->who));
		rest += sizeof(w->who);
	}
	if (peer) {
		m->flags |= OPF_PEER;
		take_peer(rest, w->p.name);
	}
	if (head)
		head = take_head(c, f, m, &w->p, rest + peer, (position & (cfg_ring_bytes - 1)) + sizeof(*r) + named + peer, head);
	fill_op(r, task, regs_of(task), m, head, now);
	commit(r, position, size, KIND_OP, m->op);
	return frames != 0;
}

/* Writes one operation. `f` follows a stream's direction; 0 where no payload is wanted (control), for datagrams, each of which is a
 * message, and for pipes, whose bytes go one way. */
static __always_inline void emit_op(struct task_struct *task, struct pt_regs *regs, struct flow_state *f, struct moved *m, u64 now)
{
	struct wp_op *r;
	u64 position;
	bool is_body;

	tls_moves(f, m->flow, m->bytes, m->op);
	is_body = moves_body(f, m);
	if (!is_alone(f, m, is_body)) {
		if (emit_whole(f, m, now, is_body))
			follow_op(f);
		return;
	}
	r = reserve(this_cpu(), sizeof(*r), DROP_OP, &position);
	if (!r)
		return;
	fill_op(r, task, regs, m, 0, now);
	commit(r, position, sizeof(*r), KIND_OP, m->op);
}

#endif
