//! Servers of work.

use crate::outcome::StationUse;
use crate::system::{Discipline, Station};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A station at work.
pub(super) struct Server {
    /// How fast a server is; not negative.
    pub(super) speed: f64,
    pub(super) serves: Serves,
    busy: f64,
    waited: f64,
}

/// In which way.
pub(super) enum Serves {
    /// Whoever comes, at once.
    All,
    /// In order of arrival.
    Fifo {
        free: u64,
        line: VecDeque<u32>,
    },
    Shared(Shared),
}

/// Equal parts for all. There is a time of its own that passes as fast as each job is served: a job is done when as much
/// of that has passed as it needs, whatever comes and goes meanwhile.
pub(super) struct Shared {
    /// Most that are busy at a time.
    servers: f64,
    budget: Option<Budget>,
    /// Its own time, at `at`.
    passed: f64,
    at: f64,
    order: u64,
    /// When each will be done, in its own time.
    jobs: BinaryHeap<Reverse<(u64, u64, u32)>>,
}

/// What may be used in each period.
struct Budget {
    /// Length of a period.
    period: f64,
    /// Server time of a whole period.
    each: f64,
    /// What is left of this one.
    left: f64,
    /// When it ends.
    until: f64,
}

impl Budget {
    /// When so many that are busy from `at` on have each run for so long.
    fn end(&self, at: f64, length: f64, busy: f64) -> f64 {
        let here = (self.until - at).min(self.left / busy);
        if length <= here {
            return at + length;
        }
        let each = self.period.min(self.each / busy);
        let left = length - here;
        // whole periods before the one in which it ends
        let before = ((left / each).ceil() - 1.0).max(0.0);
        self.until + before * self.period + (left - before * each)
    }

    /// A period has ended: nothing is kept of it.
    fn renew(&mut self, now: f64) {
        if now >= self.until {
            self.left = self.each;
            self.until = ((now / self.period).floor() + 1.0) * self.period;
        }
    }
}

impl Server {
    pub(super) fn new(station: &Station) -> Server {
        let positive = |v: f64| if v > 0.0 { v } else { 0.0 };
        let servers = positive(station.servers);
        let serves = match station.discipline {
            _ if servers.is_infinite() => Serves::All,
            Discipline::Fifo => Serves::Fifo { free: servers as u64, line: VecDeque::new() },
            Discipline::Shared => Serves::Shared(Shared {
                servers,
                budget: None,
                passed: 0.0,
                at: 0.0,
                order: 0,
                jobs: BinaryHeap::new(),
            }),
            Discipline::Quota { period_ns, at_once } => {
                let period = period_ns.max(1) as f64;
                let budget = Budget { period, each: servers * period, left: servers * period, until: period };
                let servers = if servers > 0.0 { f64::from(at_once).max(servers.ceil()) } else { 0.0 };
                let (passed, at, order, jobs) = (0.0, 0.0, 0, BinaryHeap::new());
                Serves::Shared(Shared { servers, budget: Some(budget), passed, at, order, jobs })
            }
        };
        Server { speed: positive(station.speed), serves, busy: 0.0, waited: 0.0 }
    }

    /// Server time used.
    pub(super) fn used(&mut self, ns: f64) {
        self.busy += ns;
    }

    /// Time that work waited.
    pub(super) fn waited(&mut self, ns: f64) {
        self.waited += ns;
    }

    pub(super) fn report(&self) -> StationUse {
        StationUse { busy_ns: self.busy.round() as u64, waited_ns: self.waited.round() as u64 }
    }
}

impl Shared {
    /// How much of a job is done in a unit of time.
    fn rate(&self, speed: f64) -> f64 {
        let jobs = self.jobs.len() as f64;
        if jobs <= self.servers { speed } else { speed * (self.servers / jobs) }
    }

    /// Lets time pass; gives the server time that was used meanwhile.
    fn advance(&mut self, now: f64, speed: f64) -> f64 {
        let length = now - self.at;
        self.at = now;
        if self.jobs.is_empty() {
            // begins anew, so that numbers stay small and exact
            self.passed = 0.0;
            if let Some(budget) = &mut self.budget {
                budget.renew(now);
            }
            return 0.0;
        }
        let (rate, busy) = (self.rate(speed), self.servers.min(self.jobs.len() as f64));
        let Some(budget) = &mut self.budget else {
            self.passed += length * rate;
            return length * busy;
        };
        let (mut at, mut used) = (now - length, 0.0);
        while at < now {
            budget.renew(at);
            let stop = budget.until.min(now);
            let runs = (stop - at).min(budget.left / busy);
            self.passed += runs * rate;
            budget.left -= runs * busy;
            used += runs * busy;
            at = stop;
        }
        budget.renew(now);
        used
    }

    /// A job comes that needs so much of a server at speed 1; gives the server time used until now.
    pub(super) fn add(&mut self, now: f64, speed: f64, slot: u32, ns: f64) -> f64 {
        let used = self.advance(now, speed);
        self.order += 1;
        self.jobs.push(Reverse(((self.passed + ns).to_bits(), self.order, slot)));
        used
    }

    /// When the next job is done if none comes before.
    pub(super) fn next_at(&self, speed: f64) -> f64 {
        let Some(Reverse((end, ..))) = self.jobs.peek() else { return f64::INFINITY };
        let left = (f64::from_bits(*end) - self.passed).max(0.0);
        let length = left / self.rate(speed);
        let at = match &self.budget {
            Some(budget) if length > 0.0 => budget.end(self.at, length, self.servers.min(self.jobs.len() as f64)),
            _ => self.at + length,
        };
        // no speed and nothing left
        if at.is_nan() { f64::INFINITY } else { at }
    }

    /// The first job is done now: it and those that are at the same time; gives the server time used until now.
    pub(super) fn finish(&mut self, now: f64, speed: f64, mut done: impl FnMut(u32)) -> f64 {
        let used = self.advance(now, speed);
        let Some(&Reverse((end, ..))) = self.jobs.peek() else { return used };
        self.passed = f64::from_bits(end);
        while let Some(&Reverse((next, _, slot))) = self.jobs.peek() {
            if next > end {
                break;
            }
            self.jobs.pop();
            done(slot);
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_share_and_none_is_faster_than_a_server() {
        let mut shared = Shared { servers: 2.0, budget: None, passed: 0.0, at: 0.0, order: 0, jobs: BinaryHeap::new() };
        let mut done = Vec::new();
        assert_eq!(shared.add(0.0, 1.0, 1, 30.0), 0.0);
        assert_eq!(shared.next_at(1.0), 30.0);
        assert_eq!(shared.add(10.0, 1.0, 2, 20.0), 10.0);
        assert_eq!(shared.add(10.0, 1.0, 3, 40.0), 0.0);
        // three on two servers: 20 are done in 30
        assert_eq!(shared.next_at(1.0), 40.0);
        assert_eq!(shared.finish(40.0, 1.0, |slot| done.push(slot)), 60.0);
        assert_eq!(done, [1, 2]);
        assert_eq!(shared.next_at(1.0), 60.0);
        assert_eq!(shared.finish(60.0, 1.0, |slot| done.push(slot)), 20.0);
        assert!(shared.jobs.is_empty() && done == [1, 2, 3]);
    }

    #[test]
    fn a_quota_runs_at_full_speed_until_it_is_used_up() {
        let discipline = Discipline::Quota { period_ns: 10, at_once: 2 };
        let station =
            Station { name: "web".into(), what: "processors", servers: 0.4, speed: 1.0, others: 0.0, discipline };
        let mut server = Server::new(&station);
        let Serves::Shared(shared) = &mut server.serves else { panic!("shared") };
        let mut done = Vec::new();
        // 4 in each 10: 3 at once, then what is left of the period, then the next one's
        shared.add(1.0, 1.0, 1, 3.0);
        assert_eq!(shared.next_at(1.0), 4.0);
        assert_eq!(shared.finish(4.0, 1.0, |slot| done.push(slot)), 3.0);
        shared.add(5.0, 1.0, 2, 3.0);
        assert_eq!(shared.next_at(1.0), 12.0);
        // another comes while nobody may run; both run from 10 on, and use it up at 12
        assert_eq!(shared.add(8.0, 1.0, 3, 3.0), 1.0);
        assert_eq!(shared.next_at(1.0), 12.0);
        assert_eq!(shared.finish(12.0, 1.0, |slot| done.push(slot)), 4.0);
        assert_eq!(shared.next_at(1.0), 21.0);
        assert_eq!(shared.finish(21.0, 1.0, |slot| done.push(slot)), 1.0);
        // one that needs several periods
        shared.add(100.0, 1.0, 4, 9.0);
        assert_eq!(shared.next_at(1.0), 121.0);
        assert_eq!(shared.finish(121.0, 1.0, |slot| done.push(slot)), 9.0);
        assert_eq!(done, [1, 2, 3, 4]);
    }

    #[test]
    fn without_servers_nothing_is_ever_done() {
        let station = |servers, speed| Station {
            name: "host".into(),
            what: "processors",
            servers,
            speed,
            others: 0.0,
            discipline: Discipline::Shared,
        };
        for (servers, speed) in [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (f64::NAN, f64::NAN)] {
            let mut server = Server::new(&station(servers, speed));
            let speed = server.speed;
            let Serves::Shared(shared) = &mut server.serves else { panic!("shared") };
            shared.add(0.0, speed, 0, 10.0);
            assert_eq!(shared.next_at(speed), f64::INFINITY);
        }
    }
}
