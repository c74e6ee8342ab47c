//! Wait causes: what the time of a path goes to. This one table has their names, what a slice must be to have one, to whose
//! account its time goes, and what people read; `cargo xtask tables` makes docs/evidence.md's tables and the schemas' lists
//! of it.

use crate::reasons;
use crate::slices::Slice;
use wakepath_model::rows::{EndedBy, WaitRow};

/// Interrupt lines of the keyboard and mouse controller of a PC.
const INPUT_LINES: [u64; 2] = [1, 12];

/// What to think of the time in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Work was done.
    Work,
    /// It waited for something that has to take its time.
    Awaited,
    /// It could have gone on, had somebody let it.
    HeldUp,
    /// Not known.
    Unknown,
}

/// Declares the states of a slice: each with its name, its mark in a drawing, its sort, and what it means.
macro_rules! states {
    ($($name:ident = $word:literal, $mark:literal, $sort:ident, $about:literal;)*) => {
        /// What a task, or what it waited for, did during a slice.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum State { $(#[doc = $about] $name),* }

        impl State {
            /// All of them.
            pub const ALL: &[State] = &[$(State::$name),*];
            /// As answers name it.
            pub const fn name(self) -> &'static str { match self { $(State::$name => $word),* } }
            /// The character that stands for it in a drawing.
            pub const fn mark(self) -> char { match self { $(State::$name => $mark),* } }
            /// What to think of its time.
            pub const fn sort(self) -> Sort { match self { $(State::$name => Sort::$sort),* } }
            /// What it means.
            pub const fn about(self) -> &'static str { match self { $(State::$name => $about),* } }
        }
    };
}

states! {
    Running = "running", '█', Work, "it ran";
    Preempted = "preempted", '▒', HeldUp,
        "it could have run. Each task that had its processor meanwhile has a slice; otherwise the scheduler took the time. If it resumed on another processor, the tasks on its old processor are named first";
    Blocked = "task", 'w', Awaited, "it waited for another task that the path could not follow further";
    Network = "network", '~', Awaited, "a message was between two tasks: wire, queues, softirq";
    Disk = "disk", 'D', Awaited, "a disk worked";
    Timer = "timer", 'T', Awaited, "it slept until a time, and waited for nothing else";
    Lock = "lock", 'L', HeldUp, "it waited for a lock, and the holder is shown";
    Futex = "futex", 'F', Awaited, "it waited on a futex: for a lock, a condition, or work, which of these is not known";
    PageFault = "page fault", 'P', Awaited, "a page was read in";
    Input = "user input", 'U', Awaited, "it waited for a terminal, a keyboard, or another device of a person";
    Interrupt = "interrupt", 'I', Awaited, "an interrupt or softirq that is none of the above";
    Stopped = "stopped", 'S', HeldUp,
        "a signal, a debugger, or the freezer of its cgroup had stopped it. The slice says which, and the name and sender of a signal, if seen";
    Queued = "queued", 'q', HeldUp, "a request, or an answer to it, had arrived and no task had picked it up";
    Unread = "unread", 'R', HeldUp, "there was no room to send: earlier data had not been read";
    Unknown = "unknown", '?', Unknown, "not known; the reason is given";
}

/// To whose account the time of a cause goes: the service that an answer names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// The service whose task spent it.
    Own,
    /// The same; the object is whom it waited for.
    OwnWithPeer,
    /// Who waited, whatever went on after the wait.
    Waiter,
    /// The two ends of a connection.
    Between,
    /// The two ends of a connection, or whoever was called where nobody watches.
    Callee,
    /// The listener that a connection was asked from.
    Listener,
    /// The service whose task should have taken the request.
    Taker,
}

/// When a sentence is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// Another process is known to have kept it.
    ByAnother,
    /// Another process of the same name kept it.
    ByItsLike,
    /// Another thread of its process kept it.
    ByOwnThread,
    /// Many things kept it, none of them for half of the time.
    BySeveral,
    /// The slice has this reason.
    Because(&'static str),
    /// The callee of the connection has no port: it is reached by pipe or UNIX socket.
    WithoutPort,
}

/// A sentence for people. `{service}`, `{by}`, `{object}`, `{file}`, `{length}` (of a queue), `{call}` and `{reason}` stand for
/// what is known; with `{object|a peer}` the word after the bar stands in where it is not. A sentence of which a word is not
/// known is not said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// When it is right.
    pub when: When,
    /// Its text.
    pub text: &'static str,
}

const fn say(text: &'static str) -> Sentence {
    Sentence { when: When::Always, text }
}

const fn when(when: When, text: &'static str) -> Sentence {
    Sentence { when, text }
}

/// What the record of a wait tells by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What was done meanwhile.
    pub state: State,
    /// What it waited for, for people.
    pub object: Option<String>,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// As answers name it.
    pub name: &'static str,
    /// What it says, for docs/evidence.md.
    pub what: &'static str,
    /// How it is known, for docs/evidence.md.
    pub known_by: &'static str,
    /// Slices with one of these reasons have this cause, whatever their state.
    pub reasons: &'static [&'static str],
    /// Slices in one of these states have it, where their reason has none.
    pub states: &'static [State],
    /// What a wait tells of it that nothing else must be asked about; `None` where it is another.
    pub wait: fn(&WaitRow) -> Option<Told>,
    /// To whose account its time goes.
    pub account: Account,
    /// It is told with the request that was being served.
    pub names_request: bool,
    /// The recording itself made it: it explains nothing of the system, so it is told last.
    pub is_by_recording: bool,
    /// What people read: the first that can be said.
    pub says: &'static [Sentence],
    /// What is added to it: each that can be said.
    pub adds: &'static [Sentence],
}

/// What most rows have.
const USUAL: About = About {
    name: "",
    what: "",
    known_by: "",
    reasons: &[],
    states: &[],
    wait: |_| None,
    account: Account::Own,
    names_request: false,
    is_by_recording: false,
    says: &[],
    adds: &[],
};

macro_rules! causes {
    ($($(#[doc = $doc:literal])+ $cause:ident { $($field:ident: $value:expr),+ $(,)? })*) => {
        /// What time was spent on, or waited for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Cause { $($(#[doc = $doc])+ $cause),* }

        impl Cause {
            /// All of them.
            pub const ALL: &[Cause] = &[$(Cause::$cause),*];
            /// Its row of the table.
            pub const fn about(self) -> &'static About {
                match self { $(Cause::$cause => const { &About { $($field: $value,)+ ..USUAL } }),* }
            }
        }
    };
}

impl Cause {
    /// As answers name it.
    pub const fn name(self) -> &'static str {
        self.about().name
    }

    /// What a slice was spent on, by itself: as its reason says, else as its state.
    pub fn of(s: &Slice) -> Cause {
        let of_state = || Cause::ALL.iter().copied().find(|c| c.about().states.contains(&s.state));
        s.reason.and_then(Cause::of_reason).or_else(of_state).unwrap_or(Cause::Unknown)
    }

    /// What a wait tells by itself.
    pub fn told(w: &WaitRow) -> Option<Told> {
        Cause::ALL.iter().find_map(|c| (c.about().wait)(w))
    }

    /// The cause that a reason makes, where it makes one.
    pub fn of_reason(reason: &str) -> Option<Cause> {
        Cause::ALL.iter().copied().find(|c| c.about().reasons.contains(&reason))
    }
}

causes! {
    /// Own processor time.
    Cpu {
        name: "cpu",
        what: "the service ran",
        known_by: "it had a processor. Busy waiting is reported as such",
        states: &[State::Running],
        names_request: true,
        says: &[
            when(When::Because(reasons::BUSY), "{service} polling without a pause (busy waiting)"),
            say("{service} computing"),
        ],
    }
    /// Ready, and the processor was another's.
    Preempted {
        name: "preempted",
        what: "it was ready and another task had the processor",
        known_by: "its parts name the other task, if one was seen",
        states: &[State::Preempted],
        says: &[
            when(When::BySeveral, "{service} ready to run while others had the processor"),
            when(When::ByItsLike, "{service} ready to run while another {by} had the processor"),
            say("{service} ready to run while {by} had the processor"),
            say("{service} ready to run and not yet on a processor"),
        ],
    }
    /// Ready, and its cgroup had used up its CPU quota.
    Quota {
        name: "quota",
        what: "it could run, and its cgroup had used up its CPU quota",
        known_by: "the kernel's own count when it took the processor away",
        reasons: &[reasons::QUOTA],
        says: &[say("{service} held back by the CPU quota of its cgroup")],
    }
    /// A lock that another task held.
    Lock {
        name: "lock",
        what: "it waited for a lock",
        known_by: "a futex whose holder is known, by its memory or because the waker had waited for it; CPython's interpreter lock; flock, fcntl, or semop; a mutex of Go's (`--runtimes=go-waits`); a `latch`, such as PostgreSQL's row locks; a reply that says so (40P01, 55P03). `meanwhile` says what the holder did",
        states: &[State::Lock],
        account: Account::Waiter,
        names_request: true,
        says: &[
            when(When::Because(reasons::HELD_INSIDE), "{service} waiting for a lock that another of its goroutines held"),
            when(When::ByOwnThread, "{service} waiting for a lock that another of its threads held"),
            when(When::ByItsLike, "{service} waiting for another {by} that holds a lock"),
            say("{service} waiting for a lock that {by} holds"),
            say("{service} waiting for a lock"),
        ],
        adds: &[say(", in {call}"), say(" ({object})")],
    }
    /// Other logical tasks of its process, for which no thread of it waited.
    Inside {
        name: "inside",
        what: "one of its goroutines waited for another one: at a channel, a condition, or a wait group",
        known_by: "probes in Go's runtime (`--runtimes=go-waits`)",
        reasons: &[reasons::INSIDE, reasons::TIMED_INSIDE],
        account: Account::Waiter,
        names_request: true,
        says: &[
            when(When::Because(reasons::TIMED_INSIDE), "{service} waiting for {object|something}, until a timer or its runtime resumed it"),
            say("{service} waiting for {object|something} between its goroutines"),
        ],
    }
    /// A collector of garbage had stopped it.
    Gc {
        name: "gc",
        what: "it was stopped while garbage was collected",
        known_by: "a JVM's `VM Thread` or collector resumed it, and threads with a collector's name ran meanwhile",
        account: Account::Waiter,
        says: &[say("{service} stopped while its garbage was collected")],
    }
    /// A JVM had stopped it.
    Safepoint {
        name: "safepoint",
        what: "its JVM stopped it, or it waited for what the JVM does while all threads are stopped",
        known_by: "the JVM's `VM Thread` resumed it, and no collector's thread is known to have run. A serial collector runs in the `VM Thread` itself",
        account: Account::Waiter,
        says: &[say("{service} stopped by the VM thread of its JVM (a safepoint; perhaps a collection of garbage)")],
    }
    /// Bytes in flight, or room to send them.
    Network {
        name: "network",
        what: "bytes were in flight",
        known_by: "the time between a send and its receipt, without a retransmission; or a full send buffer while no task read",
        states: &[State::Network],
        account: Account::Between,
        says: &[
            when(When::WithoutPort, "on the way {object} (a pipe or UNIX socket)"),
            say("on the network {object}"),
            say("on the network to or from {service}"),
        ],
    }
    /// Bytes that were lost in transit, until they were sent again.
    Loss {
        name: "packet_loss",
        what: "bytes were lost in transit",
        known_by: "until TCP sent them again",
        reasons: &[reasons::LOSS, reasons::SYN_LOST],
        account: Account::Between,
        says: &[
            say("lost on the network {object}, until TCP sent it again"),
            say("lost on the network to or from {service}, until TCP sent it again"),
        ],
    }
    /// Bytes that TCP held back for an acknowledgement that the other end delayed.
    DelayedAck {
        name: "delayed_ack",
        what: "bytes were held back for an acknowledgement",
        known_by: "TCP held bytes back although the receiver had room, because earlier bytes were not acknowledged (Nagle's algorithm)",
        reasons: &[reasons::NAGLE],
        account: Account::Between,
        says: &[
            say("held back {object} for a delayed acknowledgement (Nagle's algorithm; TCP_NODELAY ends it)"),
            say("held back to or from {service} for a delayed acknowledgement (Nagle's algorithm; TCP_NODELAY ends it)"),
        ],
    }
    /// Bytes that TCP held back for an acknowledgement that was late or lost.
    LateAck {
        name: "late_ack",
        what: "bytes were held back for an acknowledgement that was late or lost",
        known_by: "the same, for longer than an end delays an acknowledgement, or on a connection where TCP sent something again",
        reasons: &[reasons::NAGLE_LATE],
        account: Account::Between,
        says: &[
            say("held back {object} for an acknowledgement that was late or lost (Nagle's algorithm; TCP_NODELAY ends it)"),
            say(
                "held back to or from {service} for an acknowledgement that was late or lost (Nagle's algorithm; \
                 TCP_NODELAY ends it)",
            ),
        ],
    }
    /// A listener without room for another connection.
    AcceptQueue {
        name: "accept_queue",
        what: "a connection found no room in its listener's queue",
        known_by: "the SYN or the client's first bytes were sent again, or the client gave up; and the listener's queue was full when it was last checked",
        reasons: &[reasons::ACCEPT_QUEUE, reasons::HANDSHAKE_DROPPED],
        account: Account::Listener,
        says: &[say("waiting for room in the accept queue of {service}")],
        adds: &[say(" ({length})")],
    }
    /// Somebody who did not read what was sent: there was no room for more.
    SlowReader {
        name: "slow_reader",
        what: "there was no room to send, because earlier data had not been read",
        known_by: "the receiver's window held bytes back; or a pipe or UNIX socket was full until a task read from it. `meanwhile` says what the reader did",
        states: &[State::Unread],
        account: Account::Waiter,
        says: &[say("{service} waiting for room in {object|a connection} that {by|the client} reads slowly")],
    }
    /// A client that sends its request slowly.
    SlowSender {
        name: "slow_sender",
        what: "the rest of the request had not come",
        known_by: "it waited for bytes on the connection on which the request's head had come, and the sender is not recorded",
        reasons: &[reasons::UNSENT],
        account: Account::Waiter,
        says: &[say("{service} waiting for its client to send the rest of the request")],
    }
    /// A name server's answer.
    Dns {
        name: "dns",
        what: "it waited for a name server",
        known_by: "the protocol, port 53, or the name of a local resolver. Whatever the name server did counts as this",
        account: Account::Waiter,
        says: &[say("{service} waiting for the DNS name server")],
        adds: &[
            say(", {object}"),
            when(When::Because(reasons::NO_ANSWER), ", which did not answer before the timeout"),
        ],
    }
    /// Something that was to happen elsewhere.
    Event {
        name: "event",
        what: "it asked to wait until something happens: an item of a list, a record of a topic",
        known_by: "its command (`BLPOP`, `XREAD`, Kafka's fetch …), whatever the server did meanwhile",
        account: Account::Waiter,
        says: &[
            say("{service} waiting for what {object} was to bring"),
            say("{service} waiting until something happened elsewhere"),
        ],
    }
    /// A disk.
    Disk {
        name: "disk",
        what: "it waited for a disk",
        known_by: "a block request ended the wait; fsync and similar calls; or another task of its service, for which it waited, waited for a disk",
        states: &[State::Disk],
        account: Account::Waiter,
        says: &[
            when(When::ByAnother, "{service} waiting for the disk (through {by})"),
            say("{service} waiting for the disk"),
        ],
        adds: &[say(", in {call}"), say(" ({file})")],
    }
    /// Asleep until a time.
    Timer {
        name: "timer",
        what: "it slept until a time",
        known_by: "a timer ended a wait that was for nothing else",
        reasons: &[reasons::LOOP_TIMER],
        states: &[State::Timer],
        names_request: true,
        says: &[
            when(When::Because(reasons::LOOP_TIMER), "{service} waiting inside its event loop until a timer: asleep, or until \
                     another request was done"),
            say("{service} sleeping until its own timer"),
        ],
        adds: &[say(", in {call}")],
    }
    /// A futex on which another task woke it, or nobody before its timeout: a lock, a condition, work, or a sleep of its runtime.
    Futex {
        name: "futex",
        what: "it waited on a futex, until another task woke it or until its timeout",
        known_by: "a lock, a condition, work to do, or a sleep of its runtime: which of these is not known. `meanwhile` says what the waking task did",
        reasons: &[reasons::NOT_SIGNALLED],
        states: &[State::Futex],
        account: Account::Waiter,
        names_request: true,
        says: &[
            when(When::Because(reasons::NOT_SIGNALLED), "{service} waiting on a futex until its timeout, with no \
                     wake-up: a lock, a condition, or a sleep of its runtime"),
            when(When::ByOwnThread, "{service} waiting to be woken by another of its threads"),
            when(When::ByItsLike, "{service} waiting to be woken by another {by}"),
            say("{service} waiting to be woken by {by}"),
            say("{service} waiting to be woken"),
        ],
    }
    /// Somebody who did not answer before the timeout.
    Unanswered {
        name: "unanswered",
        what: "its peer did not answer before the timeout",
        known_by: "the connection on which it had last sent, and which it used next; or a connection that was not established when the program or the kernel gave up",
        reasons: &[reasons::NO_ANSWER, reasons::NOT_CONNECTED],
        account: Account::OwnWithPeer,
        says: &[
            when(When::Because(reasons::NOT_CONNECTED), "{service} waiting for a connection to {object|a peer}, where nobody \
                     answered before the timeout"),
            say("{service} waiting for {object|a peer}, which did not answer before the timeout"),
        ],
    }
    /// A signal, a debugger or the freezer of its cgroup had stopped it.
    Stopped {
        name: "stopped",
        what: "a signal, a debugger or the freezer of its cgroup had stopped it",
        known_by: "the kernel's state of the task; `by` names the sender of the signal",
        states: &[State::Stopped],
        says: &[say("{service} stopped by {object|a signal}")],
        adds: &[say(" from {by}")],
    }
    /// The request was there, and no task had taken it up.
    Queue {
        name: "queue",
        what: "the request, or an answer to it, had arrived and no task had picked it up",
        known_by: "the time from the arrival of its first byte until a task read it. The object says what that task's thread did instead, and for which request, if known",
        states: &[State::Queued],
        account: Account::Taker,
        says: &[
            when(When::Because(reasons::NO_DESCRIPTOR), "waiting for {service} to accept its connection, for which no file descriptor was left"),
            when(When::Because(reasons::OTHERS_ANSWERED), "waiting until {service} had answered another request, as for a connection of a pool"),
            say("waiting to be picked up by {service}"),
        ],
        adds: &[say(", which was {object}")],
    }
    /// Nobody took what was asked for.
    NotTaken {
        name: "not_taken",
        what: "its connection had not been accepted, or what it sent had not been read",
        known_by: "the process at the other end is recorded and did neither until the caller gave up",
        reasons: &[reasons::NOT_ACCEPTED, reasons::NOT_ACCEPTED_STOPPED, reasons::NOT_TAKEN, reasons::NOT_TAKEN_STOPPED],
        account: Account::Listener,
        says: &[
            when(When::Because(reasons::NOT_ACCEPTED), "waiting for {service} to accept the connection"),
            when(When::Because(reasons::NOT_ACCEPTED_STOPPED), "waiting for {service}, which was stopped, to accept the connection"),
            when(When::Because(reasons::NOT_TAKEN_STOPPED), "waiting for {service}, which was stopped, to read what was sent"),
            say("waiting for {service} to read what was sent"),
        ],
    }
    /// The recording itself: inputs were handed over one at a time.
    Isolation {
        name: "isolation",
        what: "the recording held it back",
        known_by: "`wakepath run --isolate` hands over one input at a time. How long the input would have waited without that is not known. Always reported last, and never as the cause; `--observe` changes nothing",
        account: Account::Taker,
        is_by_recording: true,
        says: &[say("{service} held back by the recording, which handed it one input at a time (isolation)")],
    }
    /// A page was read in.
    PageFault {
        name: "page_fault",
        what: "a page was read in",
        known_by: "a block request ended a wait outside of system calls. With `--faults`, the object is the file",
        states: &[State::PageFault],
        says: &[
            say("{service} reading pages of {file} from the disk (page faults)"),
            say("{service} reading pages from the disk (page faults)"),
        ],
    }
    /// Another task, which the path could not follow further.
    Task {
        name: "task",
        what: "it waited for another task that the path could not follow",
        known_by: "the row's reason",
        states: &[State::Blocked],
        says: &[say("{service} waiting for {by}"), say("{service} waiting for another task")],
        adds: &[say(", in {call}")],
    }
    /// A service that nobody watches.
    Unwatched {
        name: "unwatched",
        what: "it waited for a service that is not recorded",
        known_by: "record there too",
        reasons: &[reasons::NOT_WATCHED, reasons::NO_PEER, reasons::NO_PACKET, reasons::NO_READER],
        account: Account::Callee,
        says: &[
            say("{by} waiting for {service}, which is not recorded"),
            say("waiting for {service}, which is not recorded"),
        ],
    }
    /// A person.
    Input {
        name: "input",
        what: "it waited for a person",
        known_by: "the interrupt line of the keyboard or mouse",
        states: &[State::Input],
        wait: |w| {
            let is_one = w.cause == EndedBy::Irq && INPUT_LINES.contains(&w.object);
            is_one.then_some(Told { state: State::Input, object: None })
        },
        says: &[say("{service} waiting for a person")],
    }
    /// An interrupt.
    Interrupt {
        name: "interrupt",
        what: "it waited for an interrupt that is none of the above",
        known_by: "the interrupt's line",
        states: &[State::Interrupt],
        wait: |w| {
            let object = match w.cause {
                EndedBy::Irq => interrupt(w.object),
                EndedBy::Softirq => format!("softirq {}", softirq(w.object)),
                _ => return None,
            };
            Some(Told { state: State::Interrupt, object: Some(object) })
        },
        says: &[say("{service}: interrupts")],
    }
    /// Not known.
    Unknown {
        name: "unknown",
        what: "not known",
        known_by: "the row's reason",
        states: &[State::Unknown],
        says: &[say("not known, in {service}: {reason}"), say("not known, in {service}")],
    }
}

/// A hardware interrupt: its line, or the vector of one that the processor itself or another one makes.
fn interrupt(object: u64) -> String {
    let vector = object & !EndedBy::VECTOR;
    if vector == object { format!("irq {object}") } else { format!("interrupt vector {vector}") }
}

/// A softirq by its kernel's name.
pub(crate) fn softirq(vector: u64) -> &'static str {
    const NAMES: [&str; 10] =
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    usize::try_from(vector).ok().and_then(|v| NAMES.get(v)).copied().unwrap_or("?")
}

#[cfg(test)]
mod tests;
