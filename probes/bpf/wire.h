/* Made by `cargo xtask bindings` from crates/wire. Do not edit. */
#ifndef WAKEPATH_WIRE_H
#define WAKEPATH_WIRE_H

#define KIND_OP 0x1ULL
#define KIND_FLOW 0x2ULL
#define KIND_STATE 0x3ULL
#define KIND_WAIT 0x4ULL
#define KIND_POLL 0x5ULL
#define KIND_TASK 0x6ULL
#define KIND_FD 0x7ULL
#define KIND_STACK 0x8ULL
#define KIND_INPUT 0x9ULL
#define KIND_SIZES 0xaULL
#define KIND_MARK 0xbULL
#define KIND_MAPPED 0xcULL
#define KIND_FAULT 0xdULL
#define KIND_FAULT_FILE 0xeULL
#define KIND_RESENT 0xfULL
#define KIND_MAKERS 0x10ULL
#define KIND_ENDED 0x11ULL
#define KIND_HANDOVER 0x12ULL
#define KIND_STREAM 0x13ULL
#define KIND_FOR_OTHERS 0x14ULL
#define KIND_PARK 0x15ULL
#define KIND_RAN 0x16ULL
#define RAN_EVERY_NS 0x1e8480ULL
#define PARK_OTHER 0x0ULL
#define PARK_SELECT 0x1ULL
#define PARK_RECEIVE 0x2ULL
#define PARK_SEND 0x3ULL
#define PARK_SLEEP 0x4ULL
#define PARK_CONDITION 0x5ULL
#define PARK_MUTEX 0x6ULL
#define PARK_READ_LOCK 0x7ULL
#define PARK_WRITE_LOCK 0x8ULL
#define MARKED 0x1ULL
#define MARKED_CHANNELS 0x2ULL
#define MARKED_WAITS 0x4ULL
#define KIND_MORE 0x17ULL
#define KIND_STAY 0x18ULL
#define MORE_LAST 0x40ULL
#define MORE_CLEAR 0x20ULL
#define KIND_CLEAR 0x19ULL
#define CLEAR_RECORD 0x20ULL
#define HANDOVERF_EMPTY 0x1ULL
#define FAULT_MINOR 0x1ULL
#define FAULT_MAJOR 0x2ULL
#define FAULT_NEITHER 0x3ULL
#define FAULTA_PRESENT 0x1ULL
#define FAULTA_WRITE 0x2ULL
#define FAULTA_USER 0x4ULL
#define FAULTA_EXEC 0x10ULL
#define FAULTA_UNSEEN 0x80ULL
#define FAULT_NO_OFFSET 0xffffffffffffffffULL
#define FILE_NAME_BYTES 0x40ULL
#define MARK_STATE 0x1ULL
#define MARK_ENQUEUE 0x2ULL
#define MARK_DEQUEUE 0x3ULL
#define MARK_WAIT_EMPTY 0x4ULL
#define MARK_WAIT_FULL 0x5ULL
#define MARK_BEGIN 0x6ULL
#define MARK_END 0x7ULL
#define MARK_NAME_BYTES 0x40ULL
#define MARKF_CUT 0x1ULL
#define MARKF_UNREAD 0x2ULL
#define OP_SEND 0x1ULL
#define OP_RECV 0x2ULL
#define OP_ACCEPT 0x3ULL
#define OP_CONNECT 0x4ULL
#define OP_CLOSE 0x5ULL
#define OP_SHUTDOWN 0x6ULL
#define SUB_LOGICAL 0x80ULL
#define SUB_GAP 0x40ULL
#define SUB_LAST 0x20ULL
#define SUB_FILE 0x10ULL
#define SUB_GOES_ON 0x40ULL
#define SENT_AT_ONCE 0x10000ULL
#define OPF_ENTRY 0x1ULL
#define OPF_PEER 0x2ULL
#define OPF_HEAD 0x4ULL
#define OPF_TURN 0x8ULL
#define OPF_UNREADABLE 0x10ULL
#define OPF_MORE 0x20ULL
#define OPF_IO_URING 0x40ULL
#define OPF_COUNTED 0x80ULL
#define OPF_ARRIVED 0x100ULL
#define OPF_SHUT_WRITE 0x200ULL
#define OPF_UNNUMBERED 0x400ULL
#define OPF_BORDER 0x800ULL
#define OPF_PLAIN 0x1000ULL
#define OPF_HELD 0xe000ULL
#define OPF_HELD_NAGLE 0x2000ULL
#define OPF_HELD_WINDOW 0x4000ULL
#define OPF_HELD_OTHER 0x6000ULL
#define FLOW_CONNECTED 0x1ULL
#define FLOW_ACCEPTED 0x2ULL
#define FLOW_MET 0x3ULL
#define FLOW_SNAPSHOT 0x4ULL
#define CAUSE_UNKNOWN 0x0ULL
#define CAUSE_TASK 0x1ULL
#define CAUSE_SOCKET 0x2ULL
#define CAUSE_NET 0x3ULL
#define CAUSE_TIMER 0x4ULL
#define CAUSE_BLOCK 0x5ULL
#define CAUSE_IRQ 0x6ULL
#define CAUSE_SOFTIRQ 0x7ULL
#define CAUSE_PREEMPTED 0x8ULL
#define CAUSE_OPEN 0x9ULL
#define CAUSE_STOPPED 0xbULL
#define TASK_FORK 0x1ULL
#define TASK_EXEC 0x2ULL
#define TASK_EXIT 0x3ULL
#define TASK_NAME 0x4ULL
#define TASK_SNAPSHOT 0x5ULL
#define TASK_SELECTED 0x6ULL
#define TASK_PLACED 0x7ULL
#define TASK_OUT_OF_MEMORY 0x10000ULL
#define SELECTED_PORTS_MAX 0x400ULL
#define SELECTED_CGROUPS_MAX 0x40ULL
#define CGROUP_PATH_BYTES 0x100ULL
#define INPUT_READ 0x1ULL
#define INPUT_WRITE 0x2ULL
#define INPUT_OTHER 0x3ULL
#define INPUTF_ISOLATED 0x1ULL
#define INPUT_ELSE 0x4ULL
#define INPUTF_REST 0x2ULL
#define RUNTIME_GO 0x1ULL
#define RUNTIME_PYTHON 0x2ULL
#define RUNTIME_JVM 0x3ULL
#define RUNTIME_NODE 0x4ULL
#define NODE_MAGIC_0 0x9e0d4a3770ec5c1bULL
#define NODE_MAGIC_1 0xd3a86e9551f2b6c8ULL
#define NODE_LAYOUT 0x1ULL
#define JVM_MAGIC_0 0x4be3905ad17c26f8ULL
#define JVM_MAGIC_1 0xa95d0e73c2481fb6ULL
#define JVM_LAYOUT 0x1ULL
#define JVM_THREADS 0x400000ULL
#define JVM_SLOTS_MAX 0x10000ULL
#define JVM_OTHERS 0x10000ULL
#define JVM_SLOT_BYTES 0x100ULL
#define JVM_AGENT_KEYS 0x1000000000000ULL
#define RUNTIME_TOKIO 0x5ULL
#define SC_NONE 0x0ULL
#define SC_WRITE 0x1ULL
#define SC_WRITEV 0x2ULL
#define SC_SENDTO 0x3ULL
#define SC_SENDMSG 0x4ULL
#define SC_SENDMMSG 0x5ULL
#define SC_READ 0x6ULL
#define SC_READV 0x7ULL
#define SC_RECVFROM 0x8ULL
#define SC_RECVMSG 0x9ULL
#define SC_RECVMMSG 0xaULL
#define SC_SENDFILE 0xbULL
#define SC_SPLICE 0xcULL
#define SC_ACCEPT 0xdULL
#define SC_CONNECT 0xeULL
#define SC_CLOSE 0xfULL
#define SC_SHUTDOWN 0x10ULL
#define SC_EPOLL 0x11ULL
#define SC_POLL 0x12ULL
#define SC_SELECT 0x13ULL
#define SC_IO_URING 0x14ULL
#define SC_PSELECT 0x15ULL
#define SC_PPOLL 0x16ULL
#define SC_EPOLL2 0x17ULL
#define SC_MMAP 0x18ULL
#define SC_BIND 0x19ULL
#define DROP_OP 0x0ULL
#define DROP_FLOW 0x1ULL
#define DROP_WAIT 0x2ULL
#define DROP_POLL 0x3ULL
#define DROP_TASK 0x4ULL
#define DROP_TASK_STORAGE 0x5ULL
#define DROP_SOCK_STORAGE 0x6ULL
#define DROP_HEAD_FAULT 0x7ULL
#define DROP_MARK 0x8ULL
#define DROP_SWITCH 0x9ULL
#define DROP_WAIT_END 0xaULL
#define DROP_FAULT 0xbULL
#define DROP_OTHERS 0xcULL
#define DROP_KINDS 0xdULL
#define STAYS 0x100ULL
#define RELATED_WAITS 0x100ULL
#define RELATED_LEVELS 0x4ULL
#define MAX_CPUS 0x200ULL
#define HEAD_MAX 0x1000ULL
#define WANTS_NONE 0x1ULL
#define WANTS_EACH 0x2ULL
#define WANTS_FRAMES 0x3ULL
#define RING_SLACK 0x4000ULL
#define RING_BYTES_MAX 0x10000000ULL
#define SYSCALLS 0x200ULL
#define STACK_FRAMES 0x40ULL
#define STACKS 0x10000ULL
#define NO_SYSCALL 0xffffULL
#define FUTEX_LOCK 0x80000000ULL
#define FUTEX_OWN 0x40000000ULL
#define CMDLINE_MAX 0x200ULL
#define UNIX_NAME_BYTES 0x70ULL
#define FLOW_ULP 0x1ULL
#define FLOW_NAMED 0x2ULL
#define FLOW_PEER_NAMED 0x4ULL
#define FLOW_FIRST 0x8ULL
#define SIZES_BYTES_MIN 0x10000ULL
#define MMSG_MAX 0x10ULL
#define FD_SOCKET 0x1ULL
#define FD_PIPE 0x2ULL
#define FDM_SENT 0x1ULL
#define FDM_RECEIVED 0x2ULL
#define FDM_WATCHED 0x4ULL
#define FDM_LAST_IN 0x8ULL
#define FDM_LAST_OUT 0x10ULL
#define FLOW_PIPE_BIT 0x8000000000000000ULL

struct wp_head {
	__u32 tag;
	__u16 bytes;
	__u8 kind;
	__u8 sub;
};
_Static_assert(sizeof(struct wp_head) == 8, "wp_head");

struct wp_op {
	struct wp_head head;
	__u64 ts_ns;
	__u64 flow;
	__u32 tgid;
	__u32 tid;
	__u32 entry_ago_ns;
	__u32 arrived_ago_ns;
	__u32 seq_end;
	__s32 bytes;
	__u16 flags;
	__u16 head_bytes;
	__u16 syscall;
	__u16 cpu;
};
_Static_assert(sizeof(struct wp_op) == 56, "wp_op");

struct wp_logical {
	__u64 key;
	__u64 parent;
	__u64 born_ns;
	__u8 runtime;
	__u8 pad[7];
};
_Static_assert(sizeof(struct wp_logical) == 32, "wp_logical");

struct wp_more {
	struct wp_head head;
	__u64 ts_ns;
	__u64 flow;
	__u32 at;
	__u32 bytes;
};
_Static_assert(sizeof(struct wp_more) == 32, "wp_more");

struct wp_runtime {
	__u64 verified;
	__u64 refuted;
	__u64 python_key;
	__u64 helper_words;
	__u64 greenlets;
	__u64 others_told;
	__u64 park_reasons;
	__s32 tls;
	__u32 kind;
	__u32 g_m;
	__u32 m_g0;
	__u32 m_curg;
	__u32 m_procid;
	__u32 g_goid;
	__u32 g_parent;
	__u32 g_sched;
	__u32 conn_writes;
	__u32 chan_waiters;
	__u32 waiter_g;
	__u32 chan_room;
	__u32 chan_items;
	__u32 chan_of;
	__u32 chan_next;
	__u32 waiter_next;
	__u32 waiter_item;
	__u32 is_marked;
	__u32 thread_values;
	__u32 state_context;
	__u32 state_thread;
	__u32 context_entered;
	__u32 module;
	__u32 thread_word;
	__u32 thread_os;
	__u32 os_number;
	__u32 thread_runs;
	__u32 thread_is_virtual;
	__u32 thread_owner;
	__u32 block_bytes;
	__u32 other_loop;
};
_Static_assert(sizeof(struct wp_runtime) == 184, "wp_runtime");

struct wp_local_words {
	__u64 flow;
	__u32 tgid;
	__u32 tid;
	__u64 words[128];
};
_Static_assert(sizeof(struct wp_local_words) == 1040, "wp_local_words");

struct wp_flow {
	struct wp_head head;
	__u64 ts_ns;
	__u64 flow;
	__u64 peer_flow;
	__u32 netns;
	__u32 tgid;
	__u32 snd_seq;
	__u32 rcv_seq;
	__u16 family;
	__u16 protocol;
	__u16 lport;
	__u16 rport;
	__u8 kind;
	__u8 state;
	__u8 marks;
	__u8 name_bytes;
	__u32 unread;
	__u8 laddr[16];
	__u8 raddr[16];
	__u32 snd_first;
	__u32 rcv_first;
};
_Static_assert(sizeof(struct wp_flow) == 104, "wp_flow");

struct wp_state {
	struct wp_head head;
	__u64 ts_ns;
	__u64 flow;
	__u8 old;
	__u8 new;
	__u8 reset;
	__u8 by_task;
	__u32 tid;
	__u32 snd_seq;
	__u32 rcv_seq;
};
_Static_assert(sizeof(struct wp_state) == 40, "wp_state");

struct wp_wait {
	struct wp_head head;
	__u64 ts_ns;
	__u64 blocked_ns;
	__u64 woken_ns;
	__u64 object;
	__u64 arg0;
	__u32 tid;
	__u32 by_tid;
	__u32 rcv_seq;
	__u16 state;
	__u16 syscall;
	__u32 tgid;
	__u16 cpu;
	__u16 woken_cpu;
};
_Static_assert(sizeof(struct wp_wait) == 72, "wp_wait");

struct wp_stay {
	struct wp_head head;
	__u64 ts_ns;
	__u64 from_ns;
	__u64 to_ns;
	__u32 tid;
	__u32 tgid;
	__u32 cpu;
	__u32 pad;
};
_Static_assert(sizeof(struct wp_stay) == 48, "wp_stay");

struct wp_stack {
	struct wp_head head;
	__u64 ts_ns;
	__u64 blocked_ns;
	__u64 image;
	__u32 tgid;
	__u32 tid;
	__s32 id;
	__u16 syscall;
	__u16 pad;
};
_Static_assert(sizeof(struct wp_stack) == 48, "wp_stack");

struct wp_poll {
	struct wp_head head;
	__u64 ts_ns;
	__u64 entry_ago_ns;
	__u64 timeout_ns;
	__u32 tgid;
	__u32 tid;
	__s32 ready;
	__s32 fd;
};
_Static_assert(sizeof(struct wp_poll) == 48, "wp_poll");

struct wp_input {
	struct wp_head head;
	__u64 ts_ns;
	__u64 flow;
	__u32 tgid;
	__u32 tid;
	__s32 fd;
	__u32 ready;
	__u16 flags;
	__u16 pad;
	__u32 pad2;
};
_Static_assert(sizeof(struct wp_input) == 48, "wp_input");

struct wp_task {
	struct wp_head head;
	__u64 ts_ns;
	__u64 start_ns;
	__u64 cgroup;
	__u32 tgid;
	__u32 tid;
	__u32 parent_tid;
	__u32 parent_tgid;
	__u8 comm[16];
	__u32 cmdline_bytes;
	__u32 flags;
};
_Static_assert(sizeof(struct wp_task) == 72, "wp_task");

struct wp_sizes {
	struct wp_head head;
	__u64 ts_ns;
	__u64 flow;
	__u32 backlog;
	__u32 waiting;
	__u32 sndbuf;
	__u32 rcvbuf;
	__u16 lport;
	__u8 state;
	__u8 pad;
	__u32 pad2;
};
_Static_assert(sizeof(struct wp_sizes) == 48, "wp_sizes");

struct wp_mark {
	struct wp_head head;
	__u64 ts_ns;
	__u64 key;
	__u64 name_key;
	__u64 count;
	__u32 tgid;
	__u32 tid;
	__u8 machine_bytes;
	__u8 name_bytes;
	__u16 flags;
	__u32 pad;
};
_Static_assert(sizeof(struct wp_mark) == 56, "wp_mark");

struct wp_mapped {
	struct wp_head head;
	__u64 ts_ns;
	__u32 tgid;
	__u32 tid;
};
_Static_assert(sizeof(struct wp_mapped) == 24, "wp_mapped");

struct wp_fault {
	struct wp_head head;
	__u64 ts_ns;
	__u64 began_ns;
	__u64 address;
	__u64 ip;
	__u64 inode;
	__u64 offset;
	__u32 device;
	__u32 generation;
	__u32 tgid;
	__u32 tid;
	__u16 cpu;
	__u8 access;
	__u8 pad;
	__u32 pad2;
};
_Static_assert(sizeof(struct wp_fault) == 80, "wp_fault");

struct wp_wait_file {
	__u8 folder[32];
	__u8 name[64];
};
_Static_assert(sizeof(struct wp_wait_file) == 96, "wp_wait_file");

struct wp_fault_file {
	struct wp_head head;
	__u64 ts_ns;
	__u64 inode;
	__u32 device;
	__u32 generation;
	__u8 name[64];
};
_Static_assert(sizeof(struct wp_fault_file) == 96, "wp_fault_file");

struct wp_fd {
	struct wp_head head;
	__u64 ts_ns;
	__u64 flow;
	__u64 received_ns;
	__u64 sent_ns;
	__u32 tgid;
	__u32 fd;
	__u32 unread;
	__u32 unacked;
	__u32 window;
	__u8 state;
	__u8 marks;
	__u16 look;
};
_Static_assert(sizeof(struct wp_fd) == 64, "wp_fd");

struct wp_resent {
	struct wp_head head;
	__u64 ts_ns;
	__u64 flow;
	__u32 seq;
	__u32 seq_end;
	__u32 rtt_us;
	__u8 state;
	__u8 pad;
	__u16 pad2;
};
_Static_assert(sizeof(struct wp_resent) == 40, "wp_resent");

struct wp_makers {
	struct wp_head head;
	__u64 ts_ns;
	__u32 tgid;
	__u32 pad;
	__u64 line[7];
	__u64 born_ns[7];
};
_Static_assert(sizeof(struct wp_makers) == 136, "wp_makers");

struct wp_ended {
	struct wp_head head;
	__u64 ts_ns;
	__u32 tgid;
	__u32 pad;
	__u64 key;
	__u64 parent;
	__u64 born_ns;
};
_Static_assert(sizeof(struct wp_ended) == 48, "wp_ended");

struct wp_handover {
	struct wp_head head;
	__u64 ts_ns;
	__u64 sent_ns;
	__u64 first_ns;
	__u32 tgid;
	__u32 flags;
	__u64 to;
	__u64 from;
	__u64 first;
	__u64 of;
};
_Static_assert(sizeof(struct wp_handover) == 72, "wp_handover");

struct wp_stream {
	struct wp_head head;
	__u64 ts_ns;
	__u32 tgid;
	__u32 stream;
	__u32 calls;
	__u32 pad;
	__u64 key;
	__u64 parent;
	__u64 born_ns;
	__u64 by;
};
_Static_assert(sizeof(struct wp_stream) == 64, "wp_stream");

struct wp_ran {
	struct wp_head head;
	__u64 ts_ns;
	__u32 tgid;
	__u32 tid;
	__u64 key;
};
_Static_assert(sizeof(struct wp_ran) == 32, "wp_ran");

struct wp_park {
	struct wp_head head;
	__u64 ts_ns;
	__u64 blocked_ns;
	__u64 woken_ns;
	__u64 key;
	__u64 by;
	__u32 tgid;
	__u32 from_tid;
	__u32 tid;
	__u32 why;
};
_Static_assert(sizeof(struct wp_park) == 64, "wp_park");

#endif
