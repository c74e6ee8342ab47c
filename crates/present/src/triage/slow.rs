//! What is slow: the kind that most time went to, what it repeats, where it leaves what is watched, and why its slow ones are slow.

use super::{FINDINGS_MAX, Level, Part, Parts, Screen, Section, count, of_kind};
use crate::own_time::is_unsure;
use crate::requests::{KindView, RequestsView, TierView};
use crate::units;
use crate::why;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use wakepath_analysis::names::UNIX_SOCKET;

/// Of fewer requests, no 99th percentile is told.
const PERCENTILE_MIN: u64 = 100;
/// A part is told as the largest where it is at least one in so many of the whole.
const LARGEST_OF: u64 = 3;
/// Calls to who is not watched are worth a line from this part of a kind's time on.
const ELSEWHERE_SHARE: f64 = 0.1;
/// A kind that repeats a call is worth a line from this part of all requests' time on.
const REPEATING_SHARE: f64 = 0.1;
/// Most lines about such kinds besides the first.
const REPEATING_MAX: usize = 2;

pub(super) fn slow(screen: &mut Screen<'_>, parts: &Parts) {
    let mut headline = None;
    if let Part::Answer(r) = &parts.requests {
        let total = |k: &KindView| u128::from(k.mean_ns) * u128::from(k.count - k.unfinished.min(k.count));
        let all: u128 = r.kinds.iter().map(total).sum();
        let Some(k) = r.kinds.iter().max_by_key(|k| (total(k), k.unfinished)) else {
            let next = screen.command("info");
            return screen.add(Section::Slow, Level::Unknown, "Not known: no request was seen.", next);
        };
        let share = total(k) as f64 / all.max(1) as f64;
        let next = screen.command("show").map(|c| format!("{c} slowest {}", of_kind(&k.asked)));
        screen.add(Section::Slow, Level::Fact, most_time(k, share, r) + &usually(k, parts), next.clone());
        if let Some(repeated) = k.repeated() {
            screen.add(Section::Slow, Level::Bad, repeated, next);
        }
        elsewhere(screen, k, parts);
        // others that repeat a call, where much of all requests' time goes to them
        let mut others: Vec<&KindView> = r.kinds.iter().filter(|o| !std::ptr::eq(*o, k)).collect();
        others.retain(|o| total(o) as f64 >= REPEATING_SHARE * all as f64);
        others.sort_by_key(|o| std::cmp::Reverse(total(o)));
        for (o, repeated) in others.iter().filter_map(|o| Some((o, o.repeated()?))).take(REPEATING_MAX) {
            let next = screen.command("show").map(|c| format!("{c} slowest {}", of_kind(&o.asked)));
            screen.add(Section::Slow, Level::Bad, repeated, next);
        }
        headline = Some(k);
    }
    screen.missing(Section::Slow, &parts.requests, "requests");
    let Part::Answer(why) = &parts.why else { return screen.missing(Section::Slow, &parts.why, "why") };
    let mut told = 0;
    for k in why.kinds.iter().take(FINDINGS_MAX - 1) {
        let next = screen.command("why").map(|c| format!("{c} {}", of_kind(&k.kind)));
        if let Some(sentence) = compared(k) {
            screen.add(Section::Slow, Level::Fact, sentence, next);
            told += 1;
        }
    }
    if told == 0 {
        // why it is that nothing can be said of the first
        let kind = why.kinds.first().map(|k| &k.kind).or(headline.map(|k| &k.asked));
        let next = kind.and_then(|k| Some(format!("{} --each {}", screen.command("requests")?, of_kind(k))));
        let text = why.kinds.first().map(|k| k.sentence.clone());
        let text =
            text.unwrap_or_else(|| "No kind has enough requests to compare the slow ones with the others.".into());
        screen.add(Section::Slow, Level::Unknown, text, next);
    }
}

/// Why the slow ones of a kind are slow. `None` where nothing could be looked at.
fn compared(k: &why::KindView) -> Option<String> {
    (k.slow.count > 0 && k.typical.count > 0).then(|| k.sentence.clone())
}

/// What a typical request of a kind spends its time on, where one thing takes much of it.
fn usually(k: &KindView, parts: &Parts) -> String {
    let Part::Answer(why) = &parts.why else { return String::new() };
    let of_kind = why.kinds.iter().find(|w| w.kind == k.asked && w.service == k.service);
    let told =
        of_kind.filter(|w| w.typical.unlike().is_none()).and_then(|w| Some((w.typical.mean_ns, w.usual.as_ref()?)));
    match told.filter(|(mean_ns, usual)| usual.is_known() && usual.mean_ns.saturating_mul(LARGEST_OF) >= *mean_ns) {
        Some((mean_ns, usual)) => format!(
            " Of the {} of a typical one, {} are {}.",
            units::duration(mean_ns),
            units::duration(usual.mean_ns),
            usual.text
        ),
        None => String::new(),
    }
}

/// The kind that most time went to, and where.
fn most_time(k: &KindView, share: f64, r: &RequestsView) -> String {
    let known_as = r.known_as.iter().find(|n| n.service == k.service);
    let known_as = known_as.map_or(String::new(), |n| format!(" ({})", n.name));
    let mut requests = count(k.count, "request", "requests");
    let ended = k.count - k.unfinished.min(k.count);
    if ended < k.count - k.count / 10 {
        let _ = write!(requests, " (how long they took is known of {})", units::count(ended));
    }
    if ended == 0 {
        // nobody knows how long they will take
        return format!(
            "No request ended. Most that are in progress are {} at {}{known_as}: {}.",
            k.asked,
            k.service,
            count(k.count, "request", "requests")
        );
    }
    let mut text = format!(
        "{:.0} % of the requests' time is {} at {}{known_as}: {requests}, ",
        100.0 * share,
        k.asked,
        k.service,
    );
    if k.rate_per_s.is_some() {
        let _ = write!(text, "{} over {}, ", k.rate(), units::duration(k.active_ns));
    }
    let _ = match ended {
        n if n >= PERCENTILE_MIN => {
            write!(text, "p50 {}, p99 {}.", units::duration(k.p50_ns), units::duration(k.p99_ns))
        }
        _ => write!(text, "p50 {}, slowest {}.", units::duration(k.p50_ns), units::duration(k.max_ns)),
    };
    let largest = k.tiers.iter().flat_map(|t| parts_of(t).map(|part| (part, t))).max_by_key(|(part, _)| part.0);
    // what went on after its caller had left is no part of the whole
    let largest = largest.filter(|((ns, _), _)| *ns <= k.mean_ns);
    let mean = units::duration(k.mean_ns);
    if largest.as_ref().is_some_and(|((ns, _), _)| ns.saturating_mul(LARGEST_OF) < k.mean_ns) {
        let _ = write!(text, " Of {mean} on average, no part that is known takes a third.");
    } else if let Some(((ns, what), tier)) = largest.filter(|((ns, _), _)| *ns > 0) {
        let _ = write!(text, " Of {mean} on average, the largest part is {what}: {}", units::duration(ns));
        if let Some(a) = tier.asked.first() {
            let _ = write!(text, ", most of it for {}", a.asked);
            if a.calls_per_request >= 1.5 {
                let _ = write!(text, " ({:.0} calls a request)", a.calls_per_request);
            }
        }
        text.push('.');
    }
    text
}

/// A tier's time for each request before its reply, by what it is.
fn parts_of(t: &TierView) -> [(u64, String); 6] {
    let name = &t.service;
    let own = match () {
        () if t.unwatched => format!("at {name}, which is not watched"),
        () if is_unsure(t.self_ns, t.self_unsure_ns) => {
            format!("in {name}, or in calls of it that could not be assigned to a request")
        }
        () => format!("{name}'s own"),
    };
    [
        // what went on after the reply is no part of the request's time
        (t.self_ns.saturating_sub(t.after_ns), own),
        (t.unsent_ns, format!("{name} waiting for the rest of requests, which its clients had not sent yet")),
        (t.unread_ns, format!("{name} waiting until its clients had read what came before")),
        (t.queued_ns, format!("waiting to be picked up by {name}")),
        (t.between_ns, format!("network and delivery to {name} and back")),
        (t.connect_ns + t.handshake_ns, format!("opening connections to {name} (with its part of the handshake)")),
    ]
}

/// The command that records what was recorded, and these services too, where they are on this host.
pub(super) fn watch_there_too(parts: &Parts, services: &[&str]) -> Option<String> {
    let is_here = |s: &&&str| s.starts_with("127.") || s.starts_with("[::1]:");
    let ports = services.iter().filter(is_here).filter_map(|s| s.rsplit_once(':')).map(|p| p.1);
    let ports: String = ports.fold(String::new(), |all, port| format!("{all} --port {port}"));
    let selection = parts.info.answer().and_then(|i| i.hosts.first()).map_or("", |h| h.selection.as_str());
    // a command that was started ends with its recording, and its words are not kept: its ports name what it served
    let served = || {
        let kinds = parts.requests.answer().map_or(&[][..], |r| r.kinds.as_slice());
        let ports: BTreeSet<&str> = kinds.iter().filter_map(|k| Some(k.service.rsplit_once(':')?.1)).collect();
        ports.iter().map(|port| format!("--port {port}")).collect::<Vec<_>>().join(" ")
    };
    let is_command = selection == "--" || selection.starts_with("-- ") || selection.contains(" -- ");
    // a capture on this host had no such selection; one that was read may be of any host
    let is_read = selection.starts_with("sniff ") && selection.contains("--pcap");
    let selection = match () {
        () if is_read => String::new(),
        () if is_command || selection.starts_with("sniff ") => served(),
        () => selection.to_owned(),
    };
    let is_known = !ports.is_empty() && !selection.is_empty();
    is_known.then(|| format!("wakepath record {selection}{ports} -o NEW_FOLDER"))
}

/// Where calls leave what is watched, and the command that watches there too.
fn elsewhere(screen: &mut Screen<'_>, k: &KindView, parts: &Parts) {
    let before_reply = |t: &TierView| t.self_ns.saturating_sub(t.after_ns);
    let is_worth = |t: &&TierView| t.unwatched && before_reply(t) as f64 >= ELSEWHERE_SHARE * k.mean_ns as f64;
    let mut there: Vec<&TierView> = k.tiers.iter().filter(is_worth).collect();
    there.sort_by_key(|t| std::cmp::Reverse(before_reply(t)));
    if there.is_empty() {
        return;
    }
    let services: Vec<&str> = there.iter().map(|t| t.service.as_str()).collect();
    let next = watch_there_too(parts, &services);
    let where_ = match () {
        () if next.is_some() => "",
        () if services.iter().all(|s| *s == UNIX_SOCKET) => {
            " Its other end is on this host: select that program with --comm, or record with --all."
        }
        () => " Record on that host too.",
    };
    let sum: u64 = there.iter().map(|t| before_reply(t)).sum();
    let who = match &services[..] {
        [service] if *service == k.service => format!("{} is asked of {service}, which is", k.asked),
        [service] => format!("Calls of {} leave for {service}, which is", k.asked),
        _ => format!("Calls of {} leave for {}, which are", k.asked, services.join(", ")),
    };
    let text = format!(
        "{who} not watched ({} on average{}): what happens there is not known.{where_}",
        units::duration(sum),
        // calls that are made at once have more time together than their request
        if sum > k.mean_ns {
            ", some at the same time".to_owned()
        } else {
            format!(" of {}", units::duration(k.mean_ns))
        },
    );
    let next = next.or_else(|| screen.command("show").map(|c| format!("{c} slowest {}", of_kind(&k.asked))));
    screen.add(Section::Slow, Level::Unknown, text, next);
}
