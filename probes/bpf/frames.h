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
/* An operation that begins with data and has so many bytes is long: fewer are not worth another record. */
#define DATA_LONG 1024
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

/* Most bytes of an operation in one buffer (of an array, if `is_in_iovec`) that are taken as its head. Where it begins with or within the
 * data of a frame and is long, that data is not, but for what a body begins with. */
static __always_inline u32 head_most(const struct flow_state *f, u8 op, u64 buffer, bool is_in_iovec, u32 bytes)
{
	u32 phase = f->phase[op & 1], word = 0;

	if (!(f->streams & STREAMS_HTTP2) || phase >= PHASE_HEADER || phase == PHASE_UNKNOWN)
		return HEAD_MAX;
	if (phase & PHASE_DATA)
		return phase - PHASE_DATA - PHASE_BORDER > BODY_TAKEN ? 0 : HEAD_MAX;
	if (phase != PHASE_BORDER || bytes < DATA_LONG)
		return HEAD_MAX;
	if (is_in_iovec && bpf_probe_read_user(&buffer, sizeof(buffer), (void *)buffer))
		return HEAD_MAX;
	if (bpf_probe_read_user(&word, sizeof(word), (void *)buffer))
		return HEAD_MAX;
	return word >> 24 ? HEAD_MAX : FRAME_HEADER + BODY_TAKEN;
}

/* An operation whose frames are followed: what it is, and how far they were. */
struct followed {
	u64 flow;
	u64 buffer;
	u64 iovec; /* of records of TLS: where its buffers are told */
	u64 ns;
	u32 bytes;
	u32 way; /* OP_, with MORE_LAST where pieces are taken, MORE_IN_IOVEC, and MORE_CLEAR of plaintext */
	u32 head; /* so many bytes are taken as its head, if it has them */
	u32 at; /* where the next frame begins */
	/* what is wanted and not yet taken lies between these */
	u32 from;
	u32 to;
	u32 taken; /* bytes of pieces so far */
	u32 have; /* so many bytes of a frame's header lie in the operation before; its first four are in `part` */
	u32 part;
	u32 next; /* flow_state.phase when the operation is over */
	u32 data; /* PHASE_DATA where the last frame is of data, else 0 */
};

/* Not on the stack, of which the programs that record operations have none left (before Linux 6.13 a chain of calls has 512 bytes in all).
 * One a processor is enough: these programs are not preempted, and nothing that interrupts them records an operation. Only
 * note_frames and follow_op look here; everything else has it as an argument. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct followed);
} followed_frames SEC(".maps");

/* Bytes passed by unseen: where the next frame begins is not known. */
static __always_inline void lose_frames(struct flow_state *f, u8 op)
{
	f->phase[op & 1] = PHASE_UNKNOWN;
}

/* The recorder tells that these are frames of HTTP/2: where they begin stays known, unless that was a guess. */
static __always_inline void frames_are_sure(struct flow_state *f)
{
	u32 i;

	for (i = 0; i < 2; i++)
		if (f->streams & STREAMS_GUESSED << i)
			f->phase[i] = PHASE_UNKNOWN;
	f->streams = STREAMS_FRAMED | STREAMS_HTTP2;
}

/* An operation whose frames are to be followed, in a place of the caller's: probes in programs are preempted. `way`: OP_, MORE_IN_IOVEC
 * and MORE_CLEAR. */
static __always_inline struct followed *begin_followed(struct followed *w, u64 flow, u64 buffer, u32 bytes, u32 way, u64 now)
{
	w->flow = flow;
	w->buffer = buffer;
	w->ns = now;
	w->bytes = bytes;
	w->head = HEAD_MAX;
	w->way = way | (bytes > HEAD_MAX ? MORE_LAST : 0);
	return w;
}

/* No more than that is taken as its head. */
static __always_inline void limit_head(struct followed *w, u32 most)
{
	w->head = most;
	if (w->bytes > most)
		w->way |= MORE_LAST;
}

/* The same by who called for its record. `way`: OP_, and MORE_IN_IOVEC. */
static __always_inline struct followed *note_frames(u64 flow, u64 buffer, u32 bytes, u32 way, u64 now)
{
	u32 zero = 0;
	struct followed *w = bpf_map_lookup_elem(&followed_frames, &zero);

	return w ? begin_followed(w, flow, buffer, bytes, way, now) : 0;
}

/* Writes a piece of an operation, of at most HEAD_MAX bytes; how many it has. */
__noinline int take_piece(const struct followed *w, u32 at, u32 length, u32 way)
{
	u32 size = sizeof(struct wp_more) + ((length + 7) & ~7u);
	struct wp_more *r;
	u64 position;

	if (!w || length > HEAD_MAX)
		return 0;
	r = reserve(this_cpu(), size, DROP_OP, &position);
	if (!r)
		return 0;
	r->ts_ns = w->ns;
	r->flow = w->flow;
	r->at = at;
	r->bytes = take(r + 1, 0, length, w->buffer + at, length) & 0x7fffffff;
	length = r->bytes;
	commit(r, position, size, KIND_MORE, way);
	return length;
}

/* Writes bytes of an operation in pieces. `way`: OP_, and MORE_LAST where nothing more comes. */
__noinline int take_more(const struct followed *w, u32 at, u32 bytes, u32 way)
{
	u32 i;

	for (i = 0; i < PIECES_MAX; i++) {
		bool is_last = bytes <= HEAD_MAX || i + 1 == PIECES_MAX;
		u32 length = bytes < HEAD_MAX ? bytes : HEAD_MAX;

		if (take_piece(w, at, length, is_last ? way : way & ~MORE_LAST) != length || is_last)
			break;
		bytes -= length;
		at += length;
	}
	return 0;
}

/* A run of bytes of an operation that are wanted, as far as they are behind its head. Where none are, an empty last piece says so. */
static __always_inline void take_run(struct followed *w, u32 way)
{
	u32 from = w->from, to = w->to;

	if (to > w->bytes)
		to = w->bytes;
	if (from < w->head)
		from = w->head;
	if (to < from)
		to = from;
	if ((way & MORE_LAST) || to > from)
		take_more(w, from, to - from, way);
	w->taken += to - from;
}

/* Finds where in an operation the next frame begins: behind what is left of the one before. 0: that is not known. */
__noinline int begin_frames(struct followed *w, struct flow_state *f)
{
	u32 phase;
	u64 word = 0;

	if (!w || !f)
		return 0;
	w->at = w->from = w->to = w->taken = w->part = w->have = w->data = 0;
	w->next = PHASE_UNKNOWN;
	if (w->bytes > 1u << 30)
		return 0;
	if (w->way & MORE_IN_IOVEC) {
		if (bpf_probe_read_user(&word, sizeof(word), (void *)w->buffer))
			return 0;
		w->buffer = word;
	}
	phase = f->phase[w->way & 1];
	if (phase >= PHASE_HEADER) {
		w->have = phase & 0xff;
		w->part = f->part[w->way & 1];
		return 1;
	}
	w->data = phase & PHASE_DATA;
	if (phase != PHASE_UNKNOWN) {
		w->at = (phase & ~PHASE_DATA) - PHASE_BORDER;
		return 1;
	}
	if (w->bytes < sizeof(word) || bpf_probe_read_user(&word, sizeof(word), (void *)w->buffer))
		return 0;
	if (!(f->streams & STREAMS_FRAMED)) {
		/* commands of Redis, one behind the other: all of them */
		if ((u8)word == '*' && w->bytes <= COMMANDS_MAX)
			w->to = w->bytes;
		return 0;
	}
	f->streams &= ~(STREAMS_GUESSED << (w->way & 1));
	if ((u32)word == 0x20495250 /* PRI_ */)
		w->at = 24;
	if (w->at || begins_frame(word))
		return 1;
	/* what is skipped must be sure: a frame of SETTINGS that was read apart from its header may look like one of data */
	if (f->streams & STREAMS_HTTP2 || !begins_data(word))
		return 0;
	f->streams |= STREAMS_GUESSED << (w->way & 1);
	return 1;
}

/* Follows some frames of an operation, and takes those behind its head but for their bodies. 0: these were all. */
__noinline int follow_frames(struct followed *w)
{
	u32 bytes, at, have, part, body, word, i;

	if (!w)
		return 0;
	bytes = w->bytes, at = w->at, have = w->have, part = w->part;
	for (i = 0; i < FRAMES_A_TURN; i++) {
		if (at >= bytes) {
			w->next = PHASE_BORDER + at - bytes;
			if (at > bytes)
				w->next |= w->data;
			return 0;
		}
		if (at > w->to) {
			/* a body lies between */
			if (w->way & MORE_LAST)
				take_run(w, w->way & ~(MORE_LAST | MORE_IN_IOVEC));
			w->from = w->to = at;
			if (w->taken > MORE_MAX)
				return 0;
		}
		/* behind its first four bytes nothing of a header need be looked at */
		if (have < 4) {
			/* no more than there is: behind a buffer may be a page that is not there */
			u32 left = bytes - at < 4 ? bytes - at : 4;

			word = 0;
			asm volatile("" : "+r"(left));
			if (left > 4 || bpf_probe_read_user(&word, left, (void *)(w->buffer + at)))
				return 0;
			part |= word << 8 * have;
		}
		if (bytes - at < FRAME_HEADER - have) {
			w->part = part;
			w->next = PHASE_HEADER + have + bytes - at;
			w->to = bytes;
			return 0;
		}
		body = (u8)part << 16 | (u8)(part >> 8) << 8 | (u8)(part >> 16);
		if (body > FRAME_MAX || part >> 24 > 16)
			return 0;
		at += FRAME_HEADER - have;
		w->to = at + (!(part >> 24) && body > BODY_TAKEN ? 0 : body);
		at += body;
		w->data = part >> 24 ? 0 : PHASE_DATA;
		part = have = 0;
	}
	w->at = at;
	w->part = w->have = 0;
	return 1;
}

/* Takes what is left of an operation, and keeps how its last frame stands. */
__noinline int end_frames(struct followed *w, struct flow_state *f)
{
	if (!w || !f)
		return 0;
	if (w->way & MORE_LAST)
		take_run(w, w->way & ~MORE_IN_IOVEC);
	f->phase[w->way & 1] = w->next;
	f->part[w->way & 1] = w->part;
	return 0;
}

#include "tls_records.h"

/* Follows the frames of an operation that was just recorded. */
static __always_inline void follow(struct followed *w, struct flow_state *f)
{
	int i;

	if (!w || !f)
		return;
	if (f->streams & STREAMS_TLS)
		return follow_tls(w, f);
	if (begin_frames(w, f))
		for (i = 0; i < FRAME_TURNS; i++)
			if (!follow_frames(w))
				break;
	end_frames(w, f);
}

/* The same of the one that note_frames was told last on this processor. */
__noinline int follow_op(struct flow_state *f)
{
	u32 zero = 0;

	follow(bpf_map_lookup_elem(&followed_frames, &zero), f);
	return 0;
}

#endif
