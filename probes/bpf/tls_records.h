/* Records of TLS whose headers lie behind an operation's head: where they begin is followed from operation to operation, and their headers
 * are taken. */
#ifndef WAKEPATH_TLS_RECORDS_H
#define WAKEPATH_TLS_RECORDS_H

#define RECORD_HEADER 5
/* The longest record that is believed: what TLS 1.2 allows. */
#define RECORD_MAX (16384 + 2048)
/* Most records of one operation that are followed, in turns that the verifier can look through. */
#define RECORDS_A_TURN 32
#define RECORD_TURNS 32

/* Whether a header of a record may begin with these four bytes. */
static __always_inline bool begins_record(u32 word)
{
	return (u8)word - 20u < 4 && (u8)(word >> 8) == 3 && (u8)(word >> 16) <= 4;
}

/* Finds where in an operation the next record begins: where that is not known, perhaps with the operation. flow_state.phase is that of
 * frames. */
static __always_inline void begin_records(struct followed *w, const struct flow_state *f)
{
	u32 phase = f->phase[w->way & 1];

	w->at = w->part = w->have = w->from = w->to = 0;
	w->next = PHASE_UNKNOWN;
	w->iovec = w->buffer;
	if (!(w->way & MORE_IN_IOVEC))
		w->to = w->bytes;
	if (phase >= PHASE_HEADER) {
		w->have = phase & 0xff;
		w->part = f->part[w->way & 1];
	} else if (phase != PHASE_UNKNOWN) {
		w->at = phase - PHASE_BORDER;
	}
}

/* Goes on to the next buffer of an operation: `from` is its number, `to` where it ends, and bytes are found at `buffer` by their place in
 * the operation. */
static __always_inline bool next_buffer(struct followed *w)
{
	struct user_iovec v = {};

	if (!(w->way & MORE_IN_IOVEC) || bpf_probe_read_user(&v, sizeof(v), (void *)(w->iovec + (u64)w->from * sizeof(v))))
		return false;
	w->from++;
	w->buffer = v.base - w->to;
	w->to += v.len;
	return true;
}

/* Follows some records of an operation, and takes headers behind its head. 0: these were all. */
__noinline int follow_records(struct followed *w)
{
	u32 i;

	if (!w)
		return 0;
	for (i = 0; i < RECORDS_A_TURN; i++) {
		u32 at = w->at, left = w->to - at, wanted = RECORD_HEADER - w->have, length;
		u64 word = 0;

		if (at >= w->bytes) {
			w->next = w->have ? PHASE_HEADER + w->have : PHASE_BORDER + at - w->bytes;
			return 0;
		}
		if (at >= w->to) {
			if (!next_buffer(w))
				return 0;
			continue;
		}
		if (left > w->bytes - at)
			left = w->bytes - at;
		if (left > wanted)
			left = wanted;
		asm volatile("" : "+r"(left));
		if (left > RECORD_HEADER || bpf_probe_read_user(&word, left, (void *)(w->buffer + at)))
			return 0;
		if (at + left > HEAD_MAX && (w->way & MORE_LAST))
			take_piece(w, at, left, w->way & ~(MORE_LAST | MORE_IN_IOVEC));
		word = w->part | word << 8 * (w->have & 7);
		w->at = at + left;
		if (left < wanted) {
			w->part = word;
			w->have += left;
			continue;
		}
		length = (u8)(word >> 24) << 8 | (u8)(word >> 32);
		if (!begins_record(word) || length > RECORD_MAX)
			return 0;
		w->at += length;
		w->part = w->have = 0;
	}
	return 1;
}

/* Says that no more comes of the operation, and keeps how its last record stands. */
__noinline int end_records(struct followed *w, struct flow_state *f)
{
	if (!w || !f)
		return 0;
	if (w->way & MORE_LAST)
		take_piece(w, w->bytes, 0, w->way & ~MORE_IN_IOVEC);
	f->phase[w->way & 1] = w->next;
	f->part[w->way & 1] = w->part;
	return 0;
}

/* Follows the records of an operation that was just recorded. */
static __always_inline void follow_tls(struct followed *w, struct flow_state *f)
{
	int i;

	begin_records(w, f);
	for (i = 0; i < RECORD_TURNS; i++)
		if (!follow_records(w))
			break;
	end_records(w, f);
}

#endif
