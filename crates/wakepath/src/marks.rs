//! Listens to the annotations of programs as they map annotated code.

use crate::output::tell;
use crate::program::file_of;
use crate::sink::Sink;
use wakepath_capture::{CaptureError, KernelSource, monotonic_ns, procfs};
use wakepath_decode::RowSink as _;
use wakepath_model::defects::id as defect;
use wakepath_model::ids::MonoNs;
use wakepath_wire::{self as w, Frame};

/// Most processes looked at in one round, so that the rings are not left alone for long.
const ROUND_MAX: usize = 16;
/// Most processes that wait to be looked at.
const WAITING_MAX: usize = 4096;

/// Processes that mapped code, and since when.
#[derive(Default)]
pub struct Marks {
    waiting: Vec<(u32, u64)>,
}

impl Marks {
    /// Takes note where a record says that a process mapped code.
    pub fn note(&mut self, f: &Frame<'_>, sink: &mut Sink) {
        let Some(r) = f.head().filter(|h| h.kind == w::KIND_MAPPED).and_then(|_| f.read::<w::Mapped>()) else {
            return;
        };
        if !self.look(r.tgid, r.ts_ns) {
            sink.count(defect::MARKS_LATE, MonoNs(r.ts_ns));
        }
    }

    /// Looks at what a process has mapped, soon. False where too many wait already.
    pub fn look(&mut self, tgid: u32, since_ns: u64) -> bool {
        if self.waiting.iter().any(|(waits, _)| *waits == tgid) {
            return true;
        }
        let has_room = self.waiting.len() < WAITING_MAX;
        if has_room {
            self.waiting.push((tgid, since_ns));
        }
        has_room
    }

    /// Attaches to what they brought. What a program said before is lost, and counted.
    pub fn listen(&mut self, source: &mut KernelSource, sink: &mut Sink) {
        let some = self.waiting.len().min(ROUND_MAX);
        for (tgid, since_ns) in self.waiting.drain(..some) {
            read_tls(source, tgid, sink);
            let found = source.listen_to(tgid);
            let now = MonoNs(monotonic_ns());
            match found {
                Ok(0) => {}
                Ok(_) => sink.folder.push_loss(defect::MARKS_LATE, 1, MonoNs(since_ns), now),
                Err(e) => refused(&e, sink),
            }
        }
    }

    /// Attaches to what processes have that were there before the recording.
    pub fn begin(source: &mut KernelSource, processes: &[u32], sink: &mut Sink) {
        for tgid in processes {
            read_tls(source, *tgid, sink);
            if let Err(e) = source.listen_to(*tgid) {
                refused(&e, sink);
            }
        }
    }

    /// Attaches to a program that is about to be started, so that nothing of it is missed.
    pub fn program(source: &mut KernelSource, program: &str, sink: &mut Sink) {
        if let Some(Err(e)) = file_of(program).map(|f| source.listen_to_file(&f)) {
            refused(&e, sink);
        }
    }
}

/// Places probes in the TLS libraries that a process has mapped, where that was asked for, and says so: a probe is an instruction in
/// the memory of somebody else's program.
fn read_tls(source: &mut KernelSource, tgid: u32, sink: &mut Sink) {
    match source.read_tls(tgid) {
        Ok(placed) => {
            for file in placed {
                tell!(
                    "wakepath: {} probes in {}, as {} ({tgid}) maps it; they go when the recording ends",
                    file.probes,
                    file.path,
                    String::from_utf8_lossy(&procfs::comm(tgid).unwrap_or_default())
                );
            }
        }
        Err(e) => {
            tell!("wakepath: TLS of process {tgid} stays encrypted: {e}");
            sink.count(defect::TLS_REFUSED, MonoNs(monotonic_ns()));
        }
    }
}

fn refused(e: &CaptureError, sink: &mut Sink) {
    tell!("wakepath: not listening to a program's annotations: {e}");
    sink.count(defect::MARKS_REFUSED, MonoNs(monotonic_ns()));
}
