/* Message heads: bytes of user memory, out of one buffer or many, into a record. */
#ifndef WAKEPATH_HEADS_H
#define WAKEPATH_HEADS_H

/* Buffers of a call that are looked at in one go. */
#define MAX_IOV 6
/* Most buffers that a call can have: the kernel's UIO_MAXIOV. */
#define MOST_IOV 1024

/* Copies at most `room` bytes of user memory behind `done` bytes of the head already taken; the new total. */
static __always_inline u32 take(void *dst, u32 done, u32 room, u64 src, u64 len)
{
	if (done >= room || !src)
		return done;
	if (len > room - done)
		len = room - done;
	if (len == 0 || len > HEAD_MAX || done > HEAD_MAX)
		return done;
	asm volatile("" : "+r"(len), "+r"(done));
	if (len > HEAD_MAX || done > HEAD_MAX)
		return done;
	if (bpf_probe_read_user(dst + done, len, (void *)src))
		return done | 0x80000000;
	return done + len;
}

/* Where buffers are that are looked at now. Not on the stack: a chain of calls has 512 bytes in all (before Linux 6.13). One a processor
 * is enough: programs that record operations are not preempted, and nothing that interrupts them records one. */
struct buffers {
	struct user_iovec v[MAX_IOV];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct buffers);
} looked_at SEC(".maps");

/* Up to MAX_IOV of `count` buffers. A read of user memory costs some 100 ns however short it is, so the array is read at once. */
static __always_inline u32 take_some(void *dst, u32 done, u32 room, u64 iov, u64 count)
{
	u32 bytes = (count < MAX_IOV ? count : MAX_IOV) * sizeof(struct user_iovec), zero = 0;
	struct buffers *b = bpf_map_lookup_elem(&looked_at, &zero);
	int i;

	asm volatile("" : "+r"(bytes));
	if (!b || bytes > sizeof(*b) || bpf_probe_read_user(b, bytes, (void *)iov))
		return done | 0x80000000;
#pragma unroll
	for (i = 0; i < MAX_IOV; i++) {
		if (i >= count || done >= room)
			break;
		done = take(dst, done, room, b->v[i].base, b->v[i].len);
		if (done & 0x80000000)
			break;
	}
	return done;
}

/* The same by the place of the head in this processor's ring. A global function: verified once, however often it is called. */
__noinline int take_at(u32 at, u32 done, u32 room, u64 iov, u64 count)
{
	u32 cpu = bpf_get_smp_processor_id();
	void *ring = bpf_map_lookup_elem(&rings, &cpu);

	if (!ring || at > cfg_ring_bytes + RING_SLACK - 2 * HEAD_MAX)
		return done;
	return take_some(ring + at, done, room, iov, count);
}

/* All of them: a library that writes for many streams at once gives each frame as buffers of its own. */
__noinline int take_all(u32 at, u32 room, u64 iov, u64 count)
{
	u32 i, done = 0;

	for (i = 0; i < MOST_IOV; i += MAX_IOV) {
		if (i >= count || done >= room)
			break;
		/* an error is more than any room */
		done = take_at(at, done, room, iov + i * sizeof(struct user_iovec), count - i);
	}
	return done;
}

#endif
