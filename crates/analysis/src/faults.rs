//! Page faults of a request: those that its tasks took in its spans' own time (BorderPatrol, section 5.3).

use rustc_hash::FxHashMap;
use wakepath_causality::path::Request;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{HostId, MonoNs, TaskId};
use wakepath_model::rows::{FaultKind, FaultRow, Table};

/// Files told apart in one span; what faults in others read is only counted.
const FILES_MAX: usize = 64;

/// The page faults of one span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanFaults {
    /// Without a read.
    pub minor: u64,
    /// With one.
    pub major: u64,
    /// Counted by the kernel as neither: mostly a signal followed.
    pub neither: u64,
    /// How long the span's task was held up in those with a read (ns).
    pub major_ns: u64,
    /// What was read, as far as the kernel named it; the longest first.
    pub files: Vec<FileRead>,
}

/// A file that page faults read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRead {
    /// Its path, else its device and inode.
    pub name: String,
    /// How many faults read of it.
    pub faults: u64,
    /// How long the task was held up in them (ns).
    pub ns: u64,
}

/// A span that a task served: which one, from when, until when (ns).
type Service = (usize, u64, u64);

/// Of each span of a request, the page faults of the task that served it while it did: from when it took the request up
/// until its reply was complete, without the time of the span's own calls, in which a task that need not wait for them may
/// serve others. Spans whose server is not watched have none.
pub fn of_request(folder: &Folder, r: &Request) -> Vec<SpanFaults> {
    let mut out = vec![SpanFaults::default(); r.spans.len()];
    let mut served: FxHashMap<(HostId, TaskId), Vec<Service>> = FxHashMap::default();
    let mut within: FxHashMap<HostId, (u64, u64)> = FxHashMap::default();
    for (i, s) in r.spans.iter().enumerate() {
        let Some(half) = &s.callee else { continue };
        let (from, to) = (half.exchange.request.taken.0, half.exchange.reply.ended.0);
        served.entry((half.host, half.exchange.request.task)).or_default().push((i, from, to));
        let bounds = within.entry(half.host).or_insert((from, to));
        *bounds = (bounds.0.min(from), bounds.1.max(to));
    }
    for (&host, &(from, to)) in &within {
        let Some(of) = folder.host(host) else { continue };
        for batch in of.batches(Table::Fault.into(), MonoNs(from)..=MonoNs(to)) {
            for f in batch.rows::<FaultRow>() {
                let spans = served.get(&(host, f.task)).map_or(&[][..], Vec::as_slice);
                // a task that serves a call of its own request to itself is in the inner one
                let inner = spans.iter().filter(|s| s.1 <= f.began.0 && f.began.0 < s.2).max_by_key(|s| s.1);
                let Some(&(i, ..)) = inner.filter(|s| !is_calling(r, s.0, host, f.began)) else { continue };
                out[i].add(f, || f.mapped(of.text(f.file)));
            }
        }
    }
    out.iter_mut().for_each(|s| s.files.sort_by(|a, b| (b.ns, &a.name).cmp(&(a.ns, &b.name))));
    out
}

/// Whether a call of span `parent` was under way.
fn is_calling(r: &Request, parent: usize, host: HostId, at: MonoNs) -> bool {
    let calls = r.spans.iter().filter(|s| s.parent == Some(parent as u32)).filter_map(|s| s.caller.as_ref());
    calls.filter(|c| c.host == host).any(|c| c.exchange.request.began <= at && at < c.exchange.reply.ended)
}

impl SpanFaults {
    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.minor + self.major + self.neither == 0
    }

    fn add(&mut self, f: &FaultRow, file: impl Fn() -> Option<String>) {
        let ns = f.duration_ns().unwrap_or(0);
        match f.kind {
            FaultKind::Minor => self.minor += 1,
            FaultKind::Major => {
                self.major += 1;
                self.major_ns = self.major_ns.saturating_add(ns);
                let Some(name) = file() else { return };
                if let Some(known) = self.files.iter_mut().find(|f| f.name == name) {
                    known.faults += 1;
                    known.ns = known.ns.saturating_add(ns);
                } else if self.files.len() < FILES_MAX {
                    self.files.push(FileRead { name, faults: 1, ns });
                }
            }
            _ => self.neither += 1,
        }
    }
}
