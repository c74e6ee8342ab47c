//! Which probes are placed in programs of runtimes.

use anyhow::{Result, ensure};
use wakepath_wire as w;

/// A runtime in whose programs probes can be placed, where its memory alone does not show who works for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Probed {
    /// Go (`go`) and CPython with an event loop or greenlets (`python`), in selected processes alone: the probes that cost a service less than
    /// a tenth of its processor time. The default with a selection
    Auto,
    /// No probes: only read what memory shows. The default without a selection
    Memory,
    /// Go: where goroutines are made and end; where net/http's client takes a connection, and begins to write on one; where streams
    /// of HTTP/2 and gRPC begin (about 1 µs each)
    Go,
    /// Go, and also what goes through channels: workers of pools (about 1 µs for each item)
    GoChannels,
    /// Go, and also what goroutines wait for inside the program: mutexes, channels, timers (several µs for each
    /// wait: a small service took 38 % more processor time)
    GoWaits,
    /// CPython 3.9 to 3.13, asyncio, trio, gevent: where contexts are made (about 2 µs each), and greenlets (about 1 µs each); with
    /// uvloop, also where it is asked to write, and behind each callback (about 1 µs each)
    Python,
    /// Tokio: where tasks are woken (about 1 µs each) and made (about 4 µs each), which tells for which task a client's own one
    /// sends: hyper, reqwest
    Tokio,
    /// No probes, and no reading of tasks' identities either: threads alone are told apart
    None,
}

impl Probed {
    /// What the runtime is called that it asks for.
    pub(super) fn runtime(self) -> Option<&'static str> {
        match self {
            Probed::Go | Probed::GoChannels | Probed::GoWaits => Some("Go"),
            Probed::Python => Some("CPython"),
            Probed::Tokio => Some("Tokio"),
            Probed::Auto | Probed::Memory | Probed::None => None,
        }
    }

    /// One of `RUNTIME_…`.
    fn kind(self) -> Option<u8> {
        match self {
            Probed::Go | Probed::GoChannels | Probed::GoWaits => Some(w::RUNTIME_GO),
            Probed::Python => Some(w::RUNTIME_PYTHON),
            Probed::Tokio => Some(w::RUNTIME_TOKIO),
            Probed::Auto | Probed::Memory | Probed::None => None,
        }
    }

    /// Whether a process with this layout gets these probes.
    pub(super) fn is_for(self, tgid: u32, layout: &w::Runtime) -> bool {
        match self {
            Probed::Auto => match layout.kind as u8 {
                w::RUNTIME_GO => true,
                w::RUNTIME_PYTHON => wakepath_runtimes::has_python_loop(tgid),
                _ => false,
            },
            other => other.kind().is_some_and(|kind| u32::from(kind) == layout.kind),
        }
    }

    /// What [`w::Runtime::is_marked`] says of its programs.
    pub(super) fn mark(self) -> u32 {
        w::MARKED
            | match self {
                Probed::GoChannels => w::MARKED_CHANNELS,
                Probed::GoWaits => w::MARKED_WAITS,
                Probed::Go | Probed::Python | Probed::Tokio | Probed::Auto | Probed::Memory | Probed::None => 0,
            }
    }
}

/// Which probes are placed: what was asked for, or the default. `is_selected`: not everybody is recorded.
pub fn probed(asked: &[Probed], is_selected: bool) -> Result<Vec<Probed>> {
    for (alone, does) in
        [(Probed::None, "`none` reads nothing of any runtime"), (Probed::Memory, "`memory` places no probes")]
    {
        let refuses = asked.contains(&alone) && asked.iter().any(|p| *p != alone);
        ensure!(!refuses, "--runtimes: {does}; leave it out, or the others");
    }
    let default = if is_selected { Probed::Auto } else { Probed::Memory };
    Ok(if asked.is_empty() { vec![default] } else { asked.to_vec() })
}
