//! The execution graph: what each task did and what it waited for, on disk, walked back only where it is asked for.
//!
//! A vertex is a moment of a task; a horizontal edge an interval in which it ran, was ready or was blocked; a vertical
//! edge what ended a wait: a wake-up, a packet, a message (Giraldeau and Dagenais, section 2.3, Algorithm 1). The
//! graph is never held in memory: wait records already are its horizontal edges, and each names where its vertical edge
//! comes from. So the index is these records sorted by task and time, sends by place in their stream, packets by what
//! is the same of them on both hosts. Building it streams each table once; a question costs a few binary searches.

mod build;
mod futexes;
mod listeners;
mod logical;
mod named;
mod polls;
mod processors;
mod recorded;
mod records;
mod sort;
mod store;

pub use listeners::Backlog;
pub use processors::{Held, Holders};
pub use records::{End, Left, Listener, is_for_an_interpreter, is_futex};

use recorded::Recorded;
use records::{Asked, Came, Got, Interpreter, OfFlow, Sent, Word, place};
use rustc_hash::FxHashMap;
use sort::Keyed as _;
use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use store::{Rows, Store};
use tempfile::TempDir;
use wakepath_flows::How;
use wakepath_model::clock::Timeline;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{CommonNs, EndpointId, HostId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{
    FaultRow, Life, LimitRow, OpKind, OpRow, PacketRow, ParkRow, PollRow, RanRow, ResentRow, Table, TaskRow, WaitRow,
};

/// Version of the files: older ones are made again.
const VERSION: u64 = 11;
/// The subfolder of `DIR/cache` where indexes are.
const CACHE: &str = "cache";
/// Most rows looked at around a place that a binary search found.
const NEAR: u64 = 64;

/// An index could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{path}: cannot write the index of waits: {source}; free space, or set TMPDIR to a folder with room")]
pub struct IndexError {
    path: PathBuf,
    source: io::Error,
}

/// Where things of the graph are, on disk.
pub struct Index {
    store: Store,
    timeline: Timeline,
    hosts: Vec<HostRows>,
    sent: Rows<Sent>,
    /// Holds the files where they are in no cache.
    _own: Option<TempDir>,
}

struct HostRows {
    waits: Rows<WaitRow>,
    cpus: Rows<Came>,
    ops: Rows<OpRow>,
    polls: Rows<PollRow>,
    tasks: Rows<TaskRow>,
    packets: Rows<PacketRow>,
    flows: Rows<OfFlow>,
    endpoints: EndpointRows,
    besides: Besides,
    /// What was asked for on connections.
    asked: Rows<Asked>,
    /// Texts that are named: of what was asked for, names of tasks, and paths of the files that page faults read.
    texts: FxHashMap<StrId, String>,
    recorded: Recorded,
}

/// What is known of a host's tasks besides what they did and waited for.
struct Besides {
    /// Futexes that are interpreters' locks.
    interpreters: Rows<Interpreter>,
    /// Who went on from which futex.
    gets: Rows<Got>,
    /// Page faults that slept for a read.
    faults: Rows<FaultRow>,
    /// Waits of logical tasks inside their program.
    parks: Rows<ParkRow>,
    /// For whom threads computed.
    ran: Rows<RanRow>,
}

/// What is known of a host's endpoints.
struct EndpointRows {
    ends: Rows<End>,
    /// What left them and came to them.
    left: Rows<Left>,
    resent: Rows<ResentRow>,
    listeners: Rows<Listener>,
    /// Lengths of listeners' queues.
    backlogs: Rows<LimitRow>,
    /// Accepts for which no descriptor was left.
    starved: Rows<LimitRow>,
}

/// A folder of this process, whose name has the process's number. Those of processes that ended before they were done
/// (killed, or out of time) are removed: nobody else would.
fn fresh_in(dir: &Path, prefix: &str) -> io::Result<TempDir> {
    for old in fs::read_dir(dir)?.flatten() {
        let name = old.file_name();
        let maker = name.to_str().and_then(|n| n.strip_prefix(prefix)?.split('-').next()?.parse::<u32>().ok());
        if maker.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = fs::remove_dir_all(old.path());
        }
    }
    tempfile::Builder::new().prefix(&format!("{prefix}{}-", std::process::id())).tempdir_in(dir)
}

impl Index {
    /// The index of `folder`, which was opened from `dirs`: the one that an earlier question left in `DIR/cache`, or a
    /// new one. Where the folder cannot be written to, several are asked at once or a part of one, it is made in the folder for
    /// temporary files and goes away with this value.
    pub fn open(folder: &Folder, dirs: &[PathBuf]) -> Result<Index, IndexError> {
        let timeline = folder.timeline();
        let name = format!("graph-{:016x}", identity(folder));
        if let ([dir], false) = (dirs, folder.is_part()) {
            let cache = dir.join(CACHE);
            let path = cache.join(&name);
            if path.is_dir() {
                if let Ok(index) = Index::load(folder, timeline.clone(), &path, None) {
                    return Ok(index);
                }
                // damaged: it is made again
                let _ = fs::remove_dir_all(&path);
            }
            if let Ok(index) = Index::make_cached(folder, &timeline, &cache, &path) {
                return Ok(index);
            }
        }
        let own = fresh_in(&std::env::temp_dir(), "wakepath-graph-");
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |source| IndexError { path, source }
        };
        let own = own.map_err(fail(&std::env::temp_dir()))?;
        let path = own.path().to_owned();
        build::build(folder, &timeline, &path).map_err(fail(&path))?;
        Index::load(folder, timeline, &path, Some(own)).map_err(fail(&path))
    }

    /// How many bytes are read of a folder to make its index.
    pub fn bytes_to_read(folder: &Folder) -> u64 {
        build::bytes_to_read(folder)
    }

    /// Makes it beside its place and moves it there whole, so that nobody sees half of it.
    fn make_cached(folder: &Folder, timeline: &Timeline, cache: &Path, path: &Path) -> io::Result<Index> {
        DirBuilder::new().recursive(true).mode(0o700).create(cache)?;
        let fresh = fresh_in(cache, ".graph-")?;
        build::build(folder, timeline, fresh.path())?;
        // those of an earlier state of the folder; who has them open keeps them
        for old in fs::read_dir(cache)?.flatten() {
            if old.file_name().to_string_lossy().starts_with("graph-") && old.path() != path {
                let _ = fs::remove_dir_all(old.path());
            }
        }
        let made = fresh.keep();
        if fs::rename(&made, path).is_err() {
            // another question was faster
            let _ = fs::remove_dir_all(&made);
        }
        Index::load(folder, timeline.clone(), path, None)
    }

    fn load(folder: &Folder, timeline: Timeline, dir: &Path, own: Option<TempDir>) -> io::Result<Index> {
        let mut store = Store::of(dir)?;
        let mut hosts = Vec::with_capacity(folder.hosts().len());
        for (i, host) in folder.hosts().iter().enumerate() {
            let mut texts = FxHashMap::default();
            for table in ["faulted", "waited_for", "words"] {
                let words: Rows<Word> = store.open(&build::file(dir, table, i))?;
                let words = (0..words.count()).filter_map(|at| store.get(&words, at));
                texts.extend(words.map(|w| (w.id, host.text(w.id).to_owned())));
            }
            hosts.push(HostRows {
                waits: store.open(&build::file(dir, "waits", i))?,
                cpus: store.open(&build::file(dir, "cpus", i))?,
                ops: store.open(&build::file(dir, "operations", i))?,
                polls: store.open(&build::file(dir, "polls", i))?,
                tasks: store.open(&build::file(dir, "tasks", i))?,
                packets: store.open(&build::file(dir, "packets", i))?,
                flows: store.open(&build::file(dir, "flows", i))?,
                endpoints: EndpointRows {
                    ends: store.open(&build::file(dir, "ends", i))?,
                    left: store.open(&build::file(dir, "left", i))?,
                    resent: store.open(&build::file(dir, "resent", i))?,
                    listeners: store.open(&build::file(dir, "listeners", i))?,
                    backlogs: store.open(&build::file(dir, "backlogs", i))?,
                    starved: store.open(&build::file(dir, "starved", i))?,
                },
                besides: Besides {
                    interpreters: store.open(&build::file(dir, "interpreters", i))?,
                    gets: store.open(&build::file(dir, "gets", i))?,
                    faults: store.open(&build::file(dir, "faults", i))?,
                    parks: store.open(&build::file(dir, "parks", i))?,
                    ran: store.open(&build::file(dir, "ran", i))?,
                },
                asked: store.open(&build::file(dir, "asked", i))?,
                texts,
                recorded: Recorded::of(host),
            });
        }
        let sent = store.open(&build::file(dir, "sent", 0))?;
        Ok(Index { store, timeline, hosts, sent, _own: own })
    }

    /// The common time line of all hosts.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// A host's time on the common line.
    pub fn common(&self, host: HostId, at: MonoNs) -> CommonNs {
        self.timeline.common(host, at)
    }

    /// First and last moment of the recording of a host that names `task`; of all its recordings where none does.
    pub fn span(&self, host: HostId, task: TaskId) -> (MonoNs, MonoNs) {
        let Some(h) = self.rows(host) else { return Default::default() };
        h.recorded.span(task)
    }

    /// How many hosts it has.
    pub fn host_count(&self) -> usize {
        self.hosts.len()
    }

    /// How many waits were recorded in all.
    pub fn wait_count(&self) -> u64 {
        self.hosts.iter().map(|h| h.waits.count()).sum()
    }

    /// Reads of the index that failed; what they would have told counts as not known.
    pub fn failed_reads(&self) -> u64 {
        self.store.failed()
    }

    fn rows(&self, host: HostId) -> Option<&HostRows> {
        self.hosts.get(usize::from(host.0))
    }

    /// How many waits of a task were recorded, those still open at each flush counted again.
    pub fn waits_of(&self, host: HostId, task: TaskId) -> u64 {
        let next = TaskId(task.0.saturating_add(1));
        self.waits_from(host, next, MonoNs(0)) - self.waits_from(host, task, MonoNs(0))
    }

    /// Place of the first wait of `task` that began at `at` or later; the wait before it stands at the place before.
    pub fn waits_from(&self, host: HostId, task: TaskId, at: MonoNs) -> u64 {
        self.rows(host).map_or(0, |h| self.store.lower_bound(&h.waits, (u64::from(task.0), at.0, 0)))
    }

    /// The wait at a place, where it is one of `task`.
    pub fn wait(&self, host: HostId, task: TaskId, place: u64) -> Option<WaitRow> {
        self.store.get(&self.rows(host)?.waits, place).filter(|w| w.task == task)
    }

    /// The page fault in which `task` slept for a read through this wait, and what it read, for people; `None` where it was in
    /// none that is known.
    pub fn fault_around(&self, host: HostId, w: &WaitRow) -> Option<(FaultRow, Option<String>)> {
        let h = self.rows(host)?;
        let place = self.store.lower_bound(&h.besides.faults, (u64::from(w.task.0), w.at.0, 0));
        let f = self.store.get(&h.besides.faults, place).filter(|f| f.task == w.task && f.began <= w.blocked)?;
        Some((f, f.mapped(h.text(f.file))))
    }

    /// The file of the call in which a task waited, as far as its path is known: `…/FOLDER/NAME`.
    pub fn file_waited_for(&self, host: HostId, w: &WaitRow) -> Option<&str> {
        Some(self.rows(host)?.text(w.file)).filter(|path| !path.is_empty())
    }

    /// The operation of `task` that was under way at a moment, else the first that returned afterwards.
    pub fn operation_from(&self, host: HostId, task: TaskId, at: MonoNs) -> Option<OpRow> {
        let h = self.rows(host)?;
        let place = self.store.lower_bound(&h.ops, (u64::from(task.0), at.0, 0));
        self.store.get(&h.ops, place).filter(|o| o.task == task)
    }

    /// The last operation of `task` that had returned at a moment.
    pub fn operation_before(&self, host: HostId, task: TaskId, at: MonoNs) -> Option<OpRow> {
        self.operations_back(host, task, at).next()
    }

    /// The operations of `task` that had returned at a moment, last first.
    pub fn operations_back(&self, host: HostId, task: TaskId, at: MonoNs) -> impl Iterator<Item = OpRow> + '_ {
        let rows = self.rows(host).map(|h| &h.ops);
        let key = (u64::from(task.0), at.0.saturating_add(1), 0);
        let mut place = rows.map_or(0, |rows| self.store.lower_bound(rows, key));
        std::iter::from_fn(move || {
            place = place.checked_sub(1)?;
            self.store.get(rows?, place).filter(|o| o.task == task)
        })
    }

    /// Whether a host was recorded by the preload library alone, which sees no processor.
    pub fn is_by_library(&self, host: HostId) -> bool {
        self.rows(host).is_some_and(|h| h.recorded.is_by_library)
    }

    /// Whether programs of a host were handed one input at a time while it was recorded.
    pub fn is_isolated(&self, host: HostId) -> bool {
        self.rows(host).is_some_and(|h| h.recorded.is_isolated)
    }

    /// An endpoint, with its other end where it is known.
    pub fn end(&self, host: HostId, flow: EndpointId) -> Option<End> {
        let h = self.rows(host)?;
        let after = self.store.lower_bound(&h.endpoints.ends, (flow.0, u64::MAX, 0));
        self.store.get(&h.endpoints.ends, after.checked_sub(1)?).filter(|e| e.flow == flow)
    }

    /// What was sent from an endpoint and covers the byte before `seq` (32 wrapping bits), last sent not after `until`.
    pub fn send_of(&self, host: HostId, flow: EndpointId, seq: u32, until: CommonNs) -> Option<Left> {
        let h = self.rows(host)?;
        let last = self
            .store
            .lower_bound(&h.endpoints.left, (flow.0, place(OpKind::Send, u64::MAX), u64::MAX))
            .checked_sub(1)?;
        let newest = self.store.get(&h.endpoints.left, last).filter(|l| l.flow == flow && l.kind == OpKind::Send)?;
        // 64 bits that agree with `seq`, from the newest backwards
        let high = (newest.end & !0xffff_ffff) | u64::from(seq);
        let mut wanted = if high > newest.end { high.checked_sub(1 << 32)? } else { high };
        for _ in 0..NEAR {
            let first = self.store.lower_bound(&h.endpoints.left, (flow.0, place(OpKind::Send, wanted), 0));
            let mut best: Option<Left> = None;
            for i in first..first.saturating_add(NEAR) {
                let Some(l) = self.store.get(&h.endpoints.left, i).filter(|l| l.flow == flow && l.kind == OpKind::Send)
                else {
                    break;
                };
                if l.start >= wanted {
                    break;
                }
                if self.common(host, l.entry) <= until && best.is_none_or(|b| b.entry < l.entry) {
                    best = Some(l);
                }
            }
            if best.is_some() {
                return best;
            }
            wanted = wanted.checked_sub(1 << 32)?;
        }
        None
    }

    /// The last thing of a kind (`rows::op`) that left an endpoint or came to it, entered not after `until`.
    pub fn last_left(&self, host: HostId, flow: EndpointId, kind: OpKind, until: CommonNs) -> Option<Left> {
        let h = self.rows(host)?;
        let after = self.store.lower_bound(&h.endpoints.left, (flow.0, place(kind, u64::MAX), u64::MAX));
        // numbers of one stream grow with time, so the last in place is nearly the last in time
        let (mut low, mut high) = (self.store.lower_bound(&h.endpoints.left, (flow.0, place(kind, 0), 0)), after);
        while low < high {
            let middle = low + (high - low) / 2;
            let l = self.store.get(&h.endpoints.left, middle)?;
            if self.common(host, l.entry) <= until { low = middle + 1 } else { high = middle }
        }
        self.store.get(&h.endpoints.left, low.checked_sub(1)?).filter(|l| l.flow == flow && l.kind == kind)
    }

    /// The last read from an endpoint that had given bytes at a moment: one that returned then or before, or that
    /// returned within `copying_ns` after it.
    pub fn last_read(&self, host: HostId, flow: EndpointId, until: CommonNs, copying_ns: i64) -> Option<Left> {
        let last = self.last_left(host, flow, OpKind::Recv, until)?;
        if self.common(host, last.at).0 <= until.0.saturating_add(copying_ns) {
            return Some(last);
        }
        // it found nothing to read until later
        let h = self.rows(host)?;
        let place = self.store.lower_bound(&h.endpoints.left, last.key()).checked_sub(1)?;
        self.store.get(&h.endpoints.left, place).filter(|l| l.flow == flow && l.kind == OpKind::Recv)
    }

    /// A packet of a host by its number.
    pub fn packet(&self, host: HostId, id: u64) -> Option<PacketRow> {
        let h = self.rows(host)?;
        let place = self.store.lower_bound(&h.packets, (id, 0, 0));
        self.store.get(&h.packets, place).filter(|p| p.id == id)
    }

    /// The sending of a packet that `host` received: on any host, the last that is not after it. Where packets are
    /// alike ([`is_vague`]), only what the host sent to itself just before.
    pub fn sent(&self, host: HostId, received: &PacketRow) -> Option<(HostId, PacketRow)> {
        const TO_ITSELF_NS: i64 = 1_000_000;
        let now = self.common(host, received.at);
        let (mut first, is_vague) = (self.store.lower_bound(&self.sent, (received.key, 0, 0)), is_vague(received));
        if is_vague {
            let key = (received.key, u64::from(host.0), received.at.0.saturating_add(1));
            first = self.store.lower_bound(&self.sent, key).checked_sub(1)?;
        }
        let mut best: Option<((bool, CommonNs), Sent)> = None;
        for i in first..first.saturating_add(NEAR) {
            let Some(s) = self.store.get(&self.sent, i).filter(|s| s.key == received.key) else { break };
            let at = self.common(HostId(s.host as u16), s.at);
            if is_vague && (s.host != u64::from(host.0) || at > now || now.0.saturating_sub(at.0) > TO_ITSELF_NS) {
                break;
            }
            // a clock that is a little off must not hide the only sending: what seems later counts least
            let rank = (at <= now, if at <= now { at } else { CommonNs(at.0.saturating_neg()) });
            if best.is_none_or(|b| b.0 < rank) {
                best = Some((rank, s));
            }
        }
        let s = best?.1;
        let from = HostId(s.host as u16);
        Some((from, self.packet(from, s.id)?))
    }

    /// What a timer sent a packet for: the first sending of the same bytes, or the received packet whose
    /// acknowledgement had been put off.
    pub fn before_timer(&self, host: HostId, sent: &PacketRow) -> Option<PacketRow> {
        const SYN_FIN: u16 = 3;
        let h = self.rows(host)?;
        let mut place = self.store.lower_bound(&h.flows, (sent.flow, sent.at.0, sent.id));
        let has_bytes = sent.payload != 0 || sent.flags & SYN_FIN != 0;
        for _ in 0..NEAR {
            place = place.checked_sub(1)?;
            let of = self.store.get(&h.flows, place).filter(|f| f.flow == sent.flow && f.flow != 0)?;
            let Some(p) = self.packet(host, of.id) else { continue };
            let is_again = has_bytes && p.sent != 0 && p.seq == sent.seq && p.payload == sent.payload;
            if is_again || (!has_bytes && p.sent == 0) {
                return Some(p);
            }
        }
        None
    }

    /// The first moment at which a task was seen to act: when it entered its first operation or poll, or, where that
    /// was before the recording, when it returned.
    pub fn first_seen(&self, host: HostId, task: TaskId) -> Option<MonoNs> {
        let h = self.rows(host)?;
        let key = (u64::from(task.0), 0, 0);
        let operation = self.store.get(&h.ops, self.store.lower_bound(&h.ops, key)).filter(|o| o.task == task);
        let poll = self.store.get(&h.polls, self.store.lower_bound(&h.polls, key)).filter(|p| p.task == task);
        let first = self.span(host, task).0;
        let seen = |entry: MonoNs, at: MonoNs| if entry > first { entry.min(at) } else { at };
        [operation.map(|o| seen(o.entry, o.at)), poll.map(|p| seen(p.entry, p.at))].into_iter().flatten().min()
    }

    /// When a task was made and by whom, where that was seen.
    pub fn fork(&self, host: HostId, task: TaskId) -> Option<(MonoNs, TaskId)> {
        self.life(host, task, Life::Fork).map(|r| (r.at, r.parent))
    }

    /// Whether a process is known to have been selected to be watched: what it does not do is known, too.
    pub fn is_watched(&self, host: HostId, task: TaskId) -> bool {
        const GENERATIONS_MAX: usize = 32;
        let Some(h) = self.rows(host) else { return false };
        let mut of = task;
        for _ in 0..GENERATIONS_MAX {
            if h.recorded.is_whole || self.life(host, of, Life::Watched).is_some() {
                return true;
            }
            match self.fork(host, of) {
                Some((_, parent)) if parent != TaskId::UNKNOWN && parent != of => of = parent,
                _ => return false,
            }
        }
        false
    }

    /// When a task ended, where that was seen.
    pub fn exit(&self, host: HostId, task: TaskId) -> Option<MonoNs> {
        self.life(host, task, Life::Exit).map(|r| r.at)
    }

    fn life(&self, host: HostId, task: TaskId, what: Life) -> Option<TaskRow> {
        let h = self.rows(host)?;
        let first = self.store.lower_bound(&h.tasks, (u64::from(task.0), 0, 0));
        let after = self.store.lower_bound(&h.tasks, (u64::from(task.0) + 1, 0, 0));
        // a task is announced again at each segment, but it is made first and ends last
        if what == Life::Exit {
            return (first..after).rev().take(4).filter_map(|i| self.store.get(&h.tasks, i)).find(|r| r.what == what);
        }
        if what == Life::Watched {
            let mut rows = (first..after).take(NEAR as usize).filter_map(|i| self.store.get(&h.tasks, i));
            return rows.find(|r| r.what == what);
        }
        (first..first + 4).filter_map(|i| self.store.get(&h.tasks, i)).find(|r| r.task == task && r.what == what)
    }

    /// Whether wait records of a host were lost between two moments.
    pub fn lost_between(&self, host: HostId, from: MonoNs, to: MonoNs) -> bool {
        self.rows(host).is_some_and(|h| h.recorded.lost_between(from, to))
    }

    /// When another task was first seen on the processor that `task` came onto at `from`, before `to`: then it must
    /// have left without a record of it.
    pub fn displaced(&self, host: HostId, task: TaskId, cpu: u16, from: MonoNs, to: MonoNs) -> Option<MonoNs> {
        let h = self.rows(host)?;
        let place = self.store.lower_bound(&h.cpus, (u64::from(cpu), from.0.saturating_add(1), 0));
        let came = self.store.get(&h.cpus, place)?;
        (came.cpu == u32::from(cpu) && came.at < to && came.task != task).then_some(came.at)
    }
}

/// Whether a packet's row has nothing that tells it from others of its length: neither ports nor sequence numbers.
pub fn is_vague(p: &PacketRow) -> bool {
    (p.sport, p.dport, p.seq, p.ack) == (0, 0, 0, 0)
}

/// How an endpoint's other end was found, as [`How`].
pub fn how(end: &End) -> Option<How> {
    match end.how {
        1 => Some(How::Addresses),
        2 => Some(How::Translated),
        3 => Some(How::Peers),
        _ => None,
    }
}

/// What the index was made from: it is stale where this differs.
fn identity(folder: &Folder) -> u64 {
    let mut h = rustc_hash::FxBuildHasher.build_hasher();
    h.write_u64(VERSION);
    for info in folder.infos() {
        h.write_u64(info.created_real_ns);
    }
    for host in folder.hosts() {
        h.write(host.info().boot_id.as_bytes());
        h.write(host.info().hostname.as_bytes());
        h.write_u64(host.bytes());
        let (a, b) = host.span().unwrap_or_default();
        h.write_u64(a.0);
        h.write_u64(b.0);
        for &table in Table::ALL {
            h.write_u64(host.row_count(table));
        }
    }
    h.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use wakepath_model::folder::{FolderWriter, HostInfo, Options};

    #[test]
    fn a_file_of_the_index_that_was_cut_or_emptied_is_made_again() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("t");
        let mut w = FolderWriter::create(&path, HostInfo::default(), Options::default())?;
        for i in 1..=100 {
            w.push(&WaitRow { at: MonoNs(i * 10), task: TaskId(1), ..WaitRow::default() });
        }
        w.close()?;
        let folder = Folder::open(&[&path])?;
        let dirs = [path.clone()];
        assert_eq!(Index::open(&folder, &dirs)?.wait_count(), 100);
        let index = fs::read_dir(path.join(CACHE))?.flatten().next().ok_or("no index")?.path();
        for file in fs::read_dir(&index)?.flatten().map(|f| f.path()).collect::<Vec<_>>() {
            let length = fs::metadata(&file)?.len();
            for cut in [0, length / 2, length.saturating_sub(64)] {
                OpenOptions::new().write(true).open(&file)?.set_len(cut)?;
                assert_eq!(Index::open(&folder, &dirs)?.wait_count(), 100, "{} cut at {cut}", file.display());
                assert_eq!(fs::metadata(&file)?.len(), length, "{} cut at {cut}", file.display());
            }
            fs::remove_file(&file)?;
            assert!(std::process::Command::new("mkfifo").arg(&file).status()?.success());
            assert_eq!(Index::open(&folder, &dirs)?.wait_count(), 100, "{}", file.display());
        }
        Ok(())
    }
}
