//! Places inside a service of which there is a number: a semaphore, a limit of requests at a time. Where its requests are
//! logical tasks (goroutines), nobody records what these wait for. But while some wait, just as many as there are places go on.

use crate::jobs::{Job, Jobs, Part, Pool, PoolId, ServiceId, Visit, WorkState};
use std::collections::BTreeMap;

/// Least part of the requests' time that is such waiting.
const WAITING_MIN: f64 = 0.1;
/// Least part of the time in which some wait that the same number go on.
const STEADY: f64 = 0.9;
/// Least requests that wait.
const WAITS_MIN: usize = 30;
/// From this part of the requests' time on, waiting inside services for nobody knows what decides how all would change.
const HIDDEN_MIN: f64 = 0.25;
/// Waits that hardly depend on how many are in progress (their correlation, 0 to 1) are no queue's.
const INDEPENDENT: f64 = 0.2;
/// Who mostly finds fewer others in progress than this waits after none of them.
const ALONE: f64 = 0.5;
/// Where the number in progress varies by less (standard deviation), it tells nothing.
const VARIES: f64 = 0.5;
/// Nor where it varies by less than this part of itself: clients that ask again at once keep it nearly constant.
const VARIES_PART: f64 = 0.2;
/// Most places that are looked for.
const PLACES_MAX: i64 = 1024;

/// A request's stay: when it began to wait for nobody knows what, when it went on, and when it was over (ns).
type Stay = (u64, u64, u64);

/// Makes pools of the places that services of the requests have inside; gives what that takes for granted, in words.
pub fn find(jobs: &mut Jobs) -> Vec<String> {
    let mut assumptions = Vec::new();
    for id in 0..jobs.services.len() {
        let Some((places, share)) = places(&jobs.jobs, id) else { continue };
        let name = format!("{}/places", jobs.services[id].name);
        let pool = jobs.pools.len();
        jobs.pools.push(Pool { name: name.clone(), tokens: places, is_lock: false, process: None });
        jobs.jobs.iter_mut().filter(|j| j.root.service == Some(id)).for_each(|j| take(&mut j.root, pool));
        assumptions.push(format!(
            "requests wait inside {} for one of {places} places, which no record shows: in {:.0} % of the time in which some wait \
             for an unknown reason, exactly that many continue, as at a semaphore (`pool {name}=…` changes their number)",
            jobs.services[id].name,
            100.0 * share
        ));
    }
    assumptions
}

/// What of the requests' waiting may be a queue that nobody saw, so that nothing can be forecast, in words. `None` where it is
/// a small part, or does not depend on how many requests are in progress.
pub fn hidden(jobs: &Jobs) -> Option<String> {
    let took: u64 = jobs.jobs.iter().map(|j| j.took_ns).sum();
    let mut by_service: BTreeMap<ServiceId, u64> = BTreeMap::new();
    let each: Vec<u64> = jobs.jobs.iter().map(|j| unseen(&j.root, &mut by_service)).collect();
    let share = each.iter().sum::<u64>() as f64 / took.max(1) as f64;
    if share < HIDDEN_MIN || dependence(&jobs.jobs, &each).is_some_and(|r| r < INDEPENDENT) {
        return None;
    }
    let (&most, _) = by_service.iter().max_by_key(|(_, ns)| **ns)?;
    Some(format!(
        "{:.0} % of the requests' time passes inside services, in waits that the model cannot follow, most of it in {}: if that is a queue \
         (a semaphore, a lock file, a limit of requests at a time), any change changes it too",
        100.0 * share,
        jobs.services.get(most)?.name
    ))
}

/// How long a visit and its calls waited inside watched services for nobody knows what (ns), by service too.
fn unseen(v: &Visit, by_service: &mut BTreeMap<ServiceId, u64>) -> u64 {
    let mut sum = 0;
    for part in &v.parts {
        match (part, v.service) {
            (Part::Work { state: WorkState::Outside, ns }, Some(id)) => {
                *by_service.entry(id).or_default() += ns;
                sum += ns;
            }
            (Part::Calls(calls), _) => sum += calls.iter().map(|c| unseen(c, by_service)).sum::<u64>(),
            _ => {}
        }
    }
    sum
}

/// How far the waits depend on how many requests are in progress when one comes: their correlation; `None` where that number
/// hardly varies, though others are there.
fn dependence(jobs: &[Job], waits: &[u64]) -> Option<f64> {
    let mut ends: Vec<u64> = jobs.iter().map(|j| j.at_ns.saturating_add(j.took_ns)).collect();
    ends.sort_unstable();
    let in_progress = |(n, j): (usize, &Job)| n as f64 - ends.partition_point(|end| *end <= j.at_ns).min(n) as f64;
    let numbers: Vec<f64> = jobs.iter().enumerate().map(in_progress).collect();
    let n = numbers.len().max(1) as f64;
    let mean = |of: &mut dyn Iterator<Item = f64>| of.sum::<f64>() / n;
    let (mx, my) = (mean(&mut numbers.iter().copied()), mean(&mut waits.iter().map(|w| *w as f64)));
    let pairs = || numbers.iter().zip(waits).map(|(x, w)| (x - mx, *w as f64 - my));
    let (xx, yy) = (mean(&mut pairs().map(|p| p.0 * p.0)), mean(&mut pairs().map(|p| p.1 * p.1)));
    let xy = mean(&mut pairs().map(|p| p.0 * p.1));
    match yy > 0.0 {
        _ if mx < ALONE => Some(0.0),
        _ if xx.sqrt() < VARIES.max(VARIES_PART * mx) => None,
        true => Some(xy / (xx * yy).sqrt()),
        false => Some(0.0),
    }
}

/// The longest wait for nobody knows what in a visit's own work: its place among the parts, and how long (ns).
fn longest(v: &Visit) -> Option<(usize, u64)> {
    let waits = v.parts.iter().enumerate().filter_map(|(at, part)| match part {
        Part::Work { state: WorkState::Outside, ns } => Some((at, *ns)),
        _ => None,
    });
    waits.max_by_key(|w| w.1)
}

fn stay(job: &Job) -> Stay {
    let over = job.at_ns.saturating_add(job.took_ns);
    let Some((at, ns)) = longest(&job.root) else { return (job.at_ns, job.at_ns, over) };
    let before = job.root.parts.iter().take(at).map(|part| match part {
        Part::Work { ns, .. } => *ns,
        _ => 0,
    });
    let from = job.at_ns.saturating_add(job.root.there_ns).saturating_add(before.sum()).min(over);
    (from, from.saturating_add(ns).min(over), over)
}

/// How many places a service has, and in which part of the time in which some wait just so many go on.
fn places(jobs: &[Job], id: ServiceId) -> Option<(u32, f64)> {
    let stays: Vec<Stay> = jobs.iter().filter(|j| j.root.service == Some(id)).map(stay).collect();
    let waited: u64 = stays.iter().map(|s| s.1 - s.0).sum();
    let took: u64 = stays.iter().map(|s| s.2 - s.0).sum();
    if stays.iter().filter(|s| s.1 > s.0).count() < WAITS_MIN || (waited as f64) < WAITING_MIN * took as f64 {
        return None;
    }
    // how many wait, how many go on
    let changes = stays.iter().flat_map(|&(from, on, over)| [(from, 1, 0), (on, -1, 1), (over, 0, -1)]);
    let mut changes: Vec<(u64, i64, i64)> = changes.collect();
    changes.sort_unstable();
    let (mut waiting, mut going) = (0, 0);
    let mut times: BTreeMap<i64, u64> = BTreeMap::new();
    for pair in changes.windows(2) {
        (waiting, going) = (waiting + pair[0].1, going + pair[0].2);
        if waiting > 0 {
            *times.entry(going).or_default() += pair[1].0 - pair[0].0;
        }
    }
    let all: u64 = times.values().sum();
    let (&places, &time) = times.iter().max_by_key(|(_, time)| **time)?;
    let share = time as f64 / all.max(1) as f64;
    let is_number = (1..=PLACES_MAX).contains(&places);
    (is_number && share >= STEADY).then_some((places as u32, share))
}

/// A visit takes a place where it waited for one, else after its first work, and gives it back before its reply.
fn take(v: &mut Visit, pool: PoolId) {
    let at = match longest(v) {
        Some((at, _)) => {
            v.parts.remove(at);
            at
        }
        None => usize::from(matches!(v.parts.first(), Some(Part::Work { state: WorkState::Cpu, .. }))),
    };
    v.parts.insert(at, Part::Take(pool));
    let reply = v.parts.iter().position(|p| *p == Part::Reply).filter(|reply| *reply > at);
    v.parts.insert(reply.unwrap_or(v.parts.len()), Part::Give(pool));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn job(at_ns: u64, waits_ns: u64, works_ns: u64) -> Job {
        let work = |state, ns| Part::Work { state, ns };
        let parts = vec![work(WorkState::Outside, waits_ns), work(WorkState::Timer, works_ns), Part::Reply];
        let root = Visit { service: Some(0), asked: 0, there_ns: 0, back_ns: 0, parts };
        Job { at_ns, think_ns: 0, took_ns: waits_ns + works_ns, root }
    }

    /// Eight clients at three places, each of which is had for 10 ms and a little.
    #[test]
    fn a_number_that_goes_on_while_others_wait_is_one_of_places() {
        let (mut free, mut clients) = ([0u64; 3], [0u64; 8]);
        let mut jobs = Vec::new();
        for n in 0..300u64 {
            let client = n as usize % clients.len();
            let place = (0..free.len()).min_by_key(|&p| free[p]).expect("there are some");
            let at = clients[client];
            let on = free[place].max(at);
            let works = 10 * MS + n * 7919 % MS;
            jobs.push(job(at, on - at, works));
            free[place] = on + works;
            clients[client] = on + works;
        }
        let (places, share) = places(&jobs, 0).expect("found");
        assert!(places == 3 && share > 0.9, "{places} {share}");
        take(&mut jobs[20].root, 4);
        let work =
            Part::Work { state: WorkState::Timer, ns: jobs[20].root.parts.iter().find_map(ns_of).expect("its work") };
        assert_eq!(jobs[20].root.parts, [Part::Take(4), work, Part::Give(4), Part::Reply]);
    }

    fn ns_of(part: &Part) -> Option<u64> {
        if let Part::Work { ns, .. } = part { Some(*ns) } else { None }
    }

    /// Eight clients that wait for times of their own: how many go on meanwhile is anything.
    #[test]
    fn waits_of_their_own_length_are_no_places() {
        let mut clients = [0u64; 8];
        let mut jobs = Vec::new();
        for n in 0..400u64 {
            let client = n as usize % clients.len();
            let (waits, works) = (5 * MS + n * 7919 % (9 * MS), 4 * MS + n * 104_729 % (7 * MS));
            jobs.push(job(clients[client], waits, works));
            clients[client] += waits + works;
        }
        assert_eq!(places(&jobs, 0), None);
    }

    fn told(jobs: Vec<Job>) -> Option<String> {
        let service = crate::jobs::Service {
            name: "app:80".into(),
            host: "web".into(),
            process: "app".into(),
            station: crate::system::StationId(0),
            workers: None,
            processes: Vec::new(),
            turns: None,
            keeps_connections: true,
            holds: crate::jobs::Holds::Visit,
            backlog: None,
            wake_ns: 0,
        };
        hidden(&Jobs { jobs, services: vec![service], ..Jobs::default() })
    }

    /// One place, whose holder sleeps: the wait for it and the sleep are one, and how many others are there decides how long.
    #[test]
    fn waits_that_may_be_a_queue_refuse_a_forecast() {
        let (mut free, mut all) = (0u64, Vec::new());
        for n in 0..200u64 {
            // in bursts of ten
            let at = n / 10 * 100 * MS + n % 10 * MS / 10;
            free = free.max(at) + 5 * MS;
            all.push(job(at, free - at, MS / 10));
        }
        assert!(told(all).is_some_and(|t| t.contains("most of it in app:80")));
        // nearly as many at a time always, nine or ten, at a lock that each takes in turn: nothing tells
        let nearly = (0..200u64).map(|n| job(n * 5 * MS + n * 7919 % (2 * MS), 45 * MS, MS));
        assert!(told(nearly.collect()).is_some());
        // as many at a time always: nothing tells
        assert!(told((0..200u64).map(|n| job(n * 5 * MS / 2, 9 * MS, MS)).collect()).is_some());
    }

    #[test]
    fn waits_that_do_not_depend_on_others_refuse_none() {
        let all = (0..200u64).map(|n| job(n / 10 * 100 * MS + n % 10 * MS / 10, 5 * MS + n * 7919 % MS, MS / 10));
        assert_eq!(told(all.collect()), None);
        assert_eq!(told((0..200u64).map(|n| job(n * 10 * MS, MS, 9 * MS)).collect()), None, "a tenth");
        // nobody else is there to wait for
        assert_eq!(told((0..200u64).map(|n| job(n * 10 * MS, 5 * MS, MS)).collect()), None);
    }
}
