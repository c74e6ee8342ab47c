//! Probes at the calls of TLS libraries.

use super::{KernelSource, skel};
use crate::error::CaptureError;
use crate::procfs;
use libbpf_rs::ProgramMut;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use wakepath_runtimes::{TlsPoint, tls_places};

/// The programs that a probe at this point runs: the one that one link attaches to many probes, and the other.
fn programs<'a>(point: TlsPoint, skel: &'a skel::WakepathSkel<'static>) -> [&'a ProgramMut<'static>; 2] {
    let progs = &skel.progs;
    match point {
        TlsPoint::Reads => [&progs.on_tls_reads_multi, &progs.on_tls_reads],
        TlsPoint::ReadsSized => [&progs.on_tls_reads_sized_multi, &progs.on_tls_reads_sized],
        TlsPoint::Writes => [&progs.on_tls_writes_multi, &progs.on_tls_writes],
        TlsPoint::WritesSized => [&progs.on_tls_writes_sized_multi, &progs.on_tls_writes_sized],
        TlsPoint::Shakes => [&progs.on_tls_shakes_multi, &progs.on_tls_shakes],
        TlsPoint::Returns => [&progs.on_tls_returns_multi, &progs.on_tls_returns],
        TlsPoint::Puts => [&progs.on_tls_puts_multi, &progs.on_tls_puts],
        TlsPoint::Frees => [&progs.on_tls_frees_multi, &progs.on_tls_frees],
        TlsPoint::GoReads => [&progs.on_tls_go_reads_multi, &progs.on_tls_go_reads],
        TlsPoint::GoHasRead => [&progs.on_tls_go_has_read_multi, &progs.on_tls_go_has_read],
        TlsPoint::GoDecrypts => [&progs.on_tls_go_decrypts_multi, &progs.on_tls_go_decrypts],
        TlsPoint::GoWrites => [&progs.on_tls_go_writes_multi, &progs.on_tls_go_writes],
    }
}

/// A file in which probes were placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Path, as the process that has it sees it.
    pub path: String,
    /// How many.
    pub probes: usize,
}

impl KernelSource {
    /// Places probes at the calls of the TLS libraries that a process has mapped now; gives the files that are new. They tell of every
    /// process that maps the same file and is watched. Nothing where TLS was not asked for.
    pub fn read_tls(&mut self, tgid: u32) -> Result<Vec<Placed>, CaptureError> {
        if !self.has_tls() || tgid == std::process::id() {
            return Ok(Vec::new());
        }
        let mut placed = Vec::new();
        for mapping in procfs::code(tgid) {
            if mapping.inode == 0 || !mapping.path.starts_with('/') {
                continue;
            }
            // as the process sees it
            let file = PathBuf::from(format!("/proc/{tgid}/root{}", mapping.path));
            let KernelSource { skel, in_tls, .. } = self;
            let found = in_tls.places_in(&file, mapping.inode, || {
                let loaded = |point| programs(point, skel).into_iter().find(|p| p.as_fd().as_raw_fd() >= 0);
                let mut places = tls_places(&file);
                // ends first: a call whose begin is seen and its end not would seem to go on
                places.sort_by_key(|(point, _)| !point.is_end());
                places.into_iter().filter_map(|(point, at)| Some((loaded(point)?, at))).collect()
            })?;
            if found > 0 {
                placed.push(Placed { path: mapping.path, probes: found });
            }
        }
        let probes: usize = placed.iter().map(|p| p.probes).sum();
        if probes > 0 {
            self.tls_probes().fetch_add(probes as u32, Ordering::AcqRel);
        }
        Ok(placed)
    }

    /// Takes all these probes away. Each takes the kernel some milliseconds, so first all of them are told to say nothing more: a call
    /// whose begin was met and its end not would have what its thread does later taken for the session's.
    pub(super) fn stop_tls(&mut self) {
        self.tls_probes().store(0, Ordering::Release);
        self.in_tls.clear();
    }

    fn tls_probes(&self) -> &AtomicU32 {
        let n = (&raw const self.generation().tls_probes).cast::<AtomicU32>();
        // SAFETY: a mapped u32 that this process writes and kernel programs read.
        unsafe { &*n }
    }

    /// Calls of TLS libraries so far that moved plaintext of which nobody knows the connection.
    pub fn tls_unjoined(&self) -> u64 {
        let n = (&raw const self.generation().tls_unjoined).cast::<AtomicU64>();
        // SAFETY: a mapped u64 that kernel programs add to.
        unsafe { &*n }.load(Ordering::Acquire)
    }

    /// Whether TLS was asked for, and this kernel has probes.
    fn has_tls(&self) -> bool {
        programs(TlsPoint::Returns, &self.skel).into_iter().any(|p| p.as_fd().as_raw_fd() >= 0)
    }
}
