//! Who is the server of a flow whose begin was not seen: what is said shows it, if not at once. Until then all that is said is
//! kept, and what is made of it is not told, so that a side that was taken wrongly leaves nothing behind.

use super::piece::Piece;
use crate::{RowSink, TaskFacts, recurring};
use wakepath_model::ids::{EndpointId, MonoNs, StrId};
use wakepath_model::rows::{Event, Row, SniffedExchangeRow};

/// Bytes of a flow that are kept, at most; then it is decided by what there is.
const SAID_BYTES_MAX: usize = 32 << 10;

/// Pieces of them.
const SAID_MAX: usize = 128;

/// What a piece costs besides its bytes.
const SAID_COST: usize = 64;

/// So many messages more must speak for a side than against it.
const SURE: i32 = 2;

/// How often a flow is turned round, at most.
const TURNS_MAX: u8 = 3;

/// What was said: a [`Piece`] with its bytes.
struct Said {
    piece: Piece<'static>,
    bytes: Box<[u8]>,
    turned: bool,
}

/// A flow's first pieces, and what was made of them.
pub(super) struct Undecided {
    said: Vec<Said>,
    bytes: usize,
    /// Messages that only the client, or only the server, could have sent: those that fit less those that do not.
    votes: i32,
    turns: u8,
    made: Made,
}

/// Rows and defects that are not told yet.
#[derive(Default)]
pub(super) struct Made {
    rows: Vec<SniffedExchangeRow>,
    defects: Vec<(&'static str, MonoNs)>,
}

impl Undecided {
    /// Nothing was said. `votes`: how many messages speak for the side.
    pub fn new(votes: i32) -> Undecided {
        Undecided { said: Vec::new(), bytes: 0, votes, turns: 0, made: Made::default() }
    }

    /// Keeps a piece. `fits`: whether the side that sent it could have, where that is known.
    pub fn keep(&mut self, piece: Piece<'_>, turned: bool, fits: Option<bool>) {
        self.votes += fits.map_or(0, |fits| if fits { 1 } else { -1 });
        self.bytes += piece.bytes.len() + SAID_COST;
        self.said.push(Said {
            piece: Piece { bytes: &[], ..piece.without_bytes() },
            bytes: piece.bytes.into(),
            turned,
        });
    }

    /// Something speaks for the side.
    pub fn is_likely(&self) -> bool {
        self.votes > 0
    }

    /// More speaks against the side than for it: then nothing that was made counts, and all is to be said again.
    pub fn turns(&mut self) -> bool {
        let turns = self.votes < 0 && self.turns < TURNS_MAX;
        if turns {
            self.turns += 1;
            self.votes = -self.votes;
            self.made = Made::default();
        }
        turns
    }

    /// The side is known, or as known as it will be.
    pub fn is_over(&self) -> bool {
        self.votes >= SURE || self.said.len() >= SAID_MAX || self.bytes >= SAID_BYTES_MAX
    }

    /// What was said so far, and where rows go meanwhile.
    pub fn again(&mut self) -> (impl Iterator<Item = (Piece<'_>, bool)>, &mut Made) {
        (self.said.iter().map(|s| (Piece { bytes: &s.bytes, ..s.piece }, s.turned)), &mut self.made)
    }

    /// Memory that it costs.
    pub fn cost(&self) -> usize {
        self.bytes
    }

    /// Tells what was made.
    pub fn tell<S: RowSink>(self, out: &mut S) {
        self.made.defects.iter().for_each(|&(defect, at)| out.count(defect, at));
        self.made.rows.iter().for_each(|row| out.push(row));
    }
}

impl Made {
    /// A sink that keeps rows here.
    pub fn sink<'a, S: RowSink>(&'a mut self, out: &'a mut S) -> Keeper<'a, S> {
        Keeper { made: self, out }
    }
}

/// Keeps what is not to be told yet.
pub(super) struct Keeper<'a, S> {
    made: &'a mut Made,
    out: &'a mut S,
}

impl<S: RowSink> RowSink for Keeper<'_, S> {
    fn push<R: Row>(&mut self, row: &R) {
        match Event::read(R::TABLE, bytemuck::bytes_of(row)) {
            Some(Event::SniffedExchange(row)) => self.made.rows.push(row),
            _ => self.out.push(row),
        }
    }
    fn push_head(&mut self, _: MonoNs, _: EndpointId, _: u64, _: bool, _: &[u8]) {}
    fn count(&mut self, defect: &'static str, at: MonoNs) {
        self.made.defects.push((defect, at));
    }
    fn intern(&mut self, text: &[u8]) -> StrId {
        self.out.intern(text)
    }
    fn said(&mut self, text: &str, said: &recurring::Said) -> StrId {
        self.out.said(text, said)
    }
    fn describe(&mut self, tgid: u32, tid: u32) -> TaskFacts {
        self.out.describe(tgid, tid)
    }
}
