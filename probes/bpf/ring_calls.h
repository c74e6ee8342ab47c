/* Where operations of io_uring have their bytes: no register tells. Each is noted for its socket when it is submitted, which may be long
 * before it is done, and by another thread than does it. */
#ifndef WAKEPATH_RING_CALLS_H
#define WAKEPATH_RING_CALLS_H

/* Operations that move bytes, by their numbers in linux/io_uring.h. */
#define RING_READV 1
#define RING_WRITEV 2
#define RING_SENDMSG 9
#define RING_RECVMSG 10
#define RING_READ 22
#define RING_WRITE 23
#define RING_SEND 26
#define RING_RECV 27
/* Of io_kiocb.flags, as programs give them: its descriptor is one of the ring's own; the kernel chooses its buffer. */
#define RING_FIXED_FILE 1
#define RING_CHOSEN_BUFFER 32
/* Of io_sr_msg.flags: it receives again and again; its bytes may be in several buffers, of which `buf` tells one or none. */
#define RING_MULTISHOT 2
#define RING_SEVERAL_BUFFERS (16 | 32)

/* A direction of a socket. */
struct ring_way {
	u64 file;
	u64 is_send;
};

/* What was submitted for it and is not done yet; 0 = more than one, of which nobody knows which is done first. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct ring_way);
	__type(value, u64);
} ring_requests SEC(".maps");

static __always_inline bool is_sent(u8 opcode)
{
	return opcode == RING_WRITE || opcode == RING_SEND || opcode == RING_SENDMSG || opcode == RING_WRITEV;
}

static __always_inline bool is_received(u8 opcode)
{
	return opcode == RING_READ || opcode == RING_RECV || opcode == RING_RECVMSG || opcode == RING_READV;
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(on_ring_submit, struct io_kiocb *request)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 value = (u64)request;
	struct ring_way way = {};
	u8 opcode = request->opcode;
	struct file *file;

	way.is_send = is_sent(opcode);
	if (!(way.is_send || is_received(opcode)) || request->flags & RING_FIXED_FILE || !watched(task))
		return 0;
	file = file_at(task, request->cqe.fd);
	if (!file || !sock_in(file))
		return 0;
	way.file = (u64)file;
	/* what such a one names itself is not where its bytes go */
	if (request->flags & RING_CHOSEN_BUFFER && (opcode == RING_RECVMSG || opcode == RING_READV))
		value = 0;
	if (bpf_map_lookup_elem(&ring_requests, &way))
		value = 0;
	bpf_map_update_elem(&ring_requests, &way, &value, BPF_ANY);
	return 0;
}

/* What io_uring does on a socket at the moment; 0 = not known. Once for each operation. */
static __always_inline u64 ring_request(struct sock *sk, u8 op)
{
	struct socket *socket = BPF_CORE_READ(sk, sk_socket);
	struct ring_way way = {};
	struct io_kiocb *request;
	u64 *noted, value;
	u8 opcode;

	way.file = (u64)BPF_CORE_READ(socket, file);
	way.is_send = op == OP_SEND;
	noted = bpf_map_lookup_elem(&ring_requests, &way);
	if (!noted)
		return 0;
	value = *noted;
	request = (struct io_kiocb *)value;
	opcode = value ? BPF_CORE_READ(request, opcode) : 0;
	if (opcode != RING_RECV || !(BPF_CORE_READ((struct io_sr_msg *)request, flags) & RING_MULTISHOT))
		bpf_map_delete_elem(&ring_requests, &way);
	/* the kernel may use its memory for another one */
	if (!value || (u64)BPF_CORE_READ(request, file) != way.file || !(way.is_send ? is_sent(opcode) : is_received(opcode)))
		return 0;
	return value;
}

/* Where a request has its bytes: one buffer, or `count` of them. */
__noinline int ring_place(u64 *buffer, u64 *count, u64 of)
{
	struct io_kiocb *request = (struct io_kiocb *)of;
	u8 opcode = BPF_CORE_READ(request, opcode);
	struct user_msghdr m;

	if (!buffer || !count)
		return 0;
	/* its own part begins where the request does */
	if (opcode == RING_SENDMSG || opcode == RING_RECVMSG) {
		if (bpf_probe_read_user(&m, sizeof(m), BPF_CORE_READ((struct io_sr_msg *)request, umsg)))
			return 0;
		*buffer = m.iov;
		*count = m.iovlen;
	} else if (opcode == RING_SEND || opcode == RING_RECV) {
		if (!(BPF_CORE_READ((struct io_sr_msg *)request, flags) & RING_SEVERAL_BUFFERS))
			*buffer = (u64)BPF_CORE_READ((struct io_sr_msg *)request, buf);
	} else {
		*buffer = BPF_CORE_READ((struct io_rw *)request, addr);
		if (opcode == RING_READV || opcode == RING_WRITEV)
			*count = BPF_CORE_READ((struct io_rw *)request, len);
	}
	return 0;
}

#endif
