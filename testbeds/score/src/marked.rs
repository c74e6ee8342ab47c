//! Paths of a stack whose messages carry request ids, against the ids and what the load generator wrote down.

use crate::marks::{Marks, Rid};
use anyhow::{Context, Result, ensure};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use wakepath_causality::Report;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::{Half, Request, Span};
use wakepath_model::folder::Folder;

/// How far an inner call may reach over its request's ends.
const SLACK_NS: u64 = 100_000;

#[derive(Deserialize)]
struct Line {
    rid: String,
    path: String,
    status: u16,
    start_ns: u64,
    end_ns: u64,
    server: SocketAddr,
    client: Option<SocketAddr>,
    #[serde(default)]
    retried: Vec<Value>,
}

/// What each request must have.
#[derive(Clone, Copy, Debug)]
pub enum Expect {
    /// What the demo's application does on each route.
    Demo,
    /// So many messages below the root; without a number, as many as were seen to be sent.
    Messages(Option<u32>),
}

struct Sent {
    rid: String,
    path: String,
    status: u16,
    start_ns: u64,
    end_ns: u64,
    client_port: u16,
    retries: u32,
    /// How long the root lasted, as reconstructed.
    root_ns: u64,
    roots: u32,
    correct: bool,
    /// Correct, but that it may have lasted too long.
    but_for_duration: bool,
    said: bool,
    wrong: bool,
}

/// Counts over a trace.
pub struct Marked<'f> {
    folder: &'f Folder,
    marks: Marks,
    sent: Vec<Sent>,
    front: SocketAddr,
    expect: Expect,
    reported: u64,
    admitted: u64,
    right: u64,
    wrong_parent: u64,
    orphans: u64,
    orphans_said: u64,
    beyond: u64,
    strangers: u64,
    wrong_duration: u64,
    /// The truth's times are another clock's.
    is_other_clock: bool,
    rules: BTreeMap<&'static str, (u64, u64)>,
    holes: BTreeMap<&'static str, u64>,
    show: usize,
    shown: String,
}

/// SQL statements with the id, and whether Redis is asked with it, as the demo's application does it.
fn demo_messages(path: &str) -> Option<u32> {
    let number = |prefix: &str| path.strip_prefix(prefix).and_then(|n| n.parse::<u32>().ok());
    // one HTTP message from nginx to the application; one GET rid:ID
    let with_cache = 2;
    if let Some(n) = number("/vote/") {
        return Some(with_cache + 4 + u32::from(n % 3 != 0) + u32::from(n % 3 == 2));
    }
    if let Some(n) = number("/item/") {
        return Some(with_cache + 1 + 2 + n % 5);
    }
    match path {
        "/login" | "/slow" => Some(with_cache + 1),
        "/error" => Some(with_cache),
        "/health" | "/static-ish" => Some(1),
        // from the cache, or two statements: what was sent decides
        _ => None,
    }
}

/// Whether an endpoint's own address may be this one: behind a translated address only the port says so, but of loopback's
/// addresses each is another place.
pub fn is_at(address: [u8; 16], port: u16, place: &SocketAddr) -> bool {
    let elsewhere = |ip: Ipv4Addr| ip.is_loopback() && address[0] == 127 && address[..4] != ip.octets();
    port == place.port() && !matches!(place.ip(), IpAddr::V4(ip) if elsewhere(ip))
}

fn began(h: &Half) -> u64 {
    h.exchange.request.began.0
}

impl<'f> Marked<'f> {
    /// Holds no time of the truth against the recording's.
    pub fn by_other_clock(self) -> Marked<'f> {
        Marked { is_other_clock: true, ..self }
    }

    /// For a folder and the load generator's file.
    pub fn new(folder: &'f Folder, truth: &Path, expect: Expect, show: usize) -> Result<Marked<'f>> {
        let file = File::open(truth).with_context(|| format!("{}: cannot be opened", truth.display()))?;
        let mut sent = Vec::new();
        let mut rids: FxHashMap<Vec<u8>, Rid> = FxHashMap::default();
        let mut front = SocketAddr::from(([0; 4], 0));
        for (i, line) in BufReader::new(file).lines().enumerate() {
            let l: Line = serde_json::from_str(&line?).with_context(|| format!("{}:{}", truth.display(), i + 1))?;
            front = l.server;
            let again = rids.insert(l.rid.clone().into_bytes(), sent.len() as Rid);
            ensure!(again.is_none(), "{}:{}: id {} is there twice", truth.display(), i + 1, l.rid);
            sent.push(Sent {
                rid: l.rid,
                path: l.path,
                status: l.status,
                start_ns: l.start_ns,
                end_ns: l.end_ns,
                client_port: l.client.map_or(0, |c| c.port()),
                retries: l.retried.len() as u32,
                root_ns: 0,
                roots: 0,
                correct: false,
                but_for_duration: false,
                said: false,
                wrong: false,
            });
        }
        ensure!(!sent.is_empty(), "{}: no requests", truth.display());
        let marks = Marks::read(folder, &rids, &front);
        ensure!(marks.heads() > 0, "the trace has no raw heads: record it with --payload heads");
        Ok(Marked {
            folder,
            marks,
            sent,
            front,
            expect,
            reported: 0,
            admitted: 0,
            right: 0,
            wrong_parent: 0,
            orphans: 0,
            orphans_said: 0,
            beyond: 0,
            strangers: 0,
            wrong_duration: 0,
            is_other_clock: false,
            rules: BTreeMap::new(),
            holes: BTreeMap::new(),
            show,
            shown: String::new(),
        })
    }

    /// The id that a span carries, and whether it carries it itself.
    fn rid(&self, s: &Span) -> Option<(Rid, bool)> {
        let halves = || [s.callee.as_ref(), s.caller.as_ref()].into_iter().flatten();
        halves()
            .find_map(|h| self.marks.of(h))
            .map(|r| (r, true))
            .or_else(|| halves().find_map(|h| self.marks.near(h)).map(|r| (r, false)))
    }

    /// Takes a path.
    pub fn take(&mut self, request: &Request) {
        let Some(root) = request.spans[0].callee.as_ref() else { return };
        let at_front = is_at(root.place.laddr, root.place.lport, &self.front);
        let Some((rid, own)) = self.rid(&request.spans[0]) else {
            self.strangers += u64::from(at_front);
            return;
        };
        if !at_front || !own {
            return self.take_inner_root(request, rid, own);
        }
        let (found, mut faults) = self.check_spans(request, root, rid);
        let sent = &mut self.sent[rid as usize];
        sent.roots += 1;
        sent.root_ns = sent.root_ns.max(root.exchange.reply.ended.0.saturating_sub(began(root)));
        let others = faults.len();
        let is_outside = began(root) + SLACK_NS < sent.start_ns || root.exchange.reply.ended.0 > sent.end_ns + SLACK_NS;
        let lasts_long = is_outside && !self.is_other_clock;
        let was_cut = root.exchange.flags.has(ExchangeFlag::Cut)
            || root.exchange.flags.has(ExchangeFlag::Reset)
            || root.exchange.flags.has(ExchangeFlag::Unfinished);
        if sent.retries > 0 && was_cut && others == 0 && request.is_complete() {
            // sent again on another connection: this one came to nothing
            sent.roots -= 1;
            return;
        }
        if lasts_long {
            self.wrong_duration += 1;
            faults.push("it lies outside what the load generator saw".to_owned());
        }
        sent.wrong |= !faults.is_empty();
        if !request.is_complete() {
            sent.said = true;
            self.admitted += 1;
            for (_, hole) in request.gaps() {
                *self.holes.entry(hole.name()).or_default() += 1;
            }
            if !faults.is_empty() {
                self.show_path(request, rid, &faults.join("; "));
            }
            return;
        }
        self.reported += 1;
        let wanted = match self.expect {
            Expect::Demo if sent.status == 200 || sent.path == "/error" => demo_messages(&sent.path),
            Expect::Demo => None,
            Expect::Messages(n) => n,
        };
        let seen = self.marks.below(rid);
        if let Some(w) = wanted.filter(|&w| w != seen) {
            faults.push(format!("{w} messages with its id should have been sent, {seen} were seen"));
        }
        if found != seen {
            faults.push(format!("{found} messages with its id, {seen} were sent"));
        }
        sent.but_for_duration = others == 0 && faults.len() == usize::from(lasts_long);
        if faults.is_empty() {
            sent.correct = true;
        } else {
            sent.wrong = true;
            self.show_path(request, rid, &faults.join("; "));
        }
    }

    /// Takes a call inside the stack that was given as a request of its own; `own`: it carries the id itself.
    fn take_inner_root(&mut self, request: &Request, rid: Rid, own: bool) {
        match (request.orphan, own) {
            (Some(_), true) => self.orphans_said += 1,
            (None, true) => {
                self.orphans += 1;
                self.show_path(request, rid, "a root that the stack itself called");
            }
            _ => {}
        }
        self.sent[rid as usize].said |= request.orphan.is_some();
    }

    /// Whether each span below the root is of this request and within its time: how many carry its id, and what is wrong.
    fn check_spans(&mut self, request: &Request, root: &Half, rid: Rid) -> (u32, Vec<String>) {
        let mut faults = Vec::new();
        let mut found = 0;
        for (i, s) in request.spans.iter().enumerate().skip(1) {
            let is_next = |h: &Half| self.marks.next(h) == Some(rid);
            let is_near = [s.callee.as_ref(), s.caller.as_ref()].into_iter().flatten().any(is_next);
            let whose = self.rid(s).map(|(r, own)| if !own && is_near { (rid, own) } else { (r, own) });
            let whose = whose.or_else(|| self.passed_on(request, i).map(|r| (r, false)));
            let name = s.made_by.map_or("none", |m| m.name());
            let by = self.rules.entry(name).or_default();
            match whose {
                Some((r, own)) if r == rid => {
                    by.0 += 1;
                    self.right += 1;
                    found += u32::from(own);
                }
                Some((r, _)) => {
                    by.1 += 1;
                    self.wrong_parent += 1;
                    faults.push(format!("span {i} is of {}", self.sent[r as usize].rid));
                }
                None => faults.push(format!("span {i} is of no request")),
            }
            let inner = s.caller.as_ref().or(s.callee.as_ref()).map_or(0, began);
            let is_late = inner > root.exchange.reply.ended.0 + SLACK_NS && !works_on(request, i);
            if inner + SLACK_NS < began(root) || is_late {
                self.beyond += 1;
                faults.push(format!("span {i} lies outside the request"));
            }
        }
        (found, faults)
    }

    /// Whose a span is that carries no id which can be read, as one inside TLS: of the request whose ids all carry that it called.
    fn passed_on(&self, request: &Request, i: usize) -> Option<Rid> {
        let below =
            request.spans.iter().enumerate().skip(i + 1).filter(|(_, s)| s.parent.is_some_and(|p| p as usize == i));
        let mut ids = below.map(|(at, s)| self.rid(s).map(|(rid, _)| rid).or_else(|| self.passed_on(request, at)));
        let first = ids.next()??;
        ids.all(|id| id == Some(first)).then_some(first)
    }

    fn show_path(&mut self, request: &Request, rid: Rid, why: &str) {
        if self.show == 0 {
            return;
        }
        self.show -= 1;
        let sent = &self.sent[rid as usize];
        let out = &mut self.shown;
        let _ = writeln!(
            out,
            "== path {:016x}, {} {} from port {}, {} us from {} ns: {why}{}",
            request.id,
            sent.rid,
            sent.path,
            sent.client_port,
            (sent.end_ns - sent.start_ns) / 1000,
            sent.start_ns,
            if request.is_complete() { "" } else { " (says it is incomplete)" },
        );
        for (i, s) in request.spans.iter().enumerate() {
            let Some(h) = s.callee.as_ref().or(s.caller.as_ref()) else { continue };
            let Some(host) = self.folder.host(h.host) else { continue };
            let e = &h.exchange;
            let whose = match self.marks.of(h).map(|r| (r, "")).or_else(|| self.marks.near(h).map(|r| (r, "~"))) {
                Some((r, how)) => format!("{how}{}", self.sent[r as usize].rid),
                None => "?".to_owned(),
            };
            let _ = writeln!(
                out,
                "   {i} <- {} by {} [{whose}] {}>{} {} {} at {:.0} us, {} us, flow {:x}{}",
                s.parent.map_or_else(|| "-".to_owned(), |p| p.to_string()),
                s.made_by.map_or("-", |m| m.name()),
                h.place.lport,
                h.place.rport,
                host.text(e.content.verb),
                host.text(e.content.target),
                (e.request.began.0 as f64 - sent.start_ns as f64) / 1000.0,
                e.reply.ended.0.saturating_sub(e.request.began.0) / 1000,
                e.flow.0,
                if s.doubts > 0 { format!(", {} doubts", s.doubts) } else { String::new() },
            );
        }
    }

    /// The requests that took longest, by the load generator's clock: id, its time, the root's time.
    fn longest(&self) -> Vec<(String, u64, u64)> {
        let mut all: Vec<&Sent> = self.sent.iter().collect();
        all.sort_by_key(|s| std::cmp::Reverse(s.end_ns - s.start_ns));
        all.iter().take(3).map(|s| (s.rid.clone(), s.end_ns - s.start_ns, s.root_ns)).collect()
    }

    /// Adds up.
    pub fn finish(self, report: &Report) -> Outcome {
        let longest = self.longest();
        let existing = || self.sent.iter().filter(|s| s.status != 0);
        Outcome {
            existing: existing().count() as u64,
            found: existing().filter(|s| s.roots == 1).count() as u64,
            lost: existing().filter(|s| s.roots == 0).count() as u64,
            twice: existing().filter(|s| s.roots > 1).count() as u64,
            correct: existing().filter(|s| s.correct && s.roots == 1).count() as u64,
            but_for_duration: existing().filter(|s| s.but_for_duration && s.roots == 1).count() as u64,
            wrong: existing().filter(|s| s.wrong).count() as u64,
            reported: self.reported,
            admitted: self.admitted,
            right: self.right,
            wrong_parent: self.wrong_parent,
            orphans: self.orphans,
            orphans_said: self.orphans_said,
            beyond: self.beyond,
            strangers: self.strangers,
            wrong_duration: self.wrong_duration,
            rules: self.rules,
            holes: self.holes,
            heads: self.marks.heads(),
            operations: report.operations,
            longest,
            shown: self.shown,
        }
    }
}

/// The figures.
pub struct Outcome {
    /// Requests that were sent and answered.
    pub existing: u64,
    /// Of these, found exactly once as a root.
    pub found: u64,
    /// Not found.
    pub lost: u64,
    /// Found more than once.
    pub twice: u64,
    /// With exactly their own messages.
    pub correct: u64,
    /// The same, and those that have them but last too long.
    pub but_for_duration: u64,
    /// With another's messages, or not all of theirs and not a word.
    pub wrong: u64,
    /// Paths that say they are complete.
    pub reported: u64,
    /// Paths that say they are incomplete.
    pub admitted: u64,
    /// Links below roots that are true.
    pub right: u64,
    /// Links below another request's root.
    pub wrong_parent: u64,
    /// Calls of the stack given as roots without a word.
    pub orphans: u64,
    /// The same, but said.
    pub orphans_said: u64,
    /// Calls outside their request's time.
    pub beyond: u64,
    /// Roots at the front without an id.
    pub strangers: u64,
    /// Roots that begin before or end after what the load generator saw.
    pub wrong_duration: u64,
    /// By rule: right and wrong.
    pub rules: BTreeMap<&'static str, (u64, u64)>,
    /// Reasons of incomplete paths.
    pub holes: BTreeMap<&'static str, u64>,
    /// Raw heads read.
    pub heads: u64,
    /// Operations read.
    pub operations: u64,
    /// The longest requests: id, how long the load generator waited, how long the root lasted.
    pub longest: Vec<(String, u64, u64)>,
    /// Wrong paths in detail.
    pub shown: String,
}

/// Whether a span is of a request, or of a call of its, that its client did not wait for, as the path says: then it may be late.
fn works_on(request: &Request, i: usize) -> bool {
    let span = &request.spans[i];
    span.callee.as_ref().is_some_and(|h| h.exchange.client.left.0 != 0)
        || span.parent.is_some_and(|p| works_on(request, p as usize))
}

impl Outcome {
    /// correct / existing.
    pub fn completeness(&self) -> f64 {
        self.correct as f64 / self.existing.max(1) as f64
    }

    /// correct / reported.
    pub fn accuracy(&self) -> f64 {
        if self.reported == 0 { 1.0 } else { self.correct as f64 / self.reported as f64 }
    }

    /// Whether all that was claimed is true.
    pub fn is_true(&self) -> bool {
        self.correct == self.reported && self.wrong == 0 && self.wrong_parent == 0
    }

    /// As a document.
    pub fn json(&self) -> Value {
        let rules: serde_json::Map<String, Value> =
            self.rules.iter().map(|(n, r)| ((*n).to_owned(), json!({ "right": r.0, "wrong": r.1 }))).collect();
        let longest: Vec<Value> = self
            .longest
            .iter()
            .map(|(rid, seen, root)| json!({ "rid": rid, "seen_ns": seen, "root_ns": root }))
            .collect();
        json!({
            "paths": {
                "existing": self.existing, "found_once": self.found, "lost": self.lost, "twice": self.twice,
                "reported": self.reported, "correct": self.correct, "incomplete": self.admitted, "wrong": self.wrong,
                "wrong_duration": self.wrong_duration, "correct_but_for_duration": self.but_for_duration,
                "without_id": self.strangers,
                "completeness": self.completeness(), "accuracy": self.accuracy(),
            },
            "links": {
                "right": self.right, "wrong_parent": self.wrong_parent, "orphan": self.orphans,
                "incomplete_said": self.orphans_said, "outside": self.beyond,
            },
            "rules": rules,
            "holes": self.holes,
            "heads": self.heads,
            "operations": self.operations,
            "longest": longest,
        })
    }

    /// As text.
    pub fn table(&self) -> String {
        let mut t = String::new();
        let _ = writeln!(
            t,
            "requests      {} sent and answered, {} found once, {} not found, {} found twice, {} roots without an id",
            self.existing, self.found, self.lost, self.twice, self.strangers
        );
        let _ = writeln!(
            t,
            "paths         {} reported complete, {} correct, {} wrong, {} say they are incomplete, {} last too long",
            self.reported, self.correct, self.wrong, self.admitted, self.wrong_duration
        );
        let _ = writeln!(t, "completeness  {:.3} %", 100.0 * self.completeness());
        let _ = writeln!(t, "accuracy      {:.3} %", 100.0 * self.accuracy());
        let _ = writeln!(
            t,
            "links         {} right, {} wrong parent, {} orphan, {} incomplete and said so, {} outside their request",
            self.right, self.wrong_parent, self.orphans, self.orphans_said, self.beyond
        );
        for (name, (right, wrong)) in &self.rules {
            let _ = writeln!(t, "  by {name:<24} {right:>9} right {wrong:>7} wrong");
        }
        for (name, n) in &self.holes {
            let _ = writeln!(t, "  hole: {name:<44} {n:>7}");
        }
        let _ = writeln!(t, "heads         {}, operations {}", self.heads, self.operations);
        t
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_its_port_and_which_of_loopbacks_addresses() {
        let place: SocketAddr = "127.0.0.1:53".parse().expect("an address");
        let at = |ip: [u8; 4], port| {
            let mut address = [0; 16];
            address[..4].copy_from_slice(&ip);
            is_at(address, port, &place)
        };
        assert!(at([127, 0, 0, 1], 53) && at([10, 0, 0, 2], 53) && at([0; 4], 53));
        assert!(!at([127, 0, 0, 2], 53) && !at([127, 0, 0, 1], 54));
    }

    #[test]
    fn knows_what_the_application_does() {
        assert_eq!(demo_messages("/vote/3"), Some(6));
        assert_eq!(demo_messages("/vote/4"), Some(7));
        assert_eq!(demo_messages("/vote/5"), Some(8));
        assert_eq!(demo_messages("/item/100"), Some(5));
        assert_eq!(demo_messages("/item/4"), Some(9));
        assert_eq!(demo_messages("/health"), Some(1));
        assert_eq!(demo_messages("/results"), None);
    }
}
