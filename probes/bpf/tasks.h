/* Tasks' lives, and the snapshot of what was there before. */
#ifndef WAKEPATH_TASKS_H
#define WAKEPATH_TASKS_H

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct cpu_state *c = this_cpu();
	struct task_state *p, *t;
	u64 position;
	struct wp_task *r;

	/* a parent that did nothing yet but to be selected must be asked now */
	p = current_state(parent);
	/* of a task that was at this address before, if its end was missed */
	leave_slot(slot_of(child->pid), child);
	t = make_state(child);
	if (t && p && parent->tgid != cfg_agent_tgid) {
		/* descendants are watched with their parents */
		t->watched = is_watched(p, parent);
		t->generation = p->generation;
	} else if (!t) {
		u32 tgid = child->tgid;
		u8 yes = 1;

		/* memory was short for a moment. Its first operation makes the state again and finds there that it is watched:
		 * only what it waits for until then is lost */
		lost(c, cfg_watch_all || (p && is_watched(p, parent)) ? DROP_WAIT : DROP_OTHERS);
		if (!cfg_watch_all && p && is_watched(p, parent) && parent->tgid != cfg_agent_tgid &&
		    bpf_map_update_elem(&watch_tgids, &tgid, &yes, BPF_ANY))
			lost(c, DROP_TASK_STORAGE);
	}
	/* made into another cgroup (clone3): no other hook tells of it */
	if (cfg_watch_cgroups && child->pid == child->tgid && child->cgroups != parent->cgroups)
		task_event(child, TASK_PLACED, 0);
	/* neighbours that fork in storms are named where they meet somebody selected */
	if (!cfg_watch_all && (!p || !is_watched(p, parent)))
		return 0;
	r = reserve(c, sizeof(*r), DROP_TASK, &position);
	if (!r)
		return 0;
	fill_task(r, child, bpf_ktime_get_ns());
	r->parent_tid = parent->pid;
	r->parent_tgid = parent->tgid;
	commit(r, position, sizeof(*r), KIND_TASK, TASK_FORK);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid)
{
	struct cpu_state *c = this_cpu();
	u64 position, start, len;
	struct task_state *state;
	struct wp_task *r;

	/* the leader's tid is another slot than that of the thread which took it over */
	if (old_pid != task->pid) {
		struct task_state *old = slot_of(old_pid), *t;

		if (old && old->owner == (u64)task) {
			t = make_state(task);
			if (t) {
				t->watched = old->watched;
				t->generation = old->generation;
				t->told = old->told;
			} else {
				lost(c, DROP_TASK_STORAGE);
			}
			leave_slot(old, task);
		}
	}
	if (cfg_watch_comms)
		select_by_name(task);
	if (cfg_marks && watched(task))
		on_mapped(task);
	state = state_of(task);
	if (!cfg_watch_all && (!state || !is_watched(state, task))) {
		forget_name(state);
		return 0;
	}
	r = reserve(c, sizeof(*r) + CMDLINE_MAX, DROP_TASK, &position);
	if (!r)
		return 0;
	fill_task(r, task, bpf_ktime_get_ns());
	r->parent_tid = old_pid;
	/* of others the name says enough, and their words are none of ours */
	start = field(task, mm, arg_start);
	len = watched(task) ? field(task, mm, arg_end) - start : 0;
	if (len > CMDLINE_MAX)
		len = CMDLINE_MAX;
	asm volatile("" : "+r"(len));
	if (len && len <= CMDLINE_MAX && !bpf_probe_read_user(r + 1, len, (void *)start))
		r->cmdline_bytes = len;
	commit(r, position, sizeof(*r) + CMDLINE_MAX, KIND_TASK, TASK_EXEC);
	return 0;
}

/* How a task that ends does: as wait(2) has it, and whether the kernel killed it to free its memory. */
static __always_inline u32 status_of(struct task_struct *task)
{
	u32 status = field(task, exit_code) & 0xffff;

	return field(task, signal, oom_mm) ? status | TASK_OUT_OF_MEMORY : status;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	u32 tgid = task->tgid;
	bool is_told = is_life_told(task, state_of(task));

	/* its number may be a stranger's soon */
	if (!cfg_watch_all && task->pid == task->tgid)
		bpf_map_delete_elem(&watch_tgids, &tgid);
	/* else its last switch does */
	if (!cfg_waits)
		leave_slot(slot_of(task->pid), task);
	if (is_told)
		task_event(task, TASK_EXIT, status_of(task));
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *name)
{
	struct task_state *t;
	struct wp_task *r;
	u64 position;

	if (cfg_watch_comms && task->pid == task->tgid)
		select_by_comm(task, name);
	t = state_of(task);
	if (!cfg_watch_all && (!t || !is_watched(t, task))) {
		forget_name(t);
		return 0;
	}
	r = reserve(this_cpu(), sizeof(*r), DROP_TASK, &position);
	if (!r)
		return 0;
	fill_task(r, task, bpf_ktime_get_ns());
	/* the task does not have it yet */
	bpf_probe_read_kernel_str(r->comm, sizeof(r->comm), name);
	commit(r, position, sizeof(*r), KIND_TASK, TASK_NAME);
	return 0;
}

/* Who spoke last on a connection on which both ends did and all was acknowledged: moments in ticks do not tell it where
 * both fall into one. The last segment that came to acknowledge, or with data, began at byte snd_wl1 of the other end.
 * After all its data it is an acknowledgement alone, unless it answers a probe that keeps the connection alive (after a
 * second at least, by which an acknowledgement is not delayed). */
static __always_inline u8 last_word(struct tcp_sock *tp, u32 received_end)
{
	u32 later = field(tp, rcv_tstamp) - field(tp, inet_conn.icsk_ack.lrcvtime);

	if ((s32)(field(tp, snd_wl1) - received_end) < 0)
		return FDM_LAST_IN;
	return (u64)later * cfg_tick_ns < 1000000000 ? FDM_LAST_OUT : 0;
}

/* How a descriptor's socket stands. */
static __always_inline void fill_queues(struct wp_fd *d, struct sock *sk, u64 now)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	/* read once: moments of one tick stay equal */
	u32 tick = (u32)bpf_jiffies64();
	/* the end of the stream counts as a byte */
	u32 ended = field(sk, sk_shutdown) & RCV_SHUTDOWN;
	u64 sent;

	d->state = field(sk, __sk_common.skc_state);
	if (field(sk, __sk_common.skc_family) == AF_UNIX) {
		d->unread = field(sk, sk_receive_queue.qlen);
		return;
	}
	if (field(sk, sk_protocol) != IPPROTO_TCP || d->state == TCP_LISTEN)
		return;
	d->received_ns = now - (u64)(tick - field(tp, inet_conn.icsk_ack.lrcvtime)) * cfg_tick_ns;
	d->sent_ns = now - (u64)(tick - field(tp, lsndtime)) * cfg_tick_ns;
	d->unread = field(tp, rcv_nxt) - field(tp, copied_seq);
	d->unacked = field(tp, write_seq) - field(tp, snd_una);
	d->window = field(tp, snd_wnd);
	/* before Linux 4.19: of what was acknowledged the SYN may be a byte */
	sent = bpf_core_field_exists(tp->bytes_sent) ? field(tp, bytes_sent) : field(tp, bytes_acked) > 1;
	if (sent || (d->state != TCP_SYN_SENT && d->unacked))
		d->marks |= FDM_SENT;
	if (field(tp, bytes_received) > ended)
		d->marks |= FDM_RECEIVED;
	if (d->marks & FDM_SENT && d->marks & FDM_RECEIVED && !d->unacked)
		d->marks |= last_word(tp, field(tp, rcv_nxt) - ended);
}

/* A pipe behind a descriptor, and how full it is. */
static __always_inline void snapshot_pipe(struct seq_file *seq, struct wp_fd *d, struct file *file)
{
	struct pipe_inode_info *pipe = field(file, private_data);

	d->head.sub = FD_PIPE;
	d->flow = FLOW_PIPE_BIT | field(file, f_inode, i_ino);
	d->unread = field(pipe, head) - field(pipe, tail);
	d->window = field(pipe, max_usage);
	bpf_seq_write(seq, d, sizeof(*d));
}

/* The flow of a socket, and what that has room for. */
static __always_inline void snapshot_flow(struct seq_file *seq, struct sock *sk, u64 id, u32 tgid)
{
	struct {
		struct wp_flow flow;
		u8 name[UNIX_NAME_BYTES];
	} r = {};
	struct flow_state at = { .id = id };
	struct wp_sizes sizes = {};

	r.flow.head.bytes = sizeof(r.flow);
	r.flow.head.kind = KIND_FLOW;
	r.flow.head.sub = FLOW_SNAPSHOT;
	fill_flow(&r.flow, sk, &at);
	r.flow.peer_flow = peer_of(sk);
	r.flow.ts_ns = bpf_ktime_get_ns();
	r.flow.tgid = tgid;
	if (r.flow.family == AF_UNIX) {
		r.flow.head.bytes = sizeof(r);
		fill_name(&r.flow, r.name, sk);
		bpf_seq_write(seq, &r, sizeof(r));
	} else {
		bpf_seq_write(seq, &r.flow, sizeof(r.flow));
	}
	if (r.flow.state == TCP_LISTEN || (r.flow.state == TCP_ESTABLISHED && r.flow.protocol == IPPROTO_TCP)) {
		sizes.head.bytes = sizeof(sizes);
		sizes.head.kind = KIND_SIZES;
		fill_sizes(&sizes, sk, id, r.flow.ts_ns);
		bpf_seq_write(seq, &sizes, sizeof(sizes));
	}
}

/* Every socket of every process, as it stands: read after attaching, and at the end. */
SEC("iter/task_file")
int snapshot_files(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct wp_fd d = {};
	struct flow_state *f;
	struct task_state *t;
	struct socket *s;
	struct sock *sk;
	u16 mode;

	if (!task || !file || task->tgid != task->pid)
		return 0;
	learn_regs(task);
	mode = field(file, f_inode, i_mode) & S_IFMT;
	d.head.bytes = sizeof(d);
	d.head.kind = KIND_FD;
	d.tgid = task->tgid;
	d.fd = ctx->fd;
	d.ts_ns = bpf_ktime_get_ns();
	d.look = ctx->meta->session_id;
	t = state_of(task);
	if (cfg_watch_all ? task->tgid != cfg_agent_tgid : t && is_watched(t, task))
		d.marks = FDM_WATCHED;
	if (mode == S_IFIFO) {
		snapshot_pipe(ctx->meta->seq, &d, file);
		return 0;
	}
	if (mode != S_IFSOCK)
		return 0;
	s = bpf_sock_from_file(file);
	if (!s || !s->sk)
		return 0;
	sk = s->sk;
	/* never connected: it is announced when it is, with the numbers that it has then */
	if (field(sk, sk_protocol) == IPPROTO_TCP && field(sk, __sk_common.skc_state) == TCP_CLOSE &&
	    !field(sk, __sk_common.skc_dport))
		return 0;
	/* read what moves before the time is taken: records of the rings that are older than this are no news */
	if (cfg_sock_hooks) {
		d.flow = bpf_get_socket_cookie(sk);
		if (d.marks & FDM_WATCHED)
			await_arrival(sk);
	} else {
		/* names it as the programs will, and leaves them a state to find */
		f = flow_at(sk);
		if (!f)
			return 0;
		f->announced = 1;
		d.flow = f->id;
	}
	snapshot_flow(ctx->meta->seq, sk, d.flow, task->tgid);
	d.head.sub = FD_SOCKET;
	fill_queues(&d, sk, d.ts_ns);
	bpf_seq_write(ctx->meta->seq, &d, sizeof(d));
	return 0;
}

#endif
