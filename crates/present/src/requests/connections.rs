//! What no request shows of a service's connections: replies that TCP held back after the service's last write, for which
//! clients wait after a request has ended, and connections that were closed unread.

use crate::units;
use serde::Serialize;
use wakepath_analysis::connections::{ClosedUnread, HeldReplies};

/// A service whose replies TCP held back.
#[derive(Clone, Debug, Serialize)]
pub struct HeldRepliesView {
    /// Who serves: name and port.
    pub service: String,
    /// Replies whose last bytes were held back for an acknowledgement of earlier ones.
    pub held: u64,
    /// Of so many after which the client sent more on the connection.
    pub replies: u64,
    /// The same in words.
    pub sentence: String,
}

impl HeldRepliesView {
    /// Of what was found; `service`: name and port.
    pub fn new(service: &str, h: &HeldReplies) -> HeldRepliesView {
        let sentence = format!(
            "{service} wrote replies in several pieces, and TCP held the last piece back in {} of {}, until the client \
             acknowledged the earlier ones (Nagle's algorithm). A client may delay that by some 40 ms; where packets are \
             lost it takes longer. If the client is not \
             recorded, no duration here contains it. TCP_NODELAY, or one write for each reply, ends it.",
            units::count(h.held),
            units::count(h.replies),
        );
        HeldRepliesView { service: service.to_owned(), held: h.held, replies: h.replies, sentence }
    }
}

/// A service that closed connections unread.
#[derive(Clone, Debug, Serialize)]
pub struct ClosedUnreadView {
    /// Who serves: name and port.
    pub service: String,
    /// Connections closed without reading what the client sent.
    pub closed: u64,
    /// Of so many that it accepted.
    pub accepted: u64,
    /// The same in words.
    pub sentence: String,
}

impl ClosedUnreadView {
    /// Of what was found; `service`: name and port.
    pub fn new(service: &str, c: &ClosedUnread) -> ClosedUnreadView {
        let sentence = format!(
            "{service} closed {} of {} connections without reading what the client sent",
            units::count(c.closed),
            units::count(c.accepted),
        );
        ClosedUnreadView { service: service.to_owned(), closed: c.closed, accepted: c.accepted, sentence }
    }
}
