//! Pools of connections, found by who waited for whom to give one back.
//!
//! A connection that tasks of a process use one after the other is shared. Where a task slept until the one that had
//! used a connection last woke it, and then used that very connection, it was handed over: the pool had none left. How
//! many there are is how many were in use at such moments. A pool that nobody waited for limits nothing, and nothing
//! shows its size. Logical tasks, whose waits nobody records, take turns: [`turns`].

mod turns;

use super::holds::{Hold, Tokens};
use super::visits::{Visits, median, waits};
use crate::jobs::{Pool, PoolId};
use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_analysis::names::Names;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::Request;
use wakepath_graph::Index;
use wakepath_model::ids::{EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::EndedBy;

/// Least hand-overs that make a pool: fewer may be chance.
const HANDED_OVER_MIN: usize = 8;
/// And least share of all uses.
const HANDED_OVER_SHARE: f64 = 0.01;

/// A connection in the hands of one visit: from the first message of a run of exchanges to the last reply.
struct Use {
    group: u32,
    flow: EndpointId,
    task: TaskId,
    visit: (u32, u32),
    /// In whose name, where that is not a task of the kernel.
    logical: Option<TaskId>,
    /// The visit did nothing else any more that was seen: it had been taken up, and its calls before were answered.
    wanted: MonoNs,
    /// The visit's own begin and end.
    within: (MonoNs, MonoNs),
    first: MonoNs,
    last: MonoNs,
    /// Where it waited for one: when it was wanted and when one was given back for it.
    handed: Option<(MonoNs, MonoNs)>,
    /// Whoever gave it back then had used this very connection.
    is_same: bool,
    /// When it was given on, where somebody waited for it.
    given: Option<MonoNs>,
}

impl Use {
    /// Whose it was.
    fn who(&self) -> TaskId {
        self.logical.unwrap_or(self.task)
    }
}

/// Begins and ends of a task's exchanges over a group's connections, by time.
type Exchanges = FxHashMap<(u32, TaskId), Vec<(MonoNs, MonoNs)>>;

/// Connections from one process to one service.
struct Group {
    host: HostId,
    process: u32,
    name: String,
}

/// The pools of connections through which services of `requests` called others. `turns` are waits known to be for
/// something else.
pub fn find(index: &Index, names: &Names<'_>, requests: &[Request], visits: &Visits, turns: &Tokens) -> Tokens {
    let (groups, mut uses, exchanges) = uses(names, requests, visits);
    let waited = handed(index, &groups, &mut uses, &exchanges, turns);
    let (mut out, mut holds, mut of_pools) = (Tokens::default(), Vec::new(), FxHashSet::default());
    for of_group in uses.chunk_by_mut(|a, b| a.group == b.group) {
        turns::find(of_group);
        if pool(&groups[of_group[0].group as usize], of_group, &mut out, &mut holds) {
            of_pools.insert(of_group[0].group);
        }
    }
    let waited = waited.into_iter().filter(|w| of_pools.contains(&w.0)).map(|w| w.1).collect();
    let mut found = Tokens::new(out.pools, holds, waited);
    (found.assumptions, found.unseen) = (out.assumptions, out.unseen);
    found
}

/// Finds out which uses waited for another to give a connection back: it ended their sleep in the middle of its own
/// visit, after its last use and before its next. Gives these waits by group.
///
/// Who gives one back and takes it again at once, before who was woken for it came, goes on with it: one use, in the midst of
/// which others were woken in vain. They wait on, until one is theirs.
fn handed(
    index: &Index,
    groups: &[Group],
    uses: &mut [Use],
    exchanges: &Exchanges,
    turns: &Tokens,
) -> Vec<(u32, (HostId, TaskId, MonoNs))> {
    let mut of_task: FxHashMap<(u32, TaskId), Vec<usize>> = FxHashMap::default();
    let mut order: Vec<usize> = (0..uses.len()).collect();
    order.sort_by_key(|&i| uses[i].first);
    for i in order {
        of_task.entry((uses[i].group, uses[i].task)).or_default().push(i);
    }
    let mut waited = Vec::new();
    // what a thread waits for says nothing of a logical task
    let of_threads: Vec<usize> = (0..uses.len()).filter(|&i| uses[i].logical.is_none()).collect();
    for i in of_threads {
        let u = &uses[i];
        let host = groups[u.group as usize].host;
        let own = of_task.get(&(u.group, u.task)).map_or(&[][..], Vec::as_slice);
        let before = own[..own.partition_point(|&j| uses[j].first < u.first)].last().map(|&j| &uses[j]);
        let from = before.map_or(u.within.0, |b| b.last.max(u.within.0));
        let (mut asked, mut had, mut in_vain) = (None, None, Vec::new());
        for w in waits(index, host, u.task, from, u.first) {
            let is_one = w.cause == EndedBy::Task && w.woken <= u.first && !turns.is_turn(host, u.task, w.blocked);
            let Some(of) = of_task.get(&(u.group, w.by)).filter(|_| is_one) else { continue };
            let last = of[..of.partition_point(|&j| uses[j].first <= w.woken)].last();
            let Some(&by) = last.filter(|&&j| w.woken <= uses[j].within.1) else { continue };
            let asking = exchanges.get(&(u.group, w.by)).map_or(&[][..], Vec::as_slice);
            let latest = asking[..asking.partition_point(|e| e.0 <= w.woken)].last();
            if latest.is_none_or(|e| e.1 > w.woken) {
                continue;
            }
            asked.get_or_insert(w.blocked);
            in_vain.push((u.group, (host, u.task, w.blocked)));
            if uses[by].last <= w.woken {
                waited.append(&mut in_vain);
                had = Some((w.woken, by));
            }
        }
        if let (Some(asked), Some((woken, by))) = (asked, had) {
            let is_same = uses[by].flow == uses[i].flow;
            (uses[i].handed, uses[i].is_same) = (Some((asked, woken)), is_same);
            let given = &mut uses[by].given;
            *given = Some(given.map_or(woken, |g| g.min(woken)));
        }
    }
    waited
}

/// All uses, by group, connection and time.
fn uses(names: &Names<'_>, requests: &[Request], visits: &Visits) -> (Vec<Group>, Vec<Use>, Exchanges) {
    let mut groups: Vec<Group> = Vec::new();
    let mut known: FxHashMap<(HostId, u32, String), u32> = FxHashMap::default();
    let mut uses: Vec<Use> = Vec::new();
    for v in visits.all() {
        let r = &requests[v.request as usize];
        let logical = (v.actor != v.task).then_some(v.actor);
        let ended = r
            .spans
            .iter()
            .filter(|s| s.parent == Some(v.span))
            .filter_map(|s| Some(s.caller.as_ref()?.exchange.reply.ended));
        let mut ended: Vec<MonoNs> = ended.collect();
        ended.sort_unstable();
        for s in r.spans.iter().filter(|s| s.parent == Some(v.span)) {
            let Some(asked) = s.caller.as_ref().filter(|c| c.host == v.host && c.exchange.is(ExchangeFlag::Replied))
            else {
                continue;
            };
            let e = &asked.exchange;
            let name = format!("{}->{}", names.service(&r.spans[v.span as usize]), names.service(s));
            let group = *known.entry((v.host, v.tgid, name)).or_insert_with_key(|k| {
                groups.push(Group { host: v.host, process: v.tgid, name: k.2.clone() });
                groups.len() as u32 - 1
            });
            uses.push(Use {
                group,
                flow: e.flow,
                task: e.request.task,
                visit: (v.request, v.span),
                logical,
                wanted: ended[..ended.partition_point(|at| *at <= e.request.began)]
                    .last()
                    .map_or(v.from, |at| v.from.max(*at)),
                within: (v.from, v.to),
                first: e.request.began,
                last: e.reply.ended.max(e.request.began),
                handed: None,
                is_same: false,
                given: None,
            });
        }
    }
    let mut exchanges: Exchanges = FxHashMap::default();
    for u in &uses {
        exchanges.entry((u.group, u.task)).or_default().push((u.first, u.last));
    }
    exchanges.values_mut().for_each(|all| all.sort_unstable());
    uses.sort_unstable_by_key(|u| (u.group, u.flow, u.first, u.last));
    uses.dedup_by(|next, last| {
        let is_same = (next.group, next.flow, next.visit) == (last.group, last.flow, last.visit);
        if is_same {
            last.last = last.last.max(next.last);
        }
        is_same
    });
    (groups, uses, exchanges)
}

/// One group's pool; whether it is one.
fn pool(group: &Group, uses: &[Use], out: &mut Tokens, holds: &mut Vec<Hold>) -> bool {
    let is_shared = uses.windows(2).any(|w| w[0].flow == w[1].flow && w[0].who() != w[1].who());
    if !is_shared {
        return false;
    }
    let same = uses.iter().filter(|u| u.is_same).count();
    let is_limit = same as f64 >= (HANDED_OVER_SHARE * uses.len() as f64).max(HANDED_OVER_MIN as f64);
    let of_pool = held(group, uses, out.pools.len());
    let most = most_at_once(&of_pool);
    if !is_limit {
        out.unseen.push(format!(
            "the size of the pool {}: nothing had to wait for a connection ({most} were in use at most); record it under \
             more load",
            group.name
        ));
        return false;
    }
    let waited = uses.iter().filter(|u| u.handed.is_some()).count();
    out.pools.push(Pool { name: group.name.clone(), tokens: most, is_lock: false, process: Some(group.process) });
    out.assumptions.push(format!(
        "the pool {} has {most} connections, each taken for all consecutive calls of a request ({waited} of {} uses waited \
         for one{})",
        group.name,
        uses.len(),
        turns::assumption(uses)
    ));
    holds.extend(of_pool);
    true
}

/// Uses as holds: with what passes between having a connection and its first message, and between its last reply and
/// giving it back.
fn held(group: &Group, uses: &[Use], pool: PoolId) -> Vec<Hold> {
    let mut before: Vec<u64> = uses.iter().filter_map(|u| Some(u.first.0.saturating_sub(u.handed?.1.0))).collect();
    let mut after: Vec<u64> = uses.iter().filter_map(|u| Some(u.given?.0.saturating_sub(u.last.0))).collect();
    let (before, after) = (median(&mut before), median(&mut after));
    let mut out: Vec<Hold> = Vec::with_capacity(uses.len());
    let mut last: Option<&Use> = None;
    for u in uses {
        let floor = last.filter(|l| l.flow == u.flow).map_or(u.within.0, |l| l.last.max(u.within.0));
        // where another was faster, what it got was given back later than what woke it
        let (asked, taken) = match u.handed {
            Some((asked, had)) => (asked, had.max(floor)),
            None => {
                let taken = MonoNs(u.first.0.saturating_sub(before)).max(floor);
                (taken, taken)
            }
        };
        let taken = taken.min(u.first);
        let asked = asked.min(taken);
        if let (Some(l), Some(hold)) = (last.filter(|l| l.flow == u.flow), out.last_mut()) {
            hold.given = hold.given.min(taken).max(l.last);
        }
        let given = u.given.unwrap_or(MonoNs(u.last.0 + after)).min(u.within.1).max(u.last);
        out.push(Hold { host: group.host, task: u.who(), pool, asked, taken, given });
        last = Some(u);
    }
    out
}

/// Most that were held at the same time.
fn most_at_once(holds: &[Hold]) -> u32 {
    let mut steps: Vec<(MonoNs, i32)> = holds.iter().flat_map(|h| [(h.taken, 1), (h.given, -1)]).collect();
    // what is given back is there for who takes at the same moment
    steps.sort_unstable();
    let (mut now, mut most) = (0i32, 0i32);
    for (_, step) in steps {
        now += step;
        most = most.max(now);
    }
    most.max(0) as u32
}
