//! `--otlp`: sends requests to a collector while they are recorded.
//!
//! A thread of low priority reads the newest part of the folder every few seconds, as any other question would, and sends what
//! can no longer change. The recorder knows nothing of it: it waits for nothing and hands nothing over. What a part of a
//! recording never shows is no habit, so links rest on none.

use crate::push::{Push, PushError};
use crate::trace::{Paths, Tells, Trace, Traces, span_id};
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use wakepath_analysis::names::Names;
use wakepath_analysis::why::Recording;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::{Half, Request};
use wakepath_graph::Index;
use wakepath_model::defects::id as defect;
use wakepath_model::folder::{Folder, Host, Part};
use wakepath_model::ids::{HostId, MonoNs};
use wakepath_present::text::reasons;
use wakepath_present::units::{self, counted};

/// How often the folder is read; and not before as long a rest as the reading took.
const EVERY: Duration = Duration::from_secs(2);
/// How long a request must be over: until then links may still change, and losses be reported.
const SETTLE_NS: u64 = 3_000_000_000;
/// What is read before the first request that is sent: who was at work then.
const WARM_NS: u64 = 2_000_000_000;
/// A request that takes longer is not sent: what it takes is read again each time.
const LONG_NS: u64 = 20_000_000_000;
/// If so much is due, it is left out but for the newest.
const BEHIND_NS: u64 = 60_000_000_000;
/// Most exchanges that are remembered as sent.
const SENT_MAX: usize = 1 << 20;
/// Most that are held until it is known that no open request changes them, of messages of unknown requests and of requests that
/// may lack calls; of more, the rest next time.
const HELD_MAX: usize = 4096;
/// How long the end of a recording waits for the rest: in all, and without anything being sent.
const END_WAIT: Duration = Duration::from_secs(60);
const END_IDLE: Duration = Duration::from_secs(15);
/// How often it looks.
const END_LOOK: Duration = Duration::from_millis(200);

/// What the thread that sends is given by the recorder.
pub struct Begins {
    /// The boot of the host that is recorded: the folder may have others, from before.
    pub boot: String,
    /// What the thread does first: it takes a low priority.
    pub first: fn(),
    /// Says at once, to the user, why something was not sent; once.
    pub say: fn(&str),
}

/// Why nothing is sent.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The address cannot be sent to.
    #[error(transparent)]
    Address(#[from] PushError),
    /// There is no thread that would send.
    #[error("starting the thread of --otlp")]
    Thread(#[source] io::Error),
}

/// What became of what was recorded.
#[derive(Debug)]
struct Counts {
    say: fn(&str),
    /// Requests, and messages whose request is not known.
    traces: AtomicU64,
    spans: AtomicU64,
    rejected: AtomicU64,
    undelivered: AtomicU64,
    behind_ms: AtomicU64,
    too_long: AtomicU64,
    /// Why something was not sent first.
    why: Mutex<Option<String>>,
    has_told: AtomicBool,
}

/// Sends what a recorder writes.
pub struct Exporter {
    url: String,
    counts: Arc<Counts>,
    stop: mpsc::Sender<()>,
    done: Receiver<()>,
}

impl Exporter {
    /// Begins to send what is written into a folder. The thread takes this one's rights.
    ///
    /// # Errors
    /// Where no thread can be made.
    pub fn begin(folder: &Path, url: &str, begins: Begins) -> Result<Exporter, FollowError> {
        let Begins { boot, first, say } = begins;
        let counts = Arc::new(Counts::new(say));
        let (stop, stopped) = mpsc::channel();
        let (finished, done) = mpsc::channel();
        let mut sender = Sender {
            dirs: vec![folder.to_owned()],
            boot,
            push: Push::new(url)?,
            counts: Arc::clone(&counts),
            from: MonoNs(0),
            sent: HashMap::new(),
            done: HashMap::new(),
        };
        let work = move || {
            first();
            sender.until(&stopped);
            // whoever waited too long is gone
            let _ = finished.send(());
        };
        thread::Builder::new().name("otlp".into()).spawn(work).map_err(FollowError::Thread)?;
        Ok(Exporter { url: url.to_owned(), counts, stop, done })
    }

    /// What was not sent so far, by defect.
    pub fn left_out(&self) -> [(&'static str, u64); 3] {
        let c = &self.counts;
        [
            (defect::EXPORT_UNDELIVERED, c.undelivered.load(Relaxed) + c.rejected.load(Relaxed)),
            (defect::EXPORT_BEHIND, c.behind_ms.load(Relaxed)),
            (defect::EXPORT_TOO_LONG, c.too_long.load(Relaxed)),
        ]
    }

    /// All is written: waits until the rest is sent, but not for long. Says what became of all.
    pub fn finish(&mut self) -> String {
        self.stop = mpsc::channel().0;
        let is_done = self.is_done_in_time();
        self.counts.said(&self.url, is_done)
    }

    fn is_done_in_time(&self) -> bool {
        let begun = Instant::now();
        let (mut sent, mut moved) = (0, begun);
        while begun.elapsed() < END_WAIT && moved.elapsed() < END_IDLE {
            match self.done.recv_timeout(END_LOOK) {
                Ok(()) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = self.counts.traces.load(Relaxed);
            if std::mem::replace(&mut sent, now) != now {
                moved = Instant::now();
            }
        }
        false
    }
}

impl Counts {
    fn new(say: fn(&str)) -> Counts {
        Counts {
            say,
            traces: AtomicU64::new(0),
            spans: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            undelivered: AtomicU64::new(0),
            behind_ms: AtomicU64::new(0),
            too_long: AtomicU64::new(0),
            why: Mutex::new(None),
            has_told: AtomicBool::new(false),
        }
    }

    fn said(&self, url: &str, is_done: bool) -> String {
        let of = |n: &AtomicU64| n.load(Relaxed);
        let mut text = format!(
            "--otlp: {} sent to {url}, {} taken",
            counted(of(&self.traces), "trace", "traces"),
            counted(of(&self.spans), "span", "spans")
        );
        let mut parts = Vec::new();
        if of(&self.rejected) > 0 {
            parts.push(format!("{} rejected by the collector", counted(of(&self.rejected), "span", "spans")));
        }
        if of(&self.undelivered) > 0 {
            parts.push(format!("{} not delivered", counted(of(&self.undelivered), "span", "spans")));
        }
        if of(&self.too_long) > 0 {
            let long = units::duration(LONG_NS);
            parts.push(format!("{} longer than {long}", counted(of(&self.too_long), "request", "requests")));
        }
        if of(&self.behind_ms) > 0 {
            let behind = units::duration(of(&self.behind_ms) * 1_000_000);
            parts.push(format!("{behind} of the recording left out, since sending could not keep up"));
        }
        if !is_done {
            parts.push("the rest not sent in time".into());
        }
        if !parts.is_empty() {
            text += &format!("; NOT SENT: {}", parts.join(", "));
            let why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
            why.iter().for_each(|why| text += &format!(" ({why})"));
        }
        text
    }

    /// Keeps why something was not sent, and says so at once the first time.
    fn failed(&self, why: String) {
        if !self.has_told.swap(true, Relaxed) {
            (self.say)(&why);
        }
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }
}

/// The thread's own.
struct Sender {
    dirs: Vec<PathBuf>,
    boot: String,
    push: Push,
    counts: Arc<Counts>,
    /// All requests that began before were sent or left out.
    from: MonoNs,
    /// Both ends of all exchanges that were sent, and when they began: what begins in the middle of a sent request must not
    /// look like one of its own where the next part begins after its parent.
    sent: HashMap<u64, MonoNs>,
    /// Requests that were sent, and when they ended, as long as they are read again: what turns out to be theirs is sent behind them.
    done: HashMap<u64, MonoNs>,
}

impl Sender {
    /// Reads and sends until nobody wants it any more, and then what is left.
    fn until(&mut self, stopped: &Receiver<()>) {
        let mut rest = EVERY;
        loop {
            let is_last = stopped.recv_timeout(rest) == Err(RecvTimeoutError::Disconnected);
            let began = Instant::now();
            if let Err(e) = self.round(is_last) {
                self.counts.failed(reasons(e.as_ref()));
            }
            rest = EVERY.max(began.elapsed());
            if is_last {
                return;
            }
        }
    }

    fn round(&mut self, is_last: bool) -> Result<(), Box<dyn Error>> {
        let since = MonoNs(self.from.0.saturating_sub(WARM_NS));
        let mut folder = Folder::open_part(&self.dirs, Part::Since(since))?;
        folder.refuse_habits();
        let Some((host, end)) = recorded_here(&folder, &self.boot) else { return Ok(()) };
        self.keep_up(&folder, host, end);
        let names = Names::read(&folder);
        let index = Index::open(&folder, &self.dirs)?;
        let recording = Recording { folder: &folder, index: &index, names: &names };
        let paths = (index.wait_count() > 0).then(|| Paths::new(recording, Tells::default()));
        let traces = Traces::new(&names, folder.timeline(), paths);
        let settled = if is_last { MonoNs(u64::MAX) } else { MonoNs(end.0.saturating_sub(SETTLE_NS)) };
        let mut from = settled.min(end);
        let (mut unknown, mut doubtful) = (Vec::new(), Vec::new());
        let mut unfinished = 0;
        let is_young = |began: MonoNs| end.0.saturating_sub(began.0) < LONG_NS;
        let each = |r: Request| {
            let Some((began, ended)) = times(&r, host) else { return };
            if began < self.from || self.sent.contains_key(&r.id) {
                if ended <= settled
                    && !is_unfinished(&r)
                    && let Some(late) = self.late(&r, &traces)
                {
                    self.push.add(&late);
                }
                return;
            }
            if !is_last && (ended > settled || is_unfinished(&r)) {
                if is_young(began) {
                    from = from.min(began);
                    unfinished += u64::from(began < settled);
                    return;
                }
                self.counts.too_long.fetch_add(1, Relaxed);
            } else if !is_last && (r.orphan.is_some() || is_young(began) && !r.gaps().is_empty()) {
                let held = if r.orphan.is_some() { &mut unknown } else { &mut doubtful };
                match held.len() {
                    HELD_MAX.. => from = from.min(began),
                    _ => held.push(Held { request: r.id, began, ended, trace: traces.of(&r), ids: ids(&r).collect() }),
                }
                return;
            } else {
                self.push.add(&traces.of(&r));
                self.counts.traces.fetch_add(1, Relaxed);
                self.done.insert(r.id, ended);
            }
            self.sent.extend(ids(&r));
        };
        wakepath_causality::reconstruct(&folder, each, |_, _, _, _| {});
        // when one that is open ends, that may show whose calls were that another lacks, or that nobody is known to have made
        let (held, sure) = hold(from, doubtful);
        from = held;
        let (open, over): (Vec<Held>, Vec<Held>) = unknown.into_iter().partition(|one| one.began >= held);
        from = open.iter().map(|one| one.began).fold(from, MonoNs::min);
        for one in sure.into_iter().chain(over) {
            self.push.add(&one.trace);
            self.counts.traces.fetch_add(1, Relaxed);
            self.done.insert(one.request, one.ended);
            self.sent.extend(one.ids);
        }
        self.push.flush();
        self.count();
        self.from = from.max(self.from);
        if self.sent.len() > SENT_MAX {
            // what was open has no place any more
            self.counts.too_long.fetch_add(unfinished, Relaxed);
            self.from = settled.min(end).max(self.from);
        }
        let from = self.from;
        self.sent.retain(|_, began| *began >= from);
        self.done.retain(|_, ended| ended.0.saturating_add(WARM_NS) >= from.0);
        Ok(())
    }

    /// The spans of a request that was sent without them, since nobody knew whose they were then. They count as sent from now on.
    fn late(&mut self, r: &Request, traces: &Traces<'_>) -> Option<Trace> {
        if !self.done.contains_key(&r.id) {
            return None;
        }
        let is_late = |(id, began): &(u64, MonoNs)| *began >= self.from && !self.sent.contains_key(id);
        let late: HashMap<u64, MonoNs> = ids(r).filter(is_late).collect();
        if late.is_empty() {
            return None;
        }
        let spans: HashSet<u64> = late.keys().map(|&half| span_id(r.id, half)).collect();
        let mut trace = traces.of(r);
        trace.spans.retain(|s| spans.contains(&s.id));
        self.sent.extend(late);
        (!trace.spans.is_empty()).then_some(trace)
    }

    /// Leaves out all but the newest, where too much is due.
    fn keep_up(&mut self, folder: &Folder, host: HostId, end: MonoNs) {
        let begin = folder.host(host).and_then(Host::span).map_or(end, |s| s.0);
        let due = end.0.saturating_sub(self.from.max(begin).0);
        if due > BEHIND_NS {
            let from = MonoNs(end.0 - LONG_NS);
            self.counts.behind_ms.fetch_add((due - LONG_NS) / 1_000_000, Relaxed);
            self.from = from;
        }
    }

    fn count(&self) {
        let sent = self.push.sent();
        self.counts.spans.store(sent.spans, Relaxed);
        self.counts.rejected.store(sent.rejected, Relaxed);
        self.counts.undelivered.store(sent.dropped, Relaxed);
        if let Some(why) = self.push.failure() {
            self.counts.failed(why.to_string());
        }
    }
}

/// What may yet turn out to be otherwise: a message whose request is not known, or a request that may lack calls.
struct Held {
    request: u64,
    began: MonoNs,
    ended: MonoNs,
    trace: Trace,
    ids: Vec<(u64, MonoNs)>,
}

/// Of requests that may lack calls those that nothing open can still complete, and since when the others, or what is open, began.
/// One that is held is as good as open for what overlaps it.
fn hold(open_since: MonoNs, mut doubtful: Vec<Held>) -> (MonoNs, Vec<Held>) {
    doubtful.sort_unstable_by_key(|r| std::cmp::Reverse(r.ended));
    let mut since = open_since;
    let mut sure = Vec::new();
    for r in doubtful {
        if r.ended >= since { since = since.min(r.began) } else { sure.push(r) }
    }
    (since, sure)
}

/// Both ends of a request's exchanges, and when they began.
fn ids(r: &Request) -> impl Iterator<Item = (u64, MonoNs)> + '_ {
    let halves = r.spans.iter().flat_map(|s| s.caller.iter().chain(&s.callee));
    halves.flat_map(|h| [Some(h.id()), h.other_id()].into_iter().flatten().map(|id| (id, h.exchange.request.began)))
}

/// The host that is recorded now, and its newest row: the folder may have others, from before.
fn recorded_here(folder: &Folder, boot: &str) -> Option<(HostId, MonoNs)> {
    let here = folder.hosts().iter().find(|h| h.info().boot_id == boot)?;
    Some((here.id(), here.span()?.1))
}

/// When the first of a request's exchanges began and the last ended, by the recorder's clock; `None` of another host's.
fn times(r: &Request, host: HostId) -> Option<(MonoNs, MonoNs)> {
    let halves = || r.spans.iter().flat_map(|s| s.caller.iter().chain(&s.callee));
    let is_here = |h: &Half| h.host == host;
    let began = halves().filter(|h| is_here(h)).map(|h| h.exchange.request.began).min()?;
    let ended = halves().filter(|h| is_here(h)).map(|h| h.exchange.reply.ended).max()?;
    halves().all(is_here).then_some((began, ended))
}

/// Whether any exchange of a request goes on.
fn is_unfinished(r: &Request) -> bool {
    r.spans.iter().flat_map(|s| s.caller.iter().chain(&s.callee)).any(|h| h.exchange.is(ExchangeFlag::Unfinished))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_testkit::recording::Cuts;
    use wakepath_testkit::script::play;

    /// A request is sent while nobody knows who made its second call; that is known when the folder is read again.
    #[test]
    fn what_turns_out_to_be_of_a_request_that_was_sent_is_sent_once() {
        let script = "task A front\ntask D store\nflow c - A\nflow d A D\n10 A takes r1 c\n\
                      20 A asks q1 d for r1\n30 D takes q1\n40 D answers q1\n50 A hears q1\n\
                      60 A asks q2 d for r1\n70 D takes q2\n80 D answers q2\n90 A hears q2\n100 A answers r1\n";
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let recording = play(script).expect("the script");
        let dirs = recording.write(&dir.path().join("t"), Cuts::default()).expect("written");
        let folder = Folder::open(&dirs).expect("it was just written");
        let mut found = Vec::new();
        wakepath_causality::reconstruct(&folder, |r| found.push(r), |_, _, _, _| {});
        let [r] = &found[..] else { panic!("one request: {found:?}") };
        let names = Names::read(&folder);
        let traces = Traces::new(&names, folder.timeline(), None);
        let mut sender = Sender {
            dirs,
            boot: String::new(),
            push: Push::new("http://127.0.0.1:9").expect("an address"),
            counts: Arc::new(Counts::new(|_| {})),
            from: MonoNs(0),
            sent: HashMap::new(),
            done: HashMap::new(),
        };
        assert_eq!(sender.late(r, &traces), None, "it was not sent itself");
        sender.done.insert(r.id, MonoNs(100_000));
        let second = r.spans.last().and_then(|s| s.caller.as_ref()).map(|h| h.exchange.request.began);
        sender.sent.extend(ids(r).filter(|(_, began)| Some(*began) < second));
        let late = sender.late(r, &traces).expect("its second call");
        let all = traces.of(r).spans;
        assert_eq!((late.spans.len(), all.len()), (2, 5), "both sides of the call, of those of the request");
        assert!(late.spans.iter().all(|s| all.iter().any(|one| one.id == s.id && one.parent == s.parent)));
        assert_eq!(sender.late(r, &traces), None, "once");
    }

    #[test]
    fn a_request_that_may_lack_calls_waits_for_what_overlaps_it() {
        let held = |began, ended| Held {
            request: began,
            began: MonoNs(began),
            ended: MonoNs(ended),
            trace: Trace { id: [0; 16], spans: Vec::new() },
            ids: Vec::new(),
        };
        let begins = |of: &[Held]| of.iter().map(|r| r.began.0).collect::<Vec<_>>();
        // one is open since 100; the second overlaps it, the third the second, and the first neither
        let (since, sure) = hold(MonoNs(100), vec![held(10, 20), held(80, 110), held(50, 85)]);
        assert_eq!((since, begins(&sure)), (MonoNs(50), vec![10]));
        let (since, sure) = hold(MonoNs(100), vec![held(10, 20)]);
        assert_eq!((since, begins(&sure)), (MonoNs(100), vec![10]));
    }

    #[test]
    fn what_was_not_sent_is_said_with_the_reason() {
        let counts = Counts::new(|_| {});
        counts.traces.store(3, Relaxed);
        counts.spans.store(9, Relaxed);
        assert_eq!(counts.said("grpc://c", true), "--otlp: 3 traces sent to grpc://c, 9 spans taken");
        counts.undelivered.store(1, Relaxed);
        counts.behind_ms.store(40_000, Relaxed);
        counts.too_long.store(2, Relaxed);
        *counts.why.lock().expect("nobody panicked") = Some("c: refused".into());
        assert_eq!(
            counts.said("grpc://c", false),
            "--otlp: 3 traces sent to grpc://c, 9 spans taken; NOT SENT: 1 span not delivered, 2 requests longer than \
             20.0 s, 40.0 s of the recording left out, since sending could not keep up, the rest not sent in time \
             (c: refused)"
        );
    }
}
