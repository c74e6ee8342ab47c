/* Page faults of watched tasks (BorderPatrol, section 5.3). The tracepoint tells where and how a fault begins; the kernel's
 * own counters of page faults tell that it is over and whether a page had to be read, as they tell getrusage; in between the
 * page cache names the file. None of it is loaded where nobody asked for page faults. */
#ifndef WAKEPATH_FAULTS_H
#define WAKEPATH_FAULTS_H

/* The fault that a task is in. */
struct fault_state {
	u64 owner; /* the task; another one with the same low bits in its tid may have taken the place */
	u64 began_ns; /* 0 = in none */
	u64 address;
	u64 ip;
	u64 inode;
	u64 offset;
	u32 device;
	u32 generation;
	u8 access;
	u8 pad[7];
};
_Static_assert(sizeof(struct fault_state) == 64, "one cache line");

/* Like task_slots: found with no call. Made by the loader only where page faults are asked for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TASK_SLOTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct fault_state);
} fault_slots SEC(".maps");

static __always_inline struct fault_state *fault_slot(struct task_struct *task)
{
	u32 key = task->pid & (TASK_SLOTS - 1);

	return bpf_map_lookup_elem(&fault_slots, &key);
}

/* The fault that a task is in, 0 where it is in none. */
static __always_inline struct fault_state *fault_of(struct task_struct *task)
{
	struct fault_state *f = fault_slot(task);

	return f && f->owner == (u64)task && f->began_ns ? f : 0;
}

static __always_inline void emit_fault(struct task_struct *task, const struct fault_state *f, u64 now, u8 how)
{
	u64 position;
	struct wp_fault *r = reserve(this_cpu(), sizeof(*r), DROP_FAULT, &position);

	if (!r)
		return;
	r->ts_ns = now;
	r->began_ns = f->began_ns;
	r->address = f->address;
	r->ip = f->ip;
	r->inode = f->inode;
	r->offset = f->offset;
	r->device = f->device;
	r->generation = f->generation;
	r->tgid = task->tgid;
	r->tid = task->pid;
	r->cpu = bpf_get_smp_processor_id();
	r->access = f->access;
	r->pad = 0;
	r->pad2 = 0;
	commit(r, position, sizeof(*r), KIND_FAULT, how);
}

static __always_inline int fault_begins(u64 address, u8 access)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fault_state *f;
	u64 now;

	/* probes that read memory without waiting for any take faults too, and give up: they are none of the program's */
	if ((s64)address < 0 || task->pagefault_disabled || !watched(task))
		return 0;
	f = fault_slot(task);
	if (!f)
		return 0;
	now = bpf_ktime_get_ns();
	/* one of before its time was that of a task that died in it */
	if (f->began_ns > task->start_time && f->owner == (u64)task)
		emit_fault(task, f, now, FAULT_NEITHER);
	f->owner = (u64)task;
	f->began_ns = now;
	f->address = address;
	/* the program's own place: one inside the kernel is nobody's business */
	f->ip = PROGRAM_AT(regs_of(task));
	f->inode = 0;
	f->offset = FAULT_NO_OFFSET;
	f->device = 0;
	f->generation = 0;
	f->access = access & (FAULTA_PRESENT | FAULTA_WRITE | FAULTA_USER | FAULTA_EXEC);
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(on_fault, unsigned long address, void *regs, unsigned long error)
{
	return fault_begins(address, error | FAULTA_USER);
}

/* In a system call that was given memory which is not there. */
SEC("tp_btf/page_fault_kernel")
int BPF_PROG(on_fault_in_call, unsigned long address, void *regs, unsigned long error)
{
	return fault_begins(address, error & ~FAULTA_USER);
}

static __always_inline int fault_ends(struct bpf_perf_event_data *ctx, u8 how)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fault_state *f, unseen = {};

	f = fault_of(task);
	if (f && f->address == ctx->addr) {
		emit_fault(task, f, bpf_ktime_get_ns(), how);
		f->began_ns = 0;
		return 0;
	}
	if (!watched(task))
		return 0;
	/* it began before anybody watched, or another task took its place in the table */
	unseen.began_ns = bpf_ktime_get_ns();
	unseen.address = ctx->addr;
	unseen.ip = PROGRAM_AT(regs_of(task));
	unseen.offset = FAULT_NO_OFFSET;
	unseen.access = FAULTA_UNSEEN;
	emit_fault(task, &unseen, unseen.began_ns, how);
	return 0;
}

/* PERF_COUNT_SW_PAGE_FAULTS_MIN and _MAJ, each time one is counted. */
SEC("perf_event")
int on_minor(struct bpf_perf_event_data *ctx)
{
	return fault_ends(ctx, FAULT_MINOR);
}

SEC("perf_event")
int on_major(struct bpf_perf_event_data *ctx)
{
	return fault_ends(ctx, FAULT_MAJOR);
}

struct file_key {
	u64 inode;
	u32 device;
	u32 generation;
};

/* Files whose name was told. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct file_key);
	__type(value, u8);
} told_files SEC(".maps");

/* Tells what a file is called, once, where it has no other name: who mapped it may be gone before anybody looks it up. A name
 * that finds no room counts as a fault that found none. */
static __noinline int tell_name(struct inode *inode, struct file_key *key)
{
	struct wp_fault_file *r;
	struct hlist_node *alias;
	struct dentry *dentry;
	u64 position;
	u8 yes = 1;

	if (bpf_map_lookup_elem(&told_files, key) || !bpf_core_field_exists(struct dentry, d_u.d_alias) ||
	    BPF_CORE_READ(inode, i_nlink) != 1)
		return 0;
	alias = BPF_CORE_READ(inode, i_dentry.first);
	r = alias ? reserve(this_cpu(), sizeof(*r), DROP_FAULT, &position) : 0;
	if (!r)
		return 0;
	dentry = (void *)alias - bpf_core_field_offset(struct dentry, d_u.d_alias);
	r->ts_ns = bpf_ktime_get_ns();
	r->inode = key->inode;
	r->device = key->device;
	r->generation = key->generation;
	if (bpf_probe_read_kernel_str(r->name, FILE_NAME_BYTES, BPF_CORE_READ(dentry, d_name.name)) < 0)
		r->name[0] = 0;
	commit(r, position, sizeof(*r), KIND_FAULT_FILE, 0);
	bpf_map_update_elem(&told_files, key, &yes, BPF_ANY);
	return 0;
}

static __always_inline void fault_in_file(struct fault_state *f, struct address_space *mapping, u64 offset)
{
	struct inode *inode = field(mapping, host);
	struct file_key key = {};

	key.inode = f->inode = field(inode, i_ino);
	key.device = f->device = field(inode, i_sb, s_dev);
	key.generation = f->generation = field(inode, i_generation);
	f->offset = offset;
	tell_name(inode, &key);
}

/* The very page of a file, where it was not near one that is mapped (Linux 6.12). */
SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(on_file_fault, struct address_space *mapping, unsigned long index)
{
	struct fault_state *f = fault_of(bpf_get_current_task_btf());

	if (f)
		fault_in_file(f, mapping, index << 12);
	return 0;
}

/* Pages of a file that were in memory, around the one that was wanted: the file is told, and not which of them. */
SEC("tp_btf/mm_filemap_map_pages")
int BPF_PROG(on_file_pages, struct address_space *mapping)
{
	struct fault_state *f = fault_of(bpf_get_current_task_btf());

	if (f && !f->inode)
		fault_in_file(f, mapping, FAULT_NO_OFFSET);
	return 0;
}

/* Before those: at least what a fault reads. Its own file comes first, what tells where that is on the disk after it. */
SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(on_file_read, struct folio *folio)
{
	struct fault_state *f = fault_of(bpf_get_current_task_btf());

	if (f && !f->inode)
		fault_in_file(f, field(folio, mapping), FAULT_NO_OFFSET);
	return 0;
}

#endif
