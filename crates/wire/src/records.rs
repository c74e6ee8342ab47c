//! The records.

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
        /// Return minus entry, as `short_ago` keeps it.
        entry_ago_ns: u32,
        /// Return minus arrival of the first byte then unread, as `short_ago` keeps it.
        arrived_ago_ns: u32,
        /// End of the moved range: `write_seq`/`copied_seq` after the operation, or the low bits of a byte count.
        seq_end: u32,
        /// Bytes moved, or a negative error number.
        bytes: i32,
        /// `OPF_…`.
        flags: u16,
        /// Bytes of message head that follow (after the peer's address where there is one).
        head_bytes: u16,
        /// System call number, as x86-64 numbers calls.
        syscall: u16,
        /// Processor.
        cpu: u16,
    }

    /// In whose name a thread did an operation: what its runtime calls the logical task that it runs.
    struct Logical as "wp_logical" {
        /// Its identity: a goroutine's or a virtual thread's number; when a Python context was made or first met; a Node
        /// request's number.
        key: u64,
        /// The identity of the one that made it, 0 where its runtime keeps none.
        parent: u64,
        /// When it was made, 0 where that is not known.
        born_ns: u64,
        /// One of `RUNTIME_…`.
        runtime: u8,
        /// Zero.
        pad: [u8; 7],
    }

    /// More of the bytes of an operation, after its head. They follow; where an operation has several such pieces, what lies between
    /// them is the bodies of frames.
    struct More as "wp_more" {
        /// Head; `sub` is `OP_…`, and `MORE_LAST`.
        head: Head,
        /// When the operation returned.
        ts_ns: u64,
        /// Its flow.
        flow: u64,
        /// Where they begin, counted from the operation's first byte.
        at: u32,
        /// How many there are.
        bytes: u32,
    }

    /// Where a process's runtime keeps the identity of the logical task that a thread runs. Not a record: the agent gives it to
    /// the programs, by process.
    struct Runtime as "wp_runtime" {
        /// Identities whose runtime named the thread that asked: counted by the programs.
        verified: u64,
        /// Those that named another.
        refuted: u64,
        /// Address of Python's `_PyRuntime.autoTSSkey`.
        python_key: u64,
        /// Address of the words that the helper for Node.js keeps, or the agent for the JVM; 0 where that is not there.
        helper_words: u64,
        /// Address of greenlet's type in a Python that has loaded it; 0 where that has not its probe.
        greenlets: u64,
        /// How many tasks were told to work for others that the agent for the JVM keeps; counted by the programs.
        others_told: u64,
        /// Go's numbers for why a goroutine is parked, a byte for each of `PARK_SELECT` … `PARK_WRITE_LOCK`, the least first.
        park_reasons: u64,
        /// From the thread pointer to the thread-local word that leads to it. Tokio: to the task's number; 0 until the agent
        /// found it in samples.
        tls: i32,
        /// One of `RUNTIME_…`.
        kind: u32,
        /// Offset in bytes of Go's `g.m`.
        g_m: u32,
        /// Of `m.g0`.
        m_g0: u32,
        /// Of `m.curg`.
        m_curg: u32,
        /// Of `m.procid`.
        m_procid: u32,
        /// Of `g.goid`.
        g_goid: u32,
        /// Of `g.parentGoid`.
        g_parent: u32,
        /// Of `g.sched`.
        g_sched: u32,
        /// Of net/http's `persistConn.writech`.
        conn_writes: u32,
        /// Of `hchan.recvq`, whose first word is the first waiter.
        chan_waiters: u32,
        /// Of `sudog.g`.
        waiter_g: u32,
        /// `hchan.dataqsiz`, `hchan.buf`, `hchan.elemtype` and `hchan.recvx`.
        chan_room: u32,
        /// See `chan_room`.
        chan_items: u32,
        /// See `chan_room`.
        chan_of: u32,
        /// See `chan_room`.
        chan_next: u32,
        /// Of `sudog.next`.
        waiter_next: u32,
        /// Of `sudog.elem`.
        waiter_item: u32,
        /// Bits of `MARKED_…`: which probes the program has; 0 = none.
        is_marked: u32,
        /// From the thread pointer to the C library's addresses of blocks of 32 keys' values.
        thread_values: u32,
        /// Offset in bytes of Python's `PyThreadState.context`.
        state_context: u32,
        /// Of `PyThreadState.thread_id`.
        state_thread: u32,
        /// Of `PyContext.ctx_entered`.
        context_entered: u32,
        /// Which of the process's libraries with thread-local words libjvm is, or greenlet's.
        module: u32,
        /// Offset in bytes, in its thread-local words, of the JVM's `Thread::_thr_current`, or greenlet's `ThreadState`.
        thread_word: u32,
        /// Of `Thread::_osthread`.
        thread_os: u32,
        /// Of `OSThread::_thread_id`.
        os_number: u32,
        /// Of the number of the virtual thread that a `Thread` runs.
        thread_runs: u32,
        /// Of the byte that says whether it runs one.
        thread_is_virtual: u32,
        /// Of `JavaThread::_monitor_owner_id`, 0 in versions without: the number once more.
        thread_owner: u32,
        /// How many bytes of thread-local words a program has below the thread pointer (Tokio).
        block_bytes: u32,
        /// 1: Python has loaded uvloop, and that has its probes.
        other_loop: u32,
    }

    /// A thread's local words at an operation. Not a record: the programs leave it to the agent in a map.
    struct LocalWords as "wp_local_words" {
        /// Socket cookie of the operation; 0 where the thread waited for descriptors to be ready.
        flow: u64,
        /// The process.
        tgid: u32,
        /// The thread.
        tid: u32,
        /// The last words are those directly below the thread pointer, the first is [`Runtime::block_bytes`] below it.
        words: [u64; 128],
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
        /// `FLOW_ULP`, `FLOW_NAMED`, `FLOW_PEER_NAMED`, `FLOW_FIRST`.
        marks: u8,
        /// Bytes of a UNIX name (the socket's own, else its peer's) that follow the record.
        name_bytes: u8,
        /// Bytes unread at that moment (snapshot).
        unread: u32,
        /// Local address, IPv4 in the first four bytes.
        laddr: [u8; 16],
        /// Remote address.
        raddr: [u8; 16],
        /// Where `marks` has `FLOW_FIRST`: what was acknowledged of what it sent, less how much that is: its first byte's number,
        /// or, of who connected, its SYN's.
        snd_first: u32,
        /// The same of what it received: the first byte's number, at both ends.
        rcv_first: u32,
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
        /// `rcv_nxt` where the cause is a socket; of any other wait in futex(2) [`FUTEX_LOCK`] and who held the lock; where the
        /// word told of no lock, [`FUTEX_OWN`] or 0.
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

    /// A task that is not selected had a processor for which a selected one waited.
    struct Stay as "wp_stay" {
        /// Head; `sub` is 0.
        head: Head,
        /// When that was told: when the selected one had a processor.
        ts_ns: u64,
        /// When it came onto the processor.
        from_ns: u64,
        /// When it left; where it still had it, when that was told.
        to_ns: u64,
        /// The task.
        tid: u32,
        /// Its thread group.
        tgid: u32,
        /// The processor.
        cpu: u32,
        /// Zero.
        pad: u32,
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
        /// The timeout that the caller gave, in ns; all ones = none.
        timeout_ns: u64,
        /// Thread group.
        tgid: u32,
        /// Thread.
        tid: u32,
        /// What it returned: ready descriptors, 0 = timeout, negative = error.
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
        /// Parent's thread group (fork); how it ended, as `wait` tells it, and above these 16 bits whether its memory was claimed (exit).
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

    /// The file that the first argument of a waiting system call named.
    struct WaitFile as "wp_wait_file" {
        /// The name of the folder that it is in, ended by a zero; longer ones are cut. `/` is the top of a file system.
        folder: [u8; 32],
        /// Its name, ended by a zero; longer ones are cut.
        name: [u8; 64],
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
