/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause
 *
 * Wakepath's annotations for C and C++: what a program knows of its own queues and states, told to whoever listens.
 * Include it where they are used; there is nothing to link, and no other header is needed.
 *
 * A *machine* is a part of the program that does one thing at a time: a thread's loop, a stage, a connection's handler.
 * Its name says which, its key (a number: a thread's index, a descriptor, 0 where there is one) which of its kind. It is
 * always in one *state*, and it puts into and takes out of *queues*. A queue is of the process; where its name begins
 * with '/', of the host.
 *
 *     WAKEPATH_STATE("parser", id, "parse");        from now on it parses
 *     WAKEPATH_ENQUEUE("parser", id, "jobs", 0, 1); it put one item into the queue "jobs" number 0
 *     WAKEPATH_DEQUEUE("writer", id, "jobs", 0, 1); it took one out
 *     WAKEPATH_WAIT_EMPTY("writer", id, "jobs", 0, 1); it waits from now on, since there is none
 *     WAKEPATH_WAIT_FULL("parser", id, "jobs", 0, 1);  it waits from now on, since there is no room
 *     WAKEPATH_BEGIN("parser", id, "request");      a transaction begins: what throughput and latency are of
 *     WAKEPATH_END("parser", id, "request");        it is over
 *
 * An ENQUEUE stands before the call that makes the item available, a DEQUEUE after the call that took it. A wait ends
 * with the machine's next mark. Names are strings that end in a zero byte, at most 62 bytes long; longer ones are cut,
 * and counted.
 *
 * While nobody listens, a mark costs a load and a branch; its arguments are not evaluated. Who listens is the kernel
 * (USDT probes of the provider `wakepath`: `wakepath record`, bpftrace, perf) or, without rights, the library that
 * `wakepath run` loads. x86-64 and aarch64 on Linux; elsewhere, or with WAKEPATH_DISABLE, marks are nothing at all.
 */
#ifndef WAKEPATH_H
#define WAKEPATH_H

#if defined(__linux__) && defined(__LP64__) && (defined(__x86_64__) || defined(__aarch64__)) && !defined(WAKEPATH_DISABLE)

#ifdef __cplusplus
extern "C" {
#endif

/* What a mark says. */
enum {
	WAKEPATH_KIND_STATE = 1,
	WAKEPATH_KIND_ENQUEUE = 2,
	WAKEPATH_KIND_DEQUEUE = 3,
	WAKEPATH_KIND_WAIT_EMPTY = 4,
	WAKEPATH_KIND_WAIT_FULL = 5,
	WAKEPATH_KIND_BEGIN = 6,
	WAKEPATH_KIND_END = 7
};

/* Where a linker lets two segments share a page of the file, the kernel counts in the one that it finds first, which is
 * not the one that is looked at. */
#if defined(__aarch64__)
#define WAKEPATH_PAGE 65536
#else
#define WAKEPATH_PAGE 4096
#endif

/* Not 0 while somebody listens: the kernel counts the probes' listeners here. One for each program and shared object, in
 * a page for itself. */
__attribute__((weak, visibility("hidden"), section(".probes"), aligned(WAKEPATH_PAGE))) unsigned short wakepath_semaphore = 0;

/* What the library of `wakepath run` fills in, and what it is asked by. */
struct wakepath_channel {
	unsigned long bytes; /* of this structure */
	unsigned short *semaphore;
	void (*mark)(unsigned long kind, const char *machine, unsigned long key, const char *name, unsigned long name_key,
		     unsigned long count);
};

__attribute__((weak, visibility("hidden"))) struct wakepath_channel wakepath_channel = {
	sizeof(struct wakepath_channel), &wakepath_semaphore, 0
};

/* Of the C library; by other names, so that its own declarations may differ. */
extern int wakepath_prctl(int option, ...) __asm__("prctl");
extern char *wakepath_getenv(const char *name) __asm__("getenv");

/* The library stands before `prctl` and knows this option; the kernel does not, and refuses it. A weak symbol would do
 * only where the linker leaves it to the loader, which it does not in every kind of executable. */
#define WAKEPATH_PRCTL_JOIN 0x574b5041

__attribute__((constructor, unused)) static void wakepath_join(void)
{
	if (!wakepath_channel.mark && wakepath_getenv("WAKEPATH_ARENA"))
		wakepath_prctl(WAKEPATH_PRCTL_JOIN, (unsigned long)&wakepath_channel, 0UL, 0UL, 0UL);
}

/* Reads the whole name: a probe may not wait for memory that is not there yet. */
__attribute__((unused)) static void wakepath_touch(const char *name)
{
	const volatile char *at = name;
	int i;

	for (i = 0; i < 64 && at[i]; i++)
		;
}

#if defined(__x86_64__)
/* five bytes: Linux 6.18 and later turn it into a call, which is cheaper than a trap */
#define WAKEPATH_NOP ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00"
#define WAKEPATH_ARGUMENTS "8@%%rdi 8@%%rsi 8@%%rdx 8@%%rcx 8@%%r8 8@%%r9"
#define WAKEPATH_REGISTER(n) WAKEPATH_REGISTER_##n
#define WAKEPATH_REGISTER_0 "rdi"
#define WAKEPATH_REGISTER_1 "rsi"
#define WAKEPATH_REGISTER_2 "rdx"
#define WAKEPATH_REGISTER_3 "rcx"
#define WAKEPATH_REGISTER_4 "r8"
#define WAKEPATH_REGISTER_5 "r9"
#else
#define WAKEPATH_NOP "nop"
#define WAKEPATH_ARGUMENTS "8@x0 8@x1 8@x2 8@x3 8@x4 8@x5"
#define WAKEPATH_REGISTER(n) "x" #n
#endif

/* A probe: one instruction that does nothing, with the arguments in the registers of a call, and the note that says
 * where it is. Arguments: machine, its key, name, its key, count, kind. */
#define WAKEPATH_PROBE(probe, kind_)                                                                                     \
	__attribute__((noinline, unused)) static void wakepath_##probe(const char *machine_, unsigned long key_,         \
								       const char *name_, unsigned long name_key_,       \
								       unsigned long count_)                             \
	{                                                                                                                \
		register const char *machine __asm__(WAKEPATH_REGISTER(0));                                              \
		register unsigned long key __asm__(WAKEPATH_REGISTER(1));                                                \
		register const char *name __asm__(WAKEPATH_REGISTER(2));                                                 \
		register unsigned long name_key __asm__(WAKEPATH_REGISTER(3));                                           \
		register unsigned long count __asm__(WAKEPATH_REGISTER(4));                                              \
		register unsigned long kind __asm__(WAKEPATH_REGISTER(5));                                               \
                                                                                                                         \
		wakepath_touch(machine_);                                                                                \
		wakepath_touch(name_);                                                                                   \
		machine = machine_, key = key_, name = name_, name_key = name_key_, count = count_, kind = (kind_);      \
		__asm__ volatile("990: " WAKEPATH_NOP "\n"                                                               \
				 ".pushsection .note.stapsdt,\"\",\"note\"\n"                                            \
				 ".balign 4\n"                                                                           \
				 ".4byte 992f-991f, 994f-993f, 3\n"                                                      \
				 "991: .asciz \"stapsdt\"\n"                                                             \
				 "992: .balign 4\n"                                                                      \
				 "993: .8byte 990b\n"                                                                    \
				 ".8byte 0\n"                                                                            \
				 ".8byte wakepath_semaphore\n"                                                           \
				 ".asciz \"wakepath\"\n"                                                                 \
				 ".asciz \"" #probe "\"\n"                                                               \
				 ".asciz \"" WAKEPATH_ARGUMENTS "\"\n"                                                   \
				 "994: .balign 4\n"                                                                      \
				 ".popsection\n" ::"r"(machine),                                                         \
				 "r"(key), "r"(name), "r"(name_key), "r"(count), "r"(kind)                               \
				 : "memory");                                                                            \
		if (wakepath_channel.mark)                                                                               \
			wakepath_channel.mark((kind_), machine_, key_, name_, name_key_, count_);                        \
	}

WAKEPATH_PROBE(state, WAKEPATH_KIND_STATE)
WAKEPATH_PROBE(enqueue, WAKEPATH_KIND_ENQUEUE)
WAKEPATH_PROBE(dequeue, WAKEPATH_KIND_DEQUEUE)
WAKEPATH_PROBE(wait_empty, WAKEPATH_KIND_WAIT_EMPTY)
WAKEPATH_PROBE(wait_full, WAKEPATH_KIND_WAIT_FULL)
WAKEPATH_PROBE(begin, WAKEPATH_KIND_BEGIN)
WAKEPATH_PROBE(end, WAKEPATH_KIND_END)

#ifdef __cplusplus
}
#endif

/* Whether somebody listens. Changes while the program runs. */
#define WAKEPATH_LISTENS() __builtin_expect(*(volatile unsigned short *)&wakepath_semaphore != 0, 0)

#define WAKEPATH_MARK_(probe, machine, key, name, name_key, count)                                                       \
	do {                                                                                                             \
		if (WAKEPATH_LISTENS())                                                                                  \
			wakepath_##probe((machine), (unsigned long)(key), (name), (unsigned long)(name_key),             \
					 (unsigned long)(count));                                                        \
	} while (0)

#else

#define WAKEPATH_LISTENS() 0
#define WAKEPATH_MARK_(probe, machine, key, name, name_key, count)                                                       \
	do {                                                                                                             \
	} while (0)

#endif

/* The machine is in the state `name` from now on. */
#define WAKEPATH_STATE(machine, key, name) WAKEPATH_MARK_(state, machine, key, name, 0, 1)
/* It put `count` items into the queue. */
#define WAKEPATH_ENQUEUE(machine, key, queue, queue_key, count) WAKEPATH_MARK_(enqueue, machine, key, queue, queue_key, count)
/* It took `count` items out of the queue. */
#define WAKEPATH_DEQUEUE(machine, key, queue, queue_key, count) WAKEPATH_MARK_(dequeue, machine, key, queue, queue_key, count)
/* It waits from now on, since the queue has fewer than `count` items. */
#define WAKEPATH_WAIT_EMPTY(machine, key, queue, queue_key, count)                                                       \
	WAKEPATH_MARK_(wait_empty, machine, key, queue, queue_key, count)
/* It waits from now on, since the queue has no room for `count` items. */
#define WAKEPATH_WAIT_FULL(machine, key, queue, queue_key, count)                                                        \
	WAKEPATH_MARK_(wait_full, machine, key, queue, queue_key, count)
/* It begins a transaction of this kind. */
#define WAKEPATH_BEGIN(machine, key, kind) WAKEPATH_MARK_(begin, machine, key, kind, 0, 1)
/* Its transaction of this kind is over. */
#define WAKEPATH_END(machine, key, kind) WAKEPATH_MARK_(end, machine, key, kind, 0, 1)

#endif
