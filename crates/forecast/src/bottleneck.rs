//! What holds a system up: found by taking things away, one at a time, and replaying without them.
//!
//! The critical path tells where the time went (section 3.5). What would be gained by changing it only a replay tells,
//! since the next-longest path takes over. So whatever there is a limited number of and was waited for is made unlimited
//! ("logical zeroing"), and what gains most is the bottleneck. Where no limit gains much, two together may: one worker
//! on one processor waits for neither. Where even that gains little, what holds the system up is work itself, or a delay.

use crate::change::{Amount, Bandwidth, Change, Delay};
use crate::outcome::{KindOutcome, Outcome, Place};
use crate::replay::{Options, replay};
use crate::system::{KindId, Queue, QueueId, QueueKind, StateId, StationId, System, WITHOUT_BOUND, Workers};
use std::collections::BTreeMap;

/// The state of being on the way between two services, whose process is the two ends' names.
pub const LINK: &str = "link";
/// The state of being woken.
pub const WAKE_UP: &str = "wake-up";

/// Gains below this are none: a replay of a random process differs from another by that much.
const LEAST_GAIN: f64 = 0.01;
/// A limit whose removal gains less than this does not hold the system up; then the work itself is looked at.
const LIMIT_GAIN: f64 = 0.1;
/// Servers that are at work for this part of the time are as good as always at work.
const TAKEN: f64 = 0.9;
/// Most limits looked at one by one, and most of them looked at two by two.
const SINGLES_MAX: usize = 8;
const PAIRED_MAX: usize = 4;
/// Steps of replays that a search may take, so that large recordings are answered too; a few replays are always made.
const STEPS_MAX: u64 = 30_000_000;

/// Something that could be more, or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Limit {
    /// The servers of a station.
    Servers(StationId),
    /// The tokens of a pool, of workers or of a lock; the room of another queue.
    Room(QueueId),
    /// The bandwidth of a link.
    Bandwidth(QueueId),
    /// The delay of a link.
    Delay(QueueId),
    /// Work, which takes its time.
    Work(StateId),
}

/// What is measured by a gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// Mean latency of the transactions: of one kind, or of all.
    Latency(Option<KindId>),
    /// The length of the run, or mean latency, whichever gains more: machines that were recorded as they ran.
    Run,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The bottleneck: one limit, or two that must go together. Empty where nothing gains anything.
    pub limits: Vec<Limit>,
    /// How many times better it is without: 2 = half the latency, or half the run.
    pub gain: f64,
    /// What came of the replay without it.
    pub outcome: Option<Outcome>,
    /// All that was tried alone, the best first.
    pub tried: Vec<(Limit, f64)>,
    /// How much of it is enough for nearly all of the gain.
    pub enough: Option<Enough>,
}

/// How far something can be improved, alone, until that no longer matters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    /// What.
    pub limit: Limit,
    /// How many times better all is without it.
    pub gain: f64,
    /// How much of it is enough for nearly all of the gain; `None` where there is no gain, or it was too much to search for.
    pub enough: Option<Enough>,
}

/// From where on more of a limit changes little.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Enough {
    /// What there is: servers, tokens, room; of bandwidth, delay and work 1.
    pub now: f64,
    /// What would be enough; of delay and work a factor below 1, of bandwidth one above.
    pub then: f64,
}

impl Score {
    /// How many times better one is than the other.
    pub fn gain(self, before: &Outcome, after: &Outcome) -> f64 {
        // what takes no time any more takes less than the clock shows
        let ratio = |a: f64, b: f64| if a > 0.0 { a / b.max(1.0) } else { 1.0 };
        let is_done = after.transactions > 0;
        match self {
            Score::Latency(None) if is_done => ratio(before.mean_ns(), after.mean_ns()),
            Score::Latency(Some(kind)) if is_done => ratio(mean_of(before, kind), mean_of(after, kind)),
            Score::Latency(_) => 1.0,
            Score::Run => {
                let run = ratio(before.elapsed_ns as f64, after.elapsed_ns as f64);
                if is_done { run.max(ratio(before.mean_ns(), after.mean_ns())) } else { run }
            }
        }
    }
}

fn mean_of(outcome: &Outcome, kind: KindId) -> f64 {
    let of = outcome.kinds.iter().find(|k| k.kind == kind).map(|k| &k.latency);
    of.filter(|h| h.count() > 0).map_or(0.0, |h| h.sum() as f64 / h.count() as f64)
}

impl Limit {
    /// Makes it so many times as much: servers, tokens, room, bandwidth; of delay and work a part of it. Infinity takes it
    /// away. Whole things are rounded up.
    pub fn widen(self, system: &mut System, times: f64) {
        let whole = |n: u64| {
            if times.is_finite() { (n as f64 * times).ceil().min(WITHOUT_BOUND as f64) as u64 } else { WITHOUT_BOUND }
        };
        match self {
            Limit::Servers(s) => {
                if let Some(s) = system.stations.get_mut(s.index()) {
                    s.servers *= times;
                }
            }
            Limit::Room(q) => {
                if let Some(q) = system.queues.get_mut(q.index()) {
                    if q.is_tokens() {
                        q.initial = whole(q.initial);
                        q.capacity = q.capacity.map(|c| c.max(q.initial));
                    } else {
                        q.capacity = if times.is_finite() { q.capacity.map(whole) } else { None };
                    }
                }
            }
            Limit::Bandwidth(q) => both_ways(system, q).for_each(|q| q.ns_per_item /= times),
            Limit::Delay(q) => {
                both_ways(system, q).for_each(|q| q.delay_ns = (q.delay_ns as f64 / times) as u64);
            }
            Limit::Work(state) => {
                system.scale_work(|s| s == state, 1.0 / times);
            }
        }
    }

    /// What there is of it, where that is a number.
    pub fn now(self, system: &System) -> f64 {
        match self {
            Limit::Servers(s) => system.stations.get(s.index()).map_or(1.0, |s| s.servers),
            Limit::Room(q) => system.queues.get(q.index()).map_or(1.0, |q| {
                if q.is_tokens() { q.initial as f64 } else { q.capacity.unwrap_or(WITHOUT_BOUND) as f64 }
            }),
            _ => 1.0,
        }
    }

    /// The change that makes it so much, as `--change` reads it; `None` where no change does. Of bandwidth, delay and work
    /// `amount` is a factor; infinity = without bound.
    pub fn change(self, system: &System, amount: f64) -> Option<Change> {
        let to = if amount >= WITHOUT_BOUND as f64 { Amount::Unbounded } else { Amount::To(amount) };
        let queue = |q: QueueId| system.queues.get(q.index());
        Some(match self {
            Limit::Servers(s) => {
                let s = system.stations.get(s.index()).filter(|s| s.discipline.is_shared())?;
                Change::Cpu { of: s.name.clone(), to }
            }
            Limit::Room(q) => {
                let name = queue(q)?.name.clone();
                match queue(q)?.kind {
                    QueueKind::Workers(kind) => {
                        let service = name.strip_suffix(kind.names()[1]).map(str::trim_end);
                        let of = service.unwrap_or(&name).to_owned();
                        match kind {
                            Workers::Any => Change::Workers { of, to },
                            Workers::Threads => Change::Threads { of, to },
                            // how the requests would be spread over more of them is not known
                            Workers::Processes => return None,
                        }
                    }
                    QueueKind::Pool => Change::Pool { name, to },
                    QueueKind::Lock => {
                        let (process, state) = name.rsplit_once('/')?;
                        let (process, state) = (process.to_owned(), state.to_owned());
                        Change::Scale { host: "*".into(), process, state, factor: 0.5 }
                    }
                    _ => Change::Queue { name, to },
                }
            }
            Limit::Bandwidth(q) => {
                let times = if amount.is_finite() { Bandwidth::Times(amount) } else { Bandwidth::Unbounded };
                Change::Link { between: queue(q)?.name.clone(), bandwidth: Some(times), delay: None }
            }
            Limit::Delay(q) => {
                let delay = Delay::Times(if amount.is_finite() { amount } else { 0.0 });
                Change::Link { between: queue(q)?.name.clone(), bandwidth: None, delay: Some(delay) }
            }
            Limit::Work(state) => {
                let s = system.states.get(state.index())?;
                let factor = if amount.is_finite() { amount } else { 0.0 };
                match s.state.as_str() {
                    LINK => {
                        Change::Link { between: s.process.clone(), bandwidth: None, delay: Some(Delay::Times(factor)) }
                    }
                    // how soon a task is woken is the scheduler's
                    WAKE_UP => return None,
                    _ => {
                        let (host, process, state) = (s.host.clone(), s.process.clone(), s.state.clone());
                        Change::Scale { host, process, state, factor }
                    }
                }
            }
        })
    }

    fn is_whole(self, system: &System) -> bool {
        match self {
            Limit::Room(_) => true,
            Limit::Servers(s) => system.stations.get(s.index()).is_some_and(|s| s.servers.fract() == 0.0),
            _ => false,
        }
    }
}

/// A link's queues: each way has one, of the same name, and a change is made to both.
fn both_ways(system: &mut System, link: QueueId) -> impl Iterator<Item = &mut Queue> {
    let name = system.queues.get(link.index()).map(|q| q.name.clone());
    system.queues.iter_mut().filter(move |q| q.kind == QueueKind::Link && Some(&q.name) == name.as_ref())
}

/// Every limit that was waited for, the longest waited for first; and every delay, the longest on the path first.
fn waited_for(system: &System, outcome: &Outcome) -> (Vec<Limit>, Vec<Limit>) {
    let mut found: Vec<(u64, Limit)> = Vec::new();
    for (i, (s, used)) in system.stations.iter().zip(&outcome.stations).enumerate() {
        // work on a part of a server takes longer without anybody else there; and where as many work as there are
        // servers, nobody need wait for one that is always taken
        let is_taken = used.busy_ns as f64 >= TAKEN * s.servers * outcome.elapsed_ns as f64;
        let slowed = if s.servers < 1.0 || is_taken { used.busy_ns } else { 0 };
        if s.servers.is_finite() {
            found.push((used.waited_ns + slowed, Limit::Servers(StationId(i as u32))));
        }
    }
    for (i, (q, used)) in system.queues.iter().zip(&outcome.queues).enumerate() {
        let id = QueueId(i as u32);
        if q.is_tokens() && q.initial < WITHOUT_BOUND {
            found.push((used.waited_items_ns, Limit::Room(id)));
        } else if q.capacity.is_some() {
            found.push((used.waited_room_ns, Limit::Room(id)));
        }
        let passing = |per_item: f64| (per_item * used.count as f64) as u64;
        found.push((passing(q.ns_per_item), Limit::Bandwidth(id)));
        // bytes travel together
        found.push((on_path(outcome, Place::Queue(id)).min(passing(q.delay_ns as f64)), Limit::Delay(id)));
    }
    found.retain(|f| f.0 > 0);
    found.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut limits: Vec<Limit> = Vec::new();
    for (_, limit) in found {
        // of a link's two ways the one that is waited for longer stands for both
        let is_same = |other: &Limit| match (*other, limit) {
            (Limit::Bandwidth(a), Limit::Bandwidth(b)) | (Limit::Delay(a), Limit::Delay(b)) => {
                system.queues[a.index()].name == system.queues[b.index()].name
            }
            _ => false,
        };
        if !limits.iter().any(is_same) {
            limits.push(limit);
        }
    }
    limits.into_iter().partition(|l| !matches!(l, Limit::Delay(_)))
}

fn on_path(outcome: &Outcome, place: Place) -> u64 {
    let shares = outcome.path.iter().chain(outcome.kinds.iter().flat_map(|k| &k.shares));
    shares.filter(|s| s.place == place).map(|s| s.ns).max().unwrap_or(0)
}

/// The states that the paths spend most on, the most first: those of one kind; or, where all requests count, of all kinds.
/// The run's own path is that of its last requests, which need not be like the others.
fn worked(outcome: &Outcome, score: Score) -> Vec<StateId> {
    let is_of = |k: &KindOutcome| match score {
        Score::Latency(kind) => kind.is_none_or(|wanted| wanted == k.kind),
        Score::Run => false,
    };
    let mut shares = outcome.kinds.iter().filter(|k| is_of(k)).flat_map(|k| &k.shares).peekable();
    let run = if shares.peek().is_none() { &outcome.path[..] } else { &[] };
    let mut spent: BTreeMap<StateId, u64> = BTreeMap::new();
    for share in shares.chain(run) {
        if let Place::State(s) = share.place
            && share.ns > 0
        {
            *spent.entry(s).or_default() += share.ns;
        }
    }
    let mut states: Vec<(u64, StateId)> = spent.into_iter().map(|(s, ns)| (ns, s)).collect();
    states.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    states.into_iter().map(|s| s.1).collect()
}

/// A search in one system.
struct Search<'a> {
    system: &'a System,
    base: &'a Outcome,
    score: Score,
    left: u64,
}

impl Search<'_> {
    fn without(&mut self, limits: &[Limit], times: f64) -> (f64, Outcome) {
        let mut changed = self.system.clone();
        limits.iter().for_each(|l| l.widen(&mut changed, times));
        let outcome = replay(&changed, &Options { path: false, ..Options::default() });
        self.left = self.left.saturating_sub(outcome.steps.max(1));
        (self.score.gain(self.base, &outcome), outcome)
    }

    /// The smallest widening, of doublings and then of halves between them, that brings all but a tenth of the gain.
    fn enough(&mut self, limit: Limit, gain: f64) -> Option<Enough> {
        const DOUBLINGS: usize = 10;
        const HALVINGS: usize = 3;
        let now = limit.now(self.system);
        let wanted = 1.0 + (gain - 1.0) * 0.9;
        let (mut low, mut high) = (1.0, 2.0);
        for _ in 0..DOUBLINGS {
            if self.left == 0 {
                return None;
            }
            if self.without(&[limit], high).0 >= wanted {
                break;
            }
            (low, high) = (high, high * 2.0);
        }
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            // between two whole numbers there is none
            let is_between = !limit.is_whole(self.system) || (now * low).ceil() + 1.0 < (now * high).ceil();
            if self.left == 0 || !is_between {
                break;
            }
            if self.without(&[limit], middle).0 >= wanted { high = middle } else { low = middle }
        }
        let then = match limit {
            Limit::Delay(_) | Limit::Work(_) => two_digits(1.0 / high),
            Limit::Servers(_) | Limit::Room(_) if limit.is_whole(self.system) => (now * high).ceil(),
            // parts of processors in hundredths
            _ => (now * high * 100.0).ceil() / 100.0,
        };
        Some(Enough { now, then })
    }
}

/// A part of 1 with two digits, not more than it is.
fn two_digits(part: f64) -> f64 {
    let scale = 10f64.powf(1.0 - part.log10().floor());
    (part * scale).floor() / scale
}

/// Finds the bottleneck. `base` is what came of the system's replay, with its path.
pub fn find(system: &System, base: &Outcome, score: Score) -> Found {
    let mut search = Search { system, base, score, left: STEPS_MAX };
    let (limits, delays) = waited_for(system, base);
    let affordable = usize::try_from(STEPS_MAX / base.steps.max(1)).unwrap_or(SINGLES_MAX).clamp(2, SINGLES_MAX);
    let mut tried: Vec<(Limit, f64, Outcome)> = Vec::new();
    let mut attempt = |search: &mut Search<'_>, limit: Limit| {
        let (gain, outcome) = search.without(&[limit], f64::INFINITY);
        tried.push((limit, gain, outcome));
        gain
    };
    let mut best = 1.0_f64;
    for &limit in limits.iter().take(affordable) {
        best = best.max(attempt(&mut search, limit));
    }
    let mut pair: Option<([Limit; 2], f64, Outcome)> = None;
    if best < 1.0 + LIMIT_GAIN {
        let few: Vec<Limit> = limits.iter().copied().take(affordable.min(PAIRED_MAX)).collect();
        for (i, &a) in few.iter().enumerate() {
            for &b in &few[i + 1..] {
                if search.left > 0 {
                    let (gain, outcome) = search.without(&[a, b], f64::INFINITY);
                    if gain >= 1.0 + LIMIT_GAIN && pair.as_ref().is_none_or(|p| p.1 < gain) {
                        pair = Some(([a, b], gain, outcome));
                    }
                }
            }
        }
        if pair.is_none() {
            for limit in worked(base, score).into_iter().map(Limit::Work).take(affordable).chain(delays) {
                attempt(&mut search, limit);
            }
        }
    }
    tried.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let gains = tried.iter().map(|t| (t.0, t.1)).collect();
    let (limits, gain, outcome) = match pair {
        Some((limits, gain, outcome)) => (limits.to_vec(), gain, Some(outcome)),
        None => match tried.into_iter().next().filter(|t| t.1 >= 1.0 + LEAST_GAIN) {
            Some((limit, gain, outcome)) => (vec![limit], gain, Some(outcome)),
            None => (Vec::new(), 1.0, None),
        },
    };
    let enough = match limits[..] {
        [one] => search.enough(one, gain),
        _ => None,
    };
    Found { limits, gain, outcome, tried: gains, enough }
}

/// Of everything that was taken away in a search, and of the work and the delays that the paths spend most on, how far it can
/// be improved alone until that no longer matters; what gains most first. Costs some dozen replays.
pub fn margins(system: &System, base: &Outcome, found: &Found, score: Score) -> Vec<Margin> {
    let mut search = Search { system, base, score, left: STEPS_MAX };
    let mut all: Vec<(Limit, f64)> = found.tried.clone();
    let (_, delays) = waited_for(system, base);
    let others = worked(base, score).into_iter().map(Limit::Work).take(SINGLES_MAX).chain(delays);
    for limit in others {
        if search.left > 0 && !all.iter().any(|(l, _)| *l == limit) {
            all.push((limit, search.without(&[limit], f64::INFINITY).0));
        }
    }
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let margin = |(limit, gain): (Limit, f64)| {
        let enough = match found.limits[..] {
            [one] if one == limit => found.enough,
            _ if gain >= 1.0 + LEAST_GAIN => search.enough(limit, gain),
            _ => None,
        };
        Margin { limit, gain, enough }
    };
    all.into_iter().map(margin).collect()
}
