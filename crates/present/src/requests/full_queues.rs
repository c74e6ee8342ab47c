//! Accept queues that filled up: what clients wait for before a request begins.

use crate::units;
use serde::Serialize;
use wakepath_analysis::listeners::{Filled, Starved};

/// A listener whose accept queue filled up.
#[derive(Serialize)]
pub struct FullQueueView {
    /// Who listens: name and port.
    pub listener: String,
    /// How many connections have room.
    pub room: u64,
    /// How often it was seen full.
    pub times: u64,
    /// How often clients on the same host asked again, unanswered; clients elsewhere are not seen.
    pub asked_again: u64,
    /// The same in words.
    pub sentence: String,
}

/// A listener from which no connection could be taken, since no descriptor was left.
#[derive(Serialize)]
pub struct StarvedView {
    /// Who listens: name and port.
    pub listener: String,
    /// The whole host had no descriptor left, and not the process alone.
    pub is_host: bool,
    /// How often accept failed.
    pub times: u64,
    /// The same in words.
    pub sentence: String,
}

fn times(n: u64) -> String {
    if n == 1 { "once".to_owned() } else { format!("{} times", units::count(n)) }
}

impl StarvedView {
    pub(super) fn new(listener: &str, s: &Starved) -> StarvedView {
        let (who, remedy) = match s.is_host {
            true => ("the host", "raise `fs.file-max`, or close what is not used"),
            false => (
                "its process",
                "raise its limit (`ulimit -n`, `LimitNOFILE=` of its unit), or close connections and files that are not used",
            ),
        };
        let sentence = format!(
            "{listener} failed to accept a connection {}, because {who} reached its limit of open files: clients wait in the \
             accept queue until a descriptor is free. Remedy: {remedy}.",
            times(s.times),
        );
        StarvedView { listener: listener.to_owned(), is_host: s.is_host, times: s.times, sentence }
    }
}

impl FullQueueView {
    pub(super) fn new(listener: &str, f: &Filled) -> FullQueueView {
        let again = match f.asked_again {
            0 => String::new(),
            n => format!(" Clients on this host had to retry at least {}.", times(n)),
        };
        let sentence = format!(
            "The accept queue of {listener} (room for {}) filled up {}: until a connection is accepted, the kernel drops new connection attempts, and the client retries after 1 s or more.{again} The service's own times do not \
             contain that wait.",
            units::count(f.room),
            times(f.times),
        );
        FullQueueView {
            listener: listener.to_owned(),
            room: f.room,
            times: f.times,
            asked_again: f.asked_again,
            sentence,
        }
    }
}
