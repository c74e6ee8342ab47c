//! Fingerprints of replies: at their heads, or once the body's first bytes came.

use super::content::Reply;
use super::{Flow, Out};
use crate::RowSink;
use wakepath_model::ids::{EndpointId, MonoNs};
use wakepath_model::rows::{MessageEndHow, MessageEndRow, OPEN};
use wakepath_protocols::{Border, Message, Protocol, Role};

impl Flow {
    /// Bytes of replies were seen: they may tell how the body of the last one begins.
    pub(super) fn more_of_reply<S: RowSink>(
        &mut self,
        id: EndpointId,
        at: MonoNs,
        sent: bool,
        pos: u64,
        bytes: &[u8],
        sink: &mut S,
    ) {
        let Some((start, Some(fingerprint))) = self.reply.as_mut().map(|r| (r.start, r.sees(pos, bytes))) else {
            return;
        };
        self.reply = None;
        if fingerprint != 0 {
            sink.push(&MessageEndRow {
                at,
                flow: id,
                start,
                end: OPEN,
                sent: u8::from(sent),
                how: MessageEndHow::NotKnown,
                fingerprint,
                ..Default::default()
            });
        }
    }
}

impl<S: RowSink> Out<'_, S> {
    /// The fingerprint of a reply's body, as far as its first bytes came with the head; 0 where they did not, or are not looked at.
    pub(super) fn fingerprint(&mut self, m: &Message<'_>) -> u64 {
        if m.role != Role::Reply || self.speech.protocol != Protocol::Http1 {
            return 0;
        }
        let length = match m.end {
            Border::Known(end) => Some(end.saturating_sub(m.head_end)),
            Border::Open => None,
        };
        let mut reply = Reply::new(m.start, m.head_end, length);
        match reply.sees(self.fed.0, self.fed.1) {
            Some(fingerprint) => fingerprint,
            None => {
                self.reply = Some(Box::new(reply));
                0
            }
        }
    }
}
