//! Messages on pipes and on nameless pairs of sockets. They are read where they are written, and say themselves whether they ask
//! (`message_flag::ON_LANE`): what they are to a channel's two ends. Who reads from a lane has a message when its bytes are read.

use super::channels::Channels;
use super::ends::FlowFlag;
use super::record::Side;
use super::said::Lane;
use super::{Engine, Steps};
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{FlowNoteRow, MessageEndRow, MessageRole, MessageRow, OpKind, OpRow, message_flag};

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
        self.channels.said.reads(lane);
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
        if !self.channels.said.tells(lane, MessageRow { flow: part.reader, sent: 0, role, flags, ..*r }) {
            self.goes_unseen_by(part.reader, r.at);
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
        let [written_to, read_to] = self.channels.said.moved(lane);
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
        if !self.channels.said.ends(lane, r) {
            self.message_end(&MessageEndRow { flow: part.reader, sent: 0, ..*r });
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
        let asker = ep.requested.0;
        if asker != TaskId::UNKNOWN {
            self.went_unseen(asker, false, r.at);
        }
        self.goes_unseen_by(part.reader, r.at);
        true
    }

    /// A request that nobody knows may be worked on at this end.
    fn goes_unseen_by(&mut self, reader: EndpointId, at: MonoNs) {
        let task = self.eps.at(reader, at).user();
        if task != TaskId::UNKNOWN {
            let process = self.steps.process_of(task);
            self.steps.unread(&self.xs, process, at);
            self.steps.unclear(&self.xs, Side::Server, task, at);
        }
    }
}
