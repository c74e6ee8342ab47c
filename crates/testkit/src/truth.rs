//! What really happened, and what is made of a claim about it.

use std::collections::{BTreeMap, BTreeSet};

/// One end of a flow: name of the host, number of the endpoint there.
pub type End = (String, u64);

/// A request message that was really sent.
#[derive(Clone, Debug)]
pub struct Call {
    /// What messages of a test call it.
    pub name: String,
    /// The call in whose service it was made; none for a root.
    pub cause: Option<usize>,
    /// The sender's end, where it is watched.
    pub client: Option<End>,
    /// The server's end, where it is watched.
    pub server: Option<End>,
    /// Where it passed sniffers: the sniffer's host, its number of the flow, and the message's first byte there.
    pub wire: Vec<(End, u64)>,
    /// First byte of the message, as numbered at both ends.
    pub start: u64,
    /// True time at which the first row tells of it; `u64::MAX` where none does.
    pub began_ns: u64,
    /// True time at which its reply was complete at its server; `u64::MAX` where it never was.
    pub ended_ns: u64,
}

/// All that really happened.
#[derive(Clone, Debug)]
pub struct Truth {
    /// Every call, in order of being sent.
    pub calls: Vec<Call>,
    /// True times of the recording's begin and end.
    pub window_ns: (u64, u64),
}

/// One span as a linker claims it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Index of the span for which it was made.
    pub parent: Option<usize>,
    /// The caller's end and first byte.
    pub caller: Option<(End, u64)>,
    /// The server's end and first byte.
    pub callee: Option<(End, u64)>,
}

/// A request as a linker claims it.
#[derive(Clone, Debug)]
pub struct ClaimedPath {
    /// Its spans, the root first.
    pub spans: Vec<Claim>,
    /// It says that nothing is missing.
    pub complete: bool,
    /// It says that it has a caller that could not be told.
    pub orphan: bool,
}

/// What is true of what was claimed.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Links claimed: a parent for a call, and a server for a call.
    pub links: u64,
    /// Links that are not so, in words.
    pub wrong: Vec<String>,
    /// Paths said to be complete that are not, in words.
    pub wrong_paths: Vec<String>,
    /// Paths said to be complete and so.
    pub right_paths: u64,
    /// Paths that exist: roots whose reply moved within the recording.
    pub existing_paths: u64,
}

impl Verdict {
    /// Correct paths by existing paths.
    pub fn completeness(&self) -> f64 {
        if self.existing_paths == 0 { 1.0 } else { self.right_paths as f64 / self.existing_paths as f64 }
    }
}

impl Default for Truth {
    fn default() -> Truth {
        Truth { calls: Vec::new(), window_ns: (0, u64::MAX - 1) }
    }
}

impl Truth {
    /// Whether a call began when the request that made it had its whole reply: a path ends there, so that call is a part of
    /// it or a root.
    fn is_after(&self, call: usize) -> bool {
        self.calls[call].cause.is_some_and(|p| self.calls[p].ended_ns <= self.calls[call].began_ns)
    }

    /// Judges paths.
    pub fn judge(&self, paths: &[ClaimedPath]) -> Verdict {
        let mut v = Verdict::default();
        let (from, to) = self.window_ns;
        let is_whole = |c: &&Call| c.cause.is_none() && c.is_seen() && from <= c.began_ns && c.ended_ns <= to;
        v.existing_paths = self.calls.iter().filter(is_whole).count() as u64;
        let by_end = ByEnd::of(&self.calls);
        for p in paths {
            let before = v.wrong.len();
            let found = self.judge_links(p, &by_end, &mut v);
            if p.complete && !p.orphan {
                self.judge_whole(&found, &by_end, v.wrong.len() == before, &mut v);
            }
        }
        v
    }

    fn name(&self, call: Option<usize>) -> &str {
        call.map_or("nothing that was sent", |i| self.calls[i].name.as_str())
    }

    /// Holds each link of a path against the truth.
    fn judge_links<'a>(&'a self, p: &ClaimedPath, by_end: &ByEnd, v: &mut Verdict) -> Found<'a> {
        let mut found = Found { calls: Vec::new(), unserved: Vec::new() };
        for s in &p.spans {
            let (by_caller, by_callee) = (find(&by_end.clients, &s.caller), find(&by_end.servers, &s.callee));
            if let (Some(a), Some(b)) = (by_caller, by_callee) {
                v.links += 1;
                if a != b || a.is_none() {
                    v.wrong.push(format!("the server of {} is said to serve {}", self.name(b), self.name(a)));
                }
            }
            let me = by_callee.or(by_caller).flatten();
            if let Some(parent) = s.parent {
                v.links += 1;
                let said = found.calls[parent];
                let really = me.and_then(|m| self.calls[m].cause);
                if said.is_none() || said != really {
                    let [me, said, really] = [me, said, really].map(|c| self.name(c));
                    v.wrong.push(format!("{me} is said to be for {said}, it was for {really}"));
                }
            }
            if let Some(m) = me.filter(|_| s.callee.is_none() && p.complete) {
                let c = &self.calls[m];
                if c.server.is_some() && c.ended_ns <= self.window_ns.1 {
                    found.unserved.push(c.name.as_str());
                }
            }
            found.calls.push(me);
        }
        found
    }

    /// Holds a path that is said to be complete against all that was really done for its root.
    fn judge_whole(&self, found: &Found<'_>, by_end: &ByEnd, has_right_links: bool, v: &mut Verdict) {
        let Some(Some(root)) = found.calls.first().copied() else { return };
        let said: BTreeSet<usize> = found.calls.iter().flatten().copied().collect();
        let mut really = BTreeSet::new();
        let mut todo = vec![root];
        while let Some(i) = todo.pop() {
            let c = &self.calls[i];
            if c.client.is_some() || c.is_seen() {
                really.insert(i);
            }
            let is_due = |c: &usize| self.calls[*c].is_sent() && (!self.is_after(*c) || said.contains(c));
            todo.extend(by_end.children.get(&i).into_iter().flatten().copied().filter(is_due));
        }
        let c = &self.calls[root];
        let is_root = c.cause.is_none() || !c.is_sent() || self.is_after(root);
        if said == really && is_root && has_right_links && found.unserved.is_empty() {
            v.right_paths += u64::from(c.cause.is_none());
            return;
        }
        let list =
            |s: BTreeSet<&usize>| s.into_iter().map(|&i| self.calls[i].name.clone()).collect::<Vec<_>>().join(" ");
        v.wrong_paths.push(format!(
            "{} is said to be complete: missing [{}], too many [{}], without their servers [{}]{}",
            self.name(Some(root)),
            list(really.difference(&said).collect()),
            list(said.difference(&really).collect()),
            found.unserved.join(" "),
            if is_root { String::new() } else { format!(", made for {}", self.name(c.cause)) }
        ));
    }
}

impl Call {
    /// Its server, or a sniffer, saw it.
    fn is_seen(&self) -> bool {
        self.server.is_some() || !self.wire.is_empty()
    }

    /// Its client, or a sniffer, saw it.
    fn is_sent(&self) -> bool {
        self.client.is_some() || !self.wire.is_empty()
    }
}

/// An end and the low half of a stream's first byte: endpoints number bytes modulo 2^32.
type Begin = (End, u64);

/// Which calls began where, and which were made for which.
struct ByEnd {
    clients: BTreeMap<Begin, usize>,
    servers: BTreeMap<Begin, usize>,
    children: BTreeMap<usize, Vec<usize>>,
}

impl ByEnd {
    fn of(calls: &[Call]) -> ByEnd {
        let mut out = ByEnd { clients: BTreeMap::new(), servers: BTreeMap::new(), children: BTreeMap::new() };
        for (i, c) in calls.iter().enumerate() {
            let start = c.start & 0xffff_ffff;
            if let Some(e) = &c.client {
                out.clients.insert((e.clone(), start), i);
            }
            if let Some(e) = &c.server {
                out.servers.insert((e.clone(), start), i);
            }
            for (e, start) in &c.wire {
                out.clients.insert((e.clone(), start & 0xffff_ffff), i);
            }
            if let Some(p) = c.cause {
                out.children.entry(p).or_default().push(i);
            }
        }
        out
    }
}

/// The call that begins at an end, `Some(None)` where none does.
fn find(map: &BTreeMap<Begin, usize>, at: &Option<Begin>) -> Option<Option<usize>> {
    at.as_ref().map(|(e, s)| map.get(&(e.clone(), s & 0xffff_ffff)).copied())
}

/// What a path was found to consist of.
struct Found<'a> {
    /// Of each span the call that it really is.
    calls: Vec<Option<usize>>,
    /// Calls without the server's span that they should have.
    unserved: Vec<&'a str>,
}
