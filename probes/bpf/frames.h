/* Frames of HTTP/2 that lie behind an operation's head: where they begin is followed from operation to operation, so that all but
 * the bodies can be taken. */
#ifndef WAKEPATH_FRAMES_H
#define WAKEPATH_FRAMES_H

/* Most frames of one operation that are followed, in turns that the verifier can look through; and most bytes behind its head that
 * are taken. */
#define FRAMES_A_TURN 32
#define FRAME_TURNS 32
#define PIECES_MAX 8
#define MORE_MAX 65536
/* What Redis reads at once. One long value is not taken. */
#define COMMANDS_MAX 16384
/* A shorter body is taken with what is around it: a record of its own costs more. */
#define BODY_TAKEN 64
/* The longest frame that is believed. */
#define FRAME_MAX (1 << 20)
#define FRAME_HEADER 9
/* Of what follow_frames is told: the bytes are not at the buffer, but at the address that it begins with. */
#define MORE_IN_IOVEC 0x100

/* flow_state.phase: 0 = where the next frame begins is not known; from 1 on, so many bytes less one of a frame's body are left (of
 * one of data: with PHASE_DATA); at the upper end, so many bytes of a frame's header were seen, whose first four are in
 * flow_state.part. */
#define PHASE_UNKNOWN 0
#define PHASE_BORDER 1
#define PHASE_DATA 0x40000000u
#define PHASE_HEADER 0xffffff00u

/* How requests of Redis begin: many stand behind each other on a connection that is shared. */
static __always_inline bool begins_commands(u32 word)
{
	return (u8)word == '*' && (u8)((u8)(word >> 8) - '0') < 10 && (u8)(word >> 16) == '\r';
}

/* How HTTP/2, AMQP and Redis begin: their messages of one direction begin without a turn. Of others that do, the recorder tells
 * (wanted_heads). */
static __always_inline u8 streams_of(u32 word)
{
	if (word == 0x20495250 /* PRI_ */)
		return STREAMS_FRAMED | STREAMS_HTTP2;
	return word == 0x50514d41 /* AMQP */ || begins_commands(word) ? STREAMS_PLAIN : 0;
}

/* The first bytes of a frame of HTTP/2 that no body is: one that holds a whole head (HEADERS with END_HEADERS, at most 16 KiB), or a
 * RST_STREAM, PING or WINDOW_UPDATE. So it is known on connections from before the recording, before the recorder tells. */
static __always_inline bool begins_frame(u64 w)
{
	u32 length = (u8)w << 16 | (u8)(w >> 8) << 8 | (u8)(w >> 16);
	u8 kind = w >> 24, flags = w >> 32;

	if (w >> 47 & 1)
		return false;
	if (kind == 1)
		return length - 1 < 16384 && !(flags & ~0x2d) && (flags & 4);
	return (length == 4 && (kind == 3 || kind == 8) && !flags) || (length == 8 && kind == 6 && flags < 2);
}

/* The same of a frame of data. */
static __always_inline bool begins_data(u64 w)
{
	return (u8)w <= FRAME_MAX >> 16 && !(u8)(w >> 24) && !((u8)(w >> 32) & ~9) && !(w >> 47 & 1);
}

/* Whether an operation moves nothing but what is left of the data of a frame: that need not be taken. Where it is, it is counted
 * off. */
static __always_inline bool is_within_data(struct flow_state *f, u8 op, u32 bytes)
{
	u32 phase = f->phase[op & 1], left = phase - PHASE_DATA - PHASE_BORDER;

	if (phase >= PHASE_HEADER || !(phase & PHASE_DATA) || left < bytes)
		return false;
	f->phase[op & 1] = left == bytes ? PHASE_BORDER : phase - bytes;
	return true;
}

/* Writes a piece of an operation, of at most HEAD_MAX bytes; how many it has. */
__noinline int take_piece(u64 buffer, u32 at, u32 length, u32 way)
{
	struct cpu_state *c = this_cpu();
	u32 size = sizeof(struct wp_more) + ((length + 7) & ~7u);
	struct wp_more *r;
	u64 position;

	if (length > HEAD_MAX)
		return 0;
	r = reserve(c, size, DROP_OP, &position);
	if (!r)
		return 0;
	r->ts_ns = c->more_ns;
	r->flow = c->more_flow;
	r->at = at;
	r->bytes = take(r + 1, 0, length, buffer + at, length) & 0x7fffffff;
	length = r->bytes;
	commit(r, position, size, KIND_MORE, way);
	return length;
}

/* Writes bytes of an operation in pieces. `span`: where they begin (low half), and how many. `way`: OP_, and MORE_LAST where nothing
 * more comes. */
__noinline int take_more(u64 buffer, u64 span, u32 way)
{
	u32 at = span, bytes = span >> 32, i;

	for (i = 0; i < PIECES_MAX; i++) {
		bool is_last = bytes <= HEAD_MAX || i + 1 == PIECES_MAX;
		u32 length = bytes < HEAD_MAX ? bytes : HEAD_MAX;

		if (take_piece(buffer, at, length, is_last ? way : way & ~MORE_LAST) != length || is_last)
			break;
		bytes -= length;
		at += length;
	}
	return 0;
}

/* A run of bytes of an operation that are wanted, as far as they are behind its head. Where none are, an empty last piece says so. */
static __always_inline void take_run(struct cpu_state *c, u32 way)
{
	u64 from = c->more_from, to = c->more_to;

	if (to > c->more_bytes)
		to = c->more_bytes;
	if (from < HEAD_MAX)
		from = HEAD_MAX;
	if (to < from)
		to = from;
	if ((way & MORE_LAST) || to > from)
		take_more(c->more_buffer, from | (to - from) << 32, way);
	c->more_taken += to - from;
}

static __always_inline struct flow_state *followed(struct cpu_state *c)
{
	u32 key = c->more_flow & (FLOW_SLOTS - 1);
	struct flow_state *f;

	if (cfg_sock_hooks)
		f = bpf_map_lookup_elem(&flow_slots, &key);
	else
		f = bpf_map_lookup_elem(&flows_by_address, &c->more_socket);
	return f && f->id == c->more_flow ? f : 0;
}

/* Finds where in an operation the next frame begins: behind what is left of the one before. 0: that is not known. */
__noinline int begin_frames(void)
{
	struct cpu_state *c = this_cpu();
	struct flow_state *f = followed(c);
	u32 phase;
	u64 word = 0;

	c->more_at = c->more_from = c->more_to = c->more_taken = c->more_part = c->more_have = 0;
	c->more_next = PHASE_UNKNOWN;
	if (!f || c->more_bytes > 1u << 30)
		return 0;
	if (c->more_way & MORE_IN_IOVEC) {
		if (bpf_probe_read_user(&word, sizeof(word), (void *)c->more_buffer))
			return 0;
		c->more_buffer = word;
	}
	phase = f->phase[c->more_way & 1];
	if (phase >= PHASE_HEADER) {
		c->more_have = phase & 0xff;
		c->more_part = f->part[c->more_way & 1];
		return 1;
	}
	c->more_data = phase & PHASE_DATA;
	if (phase != PHASE_UNKNOWN) {
		c->more_at = (phase & ~PHASE_DATA) - PHASE_BORDER;
		return 1;
	}
	if (c->more_bytes < sizeof(word) || bpf_probe_read_user(&word, sizeof(word), (void *)c->more_buffer))
		return 0;
	if (!(f->streams & STREAMS_FRAMED)) {
		/* commands of Redis, one behind the other: all of them */
		if ((u8)word == '*' && c->more_bytes <= COMMANDS_MAX)
			c->more_to = c->more_bytes;
		return 0;
	}
	if ((u32)word == 0x20495250 /* PRI_ */)
		c->more_at = 24;
	/* what is skipped must be sure: a frame of SETTINGS that was read apart from its header may look like one of data */
	return c->more_at || begins_frame(word) || (!(f->streams & STREAMS_HTTP2) && begins_data(word));
}

/* Follows some frames of an operation, and takes those behind its head but for their bodies. 0: these were all. */
__noinline int follow_frames(void)
{
	struct cpu_state *c = this_cpu();
	u32 bytes = c->more_bytes, at = c->more_at, have = c->more_have, part = c->more_part, body, word, i;

	for (i = 0; i < FRAMES_A_TURN; i++) {
		if (at >= bytes) {
			c->more_next = PHASE_BORDER + at - bytes;
			if (at > bytes)
				c->more_next |= c->more_data;
			return 0;
		}
		if (at > c->more_to) {
			/* a body lies between */
			if (c->more_way & MORE_LAST)
				take_run(c, c->more_way & 0xf);
			c->more_from = c->more_to = at;
			if (c->more_taken > MORE_MAX)
				return 0;
		}
		/* behind its first four bytes nothing of a header need be looked at */
		if (have < 4) {
			if (bpf_probe_read_user(&word, 4, (void *)(c->more_buffer + at)))
				return 0;
			if (bytes - at < 4)
				word &= (1 << 8 * (bytes - at & 3)) - 1;
			part |= word << 8 * have;
		}
		if (bytes - at < FRAME_HEADER - have) {
			c->more_part = part;
			c->more_next = PHASE_HEADER + have + bytes - at;
			c->more_to = bytes;
			return 0;
		}
		body = (u8)part << 16 | (u8)(part >> 8) << 8 | (u8)(part >> 16);
		if (body > FRAME_MAX || part >> 24 > 16)
			return 0;
		at += FRAME_HEADER - have;
		c->more_to = at + (!(part >> 24) && body > BODY_TAKEN ? 0 : body);
		at += body;
		c->more_data = part >> 24 ? 0 : PHASE_DATA;
		part = have = 0;
	}
	c->more_at = at;
	c->more_part = c->more_have = 0;
	return 1;
}

/* Takes what is left of an operation, and keeps how its last frame stands. */
__noinline int end_frames(void)
{
	struct cpu_state *c = this_cpu();
	struct flow_state *f = followed(c);

	if (c->more_way & MORE_LAST)
		take_run(c, c->more_way & ~MORE_IN_IOVEC);
	if (f) {
		f->phase[c->more_way & 1] = c->more_next;
		f->part[c->more_way & 1] = c->more_part;
	}
	c->more_flow = 0;
	return 0;
}

/* Follows the frames of the operation that was recorded last, where it is one of a connection with streams. */
static __always_inline void follow_noted(struct cpu_state *c)
{
	int i;

	if (!c->more_flow)
		return;
	if (begin_frames())
		for (i = 0; i < FRAME_TURNS; i++)
			if (!follow_frames())
				break;
	end_frames();
}

#endif
