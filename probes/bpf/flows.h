/* Endpoints: naming them, announcing them, and their ends. */
#ifndef WAKEPATH_FLOWS_H
#define WAKEPATH_FLOWS_H

/* The mark of an id made from a socket's inode, where the kernel has made no cookie yet. */
#define INODE_ID (1ULL << 62)

static __always_inline u32 inode_of(struct sock *sk)
{
	struct socket_alloc *s = (struct socket_alloc *)field(sk, sk_socket);

	return s ? field(s, vfs_inode.i_ino) : 0;
}

/* State of an untyped socket. Its id is the cookie where the kernel has made one already (it has for every TCP
 * socket that changed state since we attached), else made of its inode; 0 where it has neither. Sockets end without
 * telling (UNIX, UDP): what is found under the address must be of the same socket. */
static __noinline struct flow_state *flow_at(struct sock *sk)
{
	u64 key = (u64)sk;
	struct flow_state *f = bpf_map_lookup_elem(&flows_by_address, &key);
	struct flow_state fresh = {};
	u64 cookie = field(sk, __sk_common.skc_cookie.counter);
	u32 inode = inode_of(sk);

	if (f) {
		bool by_cookie = !(f->id & INODE_ID);

		if (!(f->inode && inode && f->inode != inode) && !(by_cookie && cookie && cookie != f->id)) {
			if (!f->inode)
				f->inode = inode;
			return f;
		}
	}
	fresh.inode = inode;
	fresh.id = cookie ? cookie : inode | INODE_ID;
	if (fresh.id == INODE_ID)
		return 0;
	if (bpf_map_update_elem(&flows_by_address, &key, &fresh, BPF_ANY))
		lost(this_cpu(), DROP_SOCK_STORAGE);
	return bpf_map_lookup_elem(&flows_by_address, &key);
}

static __always_inline struct flow_state *flow_slot(u64 cookie)
{
	u32 key = cookie & (FLOW_SLOTS - 1);

	return bpf_map_lookup_elem(&flow_slots, &key);
}

/* State of a typed socket, 0 where it has none. */
static __always_inline struct flow_state *known_flow(struct sock *sk)
{
	u64 cookie = sk->__sk_common.skc_cookie.counter;
	struct flow_state *f;

	if (!cookie)
		return 0;
	f = flow_slot(cookie);
	return f && f->id == cookie ? f : bpf_sk_storage_get(&flows, sk, 0, 0);
}

/* Makes the state of a typed socket; 0 where memory is short. */
static __noinline struct flow_state *make_flow(struct sock *sk, bool is_closed)
{
	u64 cookie = bpf_get_socket_cookie(sk);
	struct flow_state *f;

	/* nothing would tell once more that a closed one ends */
	if (sk->sk_protocol == IPPROTO_TCP && !is_closed) {
		f = flow_slot(cookie);
		if (f && !__sync_val_compare_and_swap(&f->id, 0, cookie)) {
			__builtin_memset((void *)f + sizeof(f->id), 0, sizeof(*f) - sizeof(f->id));
			return f;
		}
	}
	f = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!f) {
		lost(this_cpu(), DROP_SOCK_STORAGE);
		return 0;
	}
	f->id = cookie;
	return f;
}

/* State of a typed socket, made where it has none. Two threads that meet an old connection at once may both begin its state:
 * it is announced twice, nothing more. */
static __always_inline struct flow_state *flow_of(struct sock *sk, bool is_closed)
{
	struct flow_state *f = known_flow(sk);

	return f ? f : make_flow(sk, is_closed);
}

/* Leaves the slot of a TCP socket that is closed to the next that needs it, whose cookie is tens of thousands further: calls
 * that are under way here have ended by then. Where a program still holds the socket, and may read what came before, the
 * state goes with it. */
static __always_inline void leave_flow_slot(struct sock *sk, u64 cookie)
{
	struct flow_state *f = flow_slot(cookie);

	if (!f || f->id != cookie)
		return;
	/* where memory is short it stays where it is */
	if (sk->sk_socket && !bpf_sk_storage_get(&flows, sk, f, BPF_SK_STORAGE_GET_F_CREATE))
		return;
	*(volatile u64 *)&f->id = 0;
}

/* Whether bytes wait in a TCP socket for a read. */
static __always_inline bool has_unread(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	return field(tp, rcv_nxt) != field(tp, copied_seq);
}

/* Lets it be seen when the first bytes come on a typed socket that was connected before: on_data_ready notes it in a state, which an
 * operation would make too late. When bytes came that wait there already nobody saw: of these the state would tell a later moment. */
static __noinline int await_arrival(struct sock *sk)
{
	struct flow_state *f;
	u64 cookie;

	if (field(sk, sk_protocol) != IPPROTO_TCP || field(sk, __sk_common.skc_state) != TCP_ESTABLISHED)
		return 0;
	if (has_unread(sk) || known_flow(sk))
		return 0;
	f = make_flow(sk, false);
	if (!f || f->arrived_ns || !has_unread(sk))
		return 0;
	/* they came meanwhile */
	cookie = f->id;
	f = flow_slot(cookie);
	if (f && f->id == cookie)
		*(volatile u64 *)&f->id = 0;
	else
		bpf_sk_storage_delete(&flows, sk);
	return 0;
}

/* A typed socket as a TCP socket, 0 where it is none. */
static __always_inline struct tcp_sock *tcp_of(struct sock *sk)
{
	u16 family = sk->__sk_common.skc_family;

	if (!CAN_CAST)
		return bpf_skc_to_tcp_sock(sk);
	if (sk->sk_protocol != IPPROTO_TCP || sk->sk_type != SOCK_STREAM || (family != AF_INET && family != AF_INET6))
		return 0;
	return cast(struct tcp_sock, sk);
}

/* For what TCP keeps bytes back when a send returns, or kept them back since the last one, as far as its own numbers tell. */
static __always_inline u16 held_for(struct tcp_sock *tp, struct flow_state *f)
{
	u32 waits = tp->chrono_stat[TCP_WINDOW_LIMITED];
	bool has_waited = waits != f->window_waits && f->announced;
	u32 unsent = tp->write_seq - tp->snd_nxt, segment = tp->mss_cache;
	s32 room = tp->snd_una + tp->snd_wnd - tp->snd_nxt;

	f->window_waits = waits;
	if (has_waited)
		return OPF_HELD_WINDOW;
	if (!unsent)
		return 0;
	if (room < (s32)(unsent < segment ? unsent : segment))
		return OPF_HELD_WINDOW;
	if (unsent < segment && tp->packets_out && !BPF_CORE_READ_BITFIELD(tp, nonagle))
		return OPF_HELD_NAGLE;
	return OPF_HELD_OTHER;
}

/* The other end of a UNIX socket, 0 where there is none or it has no id yet (it names us when it is announced). */
static __always_inline u64 peer_at(struct sock *sk)
{
	struct flow_state *f;
	struct sock *peer;

	if (field(sk, __sk_common.skc_family) != AF_UNIX)
		return 0;
	peer = field((struct unix_sock *)sk, peer);
	if (!peer)
		return 0;
	if (cfg_sock_hooks)
		return field(peer, __sk_common.skc_cookie.counter);
	f = flow_at(peer);
	return f ? f->id : 0;
}

/* The same for a typed socket: the peer's cookie is made where there is none. A stream socket holds its peer for
 * as long as it is open; a datagram socket may be given another at any moment, so that one is only looked at. */
static __always_inline u64 peer_of(struct sock *sk)
{
	struct unix_sock *u;
	struct sock *peer;

	if (!cfg_sock_hooks || sk->sk_type == SOCK_DGRAM)
		return peer_at(sk);
	u = bpf_skc_to_unix_sock(sk);
	if (!u)
		return 0;
	peer = u->peer;
	return peer ? bpf_get_socket_cookie(peer) : 0;
}

static __always_inline struct file *file_at(struct task_struct *task, u64 fd)
{
	struct fdtable *table = field(task, files, fdt);
	struct file **array = field(table, fd);
	struct file *file = 0;

	if (fd >= field(table, max_fds))
		return 0;
	/* an array of pointers, read as a structure that begins with one */
	if (CAN_CAST)
		return (struct file *)cast(struct list_head, array + fd)->next;
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

	if (sk->sk_protocol != IPPROTO_TCP || new == TCP_SYN_RECV)
		return 0;
	/* from its first change of state on a TCP socket has its cookie, so that a call in progress can name it */
	if (!cfg_sock_hooks)
		bpf_get_socket_cookie(sk);
	f = cfg_sock_hooks ? flow_of(sk, false) : flow_at(sk);
	if (!f || new == TCP_SYN_SENT)
		return 0;
	now = bpf_ktime_get_ns();
	/* a connection that was refused is announced too, or nobody would know to whom it was to go */
	if (!f->announced && (new == TCP_ESTABLISHED || new == TCP_LISTEN || old == TCP_SYN_SENT))
		announce(sk, f, new == TCP_LISTEN ? FLOW_MET : old == TCP_SYN_SENT ? FLOW_CONNECTED : FLOW_ACCEPTED, 0, now);
	if (new == TCP_LISTEN)
		tell_sizes(c, sk, f->id, now);
	if (new == TCP_ESTABLISHED || new == TCP_LISTEN) {
		/* the wake-up that follows is this socket's: connect done */
		mark_socket(c, f->id, 0, now);
		return 0;
	}
	if (new == TCP_CLOSE && field(tp, bytes_acked) + field(tp, bytes_received) > SIZES_BYTES_MIN)
		tell_sizes(c, sk, f->id, now);
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
	/* the same for its end */
	mark_socket(c, f->id, field(tp, rcv_nxt), now);
	if (new == TCP_CLOSE) {
		if (cfg_sock_hooks)
			leave_flow_slot(sk, c->sk_cookie);
		else
			bpf_map_delete_elem(&flows_by_address, &key);
	}
	return 0;
}

static __always_inline int reset(struct sock *sk, u8 how)
{
	struct cpu_state *c = this_cpu();
	u64 position, id;
	struct wp_state *r;
	struct flow_state *f;
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	u8 state;

	if (!sk)
		return 0;
	state = field(sk, __sk_common.skc_state);
	/* a listener, or half a socket that has no numbers where we would read them */
	if (state == TCP_LISTEN || state == TCP_TIME_WAIT || state == TCP_NEW_SYN_RECV)
		return 0;
	if (cfg_sock_hooks) {
		id = field(sk, __sk_common.skc_cookie.counter);
	} else {
		f = flow_at(sk);
		id = f ? f->id : 0;
	}
	if (!id)
		return 0;
	r = reserve(c, sizeof(*r), DROP_FLOW, &position);
	if (!r)
		return 0;
	r->ts_ns = bpf_ktime_get_ns();
	r->flow = id;
	r->old = r->new = state;
	r->reset = how;
	r->by_task = !c->softirq && !c->irq;
	r->tid = (u32)bpf_get_current_pid_tgid();
	r->snd_seq = field(tp, write_seq);
	r->rcv_seq = field(tp, rcv_nxt);
	mark_socket(c, id, r->rcv_seq, r->ts_ns);
	commit(r, position, sizeof(*r), KIND_STATE, 0);
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

/* What TCP sends once more, data or a SYN: it, or its acknowledgement, was lost or late. Rare. */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(on_retransmit, const struct sock *csk, const struct sk_buff *skb)
{
	struct sock *sk = (struct sock *)csk;
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct cpu_state *c = this_cpu();
	struct flow_state *f;
	struct wp_resent *r;
	u64 position, id;

	if (cfg_sock_hooks) {
		id = field(sk, __sk_common.skc_cookie.counter);
	} else {
		f = flow_at(sk);
		id = f ? f->id : 0;
	}
	if (!id)
		return 0;
	r = reserve(c, sizeof(*r), DROP_FLOW, &position);
	if (!r)
		return 0;
	r->ts_ns = bpf_ktime_get_ns();
	r->flow = id;
	if (bpf_core_type_exists(struct tcp_skb_cb)) {
		const struct tcp_skb_cb *cb = (const void *)__builtin_preserve_access_index(&skb->cb[0]);

		r->seq = BPF_CORE_READ(cb, seq);
		r->seq_end = BPF_CORE_READ(cb, end_seq);
	} else {
		r->seq = field(tp, snd_una);
		r->seq_end = r->seq + 1;
	}
	r->rtt_us = field(tp, rtt_min.s[0].v);
	r->state = field(sk, __sk_common.skc_state);
	r->pad = 0;
	r->pad2 = 0;
	commit(r, position, sizeof(*r), KIND_RESENT, 0);
	return 0;
}

/* Bytes that arrive at once of a send of more than SENT_AT_ONCE, and of few others. */
#define MUCH 4096

/* Data, or a connection in a listener's queue, became readable: the wake-up that follows on this processor is its doing. */
SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_data_ready, const struct sock *csk)
{
	struct sock *sk = (struct sock *)csk;
	struct cpu_state *c = this_cpu();
	struct flow_state *f = known_flow(sk);
	struct tcp_sock *tp = tcp_of(sk);
	/* a listener has no stream of its own; others looked at the same clock when they took the packet up */
	bool stream = tp && sk->__sk_common.skc_state != TCP_LISTEN;
	u64 now = stream ? tp->tcp_clock_cache : bpf_ktime_get_ns();
	u64 id = sk->__sk_common.skc_cookie.counter;

	if (f) {
		if (!f->arrived_ns)
			f->arrived_ns = now;
		f->last_ready_ns = now;
		/* who sends much may be acknowledged, and keep nothing of it, before it returns: see sent_since() */
		if (cfg_waits && cfg_calls && stream && tp->rcv_nxt - tp->copied_seq > MUCH)
			note_own_sending(c, now);
	}
	if (!id)
		id = bpf_get_socket_cookie(sk);
	mark_socket(c, id, stream ? tp->rcv_nxt : 0, now);
	if (cfg_waits && c->sk_site)
		note_own_ready(c, c->sk_site, now);
	else if (cfg_waits && cfg_calls && !stream)
		note_own_sending(c, now);
	/* this connection filled the listener's queue: until one is accepted, the kernel drops what asks for another */
	if (tp && !stream && sk->sk_ack_backlog > sk->sk_max_ack_backlog)
		tell_sizes(c, sk, id, now);
	return 0;
}

/* The same where there is no sk_data_ready (before 6.3), for sockets that the kernel itself reads, as the CIFS client's.
 * A program's own system calls tell what it waited for; a kernel thread makes none. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(on_segment, struct sock *sk, struct sk_buff *skb)
{
	struct cpu_state *c = this_cpu();
	struct socket *s = field(sk, sk_socket);
	struct flow_state *f;
	u8 header_words = 0;
	u32 bytes;

	/* the segment before this one woke nobody */
	c->sk_cookie = 0;
	if (!c->softirq || !s || field(s, file))
		return 0;
	bpf_probe_read_kernel(&header_words, 1, field(skb, data) + 12);
	bytes = field(skb, len) - (header_words >> 4) * 4;
	/* an acknowledgement alone brings no data */
	if (!bytes)
		return 0;
	f = flow_at(sk);
	if (!f)
		return 0;
	/* it wakes nobody unless it continues the stream */
	mark_socket(c, f->id, field((struct tcp_sock *)sk, rcv_nxt) + bytes, bpf_ktime_get_ns());
	/* older than the recording: no process holds it, so the snapshot did not have it */
	if (!f->announced)
		announce(sk, f, FLOW_MET, 0, c->sk_ns);
	return 0;
}

#endif
