/* Who is selected. A selection is a rule that holds while the recording runs: besides the processes that the agent
 * names, it takes in those that later execute a program of a name, take or serve a port, or join a cgroup. */
#ifndef WAKEPATH_SELECTION_H
#define WAKEPATH_SELECTION_H

/* Ports of TCP and UDP: who binds to one, or accepts a connection at one, is watched from then on. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SELECTED_PORTS_MAX);
	__type(key, u16);
	__type(value, u8);
} watch_ports SEC(".maps");

/* Paths of cgroups, from the root of their hierarchy: who joins one or one below it is watched from then on. Paths and
 * no ids: a service that starts again gets a new cgroup of the same path. */
struct cgroup_path {
	char text[CGROUP_PATH_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SELECTED_CGROUPS_MAX);
	__type(key, struct cgroup_path);
	__type(value, u8);
} watch_cgroups SEC(".maps");

/* Where a path is cut at its separators: too long for the stack. Its hook runs under one lock for all processors. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cgroup_path);
} cgroup_scratch SEC(".maps");

static __always_inline void fill_task(struct wp_task *r, struct task_struct *task, u64 now)
{
	r->ts_ns = now;
	r->start_ns = field(task, start_time);
	r->cgroup = field(task, cgroups, dfl_cgrp, kn, id);
	r->tgid = field(task, tgid);
	r->tid = field(task, pid);
	r->flags = field(task, flags);
	r->parent_tid = 0;
	r->parent_tgid = 0;
	r->cmdline_bytes = 0;
	bpf_probe_read_kernel(r->comm, sizeof(r->comm), task->comm);
}

/* Tells a step in a task's life that has nothing beside the task, and of its end how that came. */
static __noinline int task_event(struct task_struct *task, u8 what, u32 status)
{
	u64 position;
	struct wp_task *r = reserve(this_cpu(), sizeof(*r), DROP_TASK, &position);

	if (!r)
		return 0;
	fill_task(r, task, bpf_ktime_get_ns());
	r->parent_tgid = status;
	commit(r, position, sizeof(*r), KIND_TASK, what);
	return 0;
}

/* From now on the task's process is watched, with what it makes. Tells the agent, which reads what is known of it. */
static __noinline int select_process(struct task_struct *task)
{
	u32 tgid = task->tgid;
	struct task_state *t = state_of(task);
	u8 yes = 1;

	if (!tgid || tgid == cfg_agent_tgid || bpf_map_lookup_elem(&watch_tgids, &tgid))
		return 0;
	if (bpf_map_update_elem(&watch_tgids, &tgid, &yes, BPF_ANY)) {
		lost(this_cpu(), DROP_TASK_STORAGE);
		return 0;
	}
	if (t)
		t->watched = 1;
	/* its other threads look again */
	__sync_fetch_and_add(&watch_generation, 1);
	task_event(task, TASK_SELECTED, 0);
	return 0;
}

static __noinline int select_by_comm(struct task_struct *task, const char *name)
{
	char comm[16] = {};

	bpf_probe_read_kernel_str(comm, sizeof(comm), name);
	if (bpf_map_lookup_elem(&watch_comms, comm))
		select_process(task);
	return 0;
}

static __noinline int select_by_name(struct task_struct *task)
{
	return select_by_comm(task, task->comm);
}

/* The current process bound the socket behind a descriptor to a port, or accepted it there. */
__noinline int select_by_port(u64 fd)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct file *file = file_at(task, fd);
	struct sock *sk = file ? sock_in(file) : 0;
	u16 family, port;

	/* init holds sockets for services that it starts, and is everybody's forefather */
	if (!sk || task->tgid == 1)
		return 0;
	family = field(sk, __sk_common.skc_family);
	port = field(sk, __sk_common.skc_num);
	if ((family == AF_INET || family == AF_INET6) && bpf_map_lookup_elem(&watch_ports, &port))
		select_process(task);
	return 0;
}

/* A task joined a cgroup. Looks for its path, and for each above it. */
SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(on_cgroup_attach, struct cgroup *cgroup, const char *path, struct task_struct *task)
{
	u32 zero = 0;
	struct cgroup_path *p = bpf_map_lookup_elem(&cgroup_scratch, &zero);
	long length;
	u32 i;

	if (!p)
		return 0;
	__builtin_memset(p, 0, sizeof(*p));
	length = bpf_probe_read_kernel_str(p->text, sizeof(p->text), path);
	if (length <= 1)
		return 0;
	/* one that was cut ends amid a name */
	if (length < CGROUP_PATH_BYTES && bpf_map_lookup_elem(&watch_cgroups, p)) {
		select_process(task);
		return 0;
	}
	for (i = CGROUP_PATH_BYTES - 1; i < CGROUP_PATH_BYTES; i--) {
		char c = p->text[i];

		p->text[i] = 0;
		if (c == '/' && bpf_map_lookup_elem(&watch_cgroups, p)) {
			select_process(task);
			return 0;
		}
	}
	return 0;
}

#endif
