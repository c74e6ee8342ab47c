/* The files for which tasks wait in calls that are made for files: locked, flushed, read and written at a place. */
#ifndef WAKEPATH_FILES_H
#define WAKEPATH_FILES_H

/* A wait for a file that lasted at least so long says for which. */
#define FILE_WAIT_NS 1000000

/* Whether the call whose number is recorded so has a file's descriptor first, and no socket's: pread64, pwrite64, fcntl, flock, fsync,
 * fdatasync, ftruncate, sync_file_range, fallocate, preadv, pwritev. */
static __always_inline bool is_file_call(u16 syscall)
{
	switch (syscall) {
	case 17:
	case 18:
	case 72:
	case 73:
	case 74:
	case 75:
	case 77:
	case 277:
	case 285:
	case 295:
	case 296:
		return true;
	}
	return false;
}

/* The low half of the inode of the file for which a task goes to sleep: whether its descriptor is still that file's when it wakes. */
static __always_inline u32 file_slept_for(struct task_struct *task, u64 fd)
{
	struct file *file = file_at(task, (u32)fd);

	return file ? field(file, f_inode, i_ino) : 0;
}

/* The file for which a task had slept until now; 0 where it was for none, not for long, or another has its descriptor since. */
static __noinline struct file *waited_file(struct task_struct *task, struct task_state *t, u64 waited)
{
	struct file *file;

	if (!t->state || waited < FILE_WAIT_NS || !t->rcv_seq || !is_file_call(t->syscall))
		return 0;
	file = file_at(task, (u32)t->arg0);
	return file && (u32)BPF_CORE_READ(file, f_inode, i_ino) == t->rcv_seq ? file : 0;
}

static __noinline int name_file(struct wp_wait_file *r, struct file *file)
{
	struct dentry *dentry = BPF_CORE_READ(file, f_path.dentry);

	if (bpf_probe_read_kernel_str(r->name, sizeof(r->name), BPF_CORE_READ(dentry, d_name.name)) < 0)
		r->name[0] = 0;
	if (bpf_probe_read_kernel_str(r->folder, sizeof(r->folder), BPF_CORE_READ(dentry, d_parent, d_name.name)) < 0)
		r->folder[0] = 0;
	return 0;
}

#endif
