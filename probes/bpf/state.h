/* Configuration (read-only after load), per-processor state, maps, and the output ring. */
#ifndef WAKEPATH_STATE_H
#define WAKEPATH_STATE_H

/* Set by the loader before the programs are verified, so that the verifier prunes what is off. */
const volatile u32 cfg_agent_tgid = 0;
const volatile u32 cfg_ring_bytes = 1 << 20;
const volatile u32 cfg_head_bytes = 2048;
const volatile u32 cfg_tag_key = 0;
/* Length of a jiffy. */
const volatile u32 cfg_tick_ns = 4000000;
const volatile u8 cfg_watch_all = 1;
/* Programs are watched by their names (watch_comms) from their exec on. */
const volatile u8 cfg_watch_comms = 0;
/* Processes are watched that take one of watch_ports, or join one of watch_cgroups. */
const volatile u8 cfg_watch_ports = 0;
const volatile u8 cfg_watch_cgroups = 0;
const volatile u8 cfg_waits = 1;
const volatile u8 cfg_stacks = 0;
/* Annotations are listened to: tell where code is mapped. */
const volatile u8 cfg_marks = 1;
/* 1: operations come from sock_send_length/sock_recv_length; 0: from system call exits (kernels before 6.3). */
const volatile u8 cfg_sock_hooks = 1;
/* 1: system calls are seen at tracepoints of their own (calls.h); 0: at sys_enter and sys_exit, which run for every call of the host. */
const volatile u8 cfg_calls = 1;
const volatile u8 syscall_class[SYSCALLS] = {};

struct cpu_state {
	/* ring: positions in bytes since the start; the agent moves tail */
	u64 head;
	u64 tail;
	u64 drops[DROP_KINDS];
	/* what this processor is in the middle of; see cause_now() */
	u64 sk_cookie;
	u64 block;
	u32 sk_seq;
	u32 irq; /* number + 1 */
	u32 softirq; /* vector + 1 */
	u32 timer; /* an hrtimer callback is under way */
	/* the task whose system call has reported itself by a socket hook; sys_exit need not look again */
	u64 reported;
	/* when the packet behind sk_cookie came */
	u64 sk_ns;
	/* in which call of which program sk_cookie was set, where not in an interrupt: see call_site() */
	u64 sk_site;
	/* when a call of the current task first made a socket readable, or woke who reads its pipe; 0 = it did not */
	u64 own_ready_ns;
	u64 own_site; /* in which call */
	/* when it last told whose work it does */
	u64 ran_ns;
	/* where tasks are selected: who has this processor, and since when */
	u64 came_ns;
	u32 on_tid;
	u32 on_tgid;
	/* and waits that were not recorded, since they concern nobody selected; the processor time of those tasks. Of on_switch alone. */
	u64 unrecorded;
	u64 others_ns;
	/* when the poll that returned was to return at the latest, ~0 where it had no limit, 0 where that is not known; for who acts there */
	u64 poll_due;
	u64 pad[2];
};
_Static_assert(sizeof(struct cpu_state) % 64 == 0, "whole cache lines");

struct cpu_state cpus[MAX_CPUS] __attribute__((aligned(64)));
/* Classes of system calls that a program sees begin now, a bit each: set by the agent. */
u32 entered_classes SEC(".data") = 0;
/* Set by the agent at the end: the kernel takes these programs away later. */
u32 calls_stopped SEC(".data") = 0;
/* Set where a watched task used datagrams since the agent looked. */
u32 datagrams_used SEC(".data") = 0;
/* The same of io_uring: its program would cost all who use it some 50 ns a request. */
u32 rings_used SEC(".data") = 0;

/* Bumped by the agent when it changed watch_tgids: tasks look again. */
u32 watch_generation = 1;

struct task_state {
	/* what every switch and most calls need: one cache line */
	u64 owner; /* the task whose state this slot holds; 0 = free, or not a slot */
	u64 entered_ns;
	u64 blocked_ns; /* since when it does not run; RUNS while it does, 0 = not known yet */
	u64 woken_ns;
	u64 object;
	u64 arg0;
	u32 by_tid;
	u32 rcv_seq;
	u16 syscall;
	u16 woken_cpu;
	u16 state;
	u8 cause;
	u8 amid; /* the softirq (vector + 1) and the timer (AMID_TIMER) in which it was switched out */
	/* what each switch needs where tasks are selected: see related.h */
	u64 came_ns; /* when it came onto its processor last; 0 = what it had waited for is not known any more */
	u64 slept_ns; /* when that wait began */
	u64 ready_ns; /* and when its waking came */
	u32 generation;
	u16 cpu; /* the processor that it left last */
	u16 related; /* of a task that is not watched: how many more of its waits are written */
	u8 watched;
	u8 level; /* how many wake-ups lie between it and a watched one */
	u8 told; /* TOLD_... */
	u8 unwritten; /* its waits since the last that was written: 0, 1, or 2 and more */
	u8 throttled; /* it was preempted since a cgroup of it had used up its quota */
	u8 runtime; /* RUNTIME_... that said in whose name it ran when it was switched out, 0 = none did */
	u8 after_call; /* of a task with io_uring, where registers do not tell: its call is over */
	u8 mmsg; /* messages of this sendmmsg or recvmmsg so far */
	s32 stack; /* of the wait that goes on: its number in `stacks`, a negative error, or NO_STACK */
	u32 stopped_by; /* of a thread group's leader: who sent the last signal that stops */
	u64 timeout_ns;
	u8 stop_signal;
	u8 entered_by; /* ENTERED_... */
	u16 entered_in; /* the call that entered_ns is of: its number here. Where calls have tracepoints of their own */
	u32 pad1;
	/* the rest */
	/* a datagram received by this call: its sender's address is in user memory only at the call's exit */
	u64 later_flow;
	u64 later_arrived_ns;
	u32 later_seq;
	u32 pad2;
	u64 logical; /* in whose name it ran: 0 = in nobody's */
	u64 maker; /* what made that, 0 = not known */
	u64 pad3[3];
};
_Static_assert(sizeof(struct task_state) == 192, "three cache lines");

#define RUNS 1

/* How entered_ns came about: seen when the call began; in it, when its task first slept. */
#define ENTERED_SEEN 0
#define ENTERED_SLEPT 1

/* States of tasks, by tid: found with no call and one cache miss, where task storage takes 20 ns and three. A task
 * whose slot another one holds has its state in task storage. Mapped by nobody: the flag aligns it to a page. */
#define TASK_SLOTS 32768

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TASK_SLOTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct task_state);
} task_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_state);
} tasks SEC(".maps");

/* States of TCP sockets, by cookie: no two sockets ever have the same. Found with no call and one cache miss, as task_slots
 * are, and made without an allocation. Other sockets end without telling, and so would never leave a slot: they have their
 * state in socket storage, and so has a TCP socket whose slot another one holds. */
#define FLOW_SLOTS 65536

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FLOW_SLOTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct flow_state);
} flow_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow_state);
} flows SEC(".maps");

/* The same for kernels where a socket is reached through a descriptor, as an untyped pointer. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, struct flow_state);
} flows_by_address SEC(".maps");

/* What the agent has found out of flows (WANTS_), by id: that nobody reads what it says (encrypted, no known protocol), or that
 * its messages overlap. Each looks for itself now and then. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, u8);
} wanted_heads SEC(".maps");

struct pipe_state {
	u32 written;
	u32 read;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct pipe_state);
} pipes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u8);
} watch_tgids SEC(".maps");

/* Names of programs: who executes one is watched from then on. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, char[16]);
	__type(value, u8);
} watch_comms SEC(".maps");

#define NO_STACK (-1)

/* Each stack once. Not made where nobody asked for stacks. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, STACKS);
	__uint(key_size, sizeof(u32));
	__uint(value_size, STACK_FRAMES * sizeof(u64));
} stacks SEC(".maps");

/* One ring a processor, in one map that the agent maps: value = ring + slack, so that no record wraps.
 * Sizes are set by the loader. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, u8[RING_SLACK * 2]);
} rings SEC(".maps");

/* Names the type of an untyped pointer, so that fields are plain loads (Linux 6.2): before, each takes a helper's call,
 * some 25 ns. Either way an address that is none reads as zero. */
extern void *bpf_rdonly_cast(const void *object, u32 btf_id) __ksym __weak;

#define CAN_CAST bpf_ksym_exists(bpf_rdonly_cast)
#define cast(type, p) ((type *)bpf_rdonly_cast((const void *)(p), bpf_core_type_id_kernel(type)))

/* Reads a field through an untyped pointer: a socket may come typed from a tracepoint or untyped from a descriptor. */
#define field(p, ...)                                                             \
	({                                                                        \
		___type((p), ##__VA_ARGS__) __value;                              \
		if (CAN_CAST)                                                     \
			__value = ___arrow(cast(typeof(*(p)), p), ##__VA_ARGS__); \
		else                                                              \
			__value = BPF_CORE_READ(p, ##__VA_ARGS__);                \
		__value;                                                          \
	})

static __always_inline struct cpu_state *this_cpu(void)
{
	return &cpus[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
}

/* A slot of `bytes` (a multiple of 8, at most RING_SLACK) in this processor's ring, or 0 where it is full.
 * Interrupts nest on one processor, and a probe in a program may be preempted here: the reservation is atomic, the commit
 * mark is written last, and the agent stops at the first slot whose mark is not there yet. How long it waits for one whose
 * task does not run: HOLD_NS in crates/capture/src/kernel/rings.rs. No lock, no wake-up. */
static __always_inline void *reserve(struct cpu_state *c, u32 bytes, u32 drop, u64 *position)
{
	u32 cpu = bpf_get_smp_processor_id();
	u64 head = *(volatile u64 *)&c->head;
	void *ring;

	/* nested reservations may overtake this check by a few records: keep their room free. What concerns nobody selected leaves
	 * half of the ring to what does. */
	if (head + bytes + RING_SLACK - *(volatile u64 *)&c->tail > (drop == DROP_OTHERS ? cfg_ring_bytes / 2 : cfg_ring_bytes))
		goto full;
	ring = bpf_map_lookup_elem(&rings, &cpu);
	if (!ring)
		goto full;
	head = __sync_fetch_and_add(&c->head, bytes);
	*position = head;
	return ring + SEEN_ALIGNED(head & (cfg_ring_bytes - 1));
full:
	__sync_fetch_and_add(&c->drops[drop], 1);
	return 0;
}

static __always_inline void commit(void *slot, u64 position, u16 bytes, u8 kind, u8 sub)
{
	struct wp_head *h = slot;

	h->bytes = bytes;
	h->kind = kind;
	h->sub = sub;
	store_ordered(&h->tag, (u32)(position >> 3) ^ cfg_tag_key);
}

static __always_inline void lost(struct cpu_state *c, u32 drop)
{
	__sync_fetch_and_add(&c->drops[drop], 1);
}

/* Leaves the marks of one interrupt or call behind. */
static __always_inline void clear_marks(struct cpu_state *c)
{
	c->sk_cookie = 0;
	c->block = 0;
}

static __always_inline struct task_state *slot_of(u32 tid)
{
	u32 key = tid & (TASK_SLOTS - 1);

	return bpf_map_lookup_elem(&task_slots, &key);
}

/* A task's state, 0 where it has none. */
static __always_inline struct task_state *state_of(struct task_struct *task)
{
	struct task_state *t = slot_of(task->pid);

	if (t && t->owner == (u64)task)
		return t;
	return bpf_task_storage_get(&tasks, task, 0, 0);
}

/* The slot of a task's tid as its state, 0 where another task has it. Allocates nothing. */
static __always_inline struct task_state *claim_slot(struct task_struct *task)
{
	struct task_state *t = slot_of(task->pid);
	u64 owner = t ? __sync_val_compare_and_swap(&t->owner, 0, (u64)task) : 1;

	return !owner || owner == (u64)task ? t : 0;
}

/* Makes a task's state; 0 where memory is short. */
static __always_inline struct task_state *make_state(struct task_struct *task)
{
	struct task_state *t = claim_slot(task);

	return t ? t : bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* Leaves the task's slot, if this state is one, to the next task that needs it. */
static __always_inline void leave_slot(struct task_state *t, struct task_struct *task)
{
	if (!t || t->owner != (u64)task)
		return;
	__builtin_memset(&t->entered_ns, 0, sizeof(*t) - sizeof(t->owner));
	store_ordered(&t->owner, 0);
}

static __noinline bool decide_watched(struct task_state *t, struct task_struct *task)
{
	u32 tgid = task->tgid;
	u8 *w;

	/* before the map, which the agent changes first */
	t->generation = load_ordered(&watch_generation);
	if (tgid == cfg_agent_tgid)
		t->watched = 0;
	else if (!t->watched) {
		w = bpf_map_lookup_elem(&watch_tgids, &tgid);
		t->watched = w != 0;
	}
	return t->watched;
}

/* Whether the operations of a task with this state are recorded: by far the most common answer costs two loads. */
static __always_inline bool is_watched(struct task_state *t, struct task_struct *task)
{
	if (cfg_watch_all)
		return task->tgid != cfg_agent_tgid;
	return t->generation == watch_generation ? t->watched : decide_watched(t, task);
}

/* The current task's state, made where it is not there; 0 where memory is short (counted). */
static __always_inline struct task_state *current_state(struct task_struct *task)
{
	struct task_state *t = state_of(task);

	if (!t) {
		t = make_state(task);
		if (!t)
			lost(this_cpu(), DROP_TASK_STORAGE);
	}
	return t;
}

static __always_inline bool watched(struct task_struct *task)
{
	struct task_state *t;

	if (cfg_watch_all)
		return task->tgid != cfg_agent_tgid;
	t = current_state(task);
	return t && is_watched(t, task);
}

/* From the lower end of a task's kernel stack to the registers that it entered the kernel with: the same for all tasks
 * of a kernel, learned by the first iterator. 0 = not yet. */
u64 regs_offset;

/* The registers that a task entered the kernel with. */
static __always_inline struct pt_regs *regs_of(struct task_struct *task)
{
	u64 at = regs_offset;

	if (!CAN_CAST)
		return (struct pt_regs *)bpf_task_pt_regs(task);
	if (at)
		return cast(struct pt_regs, (u64)task->stack + at);
	return cast(struct pt_regs, bpf_task_pt_regs(task));
}

static __always_inline bool has_io_uring(struct task_struct *task)
{
	return bpf_core_field_exists(task->io_uring) && task->io_uring;
}

#if defined(__TARGET_ARCH_x86)
/* Whether the task is in a call, and not on its way out of one. The entry code leaves -ENOSYS where the result will be. */
static __always_inline bool is_in_call(struct task_struct *task, struct pt_regs *regs)
{
	return (s64)RESULT(regs) == -ENOSYS;
}

/* The first argument of the call in which a task sleeps. */
static __always_inline u64 slept_with(u16 syscall, struct pt_regs *regs)
{
	return CALL_ARG1(regs);
}

static __always_inline void call_begins(void)
{
}

static __always_inline void call_ends(void)
{
}
#else
/* Outside of calls nothing is kept there. */
static __always_inline u64 slept_with(u16 syscall, struct pt_regs *regs)
{
	return syscall == NO_SYSCALL ? 0 : CALL_ARG1(regs);
}

static __always_inline void note_call(u8 is_over)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = has_io_uring(task) ? state_of(task) : 0;

	if (t)
		t->after_call = is_over;
}

static __always_inline void call_begins(void)
{
	note_call(0);
}

static __always_inline void call_ends(void)
{
	note_call(1);
}

/* Whether the task is in a call, and not on its way out of one: the result takes the place of the first argument, to which it may
 * be equal. Only io_uring works for a task on its way out. */
static __always_inline bool is_in_call(struct task_struct *task, struct pt_regs *regs)
{
	struct task_state *t;

	if (RESULT(regs) != CALL_ARG1(regs))
		return false;
	t = has_io_uring(task) ? state_of(task) : 0;
	return !t || !t->after_call;
}
#endif

/* The number of the call that a task is in, as records have it. */
static __always_inline u16 recorded_call(struct pt_regs *regs)
{
	u64 number = call_number(regs);

	return number < SYSCALLS ? RECORDED_NUMBER(number) : NO_SYSCALL;
}

static __always_inline u8 class_of(u64 number)
{
	return number < SYSCALLS ? syscall_class[number & (SYSCALLS - 1)] : SC_NONE;
}

static __always_inline bool is_poll(u8 class)
{
	return class == SC_EPOLL || class == SC_EPOLL2 || class == SC_POLL || class == SC_PPOLL || class == SC_SELECT || class == SC_PSELECT;
}

static __always_inline bool is_send(u8 class)
{
	return class == SC_WRITE || class == SC_WRITEV || class == SC_SENDTO || class == SC_SENDMSG || class == SC_SENDMMSG;
}

/* Tells a call from others of its program: where on which stack it was made. A program that makes the same call again from the same
 * place is not told from itself. 0 of the kernel's own threads. */
static __always_inline u64 call_site(struct task_struct *task)
{
	struct pt_regs *regs;

	if (task->flags & PF_KTHREAD)
		return 0;
	regs = regs_of(task);
	return PROGRAM_AT(regs) ^ (u64)regs->sp << 16 ^ call_number(regs) << 56;
}

/* In the call made there, bytes of the current task are there to read. */
static __always_inline void note_own_ready(struct cpu_state *c, u64 site, u64 now)
{
	if (c->own_ready_ns && c->own_site == site)
		return;
	c->own_ready_ns = now;
	c->own_site = site;
}

/* Something became readable, or its reader was woken, amid a call of the current task: what that sends, if it sends. Or else something
 * older, which is as good a bound. */
static __always_inline void note_own_sending(struct cpu_state *c, u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!(task->flags & PF_KTHREAD) && is_send(class_of(call_number(regs_of(task)))))
		note_own_ready(c, call_site(task), now);
}

/* When the bytes that the current call sent were first there to read; 0 = not known. */
static __always_inline u64 own_ready(struct cpu_state *c, struct task_struct *task)
{
	return c->own_ready_ns && c->own_site == call_site(task) ? c->own_ready_ns : 0;
}

/* What the current interrupt or call wakes next, a socket woke. */
static __always_inline void mark_socket(struct cpu_state *c, u64 flow, u32 seq, u64 now)
{
	c->sk_cookie = flow;
	c->sk_seq = seq;
	c->sk_ns = now;
	if (cfg_waits)
		c->sk_site = c->softirq || c->irq ? 0 : call_site(bpf_get_current_task_btf());
}

/* Whether a socket was marked in the interrupt or call that goes on now. Most calls end without a program to take the mark away. A task
 * that has ended closed its sockets before it wakes its parent, in the same call. */
static __always_inline bool is_marked(struct cpu_state *c)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return c->sk_cookie && (!c->sk_site || (c->sk_site == call_site(task) && !task->exit_state));
}

static __always_inline void learn_regs(struct task_struct *task)
{
	u64 stack = (u64)task->stack;

	if (stack && !regs_offset) {
		/* as a number: older verifiers (6.1) subtract none from a pointer */
		void *regs = (void *)bpf_task_pt_regs(task);
		u64 at = 0;
		bpf_probe_read_kernel(&at, sizeof(at), &regs);
		regs_offset = at ? at - stack : 0;
	}
}

#endif
