//! What came of a replay, and who could not go on.

use super::Source;
use super::actor::{Actor, Does, Stuck};
use super::engine::{Engine, Observe};
use super::station::Server;
use crate::critical::{Places, Sum};
use crate::outcome::{KindOutcome, Loop, Outcome, Share};
use crate::system::{KindId, QueueId};

/// So many stuck actors are named.
const NAMED: usize = 50;

impl<S: Source, O: Observe> Engine<'_, S, O> {
    pub(super) fn report(mut self) -> Outcome {
        let path = self.last_path();
        let (path, loops) = self.paths.whole(path);
        let places = self.places;
        let loops = loops.into_iter().map(|(queue, (ns, count), round)| Loop {
            closed_by: QueueId(queue),
            ns: ns.round() as u64,
            count,
            round: shares(places, round),
        });
        let mut loops: Vec<Loop> = loops.collect();
        loops.sort_by_key(|l| (std::cmp::Reverse(l.ns), l.closed_by));
        let kinds = self.kinds.iter_mut().enumerate().map(|(i, kind)| KindOutcome {
            kind: KindId(i as u32),
            latency: std::mem::take(&mut kind.latency),
            shares: shares(places, kind.sums.drain()),
        });
        let kinds = kinds.collect();
        let (first, last) = self.span.unwrap_or((0.0, 0.0));
        Outcome {
            elapsed_ns: self.now.round() as u64,
            transactions: self.transactions_ended,
            busy_span_ns: (last - first).round() as u64,
            kinds,
            path: shares(places, path),
            loops,
            stations: self.stations.iter().map(Server::report).collect(),
            queues: self.queues.iter().map(|q| q.report(self.now)).collect(),
            reordered: self.options.before.as_ref().map_or(0, |before| self.order.changed(before)),
            stuck: self.stuck_ones(),
            steps: self.steps,
            order: std::mem::take(&mut self.order),
        }
    }

    /// The path to the last end of an actor; where none has ended, that to whoever got farthest.
    fn last_path(&self) -> u32 {
        let live = self.actors.iter().filter(|a| a.does != Does::Gone);
        match self.has_ended {
            true => self.last,
            false => live.max_by(|a, b| a.since.total_cmp(&b.since)).map_or(self.last, |a| a.path),
        }
    }

    fn stuck_ones(&self) -> Vec<String> {
        let mut stuck = Vec::new();
        let mut more = 0usize;
        if self.is_cut {
            stuck.push(format!("the replay was cut off after {} steps", self.steps));
        } else {
            for actor in &self.actors {
                let Some(why) = self.why(actor) else { continue };
                if stuck.len() < NAMED {
                    let name = self.system.actors.get(actor.root as usize).map_or("", |a| a.name.as_str());
                    stuck.push(format!("{name} {why}"));
                } else {
                    more += 1;
                }
            }
        }
        if more > 0 {
            stuck.push(format!("and {more} more"));
        }
        stuck
    }

    fn why(&self, actor: &Actor) -> Option<String> {
        let queue = |queue: QueueId| self.system.queues.get(queue.index()).map_or("?", |q| q.name.as_str());
        let line = |queue: QueueId| &self.queues[queue.index()];
        Some(match actor.does {
            Does::Takes { queue: q, count, .. } => match line(q).capacity < count {
                true => format!("waits for {count} of {}, which never holds more than {}", queue(q), line(q).capacity),
                false => format!("waits for {count} of {}, which holds {}", queue(q), line(q).inside),
            },
            Does::Gives { queue: q, count, .. } | Does::Retries { queue: q, count, .. } => {
                let Some(capacity) = self.system.queues[q.index()].capacity else {
                    return Some(format!("waits for room in {}", queue(q)));
                };
                format!(
                    "waits for room for {count} in {}, where {} of {capacity} are taken",
                    queue(q),
                    line(q).occupied
                )
            }
            Does::Joins => format!("waits for {} that it started", actor.forked),
            Does::Works { state, .. } => {
                let state = &self.system.states[state.index()];
                let station = state.station.and_then(|s| self.system.stations.get(s.index()));
                format!("waits for {}, which has no server", station.map_or("nobody", |s| s.name.as_str()))
            }
            Does::Stuck(Stuck::TooMuch { queue: q, count }) => {
                format!("puts {count} into {}, which never holds more than {}", queue(q), line(q).capacity)
            }
            Does::Stuck(Stuck::Unknown(what)) => format!("names a {what} that the system has not"),
            Does::Stuck(Stuck::Recursion) => "runs a script that starts itself".to_owned(),
            Does::Stuck(Stuck::Forever) => "does something that never ends".to_owned(),
            Does::Runs | Does::Pauses | Does::Took { .. } | Does::Gave { .. } | Does::Ended | Does::Gone => {
                return None;
            }
        })
    }
}

/// Sums by place as shares, longest first.
fn shares(places: Places, sums: impl IntoIterator<Item = (u32, Sum)>) -> Vec<Share> {
    let share = |(number, (ns, count)): (u32, Sum)| {
        places.place(number).map(|place| Share { place, ns: ns.round() as u64, count })
    };
    let mut shares: Vec<Share> = sums.into_iter().filter_map(share).collect();
    shares.sort_by_key(|s| (std::cmp::Reverse(s.ns), s.place));
    shares
}
