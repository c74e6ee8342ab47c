//! What is said on pipes and on nameless pairs of sockets: messages that were written and wait until their bytes are read.

use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use wakepath_model::rows::{MessageEndRow, MessageRow, OPEN, OpKind, OpRow};

/// A lane: the pipe, or the socket that receives.
pub(super) type Lane = u64;

/// Most messages of a lane that wait until they are read.
const UNREAD_MAX: usize = 1 << 12;

/// By how much the numbers of what is read from a lane are ahead of those of what is written: by what lay in it when the recording began.
/// Where it is empty before a write, the two differ by just that; the difference most often seen there.
#[derive(Clone, Copy, Default)]
pub(super) struct Skew {
    read_to: u64,
    most: u64,
    votes: u32,
}

impl Skew {
    pub(super) fn moved(&mut self, r: &OpRow, sent: bool) {
        if !sent {
            self.read_to = r.end;
            return;
        }
        let ahead = self.read_to.saturating_sub(r.start);
        match (ahead == self.most, self.votes) {
            (true, _) => self.votes += 1,
            (false, 0) => (self.most, self.votes) = (ahead, 1),
            (false, _) => self.votes -= 1,
        }
    }
}

/// What is said on lanes.
#[derive(Clone, Default)]
pub(super) struct Said {
    /// Lanes whose messages are read.
    read: FxHashSet<Lane>,
    /// See [`Skew`].
    ahead: FxHashMap<Lane, u64>,
    /// Up to where each was written, and read.
    moved: FxHashMap<Lane, [u64; 2]>,
    /// What was written and is not read yet.
    unread: FxHashMap<Lane, VecDeque<MessageRow>>,
}

impl Said {
    /// Whether the messages of a lane are read.
    pub(super) fn is_read(&self, lane: Lane) -> bool {
        self.read.contains(&lane)
    }

    /// The messages of this lane are read.
    pub(super) fn reads(&mut self, lane: Lane) {
        self.read.insert(lane);
    }

    /// Up to where it was written, and read.
    pub(super) fn moved(&self, lane: Lane) -> [u64; 2] {
        self.moved.get(&lane).copied().unwrap_or_default()
    }

    /// A message was written, which this is to its reader; false where too many wait to be read, and it is forgotten.
    pub(super) fn tells(&mut self, lane: Lane, r: MessageRow) -> bool {
        let unread = self.unread.entry(lane).or_default();
        let has_room = unread.len() < UNREAD_MAX;
        if has_room {
            unread.push_back(r);
        }
        has_room
    }

    /// The end of one was written; whether that is not read yet.
    pub(super) fn ends(&mut self, lane: Lane, r: &MessageEndRow) -> bool {
        let unread = self.unread.get_mut(&lane).and_then(|all| all.iter_mut().find(|m| m.start == r.start));
        let is_unread = unread.is_some();
        unread.into_iter().for_each(|m| m.end = r.end);
        is_unread
    }

    /// What a second pass knows.
    pub(super) fn learned(self, lanes: impl Iterator<Item = (Lane, Skew)>) -> Said {
        let ahead = lanes
            .filter(|(lane, skew)| self.read.contains(lane) && skew.most > 0)
            .map(|(lane, skew)| (lane, skew.most));
        Said { ahead: ahead.collect(), read: self.read, ..Said::default() }
    }

    /// An operation on an end, with the numbers of what was written.
    pub(super) fn moves(&mut self, lane: Lane, mut r: OpRow) -> OpRow {
        if !self.is_read(lane) {
            return r;
        }
        let sent = r.kind == OpKind::Send;
        if let Some(ahead) = self.ahead.get(&lane).filter(|_| !sent) {
            (r.start, r.end) = (r.start.saturating_sub(*ahead), r.end.saturating_sub(*ahead));
        }
        self.moved.entry(lane).or_default()[usize::from(!sent)] = r.end;
        r
    }

    /// The next message that was read to its end, or, where that is not known, of which something was.
    pub(super) fn next(&mut self, lane: Lane) -> Option<MessageRow> {
        let read_to = self.moved.get(&lane)?[1];
        let is_read = |r: &MessageRow| if r.end == OPEN { r.start < read_to } else { r.end <= read_to };
        let unread = self.unread.get_mut(&lane)?;
        unread.front().is_some_and(is_read).then(|| unread.pop_front())?
    }
}
