/* Which futexes are locks, and who holds them, as the lock's own memory says when a task goes to sleep on it. */
#ifndef WAKEPATH_LOCKS_H
#define WAKEPATH_LOCKS_H

#define FUTEX_CALL 202
#define FUTEX_COMMANDS (~(128U | 256U))
#define FUTEX_WAIT 0
#define FUTEX_LOCK_PI 6
#define FUTEX_LOCK_PI2 13
#define FUTEX_TID 0x3fffffffU
#define FUTEX_WAITERS 0x80000000U
/* What glibc's mutexes and Go's hold while somebody waits for them. */
#define LOCKED_AND_WAITED_FOR 2
/* Bits that a mutex of glibc has in its kind. */
#define MUTEX_KINDS 0x3ff
#define TID_MAX (1U << 22)

/* How far above the stack's end a word may be to be of the call that waits for it: glibc's own frames, and one of the program's. */
#define OWN_FRAMES 2048

/* A mutex of glibc, as it is in memory. */
struct mutex { u32 lock, count, owner, users, kind; };

/* FUTEX_OWN where the futex that a task waits for is on its own stack. */
static __always_inline u32 own_futex(struct pt_regs *regs)
{
	return CALL_ARG1(regs) - STACK_AT(regs) < OWN_FRAMES ? FUTEX_OWN : 0;
}

/* Who holds the lock that the current task is about to wait for, as the lock itself says, with FUTEX_LOCK. Where the futex is not
 * known to be that of a lock: FUTEX_OWN where it is on the task's own stack, else 0. Nothing is waited for: a page that is not in
 * memory tells nothing. */
static __always_inline u32 lock_slept_for(struct task_struct *task, struct pt_regs *regs)
{
	u32 command = (u32)CALL_ARG2(regs) & FUTEX_COMMANDS, expected = (u32)CALL_ARG3(regs), owner = 0;
	u32 other = own_futex(regs);
	struct mutex m = {};

	if (command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2) {
		bpf_probe_read_user(&owner, sizeof(owner), (void *)CALL_ARG1(regs));
	} else if (command == FUTEX_WAIT && expected & FUTEX_WAITERS) {
		/* robust ones have their holder in the word */
		owner = expected;
	} else if (command == FUTEX_WAIT && expected == LOCKED_AND_WAITED_FOR) {
		bpf_probe_read_user(&m, sizeof(m), (void *)CALL_ARG1(regs));
		if (m.lock != LOCKED_AND_WAITED_FOR || !m.users || m.users >= TID_MAX || m.kind & ~MUTEX_KINDS)
			return other;
		owner = m.owner;
	}
	owner &= FUTEX_TID;
	if (!owner || owner >= TID_MAX)
		return other;
	/* in a namespace of process numbers it is another number than records have */
	return FUTEX_LOCK | (own_number(task) == (u32)task->pid ? owner : 0);
}

#endif
