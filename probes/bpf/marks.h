/* Annotations: what programs say of themselves at their own probes (annotations/c/wakepath.h). The only programs here
 * that are no tracepoint's: they are attached where a watched program has such a probe, and nowhere else. */
#ifndef WAKEPATH_MARKS_H
#define WAKEPATH_MARKS_H

/* A name of the program's into its half of the record's tail; its length. What does not fit is cut and says so. */
static __always_inline u8 mark_name(void *room, u64 at, u16 *flags)
{
	long n = bpf_probe_read_user_str(room, MARK_NAME_BYTES, (void *)at);

	if (n < 0) {
		*flags |= MARKF_UNREAD;
		return 0;
	}
	/* with the zero byte that ends it */
	if (n >= MARK_NAME_BYTES)
		*flags |= MARKF_CUT;
	return n > 0 ? n - 1 : 0;
}

/* Arguments are in the registers of a call, whatever the compiler did: machine, its key, name, its key, count, kind. */
static __always_inline int marked(struct pt_regs *regs)
{
	struct cpu_state *c = this_cpu();
	u64 position, id = bpf_get_current_pid_tgid();
	u64 machine = ARG1(regs), key = ARG2(regs), name = ARG3(regs), name_key = ARG4(regs), count = ARG5(regs);
	u8 kind = ARG6(regs);
	struct wp_mark *r;
	u16 flags = 0;

	if (kind < MARK_STATE || kind > MARK_END || !watched(bpf_get_current_task_btf()))
		return 0;
	r = reserve(c, sizeof(*r) + 2 * MARK_NAME_BYTES, DROP_MARK, &position);
	if (!r)
		return 0;
	r->ts_ns = bpf_ktime_get_ns();
	r->key = key;
	r->name_key = name_key;
	r->count = count;
	r->tgid = id >> 32;
	r->tid = id;
	r->machine_bytes = mark_name(r + 1, machine, &flags);
	r->name_bytes = mark_name((void *)(r + 1) + MARK_NAME_BYTES, name, &flags);
	r->flags = flags;
	r->pad = 0;
	commit(r, position, sizeof(*r) + 2 * MARK_NAME_BYTES, KIND_MARK, kind);
	return 0;
}

SEC("uprobe")
int on_mark(struct pt_regs *regs)
{
	return marked(regs);
}

/* The same where one link holds many probes (Linux 6.6): it asks for fewer rights. */
SEC("uprobe.multi")
int on_mark_multi(struct pt_regs *regs)
{
	return marked(regs);
}

/* Code was mapped: there may be probes in it that nobody has attached to yet. */
static __always_inline void on_mapped(struct task_struct *task)
{
	struct cpu_state *c = this_cpu();
	u64 position;
	struct wp_mapped *r = reserve(c, sizeof(*r), DROP_MARK, &position);

	if (!r)
		return;
	r->ts_ns = bpf_ktime_get_ns();
	r->tgid = task->tgid;
	r->tid = task->pid;
	commit(r, position, sizeof(*r), KIND_MAPPED, 0);
}

#endif
