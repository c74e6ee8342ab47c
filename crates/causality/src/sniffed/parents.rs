//! For which request an exchange on the wire was made: the one that bears the same identifier, went to the address that
//! this one came from, and was being worked on. Only where there is one such request; time alone links nothing.

use super::Wires;
use super::learn::Address;
use super::node::{ABANDONED_NS, Node, NodeId, Parent};
use crate::evidence::{Gap, Rule};
use wakepath_model::ids::MonoNs;

/// A request that an exchange may have been made for.
struct Candidate {
    id: NodeId,
    shares: u32,
    is_comparable: bool,
    is_translated: bool,
    /// Its client has its server's address: it may itself have been made by what another candidate asked for.
    is_local: bool,
}

impl Wires<'_> {
    /// Finds the parent of an exchange, when all that began before it is known and nothing that began later was looked at.
    pub(super) fn decide(&mut self, id: NodeId) {
        let undecided = |n: &&Node| n.parent == Parent::Undecided;
        let Some(n) = self.nodes.get(&id).filter(undecided) else { return };
        let clients: Vec<Address> = n.clients().collect();
        let mut found: Vec<Candidate> = Vec::new();
        let mut others: Vec<NodeId> = Vec::new();
        for (i, address) in clients.iter().enumerate() {
            self.candidates(id, *address, i > 0, &mut found, &mut others);
        }
        let parent = self.choose(id, &found, &others, &clients);
        if let Parent::Of(p, _) = parent
            && let Some(p) = self.nodes.get_mut(&p)
        {
            p.children.push(id);
        }
        let Some(n) = self.nodes.get_mut(&id) else { return };
        n.parent = parent;
        for address in n.servers().collect::<Vec<_>>() {
            self.active.entry(address).or_default().push(id);
        }
        self.over(id);
        self.reconcile(id);
    }

    /// What a server was at work on when an exchange left its address: with the same identifier, and without.
    fn candidates(
        &mut self,
        id: NodeId,
        address: Address,
        is_translated: bool,
        found: &mut Vec<Candidate>,
        others: &mut Vec<NodeId>,
    ) {
        let (nodes, line, lossy) = (&self.nodes, &self.vantages.line, &self.vantages.lossy);
        let (Some(n), Some(list)) = (nodes.get(&id), self.active.get_mut(&address)) else { return };
        // exchanges come in order of begin, so what is over is over for all that follow
        list.retain(|c| nodes.get(c).is_some_and(|c| n.begin <= c.worked_until()));
        for &c_id in list.iter() {
            let c = &nodes[&c_id];
            // who watches a server sees every call that it makes, and calls of no other
            if c_id == id || c.elsewhere.server_watched != n.elsewhere.client_watched && lossy.is_empty() {
                continue;
            }
            let shares = n.shares(c);
            if shares == 0 {
                if !found.iter().any(|f| f.id == c_id) && !others.contains(&c_id) {
                    others.push(c_id);
                }
                continue;
            }
            if found.iter().any(|f| f.id == c_id) {
                continue;
            }
            found.push(Candidate {
                id: c_id,
                shares,
                // times of clocks that nothing relates closely say nothing
                is_comparable: line.is_synchronised(c.host, n.host),
                is_translated: is_translated || c.place.raddr != address,
                is_local: c.place.laddr == c.place.raddr,
            });
        }
    }

    fn choose(&mut self, id: NodeId, found: &[Candidate], others: &[NodeId], clients: &[Address]) -> Parent {
        let Some(n) = self.nodes.get(&id) else { return Parent::Root(None) };
        let (host, at, is_watched) = (n.host, n.row.request_first, n.elsewhere.client_watched);
        let best = found.iter().map(|c| c.shares).max().unwrap_or(0);
        let mut of_best = found.iter().filter(|c| c.shares == best);
        let only = of_best.next().filter(|_| of_best.next().is_none());
        let chosen = only.filter(|c| c.is_comparable && (found.len() == 1 || !c.is_local));
        if let Some(c) = chosen {
            let from = self.since(c.id, at);
            let lost = |s: &super::Seen| s.losses.touch(from, at) || clients.iter().any(|a| s.was_unseen(a, at));
            // another request with that identifier may be among what was lost
            if !self.vantages.seen.get(&host).is_some_and(lost) {
                let rule = if c.is_translated { Rule::WitnessTranslated } else { Rule::Witness };
                return Parent::Of(c.id, rule);
            }
            self.doubt([c.id]);
            return Parent::Root(Some(Gap::Losses));
        }
        if !found.is_empty() {
            if !is_watched {
                self.doubt(found.iter().map(|c| c.id));
                self.counts.ambiguous += 1;
            }
            return Parent::Root(Some(Gap::Ambiguous));
        }
        if !others.is_empty() {
            if !is_watched {
                self.doubt(others.iter().copied());
                self.counts.unwitnessed += 1;
            }
            return Parent::Root(Some(Gap::Unwitnessed));
        }
        Parent::Root(self.may_be_hidden(host, at, clients))
    }

    /// Since when there may have been exchanges with a candidate's identifier, besides it: since the first of those that it
    /// was made for, or where that is not known, for long.
    fn since(&self, candidate: NodeId, at: MonoNs) -> MonoNs {
        let (mut from, mut id) = (at, candidate);
        let host = self.nodes.get(&candidate).map(|n| n.host);
        while let Some(n) = self.nodes.get(&id) {
            if Some(n.host) != host {
                return MonoNs(from.0.saturating_sub(ABANDONED_NS as u64));
            }
            from = from.min(n.row.request_first);
            match n.parent {
                Parent::Of(p, _) => id = p,
                Parent::Root(None) => break,
                _ => return MonoNs(from.0.saturating_sub(ABANDONED_NS as u64)),
            }
        }
        from
    }

    /// Why the request that an exchange was made for may be none of those captured.
    fn may_be_hidden(&self, host: wakepath_model::ids::HostId, at: MonoNs, clients: &[Address]) -> Option<Gap> {
        let seen = self.vantages.seen.get(&host)?;
        let from = MonoNs(at.0.saturating_sub(ABANDONED_NS as u64));
        clients.iter().find_map(|a| match () {
            () if seen.is_older(a, at) => Some(Gap::BeforeRecording),
            () if seen.was_unseen(a, at) => Some(Gap::Losses),
            () if seen.serves(a) && seen.losses.touch(from, at) => Some(Gap::Losses),
            () => None,
        })
    }

    fn doubt(&mut self, all: impl IntoIterator<Item = NodeId>) {
        for id in all {
            if let Some(n) = self.nodes.get_mut(&id) {
                n.doubts += 1;
            }
        }
    }
}
