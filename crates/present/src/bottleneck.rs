//! What holds a system up, as text and as JSON.

use crate::calibration::CalibrationView;
use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, columns, sanitise, wrap};
use crate::units;
use serde::Serialize;
use std::fmt::Write as _;
use wakepath_forecast::bottleneck::{Found, LINK, Limit, Margin, WAKE_UP};
use wakepath_forecast::derived::Flow;
use wakepath_forecast::forecast::Coming;
use wakepath_forecast::jobs::Arrivals;
use wakepath_forecast::outcome::{Loop, Outcome, Place, Share};
use wakepath_forecast::slack::Slack;
use wakepath_forecast::system::{KindId, Queue, QueueKind, StateId, StationId, System};

/// Shares of a path below this part of it are summed up in text.
const SHARE_SHOWN: f64 = 0.005;
/// Most rows of a table in text.
const ROWS_MAX: usize = 12;
/// Most rows of slack in text.
const SLACK_MAX: usize = 5;
/// Most flows of annotations told of in text.
const FLOWS_MAX: usize = 5;
/// Gains below this are none.
const HARDLY: f64 = 1.01;
/// Most loops told of in text.
const LOOPS_MAX: usize = 3;

/// How requests come.
#[derive(Clone, Debug, Serialize)]
pub struct ArrivalsView {
    /// `closed`, `open`, or `recorded`: each state machine begins when it began.
    pub model: &'static str,
    /// It was not given, but follows from the recording.
    pub inferred: bool,
    /// Of a closed model: how many ask at a time.
    pub clients: Option<u32>,
    /// What it means, and what of the recording says so.
    pub why: Option<String>,
}

/// A part of a path.
#[derive(Clone, Debug, Serialize)]
pub struct ShareView {
    /// `work`, `waiting` (for a server of a station), `queue` (on the way through one), or `full` (for room or a token).
    pub place: &'static str,
    /// In words.
    pub what: String,
    /// Of the path (ns).
    pub ns: u64,
    /// Of the path; 1 = all of it.
    pub share: f64,
    /// How often on the path: of requests, of one on average.
    pub count: f64,
}

/// A loop on the critical path.
#[derive(Clone, Debug, Serialize)]
pub struct LoopView {
    /// The queue whose room, or whose tokens, close it.
    pub queue: String,
    /// What that is of: `accept queue`, `workers`, `pool`, `lock`, `link`, `buffer` or `queue`.
    pub kind: &'static str,
    /// Time of the path in its rounds (ns).
    pub ns: u64,
    /// Of the path; 1 = all of it.
    pub share: f64,
    /// Rounds.
    pub count: u64,
    /// Where a round's time goes, longest first.
    pub round: Vec<ShareView>,
}

/// Something that was taken away in a replay.
#[derive(Clone, Debug, Serialize)]
pub struct TriedView {
    /// In words.
    pub what: String,
    /// How many times better it is without.
    pub gain: f64,
}

/// The bottleneck.
#[derive(Clone, Debug, Serialize)]
pub struct BottleneckView {
    /// What limits, in words; several must be raised together. Empty where nothing that could be taken away gains anything.
    pub limits: Vec<String>,
    /// It is no limit but work, or a delay: what takes its time however much there is of everything.
    pub is_work: bool,
    /// How many times better it is without.
    pub gain: f64,
    /// What there is of it, where that is a number and it is one thing.
    pub now: Option<f64>,
    /// That number is of bytes.
    pub is_bytes: bool,
    /// How much of it gives nine tenths of what can be gained; more no longer matters.
    pub enough: Option<f64>,
    /// Changes that forecast just that, as `--change` reads them.
    pub changes: Vec<String>,
    /// What was tried alone, the best first.
    pub tried: Vec<TriedView>,
}

/// A critical path: that of a run, or that of a request on average. All its times add up to its length: none is a sum over
/// requests that were served at the same time, or over several passes of a replay.
#[derive(Clone, Debug, Serialize)]
pub struct PathView {
    /// Of what: a kind of request; `None` = all, or the whole run.
    pub request: Option<String>,
    /// Its length (ns): of a run, as long as the recording; of requests, the mean of one.
    pub ns: u64,
    /// Requests that it is the mean of; 0 for a run.
    pub requests: u64,
    /// Where its time went, longest first.
    pub shares: Vec<ShareView>,
    /// The work that is most of it.
    pub most_critical: Option<String>,
    /// Loops on the run's path, longest first; none on that of a request.
    pub loops: Vec<LoopView>,
}

/// How much longer something could take before anything that it comes together with waits for it.
#[derive(Clone, Debug, Serialize)]
pub struct SlackView {
    /// What is done before; null = nothing yet.
    pub from: Option<String>,
    /// Where it comes together with something else.
    pub to: String,
    /// How often.
    pub count: u64,
    /// The least (ns).
    pub least_ns: u64,
    /// The median (ns).
    pub median_ns: u64,
}

/// How far something can be improved, alone, until that no longer matters.
#[derive(Clone, Debug, Serialize)]
pub struct MarginView {
    /// What, in words.
    pub what: String,
    /// It is work or a delay, of which `enough` is a part.
    pub is_work: bool,
    /// How many times better it is without.
    pub gain: f64,
    /// What there is of it, where that is a number.
    pub now: Option<f64>,
    /// That number is of bytes.
    pub is_bytes: bool,
    /// How much of it gives nine tenths of the gain: a number where `now` is one, else a factor; null where nothing is gained, or
    /// finding out would take too long.
    pub enough: Option<f64>,
}

/// Machines of annotations that had a part in the same items.
#[derive(Clone, Debug, Serialize)]
pub struct FlowView {
    /// Their names with their keys, in order of their first marks.
    pub machines: Vec<String>,
    /// Items that came to the last of them.
    pub items: u64,
}

/// The answer to `wakepath bottleneck`.
#[derive(Clone, Debug, Serialize)]
pub struct BottlenecksView {
    /// Whether the model behaves as what was recorded.
    pub calibration: CalibrationView,
    /// How requests come.
    pub arrivals: ArrivalsView,
    /// The path.
    pub path: PathView,
    /// What limits.
    pub bottleneck: BottleneckView,
    /// How much faster everything could be until it no longer matters, what gains most first.
    pub margins: Vec<MarginView>,
    /// Slack by pair of places, the least first.
    pub slack: Vec<SlackView>,
    /// Of annotations, machines that had a part in the same items: what `--from` and `--to` tell apart.
    pub flows: Vec<FlowView>,
    /// What is taken for granted.
    pub assumptions: Vec<String>,
    /// Actors that wait for ever in the replay.
    pub stuck: Vec<String>,
    /// Share of what was measured that losses may have touched.
    pub lossy: f64,
}

/// A number of servers, tokens or times, for people.
pub fn number(n: f64) -> String {
    let text = format!("{n:.2}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Work in words.
pub fn work(system: &System, id: StateId) -> String {
    let Some(s) = system.states.get(id.index()) else { return "work that has no name".into() };
    let (host, process) = (&s.host, &s.process);
    match s.state.as_str() {
        "cpu" => format!("{process} computing on {host}"),
        "disk" => format!("{process} at the disk of {host}"),
        "timer" => format!("{process} on {host} sleeping until a time (timer)"),
        "outside" if host == "unwatched" => format!("{process}, where nobody watches"),
        "outside" => format!("{process} on {host}, where no record says what it does"),
        LINK => format!("on the way {process}"),
        WAKE_UP => format!("{process} on {host} being woken"),
        other => format!("{process} on {host} in {other}"),
    }
}

fn station(system: &System, id: StationId) -> (String, &'static str) {
    system.stations.get(id.index()).map_or(("?".into(), "servers"), |s| (s.name.clone(), s.what))
}

/// Whether workers are threads of fewer processes.
fn is_threads(q: &Queue) -> bool {
    q.name.ends_with(" threads")
}

/// The queue's name without what its kind says already.
fn bare(q: &Queue) -> &str {
    let suffix = match q.kind {
        QueueKind::Workers if is_threads(q) => " threads",
        QueueKind::Workers => " workers",
        QueueKind::AcceptQueue => " accept queue",
        _ => return &q.name,
    };
    q.name.strip_suffix(suffix).unwrap_or(&q.name)
}

const fn queue_kind(kind: QueueKind) -> &'static str {
    match kind {
        QueueKind::AcceptQueue => "accept queue",
        QueueKind::Workers => "workers",
        QueueKind::Pool => "pool",
        QueueKind::Lock => "lock",
        QueueKind::Link => "link",
        QueueKind::Buffer => "buffer",
        QueueKind::Annotated => "queue",
    }
}

/// A place of a path: its class, and it in words.
pub fn place(system: &System, at: Place) -> (&'static str, String) {
    let queue = |id: wakepath_forecast::system::QueueId| system.queues.get(id.index());
    match at {
        Place::State(s) => ("work", work(system, s)),
        Place::Station(s) => {
            let (name, what) = station(system, s);
            let servers = Limit::Servers(s).now(system);
            ("waiting", format!("ready, and none of the {what} of {name} free ({})", number(servers)))
        }
        Place::Queue(q) => (
            "queue",
            queue(q).map_or_else(String::new, |q| match q.kind {
                QueueKind::Link => format!("on the link {}", q.name),
                QueueKind::Workers | QueueKind::Pool | QueueKind::Lock => format!("handing over {}", held(q)),
                _ => format!("passing through {}", q.name),
            }),
        ),
        Place::Full(q) => ("full", queue(q).map_or_else(String::new, |q| format!("waiting for {}", held(q)))),
    }
}

/// What one waits for at a queue.
fn held(q: &Queue) -> String {
    match q.kind {
        QueueKind::Workers if is_threads(q) => format!("a thread of {}", bare(q)),
        QueueKind::Workers => format!("a worker of {}", bare(q)),
        QueueKind::Pool => format!("a connection of the pool {}", q.name),
        QueueKind::Lock => format!("the lock {}", q.name),
        QueueKind::AcceptQueue => format!("room in the accept queue of {}", bare(q)),
        _ => format!("room in {}", q.name),
    }
}

/// A limit in words, with how much there is of it.
pub fn limit(system: &System, l: Limit) -> String {
    let queue = |id: wakepath_forecast::system::QueueId| system.queues.get(id.index());
    match l {
        Limit::Servers(s) => {
            let (name, what) = station(system, s);
            format!("{what} of {name} ({})", number(l.now(system)))
        }
        Limit::Room(q) => queue(q).map_or_else(String::new, |q| {
            let now = l.now(system);
            match q.kind {
                QueueKind::Workers if is_threads(q) => format!("threads of {} ({})", bare(q), number(now)),
                QueueKind::Workers => format!("workers of {} ({})", bare(q), number(now)),
                QueueKind::Pool => format!("pool {} ({})", q.name, number(now)),
                QueueKind::Lock => format!("lock {}", q.name),
                QueueKind::AcceptQueue => format!("room in the accept queue of {} ({})", bare(q), number(now)),
                _ if q.is_bytes => format!("room in {} ({})", q.name, units::bytes(now as u64)),
                _ => format!("room in {} ({})", q.name, number(now)),
            }
        }),
        Limit::Bandwidth(q) => queue(q).map_or_else(String::new, |q| {
            let rate = if q.is_bytes {
                format!("{}/s", units::bytes((1e9 / q.ns_per_item) as u64))
            } else {
                units::rate(1_000_000, (q.ns_per_item * 1e6) as u64)
            };
            format!("bandwidth of the link {} ({rate})", q.name)
        }),
        Limit::Delay(q) => queue(q)
            .map_or_else(String::new, |q| format!("delay of the link {} ({})", q.name, units::duration(q.delay_ns))),
        Limit::Work(s) => work(system, s),
    }
}

fn share_view(system: &System, s: &Share, whole: u64) -> ShareView {
    let (class, what) = place(system, s.place);
    ShareView { place: class, what, ns: s.ns, share: s.ns as f64 / whole.max(1) as f64, count: s.count as f64 }
}

/// `whole` is the length of the path that the loop is on, of all `passes`.
fn loop_view(system: &System, l: &Loop, whole: u64, passes: u64) -> LoopView {
    let queue = system.queues.get(l.closed_by.index());
    let round: u64 = l.round.iter().map(|s| s.ns).sum();
    let mut parts: Vec<ShareView> = Vec::new();
    for mut view in l.round.iter().map(|s| share_view(system, s, round)) {
        (view.ns, view.count) = (view.ns / passes, view.count / passes as f64);
        match parts.iter_mut().find(|o| o.what == view.what) {
            Some(o) => (o.ns, o.count, o.share) = (o.ns + view.ns, o.count + view.count, o.share + view.share),
            None => parts.push(view),
        }
    }
    LoopView {
        queue: queue.map_or_else(String::new, |q| bare(q).to_owned()),
        kind: queue.map_or("queue", |q| queue_kind(q.kind)),
        ns: l.ns / passes,
        share: l.ns as f64 / whole.max(1) as f64,
        count: l.count.div_ceil(passes),
        round: parts,
    }
}

/// Which path is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// That of the run, from its end back to its begin.
    Run,
    /// Those of all requests, or of a kind, each from its begin to its end.
    Requests(Option<KindId>),
}

impl Scope {
    /// What tells most: where requests come at their times, nothing leads from one to the next.
    pub fn of(coming: &Coming, kind: Option<KindId>) -> Scope {
        match (coming, kind) {
            (_, Some(_)) | (Coming::Jobs(Arrivals::Open), None) => Scope::Requests(kind),
            _ => Scope::Run,
        }
    }
}

impl PathView {
    /// Of a replay.
    pub fn new(system: &System, outcome: &Outcome, scope: Scope) -> PathView {
        let (kind, is_of_requests) = match scope {
            Scope::Run => (None, false),
            Scope::Requests(kind) => (kind, true),
        };
        let is_wanted = |k: KindId| is_of_requests && kind.is_none_or(|wanted| wanted == k);
        let kinds = || outcome.kinds.iter().filter(|k| is_wanted(k.kind));
        let run = outcome.path.iter().filter(|_| scope == Scope::Run);
        let all = run.chain(kinds().flat_map(|k| &k.shares)).filter(|s| s.ns > 0);
        // two ways of a link are one to people
        let mut shares: Vec<ShareView> = Vec::new();
        let mut worked: Vec<(u64, StateId)> = Vec::new();
        for s in all {
            let view = share_view(system, s, 1);
            match shares.iter_mut().find(|o| o.what == view.what) {
                Some(other) => (other.ns, other.count) = (other.ns + s.ns, other.count + view.count),
                None => shares.push(view),
            }
            if let Place::State(id) = s.place {
                match worked.iter_mut().find(|w| w.1 == id) {
                    Some(w) => w.0 += s.ns,
                    None => worked.push((s.ns, id)),
                }
            }
        }
        let sum: u64 = shares.iter().map(|s| s.ns).sum();
        let requests = kinds().map(|k| k.latency.count()).sum();
        // a replay of few requests goes through them several times
        let passes = u64::from(system.rounds.max(1));
        let of = if is_of_requests { requests } else { passes }.max(1);
        for s in &mut shares {
            s.share = s.ns as f64 / sum.max(1) as f64;
            (s.ns, s.count) = (s.ns / of, s.count / of as f64);
        }
        shares.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.what.cmp(&b.what)));
        let loops = outcome.loops.iter().filter(|_| scope == Scope::Run);
        PathView {
            request: kind.and_then(|k| system.kinds.get(k.index()).cloned()),
            ns: sum / of,
            requests,
            shares,
            most_critical: worked.iter().max_by_key(|w| w.0).map(|w| work(system, w.1)),
            loops: loops.map(|l| loop_view(system, l, sum, passes)).collect(),
        }
    }

    /// As text.
    pub fn render(&self, out: &mut String, style: Style) {
        let length = units::duration(self.ns);
        let title = if self.requests > 0 {
            let kind = self.request.as_ref().map_or(String::new(), |k| format!(" {k}"));
            format!("Critical path of a request{kind}, {length} (the mean of {}):", units::count(self.requests))
        } else {
            format!("Critical path of the run, {length} from its first request to its last reply:")
        };
        let _ = writeln!(out, "{}", style.paint(&sanitise(&title), Tint::Strong));
        let mut t = Table::new(&[
            Column::text("where its time goes"),
            Column::number("time"),
            Column::number("share"),
            Column::number("times"),
        ])
        .indented(2);
        let shown = self.shares.iter().take(ROWS_MAX).take_while(|s| s.share >= SHARE_SHOWN).count();
        let row = |what: String, ns: u64, share: f64, count: f64| {
            let share = format!("{:.1} %", 100.0 * share);
            let times = if count < 10.0 { number(count) } else { units::count(count.round() as u64) };
            [Cell::from(what), Cell::from(units::duration(ns)), Cell::from(share), Cell::from(times)]
        };
        for s in &self.shares[..shown] {
            t.row(row(s.what.clone(), s.ns, s.share, s.count));
        }
        let rest = &self.shares[shown..];
        if !rest.is_empty() {
            let sum = rest.iter().fold((0, 0.0, 0.0), |a, s| (a.0 + s.ns, a.1 + s.share, a.2 + s.count));
            t.row(row(format!("({} more)", rest.len()), sum.0, sum.1, sum.2));
        }
        out.push_str(&t.render(style));
        if let Some(work) = &self.most_critical {
            out.push_str(&wrap(&sanitise(&format!("Most critical state: {work}.")), "", style.prose()));
        }
        for l in self.loops.iter().take(LOOPS_MAX) {
            out.push_str(&wrap(&sanitise(&l.sentence()), "", style.prose()));
        }
        if self.loops.len() > LOOPS_MAX {
            let _ = writeln!(out, "{} smaller loops; --json has them.", self.loops.len() - LOOPS_MAX);
        }
    }
}

impl LoopView {
    /// What goes round, and what closes it.
    pub fn sentence(&self) -> String {
        const PARTS: usize = 3;
        let closes = match self.kind {
            "workers" => format!("the workers of {}: none takes a request before one has answered", self.queue),
            "pool" => format!("the pool {}: nobody gets a connection before one is given back", self.queue),
            "lock" => format!("the lock {}: nobody gets it before it is released", self.queue),
            "accept queue" => format!("the accept queue of {}: nobody connects before there is room", self.queue),
            "link" => format!("the link {}: nothing is sent before what was sent has passed", self.queue),
            _ => format!("{}: nothing goes in before something was taken out", self.queue),
        };
        let parts: Vec<String> = self
            .round
            .iter()
            .filter(|s| s.share >= SHARE_SHOWN)
            .take(PARTS)
            .map(|s| format!("{} ({:.0} %)", s.what, 100.0 * s.share))
            .collect();
        let each = units::duration(self.ns / self.count.max(1));
        let mut text = format!(
            "A loop, {:.0} % of the path in {} rounds of {each}, is closed by {closes}.",
            100.0 * self.share,
            units::count(self.count)
        );
        if !parts.is_empty() {
            let _ = write!(text, " A round is {}.", parts.join(", "));
        }
        text
    }
}

impl BottleneckView {
    /// What was found in a system.
    pub fn new(system: &System, found: &Found) -> BottleneckView {
        let one = if let [one] = found.limits[..] { Some(one) } else { None };
        let is_number = |l: &Limit| matches!(l, Limit::Servers(_) | Limit::Room(_));
        let doubled = |l: Limit| match l {
            Limit::Servers(_) | Limit::Room(_) => l.now(system) * 2.0,
            Limit::Bandwidth(_) => 2.0,
            Limit::Delay(_) | Limit::Work(_) => 0.5,
        };
        let amount = |l: Limit| found.enough.map_or_else(|| doubled(l), |enough| enough.then);
        BottleneckView {
            limits: found.limits.iter().map(|&l| limit(system, l)).collect(),
            is_work: matches!(found.limits[..], [Limit::Work(_) | Limit::Delay(_)]),
            gain: found.gain,
            now: one.filter(is_number).map(|l| l.now(system)),
            is_bytes: one.is_some_and(|l| is_bytes(system, l)),
            enough: found.enough.map(|e| e.then),
            changes: found.limits.iter().filter_map(|&l| l.change(system, amount(l))).map(|c| c.to_string()).collect(),
            tried: found.tried.iter().map(|&(l, gain)| TriedView { what: limit(system, l), gain }).collect(),
        }
    }

    /// In one or two sentences. `what` is better without it: `mean latency`, `the run`.
    pub fn sentence(&self, what: &str) -> String {
        let Some(first) = self.limits.first() else {
            return "Nothing that could be taken away would gain anything: what is left are costs that no event shows."
                .into();
        };
        let mut text = match self.limits.get(1) {
            Some(second) => format!("{first} and {second}, together: more of one alone gains little"),
            None => first.clone(),
        };
        let without = if self.is_work { "If that took no time," } else { "Without that limit" };
        let _ = write!(text, ". {without} {what} would be {} times shorter.", number(self.gain));
        let is_whole = self.now.is_some();
        match self.enough {
            Some(enough) if is_whole => {
                let enough = if self.is_bytes { units::bytes(enough as u64) } else { number(enough) };
                let _ = write!(text, " {enough} would give nine tenths of that; more hardly matters.");
            }
            Some(enough) if enough < 1.0 => {
                let _ = write!(text, " At {} of its length it hardly matters any more.", percent(enough));
            }
            Some(enough) => {
                let _ = write!(text, " {} times as much would give nine tenths of that.", number(enough));
            }
            None => {}
        }
        text
    }

    /// What to run to see it, after the changes that were made before.
    pub fn next<'a>(&'a self, folders: &str, before: impl Iterator<Item = &'a String>, style: Style) -> Option<String> {
        if self.changes.is_empty() {
            return None;
        }
        let changes: Vec<String> = before.chain(&self.changes).map(|c| format!("--change {}", shell(c))).collect();
        let line = format!("Next: wakepath forecast {folders} {}", changes.join(" "));
        // too long for a line, it is still one command
        let broken = || format!("Next: wakepath forecast {folders} \\\n        {}", changes.join(" \\\n        "));
        Some(if columns(&line) <= style.prose() { line } else { broken() })
    }
}

/// Lines with nothing in them that could do something to a terminal.
pub fn lines(text: &str) -> String {
    text.lines().map(sanitise).collect::<Vec<_>>().join("\n")
}

/// A text as one word of a shell.
pub fn shell(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn percent(part: f64) -> String {
    format!("{} %", number(100.0 * part))
}

impl ArrivalsView {
    /// Of a model; `inferred` unless they were given. Takes the sentence about them out of what is taken for granted.
    pub fn new(coming: &Coming, inferred: bool, assumptions: &mut Vec<String>) -> ArrivalsView {
        let (model, clients) = match coming {
            Coming::Jobs(Arrivals::Closed { clients }) => ("closed", Some(*clients)),
            Coming::Jobs(Arrivals::Open) => ("open", None),
            Coming::Recorded => ("recorded", None),
        };
        let why = assumptions.iter().position(|a| a.starts_with("Arrivals are ")).map(|at| assumptions.remove(at));
        ArrivalsView { model, inferred, clients, why }
    }

    /// In a sentence: what it means, and how to say otherwise.
    pub fn sentence(&self) -> String {
        let means = match (&self.why, self.model, self.clients) {
            (Some(why), ..) => why.trim_end_matches('.').to_owned(),
            (None, "closed", Some(1)) => "Arrivals are closed: 1 client asks again when it was answered".into(),
            (None, "closed", n) => {
                let clients = units::count(n.unwrap_or(0).into());
                format!("Arrivals are closed: {clients} clients, each of which asks again when it was answered")
            }
            (None, "open", _) => {
                "Arrivals are open: requests come at their times, whatever becomes of those before".into()
            }
            _ => return "Arrivals are as recorded: each state machine begins when it began.".into(),
        };
        let other = if self.model == "open" { "closed" } else { "open" };
        let how = if self.inferred { format!("inferred; --arrivals {other} for the other") } else { "as given".into() };
        format!("{means} ({how}).")
    }
}

/// Sentences, one a line.
pub fn listed(out: &mut String, title: &str, sentences: &[String], style: Style) {
    if sentences.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{title}");
    for s in sentences {
        let lines = wrap(&sanitise(s), "    ", style.prose());
        let _ = write!(out, "  - {}", lines.trim_start());
    }
}

/// What a lost share means, if there is any.
pub fn lossy_sentence(lossy: f64) -> Option<String> {
    (lossy > 0.0).then(|| {
        format!("Losses may have touched {:.1} % of what was measured: the bars are that much wider.", 100.0 * lossy)
    })
}

impl SlackView {
    /// Of a system's slack.
    pub fn new(system: &System, s: &Slack) -> SlackView {
        SlackView {
            from: s.from.map(|at| place(system, at).1),
            to: place(system, s.to).1,
            count: s.count,
            least_ns: s.least_ns,
            median_ns: s.median_ns,
        }
    }
}

impl MarginView {
    /// Of what a search told.
    pub fn new(system: &System, m: &Margin) -> MarginView {
        let is_number = matches!(m.limit, Limit::Servers(_) | Limit::Room(_));
        MarginView {
            what: limit(system, m.limit),
            is_work: matches!(m.limit, Limit::Work(_) | Limit::Delay(_)),
            gain: m.gain,
            now: is_number.then(|| m.limit.now(system)),
            is_bytes: is_bytes(system, m.limit),
            enough: m.enough.map(|e| e.then),
        }
    }

    /// From where on more no longer matters.
    fn until(&self) -> String {
        match self.enough {
            None if self.gain < HARDLY => "it does not".into(),
            None => "-".into(),
            Some(enough) if self.is_bytes => units::bytes(enough as u64),
            Some(enough) if self.now.is_some() => number(enough),
            Some(enough) if self.is_work => format!("{} as long", percent(enough)),
            Some(enough) => format!("{} times as much", number(enough)),
        }
    }
}

impl FlowView {
    /// Of a derivation's.
    pub fn new(f: &Flow) -> FlowView {
        FlowView { machines: f.machines.clone(), items: f.items }
    }

    /// What to type to see it alone: machines that have no part in any of the others.
    fn ends(&self, others: &[FlowView]) -> Option<String> {
        let is_own = |m: &&String| !others.iter().any(|o| o.machines.contains(m));
        let mut own = self.machines.iter().filter(is_own);
        let first = own.next()?;
        Some(format!("--from {} --to {}", word(first), word(own.next_back().unwrap_or(first))))
    }
}

/// A text as a shell reads it, in quotes where it needs them.
fn word(text: &str) -> String {
    let is_plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-+:@".contains(&b));
    if is_plain { text.to_owned() } else { shell(text) }
}

fn is_bytes(system: &System, l: Limit) -> bool {
    matches!(l, Limit::Room(q) if system.queues.get(q.index()).is_some_and(|q| q.is_bytes))
}

impl BottlenecksView {
    /// As text for a terminal. `folders` as they were given.
    pub fn render(&self, folders: &str, style: Style) -> String {
        let mut out = String::new();
        self.calibration.render(&mut out, style);
        out.push_str(&wrap(&self.arrivals.sentence(), "", style.prose()));
        out.push('\n');
        let what = if self.arrivals.model == "recorded" { "the run" } else { "mean latency" };
        let sentence = format!("The bottleneck: {}", self.bottleneck.sentence(what));
        for line in wrap(&sanitise(&sentence), "", style.prose()).lines() {
            let _ = writeln!(out, "{}", style.paint(line, Tint::Strong));
        }
        out.push('\n');
        self.path.render(&mut out, style);
        self.margins(&mut out, style);
        // of requests that any worker may take, that says little
        if self.arrivals.model == "recorded" {
            self.slack(&mut out, style);
        }
        self.flows(&mut out, folders, style);
        let mut notes = self.assumptions.clone();
        notes.extend(lossy_sentence(self.lossy));
        listed(&mut out, "Taken for granted:", &notes, style);
        listed(
            &mut out,
            "In the replay these wait for ever, since what they wait for was not recorded:",
            &self.stuck,
            style,
        );
        if let Some(next) = self.bottleneck.next(folders, std::iter::empty(), style) {
            let _ = writeln!(out, "\n{}", lines(&next));
        }
        out
    }

    fn slack(&self, out: &mut String, style: Style) {
        // what never waits for anything else has none to speak of
        let mut rows: Vec<&SlackView> = self.slack.iter().filter(|s| s.median_ns > 0).collect();
        if rows.is_empty() {
            return;
        }
        rows.sort_by_key(|s| s.median_ns);
        let mut t = Table::new(&[
            Column::text("slack: this could take longer"),
            Column::text("before this waits for it"),
            Column::number("by (median)"),
            Column::number("times"),
        ])
        .indented(2);
        for s in rows.iter().take(SLACK_MAX) {
            t.row([
                Cell::from(s.from.as_deref().unwrap_or("(nothing before)")),
                Cell::from(&s.to),
                Cell::from(units::duration(s.median_ns)),
                Cell::from(units::count(s.count)),
            ]);
        }
        out.push('\n');
        out.push_str(&t.render(style));
    }

    fn margins(&self, out: &mut String, style: Style) {
        if self.margins.is_empty() {
            return;
        }
        let mut t = Table::new(&[
            Column::text("improved alone"),
            Column::number("gone: times better"),
            Column::text("matters until"),
        ])
        .indented(2);
        for m in self.margins.iter().take(ROWS_MAX) {
            t.row([Cell::from(&m.what), Cell::from(format!("{:.2}", m.gain)), Cell::from(m.until())]);
        }
        out.push('\n');
        out.push_str(&t.render(style));
    }

    /// Who belongs together, where machines tell more than one flow.
    fn flows(&self, out: &mut String, folders: &str, style: Style) {
        let Some((first, others)) = self.flows.split_first().filter(|(_, others)| !others.is_empty()) else { return };
        let _ = writeln!(out, "\nWho had a part in the same items:");
        for f in self.flows.iter().take(FLOWS_MAX) {
            let line = format!("{} ({} items)", f.machines.join(", "), units::count(f.items));
            let lines = wrap(&sanitise(&line), "    ", style.prose());
            let _ = write!(out, "  - {}", lines.trim_start());
        }
        if self.flows.len() > FLOWS_MAX {
            let _ = writeln!(out, "  {} more; --json has them.", self.flows.len() - FLOWS_MAX);
        }
        if let Some(ends) = first.ends(others) {
            let _ = writeln!(out, "{}", sanitise(&format!("The first alone: wakepath bottleneck {folders} {ends}")));
        }
    }
}
