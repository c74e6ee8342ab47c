//! The central list of defects: whatever can be lost, damaged or not told apart, once.
//!
//! A vantage, a reader or a linker that cannot do all of its work names the defect by its id and counts it, in a
//! [`crate::rows::LossRow`] or in a [`Ledger`]. Severity, what it touches and the remedy stand here and nowhere else.

mod ledger;

pub use ledger::{DefectCount, Ledger, Location};

/// How bad a defect is for the answers that it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// As asked for, or without effect on any answer.
    Info,
    /// Answers may be incomplete.
    Warning,
    /// Answers may be wrong where they do not say that they are incomplete.
    Error,
}

impl Severity {
    /// As printed.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// What people ask for, as far as a defect can touch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    /// Requests and their paths.
    Requests,
    /// Waits and active paths.
    Waits,
    /// Critical paths.
    CriticalPath,
    /// Forecasts.
    Forecast,
    /// Rates, status, service map.
    Metrics,
    /// Names and attributes shown with the others.
    Names,
}

impl Answer {
    /// As printed.
    pub const fn name(self) -> &'static str {
        match self {
            Answer::Requests => "requests",
            Answer::Waits => "waits",
            Answer::CriticalPath => "critical path",
            Answer::Forecast => "forecast",
            Answer::Metrics => "metrics",
            Answer::Names => "names",
        }
    }
}

/// One kind of defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defect {
    /// Its id: `room-or-cause.what[.which]`.
    pub id: &'static str,
    /// How bad.
    pub severity: Severity,
    /// Which answers it may touch.
    pub touches: &'static [Answer],
    /// What happened, in one line.
    pub meaning: &'static str,
    /// What to do about it, in one sentence.
    pub remedy: &'static str,
}

macro_rules! defects {
    ($($name:ident = $id:literal, $severity:ident, $touches:expr, $meaning:literal, $remedy:literal;)*) => {
        /// Every defect's id, as a name that the compiler knows.
        pub mod id {
            $(#[doc = $meaning] pub const $name: &str = $id;)*
        }

        /// Every defect there is.
        pub const ALL: &[Defect] = &[
            $(Defect {
                id: id::$name,
                severity: Severity::$severity,
                touches: $touches,
                meaning: $meaning,
                remedy: $remedy,
            }),*
        ];
    };
}

use Answer::{CriticalPath, Forecast, Metrics, Names, Requests, Waits};

/// Every answer.
pub const EVERYTHING: &[Answer] = &[Requests, Waits, CriticalPath, Forecast, Metrics, Names];
const PATHS: &[Answer] = &[Requests, CriticalPath, Forecast, Metrics];
const MODELS: &[Answer] = &[CriticalPath, Forecast];
const WAITING: &[Answer] = &[Waits, CriticalPath, Forecast];

defects! {
    RING_OP = "loss.ring.op", Error, PATHS,
        "Operations were dropped because a ring was full.",
        "Give the recording larger rings or a narrower selection.";
    RING_FLOW = "loss.ring.flow", Error, PATHS,
        "Changes of flows were dropped because a ring was full.",
        "Give the recording larger rings or a narrower selection.";
    RING_WAIT = "loss.ring.wait", Warning, WAITING,
        "Waits were dropped because a ring was full, or a new task's state found no room.",
        "Give the recording larger rings or a narrower selection.";
    UNSELECTED_WAITS = "selection.waits", Info, &[],
        "Waits of tasks that are not selected were not recorded: these tasks neither woke a selected task nor a task that did.",
        "No action needed; `record --all` records the waits of all tasks.";
    UNSELECTED_DROPPED = "selection.dropped", Info, &[],
        "Records about tasks that are not selected found no room: a task that woke a selected task, or had its processor, may lack its name or its waits.",
        "No action needed for requests; larger rings (`--ring-bytes`) keep more of these records.";
    SWITCH = "loss.switch", Warning, WAITING,
        "A task was switched in without a recorded switch-out, so that wait has no record.",
        "No action needed: some kernels do not report every switch-out; the count bounds what is missing.";
    WAIT_END = "wait.end_computed", Info, WAITING,
        "The kernel did not report when a task was switched in: the end of its wait is computed from the processor time that it used.",
        "No action needed: such an end is late by the time that interrupts and the hypervisor took.";
    RING_POLL = "loss.ring.poll", Warning, &[Requests, Waits, CriticalPath],
        "Returns from poll were dropped because a ring was full.",
        "Give the recording larger rings or a narrower selection.";
    RING_TASK = "loss.ring.task", Error, EVERYTHING,
        "Creations, renames and ends of tasks were dropped because a ring was full.",
        "Give the recording larger rings or a narrower selection.";
    RING_MARK = "loss.ring.mark", Error, MODELS,
        "Marks of annotated programs were dropped because a ring was full.",
        "Give the recording larger rings, or annotate less often.";
    RING_FAULT = "loss.ring.fault", Warning, &[Waits],
        "Page faults were dropped because a ring was full.",
        "Give the recording larger rings, or select fewer processes: --faults is not for all of a busy host.";
    RING_OTHER = "loss.ring.other", Warning, EVERYTHING,
        "Records of another kind were dropped because a ring or channel was full.",
        "Give the recording larger rings or a narrower selection.";
    STORAGE_TASK = "loss.storage.task", Error, EVERYTHING,
        "The kernel had no room to keep a task's state, so its events were not recorded.",
        "Free memory on the host or select fewer tasks.";
    STORAGE_SOCK = "loss.storage.sock", Error, PATHS,
        "The kernel had no room to keep a socket's state, so its operations were not recorded.",
        "Free memory on the host or select fewer tasks.";
    STACK_LOST = "loss.stack", Info, &[Waits],
        "Stacks of waits were lost: their slot in the kernel's table was taken, or the table was full.",
        "Select fewer processes: the table has room for 65536 different stacks.";
    STACK_UNREADABLE = "loss.stack.unreadable", Info, &[Waits],
        "The stack of a waiting task could not be read: its memory was paged out when it blocked.",
        "No action needed: the wait itself is complete.";
    STACK_UNMAPPED = "loss.stack.unmapped", Info, &[Waits],
        "A process ended before the files of its stacks could be looked up: where in its code it waited is not known.",
        "No action needed for processes that live for milliseconds; the waits themselves are complete.";
    HEAD_FAULT = "loss.head.fault", Warning, &[Requests, Metrics],
        "The first bytes of a message could not be read from the program's memory.",
        "No action needed: the message keeps its place and loses its attributes.";
    HEAD_CUT = "loss.head.cut", Info, &[Requests, Metrics],
        "A message's head was longer than what is captured, so attributes after the cut are missing.",
        "Raise the capture length if those attributes matter.";
    STRING_OVERFLOW = "loss.string.cut", Info, &[Names],
        "A name, path or command line was longer than its field and was cut.",
        "No action needed: only the shown name is shorter.";
    INTERNER = "loss.interner", Warning, &[Names, Metrics],
        "There are more distinct strings than a recording can hold; the rest are shown as an ellipsis.",
        "Check the path templates: an identifier may have been left in them.";
    WORDS_FORGOTTEN = "words.forgotten", Info, &[Names],
        "There are more distinct words than can be remembered until they recur: some that recur late are shown as {value}.",
        "No action needed: paths or statements hold very many values; the requests themselves are complete.";
    WORDS_FULL = "words.full", Info, &[Names, Metrics],
        "There are more distinct texts with words that have not recurred than a recording can hold: those words stay {value}.",
        "No action needed: paths or statements hold very many values; the requests themselves are complete.";
    BPF_RECURSION = "loss.bpf.recursion", Warning, EVERYTHING,
        "The kernel skipped a probe because one was already running on that processor.",
        "No action needed: the count bounds what is missing.";
    EXPORT_UNDELIVERED = "export.undelivered", Info, &[],
        "`--otlp` could not deliver spans to the collector during the recording.",
        "Send them again: `wakepath export DIR --to otlp --endpoint URL`; the ids are the same, so nothing appears twice.";
    EXPORT_BEHIND = "export.behind", Info, &[],
        "`--otlp` left out parts of the recording (in milliseconds), because sending could not keep up.",
        "Export the folder: `wakepath export DIR --to otlp --endpoint URL`.";
    EXPORT_TOO_LONG = "export.too_long", Info, &[],
        "Requests took longer than `--otlp` waits, so they were not sent during the recording.",
        "Export the folder: `wakepath export DIR --to otlp --endpoint URL`.";
    BPF_MAP_FULL = "loss.bpf.map_full", Error, EVERYTHING,
        "An entry did not fit into a map of the kernel programs.",
        "Give the recording larger maps or a narrower selection.";
    LIBRARY_NO_SLOT = "library.no_slot", Error, EVERYTHING,
        "A process under the preload library, or a new thread, found no free slot in the shared memory, so it was not recorded.",
        "Record with more --slots, or give /dev/shm more room.";
    LIBRARY_TABLE_FULL = "loss.storage.library", Error, PATHS,
        "The preload library's table of descriptors or connections was full, so operations were not recorded.",
        "Record this process by the kernel vantage, whose tables are larger.";
    LIBRARY_DESCRIPTOR = "library.descriptor", Warning, PATHS,
        "The preload library could not determine what a descriptor is, and ignored it.",
        "Record by the kernel vantage too if connections are missing.";
    LIBRARY_RACE = "library.race", Warning, PATHS,
        "Two threads read one connection at the same time, so the preload library isolated nothing there.",
        "No action needed: such inputs say that they were not isolated.";
    LIBRARY_IO_URING = "library.io_uring", Error, PATHS,
        "A program under the preload library uses io_uring, whose operations the library does not see.",
        "Record it by the kernel vantage, which sees io_uring.";
    LIBRARY_TLS = "library.tls_no_descriptor", Warning, &[Requests, Metrics],
        "A TLS session is on no descriptor (a memory BIO), so its plaintext belongs to no connection.",
        "No action needed: its messages stay encrypted.";
    LIBRARY_NOT_ISOLATED = "library.not_isolated", Info, PATHS,
        "Inputs were handed over together, so the isolation rule does not apply to them.",
        "Record with --isolate; if that was given, these could not be separated.";
    LIBRARY_NOT_LOADED = "library.not_loaded", Warning, EVERYTHING,
        "A program cannot load the library: it is static, privileged, a Go program, linked to another C library, or limited to too little address space.",
        "Record it by the kernel vantage (`wakepath record`, or `wakepath run --kernel`).";
    RECORD_CODE = "record.unknown_code", Error, PATHS,
        "A record has a number that this version does not know: an operation, state or cause is missing.",
        "Use kernel programs, preload library, and wakepath of the same version; if they are, report it.";
    LIBRARY_SHARED_FLOW = "library.shared_flow", Warning, PATHS,
        "A connection went from one process to another in the middle, so its bytes could not be numbered.",
        "Record by the kernel vantage, which numbers bytes in the kernel.";
    LIBRARY_DEEPBIND = "library.deepbind", Warning, PATHS,
        "A program loaded a plug-in with RTLD_DEEPBIND: the plug-in's calls bypass the preload library.",
        "Record with --kernel too, which sees such calls, if the plug-in has connections of its own.";
    GUEST_TYPES = "guest.no_types", Error, EVERYTHING,
        "The guest's kernel does not describe its types (BTF), or lacks one that is needed, so nothing was recorded.",
        "Record a guest whose kernel has BTF (CONFIG_DEBUG_INFO_BTF), and whose processor model needs no page-table isolation (`-cpu max`, or `pti=off`).";
    GUEST_UNREAD = "guest.unreadable", Error, PATHS,
        "The arguments of a guest's system call could not be read from its memory, so the call is missing.",
        "Give the guest a processor model without page-table isolation (`-cpu max`), or `pti=off` on its kernel's command line.";
    GUEST_CALLS_32 = "guest.compat_calls", Error, PATHS,
        "A 32-bit program of the guest made system calls, which are not decoded.",
        "No remedy: calls of 32-bit programs are not decoded.";
    GUEST_IO_URING = "guest.io_uring", Error, PATHS,
        "A program of the guest set up io_uring, whose operations were not recorded.",
        "Record inside the guest by the kernel vantage, which sees io_uring.";
    GUEST_TABLE_FULL = "loss.storage.guest", Error, PATHS,
        "The guest had more connections open at once than the plugin keeps, so operations were not recorded.",
        "Record for a shorter time, or fewer services in one guest.";
    SNAPSHOT = "loss.snapshot", Warning, &[Requests, Names, Metrics],
        "A part of the state at the start could not be read.",
        "Run the recording with the rights to read every selected process.";
    PACKET_DROP = "loss.packet", Error, PATHS,
        "The capture dropped packets.",
        "Give the capture a larger buffer or a narrower filter.";
    NET_MALFORMED = "net.malformed", Warning, PATHS,
        "A packet's headers break their format's rules, so it was left out.",
        "Look at the capture for damage; a mirror or a device that cuts packets wrongly does this too.";
    NET_CUT = "net.headers_cut", Error, PATHS,
        "A packet was cut inside its outer headers, so it was left out.",
        "Capture more bytes of each packet: tunnels need some 50 bytes each.";
    NET_TOO_DEEP = "net.too_deep", Warning, PATHS,
        "A packet has more nested tunnels and tags than are decoded, and was left out.",
        "If that nesting is intended, report it with the capture.";
    NET_FRAGMENT = "net.fragments_missing", Warning, PATHS,
        "Fragments of a datagram are missing or contradict each other; at most its first fragment is known.",
        "Capture where all fragments pass, or find out where fragments are lost.";
    NET_LINK = "net.link_unknown", Error, PATHS,
        "Packets of an unknown link type were left out.",
        "Capture on an Ethernet or IP interface, or report the number that the file gives.";
    NET_GAP = "net.bytes_missing", Warning, PATHS,
        "Bytes of a stream were not captured.",
        "Give the capture a larger buffer or a narrower filter, or mirror all of the flow's packets.";
    NET_PAYLOAD_CUT = "net.payload_cut", Info, PATHS,
        "The packets of a flow were only partly captured; messages beyond that are not seen.",
        "Capture more bytes of each packet if messages are missing.";
    NET_DUPLICATE = "net.duplicate", Info, &[],
        "A packet was captured twice and counted once.",
        "No action needed; mirroring only one of the two ports costs less.";
    NET_OVERLAP = "net.overlap_differs", Warning, PATHS,
        "A segment repeats bytes with different contents; the first ones were used.",
        "Look for a middlebox that rewrites segments, or for a deliberate attack.";
    NET_OUT_OF_WINDOW = "net.out_of_window", Info, &[],
        "A segment's sequence numbers do not fit its connection, so its bytes were left out.",
        "If there are many, look for damage or forged packets.";
    NET_HELD_LIMIT = "net.held_limit", Warning, PATHS,
        "Too many segments waited for missing bytes, so the missing bytes were given up.",
        "Give the sniffer more memory for held segments, or look for the capture's losses.";
    NET_FLOWS_LIMIT = "net.flows_limit", Warning, PATHS,
        "There were more flows at once than can be followed: the one that was silent longest was dropped.",
        "Narrow the filter, or let the sniffer remember more flows.";
    NET_OPEN_LIMIT = "net.open_limit", Warning, PATHS,
        "More requests of one flow waited for replies than can be remembered.",
        "No action needed: replies to those beyond the limit are shown without their request.";
    NET_UNPAIRED = "net.pairing_unsure", Warning, PATHS,
        "A request or a reply was left alone: its connection began before the capture, or bytes were missing, and \
         nothing says which belong together.",
        "Begin the capture before the connections, or look for its losses.";
    NET_TIME = "net.time_jumps", Warning, PATHS,
        "A packet's time was hours or years away from its neighbors', so it got the time of the packet before it.",
        "Look for damage in the capture, or for captures that were concatenated in the wrong order.";
    NET_URGENT = "net.urgent", Info, &[Requests, Metrics],
        "A stream has urgent data, which its reader may receive separately.",
        "No action needed, unless later messages of the flow are malformed.";
    FORWARD_LOST = "forward.lost", Error, PATHS,
        "Rows that a sniffer forwarded did not arrive: datagrams were lost in transit, or the receiver was too slow.",
        "Forward with --forward-by tcp, or find out where datagrams get lost.";
    FORWARD_ROOM = "forward.no_room", Error, PATHS,
        "Rows found no room at the sniffer while its collector was unreachable or too slow.",
        "Give the sniffer a larger --forward-buffer, or keep the collector reachable.";
    FORWARD_BEFORE = "forward.before", Info, &[Requests, Metrics],
        "A sniffer had sent rows before the first one that arrived: perhaps nothing was listening then.",
        "Start the collector before its sniffers, or forward with --forward-by tcp.";
    FORWARD_REFUSED = "forward.refused", Error, PATHS,
        "Frames were refused: too many senders connected at once, or they did not identify themselves.",
        "Find out who sends (the collector prints the addresses), or start another collector.";
    TRACE_LOST = "loss.trace.events", Error, EVERYTHING,
        "The tracer of an imported trace dropped events because its buffers were full.",
        "Trace again with more or larger buffers, or with fewer kinds of events.";
    IMPORT_ACROSS_LOSS = "import.wait_across_loss", Warning, WAITING,
        "Events were lost during a wait, so its cause is given as unknown.",
        "Trace again with more or larger buffers.";
    IMPORT_BEGAN_BEFORE = "import.wait_began_before", Info, WAITING,
        "A wait began before the imported trace; it counts from the start of the trace.",
        "Start the trace earlier if those waits matter.";
    IMPORT_SWITCH_UNSEEN = "import.switch_unseen", Warning, WAITING,
        "A task left or took a processor without an event that says so; its wait there is given as unknown.",
        "Check the trace for lost events and for a filter.";
    IMPORT_BACKWARDS = "import.time_backwards", Info, WAITING,
        "An imported event is older than the one before it on its processor.",
        "No action needed: intervals were kept in order by at most that much.";
    IMPORT_BAD_TASK = "import.bad_task", Warning, WAITING,
        "An imported event names a thread that Linux cannot have, and was left out.",
        "Check whether the trace is damaged.";
    IMPORT_NO_SWITCHES = "import.no_switches", Error, WAITING,
        "The imported trace has no sched_switch events, so nothing says when a task ran and when it waited.",
        "Trace sched_switch on all processors.";
    IMPORT_SOME_CPUS = "import.some_processors", Warning, WAITING,
        "The imported trace has events of some processors only, so a task that ran on another seems to wait.",
        "Trace all processors; nothing to do if the others were offline or idle throughout.";
    IMPORT_NO_WAKEUPS = "import.no_wakeups", Warning, WAITING,
        "The imported trace has no wake-up events, so it is not known what ended any wait, nor when.",
        "Trace sched_waking too.";
    IMPORT_NO_WAKING = "import.no_waking", Warning, WAITING,
        "The imported trace has no sched_waking and no sched_ttwu, so a waker on the woken task's processor is unknown.",
        "Trace sched_waking too.";
    IMPORT_NO_INTERRUPTS = "import.no_interrupts", Warning, WAITING,
        "The imported trace has no interrupt events, so tasks that they woke seem woken by the interrupted task.",
        "Trace irq_handler_entry, irq_handler_exit, softirq_entry and softirq_exit too.";
    IMPORT_NO_TIMERS = "import.no_timers", Warning, WAITING,
        "The imported trace has no timer events, so a timeout may look like a wake-up by the interrupted task.",
        "Trace hrtimer_expire_entry and hrtimer_expire_exit too.";
    IMPORT_CUT = "import.cut", Warning, EVERYTHING,
        "An imported file ends in the middle; it was read up to there.",
        "Copy the file again, or let the tracer end by itself.";
    IMPORT_DAMAGED = "import.damaged", Error, EVERYTHING,
        "A part of an imported file breaks its format's rules and was left out.",
        "Copy the file again; if that does not help, report it with the file.";
    IMPORT_NO_FORMATS = "import.no_formats", Error, EVERYTHING,
        "Events were left out because the file does not describe their layout.",
        "Let perf end by itself (SIGINT), or record into a pipe (-o -), which says so first.";
    IMPORT_NO_TIME = "import.clock_unknown", Error, EVERYTHING,
        "The trace's clock does not count nanoseconds, and the file does not say how to convert it.",
        "Trace again with another clock, such as mono.";
    MARKS_HEADER = "marks.header", Error, MODELS,
        "The first line of a file of marks could not be understood, so nothing of it was read.",
        "Start it with `wakepath-marks 1 unit=1ns`, as docs/formats/marks.md describes.";
    MARKS_LINE = "marks.line", Error, MODELS,
        "A line of a file of marks breaks the format and was left out.",
        "Fix the program that prints it; docs/formats/marks.md describes the format.";
    MARKS_DEQUEUE_EMPTY = "marks.dequeue_empty", Warning, MODELS,
        "A machine took items out of a queue that had fewer; the missing ones are assumed.",
        "Annotate the place where such items are put in (enqueue), with the same name, key and counts.";
    MARKS_WAIT_NOT_EMPTY = "marks.wait_not_empty", Warning, MODELS,
        "A machine waited for items of a queue that was not empty; the time counts as its own work.",
        "Annotate the place where others take those items, or name what it really waits for.";
    MARKS_WAIT_NOT_FULL = "marks.wait_not_full", Warning, MODELS,
        "A machine waited for room in a queue that later held more; the queue was not full.",
        "Annotate all places that put items in, or name what it really waits for.";
    MARKS_WAIT_UNEXPLAINED = "marks.wait_unexplained", Warning, MODELS,
        "A machine waited for a queue and then did nothing with it; the time counts as its own work.",
        "Annotate the dequeue or enqueue that ends the wait.";
    MARKS_NEVER_WAITS = "marks.never_waits", Warning, MODELS,
        "A machine takes from a queue that was empty at times, and never waits: idle time counts as its work.",
        "Annotate the place where it finds nothing to do (wait_empty); a run at low rate shows which state that is.";
    MARKS_NEVER_FILLED = "marks.never_filled", Warning, MODELS,
        "Items are taken out of a queue that nothing puts items into.",
        "Annotate the place where they are put in (enqueue), with the same name and key.";
    MARKS_NEVER_TAKEN = "marks.never_taken", Info, MODELS,
        "Items are put into a queue that nothing takes items from.",
        "Annotate the place where they are taken (dequeue), with the same name and key.";
    MARKS_STATE_OPEN = "marks.state_open", Info, MODELS,
        "Nothing followed a machine's last mark for longer than the machine had existed; its last state was left out.",
        "Annotate what follows: another state, or the wait (wait_empty, wait_full) that it is in.";
    MARKS_TRANSACTION = "marks.transaction", Warning, MODELS,
        "A transaction ended before it started, or started while another one was open; it was left out.",
        "Annotate begin and end in pairs, on the same machine and key.";
    MARKS_IDENTITIES = "marks.identities_limit", Info, MODELS,
        "More distinct paths of items through machines than can be told apart; later ones count as the machine's own.",
        "Narrow the question (--from, --to); forecasts are not affected.";
    MARKS_LATE = "loss.marks.late", Error, MODELS,
        "Marks of a program were not recorded until the recorder attached to its annotated code.",
        "Start the program under `wakepath record -- CMD` or `wakepath run`, or start the recording after the program.";
    MARKS_REFUSED = "loss.marks.refused", Error, MODELS,
        "The kernel refused to attach to a program's annotations, so none of its marks were seen.",
        "Use `wakepath run -- CMD`, or report the kernel's version (`uname -r`).";
    RUNTIME_REFUTED = "runtime.refuted", Info, &[Requests],
        "The memory of a program's runtime named a different thread from the one that ran, so the logical task \
         (goroutine, virtual thread) of these operations is not known.",
        "If they are few, no action is needed: a runtime does not know a new thread at once.";
    RUNTIME_UNREAD = "runtime.unread", Warning, &[Requests],
        "`--runtimes` asked for the logical tasks of a program, but the layout of its runtime's version is not known. Only its \
         threads are told apart, so its calls may stay open.",
        "See docs/runtimes.md for the versions that are read; `wakepath doctor` names that of each process.";
    MARKS_CUT = "marks.name_cut", Warning, MODELS,
        "A name in an annotation was cut after 62 bytes; names that differ only after that are treated as one.",
        "Shorten the names.";
    MARKS_UNREAD = "marks.name_unread", Error, MODELS,
        "A mark was left out because its names could not be read from the program's memory.",
        "Give the annotation string literals, or strings that were just written.";
    DISK = "loss.disk", Error, EVERYTHING,
        "Rows could not be written because the disk was full or failed.",
        "Free space, use --max-bytes, or write to another disk.";
    FLIGHT_SEGMENTS = "loss.flight.segments", Info, EVERYTHING,
        "The flight recorder deleted its oldest segments, as asked for.",
        "Raise --keep or --max-bytes to look further back.";
    LATE_ROWS = "order.late_rows", Warning, WAITING,
        "Rows arrived later than the reorder window allows and were delivered out of order.",
        "Report it with the trace: a recorder is expected to flush in time.";
    RANGE_START = "range.start", Info, &[],
        "Bytes moved on a connection that was open before, between the snapshot and its first recorded operation.",
        "No action needed: the recording began in the middle of that connection.";
    RANGE_GAP = "range.gap", Warning, PATHS,
        "Bytes moved on a flow that no recorded operation moved.",
        "Select every task that uses the flow, or look for splice and io_uring in the programs.";
    RANGE_OVERLAP = "range.overlap", Warning, PATHS,
        "Two operations claim the same bytes because threads used the socket at once.",
        "No action needed: such links are marked as weaker.";
    PROTOCOL_LOST = "protocol.framing_lost", Warning, &[Requests, Metrics],
        "The end of a message was not found: its flow was closed inside it, stopped following its protocol, or moved more at once than is examined. Later data is not framed.",
        "Look for a peer that went away early, a batch of requests over 1 KiB (on Redis: 16 KiB; on HTTP/2: 4 KiB in several buffers, or 64 KiB), or a flow that is encrypted, upgraded or joined in mid-message.";
    PROTOCOL_MALFORMED = "protocol.malformed", Warning, &[Requests, Metrics],
        "A message broke its protocol's rules and was ignored.",
        "Look at the flow's notes for the protocol and the place.";
    PROTOCOL_UNKNOWN = "protocol.unknown", Info, &[Requests, Metrics],
        "No protocol processor knows a flow's bytes; messages are told apart by changes of direction.",
        "If the protocol matters, add a processor for it.";
    TLS_UNJOINED = "tls.unjoined", Warning, &[Requests, Metrics],
        "A TLS library moved plaintext on an unknown connection: its bytes do not go to a socket during the library's calls, \
         or its handshake was before the recording.",
        "No action needed: those messages stay encrypted.";
    TLS_REFUSED = "tls.refused", Warning, &[Requests, Metrics],
        "The kernel refused probes in a TLS library (`--tls`), so its traffic stays encrypted.",
        "See what `wakepath record` said; uprobes need CAP_PERFMON.";
    TLS_UNREAD = "tls.unread", Info, &[],
        "Connections use TLS, and their plaintext was not read: each is only times and bytes.",
        "`wakepath record --tls` reads what goes through OpenSSL, GnuTLS, Go's `crypto/tls`, and programs that export OpenSSL's functions or have symbols of them.";
    TLS_UNFIT = "tls.unfit", Warning, &[Requests, Metrics],
        "Plaintext of TLS fits none of the records that moved on its connection, so it was not joined to them.",
        "Report it with the library's version if they are many: those messages stay encrypted.";
    PROTOCOL_TLS = "protocol.tls_multiplexed", Warning, &[Requests, Metrics],
        "A TLS connection may carry HTTP/2, whose requests cannot be told apart from outside: none of them is counted.",
        "Record with `--tls`, record where the traffic is plain text, or let the server offer HTTP/1.1 only.";
    PROTOCOL_LIMIT = "protocol.limit", Warning, &[Requests, Metrics],
        "A protocol processor reached one of its limits and skipped a message.",
        "Report it with the flow's notes if the traffic is well-formed.";
    FOLDER_CUT = "folder.cut", Warning, EVERYTHING,
        "A segment ends inside a frame: the recording was cut there and the rest of that frame is gone.",
        "No action needed: everything before the cut is intact.";
    FOLDER_CRC = "folder.bad_crc", Error, EVERYTHING,
        "A frame's checksum is wrong and its rows were left out.",
        "Check the disk and copy the folder again from where it was recorded.";
    FOLDER_DAMAGED = "folder.damaged", Error, EVERYTHING,
        "Bytes of a segment are not a frame; reading continued at the next valid one.",
        "Check the disk and copy the folder again from where it was recorded.";
    FOLDER_HEADER = "folder.bad_header", Error, EVERYTHING,
        "A segment's header is damaged; its frames were still looked for.",
        "Check the disk and copy the folder again from where it was recorded.";
    FOLDER_FRAME = "folder.bad_frame", Error, EVERYTHING,
        "A frame's checksum is right but its contents contradict its header.",
        "Report it with the tool version that wakepath.json names.";
    FOLDER_CODE = "folder.unknown_code", Error, EVERYTHING,
        "A row has a number whose meaning this version does not know; its frame was left out.",
        "Read the folder with the version that wrote it, or a later one.";
    FOLDER_REDUCED = "folder.reduced", Error, EVERYTHING,
        "Steps of a reduced host are missing or contradict each other; from there on requests that it served may be incomplete.",
        "Reduce the host's recording again.";
    FOLDER_UNKNOWN_FRAME = "folder.unknown_frame", Warning, EVERYTHING,
        "A frame of a kind that this version does not know was left out.",
        "Read the folder with the version that wrote it, or a later one.";
    FOLDER_VERSION = "folder.other_version", Error, EVERYTHING,
        "A segment of another format version was left out.",
        "Read the folder with the version that wrote it.";
    KEPT_PART = "kept.part", Error, EVERYTHING,
        "An agent kept this time and asked other agents for their parts; a part is late or missing, or its agent recorded nothing then.",
        "Look into wakepath.json for which agent and why; `wakepath doctor --agent CONFIG` asks each of them.";
    BUDGET = "loss.budget", Warning, WAITING,
        "The agent recorded less than its configuration says, to stay within its budget.",
        "Raise the budget, or select fewer processes; the recording's settings say what was recorded.";
    FOLDER_SEGMENT = "folder.missing_segment", Error, EVERYTHING,
        "A segment of a recording is gone: it was removed, emptied or not copied, and its rows with it.",
        "Copy the folder again from where it was recorded, with all of its files.";
    FOLDER_LIST = "folder.no_list", Warning, EVERYTHING,
        "The list of a recording's segments is gone or damaged: whether segments are missing at its end is not known.",
        "Copy the folder again from where it was recorded, with all of its files.";
    FOLDER_NOT_ENDED = "folder.not_ended", Warning, EVERYTHING,
        "A recorder did not end its recording: it was killed, it failed, or the folder was copied while it ran; the \
         end is missing.",
        "Ask the kernel's log (dmesg) whether it killed the recorder for lack of memory, and look for a full disk.";
    FOLDER_PAUSED = "folder.paused", Warning, EVERYTHING,
        "One recorder of a host ended, and the next began later. What happened between them is not known.",
        "Look in the agent's log for why it restarted; `wakepath info` prints for how long no recorder ran.";
    FOLDER_OPEN = "folder.being_written", Info, EVERYTHING,
        "A recorder writes into the folder now: later data is not in this answer.",
        "End the recorder, or ask again later.";
    FOLDER_FOREIGN = "folder.foreign_segment", Error, EVERYTHING,
        "A segment is in the folder of a different host from the one it was recorded on, and was left out.",
        "Put it back where it came from, or copy the folder again from where it was recorded.";
    FOLDER_FILE = "folder.bad_file", Error, EVERYTHING,
        "A file with a segment's name is not a regular file, and was not opened.",
        "Check what is there, and copy the segment again from where it was recorded.";
    FOLDER_INFO = "folder.bad_description", Warning, &[Names],
        "The folder's description (wakepath.json) is gone or damaged; its segments were still read.",
        "Copy wakepath.json again from where the folder was recorded.";
    FOLDER_GAP = "folder.missing_frames", Error, EVERYTHING,
        "Frames of a segment are gone, by their numbers or by the recorder's own list.",
        "Check the disk and copy the folder again from where it was recorded.";
    FOLDER_STRING = "folder.undefined_string", Warning, &[Names],
        "A row names a string whose definition is gone; it is shown as a question mark.",
        "Copy the folder again from where it was recorded.";
    FOLDER_SYNC = "folder.bad_sync", Warning, &[Requests, Waits, CriticalPath],
        "What was found about the hosts' clocks (sync.json) is not readable: wall clocks are used instead.",
        "Run `wakepath sync` on the folder again.";
    FOLDER_HOST = "folder.bad_host", Warning, &[Names],
        "A host's description is missing, not readable, or of another host; its folder's name may be shown instead.",
        "Copy host.json again from where the folder was recorded.";
    FOLDER_IO = "folder.io", Error, EVERYTHING,
        "A part of a segment could not be read from the disk.",
        "Check the disk and the rights on the folder.";
    FOLDER_DUPLICATE = "folder.duplicate_frames", Info, &[],
        "The same frames appear twice and were read once.",
        "No action needed.";
    CTF_METADATA = "ctf.metadata", Error, EVERYTHING,
        "A trace's metadata could not be read beyond a point, so events described after it are missing.",
        "Copy the trace again when its session has ended, or report the metadata.";
    CTF_CUT = "ctf.cut", Warning, EVERYTHING,
        "A stream ends inside a packet: everything before the cut was read.",
        "Stop the tracing session before its files are copied.";
    CTF_OPEN = "ctf.open_packet", Warning, EVERYTHING,
        "A packet was not closed by its tracer and was read up to its last event.",
        "Stop the tracing session before its files are copied.";
    CTF_PACKET = "ctf.bad_packet", Error, EVERYTHING,
        "A packet's header contradicts the metadata or itself, so the rest of its file was left out.",
        "Copy the trace again from where it was recorded.";
    CTF_EVENT = "ctf.bad_event", Error, EVERYTHING,
        "An event contradicts the metadata, so the rest of its packet was left out.",
        "Copy the trace again from where it was recorded.";
    CTF_PACKETS_LOST = "ctf.packets_lost", Error, EVERYTHING,
        "The numbers of a stream's packets are not consecutive: packets between are gone.",
        "Give the tracer larger buffers, or copy all files of the trace.";
}

/// Whether such a loss is one of operations, or of what says on which connections they were.
pub fn loses_operations(id: &str) -> bool {
    ["loss.ring.op", "loss.ring.flow", "loss.storage"].iter().any(|loss| id.starts_with(loss)) || hides_rows(id)
}

/// Whether rows of any kind may be missing in the time of such a loss, so that nothing is linked across it.
pub fn hides_rows(id: &str) -> bool {
    matches!(id, id::DISK | id::FOLDER_SEGMENT | id::FOLDER_GAP | id::FOLDER_CRC)
}

/// The defect of an id.
pub fn find(id: &str) -> Option<&'static Defect> {
    ALL.iter().find(|d| d.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_unique_and_well_formed() {
        let mut seen = HashSet::new();
        for d in ALL {
            assert!(seen.insert(d.id), "{} twice", d.id);
            assert!(d.id.contains('.'), "{} has no stage", d.id);
            assert!(d.id.bytes().all(|b| b.is_ascii_lowercase() || b == b'.' || b == b'_'), "{}", d.id);
            assert_eq!(find(d.id), Some(d));
        }
        assert_eq!(find("loss.nothing"), None);
    }

    #[test]
    fn each_says_what_it_means_and_what_to_do() {
        for d in ALL {
            assert!(d.meaning.ends_with('.') && d.remedy.ends_with('.'), "{}", d.id);
            assert!(d.remedy.len() > 10 && !d.remedy.trim_end_matches('.').contains(". "), "{}: one sentence", d.id);
            assert!(d.severity == Severity::Info || !d.touches.is_empty(), "{} touches nothing", d.id);
        }
    }

    #[test]
    fn each_is_documented_with_the_folder() {
        let doc = include_str!("../../../docs/formats/folder.md");
        for d in ALL.iter().filter(|d| d.id.starts_with("folder.")) {
            assert!(doc.contains(d.id), "docs/formats/folder.md does not explain {}", d.id);
        }
    }
}
