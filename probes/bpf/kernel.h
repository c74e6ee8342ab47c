/* The few kernel types that the programs read. CO-RE relocates every field against the running kernel's BTF,
 * so only names matter here, not order or size. */
#ifndef WAKEPATH_KERNEL_H
#define WAKEPATH_KERNEL_H

#include "types.h"

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_STACK_TRACE 7
#define BPF_MAP_TYPE_LRU_HASH 9
#define BPF_MAP_TYPE_SK_STORAGE 24
#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_F_NO_PREALLOC 1
#define BPF_F_USER_STACK 256
#define BPF_F_MMAPABLE 1024
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define BPF_SK_STORAGE_GET_F_CREATE 1
#define BPF_ANY 0

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3
#define TCP_TIME_WAIT 6
#define TCP_CLOSE 7
#define TCP_CLOSE_WAIT 8
#define TCP_LISTEN 10
#define TCP_NEW_SYN_RECV 12
#define S_IFMT 0170000
#define S_IFSOCK 0140000
#define S_IFIFO 0010000
/* Place in chrono_stat of the time for which the receiver's window kept bytes back. */
#define TCP_WINDOW_LIMITED 1
#define PF_KTHREAD 0x00200000
#define PF_IO_WORKER 0x00000010
#define TASK_DEAD 0x80
#define TASK_STOPPED 4
#define TASK_TRACED 8
#define TASK_INTERRUPTIBLE 1
/* Since Linux 6.1, of a task in the freezer of version 1 of cgroups; here also of one in that of version 2. */
#define TASK_FROZEN 0x8000
#define JOBCTL_TRAP_FREEZE (1UL << 23)
#define SIGSTOP 19
#define SIGTTOU 22
/* Priorities below are those of the real-time classes. */
#define MAX_RT_PRIO 100
#define PROT_EXEC 4
#define MSG_OOB 1
#define MSG_PEEK 2
#define MSG_ERRQUEUE 0x2000
#define EINTR 4
#define ENFILE 23
#define EMFILE 24
#define EAGAIN 11
#define ENOSYS 38
/* Never seen by programs: the call is restarted, or returns EINTR. */
#define ERESTARTSYS 512
#define RCV_SHUTDOWN 1
#define SOCK_DONE 1
#define SOFTIRQ_TIMER 1
#define SOFTIRQ_NET_TX 2
#define SOFTIRQ_NET_RX 3
#define SOFTIRQ_BLOCK 4
#define SOFTIRQ_HRTIMER 8

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct { s64 counter; } atomic64_t;

struct ns_common { unsigned int inum; };
struct net { struct ns_common ns; };
typedef struct { struct net *net; } possible_net_t;
struct in6_addr { union { __u8 u6_addr8[16]; } in6_u; };

struct sock_common {
	union { struct { __be32 skc_daddr; __be32 skc_rcv_saddr; }; };
	union { struct { __be16 skc_dport; __u16 skc_num; }; };
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
	unsigned long skc_flags;
};
struct socket;
struct sk_buff_head { u32 qlen; };
struct sock {
	struct sock_common __sk_common;

	u8 sk_shutdown;
	u16 sk_type;
	u16 sk_protocol;
	u32 sk_ack_backlog;
	u32 sk_max_ack_backlog;
	int sk_rcvbuf;
	int sk_sndbuf;
	struct sk_buff_head sk_receive_queue;
	struct socket *sk_socket;
};
struct list_head { struct list_head *next, *prev; };
struct sk_buff { unsigned int len; unsigned char *data; char cb[48]; u64 skb_mstamp_ns; struct list_head tcp_tsorted_anchor; };
/* What TCP keeps in a packet's `cb`. */
struct tcp_skb_cb { u32 seq; u32 end_seq; };
struct inet_connection_sock { const void *icsk_ulp_ops; struct { u32 lrcvtime; } icsk_ack; };
struct minmax_sample { u32 t; u32 v; };
struct minmax { struct minmax_sample s[3]; };
/* Of what was acknowledged, that which was sent last. `mstamp` in microseconds. */
struct tcp_rack { u64 mstamp; u32 end_seq; };
struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 copied_seq;
	u32 write_seq;
	u32 rcv_nxt;
	u32 snd_nxt;
	u32 snd_una;
	u32 snd_wl1;
	u32 snd_wnd;
	u32 mss_cache;
	u32 packets_out;
	u8 nonagle : 4;
	u32 rcv_tstamp;
	u32 lsndtime;
	u32 chrono_stat[3];
	struct tcp_rack rack;
	struct list_head tsorted_sent_queue;
	struct minmax rtt_min;
	u64 bytes_sent;
	u64 tcp_clock_cache;
	u64 bytes_received;
	u64 bytes_acked;
};
struct sockaddr_un { u16 sun_family; char sun_path[108]; };
struct unix_address { int len; struct sockaddr_un name[0]; };
struct unix_sock { struct sock sk; struct unix_address *addr; struct sock *peer; };

struct super_block { u32 s_dev; };
struct hlist_node { struct hlist_node *next; };
struct hlist_head { struct hlist_node *first; };
struct qstr { const unsigned char *name; };
struct dentry { struct dentry *d_parent; struct qstr d_name; union { struct hlist_node d_alias; } d_u; };
struct path { struct dentry *dentry; };
struct inode {
	u16 i_mode;
	unsigned long i_ino;
	unsigned int i_nlink;
	u32 i_generation;
	struct super_block *i_sb;
	struct hlist_head i_dentry;
};
struct address_space { struct inode *host; };
struct folio { struct address_space *mapping; };
struct file { void *private_data; struct inode *f_inode; unsigned int f_flags; struct path f_path; };
struct socket { short type; struct file *file; struct sock *sk; };
struct socket_alloc { struct socket socket; struct inode vfs_inode; };
struct fdtable { unsigned int max_fds; struct file **fd; };
struct files_struct { struct fdtable *fdt; };

struct mm_struct { unsigned long arg_start, arg_end, start_stack; };
struct kernfs_node { u64 id; };
struct cgroup { struct kernfs_node *kn; };
struct css_set { struct cgroup *dfl_cgrp; };
/* Of a group of tasks on one processor; counts the levels of the group that have used up their quota. */
struct cfs_rq { int throttle_count; };
struct sched_entity { u64 sum_exec_runtime, prev_sum_exec_runtime; struct cfs_rq *cfs_rq; };
struct pipe_inode_info { unsigned int head; unsigned int tail; unsigned int max_usage; };
struct sched_info { u64 last_arrival; };
#if defined(__TARGET_ARCH_x86)
struct thread_struct { unsigned long fsbase; };
struct pt_regs {
	unsigned long r14, r10, r9, r8, ax, bx, cx, dx, si, di, orig_ax, ip, sp;
};
#elif defined(__TARGET_ARCH_arm64)
struct thread_struct { struct { unsigned long tp_value; } uw; };
struct pt_regs {
	unsigned long regs[31], sp, pc, pstate, orig_x0;
	int syscallno;
};
#else
#error "which registers hold what is known of x86-64 and aarch64 alone"
#endif
struct upid { int nr; };
struct pid { unsigned int level; struct upid numbers[1]; };
struct signal_struct {
	struct mm_struct *oom_mm;
};
struct task_struct {
	struct thread_struct thread;
	struct pid *thread_pid;
	unsigned int __state;
	unsigned int flags;
	int on_cpu;
	int on_rq;
	int prio;
	struct sched_entity se;
	struct sched_info sched_info;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	u64 start_time;
	int exit_code;
	int exit_state;
	int pagefault_disabled;
	void *stack;
	char comm[16];
	struct mm_struct *mm;
	struct files_struct *files;
	struct css_set *cgroups;
	struct signal_struct *signal;
	unsigned long jobctl;
	void *io_uring;
};
/* Before Linux 5.14. */
struct task_struct___old { long state; };
struct linux_binprm { int argc; };

struct io_cqe { int fd; };
struct io_kiocb { struct file *file; u8 opcode; u64 flags; struct io_cqe cqe; };
struct io_sr_msg { union { void *umsg; void *buf; }; u16 flags; };
struct io_rw { u64 addr; u32 len; };

struct gendisk { int major; int first_minor; };
struct request_queue { struct gendisk *disk; };
struct request { struct request_queue *q; u64 __sector; };

struct bpf_iter_meta { struct seq_file *seq; u64 session_id; u64 seq_num; };
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};
struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	u32 fd;
	struct file *file;
};

#pragma clang attribute pop

/* What a program on a counter of the kernel is given: not relocated, since the kernel has it so for all programs. */
#if defined(__TARGET_ARCH_x86)
struct bpf_perf_event_data { u64 regs[21]; u64 sample_period; u64 addr; };
#else
struct bpf_perf_event_data { u64 regs[34]; u64 sample_period; u64 addr; };
#endif

#endif
