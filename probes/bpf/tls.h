/* TLS in clear: which connection a session of a TLS library has. Placed only where somebody asked for it (`record --tls`).
 *
 * A session is known by where it is in its process. The socket operation that a thread makes amid a call of the library names the
 * session's connection. Whether plaintext and ciphertext fit together, the decoder checks. */
#ifndef WAKEPATH_TLS_H
#define WAKEPATH_TLS_H

/* How many probes of TLS libraries are placed: where there is none, nobody looks. The agent writes it: a file's probes when all of them are
 * placed, 0 before it takes the first away. Calls of which some probes are met and others not would tell what is not so. */
u32 tls_probes SEC(".data");
/* Whether a session's ciphertext goes through memory, and not to a socket amid the library's calls. */
u32 tls_in_memory SEC(".data");
/* Plaintext of sessions whose connection is not known: calls. */
u64 tls_unjoined SEC(".data");

/* A call of a TLS library that a thread is in. */
struct tls_call {
	u64 session;
	u64 buffer;
	u64 room; /* bytes that the caller gives, or has room for */
	u64 moved; /* where the library writes how many it moved; 0 = it returns that */
	u64 stack; /* the stack pointer when it began */
	u64 began_ns;
	u32 inner; /* calls of the library that this one makes */
	u8 op; /* OP_SEND, OP_RECV, 0 = a handshake */
	u8 is_tunnel; /* its bytes go through another session */
	u16 pad;
};

/* By thread. A thread may end amid a call. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct tls_call);
} tls_calls SEC(".maps");

/* A session whose connection is known. */
struct tls_session {
	/* What its plaintext says: as of a connection without TLS, of which it has the id. */
	struct flow_state plain;
	/* received, sent: Go does both at once */
	struct followed frames[2];
	/* when the first call began that was to send what no call has sent yet; 0 = none failed to */
	u64 tried_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct owned_key);
	__type(value, struct tls_session);
} tls_sessions SEC(".maps");

/* Go's crypto/tls: a goroutine reads a record. */
struct go_tls_record {
	u64 session;
	u32 bytes; /* that it needs now: the header, then the record with its header */
	u32 inner; /* reads of other sessions that this one makes */
	u8 is_open; /* it may be reading from the connection */
	u8 is_tunnel; /* its bytes go through another session */
	u8 pad[6];
};

/* By where the goroutine is in memory: it may wait, and go on on another thread. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct owned_key);
	__type(value, struct go_tls_record);
} go_tls_records SEC(".maps");

/* The beginning of ciphertext that a library put into memory, by which it is found when it is sent: a record's header, and random bytes. */
struct tls_sent_key {
	u64 tgid;
	u64 bytes[2];
};

/* Whose it is, since when. Not yet sent. */
struct tls_put {
	u64 session;
	u64 ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct tls_sent_key);
	__type(value, struct tls_put);
} tls_sent SEC(".maps");

/* When the last session at a place was freed: what it put before is not the next one's. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct owned_key);
	__type(value, u64);
} tls_freed SEC(".maps");

/* Too long for the stack. */
static const struct tls_session no_session;

/* The call that the current thread is in; 0 where it is in none. */
static __always_inline struct tls_call *tls_call(void)
{
	u64 thread = bpf_get_current_pid_tgid();

	return bpf_map_lookup_elem(&tls_calls, &thread);
}

/* Says that the plaintext of a connection will be told, before the operation by which that was found. */
static __always_inline void tls_announce(u64 flow)
{
	u64 position;
	struct wp_op *r = reserve(this_cpu(), sizeof(*r), DROP_OP, &position);

	if (!r)
		return;
	__builtin_memset((void *)r + sizeof(r->head), 0, sizeof(*r) - sizeof(r->head));
	r->ts_ns = bpf_ktime_get_ns();
	r->flow = flow;
	commit(r, position, sizeof(*r), KIND_CLEAR, 0);
}

/* A session has this connection. A global function: verified once. */
__noinline int tls_join(struct flow_state *f, u64 flow, u64 session)
{
	struct owned_key key = { .tgid = bpf_get_current_pid_tgid() >> 32, .of = session };
	struct tls_session *s;

	if (!f)
		return 0;
	s = bpf_map_lookup_elem(&tls_sessions, &key);
	if (s && s->plain.id == flow)
		return 0;
	/* a session that was not known, or got another connection */
	if (bpf_map_update_elem(&tls_sessions, &key, &no_session, BPF_ANY))
		return 0;
	s = bpf_map_lookup_elem(&tls_sessions, &key);
	if (!s)
		return 0;
	s->plain.id = flow;
	/* of each of its operations the beginning is taken: it has records' lengths */
	f->streams = STREAMS_TLS | STREAMS_PLAIN | STREAMS_FRAMED;
	f->phase[0] = f->phase[1] = PHASE_UNKNOWN;
	f->quiet = f->http = 0;
	bpf_map_delete_elem(&wanted_heads, &flow);
	tls_announce(flow);
	return 0;
}

/* The session for whose record the current thread's goroutine reads from a connection; 0 if there is none. Go's calls of the kernel keep the
 * goroutine in its register. Code in C may have anything there, but only a goroutine that is amid such a read is in the map. */
static __always_inline u64 go_tls_session(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owned_key key = { .tgid = task->tgid, .of = GO_G(regs_of(task)) };
	struct go_tls_record *record = bpf_map_lookup_elem(&go_tls_records, &key);

	return record && record->is_open && !record->is_tunnel ? record->session : 0;
}

/* The thread moved bytes on a connection amid a call of a TLS library. */
__noinline int tls_operation(struct flow_state *f, u64 flow, u32 op)
{
	struct tls_call *call = tls_call();
	u64 session;

	if (!f)
		return 0;
	if (call)
		session = call->is_tunnel ? 0 : call->session;
	else
		session = op == OP_RECV ? go_tls_session() : 0;
	return session ? tls_join(f, flow, session) : 0;
}

/* A thread sends what a library put into memory before. `at`: the first bytes, or where an iovec says that they are. */
__noinline int tls_is_sent(struct flow_state *f, u64 flow, u64 at, u32 is_iovec)
{
	struct tls_sent_key key = { .tgid = bpf_get_current_pid_tgid() >> 32 };
	struct owned_key session = { .tgid = key.tgid };
	struct tls_put *put;
	u64 *freed;

	if (is_iovec)
		at = user_word(at);
	if (!f || !at || bpf_probe_read_user(key.bytes, sizeof(key.bytes), (void *)at))
		return 0;
	put = bpf_map_lookup_elem(&tls_sent, &key);
	if (!put)
		return 0;
	session.of = put->session;
	freed = bpf_map_lookup_elem(&tls_freed, &session);
	if (!freed || *freed < put->ns)
		tls_join(f, flow, session.of);
	bpf_map_delete_elem(&tls_sent, &key);
	return 0;
}

/* For each operation that is recorded. */
static __always_inline void tls_moves(struct flow_state *f, u64 flow, s32 bytes, u8 op)
{
	if (tls_probes && f && bytes > 0)
		tls_operation(f, flow, op);
}

/* Whether what is sent must be looked at, though nobody wants its head. */
static __always_inline bool tls_looks(struct flow_state *f, u8 op, s32 bytes)
{
	return tls_in_memory && f && op == OP_SEND && bytes >= 16 && !(f->streams & STREAMS_TLS);
}

#endif
