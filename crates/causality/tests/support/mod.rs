//! Paths of a simulated recording, as claims that the truth can judge, and as text.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use wakepath_causality::exchange::{Content, ExchangeFlag};
use wakepath_causality::path::{Half, Request};
use wakepath_causality::proof::Proof;
use wakepath_causality::{Explain, Options, Report, reconstruct_with};
use wakepath_model::folder::{self, Copier, Folder, FolderWriter};
use wakepath_model::ids::{HostId, StrId};
use wakepath_testkit::recording::{Cuts, Recording};
use wakepath_testkit::truth::{Claim, ClaimedPath, End, Truth};

/// What a reconstruction gave.
pub struct Found {
    pub requests: Vec<Request>,
    pub report: Report,
    pub hosts: Vec<String>,
    pub refused: u64,
}

/// Writes the recording's folders and reads them.
pub fn found(recording: &Recording, cuts: Cuts) -> Found {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let paths = recording.write(dir.path(), cuts).expect("the disk takes it");
    read(&paths)
}

/// The same, as the options say.
pub fn found_with(recording: &Recording, options: &Options) -> Found {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let paths = recording.write(dir.path(), Cuts::default()).expect("the disk takes it");
    read_with(&paths, options)
}

/// Reads folders.
pub fn read(paths: &[PathBuf]) -> Found {
    read_with(paths, &Options::default())
}

fn read_with(paths: &[PathBuf], options: &Options) -> Found {
    let folder = Folder::open(paths).expect("folders");
    let (mut requests, mut refused) = (Vec::new(), 0);
    let report = reconstruct_with(&folder, options, |r| requests.push(r), |_, _, _, _| refused += 1);
    let hosts = folder.hosts().iter().map(|h| h.info().hostname.clone()).collect();
    Found { requests, report, hosts, refused }
}

/// Each host of folders, linked by itself into a folder of its own, the last host first.
pub fn reduce(paths: &[PathBuf], into: &Path) -> Vec<PathBuf> {
    let names: Vec<String> = {
        let folder = Folder::open(paths).expect("folders");
        folder.hosts().iter().map(|h| h.info().hostname.clone()).collect()
    };
    let reduced = names.iter().rev().map(|name| {
        let folder = Folder::open_host(paths, Some(name)).expect("a host");
        let host = &folder.hosts()[0];
        let out = into.join(format!("{name}.reduced"));
        let writer = FolderWriter::create(&out, host.info().clone(), folder::Options::default()).expect("a folder");
        let mut copier = Copier::new(host, writer);
        wakepath_causality::reduced::reduce(&mut copier).end();
        copier.writer.close().expect("the disk takes it");
        out
    });
    reduced.collect()
}

/// Panics where hosts that are linked each by itself, and joined, give anything else than hosts that are linked together.
pub fn reduced_alike(recording: &Recording) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let paths = recording.write(dir.path(), Cuts::default()).expect("the disk takes it");
    folders_reduced_alike(&paths, dir.path());
}

/// The same of folders; a host may have several. The reduced ones are made below `into`.
pub fn folders_reduced_alike(paths: &[PathBuf], into: &Path) {
    let reduced = reduce(paths, into);
    let all = |paths: &[PathBuf]| {
        let folder = Folder::open(paths).expect("folders");
        let mut requests = Vec::new();
        let mut refused = Vec::new();
        let report = reconstruct_with(
            &folder,
            &Options::default(),
            |r| requests.push(in_words(&folder, r)),
            |host, task, place, error| refused.push((host, task, place, error)),
        );
        assert!(folder.defects().is_empty(), "{:?}", folder.defects());
        (requests, refused.len(), report)
    };
    let (together, alone) = (all(paths), all(&reduced));
    assert_eq!(together.0, alone.0, "requests");
    assert_eq!((together.1, together.2), (alone.1, alone.2), "what came of it");
}

/// All of a request, with its strings as texts: their numbers differ between folders.
fn in_words(folder: &Folder, mut r: Request) -> String {
    let mut texts: Vec<String> = Vec::new();
    let take = |texts: &mut Vec<String>, host: HostId, id: &mut StrId| {
        texts.push(folder.host(host).map_or("", |h| h.text(*id)).to_owned());
        *id = StrId::EMPTY;
    };
    for s in &mut r.spans {
        let host = s.callee.as_ref().map(|h| h.host);
        for f in &mut s.refusals {
            take(&mut texts, host.expect("it was served"), &mut f.place.path);
        }
        let open = s.open_calls.iter_mut().map(|o| &mut o.half);
        for h in s.caller.iter_mut().chain(&mut s.callee).chain(open) {
            let Content { protocol, verb, target, detail, .. } = &mut h.exchange.content;
            for id in [protocol, verb, target, detail, &mut h.place.path] {
                take(&mut texts, h.host, id);
            }
            // of how a connection came about only the times are told
            let opening = h.exchange.client.opening.take();
            texts.push(format!("{:?}", opening.map(|o| (o.connect(), o.answers().to_vec()))));
        }
    }
    format!("{r:?}\n{texts:?}")
}

/// The truth's names of messages, by the end of their connection and the first byte there.
fn names(truth: &Truth) -> BTreeMap<(End, u64), &str> {
    let mut names: BTreeMap<(End, u64), &str> = BTreeMap::new();
    for c in &truth.calls {
        for end in [&c.client, &c.server].into_iter().flatten() {
            names.insert((end.clone(), c.start & 0xffff_ffff), &c.name);
        }
        for (end, start) in &c.wire {
            names.insert((end.clone(), start & 0xffff_ffff), &c.name);
        }
    }
    names
}

/// The same as [`found`], and how each call is known.
pub fn found_and_proved(recording: &Recording) -> (Found, Vec<(HostId, Proof)>) {
    let proofs = Rc::new(RefCell::new(Vec::new()));
    let take = Rc::clone(&proofs);
    let explain = Explain {
        is_asked: Rc::new(|_, _, _| true),
        out: Rc::new(RefCell::new(move |host, proof: Proof| take.borrow_mut().push((host, proof)))),
    };
    let found = found_with(recording, &Options { explain: Some(explain), ..Options::default() });
    (found, proofs.take())
}

impl Found {
    fn end(&self, h: &Half) -> (End, u64) {
        let host = self.hosts[usize::from(h.host.0)].clone();
        ((host, h.exchange.flow.0), h.exchange.request.start)
    }

    /// As claims.
    pub fn claims(&self) -> Vec<ClaimedPath> {
        self.requests
            .iter()
            .map(|r| ClaimedPath {
                spans: r
                    .spans
                    .iter()
                    .map(|s| Claim {
                        parent: s.parent.map(|p| p as usize),
                        caller: s.caller.as_ref().map(|h| self.end(h)),
                        callee: s.callee.as_ref().map(|h| self.end(h)),
                    })
                    .collect(),
                complete: r.is_complete(),
                orphan: r.orphan.is_some(),
            })
            .collect()
    }

    /// Everything but what belongs to the order of finding, for comparisons.
    pub fn digest(&self) -> Vec<String> {
        let mut out: Vec<String> = self
            .requests
            .iter()
            .map(|r| {
                let mut text = format!("{:016x} {:?}", r.id, r.orphan);
                for s in &r.spans {
                    let half = |h: &Option<Half>| {
                        h.as_ref().map(|h| (self.end(h), h.exchange.request.began, h.exchange.reply.ended))
                    };
                    let (caller, callee) = (half(&s.caller), half(&s.callee));
                    let _ = write!(
                        text,
                        "\n  {:?} {:?} {:?} {} {:?} {caller:?} {callee:?}",
                        s.parent, s.made_by, s.joined_by, s.doubts, s.gap
                    );
                }
                text
            })
            .collect();
        out.sort();
        out
    }

    /// The conditions of rules that did not hold for each call whose request is not known, in the order of the calls.
    pub fn failed(&self, proofs: &[(HostId, Proof)], truth: &Truth) -> String {
        let names = names(truth);
        let mut open: Vec<_> = proofs.iter().filter(|(_, p)| p.later.is_none() && p.is_undecided()).collect();
        open.sort_by_key(|(host, p)| (p.at, *host, p.flow.0, p.start));
        let mut out = String::new();
        for (host, p) in open {
            let end = (self.hosts[usize::from(host.0)].clone(), p.flow.0);
            let name = names.get(&(end, p.start & 0xffff_ffff)).copied().unwrap_or("(not sent)");
            let failed: Vec<&str> = p.failed.iter().map(|c| c.name).collect();
            let failed =
                if failed.is_empty() { "no rule has a condition that failed".to_owned() } else { failed.join(", ") };
            let _ = writeln!(out, "open {name}: {failed}");
        }
        out
    }

    /// As text, with the names of the truth: a line for each span.
    pub fn text(&self, truth: &Truth) -> String {
        let names = names(truth);
        let name = |h: &Half| {
            let (end, start) = self.end(h);
            names.get(&(end, start & 0xffff_ffff)).copied().unwrap_or("(not sent)")
        };
        let mut all: Vec<&Request> = self.requests.iter().collect();
        all.sort_by_key(|r| {
            let half = r.spans[0].callee.as_ref().or(r.spans[0].caller.as_ref());
            half.map(|h| (h.host, h.exchange.request.began, h.exchange.request.start))
        });
        let mut out = String::new();
        for r in all {
            let state = match r.orphan {
                Some(h) => format!("an orphan: {}", h.name()),
                None if r.is_complete() => "complete".into(),
                None => "incomplete".into(),
            };
            let _ = writeln!(out, "{state}");
            let mut depths: Vec<usize> = Vec::new();
            for s in &r.spans {
                let depth = s.parent.map_or(1, |p| depths[p as usize] + 1);
                depths.push(depth);
                let half = s.callee.as_ref().or(s.caller.as_ref()).expect("a span has a side");
                let e = &half.exchange;
                let mut notes: Vec<String> = Vec::new();
                notes.extend(s.made_by.map(|r| r.name().to_owned()));
                notes.extend(s.joined_by.map(|r| r.name().to_owned()));
                if s.callee.is_none() {
                    notes.push(if s.wire.is_some() { "on the wire" } else { "not watched there" }.into());
                } else if s.wire.is_some() {
                    notes.push("also on the wire".into());
                }
                if s.doubts > 0 {
                    notes.push(format!("{} in doubt", s.doubts));
                }
                notes.extend(s.gap.map(|h| h.name().to_owned()));
                match (e.is(ExchangeFlag::Cut), e.is(ExchangeFlag::Reset), e.is(ExchangeFlag::Replied)) {
                    (_, true, _) => notes.push("reset".into()),
                    (true, _, _) => notes.push("cut".into()),
                    (_, _, false) => notes.push("no reply".into()),
                    _ => {}
                }
                if e.client.left.0 != 0 {
                    notes.push("its client left".into());
                }
                let notes = if notes.is_empty() { String::new() } else { format!(" [{}]", notes.join("; ")) };
                let _ = writeln!(out, "{}{}{notes}", "  ".repeat(depth), name(half));
            }
        }
        if self.refused > 0 {
            let _ = writeln!(out, "{} refused", self.refused);
        }
        out
    }
}
