//! Who was serving which request when, of all requests at once.

use wakepath_analysis::names::Names;
use wakepath_causality::exchange::Exchange;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::Request;
use wakepath_graph::Index;
use wakepath_model::ids::{HostId, MonoNs, TaskId};
use wakepath_model::rows::{EndedBy, WaitRow};

/// Most waits of one visit that are looked at.
const WAITS_MAX: u64 = 1 << 16;

/// A task that serves a request, from taking it up to the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// On which host.
    pub host: HostId,
    /// Who.
    pub task: TaskId,
    /// In whose name: a logical task (a goroutine), or the task itself.
    pub actor: TaskId,
    /// Its process.
    pub tgid: u32,
    /// When it took the request up.
    pub from: MonoNs,
    /// When it had sent the reply.
    pub to: MonoNs,
    /// Index of the request.
    pub request: u32,
    /// Index of its span there.
    pub span: u32,
}

/// All visits of some requests, by task and time.
pub struct Visits {
    all: Vec<Visit>,
}

impl Visits {
    /// Those of which the server is watched and the reply was seen.
    pub fn of(names: &Names<'_>, requests: &[Request]) -> Visits {
        let mut all = Vec::new();
        for (i, r) in requests.iter().enumerate() {
            for (j, s) in r.spans.iter().enumerate() {
                let Some(served) = &s.callee else { continue };
                let (e, host) = (&served.exchange, served.host);
                if e.is(ExchangeFlag::Replied) && e.reply.ended > e.request.began {
                    let tgid = names.tgid(host, e.request.task);
                    let (request, span) = (i as u32, j as u32);
                    let (task, actor) = (e.request.task, actor(e));
                    all.push(Visit {
                        host,
                        task,
                        actor,
                        tgid,
                        from: e.request.began,
                        to: e.reply.ended,
                        request,
                        span,
                    });
                }
            }
        }
        all.sort_unstable_by_key(|v| (v.host, v.task, v.from, v.to, v.request, v.span));
        Visits { all }
    }

    /// All of them, by host, task and begin.
    pub fn all(&self) -> &[Visit] {
        &self.all
    }

    /// What a task was serving at a moment: of several, what it took up last.
    pub fn at(&self, host: HostId, task: TaskId, at: MonoNs) -> Option<&Visit> {
        self.place_at(host, task, at).map(|i| &self.all[i])
    }

    /// Its place in [`Visits::all`].
    pub fn place_at(&self, host: HostId, task: TaskId, at: MonoNs) -> Option<usize> {
        // an event loop may be serving many
        const AT_ONCE_MAX: usize = 64;
        let after = self.all.partition_point(|v| (v.host, v.task, v.from) <= (host, task, at));
        let first = after.saturating_sub(AT_ONCE_MAX);
        (first..after).rev().find(|&i| (self.all[i].host, self.all[i].task) == (host, task) && at <= self.all[i].to)
    }
}

/// In whose name an exchange was begun: that of a logical task, or the task itself.
pub fn actor(e: &Exchange) -> TaskId {
    if e.request.actor == TaskId::UNKNOWN { e.request.task } else { e.request.actor }
}

/// The waits of a task that began between two moments, by time, preemptions left out.
pub fn waits(
    index: &Index,
    host: HostId,
    task: TaskId,
    from: MonoNs,
    to: MonoNs,
) -> impl Iterator<Item = WaitRow> + '_ {
    let first = index.waits_from(host, task, from);
    (first..first.saturating_add(WAITS_MAX))
        .map_while(move |place| index.wait(host, task, place))
        .take_while(move |w| w.blocked < to)
        .filter(|w| w.cause != EndedBy::Preempted && w.cause != EndedBy::Open)
}

/// Whether a task slept in the kernel's queue of those that wait at an address: locks, conditions, semaphores.
pub fn is_futex(w: &WaitRow) -> bool {
    // futex, futex_waitv, futex_wait of x86-64
    matches!(w.syscall, 202 | 449 | 455)
}

/// The middle one of some values; 0 where there are none.
pub fn median(values: &mut [u64]) -> u64 {
    if values.is_empty() {
        return 0;
    }
    let middle = values.len() / 2;
    *values.select_nth_unstable(middle).1
}
