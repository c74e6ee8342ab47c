/* TLS in clear: probes at the calls of OpenSSL, and of what has the same functions (BoringSSL, LibreSSL); and in Go's crypto/tls. */
#ifndef WAKEPATH_TLS_PROBES_H
#define WAKEPATH_TLS_PROBES_H

/* A call begins. `moved`: where it will write how many bytes it moved, 0 where it returns that. Registers are arguments: the verifier
 * refuses what the compiler makes of two places that read one. */
static __always_inline int tls_begins(u64 session, u64 buffer, u64 room, u64 moved, u64 stack, u8 op)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 thread = bpf_get_current_pid_tgid();
	struct tls_call *outer, call = {};

	if (!tls_probes || !watched(task))
		return 0;
	outer = bpf_map_lookup_elem(&tls_calls, &thread);
	/* one that is still under way is further up the stack; else its end was not seen */
	if (outer && outer->stack > stack) {
		outer->inner++;
		outer->is_tunnel |= outer->session != session;
		return 0;
	}
	call.session = session;
	call.buffer = buffer;
	call.room = room;
	call.moved = moved;
	call.stack = stack;
	call.began_ns = bpf_ktime_get_ns();
	call.op = op;
	bpf_map_update_elem(&tls_calls, &thread, &call, BPF_ANY);
	return 0;
}

/* How many bytes a call moved that returned `result`. */
static __always_inline u64 tls_bytes(struct tls_call *call, s32 result)
{
	u64 moved = 0;

	if (result <= 0 || !call->op)
		return 0;
	moved = call->moved ? user_word(call->moved) : result;
	return moved > call->room ? 0 : moved;
}

/* Plaintext in the program's memory. */
struct clear {
	u64 buffer;
	u64 began_ns; /* when the call began that sends it; 0 = not known */
	u32 bytes;
	u32 record; /* of the record that it is, with its header; 0 = not known */
	u16 flags; /* OPF_MORE */
	u8 op;
	u8 told; /* CLEAR_RECORD */
};

/* Writes plaintext down, as an operation on the connection would be. */
static __always_inline struct followed *emit_clear(struct task_struct *task, struct tls_session *s, struct clear *clear, u64 now)
{
	struct cpu_state *c = this_cpu();
	struct flow_state *f = &s->plain;
	struct place p = { .buffer = clear->buffer };
	u32 bytes = clear->bytes;
	struct moved m = { .flow = f->id, .bytes = bytes, .entered_ns = clear->began_ns, .seq_end = clear->record, .flags = OPF_PLAIN | clear->flags, .op = clear->op, .class = SC_READ };
	bool is_body;
	u32 head = 0, size;
	u64 position;
	struct followed *frames = 0;
	struct wp_op *r;

	is_body = moves_body(f, &m);
	/* that nobody can read the flow, the recorder may have found before it learned of the plaintext */
	f->quiet = 0;
	if (!is_body && f->captured < cfg_head_bytes)
		head = head_of(f, &m, &p);
	if (head > HEAD_MAX)
		head = HEAD_MAX;
	if (!is_body && (f->streams & STREAMS_FRAMED || (f->streams && bytes > HEAD_MAX)))
		frames = begin_followed(&s->frames[m.op & 1], f->id, p.buffer, bytes, m.op | MORE_CLEAR, now);
	size = sizeof(*r) + ((head + 7) & ~7u);
	r = reserve(c, size, DROP_OP, &position);
	if (!r) {
		if (frames)
			frames->way &= ~MORE_LAST;
		return frames;
	}
	if (frames && bytes > HEAD_MAX)
		m.op |= SUB_GOES_ON;
	if (head)
		head = take_head(c, f, &m, &p, r + 1, (position & (cfg_ring_bytes - 1)) + sizeof(*r), head);
	fill_op(r, task, regs_of(task), &m, head, now);
	commit(r, position, size, KIND_CLEAR, m.op | clear->told);
	return frames;
}

/* Plaintext of a session, if its connection is known. */
static __always_inline void tls_tells(struct task_struct *task, u64 session, struct clear *clear)
{
	struct owned_key key = { .tgid = task->tgid, .of = session };
	struct tls_session *s;

	if (!tls_probes)
		return;
	s = session ? bpf_map_lookup_elem(&tls_sessions, &key) : 0;
	if (!s) {
		__sync_fetch_and_add(&tls_unjoined, 1);
		return;
	}
	if (clear->began_ns && s->tried_ns) {
		clear->began_ns = s->tried_ns;
		s->tried_ns = 0;
	}
	follow(emit_clear(task, s, clear, bpf_ktime_get_ns()), &s->plain);
}

/* A call that was to send failed. Some of it may have been sent: the next call goes on with it. Or it sent what cannot be read here. */
static __always_inline void tls_tried(struct task_struct *task, struct tls_call *call, s32 result)
{
	struct owned_key key = { .tgid = task->tgid, .of = call->session };
	struct tls_session *s = bpf_map_lookup_elem(&tls_sessions, &key);

	if (s && result > 0)
		s->tried_ns = 0;
	else if (s && !s->tried_ns)
		s->tried_ns = call->began_ns;
}

/* A call returned. */
static __always_inline int tls_ends(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 thread = bpf_get_current_pid_tgid(), bytes;
	struct tls_call *call = bpf_map_lookup_elem(&tls_calls, &thread);
	struct clear clear = {};

	if (!call)
		return 0;
	if (call->inner) {
		call->inner--;
		return 0;
	}
	bytes = tls_bytes(call, RESULT(regs));
	if (bytes && bytes < 1u << 31) {
		clear.buffer = call->buffer;
		clear.bytes = bytes;
		clear.op = call->op;
		if (clear.op == OP_SEND)
			clear.began_ns = call->began_ns;
		/* more of the same record may come where the caller had room for no more */
		if (clear.op == OP_RECV && bytes == call->room)
			clear.flags = OPF_MORE;
		tls_tells(task, call->is_tunnel ? 0 : call->session, &clear);
	} else if (call->op == OP_SEND) {
		tls_tried(task, call, RESULT(regs));
	}
	bpf_map_delete_elem(&tls_calls, &thread);
	return 0;
}

/* A session is gone: its place may be another's soon. */
static __always_inline int tls_frees(struct pt_regs *regs)
{
	struct owned_key key = { .tgid = bpf_get_current_pid_tgid() >> 32, .of = ARG1(regs) };
	u64 now = bpf_ktime_get_ns();

	bpf_map_delete_elem(&tls_sessions, &key);
	if (tls_in_memory)
		bpf_map_update_elem(&tls_freed, &key, &now, BPF_ANY);
	return 0;
}

/* A library puts ciphertext where its program said: into a socket, or into memory. */
static __always_inline int tls_puts(u64 buffer, u32 bytes)
{
	struct tls_call *call = tls_probes ? tls_call() : 0;
	struct owned_key session = { .tgid = bpf_get_current_pid_tgid() >> 32 };
	struct tls_sent_key key = { .tgid = session.tgid };
	struct tls_put put;

	if (!call || call->is_tunnel || bytes < sizeof(key.bytes))
		return 0;
	session.of = call->session;
	if (bpf_map_lookup_elem(&tls_sessions, &session) || bpf_probe_read_user(key.bytes, sizeof(key.bytes), (void *)buffer))
		return 0;
	put.session = session.of;
	put.ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&tls_sent, &key, &put, BPF_ANY);
	tls_in_memory = 1;
	return 0;
}

RUNTIME_PROBE(on_tls_puts, tls_puts(ARG2(regs), ARG3(regs)))
RUNTIME_PROBE(on_tls_reads, tls_begins(ARG1(regs), ARG2(regs), (u32)ARG3(regs), 0, STACK_AT(regs), OP_RECV))
RUNTIME_PROBE(on_tls_reads_sized, tls_begins(ARG1(regs), ARG2(regs), ARG3(regs), ARG4(regs), STACK_AT(regs), OP_RECV))
RUNTIME_PROBE(on_tls_writes, tls_begins(ARG1(regs), ARG2(regs), (u32)ARG3(regs), 0, STACK_AT(regs), OP_SEND))
RUNTIME_PROBE(on_tls_writes_sized, tls_begins(ARG1(regs), ARG2(regs), ARG3(regs), ARG4(regs), STACK_AT(regs), OP_SEND))
RUNTIME_PROBE(on_tls_shakes, tls_begins(ARG1(regs), 0, 0, 0, STACK_AT(regs), 0))
RUNTIME_RETURN_PROBE(on_tls_returns, tls_ends(regs))
RUNTIME_PROBE(on_tls_frees, tls_frees(regs))

/* The kind of a record with application data. */
#define RECORD_DATA 23
/* Go's length of a slice that is none. */
#define GO_LENGTH_MAX (1u << 31)

/* Go: a goroutine calls (*Conn).readFromUntil, to read what it lacks of a record from the connection: the session is the first argument, how many
 * bytes it needs the fourth. */
static __always_inline int go_tls_reads(u64 goroutine, u64 session, u64 needs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owned_key key = { .tgid = task->tgid, .of = goroutine };
	struct go_tls_record *found, record = { .session = session, .bytes = needs, .is_open = 1 };

	if (!tls_probes || !watched(task))
		return 0;
	found = bpf_map_lookup_elem(&go_tls_records, &key);
	if (found && found->is_open && found->session != record.session) {
		found->inner++;
		found->is_tunnel = 1;
	} else if (found) {
		*found = record;
	} else {
		bpf_map_update_elem(&go_tls_records, &key, &record, BPF_ANY);
	}
	return 0;
}

/* Go: that call is over, whatever came of it. */
static __always_inline int go_tls_has_read(u64 goroutine)
{
	struct owned_key key = { .tgid = bpf_get_current_pid_tgid() >> 32, .of = goroutine };
	struct go_tls_record *record = bpf_map_lookup_elem(&go_tls_records, &key);

	if (!record)
		return 0;
	if (record->inner)
		record->inner--;
	else
		record->is_open = 0;
	return 0;
}

/* Go: (*halfConn).decrypt returned a record's plaintext, and its kind as the fourth result. */
static __always_inline int go_tls_decrypts(u64 goroutine, u64 buffer, u64 bytes, u8 kind)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owned_key key = { .tgid = task->tgid, .of = goroutine };
	struct clear clear = { .buffer = buffer, .bytes = bytes, .op = OP_RECV, .told = CLEAR_RECORD };
	struct go_tls_record *record;

	if (kind != RECORD_DATA || !bytes || bytes >= GO_LENGTH_MAX || !watched(task))
		return 0;
	record = bpf_map_lookup_elem(&go_tls_records, &key);
	if (record)
		clear.record = record->bytes;
	/* amid the read of another session it is plaintext of that one's connection */
	tls_tells(task, record && !record->is_open ? record->session : 0, &clear);
	return 0;
}

/* Go: (*Conn).writeRecordLocked, which writes plaintext of a kind as one record or more. Nobody else writes on the connection then. */
static __always_inline int go_tls_writes(u64 session, u8 kind, u64 buffer, u64 bytes)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct clear clear = { .buffer = buffer, .bytes = bytes, .op = OP_SEND, .told = CLEAR_RECORD };

	if (kind == RECORD_DATA && bytes && bytes < GO_LENGTH_MAX && watched(task))
		tls_tells(task, session, &clear);
	return 0;
}

RUNTIME_PROBE(on_tls_go_reads, go_tls_reads(GO_G(regs), GO_ARG1(regs), GO_ARG4(regs)))
RUNTIME_PROBE(on_tls_go_has_read, go_tls_has_read(GO_G(regs)))
RUNTIME_PROBE(on_tls_go_decrypts, go_tls_decrypts(GO_G(regs), GO_ARG1(regs), GO_ARG2(regs), GO_ARG4(regs)))
RUNTIME_PROBE(on_tls_go_writes, go_tls_writes(GO_ARG1(regs), GO_ARG2(regs), GO_ARG3(regs), GO_ARG4(regs)))

#endif
