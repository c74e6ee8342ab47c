//! Wrong paths, so that one sees what happened: both trees side by side, then what the tasks of the component did
//! between taking the true parent up and making the call.

use crate::paths::{Fault, Reported};
use crate::truth::{Addr, Truth};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::Write;
use wakepath_causality::path::{Half, Request, Span};
use wakepath_model::folder::{Folder, Host, TableSet};
use wakepath_model::ids::{EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{Event, Table};

/// Lines of a trace excerpt.
const LINES_MAX: usize = 160;

/// What to look at in the trace afterwards.
struct Window {
    title: String,
    host: HostId,
    tasks: Vec<TaskId>,
    flows: Vec<(EndpointId, &'static str)>,
    from: u64,
    to: u64,
}

/// Gathers up to so many wrong paths and prints them at the end.
pub struct Show<'t> {
    truth: &'t Truth,
    left: usize,
    text: Vec<(String, Vec<Window>)>,
}

fn micros(at: u64, zero: u64) -> f64 {
    (at as f64 - zero as f64) / 1000.0
}

fn port(a: &Addr) -> u16 {
    a.1
}

impl<'t> Show<'t> {
    /// For so many paths.
    pub fn new(truth: &'t Truth, most: usize) -> Show<'t> {
        Show { truth, left: most, text: Vec::new() }
    }

    /// Whether more are wanted.
    pub fn wants_more(&self) -> bool {
        self.left > 0
    }

    /// Keeps a path for printing.
    pub fn keep(&mut self, r: &Reported<'_>) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let known: Vec<u32> = r.hops.iter().flatten().copied().collect();
        let Some(&first) = known.first() else { return };
        let whose = self.truth.hops[first as usize].request;
        let t = &self.truth.requests[whose as usize];
        let mut text = String::new();
        let _ = writeln!(
            text,
            "== path {:016x}, truth request {} (times in us since its start, {} ns)",
            r.request.id, t.number, t.start_ns
        );
        for f in &r.faults {
            let _ = writeln!(text, "   {}", self.fault(r, f));
        }
        if !r.request.is_complete() {
            let _ = writeln!(text, "   it says that it is incomplete: {}", holes(r.request));
        }
        if r.faults.is_empty() {
            let _ = writeln!(text, "   the same path was reported before");
        }
        let left = self.true_tree(whose);
        let right = self.claimed_tree(r, t.start_ns);
        let _ = writeln!(text, "{:<62} | REPORTED", "TRUTH  hop component  client>server  sent..replied");
        for i in 0..left.len().max(right.len()) {
            let empty = String::new();
            let (l, r) = (left.get(i).unwrap_or(&empty), right.get(i).unwrap_or(&empty));
            let _ = writeln!(text, "{l:<62} | {r}");
        }
        let windows = self.windows(r);
        self.text.push((text, windows));
    }

    fn name(&self, hop: u32) -> String {
        let h = &self.truth.hops[hop as usize];
        format!(
            "r{}/{:x} {}",
            self.truth.requests[h.request as usize].number,
            h.id,
            self.truth.components[usize::from(h.component)]
        )
    }

    fn fault(&self, r: &Reported<'_>, f: &Fault) -> String {
        let of = |span: u32| r.hops[span as usize].map_or_else(|| "?".to_owned(), |h| self.name(h));
        match f {
            Fault::WrongParent { span } => {
                let s = &r.request.spans[*span as usize];
                let truly = r.hops[*span as usize].and_then(|h| self.truth.parent(h));
                format!(
                    "span {span} ({}) is put under {} by {}; truly under {}",
                    of(*span),
                    s.parent.map_or_else(|| "nothing".to_owned(), of),
                    s.made_by.map_or("no rule", |m| m.name()),
                    truly.map_or_else(|| "the client".to_owned(), |p| self.name(p))
                )
            }
            Fault::NotARoot => {
                let truly = r.hops[0].and_then(|h| self.truth.parent(h));
                format!(
                    "{} is given as a root; truly called by {}",
                    of(0),
                    truly.map_or_else(|| "?".to_owned(), |p| self.name(p))
                )
            }
            Fault::Foreign { span } => {
                let s = &r.request.spans[*span as usize];
                format!("span {span} is no call of the truth: {}", described(s))
            }
            Fault::Missing { hop } => format!("{} is missing", self.name(*hop)),
            Fault::Twice { span } => format!("span {span} ({}) is there twice", of(*span)),
        }
    }

    fn true_tree(&self, request: u32) -> Vec<String> {
        let zero = self.truth.requests[request as usize].start_ns;
        let mut out = Vec::new();
        let mut todo: Vec<(u32, usize)> =
            self.truth.hops_of(request).filter(|&h| self.truth.parent(h).is_none()).map(|h| (h, 0)).collect();
        while let Some((i, depth)) = todo.pop() {
            let h = &self.truth.hops[i as usize];
            out.push(format!(
                "{}{:x} {} {}>{} +{} {:.0}..{:.0}",
                "  ".repeat(depth),
                h.id,
                self.truth.components[usize::from(h.component)],
                port(&h.client),
                port(&h.server),
                h.conn_bytes,
                micros(h.send_ns[0], zero),
                micros(h.reply_ns, zero),
            ));
            let mut below: Vec<u32> =
                self.truth.hops_of(request).filter(|&c| self.truth.parent(c) == Some(i)).collect();
            below.sort_by_key(|&c| std::cmp::Reverse(self.truth.hops[c as usize].send_ns[0]));
            todo.extend(below.into_iter().map(|c| (c, depth + 1)));
        }
        out
    }

    fn claimed_tree(&self, r: &Reported<'_>, zero: u64) -> Vec<String> {
        let mut depth = vec![0usize; r.request.spans.len()];
        let mut out = Vec::new();
        for (i, s) in r.request.spans.iter().enumerate() {
            if let Some(p) = s.parent {
                depth[i] = depth[p as usize] + 1;
            }
            let hop = r.hops[i].map_or_else(|| "?".to_owned(), |h| self.name(h));
            let bad = r.faults.iter().any(|f| match f {
                Fault::WrongParent { span } | Fault::Foreign { span } | Fault::Twice { span } => *span == i as u32,
                Fault::NotARoot | Fault::Missing { .. } => false,
            });
            out.push(format!(
                "{}{i} {hop} by {}{} {:.0}..{:.0} byte {}{}{}",
                "  ".repeat(depth[i]),
                s.made_by.map_or("-", |m| m.name()),
                s.joined_by.map_or_else(String::new, |j| format!("+{}", j.name())),
                micros(began(s), zero),
                micros(ended(s), zero),
                half(s).map_or(0, |h| h.exchange.request.start & 0xffff_ffff),
                if s.callee.is_none() { " (server's side not joined)" } else { "" },
                if bad { "  <== WRONG" } else { "" },
            ));
        }
        out
    }

    /// What to print of the trace: for each wrong link, what its component did meanwhile.
    fn windows(&self, r: &Reported<'_>) -> Vec<Window> {
        let mut out = Vec::new();
        for f in &r.faults {
            let span = match f {
                Fault::WrongParent { span } | Fault::Foreign { span } | Fault::Twice { span } => *span,
                Fault::NotARoot => 0,
                Fault::Missing { .. } => continue,
            };
            if out.len() == 2 {
                break;
            }
            let s = &r.request.spans[span as usize];
            let hop = r.hops[span as usize];
            let truly = hop.and_then(|h| self.truth.parent(h));
            let from = truly.map_or(began(s), |p| self.truth.hops[p as usize].send_ns[0]);
            let claimed = s.parent.map(|p| &r.request.spans[p as usize]);
            let from = claimed.map_or(from, |c| from.min(began(c)));
            let Some(any) = s.caller.as_ref().or(s.callee.as_ref()) else { continue };
            let mut flows = Vec::new();
            if let Some(h) = claimed.and_then(|c| c.callee.as_ref()) {
                flows.push((h.exchange.flow, "CLAIMED PARENT"));
            }
            if let Some(h) = &s.caller {
                flows.push((h.exchange.flow, "CALL"));
            }
            if let Some(h) = &s.callee {
                flows.push((h.exchange.flow, "CALL, at its server"));
            }
            out.push(Window {
                title: format!("the component of span {span}'s caller, until its call was made"),
                host: any.host,
                tasks: vec![s.caller.as_ref().map_or(TaskId::UNKNOWN, |h| h.exchange.request.task)],
                flows,
                from: from.saturating_sub(50_000),
                to: began(s) + 100_000,
            });
        }
        out
    }

    /// Everything kept, with the trace's excerpts.
    pub fn print(self, folder: &Folder) -> String {
        let mut out = String::new();
        for (text, windows) in self.text {
            out.push_str(&text);
            for w in windows {
                if let Some(host) = folder.host(w.host) {
                    Excerpt::new(host, &w, self.truth).print(&mut out);
                }
            }
            out.push('\n');
        }
        out
    }
}

fn half(s: &Span) -> Option<&Half> {
    s.caller.as_ref().or(s.callee.as_ref())
}

fn began(s: &Span) -> u64 {
    half(s).map_or(0, |h| h.exchange.request.began.0)
}

fn ended(s: &Span) -> u64 {
    half(s).map_or(0, |h| h.exchange.reply.ended.0)
}

fn described(s: &Span) -> String {
    half(s).map_or_else(String::new, |h| {
        format!(
            "{}:{} > {}:{}, flow {:x}",
            h.place.laddr[0], h.place.lport, h.place.raddr[0], h.place.rport, h.exchange.flow.0
        )
    })
}

fn holes(request: &Request) -> String {
    let holes: Vec<String> = request.gaps().iter().map(|(i, h)| format!("span {i}: {}", h.name())).collect();
    holes.join("; ")
}

/// An incomplete path in a line.
pub fn admitted(truth: &Truth, request: &Request) -> String {
    let place = request.spans[0].callee.as_ref().map(|h| (h.place.laddr, h.place.lport));
    let root = place.as_ref().and_then(|a| truth.component_at(a)).unwrap_or("?");
    format!("{:016x} {root} {} spans: {}", request.id, request.spans.len(), holes(request))
}

/// Name, thread group.
fn tasks_of(host: &Host) -> FxHashMap<TaskId, (String, u32, u32)> {
    let mut out: FxHashMap<TaskId, (String, u32, u32)> = FxHashMap::default();
    for event in host.events(TableSet::of(&[Table::Task]), ..) {
        if let Event::Task(r) = event {
            let e = out.entry(r.task).or_insert_with(|| (String::new(), r.tgid, r.tid));
            if !host.text(r.comm).is_empty() {
                e.0 = host.text(r.comm).to_owned();
            }
        }
    }
    out
}

/// A window of the trace, and who and what its rows are about.
struct Excerpt<'a> {
    host: &'a Host,
    window: &'a Window,
    truth: &'a Truth,
    names: FxHashMap<TaskId, (String, u32, u32)>,
    /// The process that it is about; 0 = not known.
    group: u32,
    places: FxHashMap<EndpointId, (Addr, Addr)>,
    flows: FxHashSet<EndpointId>,
}

impl<'a> Excerpt<'a> {
    fn new(host: &'a Host, window: &'a Window, truth: &'a Truth) -> Excerpt<'a> {
        let names = tasks_of(host);
        let group = window.tasks.iter().find_map(|t| names.get(t)).map_or(0, |n| n.1);
        let mut places: FxHashMap<EndpointId, (Addr, Addr)> = FxHashMap::default();
        for event in host.events(TableSet::of(&[Table::Endpoint]), ..=MonoNs(window.to)) {
            if let Event::Endpoint(r) = event {
                places.insert(r.flow, ((r.laddr, r.lport), (r.raddr, r.rport)));
            }
        }
        let flows = window.flows.iter().map(|(f, _)| *f).collect();
        Excerpt { host, window, truth, names, group, places, flows }
    }

    fn flow(&self, f: EndpointId) -> String {
        let mut text = format!("{:x}", f.0);
        if let Some((l, r)) = self.places.get(&f) {
            let _ = write!(text, " {}:{}", port(l), port(r));
            for (a, arrow) in [(l, "at "), (r, "to ")] {
                if let Some(c) = self.truth.component_at(a) {
                    let _ = write!(text, " {arrow}{c}");
                }
            }
        }
        if let Some((_, what)) = self.window.flows.iter().find(|(x, _)| *x == f) {
            let _ = write!(text, " [{what}]");
        }
        text
    }

    fn task(&self, t: TaskId) -> String {
        self.names.get(&t).map_or_else(|| format!("#{}", t.0), |(n, _, tid)| format!("{n}/{tid}"))
    }

    /// Whether a task is of the process that it is about.
    fn is_ours(&self, t: TaskId) -> bool {
        self.group != 0 && self.names.get(&t).is_some_and(|n| n.1 == self.group)
    }

    /// A row as a line; `None` where it is about something else.
    fn line(&self, event: Event) -> Option<String> {
        let zero = self.window.from;
        let at = micros(event.at().0, zero);
        let what = match event {
            Event::Op(r) if self.is_ours(r.task) || self.flows.contains(&r.flow) => format!(
                "{:<22} {:<8} {} = {} (entered {:.1}, bytes {}..{} {})",
                self.task(r.task),
                r.kind.name(),
                self.flow(r.flow),
                r.result,
                micros(r.entry.0, zero),
                r.start & 0xffff_ffff,
                r.end & 0xffff_ffff,
                r.range.name(),
            ),
            Event::Wait(r) if self.is_ours(r.task) => format!(
                "{:<22} ran again, off since {:.1}, woken {:.1} by {}, cause {} state {} syscall {} object {:x}",
                self.task(r.task),
                micros(r.blocked.0, zero),
                micros(r.woken.0, zero),
                self.task(r.by),
                r.cause,
                r.state,
                r.syscall,
                r.object
            ),
            Event::Poll(r) if self.is_ours(r.task) => format!(
                "{:<22} poll = {} (entered {:.1}, fd {})",
                self.task(r.task),
                r.ready,
                micros(r.entry.0, zero),
                r.fd
            ),
            Event::Task(r) if self.is_ours(r.task) || self.is_ours(r.parent) => {
                format!("{:<22} life {} (parent {})", self.task(r.task), r.what, self.task(r.parent))
            }
            Event::FlowState(r) if self.flows.contains(&r.flow) => {
                format!("{:<22} state {} > {} {}", self.task(r.task), r.old, r.new, self.flow(r.flow))
            }
            Event::Message(r) if self.flows.contains(&r.flow) => format!(
                "{:<22} message role {} sent {} {} {} bytes {}.. {}",
                "",
                r.role,
                r.sent,
                self.host.text(r.verb),
                self.host.text(r.target),
                r.start & 0xffff_ffff,
                self.flow(r.flow)
            ),
            Event::Loss(r) => format!("LOSS {} {}", self.host.text(r.what), r.count),
            _ => return None,
        };
        Some(format!("{at:>9.1} {what}"))
    }

    fn print(&self, out: &mut String) {
        let w = self.window;
        let _ = writeln!(
            out,
            "-- trace: {}; {} us from {} ns; process {}",
            w.title,
            (w.to - w.from) / 1000,
            w.from,
            if self.group == 0 { "?".to_owned() } else { self.group.to_string() }
        );
        // what reaches over the window's end was entered inside it
        let until = w.to + 200_000;
        let rows = self.host.events(TableSet::ALL, MonoNs(w.from)..=MonoNs(until));
        let lines: Vec<String> = rows.filter_map(|event| self.line(event)).collect();
        let skipped = lines.len().saturating_sub(LINES_MAX);
        if skipped > 0 {
            let _ = writeln!(out, "   ... {skipped} earlier lines left out");
        }
        for l in &lines[skipped..] {
            let _ = writeln!(out, "   {l}");
        }
    }
}
