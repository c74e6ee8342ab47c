//! Raw heads of messages, where the user asked for payload.

use super::events::bounds;
use super::reader::{FrameReader, Host};
use crate::defects::id;
use crate::ids::{EndpointId, MonoNs};
use std::ops::RangeBounds;

/// Bytes before each head's own.
const HEAD_BYTES: usize = 32;

/// The first bytes of a message, as they were sent or received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// When.
    pub at: MonoNs,
    /// The endpoint.
    pub flow: EndpointId,
    /// Position of the first byte on the flow.
    pub pos: u64,
    /// Whether the endpoint sent it.
    pub sent: bool,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Raw heads frame by frame, each frame's in the order in which they were pushed: see [`Host::heads`].
pub struct Heads<'a> {
    host: &'a Host,
    from: u64,
    to: u64,
    read: FrameReader,
    waiting: std::vec::IntoIter<u32>,
    ready: std::vec::IntoIter<Head>,
}

impl<'a> Heads<'a> {
    pub(super) fn new(host: &'a Host, times: impl RangeBounds<MonoNs>) -> Heads<'a> {
        let (from, to) = bounds(&times);
        let waiting = host.select_heads(from, to).into_iter();
        Heads { host, from, to, read: FrameReader::default(), waiting, ready: Vec::new().into_iter() }
    }
}

impl Iterator for Heads<'_> {
    type Item = Head;

    fn next(&mut self) -> Option<Head> {
        loop {
            if let Some(head) = self.ready.next() {
                return Some(head);
            }
            let frame = self.host.frames[self.waiting.next()? as usize];
            let Some(bytes) = self.read.bytes(self.host, &frame) else {
                continue;
            };
            let (mut heads, whole) = parse(bytes);
            if !whole {
                self.host.defect(id::FOLDER_FRAME, 1, &frame);
            }
            heads.retain(|h| (self.from..=self.to).contains(&h.at.0));
            self.ready = heads.into_iter();
        }
    }
}

/// The heads of a frame, and whether its bytes were nothing else.
fn parse(mut bytes: &[u8]) -> (Vec<Head>, bool) {
    let mut heads = Vec::new();
    while let Some((fixed, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| fixed[at + i]));
        let length = (word(24) & 0xffff_ffff) as usize;
        if length > rest.len() {
            return (heads, false);
        }
        let (body, after) = rest.split_at(length);
        heads.push(Head {
            at: MonoNs(word(0)),
            flow: EndpointId(word(8)),
            pos: word(16),
            sent: fixed[28] != 0,
            bytes: body.to_vec(),
        });
        bytes = after;
    }
    (heads, bytes.is_empty())
}
