//! Puts the pieces of each request together: visits, with their parts in order of time.

use super::backs::Backs;
use super::collect::Collected;
use super::services::Services;
use crate::derive::demand::{Demand, Piece};
use crate::derive::holds::{Hold, Tokens};
use crate::derive::links::Links;
use crate::derive::visits::actor;
use crate::jobs::{Part, Visit, WorkState};
use rustc_hash::FxHashMap;
use wakepath_analysis::names::Names;
use wakepath_analysis::spans::{Timed, lay_out};
use wakepath_causality::path::{Half, Request, Span};
use wakepath_graph::Index;
use wakepath_model::ids::{CommonNs, HostId, MonoNs, StrId};

/// What is asked for: host, service, protocol, verb, target.
type Asked = (HostId, Option<usize>, StrId, StrId, StrId);

/// Makes the visits of all requests; gives what was asked for, and the roots.
pub fn visits(
    index: &Index,
    names: &Names<'_>,
    collected: &Collected,
    services: &Services,
    demand: &Demand,
    tokens: &Tokens,
    links: &Links,
) -> (Vec<String>, Vec<Visit>) {
    let backs = Backs::read(index, collected, services, demand);
    let mut a = Assembly {
        index,
        names,
        services,
        demand,
        tokens,
        links,
        backs,
        asked: Vec::new(),
        by_text: FxHashMap::default(),
        by_ids: FxHashMap::default(),
    };
    let each = collected.requests.iter().zip(&collected.first);
    let roots = each.filter_map(|(r, first)| a.request(r, *first)).collect();
    (a.asked, roots)
}

struct Assembly<'a> {
    index: &'a Index,
    names: &'a Names<'a>,
    services: &'a Services,
    demand: &'a Demand,
    tokens: &'a Tokens,
    links: &'a Links,
    backs: Backs,
    asked: Vec<String>,
    by_text: FxHashMap<String, usize>,
    by_ids: FxHashMap<Asked, usize>,
}

/// Something that a span did, at its moment.
enum Item {
    Work(WorkState, u64),
    Calls(Vec<Visit>),
    Take(usize),
    Give(usize),
    Reply,
}

/// A call of a span.
struct Call {
    from: MonoNs,
    to: MonoNs,
    visit: Visit,
    /// It is only a connection being made: what was waited for meanwhile was that.
    is_handshake: bool,
}

impl Assembly<'_> {
    fn request(&mut self, r: &Request, first: u32) -> Option<Visit> {
        let timed = lay_out(r);
        let mut calls: Vec<Vec<Call>> = (0..r.spans.len()).map(|_| Vec::new()).collect();
        // children come after their parents
        for (i, s) in r.spans.iter().enumerate().rev() {
            let Some(t) = timed.iter().find(|t| t.index as usize == i) else { continue };
            let mine = std::mem::take(&mut calls[i]);
            let visit = self.visit(s, t, first, first + i as u32, mine);
            let (Some(parent), Some(h)) = (s.parent, &s.caller) else { return Some(visit).filter(|_| i == 0) };
            calls[parent as usize].extend(self.handshake(s, h, first + parent));
            calls[parent as usize].push(Call {
                from: h.exchange.request.began,
                to: h.exchange.reply.ended,
                visit,
                is_handshake: false,
            });
        }
        None
    }

    /// The connecting that a span waited for, to make a call: a way there and back on which nobody works.
    fn handshake(&mut self, s: &Span, caller: &Half, asker: u32) -> Option<Call> {
        let connect = self.links.connect((caller.host, caller.exchange.flow)).filter(|c| c.retries == 0)?;
        let line = self.index.timeline();
        let from = line.local(caller.host, connect.at);
        let to = line.local(caller.host, CommonNs(connect.at.0.saturating_add_unsigned(connect.took_ns)));
        // a later call on the same connection, or one that was made ready before, finds no such wait
        let pieces = &self.demand.pieces;
        let mine = &pieces[pieces.partition_point(|p| p.span < asker)..pieces.partition_point(|p| p.span <= asker)];
        let is_next = caller.exchange.request.began >= to;
        mine.iter().find(|p| is_next && p.state == WorkState::Outside && p.from >= from && p.from <= to)?;
        let text = format!("{} connect", self.names.service(s));
        let next = self.asked.len();
        let asked = *self.by_text.entry(text.clone()).or_insert(next);
        if asked == next {
            self.asked.push(text);
        }
        let (there_ns, parts) = (connect.took_ns / 2, Vec::new());
        let visit = Visit { service: None, asked, there_ns, back_ns: connect.took_ns - there_ns, parts };
        Some(Call { from, to, visit, is_handshake: true })
    }

    fn asked(&mut self, s: &Span, h: &Half, service: Option<usize>) -> usize {
        let e = &h.exchange;
        let key = (h.host, service, e.content.protocol, e.content.verb, e.content.target);
        if let Some(&id) = self.by_ids.get(&key).filter(|_| service.is_some()) {
            return id;
        }
        let text = format!("{} {}", self.names.service(s), self.names.asked(h));
        let next = self.asked.len();
        let id = *self.by_text.entry(text.clone()).or_insert(next);
        if id == next {
            self.asked.push(text);
        }
        self.by_ids.insert(key, id);
        id
    }

    fn visit(&mut self, s: &Span, t: &Timed, first: u32, number: u32, calls: Vec<Call>) -> Visit {
        let service = self.services.of_span[number as usize];
        let half = s.callee.as_ref().or(s.caller.as_ref());
        let asked = half.map_or(0, |h| self.asked(s, h, service));
        let slept = self.demand.slept[number as usize];
        let Some(callee) = &s.callee else {
            // until the answer was there, and not until its reader had a processor
            let end = slept.map_or(t.end, |s| s.woken.clamp(t.start, t.end));
            let ns = end.0.saturating_sub(t.start.0);
            let parts = vec![Part::Work { state: WorkState::Outside, ns }];
            return Visit { service: None, asked, there_ns: 0, back_ns: 0, parts };
        };
        let (mut there_ns, mut back_ns) = (0, 0);
        if let Some(caller) = s.caller.as_ref().filter(|_| s.parent.is_some()) {
            let came = self.index.common(callee.host, t.start);
            let is_known = callee.exchange.request.arrived.0 != 0;
            there_ns = if is_known { self.there(caller, came) } else { 0 };
            let asker = s.parent.and_then(|p| self.services.of_span[(first + p) as usize]);
            back_ns = self.backs.of(self.index, s, slept, (asker, service), there_ns);
        }
        let factor = service.map_or(1.0, |id| self.demand.used[id].factor());
        let from = self.demand.pieces.partition_point(|p| p.span < number);
        let to = self.demand.pieces.partition_point(|p| p.span <= number);
        let (e, host) = (&callee.exchange, callee.host);
        let holds = self.tokens.held(host, actor(e), e.request.began, e.reply.ended);
        let parts = parts(&self.demand.pieces[from..to], holds, calls, e.reply.ended, factor);
        Visit { service, asked, there_ns, back_ns, parts }
    }

    /// From the sending of a request until its first byte was there.
    fn there(&self, caller: &Half, came: CommonNs) -> u64 {
        super::between(self.index.common(caller.host, caller.exchange.request.began), came)
    }
}

/// Holds of the same pool that overlap or touch as one: who has it does not take it again.
fn apart(holds: &[Hold]) -> Vec<Hold> {
    let mut out: Vec<Hold> = Vec::with_capacity(holds.len());
    for h in holds {
        match out.iter_mut().rev().find(|o| o.pool == h.pool) {
            Some(o) if h.taken <= o.given => o.given = o.given.max(h.given),
            _ => out.push(*h),
        }
    }
    out
}

/// Calls made at once.
struct Group {
    /// When the first and when the last of them began, and when all had ended.
    first: MonoNs,
    last: MonoNs,
    ended: MonoNs,
}

/// When what ends at a moment is to end, since calls cannot be parted: where that is amid calls that began under it, at
/// their begin or end, whichever is nearer. Who waits for an answer has mostly let go of a lock just after asking.
fn given(h: &Hold, groups: &[Group]) -> MonoNs {
    let amid = groups.iter().find(|g| h.taken <= g.first && g.first < h.given && h.given < g.ended);
    let begin = amid.filter(|g| h.given.0 - g.first.0 < g.ended.0 - h.given.0).map(|g| g.first);
    begin.unwrap_or(h.given)
}

/// What comes first of what happens at the same moment.
mod rank {
    pub const TAKE: u8 = 0;
    pub const REPLY: u8 = 1;
    pub const GIVE: u8 = 2;
    /// What was computed while calls were under way, before something that goes before them.
    pub const WORK_BEFORE: u8 = 3;
    /// What was given back while calls were under way.
    pub const GIVE_BEFORE: u8 = 4;
    pub const CALLS: u8 = 5;
    pub const WORK: u8 = 6;
}

/// Puts calls among the items, those that overlap as one; gives their times.
fn group(mut calls: Vec<Call>, items: &mut Vec<(MonoNs, u8, Item)>) -> Vec<Group> {
    calls.sort_by_key(|c| (c.from, c.to));
    // of several calls on one connection, the first waited for it
    calls.dedup_by(|b, a| b.is_handshake && a.is_handshake && b.from == a.from);
    let mut groups: Vec<Group> = Vec::new();
    for c in calls {
        match (groups.last_mut(), items.last_mut()) {
            (Some(g), Some((_, _, Item::Calls(visits)))) if c.from < g.ended => {
                visits.push(c.visit);
                (g.last, g.ended) = (c.from, g.ended.max(c.to));
            }
            _ => {
                items.push((c.from, rank::CALLS, Item::Calls(vec![c.visit])));
                groups.push(Group { first: c.from, last: c.from, ended: c.to });
            }
        }
    }
    groups
}

/// The parts of a visit, in order. Calls that overlap are made at once.
fn parts(pieces: &[Piece], holds: &[Hold], calls: Vec<Call>, ended: MonoNs, factor: f64) -> Vec<Part> {
    let mut items: Vec<(MonoNs, u8, Item)> = Vec::with_capacity(pieces.len() + calls.len() + 2 * holds.len() + 1);
    items.push((ended, rank::REPLY, Item::Reply));
    let shaking: Vec<(MonoNs, MonoNs)> = calls.iter().filter(|c| c.is_handshake).map(|c| (c.from, c.to)).collect();
    let groups = group(calls, &mut items);
    let holds = &apart(holds);
    // from when to when what is computed goes before the calls that are under way
    let mut before: Vec<(MonoNs, MonoNs)> = groups.iter().map(|g| (g.first, g.last)).collect();
    for h in holds {
        let given = given(h, &groups);
        let is_before = given < h.given;
        items.push((h.taken, rank::TAKE, Item::Take(h.pool)));
        items.push((given, if is_before { rank::GIVE_BEFORE } else { rank::GIVE }, Item::Give(h.pool)));
        if is_before {
            before.push((given, h.given));
        }
    }
    for p in pieces {
        if p.state == WorkState::Outside && shaking.iter().any(|s| p.from >= s.0 && p.from <= s.1) {
            continue;
        }
        if p.state != WorkState::Cpu {
            items.push((p.from, rank::WORK, Item::Work(p.state, p.ns)));
            continue;
        }
        // cut where something is taken or given back
        let mut from = p.from;
        let mut cuts: Vec<MonoNs> =
            holds.iter().flat_map(|h| [h.taken, h.given]).filter(|t| *t > p.from && *t < p.to).collect();
        cuts.sort_unstable();
        let length = p.to.0.saturating_sub(p.from.0).max(1);
        for to in cuts.into_iter().chain([p.to]) {
            let ns = (u128::from(p.ns) * u128::from(to.0 - from.0) / u128::from(length)) as u64;
            // what is computed while the first of several calls is under way prepares the others
            let moved = before.iter().find(|b| b.0 <= from && from < b.1);
            let (at, rank) = moved.map_or((from, rank::WORK), |b| (b.0, rank::WORK_BEFORE));
            items.push((at, rank, Item::Work(WorkState::Cpu, ns)));
            from = to;
        }
    }
    items.sort_by_key(|(at, rank, _)| (*at, *rank));
    let mut out: Vec<Part> = Vec::with_capacity(items.len() + 1);
    for (_, _, item) in items {
        match item {
            Item::Work(state, ns) => match out.last_mut() {
                Some(Part::Work { state: last, ns: sum }) if *last == state => *sum += ns,
                _ if ns == 0 => {}
                _ => out.push(Part::Work { state, ns }),
            },
            Item::Calls(visits) => out.push(Part::Calls(visits)),
            Item::Take(pool) => out.push(Part::Take(pool)),
            Item::Give(pool) => out.push(Part::Give(pool)),
            Item::Reply => out.push(Part::Reply),
        }
    }
    // what its service computed for nobody takes its part of the processors, and of no answer
    let own: u64 = out.iter().map(|p| if let Part::Work { state: WorkState::Cpu, ns } = p { *ns } else { 0 }).sum();
    let more = (own as f64 * (factor - 1.0)).round() as u64;
    match out.last_mut() {
        Some(Part::Work { state: WorkState::Cpu, ns }) => *ns += more,
        _ if more == 0 => {}
        _ => out.push(Part::Work { state: WorkState::Cpu, ns: more }),
    }
    if out.last() == Some(&Part::Reply) {
        out.pop();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use Part::{Calls, Give, Take};
    use wakepath_model::ids::TaskId;

    fn hold(taken: u64, given: u64) -> Hold {
        let (host, task) = (HostId(0), TaskId(1));
        Hold { host, task, pool: 0, asked: MonoNs(taken), taken: MonoNs(taken), given: MonoNs(given) }
    }

    fn piece(from: u64, to: u64) -> Piece {
        Piece { span: 0, from: MonoNs(from), to: MonoNs(to), state: WorkState::Cpu, ns: to - from }
    }

    fn call(from: u64, to: u64) -> Call {
        let visit = Visit { service: None, asked: 0, there_ns: to - from, back_ns: 0, parts: Vec::new() };
        Call { from: MonoNs(from), to: MonoNs(to), visit, is_handshake: false }
    }

    fn work(ns: u64) -> Part {
        Part::Work { state: WorkState::Cpu, ns }
    }

    fn calls(all: &[Call]) -> Part {
        Calls(all.iter().map(|c| c.visit.clone()).collect())
    }

    /// An interpreter's lock is let go just after a query was sent: it is not held while the database answers.
    #[test]
    fn a_lock_let_go_after_asking_is_not_held_until_the_answer() {
        let asked = [call(120, 10_000)];
        let pieces = [piece(100, 120), piece(120, 150), piece(10_000, 10_040)];
        let found = parts(&pieces, &[hold(100, 150)], vec![call(120, 10_000)], MonoNs(10_040), 1.0);
        assert_eq!(found, [Take(0), work(20 + 30), Give(0), calls(&asked), work(40)]);
    }

    /// What was let go just before the answer was held for it.
    #[test]
    fn a_lock_let_go_before_the_answer_is_held_while_asking() {
        let asked = [call(120, 10_000)];
        let pieces = [piece(100, 120), piece(9_900, 9_950), piece(10_000, 10_040)];
        let found = parts(&pieces, &[hold(100, 9_950)], vec![call(120, 10_000)], MonoNs(10_040), 1.0);
        assert_eq!(found, [Take(0), work(20), calls(&asked), work(50), Give(0), work(40)]);
    }

    /// What is taken and given while others work ends before it is taken again.
    #[test]
    fn a_lock_taken_while_asking_is_given_after_it_was_taken() {
        let pieces = [piece(100, 120), piece(200, 250), piece(10_000, 10_040)];
        let found = parts(&pieces, &[hold(200, 250)], vec![call(120, 10_000)], MonoNs(10_040), 1.0);
        assert_eq!(found, [work(20), calls(&[call(120, 10_000)]), Take(0), work(50), Give(0), work(40)]);
    }

    #[test]
    fn what_is_computed_between_calls_made_at_once_prepares_them() {
        let both = || vec![call(100, 900), call(150, 1_000)];
        let found = parts(&[piece(50, 100), piece(100, 150), piece(1_000, 1_010)], &[], both(), MonoNs(1_010), 1.0);
        assert_eq!(found, [work(100), calls(&both()), work(10)]);
    }
}
