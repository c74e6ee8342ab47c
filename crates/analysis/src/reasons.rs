//! Why a slice is not known, or not followed further: the text that stands in answers, and what docs/evidence.md says of it.

macro_rules! reasons {
    ($($(#[$m:meta])* $name:ident = $text:literal, $explained:literal;)*) => {
        $($(#[$m])* pub const $name: &str = $text;)*
        /// All of them, each with what it means and what to do.
        pub const ALL: &[(&str, &str)] = &[$(($name, $explained)),*];
    };
}

reasons! {
    /// The wait had not ended.
    OPEN = "it was still going on when recording stopped",
        "a hang, or the recording was short: `wakepath open` lists such waits";
    /// The record says nothing of what woke it.
    NO_CAUSE = "no wake-up was recorded",
        "its place in the kernel has no hook, or its record was lost";
    /// A kernel thread that sleeps between two pieces of work.
    NO_WORK = "an idle kernel worker: the task that woke it gave it work",
        "nothing was slow: it slept until a disk's request ended and left work for it";
    /// The waker has no name.
    NO_WAKER = "the task that woke it is not in the recording",
        "the waker started and ended without being recorded. `wakepath info` says whether records are missing";
    /// The socket's other end is not watched.
    NO_PEER = "the other end of the connection is not recorded",
        "record the other host too, and `wakepath merge` the folders";
    /// The other end is known and its send is not there.
    NO_SEND = "the other end is on a recorded host, but what it sent was not recorded",
        "its process is not selected, operations were lost, or the bytes bypassed the socket hooks (splice, kernel TLS)";
    /// A client that sends its request in parts.
    UNSENT = "its client had not sent the rest of the request",
        "the request's head had come, and its body came late: a slow client or network";
    /// The holder of a lock has nothing to do until its client sends.
    HOLDERS_CLIENT = "it held the lock while it waited for its client: in a database, a session that is idle in a transaction",
        "the client keeps the lock between two requests: end the transaction sooner, or let the server end such sessions \
         (PostgreSQL: `idle_in_transaction_session_timeout`). Record the client too to see what it did";
    /// The packet was received from a host that is not recorded.
    NO_PACKET = "the packet's sending was not recorded",
        "import the trace of the sending host too. If you did, that trace lost packets";
    /// A packet sent from an interrupt without a packet after it.
    NO_TRIGGER = "the packet was sent from an interrupt, and not in reply to another packet",
        "the kernel sent it by itself, such as a window update or a reset";
    /// A retransmission or delayed acknowledgement.
    BY_TIMER = "a timer sent the packet: a retransmission or a delayed acknowledgement",
        "often a lost packet: look at the network between the two hosts";
    /// Which socket it was is not known.
    NO_SOCKET = "the network woke it; which connection it was is not known",
        "the record names only the network, and the task used no connection afterward";
    /// A loop that serves others too went on with a request by a timer.
    LOOP_TIMER = "a timer resumed it in an event loop that also serves other requests",
        "the request slept, or a timer checked again and again for something inside the program, such as what another \
         request fetches into a cache (nginx's `proxy_cache_lock`)";
    /// The handshake of a connection.
    CONNECTING = "the connection was being established",
        "the other kernel and the network took this time";
    /// Nobody answered until somebody gave up.
    NOT_CONNECTED = "nobody answered the connection attempt before the timeout",
        "a firewall, a wrong address, a host that is down, or a listener without room. The object says how often the first \
         packet (SYN) was sent";
    /// Nobody answered the first attempt, and who made room for a later one is not known.
    UNANSWERED = "the connection was not answered at first: its listener's queue was full, or a packet was lost",
        "it took longer than TCP's first timeout (1 s), and no accept was seen meanwhile: check the listener's backlog, or \
         record its process too";
    /// A listener without room.
    ACCEPT_QUEUE = "the accept queue of the listener was full: the kernel retries after 1 s, 3 s, 7 s",
        "the listening program did not accept fast enough. Use more workers or a longer backlog (`listen`, `net.core.somaxconn`). The object gives the length of the queue";
    /// The end of a handshake, and what followed it, for which a listener had no room.
    HANDSHAKE_DROPPED = "the accept queue of the listener was full: its kernel dropped the end of the handshake, until TCP sent it again",
        "for the client, the connection is established, but what it sends is dropped until the listening program accepts others. \
         Use more workers or a longer backlog";
    /// A SYN that was lost.
    SYN_LOST = "the connection attempt was repeated: its first packet, or the answer, was lost, or the listener's \
                queue had no room",
        "it took longer than TCP's first timeout (1 s), and the listener's queue is not known to have been full: look at the network";
    /// A segment that was sent again.
    LOSS = "TCP sent it again: the first time it, or its acknowledgement, was lost",
        "look at the network between the two ends";
    /// A segment that was sent again, though what came may have been the first.
    SENT_AGAIN = "TCP sent it again, but what came may have been the first: it was late, or lost",
        "the path between the two ends is slower than TCP expected, such as a narrow link with a queue";
    /// Nagle's algorithm.
    NAGLE = "TCP held it back until the other end acknowledged earlier bytes: Nagle's algorithm, and that end delays it",
        "the program wrote a message in several small pieces: write it at once, or set TCP_NODELAY";
    /// Nagle's algorithm, where nothing says that the other end is to blame.
    NAGLE_LATE = "TCP held it back until the other end acknowledged earlier bytes (Nagle's algorithm), and the acknowledgement was late, or lost",
        "packets were sent again on the connection, or no end delays an acknowledgement for so long: look at the network; TCP_NODELAY ends the hold";
    /// A window that nobody opens.
    NOT_READ = "the other end's buffer was full: its reader is slow, and is not recorded",
        "the receiver's window held bytes back: the client reads slowly, or its network's buffers are full";
    /// A network that takes its time.
    SENT_SLOWLY = "the send buffer was full while the network drained it",
        "the congestion window or the device held bytes back, not the receiver: the network is slower than the writer";
    /// Room in the send buffer, which no reader is known to have made.
    SEND_ROOM = "the send buffer was full, and no read was seen at the other end meanwhile",
        "bytes in flight had to arrive first, or the reader's calls bypass the hooks (splice, kernel TLS)";
    /// Room in the send buffer, which a reader may have made.
    NO_READER = "the send buffer was full, and the reader at the other end was not recorded",
        "the reader or the network was slower than the writer: record the reader too";
    /// A futex on which nobody woke the task in time.
    NOT_SIGNALLED = "nothing woke it on the futex before its timeout: the holder of what it waited for is not known",
        "a lock, a condition without a signal, or a sleep of its runtime (Java and Go sleep this way). `record --stacks` shows where in the program";
    /// An answer that did not come in time.
    NO_ANSWER = "no answer came before the timeout",
        "it had sent a request, and gave up or retried: look at the other end";
    /// An uninterruptible sleep of the kernel's.
    HELD_UP = "the kernel delayed it, as it does when writes or memory exceed a limit",
        "such as throttled writes to a slow disk, or a cgroup's memory.high";
    /// An alarm ended a wait that had no timeout.
    ALARM = "its alarm ended the wait, and what it waited for had not come: often a lock",
        "its own alarm signal ended a wait without a timeout, as PostgreSQL's `lock_timeout` does. During such a wait, `pg_blocking_pids()` names the holder";
    /// A loop that went on with a request when it had taken another's input.
    OTHERS = "its loop resumed it after another request's input: what it waited for is not known",
        "an event loop got several inputs at one wake-up; `run --isolate` hands over one at a time";
    /// A loop replied to another request after it had taken this one.
    EITHERS = "its loop acted for another request just before, or next: for which of the two it computed is not known",
        "an event loop had taken both, and may compute for either";
    /// A logical task that ran on no thread.
    PARKED = "its logical task ran on no thread: it was parked (for a channel, a lock, a timer) or ready",
        "a goroutine or virtual thread waits inside its runtime (for a channel, a lock, a timer), and no record shows for what";
    /// A logical task that was ready, and no thread ran it.
    NO_THREAD = "its logical task was ready, and no thread of its runtime had picked it up yet",
        "the runtime's threads ran others. Use more processors, a larger `GOMAXPROCS`, or shorter computations";
    /// A lock inside a program, for which no thread waits.
    HELD_INSIDE = "what the holder of the lock did meanwhile is not followed",
        "a logical task waited for another one of its process, which is named";
    /// A wait inside a program, for which no thread waits.
    INSIDE = "what the other logical tasks of the process did meanwhile is not followed",
        "a logical task waited for others of its process; the one that resumed it is named";
    /// A wait inside a program that no other logical task ended.
    TIMED_INSIDE = "a timer or the runtime resumed it, not another logical task",
        "a `select` or a receive with a timeout (`time.After`, a context's deadline): nothing came in time";
    /// The library vantage, alone.
    NO_KERNEL = "the preload library sees only calls: the task computed, had no processor, or waited without a call",
        "`wakepath run --kernel` distinguishes these";
    /// A signal that stops it.
    INTERRUPTED = "a signal that stopped the task interrupted the wait",
        "the wait continued after the stop";
    /// A cycle at one moment.
    CYCLE = "tasks that woke each other at the same moment",
        "their records contradict each other, so none is followed";
    /// It woke itself.
    ITSELF = "it woke itself: a signal or a timeout of its own",
        "one of its own signals or timers ran in its context";
    /// Too deep.
    DEPTH = "too many waits inside each other to follow",
        "more than 500: a very long chain of hand-overs";
    /// Too many slices.
    TOO_MANY = "too many slices to keep apart: ask for a shorter time",
        "give `--from` and `--to`";
    /// Slices that could not be kept.
    NO_ROOM = "too many slices for memory, and no room for a temporary file: set TMPDIR to a folder with room",
        "long paths are kept in a temporary file, which could not be written or read";
    /// Before the recording of that host.
    BEFORE = "its host was not being recorded yet",
        "start the recordings together";
    /// After the recording of that host.
    AFTER = "the recording of its host had ended",
        "end the recordings together";
    /// A task that is not selected, at a moment at which its waits were not recorded.
    UNRECORDED = "it is not selected, and its waits were not recorded then",
        "waits of other tasks are recorded from the first time they wake a selected one: select this task too, or use `record --all`";
    /// A task that was there before the recording and had not been seen yet.
    UNSEEN = "the task is older than the recording, and nothing that it did had been recorded yet",
        "a task that slept when the recording began is known from its first action";
    /// Before the task was made, where by whom is not known.
    UNBORN = "the task was created then; its creator is not known",
        "the parent's fork was not recorded";
    /// Losses.
    LOST = "its wait records were lost here",
        "another task was seen on its processor, so it must have waited. Use a larger `--ring-bytes`";
    /// Maybe losses.
    MAYBE_LOST = "wait records were lost meanwhile: it may have waited here",
        "waits of some task were lost at that time. Use a larger `--ring-bytes`";
    /// Busy waiting.
    BUSY = "busy waiting: it polled again and again without blocking",
        "it used the processor to wait. Use a blocking call or a longer timeout";
    /// A CPU quota.
    QUOTA = "its cgroup had used up its CPU quota",
        "the kernel stops all tasks of the cgroup until the next period. Use a larger `cpu.max`, or fewer threads";
    /// Wake-up latency.
    LATENCY = "no other task was seen on the processor",
        "an idle processor had to wake up, or a task outside the recording ran";
    /// More holders of a processor than are told apart.
    SWITCHES = "too many switches of its processor to follow",
        "other tasks were switched in a million times: ask for a shorter time";
    /// The server of a call is not watched.
    NOT_WATCHED = "the service that was called is not recorded",
        "record that host or process too. Until then the time is the caller's wait";
    /// A connection that nobody had accepted.
    NOT_ACCEPTED = "nobody had accepted the connection: it was in the queue of the listening process",
        "the listening program did something else, or hung: `wakepath waits --task` shows what. Use more workers, or a separate accept loop";
    /// The same, and the process was stopped.
    NOT_ACCEPTED_STOPPED = "nobody had accepted the connection: the listening process was stopped",
        "a signal (SIGSTOP), a debugger, or a freezer stopped it, perhaps before the recording. `kill -CONT` resumes it";
    /// A request that nobody had read.
    NOT_TAKEN = "the process at the other end had not read it",
        "that process is recorded: it did something else, or hung";
    /// The same, and the process was stopped.
    NOT_TAKEN_STOPPED = "the process at the other end had not read it: it was stopped",
        "a signal (SIGSTOP), a debugger, or a freezer stopped it, perhaps before the recording. `kill -CONT` resumes it";
    /// A connection that could not be accepted.
    NO_DESCRIPTOR = "accept failed, because its process or the host had no file descriptor left",
        "raise the limit of open files (`ulimit -n`, systemd's LimitNOFILE), open fewer connections, or fix a leak of descriptors";
    /// A slot, a connection of a pool or a lock that others' requests had.
    OTHERS_ANSWERED = "it went on when another request had been answered there",
        "a pool, a limit or a lock lets so many in at a time: raise the limit, or make those requests shorter";
    /// Nobody saw a request arrive.
    NO_ARRIVAL = "when it arrived there is not known: it was on its way, or waited to be picked up",
        "the connection is older than the recording, or the kernel (before 6.3) or the preload library does not tell when bytes arrive";
    /// A request waited for its task.
    TASK_BUSY = "the task that took it was busy with something else",
        "use more workers, or shorter work in an event loop";
}
