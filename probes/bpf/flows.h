/* Endpoints: naming them, announcing them, and their ends. */
#ifndef WAKEPATH_FLOWS_H
#define WAKEPATH_FLOWS_H

/* Reads a field through an untyped pointer: a socket may come typed from a tracepoint or untyped from a descriptor. */
#define field(p, ...) BPF_CORE_READ(p, __VA_ARGS__)

static __always_inline void fill_flow(struct wp_flow *r, struct sock *sk, const struct flow_state *f)
{
	u16 family = field(sk, __sk_common.skc_family);

	r->flow = f->id;
	r->peer_flow = 0;
	r->netns = field(sk, __sk_common.skc_net.net, ns.inum);
	r->family = family;
	r->protocol = field(sk, sk_protocol);
	r->kind = field(sk, sk_type);
	r->state = field(sk, __sk_common.skc_state);
	r->ulp = 0;
	r->path_bytes = 0;
	r->unread = 0;
	r->lport = 0;
	r->rport = 0;
	__builtin_memset(r->laddr, 0, 16);
	__builtin_memset(r->raddr, 0, 16);
	r->snd_seq = f->sent;
	r->rcv_seq = f->received;
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
			r->ulp = field(tp, inet_conn.icsk_ulp_ops) != 0;
		}
	} else if (family == AF_UNIX) {
		struct unix_sock *u = (struct unix_sock *)sk;
		struct sock *peer = field(u, peer);
		struct unix_address *a = field(u, addr);

		if (peer)
			r->peer_flow = field(peer, __sk_common.skc_cookie.counter);
		/* a bound name tells the listening side; the path itself is read by the agent from /proc/net/unix */
		r->path_bytes = a ? 1 : 0;
	}
}

static __always_inline void announce(struct sock *sk, struct flow_state *f, u8 how, u32 tgid, u64 now)
{
	struct cpu_state *c = this_cpu();
	u64 position;
	struct wp_flow *r = reserve(c, sizeof(*r), DROP_FLOW, &position);

	if (!r)
		return; /* stays unannounced: the next operation tries again */
	f->announced = 1;
	fill_flow(r, sk, f);
	r->ts_ns = now;
	r->tgid = tgid;
	commit(r, position, sizeof(*r), KIND_FLOW, how);
}

/* State of a typed socket. */
static __always_inline struct flow_state *flow_of(struct sock *sk)
{
	struct flow_state *f = bpf_sk_storage_get(&flows, sk, 0, 0);

	if (f)
		return f;
	f = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!f) {
		lost(this_cpu(), DROP_SOCK_STORAGE);
		return 0;
	}
	f->id = bpf_get_socket_cookie(sk);
	return f;
}

/* State of an untyped socket. Its id is the cookie where the kernel has made one already (it has for every TCP
 * socket that changed state since we attached), else its address's bits with a mark of their own. */
static __noinline struct flow_state *flow_at(struct sock *sk)
{
	u64 key = (u64)sk;
	struct flow_state *f = bpf_map_lookup_elem(&flows_by_address, &key);
	struct flow_state fresh = {};
	u64 cookie;

	if (f)
		return f;
	cookie = field(sk, __sk_common.skc_cookie.counter);
	fresh.id = cookie ? cookie : (key & 0x3fffffffffffffffULL) | (1ULL << 62);
	if (bpf_map_update_elem(&flows_by_address, &key, &fresh, BPF_ANY))
		lost(this_cpu(), DROP_SOCK_STORAGE);
	return bpf_map_lookup_elem(&flows_by_address, &key);
}

static __always_inline struct file *file_at(struct task_struct *task, u64 fd)
{
	struct file **array = field(task, files, fdt, fd);
	struct file *file = 0;

	if (fd >= field(task, files, fdt, max_fds))
		return 0;
	bpf_probe_read_kernel(&file, sizeof(file), array + fd);
	return file;
}

static __always_inline struct sock *sock_in(struct file *file)
{
	struct socket *s;

	if ((field(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return 0;
	s = field(file, private_data);
	return field(s, sk);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state, const struct sock *csk, const int old, const int new)
{
	struct sock *sk = (struct sock *)csk;
	struct cpu_state *c = this_cpu();
	struct flow_state *f;
	struct wp_state *r;
	u64 position, key = (u64)csk, now;
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (field(sk, sk_protocol) != IPPROTO_TCP || new == TCP_SYN_SENT || new == TCP_SYN_RECV)
		return 0;
	f = cfg_sock_hooks ? flow_of(sk) : flow_at(sk);
	if (!f)
		return 0;
	if (!cfg_sock_hooks && (f->id >> 62))
		f->id = bpf_get_socket_cookie(sk);
	now = bpf_ktime_get_ns();
	if (new == TCP_ESTABLISHED || new == TCP_LISTEN) {
		if (!f->announced)
			announce(sk, f, new == TCP_LISTEN ? FLOW_MET : old == TCP_SYN_SENT ? FLOW_CONNECTED : FLOW_ACCEPTED, 0, now);
		return 0;
	}
	r = reserve(c, sizeof(*r), DROP_FLOW, &position);
	if (r) {
		r->ts_ns = now;
		r->flow = f->id;
		r->old = old;
		r->new = new;
		r->reset = 0;
		r->by_task = !c->softirq && !c->irq;
		r->tid = (u32)bpf_get_current_pid_tgid();
		r->snd_seq = field(tp, write_seq);
		r->rcv_seq = field(tp, rcv_nxt);
		commit(r, position, sizeof(*r), KIND_STATE, 0);
	}
	if (!cfg_sock_hooks && new == TCP_CLOSE)
		bpf_map_delete_elem(&flows_by_address, &key);
	/* the wake-up that follows is this socket's: connect done, FIN */
	c->sk_cookie = f->id;
	c->sk_seq = field(tp, rcv_nxt);
	return 0;
}

static __always_inline int reset(struct sock *sk, u8 how)
{
	struct cpu_state *c = this_cpu();
	u64 position, id;
	struct wp_state *r;
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (!sk)
		return 0;
	id = field(sk, __sk_common.skc_cookie.counter);
	if (!id)
		return 0;
	r = reserve(c, sizeof(*r), DROP_FLOW, &position);
	if (!r)
		return 0;
	r->ts_ns = bpf_ktime_get_ns();
	r->flow = id;
	r->old = r->new = field(sk, __sk_common.skc_state);
	r->reset = how;
	r->by_task = !c->softirq && !c->irq;
	r->tid = (u32)bpf_get_current_pid_tgid();
	r->snd_seq = field(tp, write_seq);
	r->rcv_seq = field(tp, rcv_nxt);
	commit(r, position, sizeof(*r), KIND_STATE, 0);
	c->sk_cookie = id;
	return 0;
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(on_reset_received, struct sock *sk)
{
	return reset(sk, 1);
}

/* The argument may be null, and the verifier of some kernels does not know: the raw tracepoint is untyped. */
SEC("raw_tp/tcp_send_reset")
int on_reset_sent(struct bpf_raw_tracepoint_args *ctx)
{
	return reset((struct sock *)ctx->args[0], 2);
}

/* Data, or a connection in a listener's queue, became readable: the wake-up that follows on this processor is its doing. */
SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_data_ready, const struct sock *csk)
{
	struct sock *sk = (struct sock *)csk;
	struct cpu_state *c = this_cpu();
	struct flow_state *f;
	struct tcp_sock *tp;
	u64 now;

	f = bpf_sk_storage_get(&flows, sk, 0, 0);
	if (f) {
		now = bpf_ktime_get_ns();
		if (!f->arrived_ns)
			f->arrived_ns = now;
		f->last_ready_ns = now;
		c->sk_cookie = f->id;
	} else {
		c->sk_cookie = sk->__sk_common.skc_cookie.counter;
		if (!c->sk_cookie)
			c->sk_cookie = bpf_get_socket_cookie(sk);
	}
	tp = bpf_skc_to_tcp_sock(sk);
	c->sk_seq = tp ? tp->rcv_nxt : 0;
	return 0;
}

#endif
