//! What came of a run, for people and for scripts.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::run::Plan;

/// How many different error texts are kept.
const PROBLEMS_MAX: usize = 8;

/// A request counts as late when it left this long after its time.
const LATE_MIN: Duration = Duration::from_millis(10);

/// What one thread saw; added up at the end.
pub struct Tally {
    /// For each route, the latencies by status; status 0 is no reply.
    routes: Vec<BTreeMap<u16, Vec<u64>>>,
    last_end_ns: u64,
    retries: u64,
    connections: u64,
    late: u64,
    late_max: Duration,
    problems: BTreeMap<String, u64>,
}

impl Tally {
    pub fn new(routes: usize) -> Self {
        Self {
            routes: vec![BTreeMap::new(); routes],
            last_end_ns: 0,
            retries: 0,
            connections: 0,
            late: 0,
            late_max: Duration::ZERO,
            problems: BTreeMap::new(),
        }
    }

    pub fn count(
        &mut self,
        route_index: usize,
        status: u16,
        latency_ns: u64,
        end_ns: u64,
        retries: u64,
        connected: bool,
    ) {
        self.routes[route_index].entry(status).or_default().push(latency_ns);
        self.last_end_ns = self.last_end_ns.max(end_ns);
        self.retries += retries;
        self.connections += u64::from(connected);
    }

    pub fn late(&mut self, by: Duration) {
        self.late += u64::from(by >= LATE_MIN);
        self.late_max = self.late_max.max(by);
    }

    pub fn problem(&mut self, text: &str) {
        if self.problems.len() < PROBLEMS_MAX || self.problems.contains_key(text) {
            *self.problems.entry(text.to_owned()).or_default() += 1;
        }
    }

    pub fn add(&mut self, other: Self) {
        for (mine, theirs) in self.routes.iter_mut().zip(other.routes) {
            for (status, mut latencies) in theirs {
                mine.entry(status).or_default().append(&mut latencies);
            }
        }
        self.last_end_ns = self.last_end_ns.max(other.last_end_ns);
        self.retries += other.retries;
        self.connections += other.connections;
        self.late += other.late;
        self.late_max = self.late_max.max(other.late_max);
        for (text, count) in other.problems {
            *self.problems.entry(text).or_default() += count;
        }
    }
}

/// Latencies in order, for quantiles.
struct Latencies(Vec<u64>);

impl Latencies {
    fn new(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        Self(values)
    }

    /// The smallest value that at least this share of all does not exceed; 0 of nothing.
    fn quantile(&self, share: f64) -> u64 {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    }

    fn json(&self) -> Value {
        json!({
            "p50_ns": self.quantile(0.50),
            "p95_ns": self.quantile(0.95),
            "p99_ns": self.quantile(0.99),
            "max_ns": self.quantile(1.0),
        })
    }
}

struct Route {
    name: String,
    statuses: BTreeMap<u16, u64>,
    latencies: Latencies,
}

/// The whole run.
pub struct Summary {
    seed: u32,
    mix: String,
    routes: Vec<Route>,
    all: Latencies,
    statuses: BTreeMap<u16, u64>,
    wall_s: f64,
    own_cpu_s: f64,
    retries: u64,
    connections: u64,
    late: u64,
    late_max: Duration,
    rate: Option<f64>,
    unsent: u64,
    unexpected: u64,
    problems: BTreeMap<String, u64>,
}

impl Summary {
    pub fn new(plan: &Plan, tally: Tally, begin_ns: u64, own_cpu_s: f64) -> Self {
        let mut all = Vec::new();
        let mut statuses = BTreeMap::new();
        let mut unexpected = 0;
        let mut routes = Vec::new();
        for (index, by_status) in tally.routes.into_iter().enumerate() {
            let name = plan.mix.route(index).to_owned();
            let mut counts = BTreeMap::new();
            let mut latencies = Vec::new();
            for (status, mut values) in by_status {
                let count = values.len() as u64;
                // One route fails on purpose; no other may.
                let as_expected = if name == "error" { status == 500 } else { (200..400).contains(&status) };
                unexpected += if as_expected { 0 } else { count };
                *statuses.entry(status).or_default() += count;
                counts.insert(status, count);
                if status != 0 {
                    latencies.append(&mut values);
                }
            }
            all.extend_from_slice(&latencies);
            routes.push(Route { name, statuses: counts, latencies: Latencies::new(latencies) });
        }
        let sent: u64 = statuses.values().sum();
        Self {
            seed: plan.seed,
            mix: plan.mix.to_string(),
            routes,
            all: Latencies::new(all),
            statuses,
            wall_s: tally.last_end_ns.saturating_sub(begin_ns) as f64 / 1e9,
            own_cpu_s,
            retries: tally.retries,
            connections: tally.connections,
            late: tally.late,
            late_max: tally.late_max,
            rate: plan.rate,
            unsent: plan.requests.map_or(0, |requests| requests.saturating_sub(sent)),
            unexpected,
            problems: tally.problems,
        }
    }

    /// Requests with a reply, whatever its status.
    pub fn answered(&self) -> u64 {
        self.all.0.len() as u64
    }

    /// Whether all were sent and answered as their route should.
    pub fn all_as_expected(&self) -> bool {
        self.unexpected == 0 && self.unsent == 0 && self.answered() > 0
    }

    fn per_second(&self) -> f64 {
        if self.wall_s > 0.0 { self.answered() as f64 / self.wall_s } else { 0.0 }
    }

    fn own_cpu_ns_per_request(&self) -> f64 {
        self.own_cpu_s * 1e9 / (self.answered().max(1) as f64)
    }

    pub fn json(&self) -> Value {
        let mut document = json!({
            "seed": self.seed,
            "mix": self.mix,
            "answered": self.answered(),
            "unsent": self.unsent,
            "unexpected": self.unexpected,
            "req_per_s": self.per_second(),
            "wall_s": self.wall_s,
            "own_cpu_s": self.own_cpu_s,
            "own_cpu_ns_per_req": self.own_cpu_ns_per_request(),
            "statuses": counts(&self.statuses),
            "connections_opened": self.connections,
            "retries": self.retries,
            "latency": self.all.json(),
            "routes": self.routes.iter().map(|route| {
                (route.name.clone(), json!({
                    "statuses": counts(&route.statuses),
                    "latency": route.latencies.json(),
                }))
            }).collect::<serde_json::Map<_, _>>(),
            "errors": self.problems,
        });
        if let Some(rate) = self.rate {
            document["rate"] = json!(rate);
            document["late"] = json!(self.late);
            document["late_max_ns"] = json!(self.late_max.as_nanos() as u64);
        }
        document
    }

    pub fn table(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_table(&mut text);
        text
    }

    fn write_table(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "{:<12} {:>9} {:>9} {:>9} {:>9} {:>9}  statuses",
            "route", "answered", "p50 ms", "p95 ms", "p99 ms", "max ms"
        )?;
        for route in self.routes.iter().filter(|route| !route.statuses.is_empty()) {
            write_row(out, &route.name, &route.latencies, &route.statuses)?;
        }
        write_row(out, "all", &self.all, &self.statuses)?;
        writeln!(
            out,
            "{:.0} req/s over {:.3} s; {} connections opened, {} retries; seed {}",
            self.per_second(),
            self.wall_s,
            self.connections,
            self.retries,
            self.seed
        )?;
        writeln!(
            out,
            "the generator itself took {:.2} CPU s, {:.1} us a request",
            self.own_cpu_s,
            self.own_cpu_ns_per_request() / 1e3
        )?;
        if let Some(rate) = self.rate {
            writeln!(
                out,
                "asked for {rate} req/s: {} left 10 ms late or more, at most {:.1} ms",
                self.late,
                self.late_max.as_secs_f64() * 1e3
            )?;
        }
        if self.unsent > 0 || self.unexpected > 0 {
            writeln!(out, "NOT as expected: {}, never sent: {}", self.unexpected, self.unsent)?;
        }
        for (problem, count) in &self.problems {
            writeln!(out, "  {count} x {problem}")?;
        }
        Ok(())
    }
}

fn counts(statuses: &BTreeMap<u16, u64>) -> Value {
    statuses.iter().map(|(status, count)| (status.to_string(), json!(count))).collect()
}

fn write_row(out: &mut String, name: &str, latencies: &Latencies, statuses: &BTreeMap<u16, u64>) -> std::fmt::Result {
    write!(out, "{name:<12} {:>9}", latencies.0.len())?;
    for share in [0.50, 0.95, 0.99, 1.0] {
        write!(out, " {:>9.2}", latencies.quantile(share) as f64 / 1e6)?;
    }
    let statuses: Vec<_> = statuses
        .iter()
        .map(|(status, count)| match status {
            0 => format!("none:{count}"),
            _ => format!("{status}:{count}"),
        })
        .collect();
    writeln!(out, "  {}", statuses.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let latencies = Latencies::new((1..=100).rev().collect());
        assert_eq!(latencies.quantile(0.50), 50);
        assert_eq!(latencies.quantile(0.99), 99);
        assert_eq!(latencies.quantile(1.0), 100);
        assert_eq!(Latencies::new(vec![7]).quantile(0.5), 7);
        assert_eq!(Latencies::new(Vec::new()).quantile(0.5), 0);
    }
}
