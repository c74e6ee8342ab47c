/* TLS in clear: probes at the calls of OpenSSL, and of what has the same functions (BoringSSL, LibreSSL). */
#ifndef WAKEPATH_TLS_PROBES_H
#define WAKEPATH_TLS_PROBES_H

/* A call begins. `moved`: where it will write how many bytes it moved, 0 where it returns that. Registers are arguments: the verifier
 * refuses what the compiler makes of two places that read one. */
static __always_inline int tls_begins(u64 session, u64 buffer, u64 room, u64 moved, u64 stack, u8 op)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 thread = bpf_get_current_pid_tgid();
	struct tls_call *outer, call = {};

	if (!watched(task))
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

/* Writes plaintext down, as an operation on the connection would be. */
static __always_inline struct followed *emit_clear(struct task_struct *task, struct tls_session *s, struct tls_call *call, u32 bytes, u64 now)
{
	struct cpu_state *c = this_cpu();
	struct flow_state *f = &s->plain;
	struct place p = { .buffer = call->buffer };
	struct moved m = { .flow = f->id, .bytes = bytes, .op = call->op, .class = SC_READ };
	bool is_body = moves_body(f, &m);
	u32 head = 0, size;
	u64 position;
	struct followed *frames = 0;
	struct wp_op *r;

	if (!is_body && !f->quiet && f->captured < cfg_head_bytes)
		head = head_of(f, &m, &p);
	if (head > HEAD_MAX)
		head = HEAD_MAX;
	if (!is_body && (f->streams & STREAMS_FRAMED || (f->streams && bytes > HEAD_MAX)))
		frames = begin_followed(&s->frames, f->id, p.buffer, bytes, m.op | MORE_CLEAR, now);
	/* more of the same record may come where the caller had room for no more */
	if (m.op == OP_RECV && bytes == call->room)
		m.flags |= OPF_MORE;
	m.flags |= OPF_PLAIN;
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
	commit(r, position, size, KIND_CLEAR, m.op);
	return frames;
}

/* A call returned. */
static __always_inline int tls_ends(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 thread = bpf_get_current_pid_tgid(), bytes;
	struct tls_call *call = bpf_map_lookup_elem(&tls_calls, &thread);
	struct owned_key key = { .tgid = task->tgid };
	struct tls_session *s;

	if (!call)
		return 0;
	if (call->inner) {
		call->inner--;
		return 0;
	}
	bytes = tls_bytes(call, RESULT(regs));
	if (bytes && bytes < 1u << 31) {
		key.of = call->session;
		s = call->is_tunnel ? 0 : bpf_map_lookup_elem(&tls_sessions, &key);
		if (s)
			follow(emit_clear(task, s, call, bytes, bpf_ktime_get_ns()), &s->plain);
		else
			__sync_fetch_and_add(&tls_unjoined, 1);
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

#endif
