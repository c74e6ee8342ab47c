/* Probes at HTTP/2 in Go, net/http's and grpc-go's: which goroutine serves a stream, and which one asks by it. Others read and write
 * for all streams of a connection. */
#ifndef WAKEPATH_GO_STREAMS_H
#define WAKEPATH_GO_STREAMS_H

/* A frame that waits for a connection's writer, by where it is in memory -> who put it there. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct owned_key);
	__type(value, struct wp_logical);
} go_frames SEC(".maps");

/* Streams that clients begin have odd numbers. */
static __always_inline void go_stream(struct go_at *a, struct wp_logical *who, u64 by, u32 stream, u32 calls)
{
	struct wp_stream *r;
	u64 position;

	if (!(stream & 1))
		return;
	r = reserve(this_cpu(), sizeof(*r), DROP_TASK, &position);
	if (!r)
		return;
	r->ts_ns = a->now;
	r->tgid = a->tgid;
	r->stream = stream;
	r->calls = calls;
	r->pad = 0;
	r->key = who->key;
	r->parent = who->parent;
	r->born_ns = who->born_ns;
	r->by = by;
	commit(r, position, sizeof(*r), KIND_STREAM, RUNTIME_GO);
}

/* The goroutine that runs, with what made it. */
static __always_inline bool go_runs(struct pt_regs *regs, struct go_at *a, struct wp_logical *who)
{
	if (!go_at(regs, a))
		return false;
	who->key = a->goroutine;
	who->parent = go_parent(a->r, GO_G(regs));
	who->runtime = RUNTIME_GO;
	if (who->parent)
		go_born(a->tgid, who, GO_G(regs), who->parent, a->now);
	return true;
}

static __always_inline int go_serves(struct pt_regs *regs, u32 stream)
{
	struct wp_logical who = {};
	struct go_at a;

	/* who made it reads the connection, or made the one that does */
	if (go_runs(regs, &a, &who) && who.parent)
		go_stream(&a, &who, who.parent, stream, 0);
	return 0;
}

/* (*serverConn).runHandler of net/http and x/net: the second argument leads to the response's state, that to the stream, which has its connection
 * and then its number. */
static __always_inline u32 http2_stream(struct pt_regs *regs)
{
	return user_word(user_word(user_word(GO_ARG2(regs))) + 8);
}

/* (*Server).handleStream of grpc-go: the stream, the fourth argument, begins with its number, or with the address of what does. */
static __always_inline u32 grpc_stream(struct pt_regs *regs)
{
	u64 first = user_word(GO_ARG4(regs));

	return first >> 32 ? user_word(first) : first;
}

/* (*clientStream).doRequest of net/http and x/net: a goroutine asks for the one that made it, and for nobody else. */
static __always_inline int go_asks_for_maker(struct pt_regs *regs)
{
	struct wp_logical who = {};
	struct owned_key writer, conn;
	struct go_owner owner = {};
	struct go_at a;
	u64 of = GO_G(regs);

	if (!go_runs(regs, &a, &who) || !who.parent)
		return 0;
	writer = (struct owned_key){ .tgid = a.tgid, .of = who.key };
	conn = (struct owned_key){ .tgid = a.tgid, .of = of };
	owner.goroutine = who.parent;
	go_owns(&conn, &owner);
	go_writes(&writer, of);
	return 0;
}

/* (*controlBuffer).executeAndPut of grpc-go: the goroutine wants the frame at the fourth argument to be written. */
static __always_inline int go_puts_frame(struct pt_regs *regs)
{
	struct wp_logical who = {};
	struct owned_key key;
	struct go_at a;

	if (!GO_ARG4(regs) || !go_runs(regs, &a, &who))
		return 0;
	key = (struct owned_key){ .tgid = a.tgid, .of = GO_ARG4(regs) };
	bpf_map_update_elem(&go_frames, &key, &who, BPF_ANY);
	return 0;
}

/* (*loopyWriter).headerHandler of grpc-go: the goroutine writes the frame at the second argument, which begins with the stream's number. The first
 * word at the first is 0 where it writes for a client. */
static __always_inline int go_writes_headers(struct pt_regs *regs)
{
	struct owned_key key;
	struct wp_logical *who;
	struct go_at a;

	if ((u32)user_word(GO_ARG1(regs)) || !go_at(regs, &a))
		return 0;
	key = (struct owned_key){ .tgid = a.tgid, .of = GO_ARG2(regs) };
	who = bpf_map_lookup_elem(&go_frames, &key);
	if (who)
		go_stream(&a, who, a.goroutine, user_word(GO_ARG2(regs)), 1);
	return 0;
}

RUNTIME_PROBE(on_go_serves_http2, go_serves(regs, http2_stream(regs)))
RUNTIME_PROBE(on_go_serves_grpc, go_serves(regs, grpc_stream(regs)))
RUNTIME_PROBE(on_go_asks_for_maker, go_asks_for_maker(regs))
RUNTIME_PROBE(on_go_puts_frame, go_puts_frame(regs))
RUNTIME_PROBE(on_go_writes_headers, go_writes_headers(regs))

#endif
