//! The records and their constants.

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

    /// `Op.flags`: `entry_ago_ns` is the call's entry (else the entry was not seen).
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

    /// `Input.sub`: data, a connection, or an end of stream can be taken from the flow.
    INPUT_READ: u8 = 1;
    /// `Input.sub`: the flow can be written to, or its connect is complete.
    INPUT_WRITE: u8 = 2;
    /// `Input.sub`: something that is no flow: a timer, an eventfd, a signal, a file.
    INPUT_OTHER: u8 = 3;
    /// `Input.flags`: it is the only input that the task was given; the next comes with the next record.
    INPUTF_ISOLATED: u16 = 1;
    /// `Input.sub`: no input. The process goes on with something else than what it was given last: a time-out, or what a
    /// call took that nobody had handed over.
    INPUT_ELSE: u8 = 4;
    /// `Input.flags`: the whole process had come to rest before: what any of its tasks does is for this input, until the
    /// next record of this flag or of `INPUT_ELSE`.
    INPUTF_REST: u16 = 2;

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
    /// System call class: select (timeval behind argument 5).
    SC_SELECT: u8 = 19;
    /// System call class: io_uring_enter.
    SC_IO_URING: u8 = 20;
    /// System call class: pselect6 (timespec behind argument 5).
    SC_PSELECT: u8 = 21;
    /// System call class: ppoll (timespec behind argument 3).
    SC_PPOLL: u8 = 22;
    /// System call class: epoll_pwait2 (timespec behind argument 4).
    SC_EPOLL2: u8 = 23;
    /// System call class: mmap.
    SC_MMAP: u8 = 24;

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
    /// How many drop counters there are.
    DROP_KINDS: u32 = 12;

    /// Most processors that the kernel programs have room for.
    MAX_CPUS: u32 = 512;
    /// Most bytes of one message head in one record.
    HEAD_MAX: u32 = 4096;
    /// Room behind a ring for a record that begins before its end: the longest record.
    RING_SLACK: u32 = 16384;
    /// Syscall numbers below this are classed.
    SYSCALLS: u32 = 512;
    /// Most frames of one stack.
    STACK_FRAMES: u32 = 64;
    /// How many different stacks the kernel's table has room for.
    STACKS: u32 = 65536;
    /// `Wait.syscall` where the task was not in a system call.
    NO_SYSCALL: u16 = 0xffff;
    /// Most bytes of a command line.
    CMDLINE_MAX: u32 = 512;
    /// Room for a UNIX socket's name behind its [`FlowSeen`].
    UNIX_NAME_BYTES: u32 = 112;
    /// `FlowSeen.marks`: an upper-layer protocol (kernel TLS) is on it.
    FLOW_ULP: u8 = 1;
    /// `FlowSeen.marks`: the UNIX socket has a name: it is, or came out of, a listener.
    FLOW_NAMED: u8 = 2;
    /// `FlowSeen.marks`: the UNIX socket's peer has a name.
    FLOW_PEER_NAMED: u8 = 4;
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
    /// Bit that marks a flow id made from a pipe's inode number.
    FLOW_PIPE_BIT: u64 = 1 << 63;
}

layouts! {
    /// What every record begins with.
    struct Head as "wp_head" {
        /// Commit mark: the record's position in its ring, in units of eight bytes, mixed with the load's key.
        tag: u32,
        /// Length of the whole record in bytes, a multiple of eight.
        bytes: u16,
        /// One of `KIND_…`.
        kind: u8,
        /// Kind-specific: `Op` its `OP_…`, `TaskEvent` its `TASK_…`, `Wait` its `CAUSE_…`, `FlowSeen` its `FLOW_…`.
        sub: u8,
    }

    /// One operation of a task on a flow.
    struct Op as "wp_op" {
        /// Head; `sub` is `OP_…`.
        head: Head,
        /// When it returned.
        ts_ns: u64,
        /// Socket cookie, or `FLOW_PIPE_BIT | inode`.
        flow: u64,
        /// Thread group (process).
        tgid: u32,
        /// Thread.
        tid: u32,
        /// Return minus entry, saturating.
        entry_ago_ns: u32,
        /// Return minus arrival of the first byte then unread, saturating.
        arrived_ago_ns: u32,
        /// End of the moved range: `write_seq`/`copied_seq` after the operation, or the low bits of a byte count.
        seq_end: u32,
        /// Bytes moved, or a negative error number.
        bytes: i32,
        /// `OPF_…`.
        flags: u16,
        /// Bytes of message head that follow (behind the peer's address where there is one).
        head_bytes: u16,
        /// System call number.
        syscall: u16,
        /// Processor.
        cpu: u16,
    }

    /// A flow's endpoint, when it is first met.
    struct FlowSeen as "wp_flow" {
        /// Head; `sub` is `FLOW_…`.
        head: Head,
        /// When.
        ts_ns: u64,
        /// Socket cookie.
        flow: u64,
        /// UNIX: the peer's socket cookie, else 0.
        peer_flow: u64,
        /// Network namespace (inode number).
        netns: u32,
        /// Thread group that holds it, 0 where not known.
        tgid: u32,
        /// Next byte to be sent, next byte to be read (TCP), or counts.
        snd_seq: u32,
        /// See `snd_seq`.
        rcv_seq: u32,
        /// Address family, `AF_…`.
        family: u16,
        /// `IPPROTO_…`.
        protocol: u16,
        /// Local port.
        lport: u16,
        /// Remote port.
        rport: u16,
        /// Socket type, `SOCK_…`.
        kind: u8,
        /// TCP state.
        state: u8,
        /// `FLOW_ULP`, `FLOW_NAMED`, `FLOW_PEER_NAMED`.
        marks: u8,
        /// Bytes of a UNIX name (the socket's own, else its peer's) that follow the record.
        name_bytes: u8,
        /// Bytes unread at that moment (snapshot).
        unread: u32,
        /// Local address, IPv4 in the first four bytes.
        laddr: [u8; 16],
        /// Remote address.
        raddr: [u8; 16],
    }

    /// A change of a TCP flow's state worth keeping: its end, and errors.
    struct FlowState as "wp_state" {
        /// Head; `sub` is 0.
        head: Head,
        /// When.
        ts_ns: u64,
        /// Socket cookie.
        flow: u64,
        /// State before.
        old: u8,
        /// State after.
        new: u8,
        /// 1 where a reset was received, 2 where one was sent.
        reset: u8,
        /// 1 where the current task did it, 0 in interrupt context.
        by_task: u8,
        /// The current task.
        tid: u32,
        /// `write_seq` then.
        snd_seq: u32,
        /// `rcv_nxt` then.
        rcv_seq: u32,
    }

    /// An interval in which a task did not run.
    struct Wait as "wp_wait" {
        /// Head; `sub` is `CAUSE_…`.
        head: Head,
        /// When it ran again.
        ts_ns: u64,
        /// When it stopped running.
        blocked_ns: u64,
        /// When it was made runnable (`blocked_ns` where it was preempted).
        woken_ns: u64,
        /// What `cause` names; of `CAUSE_PREEMPTED` 1: by the CPU quota of a cgroup of it.
        object: u64,
        /// First argument of the system call (descriptor, futex address).
        arg0: u64,
        /// The waiting task.
        tid: u32,
        /// Who woke it, or who preempted it.
        by_tid: u32,
        /// `rcv_nxt` where the cause is a socket.
        rcv_seq: u32,
        /// Task state at switch-out, 0 = preempted.
        state: u16,
        /// System call number or `NO_SYSCALL`.
        syscall: u16,
        /// Thread group of the waiting task.
        tgid: u32,
        /// Processor on which it ran again.
        cpu: u16,
        /// Processor of the waking.
        woken_cpu: u16,
    }

    /// Where in its program a task was when it blocked. It follows the task's [`Wait`].
    struct Stack as "wp_stack" {
        /// Head; `sub` is the wait's `CAUSE_…`.
        head: Head,
        /// When it ran again.
        ts_ns: u64,
        /// When it stopped running.
        blocked_ns: u64,
        /// Where the process's first stack begins: differs from one program that it executed to the next.
        image: u64,
        /// Thread group of the waiting task.
        tgid: u32,
        /// The waiting task.
        tid: u32,
        /// Number of the stack in the kernel's table, or a negative error number: -EEXIST, -ENOMEM its place was taken
        /// or the table full, -EFAULT it could not be read.
        id: i32,
        /// System call number or `NO_SYSCALL`.
        syscall: u16,
        /// Zero.
        pad: u16,
    }

    /// One return from poll, select or epoll.
    struct Poll as "wp_poll" {
        /// Head; `sub` is the `SC_…`.
        head: Head,
        /// When it returned.
        ts_ns: u64,
        /// Return minus entry, saturating at 64 bits.
        entry_ago_ns: u64,
        /// The time-out that the caller gave, in ns; all ones = none.
        timeout_ns: u64,
        /// Thread group.
        tgid: u32,
        /// Thread.
        tid: u32,
        /// What it returned: ready descriptors, 0 = time-out, negative = error.
        ready: i32,
        /// The epoll descriptor, or -1.
        fd: i32,
    }

    /// One input that poll, select or epoll handed to a task. It follows that return's [`Poll`].
    struct Input as "wp_input" {
        /// Head; `sub` is `INPUT_…`.
        head: Head,
        /// When it was handed over.
        ts_ns: u64,
        /// The flow, 0 where it is none.
        flow: u64,
        /// Thread group.
        tgid: u32,
        /// Thread.
        tid: u32,
        /// The ready descriptor.
        fd: i32,
        /// How many descriptors were ready at that moment, as far as was looked: 1 and more.
        ready: u32,
        /// `INPUTF_…`.
        flags: u16,
        /// Zero.
        pad: u16,
        /// Zero.
        pad2: u32,
    }

    /// A step in a task's life.
    struct TaskEvent as "wp_task" {
        /// Head; `sub` is `TASK_…`.
        head: Head,
        /// When.
        ts_ns: u64,
        /// The task's start (ns since boot, monotonic): with the tid its identity.
        start_ns: u64,
        /// cgroup id (v2), 0 where not known.
        cgroup: u64,
        /// Thread group.
        tgid: u32,
        /// Thread.
        tid: u32,
        /// Parent thread (fork), old thread id (exec).
        parent_tid: u32,
        /// Parent's thread group (fork); exit code (exit).
        parent_tgid: u32,
        /// Name.
        comm: [u8; 16],
        /// Bytes of command line that follow (exec).
        cmdline_bytes: u32,
        /// Task flags (`PF_…`): kernel thread, io worker.
        flags: u32,
    }

    /// How much a socket has room for: of those of the snapshot, of a TCP socket that begins to listen, and of a TCP connection
    /// that ends after it moved more than `SIZES_BYTES_MIN`.
    struct Sizes as "wp_sizes" {
        /// Head; `sub` is 0.
        head: Head,
        /// When.
        ts_ns: u64,
        /// Socket cookie.
        flow: u64,
        /// A listener: connections beyond which one more is refused.
        backlog: u32,
        /// A listener: connections that wait to be accepted.
        waiting: u32,
        /// Bytes of the send buffer.
        sndbuf: u32,
        /// Bytes of the receive buffer.
        rcvbuf: u32,
        /// Local port, 0 = none.
        lport: u16,
        /// Socket state as TCP numbers it.
        state: u8,
        /// Zero.
        pad: u8,
        /// Zero.
        pad2: u32,
    }

    /// What an annotated program says of itself.
    struct Mark as "wp_mark" {
        /// Head; `sub` is `MARK_…`.
        head: Head,
        /// When.
        ts_ns: u64,
        /// Which of the machines of this name.
        key: u64,
        /// Which of the queues of this name.
        name_key: u64,
        /// Items or bytes.
        count: u64,
        /// Thread group.
        tgid: u32,
        /// Thread.
        tid: u32,
        /// Bytes of the machine's name.
        machine_bytes: u8,
        /// Bytes of the mark's name.
        name_bytes: u8,
        /// `MARKF_…`.
        flags: u16,
        /// Zero.
        pad: u32,
    }

    /// A watched process mapped a file as code.
    struct Mapped as "wp_mapped" {
        /// Head; `sub` is 0.
        head: Head,
        /// When.
        ts_ns: u64,
        /// Thread group.
        tgid: u32,
        /// Thread.
        tid: u32,
    }

    /// A page fault of a watched task, when the kernel had dealt with it.
    struct Fault as "wp_fault" {
        /// Head; `sub` is `FAULT_…`.
        head: Head,
        /// When it was over; of `FAULT_NEITHER`, when that was known: at the task's next fault.
        ts_ns: u64,
        /// When it began.
        began_ns: u64,
        /// The address that was accessed.
        address: u64,
        /// Where the program was: the instruction that faulted, or the one behind the system call.
        ip: u64,
        /// The file that is mapped there, 0 = not told.
        inode: u64,
        /// Byte of the file at which the page begins, or `FAULT_NO_OFFSET`.
        offset: u64,
        /// The file's device: major << 20 | minor.
        device: u32,
        /// Which of the files that had this inode's number.
        generation: u32,
        /// Thread group.
        tgid: u32,
        /// Thread.
        tid: u32,
        /// Processor.
        cpu: u16,
        /// `FAULTA_…`.
        access: u8,
        /// Zero.
        pad: u8,
        /// Zero.
        pad2: u32,
    }

    /// What a file is called that a page fault named, told once.
    struct FaultFile as "wp_fault_file" {
        /// Head; `sub` is 0.
        head: Head,
        /// When.
        ts_ns: u64,
        /// As in [`Fault`].
        inode: u64,
        /// As in [`Fault`].
        device: u32,
        /// As in [`Fault`].
        generation: u32,
        /// Its name without the folders above, ended by a zero; longer ones are cut.
        name: [u8; 64],
    }

    /// A descriptor of a process, and how its socket or pipe stood (snapshot).
    struct Descriptor as "wp_fd" {
        /// Head; `sub` is `FD_…`.
        head: Head,
        /// When it was looked at.
        ts_ns: u64,
        /// Cookie or pipe id.
        flow: u64,
        /// TCP: when data came last, to the kernel's tick; where none ever did, when the connection began. Else 0.
        received_ns: u64,
        /// TCP: when data was sent last, so too.
        sent_ns: u64,
        /// Thread group.
        tgid: u32,
        /// Descriptor number.
        fd: u32,
        /// TCP: bytes that came and were not read. UNIX: pieces. Pipe: buffers in use.
        unread: u32,
        /// TCP: bytes that were written and not acknowledged by the other end.
        unacked: u32,
        /// TCP: bytes that the other end has room for, beyond what it acknowledged. Pipe: buffers that it has in all.
        window: u32,
        /// TCP state, as far as the socket has one.
        state: u8,
        /// `FDM_…`.
        marks: u8,
        /// Which snapshot it is of: the same number, modulo 65,536, in all its records.
        look: u16,
    }

    /// TCP sent a segment once more.
    struct Resent as "wp_resent" {
        /// Head; `sub` is 0.
        head: Head,
        /// When.
        ts_ns: u64,
        /// Socket cookie.
        flow: u64,
        /// The segment's first byte.
        seq: u32,
        /// One past its last byte (a SYN and a FIN count as a byte).
        seq_end: u32,
        /// Least round-trip time that was measured lately; all ones where none was.
        rtt_us: u32,
        /// TCP state.
        state: u8,
        /// Zero.
        pad: u8,
        /// Zero.
        pad2: u16,
    }
}
