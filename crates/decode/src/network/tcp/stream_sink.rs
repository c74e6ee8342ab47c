//! Who is told what a connection says.

use crate::network::piece::Piece;
use wakepath_model::ids::MonoNs;

/// What the conversation tells of.
pub(crate) trait StreamSink {
    /// The next bytes of a direction.
    fn piece(&mut self, piece: Piece<'_>);
    /// `direction` ended at `pos`.
    fn shutdown(&mut self, direction: usize, pos: u64, at: MonoNs);
    /// A segment repeats bytes with other contents.
    fn differs(&mut self, at: MonoNs);
    /// Bytes that were never captured are given up.
    fn gap(&mut self, at: MonoNs);
    /// The bytes are of use; otherwise they are only counted.
    fn listens(&self) -> bool;
}
