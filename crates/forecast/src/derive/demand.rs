//! What each request took of its tasks' time: computing, disks, sleeping; and what passed between tasks.
//!
//! A task's time is cut by its wait records into running and not running, and by the moments at which it took up or put
//! away work for a request into what it did for whom. What it runs between reading something and sending something is
//! for that request; what it runs from being woken until it reads is for what it reads; what it runs after sending until
//! it sleeps is for what it sent. The rest belongs to no request and is spread over all of its service, so that what
//! the requests need adds up to what was used (the utilisation law). Being ready and not running is no need: the replay
//! makes that anew.

use super::requests::collect::{Collected, Did, NOBODYS, Point};
use super::requests::services::{Services, is_epoll, is_output};
use super::requests::survivors::Cover;
use super::visits::is_futex;
use crate::jobs::{ServiceId, WorkState};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use wakepath_analysis::histogram::Histogram;
use wakepath_analysis::names::Names;
use wakepath_graph::Index;
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::{HostId, MonoNs, TaskId};
use wakepath_model::rows::{EndedBy, Event, StayRow, Table, WaitRow, gaps};

/// An interval in which a task did something for a span, in its host's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    /// For which span.
    pub span: u32,
    /// From when.
    pub from: MonoNs,
    /// Until when.
    pub to: MonoNs,
    /// What.
    pub state: WorkState,
    /// How long it would have taken with nothing in the way (ns): of computing, all of it.
    pub ns: u64,
}

/// Processor time of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// For spans that become parts of jobs (ns), each as often as it does.
    pub own_ns: u64,
    /// For other spans (ns), as far as nothing stands for them.
    pub others_ns: u64,
    /// In all, of all tasks of its processes (ns).
    pub all_ns: u64,
}

impl Used {
    /// What the spans' own time is to be multiplied by, so that all of it is theirs.
    pub fn factor(&self) -> f64 {
        let known = self.own_ns + self.others_ns;
        if self.own_ns == 0 || known == 0 { 1.0 } else { self.all_ns.max(known) as f64 / known as f64 }
    }
}

/// The last sleep of a task before it read an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// When it began.
    pub blocked: MonoNs,
    /// When the task was woken.
    pub woken: MonoNs,
    /// In which system call.
    pub syscall: u16,
    /// Something that came to be read ended it, or the task that sent that: no lock, disk or time-out.
    pub is_for_input: bool,
}

/// The sleep, where there was one.
pub type Slept = Option<Sleep>;

/// What was needed.
#[derive(Default)]
pub struct Demand {
    /// By span and time.
    pub pieces: Vec<Piece>,
    /// Of each span that is a call, what its caller's task slept before it had the answer.
    pub slept: Vec<Slept>,
    /// Of each service.
    pub used: Vec<Used>,
    /// Of each service, the time from being woken to running (ns).
    pub wakes: Vec<Histogram>,
    /// Of each service, answers that its tasks awaited in epoll, and all that they slept for.
    pub awaited: FxHashMap<ServiceId, (u64, u64)>,
    /// Processor time of tasks that belong to no service (ns), by process name.
    pub strangers: BTreeMap<(HostId, String), u64>,
    /// Time that requests waited for something that no rule of ours knows (ns).
    pub unknown_ns: u64,
    /// Highest processor number seen, by host.
    pub processors: FxHashMap<HostId, u32>,
    /// Moments between which wait records were lost, as a part of the whole.
    pub lossy: f64,
}

/// What a wait was for: what it counts as and how long that took by itself (ns); `None` = it is made anew by the replay.
pub type Classify<'a> = &'a dyn Fn(HostId, &WaitRow) -> Option<(WorkState, u64)>;

/// What a wait tells by itself: a disk, a time-out, or something that no record explains.
pub fn classify(w: &WaitRow) -> (WorkState, u64) {
    let ns = w.woken.0.saturating_sub(w.blocked.0);
    match w.cause {
        EndedBy::Block => (WorkState::Disk, ns),
        EndedBy::Timer => (WorkState::Timer, ns),
        _ => (WorkState::Outside, ns),
    }
}

/// What those together are called whose waits were not recorded.
const NOT_SELECTED: &str = "processes that are not selected";

/// How long those ran in a window who are told of together, evenly over their row's time.
fn ran_within(r: &StayRow, window: (MonoNs, MonoNs)) -> u64 {
    let span = r.to.0.saturating_sub(r.from.0);
    let within = r.to.min(window.1).0.saturating_sub(r.from.max(window.0).0);
    (u128::from(r.ran_ns) * u128::from(within)).checked_div(u128::from(span)).map_or(0, |ns| ns as u64)
}

/// Goes through the waits of all tasks of the services.
pub fn measure(
    folder: &Folder,
    index: &Index,
    names: &Names<'_>,
    collected: &Collected,
    services: &Services,
    cover: &Cover,
    classify: Classify<'_>,
) -> Demand {
    let count = services.all.len();
    let mut out = Demand {
        slept: vec![None; collected.span_count()],
        used: vec![Used::default(); count],
        wakes: vec![Histogram::default(); count],
        ..Demand::default()
    };
    let apart = apart(collected);
    let mut seen: FxHashSet<(HostId, TaskId)> = FxHashSet::default();
    for points in collected.points.chunk_by(|a, b| (a.host, a.task) == (b.host, b.task)) {
        let (host, task) = (points[0].host, points[0].task);
        seen.insert((host, task));
        let line = index.timeline();
        let window = (line.local(host, collected.span.0), line.local(host, collected.span.1));
        let service_of = |span: u32| services.of_span.get(span as usize).copied().flatten();
        // whom it served; a task that only asks is a client
        let service = points.iter().find(|p| p.did == Did::Took).and_then(|p| service_of(p.span));
        let service = service.or_else(|| of_process(services, host, names.program(host, task)));
        let process = names.program(host, task);
        let walk = Walk { host, points, window, apart: &apart, classify, process, service, service_of: &service_of };
        walk.go(index, task, &mut out);
    }
    for host in folder.hosts() {
        let id = host.id();
        let line = index.timeline();
        let window = (line.local(id, collected.span.0), line.local(id, collected.span.1));
        for event in host.events(TableSet::of(&[Table::Task]), ..) {
            let Event::Task(r) = event else { continue };
            if seen.insert((id, r.task)) {
                let process = names.program(id, r.task);
                let service = of_process(services, id, process);
                let (nobody, apart) = (|_| None, &apart);
                let walk =
                    Walk { host: id, points: &[], window, apart, classify, process, service, service_of: &nobody };
                walk.go(index, r.task, &mut out);
            }
        }
        let not_selected = host.events(TableSet::of(&[Table::Stay]), ..).filter_map(|e| match e {
            Event::Stay(r) if r.task == TaskId::UNKNOWN => Some(ran_within(&r, window)),
            _ => None,
        });
        let not_selected: u64 = not_selected.sum();
        if not_selected > 0 {
            *out.strangers.entry((id, NOT_SELECTED.to_owned())).or_default() += not_selected;
        }
        if index.lost_between(id, window.0, window.1) {
            out.lossy = lost(index, id, window).max(out.lossy);
        }
    }
    out.pieces.sort_unstable();
    weigh(&mut out, collected, services, cover);
    out
}

/// Counts what was computed for a span as often as its request stands for others.
fn weigh(out: &mut Demand, collected: &Collected, services: &Services, cover: &Cover) {
    if cover.donors.is_empty() {
        return;
    }
    out.used.iter_mut().for_each(|u| (u.own_ns, u.others_ns) = (0, (u.others_ns as f64 * cover.uncovered) as u64));
    let mut request = 0;
    for p in out.pieces.iter().filter(|p| p.state == WorkState::Cpu) {
        while collected.first.get(request + 1).is_some_and(|first| *first <= p.span) {
            request += 1;
        }
        if let Some(id) = services.of_span.get(p.span as usize).copied().flatten() {
            out.used[id].own_ns += p.ns * u64::from(cover.weights[request]);
        }
    }
}

/// The service to which tasks of this name without requests of their own belong.
fn of_process(services: &Services, host: HostId, process: &str) -> Option<ServiceId> {
    services.all.iter().position(|s| s.host == host && s.process == process)
}

/// Spans of which more than one task did something: what one of these waits for says nothing of the span.
fn apart(collected: &Collected) -> Vec<bool> {
    let mut first: Vec<Option<(HostId, TaskId)>> = vec![None; collected.span_count()];
    let mut apart = vec![false; first.len()];
    for p in collected.points.iter().filter(|p| p.span != NOBODYS) {
        let who = (p.host, p.task);
        let at = p.span as usize;
        apart[at] |= *first[at].get_or_insert(who) != who;
    }
    apart
}

/// The part of a time in which wait records were lost, to one part in 64.
fn lost(index: &Index, host: HostId, window: (MonoNs, MonoNs)) -> f64 {
    const PARTS: u64 = 64;
    let step = (window.1.0.saturating_sub(window.0.0) / PARTS).max(1);
    let is_lost = |i: &u64| {
        let from = window.0.0 + i * step;
        index.lost_between(host, MonoNs(from), MonoNs(from + step))
    };
    (0..PARTS).filter(is_lost).count() as f64 / PARTS as f64
}

/// One task's time.
struct Walk<'a> {
    host: HostId,
    points: &'a [Point],
    window: (MonoNs, MonoNs),
    apart: &'a [bool],
    classify: Classify<'a>,
    process: &'a str,
    service: Option<ServiceId>,
    service_of: &'a dyn Fn(u32) -> Option<ServiceId>,
}

/// Where a walk stands.
#[derive(Default)]
struct Cursor {
    /// The last point passed.
    last: Option<Point>,
    /// What ran since.
    ran: Vec<(MonoNs, MonoNs)>,
    /// How many of `ran` there were at the first and last sleep since.
    slept: Option<(usize, usize)>,
    /// The last sleep since.
    sleep: Slept,
    /// Spans open on the task, with how many calls each awaits.
    open: Vec<(u32, u32)>,
}

impl Walk<'_> {
    fn go(&self, index: &Index, task: TaskId, out: &mut Demand) {
        let mut c = Cursor::default();
        let mut next = 0;
        let mut ran: Option<MonoNs> = None;
        let mut open_until = None;
        let mut is_recorded = true;
        let first = index.waits_from(self.host, task, MonoNs(0));
        for place in first.. {
            let Some(w) = index.wait(self.host, task, place) else { break };
            if w.cause == EndedBy::Open {
                open_until = Some(w.blocked);
                continue;
            }
            open_until = None;
            let most = out.processors.entry(self.host).or_default();
            *most = (*most).max(u32::from(w.cpu));
            if let Some(from) = ran.filter(|_| w.gaps & gaps::BEFORE == 0) {
                self.run(from, w.blocked, &mut next, &mut c, out);
            }
            is_recorded = w.gaps & gaps::AFTER == 0;
            // what came while it slept, by the clock of who wrote it down
            while self.points.get(next).is_some_and(|p| p.at < w.at) {
                self.point(self.points[next], &mut c, out);
                next += 1;
            }
            ran = Some(w.at);
            if w.cause != EndedBy::Preempted {
                self.sleep(&w, &mut c, out);
            }
        }
        // what it ran later counts with all that is not selected
        if let Some(from) = ran.filter(|_| is_recorded) {
            let end = index.exit(self.host, task).unwrap_or(self.window.1).min(self.window.1);
            self.run(from, open_until.unwrap_or(end).max(from), &mut next, &mut c, out);
        }
        while let Some(&p) = self.points.get(next) {
            self.point(p, &mut c, out);
            next += 1;
        }
        let until = c.slept.map_or(c.ran.len(), |s| s.0);
        let owner = c.last.map_or(NOBODYS, |l| l.span);
        self.give(owner, &c.ran[..until], out);
        self.give(NOBODYS, &c.ran[until..], out);
    }

    /// It ran between two moments.
    fn run(&self, mut from: MonoNs, to: MonoNs, next: &mut usize, c: &mut Cursor, out: &mut Demand) {
        while let Some(p) = self.points.get(*next).filter(|p| p.at <= to) {
            if p.at > from {
                c.ran.push((from, p.at));
                from = p.at;
            }
            self.point(*p, c, out);
            *next += 1;
        }
        if to > from {
            c.ran.push((from, to));
        }
    }

    /// It slept.
    fn sleep(&self, w: &WaitRow, c: &mut Cursor, out: &mut Demand) {
        let is_in = w.blocked >= self.window.0 && w.at <= self.window.1;
        if let Some(service) = self.service.filter(|_| is_in && w.woken > w.blocked) {
            out.wakes[service].add(w.at.0.saturating_sub(w.woken.0));
        }
        let so_far = c.ran.len();
        c.slept = Some(c.slept.map_or((so_far, so_far), |s| (s.0, so_far)));
        let is_by_input = matches!(w.cause, EndedBy::Socket | EndedBy::Net | EndedBy::Packet | EndedBy::Task);
        let is_for_input = is_by_input && !is_futex(w);
        c.sleep = Some(Sleep { blocked: w.blocked, woken: w.woken, syscall: w.syscall, is_for_input });
        if c.open.iter().all(|o| o.1 > 0) || !is_in {
            return;
        }
        let Some((state, ns)) = (self.classify)(self.host, w) else { return };
        for &(span, _) in c.open.iter().filter(|o| o.1 == 0) {
            if state == WorkState::Outside {
                out.unknown_ns += ns;
            }
            out.pieces.push(Piece { span, from: w.blocked, to: w.woken.max(w.blocked), state, ns });
        }
    }

    fn point(&self, p: Point, c: &mut Cursor, out: &mut Demand) {
        let before = c.last.map_or(NOBODYS, |l| l.span);
        match c.slept {
            None => {
                let owner = if is_output(p.did) || c.last.is_none() { p.span } else { before };
                self.give(owner, &c.ran, out);
            }
            Some(_) if before == p.span && p.did != Did::Took && c.last.is_some_and(|l| l.did != Did::Replied) => {
                self.give(p.span, &c.ran, out);
            }
            Some((first, last)) => {
                self.give(before, &c.ran[..first], out);
                self.nobodys(&c.ran[first..last], out);
                self.give(p.span, &c.ran[last..], out);
            }
        }
        if p.did == Did::Answered
            && let Some(sleep) = c.sleep
        {
            if let Some(slept) = out.slept.get_mut(p.call as usize) {
                *slept = Some(sleep);
            }
            if let Some(service) = (self.service_of)(p.span) {
                let awaited = out.awaited.entry(service).or_default();
                *awaited = (awaited.0 + u64::from(is_epoll(sleep.syscall)), awaited.1 + 1);
            }
        }
        c.ran.clear();
        (c.slept, c.sleep) = (None, None);
        c.last = Some(p);
        if p.span == NOBODYS || self.apart.get(p.span as usize).is_none_or(|a| *a) {
            return;
        }
        let at = c.open.iter().position(|o| o.0 == p.span);
        match (p.did, at) {
            (Did::Took, None) => c.open.push((p.span, 0)),
            (Did::Called, Some(i)) => c.open[i].1 += 1,
            (Did::Answered, Some(i)) => c.open[i].1 = c.open[i].1.saturating_sub(1),
            (Did::Replied, Some(i)) => {
                c.open.swap_remove(i);
            }
            _ => {}
        }
    }

    /// What ran was for this span.
    fn give(&self, span: u32, ran: &[(MonoNs, MonoNs)], out: &mut Demand) {
        let service = (self.service_of)(span).or(self.service);
        for &(from, to) in ran {
            let ns = self.counted(from, to);
            if ns == 0 {
                continue;
            }
            match service {
                Some(id) if span == NOBODYS => {
                    out.used[id].others_ns += ns;
                    out.used[id].all_ns += ns;
                }
                Some(id) => {
                    out.used[id].own_ns += ns;
                    out.used[id].all_ns += ns;
                    out.pieces.push(Piece { span, from, to, state: WorkState::Cpu, ns });
                }
                None => self.stranger(ns, out),
            }
        }
    }

    /// What ran was for no request.
    fn nobodys(&self, ran: &[(MonoNs, MonoNs)], out: &mut Demand) {
        for &(from, to) in ran {
            let ns = self.counted(from, to);
            match self.service {
                Some(id) => out.used[id].all_ns += ns,
                None => self.stranger(ns, out),
            }
        }
    }

    fn stranger(&self, ns: u64, out: &mut Demand) {
        *out.strangers.entry((self.host, self.process.to_owned())).or_default() += ns;
    }

    /// The part of an interval that is in the window.
    fn counted(&self, from: MonoNs, to: MonoNs) -> u64 {
        to.0.min(self.window.1.0).saturating_sub(from.0.max(self.window.0.0))
    }
}
