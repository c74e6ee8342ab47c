//! `--runtimes`.

use clap::ValueEnum;
use wakepath_capture::runtimes::Probed;
use wakepath_wire as w;

/// A runtime in whose programs probes can be placed, where its memory alone does not show who works for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RuntimesFlag {
    /// Probes that cost a service less than 10 % of its processor time: Go (`go`), and CPython with an event loop or greenlets
    /// (`python`), only in selected processes. The default with a selection
    Auto,
    /// The same, only in processes that listen for connections. The default without a selection
    Services,
    /// No probes: read only memory
    Memory,
    /// Go: when goroutines are created and end; when net/http's client takes a connection, and begins to write on it; when
    /// streams of HTTP/2 and gRPC begin (about 1 µs each)
    Go,
    /// Go with items of channels, for workers of pools (about 1 µs for each item)
    GoChannels,
    /// Go with what goroutines wait for inside the program: mutexes, channels, timers (several µs for each wait: a small
    /// service took 38 % more processor time)
    GoWaits,
    /// CPython 3.9 to 3.13 with asyncio, trio, gevent: when contexts are created (about 2 µs each), and greenlets (about 1 µs
    /// each); with uvloop, also at each write, and after each callback (about 1 µs each)
    Python,
    /// Tokio: when tasks are woken (about 1 µs each) and created (about 4 µs each), which shows for which task a client's own
    /// task sends: hyper, reqwest
    Tokio,
    /// No probes, and no reading of memory: only threads are told apart
    None,
}

impl RuntimesFlag {
    /// What that asks of the recorder.
    pub fn probed(self) -> Probed {
        let of = |name, kind, marks| Probed::Of { name, kind, marks };
        match self {
            RuntimesFlag::Auto => Probed::Auto,
            RuntimesFlag::Services => Probed::Services,
            RuntimesFlag::Memory => Probed::Memory,
            RuntimesFlag::Go => of("Go", w::RUNTIME_GO, 0),
            RuntimesFlag::GoChannels => of("Go", w::RUNTIME_GO, w::MARKED_CHANNELS),
            RuntimesFlag::GoWaits => of("Go", w::RUNTIME_GO, w::MARKED_WAITS),
            RuntimesFlag::Python => of("CPython", w::RUNTIME_PYTHON, 0),
            RuntimesFlag::Tokio => of("Tokio", w::RUNTIME_TOKIO, 0),
            RuntimesFlag::None => Probed::None,
        }
    }
}
