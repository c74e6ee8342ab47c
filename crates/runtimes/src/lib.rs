//! Which runtime runs a process, and where in its memory it keeps the identity of the logical task (a goroutine)
//! that a thread works for.
//!
//! One file a runtime: how it is recognised by what its program was built from, never by a name; which versions' layouts are
//! known (`offsets/`, made from the runtimes' own debug information by `scripts/runtime-offsets`); how each identity is
//! verified when it is read. What is not known is not guessed.
//!
//! Programs belong to watched processes: any bytes may stand in them.

mod go;
mod offsets;
mod program;

pub use go::GoClient;
use program::Program;
use wakepath_wire::Runtime as Layout;

/// The runtime of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// What it is called.
    pub name: &'static str,
    /// What its logical tasks are called.
    pub tasks: &'static str,
    /// Its version, as it says itself.
    pub version: String,
    /// Where the identity of logical tasks is, or why it cannot be read.
    pub layout: Result<Layout, Unread>,
}

/// Why the identity of a process's logical tasks cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Nobody verified this version.
    Version,
    /// The program keeps thread-local words of its own, and lacks the symbol that tells the runtime's.
    ThreadLocal,
}

impl Unread {
    /// The reason, as a person reads it.
    pub fn reason(self) -> &'static str {
        match self {
            Unread::Version => "this version's layout is not known",
            Unread::ThreadLocal => {
                "it is stripped and has thread-local variables of its own, so that the runtime's cannot be told"
            }
        }
    }
}

/// A runtime that is known: how a process of it is recognised.
type Recognise = fn(&Program) -> Option<Runtime>;

/// Where probes must be in a process's program that tell which goroutine a connection of net/http's client works for. `None` where
/// it has no such client, or not as it is known.
pub fn go_client(tgid: u32) -> Option<GoClient> {
    go::client(&Program::open(&format!("/proc/{tgid}/exe"))?)
}

/// Every runtime.
const RUNTIMES: [Recognise; 1] = [go::recognise];

/// The runtime that runs a process; `None` where it is none of those that are known, or the process is gone.
pub fn of_process(tgid: u32) -> Option<Runtime> {
    let program = Program::open(&format!("/proc/{tgid}/exe"))?;
    RUNTIMES.iter().find_map(|recognise| recognise(&program))
}
