//! Changes to state machines as they were recorded.

use super::jobs::{Meant, delayed, is_processors, parts, set_servers, stations, whole_or_unbounded};
use super::names::{find, is_meant, nearest};
use super::{Amount, Bandwidth, Change, Delay, Effect, No, number};
use crate::system::{Queue, QueueKind, Step, System, WITHOUT_BOUND};

/// Makes a change, or refuses it before anything is changed.
pub(super) fn apply(change: &Change, system: &mut System) -> Result<Effect, No> {
    match change {
        Change::Scale { host, process, state, factor } => scale(system, [host, process, state], *factor),
        Change::Cpu { of, to } => {
            let (Meant::Stations(found) | Meant::Users(found)) = meant(system, of, true)?;
            let mut effect = Effect::default();
            set_servers(&mut system.stations, &found, *to, &mut effect)?;
            Ok(effect)
        }
        Change::Speed { of, factor } => speed(system, of, *factor),
        Change::Link { between, bandwidth, delay } => link(system, between, *bandwidth, *delay),
        Change::Queue { name, to } => room(system, name, *to),
        Change::Workers { of, to } | Change::Threads { of, to } | Change::Processes { of, to } => {
            tokens(system, of, *to, false)
        }
        Change::Pool { name, to } => tokens(system, name, *to, true),
        Change::Drop { .. } | Change::Parallel { .. } | Change::Cache { .. } => Err(No::because(
            "this recording was made into state machines, not requests: nothing shows what depends on a call's reply",
        )
        .missing(&["requests between services; `wakepath requests` lists those that a recording has".to_owned()])),
    }
}

fn meant(system: &System, given: &str, only_processors: bool) -> Result<Meant, No> {
    let users =
        system.states.iter().filter_map(|s| Some((s.station?.index(), vec![s.process.as_str()], s.host.as_str())));
    stations(given, &system.stations, users, |s| !only_processors || is_processors(s))
}

fn speed(system: &mut System, of: &str, factor: f64) -> Result<Effect, No> {
    let mut effect = Effect::default();
    match meant(system, of, false)? {
        Meant::Stations(found) => {
            for i in found {
                let s = &mut system.stations[i];
                effect.done.push(format!("speed of {} of {}: {} times", s.what, s.name, number(factor)));
                s.speed *= factor;
            }
        }
        // of a process its own work alone, whoever else runs there
        Meant::Users(_) => {
            let is_it = states(system, |s| s.station.is_some() && is_meant(of, &s.process));
            let (count, ns) = scale_work(system, &is_it, 1.0 / factor);
            effect.done.push(format!("computing of {of}: {} times as fast ({})", number(factor), parts(count, ns)));
        }
    }
    Ok(effect)
}

fn states(system: &System, is_it: impl Fn(&crate::system::State) -> bool) -> Vec<bool> {
    system.states.iter().map(is_it).collect()
}

fn scale_work(system: &mut System, is_it: &[bool], factor: f64) -> (u64, u64) {
    system.scale_work(|s| is_it.get(s.index()) == Some(&true), factor)
}

fn scale(system: &mut System, given: [&String; 3], factor: f64) -> Result<Effect, No> {
    let [host, process, state] = given.map(String::as_str);
    let whole = [host, process, state].join("/");
    let is_it =
        states(system, |s| is_meant(host, &s.host) && is_meant(process, &s.process) && is_meant(state, &s.state));
    let mut effect = Effect::default();
    if system.work(|s| is_it.get(s.index()) == Some(&true)).1 > 0 {
        let (count, ns) = scale_work(system, &is_it, factor);
        effect.done.push(format!("work of {whole}: {} times ({})", number(factor), parts(count, ns)));
        return Ok(effect);
    }
    let locks: Vec<bool> =
        system.queues.iter().map(|q| q.kind == QueueKind::Lock && is_lock(q, process, state)).collect();
    if locks.contains(&true) {
        let (count, ns) = scale_held(system, &locks, factor);
        if count == 0 {
            return Err(No::because(format!("nothing is known to be done while {whole} is held")));
        }
        effect.done.push(format!("time that {whole} is held: {} times ({})", number(factor), parts(count, ns)));
        return Ok(effect);
    }
    let names = system.states.iter().map(|s| format!("{}/{}/{}", s.host, s.process, s.state));
    Err(No::because(format!("no work is called {whole:?}")).near(nearest(&whole, names)))
}

fn is_lock(q: &Queue, process: &str, state: &str) -> bool {
    let (owner, lock) = q.name.rsplit_once('/').unwrap_or(("", &q.name));
    is_meant(process, owner) && (state == "lock" || is_meant(state, lock))
}

/// Scales the work that is done while one of these is held.
fn scale_held(system: &mut System, locks: &[bool], factor: f64) -> (u64, u64) {
    let mut sum = (0, 0);
    for script in &system.scripts {
        let mut held = 0u64;
        for step in &mut system.steps[script.clone()] {
            match step {
                Step::Dequeue { queue, count, .. } if locks.get(queue.index()) == Some(&true) => held += *count,
                Step::Enqueue { queue, count, .. } if locks.get(queue.index()) == Some(&true) => {
                    held = held.saturating_sub(*count);
                }
                Step::Work { ns, .. } if held > 0 => {
                    sum = (sum.0 + 1, sum.1 + *ns);
                    *ns = (*ns as f64 * factor).round() as u64;
                }
                _ => {}
            }
        }
    }
    sum
}

/// The queues of a kind that a name means.
fn queues(system: &System, given: &str, what: &str, is_wanted: impl Fn(&Queue) -> bool) -> Result<Vec<usize>, No> {
    let wanted = || system.queues.iter().enumerate().filter(|(_, q)| is_wanted(q));
    let found = find(given, wanted().map(|(i, q)| (i, also(&q.name))));
    if found.is_empty() {
        let reason = if wanted().next().is_none() {
            format!("this recording has no {what}")
        } else {
            format!("no {what} is called {given:?}")
        };
        return Err(No::because(reason).near(nearest(given, wanted().map(|(_, q)| q.name.clone()))));
    }
    Ok(found)
}

/// A queue's name; of a link, also with its ends the other way round.
fn also(name: &str) -> Vec<String> {
    match name.split_once('-') {
        Some((a, b)) if !b.contains('-') && !b.starts_with('>') => vec![name.to_owned(), format!("{b}-{a}")],
        _ => vec![name.to_owned()],
    }
}

fn link(system: &mut System, between: &str, bandwidth: Option<Bandwidth>, delay: Option<Delay>) -> Result<Effect, No> {
    let found = queues(system, between, "link", |q| q.kind == QueueKind::Link)?;
    for &i in &found {
        let q = &system.queues[i];
        match bandwidth {
            Some(Bandwidth::Times(_)) if q.ns_per_item <= 0.0 => {
                return Err(No::because(format!("nothing ever waited for bandwidth on the link {}", q.name)));
            }
            Some(Bandwidth::Bits(_)) if !q.is_bytes => {
                return Err(No::because(format!(
                    "the link {} carries items and not bytes: give its bandwidth as 2x",
                    q.name
                )));
            }
            _ => {}
        }
    }
    let mut effect = Effect::default();
    for i in found {
        let q = &mut system.queues[i];
        if let Some(bandwidth) = bandwidth {
            let then = match bandwidth {
                Bandwidth::Times(factor) => q.ns_per_item / factor,
                Bandwidth::Bits(bits) => 8e9 / bits,
                Bandwidth::Unbounded => 0.0,
            };
            effect.done.push(format!(
                "bandwidth of the link {}: {} → {}",
                q.name,
                rate(q, q.ns_per_item),
                rate(q, then)
            ));
            q.ns_per_item = then;
        }
        if let Some(delay) = delay {
            let then = delayed(q.delay_ns, delay);
            let us = |ns: u64| ns as f64 / 1e3;
            effect.done.push(format!("delay of the link {}: {:.1} → {:.1} µs", q.name, us(q.delay_ns), us(then)));
            q.delay_ns = then;
        }
    }
    Ok(effect)
}

/// What passes in a second, for people.
fn rate(q: &Queue, ns_per_item: f64) -> String {
    match (ns_per_item > 0.0, q.is_bytes) {
        (false, _) => "unbounded".into(),
        (true, true) => format!("{:.1} Mbit/s", 8e3 / ns_per_item),
        (true, false) => format!("{:.1} items/s", 1e9 / ns_per_item),
    }
}

/// Room of a queue. That of a buffer may be credits that lie in it from the begin.
fn room(system: &mut System, name: &str, to: Amount) -> Result<Effect, No> {
    let has_room = |q: &Queue| match q.kind {
        QueueKind::AcceptQueue | QueueKind::Link => q.capacity.is_some(),
        QueueKind::Buffer | QueueKind::Annotated => q.capacity.is_some() || q.initial > 0,
        QueueKind::Workers(_) | QueueKind::Pool | QueueKind::Lock => false,
    };
    let found =
        queues(system, name, "queue with a bound", has_room).map_err(|no| no.missing(&windows(system, name)))?;
    let mut effect = Effect::default();
    for i in found {
        let q = &mut system.queues[i];
        let is_credits = q.is_tokens();
        let now = if is_credits { q.initial } else { q.capacity.unwrap_or(0) };
        let then = to.whole("places", now as f64, 1)?;
        let unit = if q.is_bytes { " bytes" } else { "" };
        effect.done.push(format!("room of {}: {now} → {}{unit}", q.name, whole_or_unbounded(then)));
        if is_credits {
            q.initial = then.unwrap_or(WITHOUT_BOUND).min(WITHOUT_BOUND);
            q.capacity = q.capacity.and(then);
        } else {
            q.capacity = then;
        }
    }
    Ok(effect)
}

/// What is missing where a window of a stream is meant.
fn windows(system: &System, name: &str) -> Vec<String> {
    let has_stream = system.queues.iter().any(|q| q.kind == QueueKind::Link && q.is_bytes);
    if !has_stream || !name.contains("window") {
        return Vec::new();
    }
    vec![
        "how large the congestion window and the receive window were while the stream went on (the kernel's tcp_probe events \
         tell both, and are not recorded); of the ends' buffers the sender's is known where it was full"
            .into(),
    ]
}

/// A number of workers, or of a pool.
fn tokens(system: &mut System, name: &str, to: Amount, are_of_pool: bool) -> Result<Effect, No> {
    let (what, words) = if are_of_pool { ("pool", "size of the pool") } else { ("group of workers", "workers of") };
    let is_meant = |kind| match kind {
        QueueKind::Pool => are_of_pool,
        QueueKind::Workers(_) => !are_of_pool,
        _ => false,
    };
    let found = queues(system, name, what, |q| is_meant(q.kind))?;
    let mut effect = Effect::default();
    for i in found {
        let q = &mut system.queues[i];
        let then = to.whole("of them", q.initial as f64, 1)?;
        effect.done.push(format!("{words} {}: {} → {}", q.name, q.initial, whole_or_unbounded(then)));
        q.initial = then.unwrap_or(WITHOUT_BOUND).min(WITHOUT_BOUND);
        q.capacity = q.capacity.and(then.map(|n| n.max(q.initial)));
    }
    Ok(effect)
}
