/* What differs from processor to processor: which register holds what, and how a thread finds what is its own. All else in
 * this folder is the same for all of them. */
#ifndef WAKEPATH_MACHINE_H
#define WAKEPATH_MACHINE_H

#if defined(__TARGET_ARCH_x86)

/* Of a function that was called, in C. */
#define ARG1(r) ((r)->di)
#define ARG2(r) ((r)->si)
#define ARG3(r) ((r)->dx)
#define ARG4(r) ((r)->cx)
#define ARG5(r) ((r)->r8)
#define ARG6(r) ((r)->r9)
#define RESULT(r) ((r)->ax)
#define STACK_AT(r) ((r)->sp)
/* At its beginning: where it was called. */
#define CALLED_AT(r) user_word((r)->sp)

/* Of a system call, before it and after it. */
#define CALL_ARG1(r) ((r)->di)
#define CALL_ARG2(r) ((r)->si)
#define CALL_ARG3(r) ((r)->dx)
#define CALL_ARG4(r) ((r)->r10)
#define CALL_ARG5(r) ((r)->r8)

/* Of a function of Go's, and the goroutine. */
#define GO_ARG1(r) ((r)->ax)
#define GO_ARG2(r) ((r)->bx)
#define GO_ARG3(r) ((r)->cx)
#define GO_ARG4(r) ((r)->di)
#define GO_G(r) ((r)->r14)

/* Where Go's allocator begins to take memory, and where it gives up. */
#define GO_HEAP 0xc000000000ULL
#define GO_HEAP_END 0x10000000000ULL

/* The instruction at which the program stands. */
#define PROGRAM_AT(r) ((r)->ip)

#define THREAD_POINTER(task) ((task)->thread.fsbase)

/* The number of the system call that the task is in, not below SYSCALLS where it is in none. */
static __always_inline u64 call_number(struct pt_regs *regs)
{
	return regs->orig_ax;
}

/* The same where one begins. `id`: what the tracepoint tells. */
#define ENTERED_NUMBER(regs, id) ((u64)(id))

/* A call's number as records have it: as x86-64 numbers calls. */
#define RECORDED_NUMBER(number) (number)

/* A place of a record, as the verifier must see it. */
#define SEEN_ALIGNED(at) (at)

/* A word that is written behind all that was written before, and one that is read amid all that is read around it. The
 * processor keeps loads in order, and stores; the compiler must too. */
#define barrier() asm volatile("" ::: "memory")
#define store_ordered(place, value)                              \
	do {                                                     \
		barrier();                                       \
		*(volatile typeof(*(place)) *)(place) = (value); \
	} while (0)
#define load_ordered(place)                                                   \
	({                                                                    \
		barrier();                                                    \
		typeof(*(place)) __value = *(volatile typeof(*(place)) *)(place); \
		barrier();                                                    \
		__value;                                                      \
	})

#else

#define ARG1(r) ((r)->regs[0])
#define ARG2(r) ((r)->regs[1])
#define ARG3(r) ((r)->regs[2])
#define ARG4(r) ((r)->regs[3])
#define ARG5(r) ((r)->regs[4])
#define ARG6(r) ((r)->regs[5])
#define RESULT(r) ((r)->regs[0])
#define STACK_AT(r) ((r)->sp)
#define CALLED_AT(r) ((r)->regs[30])

/* The result takes the first argument's register. */
#define CALL_ARG1(r) ((r)->orig_x0)
#define CALL_ARG2(r) ((r)->regs[1])
#define CALL_ARG3(r) ((r)->regs[2])
#define CALL_ARG4(r) ((r)->regs[3])
#define CALL_ARG5(r) ((r)->regs[4])

#define GO_ARG1(r) ((r)->regs[0])
#define GO_ARG2(r) ((r)->regs[1])
#define GO_ARG3(r) ((r)->regs[2])
#define GO_ARG4(r) ((r)->regs[3])
#define GO_G(r) ((r)->regs[28])
#define GO_HEAP 0x4000000000ULL
#define GO_HEAP_END 0x10000000000ULL

#define PROGRAM_AT(r) ((r)->pc)

/* As it was when the thread was last switched out: a program sets it without the kernel's knowledge. */
#define THREAD_POINTER(task) ((task)->thread.uw.tp_value)

/* A program of 32 bits, whose calls have other numbers. */
#define PSR_MODE32 0x10

static __always_inline u64 call_number(struct pt_regs *regs)
{
	return regs->pstate & PSR_MODE32 ? ~0ULL : (u32)regs->syscallno;
}

/* The tracepoint tells it of a program of 32 bits too. */
#define ENTERED_NUMBER(regs, id) call_number(regs)

/* By the number that the call has here: set by the loader. */
const volatile u16 syscall_number[SYSCALLS] = {};

#define RECORDED_NUMBER(number) syscall_number[(number) & (SYSCALLS - 1)]

/* Records begin at multiples of eight: an atomic operation is only allowed where the verifier sees that. */
#define SEEN_ALIGNED(at) ((at) & ~7ULL)

/* The processor keeps no order by itself: an atomic operation that gives the old value orders all before it and behind it. */
#define store_ordered(place, value) ((void)__sync_lock_test_and_set((place), (value)))
#define load_ordered(place) __sync_fetch_and_or((place), 0)

#endif

#endif
