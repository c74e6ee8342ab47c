//! In whose name threads act: which processes' runtimes are read, and the probes that this may need.

use super::{KernelSource, skel};
use crate::error::CaptureError;
use libbpf_rs::{MapCore as _, MapFlags, ProgramMut};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use wakepath_runtimes::Point;
use wakepath_wire as w;

/// The programs that a probe at this point runs: the one that one link attaches to many probes, and the other.
fn programs<'a>(point: Point, skel: &'a skel::WakepathSkel<'static>) -> [&'a ProgramMut<'static>; 2] {
    let progs = &skel.progs;
    match point {
        Point::GoTakes => [&progs.on_go_takes_multi, &progs.on_go_takes],
        Point::GoWrites => [&progs.on_go_writes_multi, &progs.on_go_writes],
        Point::GoMakes => [&progs.on_go_makes_multi, &progs.on_go_makes],
        Point::GoEnds => [&progs.on_go_ends_multi, &progs.on_go_ends],
        Point::GoGives => [&progs.on_go_gives_multi, &progs.on_go_gives],
        Point::GoTakesUp => [&progs.on_go_takes_up_multi, &progs.on_go_takes_up],
        Point::GoPuts => [&progs.on_go_puts_multi, &progs.on_go_puts],
        Point::GoGets => [&progs.on_go_gets_multi, &progs.on_go_gets],
        Point::GoCloses => [&progs.on_go_closes_multi, &progs.on_go_closes],
        Point::GoParks => [&progs.on_go_parks_multi, &progs.on_go_parks],
        Point::GoReadies => [&progs.on_go_readies_multi, &progs.on_go_readies],
        Point::GoResumes => [&progs.on_go_resumes_multi, &progs.on_go_resumes],
        Point::GoServesHttp2 => [&progs.on_go_serves_http2_multi, &progs.on_go_serves_http2],
        Point::GoServesGrpc => [&progs.on_go_serves_grpc_multi, &progs.on_go_serves_grpc],
        Point::GoAsksForMaker => [&progs.on_go_asks_for_maker_multi, &progs.on_go_asks_for_maker],
        Point::GoPutsFrame => [&progs.on_go_puts_frame_multi, &progs.on_go_puts_frame],
        Point::GoWritesHeaders => [&progs.on_go_writes_headers_multi, &progs.on_go_writes_headers],
        Point::PythonCopies => [&progs.on_python_copies_multi, &progs.on_python_copies],
        Point::PythonMakes => [&progs.on_python_makes_multi, &progs.on_python_makes],
        Point::UvloopQueues => [&progs.on_uvloop_queues_multi, &progs.on_uvloop_queues],
        Point::UvloopLeaves => [&progs.on_uvloop_leaves_multi, &progs.on_uvloop_leaves],
        Point::GreenletMakes => [&progs.on_greenlet_makes_multi, &progs.on_greenlet_makes],
        Point::TokioSpawns => [&progs.on_tokio_spawns_multi, &progs.on_tokio_spawns],
        Point::TokioWakes => [&progs.on_tokio_wakes_multi, &progs.on_tokio_wakes],
    }
}

impl KernelSource {
    /// Reads, from now on, in whose name a process's threads act, at each operation. Told again of the same process, it begins anew.
    pub fn read_identities(&mut self, tgid: u32, layout: &w::Runtime) -> Result<(), CaptureError> {
        self.skel.maps.runtimes.update(&tgid.to_ne_bytes(), w::bytes_of(layout), MapFlags::ANY)?;
        self.count_runtimes();
        Ok(())
    }

    /// Places the probes of which [`w::Runtime::is_marked`] speaks at places in a file. False where it has them already.
    pub fn probe_runtime(&mut self, file: &Path, probes: &[(Point, u64)]) -> Result<bool, CaptureError> {
        let KernelSource { skel, marked, .. } = self;
        let loaded = |point: Point| programs(point, skel).into_iter().find(|p| p.as_fd().as_raw_fd() >= 0);
        let places: Option<Vec<_>> = probes.iter().map(|&(point, place)| Some((loaded(point)?, place))).collect();
        let Some(places) = places else {
            return Err(CaptureError::Unsupported("probes in programs (uprobes)".into()));
        };
        marked.places(file, &places)
    }

    /// Stops that, where the process is gone or began another program; gives what was counted.
    pub fn forget_identities(&mut self, tgid: u32) -> Option<w::Runtime> {
        let counted = self.identities(tgid)?;
        let _ = self.skel.maps.runtimes.delete(&tgid.to_ne_bytes());
        self.count_runtimes();
        Some(counted)
    }

    /// How many identities of a process were verified, and how many refuted.
    pub fn identities(&self, tgid: u32) -> Option<w::Runtime> {
        let value = self.skel.maps.runtimes.lookup(&tgid.to_ne_bytes(), MapFlags::ANY).ok()??;
        w::view(&value)
    }

    /// Takes the samples of thread-local words, which programs leave of processes whose [`w::Runtime::tls`] is not known; nothing
    /// as long as there is room for more.
    pub fn local_words(&mut self) -> Vec<w::LocalWords> {
        let map = &self.skel.maps.local_words;
        let taken = (&raw const self.generation().local_words_taken).cast::<AtomicU32>();
        // SAFETY: a mapped u32 that kernel programs add to, and this process sets.
        let taken = unsafe { &*taken };
        let places = map.max_entries();
        if taken.load(Ordering::Acquire) < places {
            return Vec::new();
        }
        let sample = |place: u32| w::view(&map.lookup(&place.to_ne_bytes(), MapFlags::ANY).ok()??);
        let samples = (0..places).filter_map(sample).filter(|s: &w::LocalWords| s.tgid != 0).collect();
        taken.store(0, Ordering::Release);
        samples
    }

    /// The programs look nowhere as long as there is none.
    pub(super) fn count_runtimes(&mut self) {
        let count = self.skel.maps.runtimes.keys().count() as u32;
        let n = (&raw const self.generation().runtime_processes).cast::<AtomicU32>();
        // SAFETY: a mapped u32 that this process writes and kernel programs read.
        unsafe { &*n }.store(count, Ordering::Release);
    }
}
