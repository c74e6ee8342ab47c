//! `sync.json`: how the clocks of a folder's hosts relate, as `wakepath sync` found it.

use super::error::FolderError;
use super::files;
use super::info::{self, HostInfo};
use super::reader::Host;
use crate::clock::{ClockGroup, Transform};
use crate::defects::{Ledger, id};
use crate::ids::HostId;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The file, in the trace folder.
pub const SYNC_FILE: &str = "sync.json";

const FORMAT: &str = "wakepath-sync";
const VERSION: u32 = 1;
/// Larger files are not ours: a bound on what damage can make a reader allocate.
const BYTES_MAX: u64 = 64 << 20;

/// What `sync.json` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncFile {
    format: String,
    version: u32,
    #[serde(default)]
    tool: String,
    groups: Vec<SyncGroup>,
}

/// Hosts on one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SyncGroup {
    /// The reference first.
    hosts: Vec<SyncHost>,
    pairs: Vec<SyncPair>,
}

/// A host's clock: points on it and on the reference's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SyncHost {
    hostname: String,
    boot_id: String,
    points: Vec<(u64, i64)>,
}

/// Two hosts, as indices into the group's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SyncPair {
    a: usize,
    b: usize,
    uncertainty_ns: u64,
}

impl SyncHost {
    fn hash(&self) -> u64 {
        HostInfo { hostname: self.hostname.clone(), boot_id: self.boot_id.clone(), ..HostInfo::default() }.host_hash()
    }
}

impl SyncFile {
    /// What is to be kept of `groups`, whose ids are indices into `hosts`.
    pub fn new(groups: &[ClockGroup], hosts: &[Host]) -> SyncFile {
        let group = |g: &ClockGroup| {
            let index = |h: HostId| g.clocks.iter().position(|c| c.0 == h);
            let host = |(h, clock): &(HostId, Transform)| {
                let info = hosts.get(usize::from(h.0)).map(Host::info).cloned().unwrap_or_default();
                SyncHost { hostname: info.hostname, boot_id: info.boot_id, points: clock.points() }
            };
            let pair = |&(a, b, uncertainty_ns): &(HostId, HostId, u64)| {
                Some(SyncPair { a: index(a)?, b: index(b)?, uncertainty_ns })
            };
            SyncGroup {
                hosts: g.clocks.iter().map(host).collect(),
                pairs: g.uncertainty.iter().filter_map(pair).collect(),
            }
        };
        SyncFile {
            format: FORMAT.to_owned(),
            version: VERSION,
            tool: concat!("wakepath ", env!("CARGO_PKG_VERSION")).to_owned(),
            groups: groups.iter().map(group).collect(),
        }
    }

    /// Reads the file's text; `None` where it is not one that this version knows.
    pub fn parse(text: &[u8]) -> Option<SyncFile> {
        let file: SyncFile = serde_json::from_slice(text).ok()?;
        (file.format == FORMAT && file.version <= VERSION).then_some(file)
    }

    /// The groups of hosts that are there (`find` knows a host by the hash of its boot id) and not in one already;
    /// `None` where what the file says makes no clock.
    pub fn groups(&self, mut find: impl FnMut(u64) -> Option<HostId>) -> Option<Vec<ClockGroup>> {
        let mut groups = Vec::new();
        for g in &self.groups {
            let ids: Vec<Option<HostId>> = g.hosts.iter().map(|h| find(h.hash())).collect();
            let mut clocks = Vec::new();
            for (host, id) in g.hosts.iter().zip(&ids) {
                let clock = Transform::new(&host.points)?;
                clocks.extend(id.map(|id| (id, clock)));
            }
            let mut uncertainty = Vec::new();
            for p in &g.pairs {
                let (a, b) = (*ids.get(p.a)?, *ids.get(p.b)?);
                uncertainty.extend(a.zip(b).map(|(a, b)| (a, b, p.uncertainty_ns)));
            }
            groups.push(ClockGroup { clocks, uncertainty });
        }
        Some(groups)
    }

    /// Writes it into a folder, whole or not at all.
    pub fn write(&self, dir: impl AsRef<Path>) -> Result<(), FolderError> {
        info::write_json(&dir.as_ref().join(SYNC_FILE), self)
    }
}

/// The groups of a folder; a file that cannot be used is counted, and the wall clocks stay in use.
pub(super) fn read(dir: &Path, find: impl FnMut(u64) -> Option<HostId>, ledger: &Ledger) -> Vec<ClockGroup> {
    let path = dir.join(SYNC_FILE);
    if path.symlink_metadata().is_err() {
        return Vec::new();
    }
    let text = files::read(&path, BYTES_MAX).ok();
    let groups = text.and_then(|t| SyncFile::parse(&t)).and_then(|file| file.groups(find));
    groups.unwrap_or_else(|| {
        ledger.add(id::FOLDER_SYNC, 1, Some((&path, 0)));
        Vec::new()
    })
}
