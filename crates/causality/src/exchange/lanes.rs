//! Messages on pipes and on nameless pairs of sockets. They are read where they are written, and say themselves whether they ask
//! (`message_flag::ON_LANE`): what they are to a channel's two ends. Who reads from a lane has a message when its bytes are read.

use super::channels::{Channels, Lane};
use super::ends::FlowFlag;
use super::record::Side;
use super::{Engine, Steps};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{FlowNoteRow, MessageEndRow, MessageRole, MessageRow, OPEN, OpKind, OpRow, message_flag};

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
    fn next(&mut self, lane: Lane) -> Option<MessageRow> {
        let read_to = self.moved.get(&lane)?[1];
        let is_read = |r: &MessageRow| if r.end == OPEN { r.start < read_to } else { r.end <= read_to };
        self.unread.get_mut(&lane)?.pop_front_if(|r| is_read(r))
    }
}

impl<S: Steps> Engine<S> {
    /// What is known of an end of a channel before anything is said of it.
    pub(super) fn end_of_channel(&mut self, flow: EndpointId, lane: Lane, at: MonoNs) {
        let ep = self.eps.at(flow, at);
        ep.side = Some(if Channels::asks_on(flow) { Side::Client } else { Side::Server });
        ep.traits.flags.add_if(FlowFlag::ByMessages, self.channels.said.is_read(lane));
    }

    /// A message was written to a lane.
    pub(super) fn message_on_lane(&mut self, r: &MessageRow) {
        let Some(lane) = self.channels.sent_by(r.flow) else { return };
        self.channels.said.read.insert(lane);
        let Some(part) = self.channels.part(lane) else { return };
        let asks = Channels::asks_on(part.writer);
        let (role, flags) = match r.role {
            MessageRole::Request if asks => (MessageRole::Request, r.flags & !message_flag::ON_LANE),
            MessageRole::Reply if !asks => (MessageRole::Reply, 0),
            // what the server asks, and what the client answers to it
            _ => (MessageRole::Unsolicited, 0),
        };
        for end in [part.writer, part.reader] {
            self.end_of_channel(end, lane, r.at);
        }
        self.message(&MessageRow { flow: part.writer, role, flags, ..*r });
        let unread = self.channels.said.unread.entry(lane).or_default();
        if unread.len() < UNREAD_MAX {
            unread.push_back(MessageRow { flow: part.reader, sent: 0, role, flags, ..*r });
        }
        self.has_read(lane, r.at);
    }

    /// Its reader has what it has read.
    fn has_read(&mut self, lane: Lane, at: MonoNs) {
        while let Some(r) = self.channels.said.next(lane) {
            self.message(&MessageRow { at, ..r });
        }
    }

    /// An operation on a lane was told.
    pub(super) fn read_on_lane(&mut self, lane: Lane, r: &OpRow) {
        if r.kind == OpKind::Send || !self.channels.said.is_read(lane) {
            return;
        }
        self.has_read(lane, r.at);
        // the write ends after the read, so that what was read is told later than what is done for it
        let [written_to, read_to] = self.channels.said.moved.get(&lane).copied().unwrap_or_default();
        if read_to > written_to && !Channels::asks_on(r.flow) {
            self.steps.unclear(&self.xs, Side::Server, r.actor(), r.at);
        }
    }

    /// The end of a message on a lane; false where its flow is none whose messages are read.
    pub(super) fn end_on_lane(&mut self, r: &MessageEndRow) -> bool {
        let Some(lane) = self.channels.sent_by(r.flow).filter(|lane| self.channels.said.is_read(*lane)) else {
            return false;
        };
        let Some(part) = self.channels.part(lane) else { return true };
        self.message_end(&MessageEndRow { flow: part.writer, ..*r });
        let unread = self.channels.said.unread.get_mut(&lane);
        match unread.and_then(|all| all.iter_mut().find(|m| m.start == r.start)) {
            Some(unread) => unread.end = r.end,
            None => self.message_end(&MessageEndRow { flow: part.reader, sent: 0, ..*r }),
        }
        true
    }

    /// News of a lane's framing; false where its flow is none whose messages are read.
    pub(super) fn note_on_lane(&mut self, r: &FlowNoteRow) -> bool {
        let Some(lane) = self.channels.sent_by(r.flow).filter(|lane| self.channels.said.is_read(*lane)) else {
            return false;
        };
        let part = self.channels.part(lane).filter(|part| Channels::asks_on(part.writer) && r.reason != StrId::EMPTY);
        let Some(part) = part else { return true };
        let ep = self.eps.at(part.writer, r.at);
        ep.traits.unframed = Some(r.at);
        let [asker, reader] = [ep.requested.0, self.eps.at(part.reader, r.at).user()];
        if asker != TaskId::UNKNOWN {
            self.went_unseen(asker, false, r.at);
        }
        // a request that nobody knows may be worked on there
        if reader != TaskId::UNKNOWN {
            let process = self.steps.process_of(reader);
            self.steps.unread(&self.xs, process, r.at);
            self.steps.unclear(&self.xs, Side::Server, reader, r.at);
        }
        true
    }
}
