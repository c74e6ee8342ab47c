//! Where in a visit a lock is held, by those holds that were seen whole.

use super::super::holds::Hold;
use super::super::visits::{Visit, Visits, is_futex, median, waits};
use super::Seen;
use rustc_hash::FxHashMap;
use wakepath_graph::Index;
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::WaitRow;

/// What a hold of a lock is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Typical {
    /// How long (ns): the median.
    pub held_ns: u64,
    /// The longest (ns).
    pub longest_ns: u64,
    /// How many holds both ends of which were seen.
    pub count: usize,
    /// How many of these took more than [`LONG`] times the median.
    pub long: usize,
    /// The system call in which its holder sleeps, where nearly all do, with what is before it in the hold and after (ns).
    sleep: Option<(u16, u64, u64)>,
    /// Running time of the visit before it (ns).
    ran_ns: u64,
    /// Calls that have been made before it.
    calls: usize,
}

/// A hold of so many times the median is not like the others.
pub(super) const LONG: u64 = 10;
/// What share of holds makes what they have in common typical.
const NEARLY_ALL: f64 = 0.8;

impl Typical {
    /// By the holds of which both ends were seen; `calls` are those of each one's visit. `None` where there are none.
    pub fn of(index: &Index, visits: &Visits, calls: &[Vec<(MonoNs, MonoNs)>], seen: &[Seen]) -> Option<Typical> {
        let (mut held, mut ran, mut before) = (Vec::new(), Vec::new(), Vec::new());
        let mut sleeps: FxHashMap<u16, Vec<(u64, u64)>> = FxHashMap::default();
        for (s, calls) in seen.iter().zip(calls) {
            let v = &visits.all()[s.visit];
            if let (Some((asked, taken)), Some(given)) = (s.handed, s.given) {
                held.push(given.0 - taken.0);
                ran.push(ran_until(index, v, asked));
                before.push(calls.iter().filter(|c| c.1 <= taken).count() as u64);
                let longest = slept(index, v, taken, given).max_by_key(|w| w.at.0 - w.blocked.0);
                if let Some(w) = longest {
                    let of = sleeps.entry(w.syscall).or_default();
                    of.push((w.blocked.0 - taken.0, given.0.saturating_sub(w.at.0)));
                }
            }
        }
        let all = held.len();
        let most = sleeps.into_iter().max_by_key(|(syscall, of)| (of.len(), *syscall));
        let sleep = most.filter(|(_, of)| of.len() as f64 >= NEARLY_ALL * all as f64).map(|(syscall, of)| {
            let (mut lead, mut trail): (Vec<u64>, Vec<u64>) = of.into_iter().unzip();
            (syscall, median(&mut lead), median(&mut trail))
        });
        let (held_ns, ran_ns, calls) = (median(&mut held), median(&mut ran), median(&mut before) as usize);
        let longest_ns = held.iter().copied().max().unwrap_or(0);
        let long = held.iter().filter(|ns| **ns > LONG * held_ns).count();
        (all > 0).then_some(Typical { held_ns, longest_ns, count: all, long, sleep, ran_ns, calls })
    }

    /// The seen holds, with what of them was not seen. Their pool is 0.
    pub fn complete(&self, index: &Index, visits: &Visits, seen: &[Seen]) -> Vec<Hold> {
        let mut out: Vec<Hold> = Vec::with_capacity(seen.len());
        let mut last: Option<(usize, MonoNs)> = None;
        for s in seen {
            let v = &visits.all()[s.visit];
            let floor = last.filter(|l| l.0 == s.visit).map_or(v.from, |l| l.1);
            let (asked, taken, given) = match (s.handed, s.given) {
                (Some((asked, taken)), Some(given)) => (asked, taken, given),
                (Some((asked, taken)), None) => (asked, taken, self.end(index, v, taken)),
                // who lets go wakes several, and may be preempted in between
                (None, Some(given)) if last.is_some_and(|l| l.0 == s.visit && given.0 < l.1.0 + self.held_ns / 2) => {
                    continue;
                }
                (None, Some(given)) => {
                    let taken = self.begin(index, v, given).max(floor).min(given);
                    (taken, taken, given)
                }
                (None, None) => continue,
            };
            last = Some((s.visit, given));
            out.push(Hold { host: v.host, task: v.task, pool: 0, asked, taken, given });
        }
        out
    }

    /// How long it is held, with what the median does not show.
    pub fn sentence(&self) -> String {
        let ms = |ns: u64| ns as f64 / 1e6;
        if self.count == 1 {
            return format!("is held {:.3} ms at a time: one hold was seen whole", ms(self.held_ns));
        }
        let long = match self.long {
            0 => String::new(),
            n => format!(", and {n} took more than {LONG} times the median"),
        };
        format!(
            "is held {:.3} ms at a time (the median of {} holds that were seen whole; the longest took {:.3} ms{long})",
            ms(self.held_ns),
            self.count,
            ms(self.longest_ns)
        )
    }

    /// When who took it at a moment let go, with nobody waiting for that.
    fn end(&self, index: &Index, v: &Visit, taken: MonoNs) -> MonoNs {
        let given = match self.sleep {
            // who does not sleep with it found done what it wanted it for
            Some((syscall, _, trail)) => {
                let sleep = slept(index, v, taken, v.to).find(|w| w.syscall == syscall);
                sleep.map_or(taken, |w| MonoNs(w.at.0 + trail))
            }
            None => MonoNs(taken.0 + self.held_ns),
        };
        given.min(v.to)
    }

    /// When who let go at a moment had taken it, without waiting.
    fn begin(&self, index: &Index, v: &Visit, given: MonoNs) -> MonoNs {
        let sleep = self.sleep.and_then(|(syscall, lead, _)| {
            let last = slept(index, v, v.from, given).filter(|w| w.syscall == syscall && w.at <= given).last()?;
            Some(MonoNs(last.blocked.0.saturating_sub(lead)))
        });
        sleep.unwrap_or(MonoNs(given.0.saturating_sub(self.held_ns))).max(v.from)
    }

    /// Where a visit holds it in which neither end was seen; `None` where it has no place for it.
    pub fn unseen(&self, index: &Index, v: &Visit, calls: &[(MonoNs, MonoNs)]) -> Option<Hold> {
        let after_calls = self.calls.checked_sub(1).map_or(Some(v.from), |i| calls.get(i).map(|c| c.1))?;
        let before_calls = calls.get(self.calls).map_or(v.to, |c| c.0);
        let after = after_calls.max(v.from);
        let expected = when_ran(index, v, self.ran_ns).clamp(after, before_calls.max(after));
        let (taken, given) = match self.sleep {
            Some((syscall, lead, trail)) => {
                let fits = slept(index, v, after, v.to).filter(|w| w.syscall == syscall);
                let w = fits.min_by_key(|w| w.blocked.0.abs_diff(expected.0 + lead))?;
                (MonoNs(w.blocked.0.saturating_sub(lead)).max(after), MonoNs(w.at.0 + trail))
            }
            None => (expected, MonoNs(expected.0 + self.held_ns)),
        };
        Some(Hold { host: v.host, task: v.task, pool: 0, asked: taken, taken, given: given.min(v.to).max(taken) })
    }
}

/// Sleeps of a visit between two moments that no other task's letting go ended.
fn slept<'a>(index: &'a Index, v: &Visit, from: MonoNs, to: MonoNs) -> impl Iterator<Item = WaitRow> + use<'a> {
    waits(index, v.host, v.task, from, to).filter(|w| !is_futex(w))
}

/// How long a visit had run, of the time until a moment (ns).
fn ran_until(index: &Index, v: &Visit, at: MonoNs) -> u64 {
    let mut slept = 0;
    for w in waits(index, v.host, v.task, v.from, at) {
        slept += w.at.min(at).0.saturating_sub(w.blocked.0);
    }
    at.0.saturating_sub(v.from.0).saturating_sub(slept)
}

/// When a visit had run for so long (ns).
fn when_ran(index: &Index, v: &Visit, ran_ns: u64) -> MonoNs {
    let (mut left, mut from) = (ran_ns, v.from);
    for w in waits(index, v.host, v.task, v.from, v.to) {
        let ran = w.blocked.0.saturating_sub(from.0);
        if ran >= left {
            break;
        }
        left -= ran;
        from = from.max(w.at);
    }
    MonoNs(from.0 + left).min(v.to)
}

#[cfg(test)]
mod tests {
    use super::Typical;

    #[test]
    fn long_holds_are_told_beside_the_median() {
        let typical =
            Typical { held_ns: 521_000, longest_ns: 60_000_000, count: 105, long: 5, sleep: None, ran_ns: 0, calls: 0 };
        assert_eq!(
            typical.sentence(),
            "is held 0.521 ms at a time (the median of 105 holds that were seen whole; the longest took 60.000 ms, and 5 took \
             more than 10 times the median)"
        );
        let one = Typical { longest_ns: 521_000, count: 1, long: 0, ..typical };
        assert_eq!(one.sentence(), "is held 0.521 ms at a time: one hold was seen whole");
    }
}
