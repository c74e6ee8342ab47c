//! Accept queues that filled up: what clients wait for before a request begins.

use crate::units;
use serde::Serialize;
use wakepath_analysis::listeners::Filled;

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

impl FullQueueView {
    pub(super) fn new(listener: &str, f: &Filled) -> FullQueueView {
        let times = |n: u64| if n == 1 { "once".to_owned() } else { format!("{} times", units::count(n)) };
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
