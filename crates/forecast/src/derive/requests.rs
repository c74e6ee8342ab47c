//! Live recordings: requests at services become jobs.

pub mod assemble;
mod backs;
pub mod collect;
mod doubled;
pub mod order;
pub mod places;
pub mod services;
pub mod stations;
pub mod survivors;

use super::arrivals::{self, Coming, Inferred};
use super::demand::{self, Demand};
use super::links::{Connect, Links};
use super::visits::is_futex;
use super::{Selection, Unsupported};
use crate::derived::{Block, Derived, Measured, Model, Unit};
use crate::jobs::{Arrivals, Crowd, Job, Jobs, Part, Service, Visit, WorkState};
use collect::{Collected, collect, flow_of, interval, is_of_kind};
use services::Services;
use stations::Stations;
use std::fmt::Write as _;
use survivors::Cover;
use wakepath_analysis::histogram::Histogram;
use wakepath_analysis::names::Names;
use wakepath_causality::path::Request;
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{CommonNs, HostId, TaskId};
use wakepath_model::rows::{EndedBy, Table};

/// Equal parts of the recording, for how much it varies.
const BLOCKS: usize = 8;
/// Least requests of which a model is made.
const REQUESTS_MIN: usize = 16;
/// Part of the times from being woken to running that is taken for those with a processor at hand.
const BARE_WAKE: f64 = 0.1;
/// Part of a service's processor time or waiting that is worth a sentence.
const WORTH_SAYING: f64 = 0.02;
/// Part of the requests' time spent waiting for nobody knows what that refusals name: what is asked for may be that.
const MUCH_UNKNOWN: f64 = 0.1;

/// What refusals name where the clients of a service with an accept queue are not recorded.
const CLIENTS_UNSEEN: &str =
    "how long clients waited for a connection; record the clients too, with `wakepath record --all` or --comm";

/// What is assumed where the first callers of requests are not recorded.
const CLIENTS_LATENCY: &str = "Latency is measured at the services, from a request's arrival to its reply. Clients are \
    not recorded: they measure more, by their network and their own waits for a processor.";

/// Makes jobs of a recording's requests.
pub fn derive(
    folder: &Folder,
    index: &Index,
    names: &Names<'_>,
    selection: &Selection,
) -> Result<Derived, Unsupported> {
    let collected = enough(folder, index, names, selection)?;
    let took = |i: usize| interval(index, &collected.requests[i]).map_or(0, |(came, left)| between(came, left));
    let cover = survivors::cover(&collected, took)?;
    let mut services = services::find(&collected, names);
    let requests = &collected.requests;
    let super::holds::Found { tokens, interpreters, disks } = super::holds::find(index, names, requests);
    let classify = |host: HostId, w: &wakepath_model::rows::WaitRow| {
        // an interpreter's lock is asked for again and again until its holder lets go
        let asks_again =
            || is_futex(w) && w.cause == EndedBy::Timer && is_interpreter(&interpreters, names, host, w.task);
        if tokens.is_turn(host, w.task, w.blocked) || asks_again() {
            return None;
        }
        match disks.served_ns(host, w) {
            Some(ns) => Some((WorkState::Disk, ns)),
            None => Some(demand::classify(w)),
        }
    };
    let demand = demand::measure(folder, index, names, &collected, &services, &cover, &classify);
    services.settle(&demand.awaited);
    let turns = turns(&services, names, &interpreters);
    let elapsed_ns = between(collected.span.0, collected.span.1);
    let (stations, rooms) = stations::find(folder, names, &services, &demand, &turns, elapsed_ns);
    let links = Links::read(folder, index);
    let opened = links.opened(index, requests);
    // of all that were answered: whole ones, then those for which a whole one stands
    let stands: Vec<u32> = (0..requests.len() as u32).chain(cover.donors.iter().copied().flatten()).collect();
    let coming = coming(index, &collected, &cover, &opened);
    // who had to ask for a connection more than once came before others whose request is older
    let mut order: Vec<usize> = (0..coming.len()).collect();
    order.sort_by_key(|&i| coming[i].came);
    let sorted: Vec<Coming> = order.iter().map(|&i| coming[i]).collect();
    let inferred = arrivals::infer(&sorted, selection.arrivals);
    let (asked, roots) = assemble::visits(index, names, &collected, &services, &demand, &tokens, &links);
    let t0 = collected.span.0;
    let mut jobs = Jobs {
        stations: stations.all.clone(),
        pools: tokens.pools.clone(),
        asked,
        arrivals: Some(inferred.arrivals.clone()),
        left_out: (requests.len() as u64 + collected.holes + collected.too_many) - stands.len() as u64,
        elapsed_ns,
        unseen: tokens.unseen.clone(),
        syn_linear: links.syn_linear(),
        ..Jobs::default()
    };
    // without them, who found no room and asked again seems to have come later
    let (_, connects) = links.retried();
    if connects == 0 && rooms.iter().any(Option::is_some) {
        jobs.unseen.push(CLIENTS_UNSEEN.to_owned());
    }
    jobs.stations.extend(disks.stations.iter().map(|(_, s)| s.clone()));
    let rooms = if connects > 0 { rooms } else { vec![None; services.all.len()] };
    jobs.services = job_services(names, &services, &demand, &stations, &rooms);
    let answered = Answered { coming: &coming, opened: &opened, order: &order, stands: &stands };
    jobs.jobs = answered.jobs(index, requests, &inferred.thinks, &roots, t0);
    jobs.crowds = crowds(&jobs, &sorted, &inferred);
    let inside = places::find(&mut jobs);
    jobs.unseen.extend(much_unknown(&jobs, demand.unknown_ns));
    let contradictory = order::settle(&mut jobs);
    let mut assumptions = assumptions(&collected, &cover, &services, &demand, &inferred, &jobs);
    assumptions.extend(stations.assumptions);
    assumptions.extend(connections(&links, &opened));
    assumptions.extend(tokens.assumptions.iter().chain(&disks.assumptions).cloned());
    assumptions.extend(inside);
    assumptions.extend(contradictory);
    let measured = measure(&coming, selection, &collected, &cover);
    if measured.count == 0 {
        return Err(none_of_kind(selection));
    }
    let lossy = demand.lossy.max(collected.lossy());
    let (impossible, hidden) = (stations.impossible, places::hidden(&jobs));
    let model = Model::Jobs(jobs);
    Ok(Derived { model, measured, assumptions, lossy, impossible, hidden, flows: Vec::new(), warnings: Vec::new() })
}

/// Clients that ask for different things; `coming` in the order of the jobs.
fn crowds(jobs: &Jobs, coming: &[Coming], inferred: &Inferred) -> Vec<Crowd> {
    if jobs.jobs.len() != coming.len() || inferred.arrivals == Arrivals::Open {
        return Vec::new();
    }
    let asked: Vec<usize> = jobs.jobs.iter().map(|j| j.root.asked).collect();
    arrivals::crowds(coming, &asked)
}

/// The services as a replay knows them; `rooms`: of each, the room of its accept queue, where that is known to matter.
fn job_services(
    names: &Names<'_>,
    services: &Services,
    demand: &Demand,
    stations: &Stations,
    rooms: &[Option<u64>],
) -> Vec<Service> {
    let one = |(id, s): (usize, &services::Found)| Service {
        name: s.name.clone(),
        host: names.host(s.host).to_owned(),
        process: s.process.clone(),
        station: stations.of[id],
        workers: s.workers,
        processes: stations::processes(names, s.host, &s.tasks),
        turns: stations.turns[id],
        keeps_connections: !s.is_per_connection,
        holds: s.holds,
        backlog: rooms[id],
        wake_ns: demand.wakes[id].quantile(BARE_WAKE),
    };
    services.all.iter().enumerate().map(one).collect()
}

/// All requests that were answered: whole ones, then those for which a whole one stands.
struct Answered<'a> {
    coming: &'a [Coming],
    /// The connection that a request had to be opened for.
    opened: &'a [Option<Connect>],
    /// Their order of coming.
    order: &'a [usize],
    /// Of each, the whole request that stands for it.
    stands: &'a [u32],
}

impl Answered<'_> {
    /// A job for each, in their order of coming, with the time that its client thought before.
    fn jobs(&self, index: &Index, requests: &[Request], thinks: &[u64], roots: &[Visit], t0: CommonNs) -> Vec<Job> {
        let at_once = (0..requests.len()).filter(|&i| self.opened[i].is_some_and(|c| c.retries == 0));
        let mut at_once: Vec<u64> = at_once.map(|i| connecting(index, &requests[i], &self.coming[i])).collect();
        let usual_ns = super::visits::median(&mut at_once);
        let mut jobs = Vec::with_capacity(self.order.len());
        for (&i, think_ns) in self.order.iter().zip(thinks) {
            let c = &self.coming[i];
            let Some(mut root) = roots.get(self.stands[i] as usize).cloned() else { continue };
            if let Some(connect) = self.opened.get(i).copied().flatten() {
                // what passes until a SYN is sent again is the replay's to make
                root.there_ns = if connect.retries == 0 { connecting(index, &requests[i], c) } else { usual_ns };
            }
            let (at_ns, took_ns) = (between(t0, c.came), between(c.came, c.left));
            jobs.push(Job { at_ns, think_ns: *think_ns, took_ns, root });
        }
        jobs
    }
}

/// What refusals name where much of the requests' time was spent waiting for nobody knows what.
fn much_unknown(jobs: &Jobs, unknown_ns: u64) -> Option<String> {
    let (share, most) = unknown(jobs, unknown_ns);
    (share > MUCH_UNKNOWN).then(|| {
        format!(
            "what {:.0} % of the requests' time was spent waiting for{most}: a queue that a process keeps in itself, such as a \
             proxy's limit of connections or the pool of an event loop, looks like that",
            100.0 * share
        )
    })
}

/// What is taken for granted of connections that were asked for. `opened`: of each request, the one made for it.
fn connections(links: &Links, opened: &[Option<Connect>]) -> Vec<String> {
    let mut assumptions = Vec::new();
    let made: Vec<&Connect> = opened.iter().flatten().collect();
    let again = made.iter().filter(|c| c.retries > 0).count();
    if again > 0 {
        let then = match links.syn_linear() {
            0 => String::new(),
            n => format!("{n} times more after 1 s each, "),
        };
        assumptions.push(format!(
            "{again} of {} connections took 1 s or longer, as those do whose first packet finds no room in an accept queue. The \
             replay takes them for such: a client retries after 1 s, {then}then after twice as long each time.",
            made.len()
        ));
    }
    if links.more() > 0 {
        assumptions
            .push(format!("{} connections are like those before: there were too many to look at.", links.more()));
    }
    assumptions
}

fn none_of_kind(selection: &Selection) -> Unsupported {
    let kind = selection.kind.as_deref().unwrap_or_default();
    Unsupported::new(
        format!("no request of kind {kind:?} has a complete path"),
        "`wakepath requests` lists the kinds that there are",
    )
}

/// The requests, if a model can be made of them.
fn enough(folder: &Folder, index: &Index, names: &Names<'_>, selection: &Selection) -> Result<Collected, Unsupported> {
    let collected = collect(folder, index, names, selection);
    if collected.requests.len() < REQUESTS_MIN {
        return Err(too_few(folder, &collected));
    }
    // of one kind that is asked for, the others' number is no part of the answer
    let doubled = if selection.kind.is_none() { doubled::refusal(&collected, names) } else { None };
    doubled.map_or(Ok(collected), Err)
}

fn too_few(folder: &Folder, c: &Collected) -> Unsupported {
    let whole = c.requests.len();
    let has = |table| folder.hosts().iter().any(|h| h.row_count(table) > 0);
    if whole == 0 && !has(Table::Op) && has(Table::SniffedFlow) {
        return Unsupported::new(
            "packets do not show what the hosts computed and waited for",
            "record on the hosts, with `wakepath record --port PORT`",
        );
    }
    if whole == 0 && !has(Table::Message) {
        return Unsupported::new(
            "no message of a request was recorded",
            "record the services under load, with `wakepath record --port PORT`; `wakepath info` tells what is there, \
             `wakepath waits` what its tasks waited for",
        );
    }
    if c.holes + c.orphans > whole as u64 {
        let why = Unsupported::new(
            too_few_in_words(whole as u64, c),
            "`wakepath requests` says which fact is missing, and how to get it",
        );
        return if whole as u64 + c.holes >= REQUESTS_MIN as u64 { why.of_requests() } else { why };
    }
    Unsupported::new(
        format!("{whole} requests were seen, and a model needs {REQUESTS_MIN}"),
        "record for longer, under load, and select the services with `wakepath record --port PORT`",
    )
}

/// Of how many requests, and of which not, a model can be made. `whole`: answered, with a complete path.
fn too_few_in_words(whole: u64, c: &Collected) -> String {
    let mut text =
        format!("too few requests have a complete path and a complete reply: {whole} of {}", whole + c.holes);
    for (n, what) in [(c.unanswered, "without a complete reply"), (c.holes - c.unanswered, "with an incomplete path")] {
        if n > 0 {
            let _ = write!(text, "; {n} {what}");
        }
    }
    if c.orphans > 0 {
        let _ = write!(text, "; {} more messages could not be assigned to a request", c.orphans);
    }
    text
}

/// From one moment to a later one (ns), 0 where it is earlier.
fn between(a: CommonNs, b: CommonNs) -> u64 {
    u64::try_from(b.0.saturating_sub(a.0)).unwrap_or(0)
}

/// From calling for a connection until the request was there (ns).
fn connecting(index: &Index, r: &Request, c: &Coming) -> u64 {
    interval(index, r).map_or(0, |(asked, _)| between(c.came, asked))
}

/// When each came: where its connection was made for it and the call was seen, it came with that. Whole ones, then those
/// for which a whole one stands.
fn coming(index: &Index, collected: &Collected, cover: &Cover, opened: &[Option<Connect>]) -> Vec<Coming> {
    let one = |(r, connect): (&Request, &Option<Connect>)| {
        let (asked, left) = interval(index, r)?;
        let came = connect.map_or(asked, |c| c.at.min(asked));
        Some(Coming { flow: flow_of(r)?, came, left })
    };
    let missing = collected.missing.iter().zip(&cover.donors).filter(|(_, donor)| donor.is_some());
    let missing = missing.map(|(m, _)| Coming { flow: m.flow, came: m.came, left: m.left });
    // all that were kept have an interval
    collected.requests.iter().zip(opened).filter_map(one).chain(missing).collect()
}

/// Of each service, how many processors its processes can use at the same time where they run one thread at a time; 0
/// where none does.
fn turns(services: &Services, names: &Names<'_>, interpreters: &[super::locks::Interpreter]) -> Vec<f64> {
    let of = |s: &services::Found| {
        let processes = stations::processes(names, s.host, &s.tasks);
        let known = interpreters.iter().filter(|i| i.host == s.host && processes.contains(&i.tgid));
        // of the others of the same program too little was seen to tell
        let (sum, count) = known.fold((0.0, 0u32), |(sum, count), i| (sum + i.at_a_time, count + 1));
        if count == 0 { 0.0 } else { sum / f64::from(count) * processes.len() as f64 }
    };
    services.all.iter().map(of).collect()
}

/// Whether a task's process lets one of its threads run at a time.
fn is_interpreter(all: &[super::locks::Interpreter], names: &Names<'_>, host: HostId, task: TaskId) -> bool {
    !all.is_empty() && all.iter().any(|i| (i.host, i.tgid) == (host, names.tgid(host, task)))
}

fn measure(coming: &[Coming], selection: &Selection, collected: &Collected, cover: &Cover) -> Measured {
    let (t0, elapsed_ns) = (collected.span.0, between(collected.span.0, collected.span.1));
    let mut latency = Histogram::default();
    let step = (elapsed_ns / BLOCKS as u64).max(1);
    let mut sums = [(0u64, 0u128); BLOCKS];
    let covered = collected.missing.iter().zip(&cover.donors).filter(|(_, donor)| donor.is_some());
    let kinds = collected.kind_of.iter().copied().chain(covered.map(|(m, _)| m.kind));
    for (kind, c) in kinds.zip(coming) {
        if selection.kind.as_deref().is_some_and(|k| !is_of_kind(&collected.kinds[kind as usize], k)) {
            continue;
        }
        let ns = between(c.came, c.left);
        latency.add(ns);
        let at = (between(t0, c.left) / step).min(BLOCKS as u64 - 1) as usize;
        sums[at] = (sums[at].0 + 1, sums[at].1 + u128::from(ns));
    }
    let block = |&(count, sum): &(u64, u128)| {
        let mean_ns = if count == 0 { 0.0 } else { sum as f64 / count as f64 };
        Block { count, elapsed_ns: step, mean_ns }
    };
    let blocks = sums.iter().map(block).collect();
    Measured { unit: Unit::Requests, count: latency.count(), elapsed_ns, latency, blocks }
}

/// The part of the requests' time in which services waited for what no record explains, and where most of that is, in
/// words.
fn unknown(jobs: &Jobs, ns: u64) -> (f64, String) {
    fn add(v: &Visit, by_service: &mut [u64]) {
        for part in &v.parts {
            match (part, v.service) {
                (Part::Work { state: WorkState::Outside, ns }, Some(id)) => by_service[id] += ns,
                (Part::Calls(calls), _) => calls.iter().for_each(|c| add(c, by_service)),
                _ => {}
            }
        }
    }
    let took: u64 = jobs.jobs.iter().map(|j| j.took_ns).sum();
    let mut by_service = vec![0; jobs.services.len()];
    jobs.jobs.iter().for_each(|j| add(&j.root, &mut by_service));
    let most = (0..by_service.len()).max_by_key(|&id| by_service[id]).filter(|&id| by_service[id] > 0);
    (
        ns as f64 / took.max(1) as f64,
        most.map_or_else(String::new, |id| format!(", most of it in {}", jobs.services[id].name)),
    )
}

/// What is assumed of how requests come.
fn arriving(inferred: &Inferred, jobs: &Jobs) -> Vec<String> {
    let mut out = Vec::new();
    let how = match inferred.arrivals {
        Arrivals::Closed { clients: 1 } => "closed, 1 client".to_owned(),
        Arrivals::Closed { clients } => format!("closed, {clients} clients"),
        Arrivals::Open => "open".to_owned(),
    };
    out.push(format!("Arrivals are {how}: {}.", inferred.why));
    if !jobs.crowds.is_empty() {
        let counts: Vec<String> = jobs.crowds.iter().map(|c| c.clients.to_string()).collect();
        out.push(format!(
            "Clients ask for different things ({} groups, of {} clients): each group goes on asking for its own.",
            counts.len(),
            counts.join(", ")
        ));
    }
    out
}

fn assumptions(
    collected: &Collected,
    cover: &Cover,
    services: &Services,
    demand: &Demand,
    inferred: &Inferred,
    jobs: &Jobs,
) -> Vec<String> {
    let mut out = Vec::new();
    out.extend(arriving(inferred, jobs));
    out.push("Computing costs what it cost during the recording, including the cost of recording.".to_owned());
    let is_unseen = |r: &Request| r.spans.first().is_some_and(|root| root.caller.is_none());
    if collected.requests.iter().any(is_unseen) {
        out.push(CLIENTS_LATENCY.to_owned());
    }
    for (s, used) in services.all.iter().zip(&demand.used) {
        let part = 1.0 - 1.0 / used.factor();
        if part >= WORTH_SAYING {
            let percent = part * 100.0;
            out.push(format!(
                "{percent:.0} % of the processor time of {} belongs to no request and is spread over all.",
                s.name
            ));
        }
    }
    let all: u64 = demand.used.iter().map(|u| u.all_ns).sum();
    let strangers: u64 = demand.strangers.values().sum();
    if strangers as f64 > WORTH_SAYING * all as f64 {
        let mut most: Vec<(&String, u64)> = demand.strangers.iter().map(|((_, name), ns)| (name, *ns)).collect();
        most.sort_unstable_by_key(|&(name, ns)| (std::cmp::Reverse(ns), name));
        let names: Vec<&str> = most.iter().take(3).map(|m| m.0.as_str()).collect();
        let percent = 100.0 * strangers as f64 / (all + strangers) as f64;
        out.push(format!(
            "{percent:.0} % of the processor time seen is of tasks that serve no request ({}), and stays in use.",
            names.join(", ")
        ));
    }
    let (unknown, most) = unknown(jobs, demand.unknown_ns);
    if unknown > WORTH_SAYING {
        let percent = unknown * 100.0;
        out.push(format!(
            "{percent:.0} % of the requests' time passes waiting for what was not seen{most}, and stays as it is, whatever \
             changes: were it a queue, it would not."
        ));
    }
    if collected.elsewhere > 0 {
        out.push(format!(
            "{} requests of recorded programs to servers that are not recorded are no part of the model.",
            collected.elsewhere
        ));
    }
    let covered = cover.donors.iter().flatten().count() as u64;
    if covered > 0 {
        out.push(format!(
            "{covered} answered requests with gaps in their path are modelled by a complete one of the same kind and \
             duration."
        ));
    }
    if collected.holes > covered {
        let left = collected.holes - covered;
        out.push(format!("{left} more, not answered or unlike any complete one, are left out."));
    }
    if collected.too_many > 0 {
        let seconds = jobs.elapsed_ns as f64 / 1e9;
        out.push(format!(
            "The first {seconds:.1} s, {} requests, stand for all; --from and --to choose others.",
            jobs.jobs.len()
        ));
    }
    out
}
