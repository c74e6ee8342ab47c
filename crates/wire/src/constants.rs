//! Constants of the records: their kinds, and what numbers and flags in them mean.

#[cfg(doc)]
use crate::records::*;

constants! {
    /// Record kind: [`Op`], followed by the peer's address and the message head where the flags say so.
    KIND_OP: u8 = 1;
    /// Record kind: [`FlowSeen`].
    KIND_FLOW: u8 = 2;
    /// Record kind: [`FlowState`].
    KIND_STATE: u8 = 3;
    /// Record kind: [`Wait`].
    KIND_WAIT: u8 = 4;
    /// Record kind: [`Poll`].
    KIND_POLL: u8 = 5;
    /// Record kind: [`TaskEvent`], followed by the command line for an exec.
    KIND_TASK: u8 = 6;
    /// Record kind: [`Descriptor`] (snapshot only).
    KIND_FD: u8 = 7;
    /// Record kind: [`Stack`] (only where stacks are asked for).
    KIND_STACK: u8 = 8;
    /// Record kind: [`Input`] (library vantage only).
    KIND_INPUT: u8 = 9;
    /// Record kind: [`Sizes`].
    KIND_SIZES: u8 = 10;
    /// Record kind: [`Mark`], followed by the machine's name and the mark's, each in `MARK_NAME_BYTES`.
    KIND_MARK: u8 = 11;
    /// Record kind: [`Mapped`].
    KIND_MAPPED: u8 = 12;
    /// Record kind: [`Fault`] (only where page faults are asked for).
    KIND_FAULT: u8 = 13;
    /// Record kind: [`FaultFile`].
    KIND_FAULT_FILE: u8 = 14;
    /// Record kind: [`Resent`].
    KIND_RESENT: u8 = 15;
    /// Record kind: [`Makers`].
    KIND_MAKERS: u8 = 16;
    /// Record kind: [`Ended`].
    KIND_ENDED: u8 = 17;
    /// Record kind: [`Handover`].
    KIND_HANDOVER: u8 = 18;
    /// Record kind: [`Stream`].
    KIND_STREAM: u8 = 19;
    /// Record kind: [`Ended`], of a logical task that works for others than the one that it has, or was made for: what came of it
    /// another one waited for. `ts_ns` is when that was learned, which may be behind its end.
    KIND_FOR_OTHERS: u8 = 20;
    /// Record kind: [`Park`].
    KIND_PARK: u8 = 21;
    /// Record kind: [`Ran`].
    KIND_RAN: u8 = 22;
    /// A processor tells at most once in so many ns whose work it does.
    RAN_EVERY_NS: u64 = 2_000_000;
    /// `Park.why`: none of the others.
    PARK_OTHER: u32 = 0;
    /// `Park.why`: for one of several channels.
    PARK_SELECT: u32 = 1;
    /// `Park.why`: for an item of a channel.
    PARK_RECEIVE: u32 = 2;
    /// `Park.why`: for room in a channel, or for who takes the item.
    PARK_SEND: u32 = 3;
    /// `Park.why`: it slept.
    PARK_SLEEP: u32 = 4;
    /// `Park.why`: for a condition (`sync.Cond`).
    PARK_CONDITION: u32 = 5;
    /// `Park.why`: for a mutex.
    PARK_MUTEX: u32 = 6;
    /// `Park.why`: to read what a `sync.RWMutex` guards.
    PARK_READ_LOCK: u32 = 7;
    /// `Park.why`: to write what a `sync.RWMutex` guards.
    PARK_WRITE_LOCK: u32 = 8;
    /// `Runtime.is_marked`: the program has probes where goroutines are made and net/http's client takes a connection; where Python
    /// makes contexts.
    MARKED: u32 = 1;
    /// `Runtime.is_marked`: and where Go's channels hand items over.
    MARKED_CHANNELS: u32 = 2;
    /// `Runtime.is_marked`: and where goroutines are parked, made ready and run again.
    MARKED_WAITS: u32 = 4;
    /// Record kind: [`More`].
    KIND_MORE: u8 = 23;
    /// Record kind: [`Stay`].
    KIND_STAY: u8 = 24;
    /// `More.head.sub`: no more comes of that operation.
    MORE_LAST: u8 = 0x40;
    /// `More.head.sub`: the operation was a [`KIND_CLEAR`].
    MORE_CLEAR: u8 = 0x20;
    /// Record kind: [`Op`], followed by the head: plaintext that went through a call of a TLS library, on the flow whose ciphertext
    /// has operations of its own. Without bytes: it will be told from now on. With `OPF_MORE`, the caller had room for no more.
    KIND_CLEAR: u8 = 25;
    /// Of a [`KIND_CLEAR`], `head.sub`: the library told it amid its call. What was received is one whole record, whose length with
    /// its header is in `seq_end`; the records of what is sent are operations that come later.
    CLEAR_RECORD: u8 = 0x20;
    /// `Handover.flags`: the channel's items have no bytes, or it was closed: something was said, nothing was given.
    HANDOVERF_EMPTY: u32 = 1;

    /// Fault: the page was in memory, or was made.
    FAULT_MINOR: u8 = 1;
    /// Fault: the page had to be read.
    FAULT_MAJOR: u8 = 2;
    /// Fault: the kernel accounted it as neither: nothing was mapped (a signal followed), or it was taken again.
    FAULT_NEITHER: u8 = 3;
    /// `Fault.access`: a page was there; it was the access that was not allowed (copy on write).
    FAULTA_PRESENT: u8 = 1;
    /// `Fault.access`: a write.
    FAULTA_WRITE: u8 = 2;
    /// `Fault.access`: by the program itself; else by the kernel on its behalf, in a system call.
    FAULTA_USER: u8 = 4;
    /// `Fault.access`: code was fetched.
    FAULTA_EXEC: u8 = 16;
    /// `Fault.access`: its begin was not seen, so neither when nor how it was accessed is known.
    FAULTA_UNSEEN: u8 = 128;
    /// `Fault.offset` where it is not known.
    FAULT_NO_OFFSET: u64 = 0xffff_ffff_ffff_ffff;
    /// Room for a file's name, with a zero byte.
    FILE_NAME_BYTES: u32 = 64;

    /// Mark: the machine is in a state from now on.
    MARK_STATE: u8 = 1;
    /// Mark: it put items into a queue.
    MARK_ENQUEUE: u8 = 2;
    /// Mark: it took items out of a queue.
    MARK_DEQUEUE: u8 = 3;
    /// Mark: it waits from now on, since a queue has too few items.
    MARK_WAIT_EMPTY: u8 = 4;
    /// Mark: it waits from now on, since a queue has no room.
    MARK_WAIT_FULL: u8 = 5;
    /// Mark: it begins a transaction.
    MARK_BEGIN: u8 = 6;
    /// Mark: its transaction is over.
    MARK_END: u8 = 7;
    /// Room for a mark's name, with a zero byte; a name that fills it was perhaps longer.
    MARK_NAME_BYTES: u32 = 64;
    /// `Mark.flags`: a name was longer than its room, or just filled it.
    MARKF_CUT: u16 = 1;
    /// `Mark.flags`: a name could not be read from the program's memory.
    MARKF_UNREAD: u16 = 2;

    /// Operation: bytes sent or written.
    OP_SEND: u8 = 1;
    /// Operation: bytes received or read; zero bytes is the end of the stream.
    OP_RECV: u8 = 2;
    /// Operation: a connection accepted.
    OP_ACCEPT: u8 = 3;
    /// Operation: a connect call; `bytes` is its result (0, or a negative error number).
    OP_CONNECT: u8 = 4;
    /// Operation: a descriptor of the flow closed.
    OP_CLOSE: u8 = 5;
    /// Operation: one or both directions shut down.
    OP_SHUTDOWN: u8 = 6;

    /// Head `sub` of [`Op`] and [`Poll`], beside what it says else: a [`Logical`] follows at once (before a peer's address).
    SUB_LOGICAL: u8 = 0x80;
    /// Bit of a [`Wait`]'s `sub`: waits of this task that ended before this one began were not recorded.
    SUB_GAP: u8 = 0x40;
    /// Bit of a [`Wait`]'s `sub`: later waits of this task may not be recorded.
    SUB_LAST: u8 = 0x20;
    /// Bit of a [`Wait`]'s `sub`: the file of its system call follows, a [`WaitFile`], after the [`Logical`] where there is one.
    SUB_FILE: u8 = 0x10;
    /// Bit of an [`Op`]'s `sub`: more of its bytes were taken than its head, and come in [`More`] records. The last of these says so.
    SUB_GOES_ON: u8 = 0x40;
    /// A send of more bytes may take TCP several segments, of which the first may be acknowledged when it returns: if nobody saw it
    /// begin, its entry may be told later than it was. Not of one of at most so many bytes.
    SENT_AT_ONCE: u32 = 65536;
    /// `Op.flags`: `entry_ago_ns` is the call's entry, or of a send when its first byte left (else neither is known).
    OPF_ENTRY: u16 = 1;
    /// `Op.flags`: a `sockaddr` of 28 bytes (padded to 32) precedes the head.
    OPF_PEER: u16 = 2;
    /// `Op.flags`: `head_bytes` of the message follow.
    OPF_HEAD: u16 = 4;
    /// `Op.flags`: the flow changed direction with this operation.
    OPF_TURN: u16 = 8;
    /// `Op.flags`: the buffer could not be read here (io_uring, splice, sendfile, a fault).
    OPF_UNREADABLE: u16 = 16;
    /// `Op.flags`: the receive queue still held bytes after this receive.
    OPF_MORE: u16 = 32;
    /// `Op.flags`: carried by io_uring rather than by a call of the task itself.
    OPF_IO_URING: u16 = 64;
    /// `Op.flags`: sequence numbers are byte counts of this recording, not TCP's (UNIX, pipe, UDP).
    OPF_COUNTED: u16 = 128;
    /// `Op.flags`: `arrived_ago_ns` is set.
    OPF_ARRIVED: u16 = 256;
    /// `Op.flags`: (shutdown) the sending side was shut.
    OPF_SHUT_WRITE: u16 = 512;
    /// `Op.flags`: `seq_end` is not known; the bytes follow those before (splice from a counted flow).
    OPF_UNNUMBERED: u16 = 1024;
    /// `Op.flags`: the library vantage ended this receive at a message's border; what was behind it comes with the next.
    OPF_BORDER: u16 = 2048;
    /// `Op.flags`: plaintext, seen at a TLS library's own calls; numbers count plaintext bytes.
    OPF_PLAIN: u16 = 4096;

    /// `Op.flags`: where TCP kept bytes of this send back (not all had left when the call returned), these bits say for what.
    OPF_HELD: u16 = 0xe000;
    /// Of `OPF_HELD`: for an acknowledgement of earlier bytes (Nagle's algorithm).
    OPF_HELD_NAGLE: u16 = 0x2000;
    /// Of `OPF_HELD`: for room in the receiver's window.
    OPF_HELD_WINDOW: u16 = 0x4000;
    /// Of `OPF_HELD`: for something else (the congestion window, pacing, TCP_CORK).
    OPF_HELD_OTHER: u16 = 0x6000;

    /// `FlowSeen.how`: the socket became established by connecting out.
    FLOW_CONNECTED: u8 = 1;
    /// `FlowSeen.how`: the socket came out of a listener.
    FLOW_ACCEPTED: u8 = 2;
    /// `FlowSeen.how`: first seen in mid-life by an operation.
    FLOW_MET: u8 = 3;
    /// `FlowSeen.how`: found by the snapshot.
    FLOW_SNAPSHOT: u8 = 4;

    /// `Wait.cause`: not known.
    CAUSE_UNKNOWN: u8 = 0;
    /// `Wait.cause`: another task, in its own context.
    CAUSE_TASK: u8 = 1;
    /// `Wait.cause`: a packet: inside a socket's data-ready (`object` is the socket's cookie).
    CAUSE_SOCKET: u8 = 2;
    /// `Wait.cause`: network receive softirq, socket not named (acknowledgement, connect done, FIN).
    CAUSE_NET: u8 = 3;
    /// `Wait.cause`: a timer expired.
    CAUSE_TIMER: u8 = 4;
    /// `Wait.cause`: a block request completed (`object` is device << 32 | low sector bits).
    CAUSE_BLOCK: u8 = 5;
    /// `Wait.cause`: a hardware interrupt other than the above (`object` is its number).
    CAUSE_IRQ: u8 = 6;
    /// `Wait.cause`: another softirq (`object` is its vector).
    CAUSE_SOFTIRQ: u8 = 7;
    /// `Wait.cause`: the task was preempted, nobody had to wake it.
    CAUSE_PREEMPTED: u8 = 8;
    /// `Wait.cause`: the wait goes on; written again when it ends, with the same `blocked_ns`.
    CAUSE_OPEN: u8 = 9;
    /// `Wait.cause`: a signal (`object` is its number, 0 = not seen) or a debugger had stopped the task; `by_tid` sent it.
    CAUSE_STOPPED: u8 = 11;

    /// `TaskEvent.what`: a task was made.
    TASK_FORK: u8 = 1;
    /// `TaskEvent.what`: a task began another program.
    TASK_EXEC: u8 = 2;
    /// `TaskEvent.what`: a task ended.
    TASK_EXIT: u8 = 3;
    /// `TaskEvent.what`: a task changed its name.
    TASK_NAME: u8 = 4;
    /// `TaskEvent.what`: found by the snapshot.
    TASK_SNAPSHOT: u8 = 5;
    /// `TaskEvent.what`: its process is watched from now on, by a rule of the selection.
    TASK_SELECTED: u8 = 6;
    /// `TaskEvent.what`: a process was made into another cgroup than its parent's (`clone3`).
    TASK_PLACED: u8 = 7;
    /// `TaskEvent.parent_tgid` of an end: the kernel killed the process to free its memory.
    TASK_OUT_OF_MEMORY: u32 = 65536;
    /// Most ports that a selection may name.
    SELECTED_PORTS_MAX: u32 = 1024;
    /// Most cgroups that a selection may name.
    SELECTED_CGROUPS_MAX: u32 = 64;
    /// Bytes of a cgroup's path that are compared, with the zero that ends it.
    CGROUP_PATH_BYTES: u32 = 256;

    /// `Input.sub`: data, a connection, or an end of stream can be taken from the flow.
    INPUT_READ: u8 = 1;
    /// `Input.sub`: the flow can be written to, or its connect is complete.
    INPUT_WRITE: u8 = 2;
    /// `Input.sub`: something that is no flow: a timer, an eventfd, a signal, a file.
    INPUT_OTHER: u8 = 3;
    /// `Input.flags`: it is the only input that the task was given; the next comes with the next record.
    INPUTF_ISOLATED: u16 = 1;
    /// `Input.sub`: no input. The process goes on with something else than what it was given last: a timeout, or what a
    /// call took that nobody had handed over.
    INPUT_ELSE: u8 = 4;
    /// `Input.flags`: the whole process had come to rest before: what any of its tasks does is for this input, until the
    /// next record of this flag or of `INPUT_ELSE`.
    INPUTF_REST: u16 = 2;

    /// `Logical.runtime`, `Runtime.kind`: Go.
    RUNTIME_GO: u8 = 1;
    /// `Logical.runtime`, `Runtime.kind`: CPython.
    RUNTIME_PYTHON: u8 = 2;
    /// `Logical.runtime`, `Runtime.kind`: the JVM.
    RUNTIME_JVM: u8 = 3;
    /// `Logical.runtime`, `Runtime.kind`: Node.js with Wakepath's helper.
    RUNTIME_NODE: u8 = 4;
    /// By which the words are known that the helper for Node.js keeps.
    NODE_MAGIC_0: u64 = 0x9e0d4a3770ec5c1b;
    /// See `NODE_MAGIC_0`.
    NODE_MAGIC_1: u64 = 0xd3a86e9551f2b6c8;
    /// Which words stand where.
    NODE_LAYOUT: u32 = 1;
    /// By which the words are known that the agent for the JVM keeps.
    JVM_MAGIC_0: u64 = 0x4be3905ad17c26f8;
    /// See `JVM_MAGIC_0`.
    JVM_MAGIC_1: u64 = 0xa95d0e73c2481fb6;
    /// Which words stand where: a page with the two above, the layout, the process's number (4 bytes each), and how many tasks were told to
    /// work for others; then for each number that a thread may have which slot is its own (4 bytes each, 0: none); then slots; then
    /// the last `JVM_OTHERS` of those tasks.
    JVM_LAYOUT: u32 = 1;
    /// How many numbers threads may have.
    JVM_THREADS: u32 = 1 << 22;
    /// How many slots there are.
    JVM_SLOTS_MAX: u32 = 1 << 16;
    /// How many tasks that were told to work for others are kept.
    JVM_OTHERS: u32 = 1 << 16;
    /// Bytes of a slot: the thread's number, then the identity that it has now (0: none), when that was made, who made it, who made
    /// that one (`Makers.line`), and when those were (`Makers.born_ns`).
    JVM_SLOT_BYTES: u32 = 256;
    /// From here on identities are those that the agent gives; below are virtual threads' numbers.
    JVM_AGENT_KEYS: u64 = 1 << 48;
    /// `Logical.runtime`, `Runtime.kind`: Tokio.
    RUNTIME_TOKIO: u8 = 5;
    /// System call class: none of ours.
    SC_NONE: u8 = 0;
    /// System call class: (fd, buffer, length), sending.
    SC_WRITE: u8 = 1;
    /// System call class: (fd, iovec, count), sending.
    SC_WRITEV: u8 = 2;
    /// System call class: (fd, buffer, length, flags, address), sending on sockets only.
    SC_SENDTO: u8 = 3;
    /// System call class: (fd, msghdr), sending.
    SC_SENDMSG: u8 = 4;
    /// System call class: (fd, mmsghdr, count), sending.
    SC_SENDMMSG: u8 = 5;
    /// System call class: (fd, buffer, length), receiving.
    SC_READ: u8 = 6;
    /// System call class: (fd, iovec, count), receiving.
    SC_READV: u8 = 7;
    /// System call class: (fd, buffer, length, flags, address), receiving on sockets only.
    SC_RECVFROM: u8 = 8;
    /// System call class: (fd, msghdr, flags), receiving.
    SC_RECVMSG: u8 = 9;
    /// System call class: (fd, mmsghdr, count), receiving.
    SC_RECVMMSG: u8 = 10;
    /// System call class: sendfile (out, in, …).
    SC_SENDFILE: u8 = 11;
    /// System call class: splice (in, off, out, …).
    SC_SPLICE: u8 = 12;
    /// System call class: accept, accept4.
    SC_ACCEPT: u8 = 13;
    /// System call class: connect.
    SC_CONNECT: u8 = 14;
    /// System call class: close.
    SC_CLOSE: u8 = 15;
    /// System call class: shutdown.
    SC_SHUTDOWN: u8 = 16;
    /// System call class: epoll_wait and epoll_pwait (timeout in ms, argument 4).
    SC_EPOLL: u8 = 17;
    /// System call class: poll (timeout in ms, argument 3).
    SC_POLL: u8 = 18;
    /// System call class: select (timeval after argument 5).
    SC_SELECT: u8 = 19;
    /// System call class: io_uring_enter.
    SC_IO_URING: u8 = 20;
    /// System call class: pselect6 (timespec after argument 5).
    SC_PSELECT: u8 = 21;
    /// System call class: ppoll (timespec after argument 3).
    SC_PPOLL: u8 = 22;
    /// System call class: epoll_pwait2 (timespec after argument 4).
    SC_EPOLL2: u8 = 23;
    /// System call class: mmap.
    SC_MMAP: u8 = 24;
    /// System call class: bind, noted only where ports are selected.
    SC_BIND: u8 = 25;

    /// Drop counter: operation records.
    DROP_OP: u32 = 0;
    /// Drop counter: flow and state records.
    DROP_FLOW: u32 = 1;
    /// Drop counter: wait records.
    DROP_WAIT: u32 = 2;
    /// Drop counter: poll records.
    DROP_POLL: u32 = 3;
    /// Drop counter: task records.
    DROP_TASK: u32 = 4;
    /// Drop counter: a task's storage could not be had.
    DROP_TASK_STORAGE: u32 = 5;
    /// Drop counter: a socket's storage could not be had.
    DROP_SOCK_STORAGE: u32 = 6;
    /// Drop counter: a message head could not be read from the program's memory.
    DROP_HEAD_FAULT: u32 = 7;
    /// Drop counter: marks.
    DROP_MARK: u32 = 8;
    /// Drop counter: a task came onto a processor that nobody had seen go: its wait has no record.
    DROP_SWITCH: u32 = 9;
    /// Not a loss: waits whose end was not seen and is computed from the processor time since.
    DROP_WAIT_END: u32 = 10;
    /// Drop counter: page faults.
    DROP_FAULT: u32 = 11;
    /// Drop counter: records that concern nobody selected. They have half of each ring.
    DROP_OTHERS: u32 = 12;
    /// How many drop counters there are.
    DROP_KINDS: u32 = 13;

    /// The last stays of tasks on a processor that are kept, so that who waited for it can tell who had it.
    STAYS: u32 = 256;
    /// How many waits of a task are recorded after it woke a selected one.
    RELATED_WAITS: u32 = 256;
    /// How many wake-ups are followed from a selected task to the wakers of its wakers.
    RELATED_LEVELS: u32 = 4;
    /// Most processors that the kernel programs have room for.
    MAX_CPUS: u32 = 512;
    /// Most bytes of one message head in one record.
    HEAD_MAX: u32 = 4096;
    /// Which heads of a flow are wanted: none any more.
    WANTS_NONE: u8 = 1;
    /// Which heads of a flow are wanted: that of each operation, since its messages overlap.
    WANTS_EACH: u8 = 2;
    /// The same of HTTP/2, of which frames are followed: those of data need no head.
    WANTS_FRAMES: u8 = 3;
    /// Room after a ring for a record that begins before its end: the longest record.
    RING_SLACK: u32 = 16384;
    /// Largest ring: the verifier takes no offset into a map's value that may be 512 MiB or more.
    RING_BYTES_MAX: u32 = 1 << 28;
    /// Syscall numbers below this are classed.
    SYSCALLS: u32 = 512;
    /// Most frames of one stack.
    STACK_FRAMES: u32 = 64;
    /// How many different stacks the kernel's table has room for.
    STACKS: u32 = 65536;
    /// `Wait.syscall` where the task was not in a system call.
    NO_SYSCALL: u16 = 0xffff;
    /// In `rcv_seq` of a wait in futex(2): the word is that of a lock that somebody held. Below it is the holder's number, 0
    /// where that is not known.
    FUTEX_LOCK: u32 = 0x8000_0000;
    /// In the same place: the word is no lock's, and on the stack of the task that waited. Nobody else waits there.
    FUTEX_OWN: u32 = 0x4000_0000;
    /// Most bytes of a command line.
    CMDLINE_MAX: u32 = 512;
    /// Room for a UNIX socket's name after its [`FlowSeen`].
    UNIX_NAME_BYTES: u32 = 112;
    /// `FlowSeen.marks`: an upper-layer protocol (kernel TLS) is on it.
    FLOW_ULP: u8 = 1;
    /// `FlowSeen.marks`: the UNIX socket has a name: it is, or came out of, a listener.
    FLOW_NAMED: u8 = 2;
    /// `FlowSeen.marks`: the UNIX socket's peer has a name.
    FLOW_PEER_NAMED: u8 = 4;
    /// `FlowSeen.marks`: the numbers of the first bytes are known.
    FLOW_FIRST: u8 = 8;
    /// A connection's end tells its buffers ([`Sizes`]) where it moved more bytes than this: short ones never fill them.
    SIZES_BYTES_MIN: u32 = 65536;
    /// Most messages of one recvmmsg or sendmmsg that are told apart where the kernel does not do it for us.
    MMSG_MAX: u32 = 16;
    /// `Descriptor.sub`: a socket.
    FD_SOCKET: u8 = 1;
    /// `Descriptor.sub`: a pipe.
    FD_PIPE: u8 = 2;
    /// `Descriptor.marks`: the socket has sent data.
    FDM_SENT: u8 = 1;
    /// `Descriptor.marks`: the socket has received data.
    FDM_RECEIVED: u8 = 2;
    /// `Descriptor.marks`: operations of the process are recorded.
    FDM_WATCHED: u8 = 4;
    /// `Descriptor.marks`: the other end had acknowledged all that this one sent when it sent its last data.
    FDM_LAST_IN: u8 = 8;
    /// `Descriptor.marks`: the other end acknowledged within a second all that this one sent, and sent no data after it.
    FDM_LAST_OUT: u8 = 16;
    /// Bit that marks a flow id made from a pipe's inode number.
    FLOW_PIPE_BIT: u64 = 1 << 63;
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::CONSTANTS;
    use std::collections::HashMap;

    #[test]
    fn each_kind_of_record_has_a_number_of_its_own() {
        let mut kinds = HashMap::new();
        for c in CONSTANTS.iter().filter(|c| c.name.starts_with("KIND_")) {
            assert_eq!(kinds.insert(c.value, c.name), None, "{}", c.name);
        }
        assert!(kinds.len() > 20, "{kinds:?}");
    }
}
