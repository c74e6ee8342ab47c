//! Requests made of nodes and of other vantages' requests: handed out when nothing in them can change any more.

use super::node::{Node, NodeId, Parent};
use super::{Top, Tree, Wires};
use crate::evidence::{Gap, Rule};
use crate::request::{Request, Span, request_id};
use wakepath_flows::Place;
use wakepath_model::ids::HostId;

/// A part of a request, and the span that asked for it.
enum Part {
    /// A sniffed exchange, and what says that it was asked for there.
    Node(NodeId, Option<u32>, Option<Rule>),
    /// A request of other vantages that a sniffed exchange began.
    Tree(u64, Option<(NodeId, Option<u32>, Option<Rule>)>),
}

impl Wires<'_> {
    /// Hands out a request if it is one, and, where there is a time `until` which all is decided, whole. False where it is
    /// to be asked again later.
    pub(super) fn hand_out(&mut self, top: Top, until: Option<i64>) -> bool {
        let is_top = match top {
            Top::Node(id) => self
                .nodes
                .get(&id)
                .is_some_and(|n| n.elsewhere.span_of.is_none() && matches!(n.parent, Parent::Root(_))),
            Top::Tree(id) => self.held.trees.get(&id).is_some_and(|t| self.root_parent(t).is_none()),
        };
        if !is_top {
            return true;
        }
        if until.is_some_and(|until| !self.is_settled(&top, until)) {
            return false;
        }
        let request = self.make(top, until.is_none());
        for rule in request.spans.iter().filter_map(|s| s.made_by) {
            if matches!(rule, Rule::Witness | Rule::WitnessTranslated) {
                *self.counts.made.entry(rule).or_default() += 1;
            }
        }
        self.give(request);
        true
    }

    /// The node and rule by which a request of other vantages is part of another.
    fn root_parent(&self, t: &Tree) -> Option<(NodeId, Rule)> {
        let (id, _) = t.nodes.first().copied().flatten()?;
        match self.nodes.get(&id)?.parent {
            Parent::Of(p, rule) => Some((p, rule)),
            _ => None,
        }
    }

    /// Whether nothing in a request can change any more.
    fn is_settled(&self, top: &Top, until: i64) -> bool {
        let mut todo = vec![*top];
        while let Some(part) = todo.pop() {
            match part {
                Top::Tree(id) => {
                    let Some(t) = self.held.trees.get(&id) else { continue };
                    if t.end > until {
                        return false;
                    }
                    for (node, _) in t.nodes.iter().flatten() {
                        let Some(n) = self.nodes.get(node) else { continue };
                        if n.parent == Parent::Undecided || n.worked_until() > until {
                            return false;
                        }
                        todo.extend(n.children.iter().map(|&c| Top::Node(c)));
                    }
                }
                Top::Node(id) => {
                    let Some(n) = self.nodes.get(&id) else { continue };
                    match n.elsewhere.span_of {
                        Some((tree, 0)) => todo.push(Top::Tree(tree)),
                        // belongs to another vantage's request by what that saw
                        Some(_) => {}
                        None => {
                            let is_awaited = n.elsewhere.server_watched
                                || n.elsewhere.client_watched && n.elsewhere.client_said.is_none();
                            if n.worked_until() > until || is_awaited {
                                return false;
                            }
                            todo.extend(n.children.iter().map(|&c| Top::Node(c)));
                        }
                    }
                }
            }
        }
        true
    }

    fn make(&mut self, top: Top, is_over: bool) -> Request {
        let mut spans: Vec<Span> = Vec::new();
        let mut orphan = None;
        let mut id = None;
        let mut todo = vec![match top {
            Top::Node(n) => Part::Node(n, None, None),
            Top::Tree(t) => Part::Tree(t, None),
        }];
        while let Some(part) = todo.pop() {
            match part {
                Part::Node(node, parent, made_by) => {
                    let Some(n) = self.nodes.get(&node) else { continue };
                    match n.elsewhere.span_of {
                        Some((tree, 0)) => todo.push(Part::Tree(tree, Some((node, parent, made_by)))),
                        Some(_) => {}
                        None => {
                            if parent.is_none() {
                                (id, orphan) = (Some(id_of(n)), n.elsewhere.client_said.flatten());
                            }
                            let me = spans.len() as u32;
                            spans.push(self.span_of_node(n, parent, made_by, is_over));
                            self.children(node, me, &mut todo);
                            self.forget(node);
                        }
                    }
                }
                Part::Tree(tree, by) => {
                    let Some(t) = self.held.trees.remove(&tree) else { continue };
                    if by.is_none() {
                        (id, orphan) = (Some(t.request.id), t.request.orphan);
                    }
                    self.graft(t, by, &mut spans, &mut todo);
                }
            }
        }
        Request { id: id.unwrap_or_default(), spans: self.in_order(spans), orphan }
    }

    /// Spans with each before all that it asked for, and those of one parent in order of time.
    fn in_order(&self, spans: Vec<Span>) -> Vec<Span> {
        let mut calls: Vec<Vec<u32>> = vec![Vec::new(); spans.len()];
        for (i, s) in spans.iter().enumerate() {
            if let Some(p) = s.parent {
                calls[p as usize].push(i as u32);
            }
        }
        let began = |i: &u32| {
            let h = spans[*i as usize].caller.as_ref().or(spans[*i as usize].callee.as_ref());
            h.map(|h| self.vantages.line.common(h.host, h.exchange.request.began))
        };
        calls.iter_mut().for_each(|c| c.sort_by_key(began));
        let mut order = Vec::with_capacity(spans.len());
        let mut todo = vec![0];
        while let Some(i) = todo.pop() {
            order.push(i);
            todo.extend(calls[i as usize].iter().rev());
        }
        let mut place = vec![0; spans.len()];
        order.iter().enumerate().for_each(|(at, &i)| place[i as usize] = at as u32);
        let mut spans: Vec<Option<Span>> = spans.into_iter().map(Some).collect();
        let taken = order.iter().filter_map(|&i| spans[i as usize].take());
        taken.map(|s| Span { parent: s.parent.map(|p| place[p as usize]), ..s }).collect()
    }

    /// A sniffed exchange that no other vantage saw, as a span.
    fn span_of_node(&self, n: &Node, parent: Option<u32>, made_by: Option<Rule>, is_over: bool) -> Span {
        let is_lossy = self.vantages.seen.get(&n.host).is_some_and(|s| s.losses.touch(n.row.request_first, n.row.at));
        let root = match n.parent {
            // who watches its client knows better
            Parent::Root(gap) if n.elsewhere.client_said.is_none() => gap,
            _ => None,
        };
        let open = (is_over && !n.is_closed()).then_some(Gap::AfterRecording);
        let gap = open.or(root).or(is_lossy.then_some(Gap::Losses));
        Span {
            parent,
            made_by,
            joined_by: None,
            caller: Some(n.half()),
            callee: None,
            doubts: n.doubts,
            open_calls: Vec::new(),
            gap,
            wire: Some(n.wire(Some(0), true)),
            refusals: Vec::new(),
        }
    }

    fn children(&self, node: NodeId, me: u32, todo: &mut Vec<Part>) {
        let Some(n) = self.nodes.get(&node) else { return };
        for &c in n.children.iter().rev() {
            if let Some(&Parent::Of(_, rule)) = self.nodes.get(&c).map(|n| &n.parent) {
                todo.push(Part::Node(c, Some(me), Some(rule)));
            }
        }
    }

    /// Takes over the spans of another vantage's request, with what the wire adds to them.
    fn graft(
        &mut self,
        t: Tree,
        by: Option<(NodeId, Option<u32>, Option<Rule>)>,
        spans: &mut Vec<Span>,
        todo: &mut Vec<Part>,
    ) {
        let base = spans.len() as u32;
        let mut added = Vec::new();
        for (i, mut s) in t.request.spans.into_iter().enumerate() {
            let me = base + i as u32;
            s.parent = s.parent.map(|p| p + base);
            if i == 0
                && let Some((_, parent, made_by)) = by
            {
                (s.parent, s.made_by) = (parent, made_by);
            }
            let found = t.nodes.get(i).copied().flatten();
            if let Some((node, n, by_numbers)) = found.and_then(|(id, by)| self.nodes.get(&id).map(|n| (id, n, by))) {
                let rule = if by_numbers { Rule::BytesTranslated } else { Rule::Bytes };
                let host = s.callee.as_ref().or(s.caller.as_ref()).map_or(n.host, |h| h.host);
                s.wire = Some(n.wire(self.offset(n, host), s.caller.is_none()));
                if s.caller.is_none() {
                    s.caller = Some(n.half());
                }
                if s.joined_by.is_none() {
                    s.joined_by = Some(rule);
                    *self.counts.joined.entry(rule).or_default() += 1;
                }
                if i == 0
                    && by.is_none()
                    && n.elsewhere.client_said.is_none()
                    && let Parent::Root(Some(gap)) = n.parent
                {
                    s.gap.get_or_insert(gap);
                }
                // the server's own vantage tells of its doubts
                if s.callee.is_none() {
                    s.doubts += n.doubts;
                }
                added.push((node, me));
            }
            spans.push(s);
        }
        for &(node, me) in added.iter().rev() {
            self.children(node, me, todo);
        }
        for (node, _) in added {
            self.forget(node);
        }
    }

    /// What leads from a sniffer's clock to that of a host, at the time of an exchange.
    fn offset(&self, n: &Node, host: HostId) -> Option<i64> {
        if n.host == host {
            return Some(0);
        }
        let at = n.row.request_first;
        let is_close = self.vantages.line.is_synchronised(n.host, host);
        let there = is_close.then(|| self.vantages.line.local(host, self.vantages.line.common(n.host, at)))?;
        i64::try_from(i128::from(there.0) - i128::from(at.0)).ok()
    }
}

/// The id that the request has for any vantage at its server.
fn id_of(n: &Node) -> u64 {
    let p = n.place;
    let server = Place { laddr: p.raddr, lport: p.rport, raddr: p.laddr, rport: p.lport, ..p };
    request_id(&server, &n.half().exchange)
}
