//! Which runtime runs a process, and where in its memory it keeps the identity of the logical task (a goroutine, the context of
//! an asyncio task) that a thread works for.
//!
//! One file a runtime: how it is recognised by what its program was built from, never by a name; which versions' layouts are
//! known (`offsets/`, made from the runtimes' own debug information by `scripts/runtime-offsets`); how each identity is
//! verified when it is read. What is not known is not guessed.
//!
//! Programs belong to watched processes: any bytes may stand in them.

mod calls;
mod go;
mod jvm;
mod mapped;
mod memory;
mod node;
mod offsets;
mod program;
mod python;
mod tls;
mod tokio;
mod untold;

pub use jvm::{AGENT as JVM_AGENT, agent_words as jvm_agent_words};
pub use node::HELPER as NODE_HELPER;
use program::Program;
use std::path::PathBuf;
pub use tls::{TlsPoint, tls_places};
pub use tokio::word as tokio_word;
use wakepath_wire::{self as w, Runtime as Layout};

/// The runtime of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// What it is called.
    pub name: &'static str,
    /// What its logical tasks are called.
    pub tasks: &'static str,
    /// Its version, as it says itself.
    pub version: String,
    /// What `wakepath record` must be told for them to be told apart; empty where that needs nothing.
    pub asked_by: &'static str,
    /// Where the identity of logical tasks is, or why it cannot be read.
    pub layout: Result<Layout, Unread>,
}

/// Why the identity of a process's logical tasks cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Nobody verified how this processor's threads lead to it.
    Machine,
    /// Nobody verified this version.
    Version,
    /// The program keeps thread-local words of its own, and lacks the symbol that tells the runtime's.
    ThreadLocal,
    /// The program has more thread-local words than are sampled.
    ManyLocalWords,
    /// The C library does not tell where threads keep their values.
    Library,
    /// The process has no glibc mapped: it just began, or has another C library.
    LibraryMissing,
    /// The library that has the runtime lacks the names that debuggers use.
    Names,
    /// The rights to read its memory are missing.
    Memory,
    /// What tells its tasks apart was not loaded into the process, or not yet.
    Helper,
    /// Nobody found yet how to read this runtime's.
    Untold,
    /// What tells the tasks of its executors apart was not put into the process, or not yet.
    Agent,
}

impl Unread {
    /// Whether it is in the program, so that looking again does not help.
    pub fn is_lasting(self) -> bool {
        match self {
            Unread::Machine
            | Unread::Version
            | Unread::ThreadLocal
            | Unread::Library
            | Unread::Names
            | Unread::Untold => true,
            Unread::ManyLocalWords | Unread::Memory | Unread::Helper | Unread::Agent | Unread::LibraryMissing => false,
        }
    }

    /// The reason, as a person reads it.
    pub fn reason(self) -> &'static str {
        match self {
            Unread::Machine => "logical tasks are read only on x86-64",
            Unread::Version => "this version's layout is not known",
            Unread::Memory => "its memory cannot be read with these rights",
            Unread::Names => "its library lacks the names of what is in it (it is stripped)",
            Unread::Helper => "the helper was not loaded (`wakepath attach PID`, or `wakepath helper node`)",
            Unread::Agent => "the agent was not put into it (`wakepath attach PID`)",
            Unread::ManyLocalWords => {
                "it has more than a kilobyte of thread-local variables, among which the task's is not sought"
            }
            Unread::Untold => {
                "this runtime's are not read yet (requests that have a thread each are told apart all the same)"
            }
            Unread::Library => "its C library does not tell where threads keep their values",
            Unread::LibraryMissing => "it has not loaded glibc: it just started, or uses another C library",
            Unread::ThreadLocal => {
                "it is stripped and has thread-local variables of its own, so that the runtime's cannot be told"
            }
        }
    }
}

/// What a probe at a runtime's function tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Go: a goroutine takes a connection of net/http's client.
    GoTakes,
    /// Go: the goroutine begins that writes what such a connection is asked to.
    GoWrites,
    /// Go: a goroutine makes another.
    GoMakes,
    /// Go: a goroutine ends.
    GoEnds,
    /// Go: a goroutine gives an item to one that waits for it.
    GoGives,
    /// Go: a goroutine takes what one that waits wants to send.
    GoTakesUp,
    /// Go: a goroutine puts an item into a channel's room.
    GoPuts,
    /// Go: a goroutine gets an item out of it.
    GoGets,
    /// Go: a goroutine closes a channel.
    GoCloses,
    /// Go: a goroutine is parked, for the reason that is the third argument.
    GoParks,
    /// Go: a goroutine, or a timer, makes another ready to run.
    GoReadies,
    /// Go: a goroutine that was parked runs again.
    GoResumes,
    /// Go: a goroutine begins to serve a stream of net/http's HTTP/2.
    GoServesHttp2,
    /// Go: a goroutine begins to serve a stream of grpc-go.
    GoServesGrpc,
    /// Go: a goroutine begins to ask by HTTP/2 for the one that made it.
    GoAsksForMaker,
    /// Go: a goroutine wants grpc-go to write a frame.
    GoPutsFrame,
    /// Go: a goroutine of grpc-go writes the frame that begins a stream.
    GoWritesHeaders,
    /// CPython, when the function returns: it copied the context that the thread runs in.
    PythonCopies,
    /// CPython, when the function returns: it made a context otherwise.
    PythonMakes,
    /// uvloop: it puts something aside, as a connection on which a task wrote.
    UvloopQueues,
    /// uvloop: it leaves a context.
    UvloopLeaves,
    /// greenlet: the greenlet that the thread runs makes another.
    GreenletMakes,
    /// Tokio: the task whose header is the first argument is woken.
    TokioWakes,
    /// Tokio: the task whose header is the second argument was made.
    TokioSpawns,
}

impl Point {
    /// Whether it tells what goes through Go's channels.
    pub fn is_of_channels(self) -> bool {
        matches!(self, Point::GoGives | Point::GoTakesUp | Point::GoPuts | Point::GoGets | Point::GoCloses)
    }

    /// Whether it tells what goroutines wait for.
    pub fn is_of_waits(self) -> bool {
        matches!(self, Point::GoParks | Point::GoReadies | Point::GoResumes)
    }

    /// Whether it tells streams of HTTP/2 and gRPC apart in Go.
    pub fn is_of_streams(self) -> bool {
        use Point::{GoAsksForMaker, GoPutsFrame, GoServesGrpc, GoServesHttp2, GoWritesHeaders};
        matches!(self, GoServesHttp2 | GoServesGrpc | GoAsksForMaker | GoPutsFrame | GoWritesHeaders)
    }
}

/// Where probes must be that tell what a runtime's memory alone does not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probing {
    /// The file that has the runtime.
    pub file: PathBuf,
    /// Each probe, and where in the file it must be.
    pub places: Vec<(Point, u64)>,
}

/// A process that is looked at.
struct Process {
    tgid: u32,
    program: Program,
}

impl Process {
    fn open(tgid: u32) -> Option<Process> {
        Some(Process { tgid, program: Program::open(&format!("/proc/{tgid}/exe"))? })
    }
}

/// A runtime that is known: how a process of it is recognised, and where its probes must be.
struct Known {
    kind: u8,
    recognise: fn(&Process) -> Option<Runtime>,
    probing: fn(&Process) -> Vec<Probing>,
}

/// Every runtime.
const RUNTIMES: [Known; 5] = [
    Known {
        kind: w::RUNTIME_GO,
        recognise: go::recognise,
        probing: |process| go::probing(process).into_iter().collect(),
    },
    Known { kind: w::RUNTIME_PYTHON, recognise: python::recognise, probing: python::probing },
    Known { kind: w::RUNTIME_JVM, recognise: jvm::recognise, probing: |_| Vec::new() },
    Known { kind: w::RUNTIME_NODE, recognise: node::recognise, probing: |_| Vec::new() },
    Known { kind: w::RUNTIME_TOKIO, recognise: tokio::recognise, probing: tokio::probing },
];

/// Whether it was verified how this machine's threads lead to what a runtime keeps of them, and with what its functions begin.
const IS_VERIFIED: bool = cfg!(target_arch = "x86_64");

/// The runtime that runs a process; `None` where it is none of those that are known, or the process is gone.
pub fn of_process(tgid: u32) -> Option<Runtime> {
    let process = Process::open(tgid)?;
    let found = RUNTIMES.iter().find_map(|known| (known.recognise)(&process));
    let found = found.or_else(|| untold::recognise(&process))?;
    Some(if IS_VERIFIED || found.layout == Err(Unread::Untold) {
        found
    } else {
        Runtime { layout: Err(Unread::Machine), ..found }
    })
}

/// Where the probes of a process's runtime (one of `RUNTIME_…`) must be, in each of its files. None where it has nothing to probe, or not
/// as it is known.
pub fn probing(tgid: u32, kind: u8) -> Vec<Probing> {
    let process = Process::open(tgid).filter(|_| IS_VERIFIED);
    let known = RUNTIMES.iter().find(|known| known.kind == kind);
    process.zip(known).map(|(process, known)| (known.probing)(&process)).unwrap_or_default()
}

/// Whether a process of CPython has loaded the library of greenlets in a version that is not read: those before 2.0.
pub fn has_unread_greenlets(tgid: u32, layout: &w::Runtime) -> bool {
    layout.kind == w::RUNTIME_PYTHON.into() && layout.greenlets == 0 && python::has_greenlets(tgid)
}

/// Whether a process of CPython has loaded what runs many tasks in one thread: asyncio, uvloop, greenlets.
pub fn has_python_loop(tgid: u32) -> bool {
    Process::open(tgid).is_some_and(|process| python::has_loop(&process))
}

/// A layout without anything in it.
const EMPTY: Layout = Layout {
    verified: 0,
    refuted: 0,
    python_key: 0,
    helper_words: 0,
    greenlets: 0,
    others_told: 0,
    park_reasons: 0,
    tls: 0,
    kind: 0,
    g_m: 0,
    m_g0: 0,
    m_curg: 0,
    m_procid: 0,
    g_goid: 0,
    g_parent: 0,
    g_sched: 0,
    conn_writes: 0,
    chan_waiters: 0,
    waiter_g: 0,
    chan_room: 0,
    chan_items: 0,
    chan_of: 0,
    chan_next: 0,
    waiter_next: 0,
    waiter_item: 0,
    is_marked: 0,
    thread_values: 0,
    state_context: 0,
    state_thread: 0,
    context_entered: 0,
    module: 0,
    thread_word: 0,
    thread_os: 0,
    os_number: 0,
    thread_runs: 0,
    thread_is_virtual: 0,
    thread_owner: 0,
    block_bytes: 0,
    other_loop: 0,
};
