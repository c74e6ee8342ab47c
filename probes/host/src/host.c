// SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only
/* What the kernel gives to its programs, as far as heads.h and frames.h need it: memory of a user that may be read, a ring, and maps of
 * one entry. Each thread has its own. */
#include "types.h"
#include "wire.h"

#define SEC(name)
#define __uint(name, value) int(*name)[value]
#define __type(name, value) value *name
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define BPF_MAP_TYPE_PERCPU_ARRAY 6

#define RING_BYTES (1u << 20)
#define cfg_ring_bytes RING_BYTES

/* Shared with src/lib.rs. */
struct region {
	u64 from;
	u64 bytes;
};

struct host {
	/* what a program may read of its user */
	const struct region *regions;
	u64 region_count;
	/* RING_BYTES + RING_SLACK bytes */
	u8 *ring;
	/* written into the ring, and how many fit */
	u64 head;
	u64 room;
	/* reads of what may not be read */
	u64 faults;
};

struct cpu_state {
	int none;
};

static _Thread_local struct host *here;
static int rings;

static void *bpf_map_lookup_elem(void *map, const void *key);

static u32 bpf_get_smp_processor_id(void)
{
	return 0;
}

static long bpf_probe_read_user(void *to, u32 bytes, const void *from)
{
	u64 at = (u64)from, i;

	for (i = 0; i < here->region_count; i++) {
		const struct region *r = &here->regions[i];

		if (at >= r->from && at - r->from <= r->bytes && bytes <= r->bytes - (at - r->from)) {
			__builtin_memcpy(to, from, bytes);
			return 0;
		}
	}
	here->faults++;
	__builtin_memset(to, 0, bytes);
	return -14;
}

static struct cpu_state *this_cpu(void)
{
	return 0;
}

static void *reserve(struct cpu_state *c, u32 bytes, u32 drop, u64 *position)
{
	if (here->head + bytes > here->room)
		return 0;
	*position = here->head;
	here->head += bytes;
	return here->ring + *position;
}

static void commit(void *slot, u64 position, u16 bytes, u8 kind, u8 sub)
{
	struct wp_head *h = slot;

	h->bytes = bytes;
	h->kind = kind;
	h->sub = sub;
	h->tag = 0;
}

#include "flow_state.h"
#include "heads.h"
#include "frames.h"

static _Thread_local struct followed one;
static _Thread_local struct buffers buffers;

static void *bpf_map_lookup_elem(void *map, const void *key)
{
	return map == &rings ? here->ring : map == &followed_frames ? (void *)&one : map == &looked_at ? (void *)&buffers : 0;
}

u64 host_flow_state_bytes(void)
{
	return sizeof(struct flow_state);
}

u64 host_ring_bytes(void)
{
	return RING_BYTES + RING_SLACK;
}

/* A flow that is known to speak in frames; `is_http2`: for sure. */
void host_flow(struct flow_state *f, bool is_http2)
{
	__builtin_memset(f, 0, sizeof(*f));
	f->streams = STREAMS_FRAMED | (is_http2 ? STREAMS_HTTP2 : 0);
}

/* The recorder tells what the flow speaks. */
void host_told(struct flow_state *f)
{
	frames_are_sure(f);
}

/* A flow whose plaintext is told, as tls_join leaves it. */
void host_tls(struct flow_state *f)
{
	__builtin_memset(f, 0, sizeof(*f));
	f->streams = STREAMS_TLS | STREAMS_PLAIN | STREAMS_FRAMED;
}

/* An operation of that flow, as emit_op does it but for its head: how many bytes that has. */
u32 host_operation(struct host *host, struct flow_state *f, u64 buffer, u32 bytes, u32 count, u32 way)
{
	struct followed *w;
	u32 most;

	here = host;
	if (f->streams & STREAMS_HTTP2 && is_within_data(f, way & 0xf, bytes))
		return 0;
	most = count <= 1 ? head_most(f, way & 0xf, buffer, count, bytes) : HEAD_MAX;
	w = note_frames(1, buffer, bytes, way, 1);
	if (most < HEAD_MAX)
		limit_head(w, most);
	follow(w, f);
	return bytes < w->head ? bytes : w->head;
}

/* Bytes of an operation pass by unseen. */
void host_lose(struct flow_state *f, u32 op)
{
	lose_frames(f, op);
}

/* The head of an operation of `count` buffers, to the begin of the ring: how many bytes, and the highest bit where one could not be
 * read. */
u32 host_head(struct host *host, u32 room, u64 buffers, u64 count)
{
	here = host;
	return take_all(0, room, buffers, count);
}
