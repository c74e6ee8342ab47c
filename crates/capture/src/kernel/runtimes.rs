//! In whose name threads act: which processes' runtimes are read, and the probes that this may need.

use super::{KernelSource, skel};
use crate::error::CaptureError;
use libbpf_rs::{MapCore as _, MapFlags, ProgramMut};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use wakepath_wire as w;

/// What a probe in a runtime tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeProbe {
    /// Go: a goroutine takes a connection of net/http's client.
    GoTakes,
    /// Go: a goroutine begins to write what such a connection is asked to.
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
    /// CPython: a context is made of the one that the thread runs in; told when the function returns.
    PythonCopies,
    /// CPython: a context is made of none; told when the function returns.
    PythonMakes,
    /// uvloop: it puts something aside, as a connection on which a task wrote.
    UvloopQueues,
    /// uvloop: it leaves a context.
    UvloopLeaves,
    /// greenlet: the greenlet that the thread runs makes another.
    GreenletMakes,
    /// Tokio: a task is woken.
    TokioWakes,
    /// Tokio: a task is made.
    TokioSpawns,
}

impl RuntimeProbe {
    /// The program that one link attaches to many probes, and the other.
    fn programs<'a>(self, skel: &'a skel::WakepathSkel<'static>) -> [&'a ProgramMut<'static>; 2] {
        let progs = &skel.progs;
        match self {
            RuntimeProbe::GoTakes => [&progs.on_go_takes_multi, &progs.on_go_takes],
            RuntimeProbe::GoWrites => [&progs.on_go_writes_multi, &progs.on_go_writes],
            RuntimeProbe::GoMakes => [&progs.on_go_makes_multi, &progs.on_go_makes],
            RuntimeProbe::GoEnds => [&progs.on_go_ends_multi, &progs.on_go_ends],
            RuntimeProbe::GoGives => [&progs.on_go_gives_multi, &progs.on_go_gives],
            RuntimeProbe::GoTakesUp => [&progs.on_go_takes_up_multi, &progs.on_go_takes_up],
            RuntimeProbe::GoPuts => [&progs.on_go_puts_multi, &progs.on_go_puts],
            RuntimeProbe::GoGets => [&progs.on_go_gets_multi, &progs.on_go_gets],
            RuntimeProbe::GoCloses => [&progs.on_go_closes_multi, &progs.on_go_closes],
            RuntimeProbe::GoParks => [&progs.on_go_parks_multi, &progs.on_go_parks],
            RuntimeProbe::GoReadies => [&progs.on_go_readies_multi, &progs.on_go_readies],
            RuntimeProbe::GoResumes => [&progs.on_go_resumes_multi, &progs.on_go_resumes],
            RuntimeProbe::GoServesHttp2 => [&progs.on_go_serves_http2_multi, &progs.on_go_serves_http2],
            RuntimeProbe::GoServesGrpc => [&progs.on_go_serves_grpc_multi, &progs.on_go_serves_grpc],
            RuntimeProbe::GoAsksForMaker => [&progs.on_go_asks_for_maker_multi, &progs.on_go_asks_for_maker],
            RuntimeProbe::GoPutsFrame => [&progs.on_go_puts_frame_multi, &progs.on_go_puts_frame],
            RuntimeProbe::GoWritesHeaders => [&progs.on_go_writes_headers_multi, &progs.on_go_writes_headers],
            RuntimeProbe::PythonCopies => [&progs.on_python_copies_multi, &progs.on_python_copies],
            RuntimeProbe::PythonMakes => [&progs.on_python_makes_multi, &progs.on_python_makes],
            RuntimeProbe::UvloopQueues => [&progs.on_uvloop_queues_multi, &progs.on_uvloop_queues],
            RuntimeProbe::UvloopLeaves => [&progs.on_uvloop_leaves_multi, &progs.on_uvloop_leaves],
            RuntimeProbe::GreenletMakes => [&progs.on_greenlet_makes_multi, &progs.on_greenlet_makes],
            RuntimeProbe::TokioSpawns => [&progs.on_tokio_spawns_multi, &progs.on_tokio_spawns],
            RuntimeProbe::TokioWakes => [&progs.on_tokio_wakes_multi, &progs.on_tokio_wakes],
        }
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
    pub fn probe_runtime(&mut self, file: &Path, probes: &[(RuntimeProbe, u64)]) -> Result<bool, CaptureError> {
        let KernelSource { skel, marked, .. } = self;
        let loaded = |probe: RuntimeProbe| probe.programs(skel).into_iter().find(|p| p.as_fd().as_raw_fd() >= 0);
        let places: Option<Vec<_>> = probes.iter().map(|&(probe, place)| Some((loaded(probe)?, place))).collect();
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
