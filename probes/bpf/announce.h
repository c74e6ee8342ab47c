/* Records that name an endpoint, and say what it has room for. */
#ifndef WAKEPATH_ANNOUNCE_H
#define WAKEPATH_ANNOUNCE_H

/* A UNIX socket's name, its own or else its peer's; `room` is UNIX_NAME_BYTES long. Tells which end serves: what came
 * out of a listener bears the listener's name. */
static __always_inline void fill_name(struct wp_flow *r, void *room, struct sock *sk)
{
	struct unix_sock *u = (struct unix_sock *)sk;
	struct sock *peer = field(u, peer);
	struct unix_address *own = field(u, addr), *a = own;
	int len;

	if (own)
		r->marks |= FLOW_NAMED;
	if (peer && peer != sk) {
		struct unix_address *theirs = field((struct unix_sock *)peer, addr);

		if (theirs)
			r->marks |= FLOW_PEER_NAMED;
		if (!a)
			a = theirs;
	}
	if (!a)
		return;
	len = field(a, len) - 2;
	if (len <= 0)
		return;
	if (len > 108)
		len = 108;
	if (!bpf_probe_read_kernel(room, 108, __builtin_preserve_access_index(&a->name[0].sun_path[0])))
		r->name_bytes = len;
}

static __always_inline void fill_flow(struct wp_flow *r, struct sock *sk, const struct flow_state *f)
{
	u16 family = field(sk, __sk_common.skc_family);

	r->flow = f->id;
	r->netns = field(sk, __sk_common.skc_net.net, ns.inum);
	r->family = family;
	r->protocol = field(sk, sk_protocol);
	r->kind = field(sk, sk_type);
	r->state = field(sk, __sk_common.skc_state);
	r->marks = 0;
	r->name_bytes = 0;
	r->unread = 0;
	r->lport = 0;
	r->rport = 0;
	__builtin_memset(r->laddr, 0, 16);
	__builtin_memset(r->raddr, 0, 16);
	r->snd_seq = f->sent;
	r->rcv_seq = f->received;
	r->snd_first = 0;
	r->rcv_first = 0;
	if (family == AF_INET || family == AF_INET6) {
		r->lport = field(sk, __sk_common.skc_num);
		r->rport = __builtin_bswap16(field(sk, __sk_common.skc_dport));
		if (family == AF_INET) {
			*(__be32 *)r->laddr = field(sk, __sk_common.skc_rcv_saddr);
			*(__be32 *)r->raddr = field(sk, __sk_common.skc_daddr);
		} else {
			BPF_CORE_READ_INTO(&r->laddr, sk, __sk_common.skc_v6_rcv_saddr);
			BPF_CORE_READ_INTO(&r->raddr, sk, __sk_common.skc_v6_daddr);
		}
		if (r->protocol == IPPROTO_TCP) {
			struct tcp_sock *tp = (struct tcp_sock *)sk;

			r->snd_seq = field(tp, write_seq);
			r->rcv_seq = field(tp, copied_seq);
			r->unread = field(tp, rcv_nxt) - r->rcv_seq;
			if (field(tp, inet_conn.icsk_ulp_ops))
				r->marks = FLOW_ULP;
			if (r->state == TCP_ESTABLISHED) {
				r->snd_first = field(tp, snd_una) - (u32)field(tp, bytes_acked);
				r->rcv_first = field(tp, rcv_nxt) - (u32)field(tp, bytes_received);
				r->marks |= FLOW_FIRST;
			}
		}
	}
}

/* What a socket has room for. Of others than TCP listeners and streams nothing is asked. */
static __always_inline void fill_sizes(struct wp_sizes *r, struct sock *sk, u64 flow, u64 now)
{
	r->ts_ns = now;
	r->flow = flow;
	r->state = field(sk, __sk_common.skc_state);
	r->lport = field(sk, __sk_common.skc_family) == AF_UNIX ? 0 : field(sk, __sk_common.skc_num);
	r->backlog = field(sk, sk_max_ack_backlog);
	/* a UNIX listener keeps who connects as it keeps data */
	r->waiting = field(sk, __sk_common.skc_family) == AF_UNIX ? field(sk, sk_receive_queue.qlen) :
								    field(sk, sk_ack_backlog);
	r->sndbuf = field(sk, sk_sndbuf);
	r->rcvbuf = field(sk, sk_rcvbuf);
	r->pad = 0;
	r->pad2 = 0;
}

static __always_inline void tell_sizes(struct cpu_state *c, struct sock *sk, u64 flow, u64 now)
{
	u64 position;
	struct wp_sizes *r = reserve(c, sizeof(*r), DROP_FLOW, &position);

	if (!r)
		return;
	fill_sizes(r, sk, flow, now);
	commit(r, position, sizeof(*r), KIND_SIZES, 0);
}

/* How an endpoint is announced, beside FLOW_...: by a call of the process that has it; and amid an operation, of which the bytes are in
 * the upper half. */
#define ANNOUNCE_OWN 0x100
#define ANNOUNCE_SENDING 0x200

static __always_inline u64 moving(u8 op, u32 bytes)
{
	return FLOW_MET | ANNOUNCE_OWN | (op == OP_SEND ? ANNOUNCE_SENDING : 0) | (u64)bytes << 32;
}

/* A pointer as a number, as global functions take it. The verifier follows a pointer's type through everything but memory that a helper
 * reads. */
static __always_inline u64 address_of(const void *typed)
{
	const void *volatile pointer = typed;
	u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), (const void *)&pointer);
	return address;
}

/* Writes an endpoint down, as it was before the operation that is about to be written. A global function: verified once. */
__noinline int announce_at(u64 at, struct flow_state *f, u64 how, u64 peer, u64 now)
{
	struct cpu_state *c = this_cpu();
	struct sock *sk = (struct sock *)at;
	u32 size = sizeof(struct wp_flow), bytes = how >> 32;
	u64 position;
	struct wp_flow *r;

	if (!f)
		return 0;
	if (field(sk, __sk_common.skc_family) == AF_UNIX)
		size += UNIX_NAME_BYTES;
	r = reserve(c, size, DROP_FLOW, &position);
	if (!r)
		return 0; /* stays unannounced: the next operation tries again */
	f->announced = 1;
	fill_flow(r, sk, f);
	/* its slot may have been left by now */
	if (cfg_sock_hooks)
		r->flow = field(sk, __sk_common.skc_cookie.counter);
	if (how & ANNOUNCE_SENDING)
		r->snd_seq -= bytes;
	else
		r->rcv_seq -= bytes;
	r->peer_flow = peer;
	r->ts_ns = now;
	r->tgid = how & ANNOUNCE_OWN ? bpf_get_current_pid_tgid() >> 32 : 0;
	if (size > sizeof(*r))
		fill_name(r, r + 1, sk);
	commit(r, position, size, KIND_FLOW, how);
	return 0;
}

static __always_inline void announce(struct sock *sk, struct flow_state *f, u64 how, u64 peer, u64 now)
{
	announce_at(address_of(sk), f, how, peer, now);
}

/* Writes down a socket whose connection failed before it began: it may have no address yet, so where it was to go is told by
 * what its program asked for (`bytes` of a sockaddr at `address`). */
static __noinline void announce_failed(struct sock *sk, u64 id, u64 address, u64 bytes, u64 now)
{
	struct flow_state at = {};
	u64 position;
	struct wp_flow *r = reserve(this_cpu(), sizeof(*r) + UNIX_NAME_BYTES, DROP_FLOW, &position);
	__be16 port = 0;
	u32 name;

	if (!r)
		return;
	at.id = id;
	fill_flow(r, sk, &at);
	r->peer_flow = 0;
	r->ts_ns = now;
	r->tgid = bpf_get_current_pid_tgid() >> 32;
	if (r->family == AF_UNIX) {
		name = bytes > 2 && bytes <= 2 + 108 ? bytes - 2 : 0;
		/* for older verifiers (6.1) */
		asm volatile("" : "+r"(name));
		name &= 127;
		if (name && !bpf_probe_read_user(r + 1, name, (void *)(address + 2))) {
			r->marks = FLOW_PEER_NAMED;
			r->name_bytes = name;
		}
	} else {
		bpf_probe_read_user(&port, sizeof(port), (void *)(address + 2));
		r->rport = __builtin_bswap16(port);
		if (r->family == AF_INET)
			bpf_probe_read_user(r->raddr, 4, (void *)(address + 4));
		else
			bpf_probe_read_user(r->raddr, 16, (void *)(address + 8));
	}
	commit(r, position, sizeof(*r) + UNIX_NAME_BYTES, KIND_FLOW, FLOW_MET);
}

#endif
