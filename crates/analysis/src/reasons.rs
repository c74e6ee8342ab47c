//! Why a slice is not known, or not followed further. The texts stand in answers; docs/evidence.md explains each.

macro_rules! reasons {
    ($($(#[$m:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$m])* pub const $name: &str = $text;)*
        /// All of them.
        pub const ALL: &[&str] = &[$($name),*];
    };
}

reasons! {
    /// The wait had not ended.
    OPEN = "it had not ended when the recording did";
    /// The record says nothing of what woke it.
    NO_CAUSE = "nothing was seen that woke it";
    /// The waker has no name.
    NO_WAKER = "the task that woke it is not in the recording";
    /// The socket's other end is not watched.
    NO_PEER = "nobody watches at the other end of the connection";
    /// The other end is known and its send is not there.
    NO_SEND = "the other end is on a recorded host, but what it sent was not recorded";
    /// The packet was received from a host that is not recorded.
    NO_PACKET = "the packet's sending was not recorded";
    /// A packet sent from an interrupt without a packet behind it.
    NO_TRIGGER = "the packet was sent from an interrupt, and not in answer to a packet";
    /// A retransmission or delayed acknowledgement.
    BY_TIMER = "a timer sent the packet: a retransmission or a delayed acknowledgement";
    /// Which socket it was is not known.
    NO_SOCKET = "the network woke it, for which connection is not known";
    /// The handshake of a connection.
    CONNECTING = "the connection was being established";
    /// Nobody answered the first attempt, and who made room for a later one is not known.
    UNANSWERED = "the connection was not answered at first: its listener's queue was full, or a packet was lost";
    /// A listener without room.
    ACCEPT_QUEUE = "the accept queue of the listener was full: the kernel asks again after 1 s, 3 s, 7 s";
    /// A SYN that was lost.
    SYN_LOST = "the connection was asked for again: its first packet, or the answer, was lost, or the listener's queue had no room";
    /// A segment that was sent again.
    LOSS = "TCP sent it again: the first time it, or its acknowledgement, was lost";
    /// A segment that was sent again, though what came may have been the first.
    SENT_AGAIN = "TCP sent it again, but what came may have been the first: it was late, or lost";
    /// Nagle's algorithm.
    NAGLE = "TCP held it back until the other end acknowledged earlier bytes: Nagle's algorithm, and that end delays it";
    /// A window that nobody opens.
    NOT_READ = "the other end's buffer was full: who reads there is slow, and is not recorded";
    /// A network that takes its time.
    SENT_SLOWLY = "the send buffer was full while the network took what was in it";
    /// Room in the send buffer, which no reader is known to have made.
    SEND_ROOM = "the send buffer was full, and no read was seen at the other end meanwhile";
    /// Room in the send buffer, which a reader may have made.
    NO_READER = "the send buffer was full, and who reads at the other end was not recorded";
    /// A futex on which nobody woke the task in time.
    NOT_SIGNALLED = "nobody woke it on the futex before its time-out: who held what it waited for is not known";
    /// An answer that did not come in time.
    NO_ANSWER = "no answer came before the time-out";
    /// An uninterruptible sleep of the kernel's.
    HELD_UP = "the kernel held it up for a time, as it does where writes or memory are over a limit";
    /// An alarm ended a wait that had no time-out.
    ALARM = "its alarm ended the wait, and what it waited for had not come: often a lock";
    /// A loop that went on with a request when it had taken another's input.
    OTHERS = "its loop went on with it behind another request's input: what it waited for itself is not known";
    /// The library vantage, alone.
    NO_KERNEL = "the preload library sees calls and no processor: it computed, had no processor, or waited for what no call shows";
    /// A signal that stops it.
    INTERRUPTED = "a signal that stopped the task interrupted the wait";
    /// A cycle at one moment.
    CYCLE = "tasks that woke each other at the same moment";
    /// It woke itself.
    ITSELF = "it woke itself: a signal or a time-out of its own";
    /// Too deep.
    DEPTH = "waits inside waits beyond what is followed";
    /// Too many slices.
    TOO_MANY = "more slices than are told apart: ask for a shorter time";
    /// Slices that could not be kept.
    NO_ROOM = "more slices than memory holds, and no room for a file of them: set TMPDIR to a folder with room";
    /// Before the recording of that host.
    BEFORE = "its host was not being recorded yet";
    /// After the recording of that host.
    AFTER = "the recording of its host had ended";
    /// A task that was there before the recording and had not been seen yet.
    UNSEEN = "the task is older than the recording and had not been seen to do anything yet";
    /// Before the task was made, where by whom is not known.
    UNBORN = "the task was made then, by whom is not known";
    /// Losses.
    LOST = "its wait records were lost here";
    /// Maybe losses.
    MAYBE_LOST = "wait records were lost meanwhile, it may have waited here";
    /// Busy waiting.
    BUSY = "busy waiting: it polled again and again without blocking";
    /// A CPU quota.
    QUOTA = "its cgroup had used up its CPU quota";
    /// Wake-up latency.
    LATENCY = "no other task was seen on the processor";
    /// More holders of a processor than are told apart.
    SWITCHES = "more switches of its processor than are told apart";
    /// The server of a call is not watched.
    NOT_WATCHED = "nobody watches where the call was served";
    /// A request waited for its task.
    TASK_BUSY = "the task that took it was busy with something else";
}
