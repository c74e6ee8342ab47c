//! Every folder `tests/golden/ana.metrics/*` is a test: rows (`wakepath_testkit::sniffed`), and the metrics that they give.
//! Any rows whatever give what plain counting gives. `UPDATE_GOLDEN=1` writes `expected.txt` anew.

use proptest::prelude::*;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use wakepath_analysis::metrics::{
    Counts, Metrics, MetricsOptions, NetworkCounts, Spread, Tally, Window, address, of_endpoints,
};
use wakepath_analysis::names::Names;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::Request;
use wakepath_model::folder::Folder;
use wakepath_model::ids::CommonNs;
use wakepath_model::rows::ExchangeKind;
use wakepath_testkit::golden;
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::script::play;
use wakepath_testkit::shapes::{Plan, Shape, simulate};
use wakepath_testkit::sniffed::{Script, Step, common, mono};

/// The counting of a script.
fn count(script: &Script) -> Metrics {
    let d = MetricsOptions::default();
    let set = |name: &str, default: usize| script.settings.get(name).map_or(default, |&n| n as usize);
    let at = |name: &str, default: CommonNs| script.settings.get(name).map_or(default, |&us| common(mono(us)));
    let options = MetricsOptions {
        window_ns: script.settings.get("window").map_or(d.window_ns, |us| us * 1000),
        services_max: set("services", d.services_max),
        kinds_max: set("kinds", d.kinds_max),
        kinds_all_max: set("kinds_all", d.kinds_all_max),
        flows_max: set("flows", d.flows_max),
        open_max: set("open", d.open_max),
        callers_max: set("callers", d.callers_max),
        window_rows_max: set("window_rows", d.window_rows_max),
        open_stale_ns: script.settings.get("stale").map_or(d.open_stale_ns, |us| us * 1000),
        from: at("from", d.from),
        to: at("to", d.to),
    };
    let mut metrics = Metrics::new(options);
    for step in &script.steps {
        match step {
            Step::Flow(source, r) => metrics.flow(*source, common(r.at), r, &script.texts),
            Step::Exchange(source, r) => metrics.exchange(*source, common(r.at), r, &script.texts),
            Step::Lost(count) => metrics.lost(*count),
            Step::Tick(at) => metrics.tick(common(*at)),
        }
    }
    metrics
}

fn counts(c: &Counts, open: u64) -> String {
    let mut out = format!("{} requests", c.requests());
    let parts = [
        (c.succeeded, "succeeded"),
        (c.rejected, "rejected"),
        (c.failed, "failed"),
        (c.outcome_unknown, "outcome_unknown"),
        (c.reply_unfinished, "reply_unfinished"),
        (c.unanswered, "unanswered"),
        (c.no_reply, "no_reply"),
        (c.reply_missed, "reply_missed"),
        (c.reply_only, "reply_only"),
        (c.unsolicited, "unsolicited"),
        (open, "open"),
        (c.request_bytes, "request_bytes"),
        (c.reply_bytes, "reply_bytes"),
        (c.missing_bytes, "missing_bytes"),
        (c.other_statuses, "other_statuses"),
    ];
    for (n, name) in parts.iter().filter(|(n, _)| *n > 0) {
        let _ = write!(out, ", {n} {name}");
    }
    if let Some(rate) = c.success_rate() {
        let _ = write!(out, ", success {rate:.3}");
    }
    let codes: Vec<String> = c.statuses.iter().map(|(s, n)| format!("{s}×{n}")).collect();
    if c.statuses.iter().any(|s| s.0 != 0) {
        let _ = write!(out, ", statuses {}", codes.join(" "));
    }
    out
}

fn spread(name: &str, s: Spread) -> String {
    let us = |ns: u64| ns / 1000;
    if s.count == 0 {
        return String::new();
    }
    format!(", {name} {}: {} {} {} {} {}", s.count, us(s.min), us(s.mean), us(s.p50), us(s.p99), us(s.max))
}

fn network(n: &NetworkCounts, rtt: [Spread; 2]) -> String {
    let mut out = format!("{} flows", n.flows);
    if n.refused > 0 {
        let _ = write!(out, ", {} refused", n.refused);
    }
    let pairs = [
        ("resets", n.resets),
        ("packets", n.packets),
        ("wire", n.wire_bytes),
        ("stream", n.stream_bytes),
        ("missing", n.missing_bytes),
        ("resent", n.retransmitted),
        ("reordered", n.reordered),
        ("zero", n.zero_windows),
    ];
    for (name, [a, b]) in pairs.iter().filter(|(_, p)| p[0] + p[1] > 0) {
        let _ = write!(out, ", {name} {a}/{b}");
    }
    out + &spread("server", rtt[0]) + &spread("client", rtt[1])
}

/// All that there is to tell. Times in µs: count, min, mean, p50, p99, max.
fn show(metrics: &mut Metrics) -> String {
    let mut out = String::new();
    for (i, s) in metrics.services().iter().enumerate() {
        let i = i as u32;
        let t = metrics.service_tally(i);
        let _ = write!(out, "{} {}: {}", s.place.label(), s.protocol, counts(&t.counts, metrics.open_of(i)));
        out += &spread("head", (&t.times.head).into());
        out += &spread("first", (&t.times.first).into());
        let _ = writeln!(out, "{}", spread("last", (&t.times.last).into()));
        let n = metrics.network(i);
        let rtt = [(&n.rtt_server).into(), (&n.rtt_client).into()];
        let _ = writeln!(
            out,
            "  network {}, {} open{}",
            network(&n.counts, rtt),
            s.flows_open,
            if s.opaque.is_empty() { String::new() } else { format!(", opaque: {}", s.opaque) }
        );
        for &k in &s.kinds {
            let t = metrics.kind_tally(k);
            let kind = metrics.kind(k);
            let head = spread("head", (&t.times.head).into());
            let _ = writeln!(out, "  {} {}: {}{head}", kind.protocol, kind.asked, counts(&t.counts, kind.open));
        }
    }
    for c in metrics.callers() {
        let service = metrics.service(c.service).place.label();
        let [a, b] = c.stream_bytes;
        let _ = writeln!(
            out,
            "{} -> {service}: {} requests, {} rejected, {} failed, {} flows, {a}/{b} bytes",
            address(c.family, c.address),
            c.requests,
            c.rejected,
            c.failed,
            c.flows
        );
    }
    metrics.finish();
    for w in metrics.take_windows() {
        out += &window(metrics, &w);
    }
    let limits = format!("{:?}", metrics.limits());
    let told: Vec<&str> = limits
        .trim_start_matches("Limits { ")
        .trim_end_matches(" }")
        .split(", ")
        .filter(|l| !l.ends_with(": 0"))
        .collect();
    let _ = writeln!(
        out,
        "span {} us, lost {}, limits [{}]",
        metrics.span_ns() / 1000,
        metrics.lost_packets(),
        told.join(", ")
    );
    out
}

fn window(metrics: &Metrics, w: &Window) -> String {
    let us = |at: CommonNs| (at.0 - common(mono(0)).0) / 1000;
    let mut out = format!("window {}..{} covered {}\n", us(w.from), us(w.to), w.covered_ns / 1000);
    for r in &w.rows {
        let name = r.kind.map_or(metrics.service(r.service).place.label(), |k| format!("  {}", metrics.kind(k).asked));
        let net = r.network.as_ref().map_or(String::new(), |(n, rtt)| format!("; {}", network(n, *rtt)));
        let _ = writeln!(out, "  {name}: {}{}{net}", counts(&r.counts, r.open), spread("head", r.times[0]));
    }
    out
}

#[test]
fn every_golden_case_gives_the_metrics_that_are_expected() {
    golden::each("ana.metrics", |case| {
        let script = Script::read(&golden::text(case, "input.txt"));
        golden::holds(case, &show(&mut count(&script)));
    });
}

/// One exchange of the property test.
#[derive(Clone, Debug)]
struct Asked {
    at_us: u64,
    flow: u64,
    target: u8,
    what: ExchangeKind,
    status: u16,
    times: [u64; 5],
    /// Rows that say that it is still open, before it is over.
    opens: u8,
}

fn asked() -> impl Strategy<Value = Asked> {
    let status = prop_oneof![Just(200), Just(204), Just(404), Just(500), Just(503)];
    (
        (0..50_000_000u64),
        1..9u64,
        0..7u8,
        proptest::sample::select(ExchangeKind::ALL),
        status,
        proptest::array::uniform5(0..2_000_000u64),
        0..3u8,
    )
        .prop_map(|(at_us, flow, target, what, status, times, opens)| Asked {
            at_us,
            flow,
            target,
            what,
            status,
            times,
            opens,
        })
}

/// A script of exchanges; flow n goes to service n % 3.
fn script(all: &[Asked]) -> String {
    let mut out = String::from("window 1000000\n");
    for flow in 1..9 {
        let _ = writeln!(out, "flow {flow} begin 0 10.0.0.{flow}:4000 10.1.0.{}:80", flow % 3);
    }
    for (i, a) in all.iter().enumerate() {
        let mut at = a.at_us;
        let mut times = [0; 5];
        for (time, step) in times.iter_mut().zip(a.times) {
            at += step;
            *time = at;
        }
        let [first, head, rfirst, rhead, last] = times;
        let said = |what: &str| {
            format!(
                "exchange {} {what} {last} proto.http1 GET /{} start={} status={} first={first} head={head} rfirst={rfirst} rhead={rhead} last={last} bytes=10/20\n",
                a.flow,
                a.target,
                i * 100,
                a.status
            )
        };
        if !matches!(a.what, ExchangeKind::Unsolicited | ExchangeKind::ReplyOnly) {
            (0..a.opens).for_each(|_| out += &said("open"));
        }
        out += &said(a.what.name());
    }
    out
}

/// The exact quantile of sorted values, as the histogram defines it.
fn exact(sorted: &[u64], q: f64) -> u64 {
    let rank = ((q * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len());
    sorted[rank - 1]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_rows_give_what_plain_counting_gives(all in proptest::collection::vec(asked(), 1..200)) {
        let script = Script::read(&script(&all));
        let mut metrics = count(&script);
        // by service and kind: how it went, and service times
        type Naive = (BTreeMap<ExchangeKind, u64>, Vec<u64>);
        let mut naive: BTreeMap<(String, String), Naive> = BTreeMap::new();
        let mut open: BTreeSet<(String, u64)> = BTreeSet::new();
        for step in &script.steps {
            let Step::Exchange(_, r) = step else { continue };
            let service = format!("10.1.0.{}:80", r.flow.0 % 3);
            let target = String::from_utf8_lossy(script.texts.get(r.target).unwrap_or_default()).into_owned();
            if r.what == ExchangeKind::Open {
                open.insert((service, r.request_start));
                continue;
            }
            open.remove(&(service.clone(), r.request_start));
            let of = naive.entry((service, format!("GET {target}"))).or_default();
            *of.0.entry(r.what).or_default() += 1;
            if r.what == ExchangeKind::Answered {
                of.1.push(r.reply_head.0 - r.request_head.0);
            }
        }
        let opens: u64 = (0..metrics.services().len()).map(|s| metrics.open_of(s as u32)).sum();
        prop_assert_eq!(opens, open.len() as u64);
        for (number, service) in metrics.services().iter().enumerate() {
            let total = metrics.service_tally(number as u32);
            let mut sum = 0;
            for &k in &service.kinds {
                let t = metrics.kind_tally(k);
                let none = Default::default();
                let (whats, times) = naive.get(&(service.place.label(), metrics.kind(k).asked.clone())).unwrap_or(&none);
                let n = |what: ExchangeKind| whats.get(&what).copied().unwrap_or(0);
                prop_assert_eq!(t.counts.answered_count(), n(ExchangeKind::Answered));
                prop_assert_eq!(t.counts.unanswered, n(ExchangeKind::Unanswered));
                prop_assert_eq!(t.counts.no_reply, n(ExchangeKind::NoReply));
                prop_assert_eq!(t.counts.reply_missed, n(ExchangeKind::ReplyMissed));
                sum += t.counts.requests();
                let mut sorted = times.clone();
                sorted.sort_unstable();
                let s = Spread::from(&t.times.head);
                if sorted.is_empty() {
                    prop_assert_eq!(s.count, 0);
                    continue;
                }
                prop_assert_eq!((s.min, s.max), (sorted[0], sorted[sorted.len() - 1]));
                prop_assert_eq!(s.mean, (sorted.iter().map(|&v| u128::from(v)).sum::<u128>() / sorted.len() as u128) as u64);
                for (told, q) in [(s.p50, 0.5), (s.p95, 0.95), (s.p99, 0.99)] {
                    let right = exact(&sorted, q);
                    prop_assert!(told.abs_diff(right) as f64 <= right as f64 * 0.016, "{} for {}", told, right);
                }
            }
            prop_assert_eq!(total.counts.requests(), sum);
            let alone: u64 = all.iter().filter(|a| matches!(a.what, ExchangeKind::Unsolicited | ExchangeKind::ReplyOnly) && format!("10.1.0.{}:80", a.flow % 3) == service.place.label()).count() as u64;
            prop_assert_eq!(total.counts.unsolicited + total.counts.reply_only, alone);
        }
        // windows add up to the whole
        metrics.finish();
        let windows = metrics.take_windows();
        prop_assert!(windows.windows(2).all(|w| w[0].to <= w[1].from));
        for s in 0..metrics.services().len() as u32 {
            let rows = || windows.iter().flat_map(|w| &w.rows).filter(|r| r.service == s);
            let (mut whole, mut parts) = (0, 0);
            rows().for_each(|r| *(if r.kind.is_none() { &mut whole } else { &mut parts }) += r.counts.requests());
            let requests = metrics.service_tally(s).counts.requests();
            prop_assert_eq!((whole, parts), (requests, requests));
            let times: u64 = rows().filter(|r| r.kind.is_none()).map(|r| r.times[0].count).sum();
            prop_assert_eq!(times, metrics.service_tally(s).times.head.count());
        }
        let called: u64 = metrics.callers().iter().map(|c| c.requests).sum();
        let requests: u64 = (0..metrics.services().len() as u32).map(|s| metrics.service_tally(s).counts.requests()).sum();
        prop_assert_eq!(called, requests);
    }
}

#[test]
fn memory_is_bounded_by_the_options() {
    let mut text =
        String::from("services 4\nkinds 5\nkinds_all 12\nflows 64\nopen 10\ncallers 8\nwindow 1000\nwindow_rows 20\n");
    for i in 0..5000u64 {
        let (client, server) = (format!("10.{}.{}.1:1", i / 250, i % 250), format!("10.9.{}.{}:80", i / 250, i % 250));
        let _ = writeln!(text, "flow {i} begin {} {client} {server}", i * 100);
        let _ = writeln!(text, "exchange {i} open {} proto.http1 GET /o{i} start=7", i * 100);
        let _ = writeln!(text, "exchange {i} answered {} proto.http1 GET /{i} status=200", i * 100 + 50);
    }
    let mut metrics = count(&Script::read(&text));
    let kinds: usize = metrics.services().iter().map(|s| s.kinds.len()).sum();
    assert!(metrics.services().len() <= 5 && kinds <= 12 + 5, "{} services, {kinds} kinds", metrics.services().len());
    assert!(metrics.callers().len() <= 8 + 5);
    metrics.finish();
    let rows: usize = metrics.take_windows().iter().map(|w| w.rows.len()).sum();
    assert!(rows <= 20 + 17, "{rows}");
    let requests: u64 = (0..metrics.services().len() as u32).map(|s| metrics.service_tally(s).counts.requests()).sum();
    assert_eq!(requests, 5000, "what is not told apart is counted all the same");
    let l = metrics.limits();
    assert!(l.flows_in_other_services > 4900 && l.requests_in_other_kinds > 4900, "{l:?}");
    assert!(l.flows_forgotten > 4000 && l.open_untold > 4900 && l.windows_dropped > 0, "{l:?}");
}

#[test]
fn endpoints_tell_the_same_exchanges_as_requests_do() {
    for shape in Shape::ALL {
        let dir = tempfile::tempdir().expect("a folder");
        let dirs = simulate(&Plan::new(shape, 7)).write(&dir.path().join("t"), Cuts::default()).expect("written");
        let folder = Folder::open(&dirs).expect("opened");
        let (mut served, mut called, mut times) = (0, 0, Vec::new());
        let spans = |r: Request| {
            for s in &r.spans {
                if let Some(half) = &s.callee {
                    let e = &half.exchange;
                    served += u64::from(e.is(ExchangeFlag::Replied));
                    let began =
                        if e.request.arrived.0 == 0 { e.request.began } else { e.request.arrived.min(e.request.began) };
                    times.push(e.reply.ended.0.saturating_sub(began.0));
                }
                called += u64::from(s.caller.as_ref().is_some_and(|c| c.exchange.is(ExchangeFlag::Replied)));
            }
        };
        wakepath_causality::reconstruct(&folder, spans, |_, _, _, _| {});
        let seen = of_endpoints(&folder, &Names::read(&folder), MetricsOptions::default());
        let answered = |m: &Metrics| -> u64 {
            (0..m.services().len() as u32).map(|s| m.service_tally(s).counts.answered_count()).sum()
        };
        assert!(served > 0, "{shape:?}");
        assert_eq!((answered(&seen.server), answered(&seen.client) >= called), (served, true), "{shape:?}");
        let sum: u128 =
            (0..seen.server.services().len() as u32).map(|s| seen.server.service_tally(s).times.last.sum()).sum();
        assert_eq!(sum, times.iter().map(|&t| u128::from(t)).sum(), "{shape:?}");
    }
}

#[test]
fn endpoints_tell_the_times_of_all_requests_of_a_connection() {
    // one task, one connection that is kept, each reply after the next request; then two requests at once
    let mut text = String::from("task A app\ntask D db\nflow c - A\nflow d A D\n");
    for i in 1..=50u64 {
        let at = i * 100;
        let _ = writeln!(text, "{at} A takes r{i} c\n{} A asks q{i} d for r{i}\n{} D takes q{i}", at + 10, at + 20);
        let _ = writeln!(text, "{} D answers q{i}\n{} A hears q{i}\n{} A answers r{i}", at + 30, at + 40, at + 50);
    }
    text += "9000 A takes s1,s2 c\n9010 A answers s1\n9020 A answers s2\n";
    let dir = tempfile::tempdir().expect("a folder");
    let dirs = play(&text).expect("a script").write(&dir.path().join("t"), Cuts::default()).expect("written");
    let folder = Folder::open(&dirs).expect("opened");
    let seen = of_endpoints(&folder, &Names::read(&folder), MetricsOptions::default());
    for (metrics, expected) in [(&seen.server, 102), (&seen.client, 50)] {
        let tallies: Vec<_> = (0..metrics.services().len() as u32).map(|s| metrics.service_tally(s)).collect();
        assert_eq!(tallies.iter().map(|t| t.counts.answered_count()).sum::<u64>(), expected);
        for first in [false, true] {
            let of = |t: &Cow<'_, Tally>| Spread::from(if first { &t.times.first } else { &t.times.head });
            let spreads: Vec<Spread> = tallies.iter().map(of).collect();
            assert_eq!(spreads.iter().map(|s| s.count).sum::<u64>(), expected, "all of them");
            assert!(spreads.iter().all(|s| s.max <= 51_000 && s.min > 0), "{spreads:?}");
        }
    }
}
