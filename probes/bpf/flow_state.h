/* What is kept of a flow between its operations. */
#ifndef WAKEPATH_FLOW_STATE_H
#define WAKEPATH_FLOW_STATE_H

/* What lies in operations of a flow whose messages overlap: perhaps frames of HTTP/2; messages without such; frames, as its preface or
 * the recorder told: what is within one need not be looked at. */
#define STREAMS_FRAMED 1
#define STREAMS_PLAIN 2
#define STREAMS_HTTP2 4
/* Records of TLS, whose plaintext is told. */
#define STREAMS_TLS 8
/* Of what is received, and shifted by one of what is sent: where its frames begin was taken from one of data, which others may look
 * like. */
#define STREAMS_GUESSED 16

struct flow_state {
	u64 id; /* in a slot 0 = free */
	u64 arrived_ns;
	u64 last_ready_ns;
	u32 sent; /* byte counts where the protocol has no sequence numbers */
	u32 received;
	u16 captured; /* bytes of head taken since the last change of direction */
	u8 direction; /* OP_SEND, OP_RECV, 0 = none yet */
	u8 announced;
	u8 http;
	u8 turns; /* changes of direction, modulo 256 */
	u8 quiet; /* nobody can read what it says: no more heads */
	u8 streams; /* its messages overlap: each operation may begin one. STREAMS_... */
	u32 inode; /* of the socket, where it was found by address: an address is used again */
	u32 window_waits; /* as TCP counted them when it sent last: ticks for which the receiver's window kept bytes back */
	/* where frames of HTTP/2 stand when an operation is over, received and sent: see frames.h */
	u32 phase[2];
	u32 part[2];
};
_Static_assert(sizeof(struct flow_state) == 64, "one cache line");

#endif
