//! What is slow: the kind that most time went to, what it repeats, where it leaves what is watched, and why its slow ones are slow.

use super::{FINDINGS_MAX, Level, MEDIAN_MIN, PERCENTILE_MIN, Part, Parts, Screen, Section, count, of_kind};
use crate::own_time::is_unsure;
use crate::requests::{AttachableView, KindView, RequestsView, ThrottledView, TierView};
use crate::units;
use crate::why;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use wakepath_analysis::names::UNIX_SOCKET;

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
        let all: u128 = r.kinds.iter().map(total).sum();
        let Some(k) = most_of(r) else {
            let next = screen.command("info");
            return screen.add(Section::Slow, Level::Unknown, "Not known: no request was seen.", next);
        };
        let share = total(k) as f64 / all.max(1) as f64;
        let next = screen.command("show").map(|c| format!("{c} slowest {}", of_kind(&k.asked)));
        screen.add(Section::Slow, Level::Fact, most_time(k, share, r) + &usually(k, parts), next.clone());
        for t in r.throttled.iter().filter(|t| t.is_worth_a_sentence() && is_on_path(t, k)) {
            let next = screen.command("waits").map(|c| format!("{c} --task {}", t.process));
            screen.add(Section::Slow, Level::Bad, &t.sentence, next);
        }
        if let Some((text, process)) = attachable(k, r) {
            screen.add(Section::Slow, Level::Unknown, text, Some(format!("wakepath attach {process}")));
        }
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

/// Whether a kind's requests go through a service that a quota held back.
fn is_on_path(t: &ThrottledView, k: &KindView) -> bool {
    k.tiers.iter().any(|tier| t.is_of(&tier.service))
}

/// The quotas that held back what the kind that most time went to does not go through.
pub(super) fn throttled_elsewhere(r: &RequestsView) -> impl Iterator<Item = &ThrottledView> {
    let most = most_of(r);
    r.throttled.iter().filter(move |t| t.is_worth_a_sentence() && !most.is_some_and(|k| is_on_path(t, k)))
}

/// The time of a kind's requests that ended (ns).
fn total(k: &KindView) -> u128 {
    u128::from(k.mean_ns) * u128::from(k.count - k.unfinished.min(k.count))
}

/// How many of a kind's requests ended before their reply was complete.
fn without_reply(k: &KindView) -> u64 {
    k.left + k.reset + k.cut + k.unreplied
}

/// The kind that most time went to.
fn most_of(r: &RequestsView) -> Option<&KindView> {
    r.kinds.iter().max_by_key(|k| (total(k), k.unfinished))
}

/// Why the slow ones of a kind are slow. `None` where nothing could be looked at.
fn compared(k: &why::KindView) -> Option<String> {
    (k.slow.count > 0 && k.typical.count > 0).then(|| k.sentence.clone())
}

/// What the middle half of a kind's requests spend their time on, where one thing takes much of it.
fn usually(k: &KindView, parts: &Parts) -> String {
    let Part::Answer(why) = &parts.why else { return String::new() };
    let of_kind = why.kinds.iter().find(|w| w.kind == k.asked && w.service == k.service);
    let told =
        of_kind.filter(|w| w.typical.unlike().is_none()).and_then(|w| Some((w.typical.mean_ns, w.usual.as_ref()?)));
    match told.filter(|(mean_ns, usual)| usual.is_known() && usual.mean_ns.saturating_mul(LARGEST_OF) >= *mean_ns) {
        Some((mean_ns, usual)) => format!(
            " Of the {} that the middle half took on average, {} are {}.",
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
        let _ = write!(requests, " (durations known for {})", units::count(ended));
    }
    let unanswered = without_reply(k);
    if unanswered > 0 && unanswered >= ended / 10 {
        let _ = write!(requests, " ({} without a complete reply)", units::count(unanswered));
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
    // nobody knows how long those in flight will take
    let whose = match () {
        () if r.kinds.iter().all(|k| k.unfinished == 0) => "the requests' time",
        () if r.kinds.iter().all(|k| without_reply(k) == 0) => "the answered requests' time",
        () => "the time of requests that ended",
    };
    let mut text =
        format!("{:.0} % of {whose} is {} at {}{known_as}: {requests}, ", 100.0 * share, k.asked, k.service,);
    if k.rate_per_s.is_some() {
        let _ = write!(text, "{} over {}, ", k.rate(), units::duration(k.active_ns));
    }
    let _ = match ended {
        n if n >= PERCENTILE_MIN => {
            write!(text, "p50 {}, p99 {}.", units::duration(k.p50_ns), units::duration(k.p99_ns))
        }
        n if n >= MEDIAN_MIN => {
            write!(text, "p50 {}, slowest {}.", units::duration(k.p50_ns), units::duration(k.max_ns))
        }
        _ => write!(text, "slowest {}.", units::duration(k.max_ns)),
    };
    let largest = largest(k);
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
        let is_queue = ns == tier.queued_ns && ns > tier.self_ns;
        text.push_str(&meanwhile(tier, r).filter(|_| is_queue).unwrap_or_default());
    }
    if k.tiers.iter().any(|t| t.service == k.service && t.arrivals_unseen > 0) {
        text.push_str(" Not all were seen to arrive: these may have taken longer.");
    }
    text
}

/// The part of a kind's time that is largest, and the tier that it is of. What went on after its caller had left is no part of it.
fn largest(k: &KindView) -> Option<((u64, String), &TierView)> {
    let largest = k.tiers.iter().flat_map(|t| parts_of(t).map(|part| (part, t))).max_by_key(|(part, _)| part.0);
    largest.filter(|((ns, _), _)| *ns <= k.mean_ns)
}

/// What is said where most time went to a service of which it is not known what it did for whom, and attaching to it tells that. With
/// the number of the process.
fn attachable(k: &KindView, r: &RequestsView) -> Option<(String, u32)> {
    let ((ns, _), tier) = largest(k)?;
    let is_unknown = is_unsure(tier.self_ns, tier.self_unsure_ns) && ns == tier.self_ns.saturating_sub(tier.after_ns);
    let program = tier.service.rsplit_once(':').map_or(tier.service.as_str(), |s| s.0);
    let is_its = |a: &&AttachableView| program == a.program || program.ends_with(&format!("/{}", a.program));
    let found = r.calls.missing.iter().flat_map(|m| &m.attachable).find(is_its).filter(|_| is_unknown)?;
    let text = format!(
        "For which of several requests {} made {} is not known, and so not where this time went. Attach to it while it runs, and record \
         again.",
        tier.service,
        count(found.calls, "call", "calls"),
    );
    Some((text, *found.processes.first()?))
}

/// What a service did while requests of a kind waited to be picked up by it, where that was mostly to wait for slow clients of others.
fn meanwhile(tier: &TierView, r: &RequestsView) -> Option<String> {
    let of_service =
        || r.kinds.iter().flat_map(|k| k.tiers.iter().map(move |t| (k, t))).filter(|(_, t)| t.service == tier.service);
    let sum = |k: &KindView, ns: u64| u128::from(ns) * u128::from(k.count - k.unfinished.min(k.count));
    let own: u128 = of_service().map(|(k, t)| sum(k, t.self_ns)).sum();
    let clients = |t: &TierView| t.unsent_ns + t.unread_ns;
    let held: u128 = of_service().map(|(k, t)| sum(k, clients(t))).sum();
    let (k, t) = of_service().max_by_key(|(k, t)| sum(k, clients(t)))?;
    let whom = if t.unsent_ns >= t.unread_ns {
        "for the rest of the request, which the client had not sent yet"
    } else {
        "until the client had read what came before"
    };
    (held > own && clients(t) > 0).then(|| {
        format!(
            " Meanwhile {} waited for slow clients: {} in each of {} {}, {whom}.",
            tier.service,
            units::duration(clients(t)),
            units::count(k.count),
            k.asked,
        )
    })
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
    // nobody saw how much of it a request had waited there already
    let between = match t.arrivals_unseen {
        0 => format!("network and delivery to {name} and back"),
        _ => format!(
            "between {name} and who called it (network, or waiting there to be picked up: not all arrivals were seen)"
        ),
    };
    let opening = match (t.spans_per_request > 0.0, t.handshake_ns) {
        (false, _) => format!("connecting in vain to {name}"),
        (true, 0) => format!("opening connections to {name}"),
        (true, _) => format!("opening connections to {name} (with its part of the handshake)"),
    };
    [
        // what went on after the reply is no part of the request's time
        (t.self_ns.saturating_sub(t.after_ns), own),
        (t.unsent_ns, format!("{name} waiting for the rest of requests, which its clients had not sent yet")),
        (t.unread_ns, format!("{name} waiting until its clients had read what came before")),
        (t.queued_ns, format!("waiting to be picked up by {name}")),
        (t.between_ns, between),
        (t.connect_ns + t.handshake_ns, opening),
    ]
}

/// How long the recording of a proposed command takes.
const RECORD_FOR: &str = "30s";

/// The command that records what was recorded, and these services too, where they are on this host; the others on this host that were
/// called and are not watched with them, or a recording after the other would name them.
pub(super) fn watch_there_too(parts: &Parts, services: &[&str]) -> Option<String> {
    let here = |s: &str| {
        let is_here = s.starts_with("127.") || s.starts_with("[::1]:");
        s.rsplit_once(':').filter(|_| is_here).map(|p| p.1.to_owned())
    };
    let mut ports: Vec<String> = services.iter().filter_map(|s| here(s)).collect();
    if ports.is_empty() {
        return None;
    }
    let called = parts.requests.answer().map_or(&[][..], |r| r.unwatched.as_slice());
    // a name server is a host's own, and no part of what was asked
    ports.extend(called.iter().filter_map(|u| here(&u.service)).filter(|port| port != "53"));
    let selection = parts.info.answer().and_then(|i| i.hosts.first()).map_or("", |h| h.selection.as_str());
    let is_command = selection == "--" || selection.starts_with("-- ") || selection.contains(" -- ");
    let is_sniffed = selection.starts_with("sniff ");
    // a capture that was read may be of any host
    if is_sniffed && selection.contains("--pcap") {
        return None;
    }
    let mut watched: Vec<String> = Vec::new();
    let mut others: Vec<&str> = Vec::new();
    if is_command || is_sniffed {
        // a capture had no such selection; and a command that was started ends with its recording, and its words are not kept: its ports name what it served
        let kinds = parts.requests.answer().map_or(&[][..], |r| r.kinds.as_slice());
        let served: BTreeSet<&str> = kinds.iter().filter_map(|k| Some(k.service.rsplit_once(':')?.1)).collect();
        watched.extend(served.into_iter().map(str::to_owned));
    } else {
        let mut words = selection.split(' ').filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            match word {
                "--port" => watched.extend(words.next().map(str::to_owned)),
                _ => others.push(word),
            }
        }
    }
    if watched.is_empty() && others.is_empty() {
        return None;
    }
    for port in ports {
        if !watched.contains(&port) {
            watched.push(port);
        }
    }
    let others: String = others.iter().map(|word| format!("{word} ")).collect();
    Some(format!("wakepath record {others}--port {} --duration {RECORD_FOR} -o NEW_FOLDER", watched.join(",")))
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
