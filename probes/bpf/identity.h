/* What all runtimes have in common of whose work a thread does: which processes are read, and how their memory is. */
#ifndef WAKEPATH_IDENTITY_H
#define WAKEPATH_IDENTITY_H

#define RUNTIME_PROCESSES 4096

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RUNTIME_PROCESSES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct wp_runtime);
} runtimes SEC(".maps");

/* Something of a process's. */
struct owned_key {
	u32 tgid;
	u32 pad;
	u64 of;
};

#define MAKERS_MAX (sizeof(((struct wp_makers *)0)->line) / sizeof(u64))

/* How many processes are in `runtimes`: where there is none, nobody looks. Beside watch_generation, which the agent writes too. */
u32 runtime_processes SEC(".data") = 0;

static __always_inline u64 user_word(u64 at)
{
	u64 word = 0;

	/* what cannot be read is zero */
	bpf_probe_read_user(&word, sizeof(word), (void *)at);
	return word;
}

/* The thread-local words of a library of the thread's process, 0 where the thread never used them. glibc: behind the thread pointer's own
 * word, the address of a pair of words for each library; all ones there where it has none yet. */
static __always_inline u64 library_words(struct task_struct *task, struct wp_runtime *r)
{
	u64 words = user_word(user_word(THREAD_POINTER(task) + 8) + 16 * (u64)r->module);

	return words == ~0ULL ? 0 : words;
}

/* The thread's number as its own process sees it. */
static __always_inline u32 own_number(struct task_struct *task)
{
	struct upid number = {};
	u64 pid = 0;
	u32 level = 0;

	/* as a number: older verifiers (6.1) add none to a pointer */
	bpf_probe_read_kernel(&pid, sizeof(pid), &task->thread_pid);
	bpf_probe_read_kernel(&level, sizeof(level), (void *)(pid + bpf_core_field_offset(struct pid, level)));
	if (level > 32)
		return 0;
	pid += bpf_core_field_offset(struct pid, numbers) + level * bpf_core_type_size(struct upid);
	bpf_probe_read_kernel(&number, sizeof(number), (void *)pid);
	return number.nr;
}

/* Few of the numbers that a runtime keeps of its threads may be another thread's (it writes its own a moment after it began): where
 * more are, it is not the layout that the agent took it for, and no more is read of the process. */
static __always_inline bool is_refuted(struct wp_runtime *r)
{
	return r->refuted > 16 && r->refuted > r->verified >> 6;
}

/* What made a logical task, before it is named for the first time. `born`: when each of `makers` was made. */
static __always_inline bool tell_makers(u32 tgid, u8 runtime, const u64 *makers, const u64 *born, u64 now)
{
	u64 position;
	struct wp_makers *r = reserve(this_cpu(), sizeof(*r), DROP_TASK, &position);

	if (!r)
		return false;
	r->ts_ns = now;
	r->tgid = tgid;
	r->pad = 0;
	__builtin_memcpy(r->line, makers, sizeof(r->line));
	__builtin_memcpy(r->born_ns, born, sizeof(r->born_ns));
	commit(r, position, sizeof(*r), KIND_MAKERS, runtime);
	return true;
}

/* A probe's program, and the same where one link holds many probes (Linux 6.6): they ask for fewer rights. */
#define RUNTIME_PROBE(name, does) PROBE_PAIR("uprobe", name, does)
#define RUNTIME_RETURN_PROBE(name, does) PROBE_PAIR("uretprobe", name, does)
#define PROBE_PAIR(kind, name, does) \
	SEC(kind) \
	int name(struct pt_regs *regs) \
	{ \
		return does; \
	} \
	SEC(kind ".multi") \
	int name##_multi(struct pt_regs *regs) \
	{ \
		return does; \
	}

#endif
