//! A piece of what a flow says.

use wakepath_model::ids::MonoNs;

/// The next bytes of one direction, in order.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    /// Which end sent them: 0 or 1.
    pub direction: usize,
    /// Number of the first.
    pub pos: u64,
    /// Those captured.
    pub bytes: &'a [u8],
    /// How many they are; more than `bytes` where the rest was not captured.
    pub length: u64,
    /// When their packet passed, 0 = it was never captured.
    pub at: MonoNs,
    /// How far that packet acknowledged the other direction, 0 = not known.
    pub ack: u64,
}

impl Piece<'_> {
    /// The same without its bytes.
    pub fn without_bytes(&self) -> Piece<'static> {
        let Piece { direction, pos, length, at, ack, .. } = *self;
        Piece { direction, pos, bytes: &[], length, at, ack }
    }
}
