//! Which machines had a part in what: items carry the identities of the machines that they come from (section 3.3).
//!
//! A machine's output has the identities of what it took since its last output, and its own. Two rules keep the flows
//! of machines that serve several apart. What comes back to the machine from which it set out has ended its journey: the
//! machine's next output begins a new one. And where a machine took several items for an output, those that have been
//! through it before are credits for something that went before, and add nothing.

use rustc_hash::FxHashMap;

/// Different sets that are told apart.
const SETS_MAX: usize = 1 << 16;
/// Machines in one.
const MEMBERS_MAX: usize = 64;
/// Items that one output is made of, told apart.
const CONSUMED_MAX: usize = 16;
/// From before the recording: of nobody.
pub(super) const NOBODY: u32 = u32::MAX;

/// A set of machines, and the one in which the journey began.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Set {
    origin: u32,
    members: Box<[u32]>,
}

/// What a machine has taken for its next output.
#[derive(Clone, Debug, Default)]
pub(super) struct Context {
    consumed: Vec<u32>,
    /// The set of its outputs, until it takes something again.
    current: Option<u32>,
}

/// All sets.
#[derive(Default)]
pub(super) struct Journeys {
    sets: Vec<Set>,
    ids: FxHashMap<Set, u32>,
    unions: FxHashMap<(u32, u32), u32>,
    /// How often a set was not told apart from its machine's own.
    pub limited: u64,
    /// Items that reached a machine, by the set with which they came and the machine.
    delivered: FxHashMap<(u32, u32), u64>,
}

impl Journeys {
    fn id(&mut self, set: Set) -> Option<u32> {
        if let Some(id) = self.ids.get(&set) {
            return Some(*id);
        }
        if self.sets.len() >= SETS_MAX || set.members.len() > MEMBERS_MAX {
            self.limited += 1;
            return None;
        }
        let id = self.sets.len() as u32;
        self.sets.push(set.clone());
        self.ids.insert(set, id);
        Some(id)
    }

    /// The set of a machine alone; [`NOBODY`] where there are too many.
    fn alone(&mut self, machine: u32) -> u32 {
        self.id(Set { origin: machine, members: Box::new([machine]) }).unwrap_or(NOBODY)
    }

    /// Whether a machine had a part in an item.
    pub fn has(&self, set: u32, machine: u32) -> bool {
        self.sets.get(set as usize).is_some_and(|s| s.members.binary_search(&machine).is_ok())
    }

    /// Both, begun where `a` began.
    fn union(&mut self, a: u32, b: u32) -> u32 {
        if a == b || b == NOBODY {
            return a;
        }
        if a == NOBODY {
            return b;
        }
        if let Some(known) = self.unions.get(&(a, b)) {
            return *known;
        }
        let (left, right) = (&self.sets[a as usize], &self.sets[b as usize]);
        let mut members = [&*left.members, &*right.members].concat();
        members.sort_unstable();
        members.dedup();
        let set = Set { origin: left.origin, members: members.into() };
        let id = self.id(set).unwrap_or(a);
        if self.unions.len() < SETS_MAX {
            self.unions.insert((a, b), id);
        }
        id
    }

    /// A machine takes items with that set.
    pub fn consume(&mut self, context: &mut Context, machine: u32, set: u32, count: u64) {
        if context.current.take().is_some() {
            context.consumed.clear();
        }
        if set == NOBODY {
            return;
        }
        let known = self.delivered.len() < SETS_MAX;
        match self.delivered.get_mut(&(set, machine)) {
            Some(n) => *n = n.saturating_add(count),
            None if known => {
                self.delivered.insert((set, machine), count);
            }
            None => {}
        }
        if context.consumed.last() != Some(&set) && context.consumed.len() < CONSUMED_MAX {
            context.consumed.push(set);
        }
    }

    /// The set of what a machine puts out now.
    pub fn produce(&mut self, context: &mut Context, machine: u32) -> u32 {
        if let Some(set) = context.current {
            return set;
        }
        let own = self.alone(machine);
        let is_new = |set: &u32| !self.has(*set, machine);
        let only_new = context.consumed.iter().any(is_new);
        let consumed: Vec<u32> = context.consumed.iter().copied().filter(|s| !only_new || is_new(s)).collect();
        let mut set = NOBODY;
        for s in consumed {
            if self.sets.get(s as usize).is_none_or(|s| s.origin != machine) {
                set = self.union(set, s);
            }
        }
        let set = self.union(set, own);
        context.current = Some(set);
        set
    }

    /// The sets of machines that had a part in the same items, those that are part of another left out, the largest
    /// first, with how many items came so far.
    pub fn flows(&self, max: usize) -> Vec<(Vec<u32>, u64)> {
        let mut all: FxHashMap<Vec<u32>, u64> = FxHashMap::default();
        for (&(set, machine), &items) in &self.delivered {
            let mut members = self.sets[set as usize].members.to_vec();
            if let Err(at) = members.binary_search(&machine) {
                members.insert(at, machine);
            }
            let sum = all.entry(members).or_default();
            *sum = sum.saturating_add(items);
        }
        let mut all: Vec<(Vec<u32>, u64)> = all.into_iter().collect();
        all.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.0.cmp(&b.0)));
        let mut flows: Vec<(Vec<u32>, u64)> = Vec::new();
        for (members, items) in all {
            let is_part = |whole: &[u32]| members.iter().all(|m| whole.binary_search(m).is_ok());
            if flows.len() < max && !flows.iter().any(|(whole, _)| is_part(whole)) {
                flows.push((members, items));
            }
        }
        flows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Machines 0 and 1 are clients, 2 a driver that both use, 3 and 4 servers.
    #[test]
    fn flows_through_a_shared_machine_are_told_apart() {
        let mut j = Journeys::default();
        let mut contexts = vec![Context::default(); 5];
        let mut credit = NOBODY;
        for _ in 0..3 {
            for (client, server) in [(0u32, 3u32), (1, 4)] {
                let request = j.produce(&mut contexts[client as usize], client);
                // the driver takes a credit that the last packet gave back, and the packet
                j.consume(&mut contexts[2], 2, credit, 1);
                j.consume(&mut contexts[2], 2, request, 1);
                let packet = j.produce(&mut contexts[2], 2);
                credit = packet;
                j.consume(&mut contexts[server as usize], server, packet, 1);
                let reply = j.produce(&mut contexts[server as usize], server);
                assert!(j.has(reply, client) && j.has(reply, 2) && !j.has(reply, 1 - client));
                j.consume(&mut contexts[client as usize], client, reply, 1);
            }
        }
        let flows: Vec<Vec<u32>> = j.flows(10).into_iter().map(|f| f.0).collect();
        assert_eq!(flows, [vec![0, 2, 3], vec![1, 2, 4]]);
        assert_eq!(j.limited, 0);
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered() {
        let mut j = Journeys::default();
        let mut sink = Context::default();
        for machine in 0..SETS_MAX as u32 + 100 {
            let set = j.produce(&mut Context::default(), machine);
            j.consume(&mut sink, u32::MAX - 1, set, 1);
        }
        assert!(j.sets.len() <= SETS_MAX && j.limited >= 100);
        assert!(sink.consumed.len() <= CONSUMED_MAX);
        let all = j.produce(&mut sink, u32::MAX - 1);
        assert!(all == NOBODY || j.has(all, 0));
    }
}
