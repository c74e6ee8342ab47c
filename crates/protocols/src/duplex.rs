//! Two lanes of bytes around one `Framer`: everything that is alike in all stream protocols.
//!
//! A protocol sees its stream as a row of *units*: an HTTP head, a chunk-size line, a PostgreSQL message, a line of
//! RESP. It is asked with the bytes at a unit's start and answers how long the unit is. Splitting, skipping, gaps,
//! loss and resynchronising happen here, once for all protocols.
//!
//! ```text
//!            lost, or first contact
//!   Probe ◄──────── turn ──────── Lost
//!     │ begins like a message      ▲
//!     ▼                            │ gap at a border, bad bytes
//!   Good ──────────────────────────┘          Opaque: upgraded or encrypted, never left
//! ```

use crate::{Attrs, Border, Defect, Dir, EndHow, Message, Processor, Role, Sink, Witness};

/// An offset that no stream reaches.
pub(crate) const NONE: u64 = u64::MAX;

/// What a protocol makes of the bytes at the start of a unit.
#[derive(Debug)]
pub(crate) enum Step {
    /// Not enough yet. Nothing may have been changed or emitted. With `last` set it means that the border is lost.
    Need,
    /// The unit has this length (at least 1, may exceed the bytes at hand); `u64::MAX`: until the end of the stream.
    Take(u64),
    /// The border of this message is not to be known; the open message, if any, ends at the next turn.
    Lost(Option<Defect>),
    /// The unit has this length, and behind it both directions are no longer this protocol.
    Opaque(u64),
}

/// Whether bytes begin like a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Yes,
    No,
    More,
}

impl From<bool> for Fit {
    fn from(yes: bool) -> Fit {
        if yes { Fit::Yes } else { Fit::No }
    }
}

/// The protocol's part.
pub(crate) trait Framer {
    /// Whether `bytes` begin like a message; asked only on first contact and after a loss.
    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit;
    /// Looks at the unit that starts at `wire.at`. `last`: no more bytes of it will be shown, because a gap follows
    /// or the lane's buffer is full. An answer other than `Need` must not depend on bytes behind those it needed.
    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Step;
    /// A gap begins where a unit should. `Step::Need`: the border is lost.
    fn blind(&mut self, _wire: &mut Wire<'_>) -> Step {
        Step::Need
    }
    /// `wire.dir` was lost at `wire.at`.
    fn lost(&mut self, _wire: &mut Wire<'_>) {}
    /// `wire.dir` was found again: a message begins at `wire.at`.
    fn found(&mut self, _wire: &mut Wire<'_>) {}
    /// The flow turned to `wire.dir`. `lost`: the other direction is lost, so what was open in it is over.
    fn turned(&mut self, _wire: &mut Wire<'_>, _lost: bool) {}
    /// `wire.dir` was closed at `wire.at`.
    fn closed(&mut self, _wire: &mut Wire<'_>) {}
}

/// What a `Framer` may do to the outside.
pub(crate) struct Wire<'s> {
    /// The direction at hand.
    pub dir: Dir,
    /// Offset of the unit at hand.
    pub at: u64,
    /// How far each direction has moved.
    pub next: [u64; 2],
    /// Start of the open message of each direction, or `NONE`.
    pub open: &'s mut [u64; 2],
    /// Where messages go.
    pub sink: &'s mut dyn Sink,
}

impl Wire<'_> {
    /// Emits a message of this direction; ends it too, or remembers it as open.
    pub fn message(&mut self, role: Role, span: (u64, Border), head_end: u64, attrs: Attrs<'_>, witnesses: &[Witness]) {
        let (start, end) = span;
        self.end_open(self.dir, start, EndHow::Lost);
        self.sink.message(&Message { dir: self.dir, role, start, end, head_end, attrs, witnesses });
        match end {
            Border::Known(end) => self.sink.end(self.dir, start, end, EndHow::Framed),
            Border::Open => self.open[self.dir.index()] = start,
        }
    }

    /// Ends the open message of `dir`, if there is one.
    pub fn end_open(&mut self, dir: Dir, end: u64, how: EndHow) {
        let start = core::mem::replace(&mut self.open[dir.index()], NONE);
        if start != NONE {
            self.sink.end(dir, start, end, how);
        }
    }

    /// Whether a message of `dir` is open.
    pub fn is_open(&self, dir: Dir) -> bool {
        self.open[dir.index()] != NONE
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    Fresh,
    Probe,
    Good,
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Lane<const N: usize> {
    /// Offset of the first byte that is not yet dealt with: the start of `stash`.
    at: u64,
    /// Bytes of the current unit that need not be seen; `u64::MAX`: all.
    skip: u64,
    len: u16,
    sync: Sync,
    opaque: bool,
    /// The loss was reported.
    told: bool,
    stash: [u8; N],
}

impl<const N: usize> Lane<N> {
    const NEW: Self = Lane { at: 0, skip: 0, len: 0, sync: Sync::Fresh, opaque: false, told: false, stash: [0; N] };

    fn next(&self) -> u64 {
        self.at.saturating_add(u64::from(self.len))
    }

    fn advance(&mut self, len: u64) {
        self.at = self.at.saturating_add(len);
    }

    /// Skips up to `len` bytes and says how many.
    fn skip(&mut self, len: u64) -> u64 {
        let count = self.skip.min(len);
        if self.skip != u64::MAX {
            self.skip -= count;
        }
        self.advance(count);
        count
    }
}

/// A stream processor: a `Framer` with a lane for each direction, which keeps at most `N` bytes of a unit whose head
/// was split over chunks (heads that come in one chunk are read in place). Size: about `2 N` bytes.
pub struct Duplex<F, const N: usize> {
    framer: F,
    open: [u64; 2],
    lanes: [Lane<N>; 2],
}

macro_rules! wire {
    ($self:ident, $dir:expr, $at:expr, $sink:expr) => {
        Wire {
            dir: $dir,
            at: $at,
            next: [$self.lanes[0].next(), $self.lanes[1].next()],
            open: &mut $self.open,
            sink: $sink,
        }
    };
}

#[allow(private_bounds)]
impl<F: Framer, const N: usize> Duplex<F, N> {
    pub(crate) const fn with(framer: F) -> Self {
        assert!(N > 0 && N <= u16::MAX as usize);
        Duplex { framer, open: [NONE; 2], lanes: [Lane::NEW; 2] }
    }

    /// Chains an event to what came before: the number of its first bytes that were already seen.
    fn chain(&mut self, dir: Dir, pos: u64, sink: &mut dyn Sink) -> u64 {
        let lane = &mut self.lanes[dir.index()];
        if lane.sync == Sync::Fresh {
            lane.at = pos;
            lane.sync = Sync::Probe;
        }
        let next = lane.next();
        if pos > next {
            self.missing(dir, pos - next, sink);
        }
        next.saturating_sub(pos)
    }

    /// Asks the protocol about `bytes` at the lane's `at`; `None`: about the stash.
    fn ask(&mut self, dir: Dir, bytes: Option<&[u8]>, last: bool, sink: &mut dyn Sink) -> Step {
        let next = [self.lanes[0].next(), self.lanes[1].next()];
        let lane = &mut self.lanes[dir.index()];
        let bytes = bytes.unwrap_or(&lane.stash[..usize::from(lane.len)]);
        let last = last || bytes.len() >= N;
        let mut wire = Wire { dir, at: lane.at, next, open: &mut self.open, sink };
        if lane.sync == Sync::Probe {
            match self.framer.fit(dir, bytes) {
                Fit::More if !last => return Step::Need,
                Fit::Yes => {
                    lane.sync = Sync::Good;
                    lane.told = false;
                    self.framer.found(&mut wire);
                }
                _ => return Step::Lost(Some(Defect::BorderLost)),
            }
        }
        match self.framer.unit(&mut wire, bytes, last) {
            Step::Need if last => Step::Lost(Some(Defect::BorderLost)),
            Step::Take(0) => Step::Lost(Some(Defect::BadHead)),
            step => step,
        }
    }

    /// Does to the lane what the protocol said of the unit, of which (or behind which) `have` bytes are at hand.
    /// The number of bytes dealt with; `None` where the lane was lost.
    fn apply(&mut self, dir: Dir, step: Step, have: usize, sink: &mut dyn Sink) -> Option<usize> {
        let (length, opaque) = match step {
            Step::Need => return Some(0),
            Step::Lost(defect) => {
                self.lose(dir, defect, sink);
                return None;
            }
            Step::Take(length) => (length, false),
            Step::Opaque(length) => (length, true),
        };
        let used = usize::try_from(length).unwrap_or(usize::MAX).min(have);
        let lane = &mut self.lanes[dir.index()];
        lane.advance(used as u64);
        lane.skip = match length {
            u64::MAX => u64::MAX,
            length => length - used as u64,
        };
        if opaque {
            self.close_eyes(dir, sink);
        }
        Some(used)
    }

    /// Deals with the units in the stash. `last`: nothing will be added to them.
    fn drain(&mut self, dir: Dir, last: bool, sink: &mut dyn Sink) {
        loop {
            let lane = &mut self.lanes[dir.index()];
            let have = usize::from(lane.len);
            if have == 0 {
                return;
            }
            if lane.opaque {
                let at = lane.at;
                lane.len = 0;
                lane.advance(have as u64);
                return self.unseen(dir, at, sink);
            }
            let step = self.ask(dir, None, last, sink);
            let Some(used @ 1..) = self.apply(dir, step, have, sink) else {
                return;
            };
            let lane = &mut self.lanes[dir.index()];
            lane.stash.copy_within(used..have, 0);
            lane.len = (have - used) as u16;
        }
    }

    fn lose(&mut self, dir: Dir, defect: Option<Defect>, sink: &mut dyn Sink) {
        let lane = &mut self.lanes[dir.index()];
        let at = lane.at;
        lane.sync = Sync::Lost;
        lane.skip = 0;
        lane.advance(u64::from(lane.len));
        lane.len = 0;
        let told = core::mem::replace(&mut lane.told, true);
        self.framer.lost(&mut wire!(self, dir, at, sink));
        if let (Some(defect), false) = (defect, told) {
            sink.defect(defect, dir, at);
        }
    }

    /// From here on both directions are no longer this protocol.
    fn close_eyes(&mut self, dir: Dir, sink: &mut dyn Sink) {
        for lane in &mut self.lanes {
            lane.opaque = true;
            if lane.sync == Sync::Fresh {
                continue;
            }
            lane.sync = Sync::Good;
        }
        let other = &mut self.lanes[dir.other().index()];
        let (at, len) = (other.at, u64::from(other.len));
        other.len = 0;
        other.advance(len);
        if len > 0 {
            self.unseen(dir.other(), at, sink);
        }
    }

    /// Emits the one message that stands for everything opaque in a direction.
    fn unseen(&mut self, dir: Dir, at: u64, sink: &mut dyn Sink) {
        if self.open[dir.index()] == NONE {
            let attrs = Attrs { verb: "OPAQUE", ..Attrs::default() };
            let mut wire = wire!(self, dir, at, sink);
            wire.message(Role::Unsolicited, (at, Border::Open), at, attrs, &[]);
        }
    }

    /// `len` bytes behind everything known so far were not captured.
    fn missing(&mut self, dir: Dir, len: u64, sink: &mut dyn Sink) {
        let d = dir.index();
        self.drain(dir, true, sink);
        let lane = &mut self.lanes[d];
        let left = len - lane.skip(len);
        if left == 0 {
            return;
        }
        if lane.opaque {
            let at = lane.at;
            lane.advance(left);
            self.unseen(dir, at, sink);
            return;
        }
        if lane.sync != Sync::Lost {
            let at = lane.at;
            match self.framer.blind(&mut wire!(self, dir, at, sink)) {
                Step::Take(length) => self.lanes[d].skip = length,
                _ => self.lose(dir, Some(Defect::BorderLost), sink),
            }
        }
        let lane = &mut self.lanes[d];
        let left = left - lane.skip(left);
        lane.advance(left);
    }
}

impl<F: Framer, const N: usize> Processor for Duplex<F, N> {
    fn data(&mut self, dir: Dir, pos: u64, bytes: &[u8], sink: &mut dyn Sink) {
        let d = dir.index();
        let seen = self.chain(dir, pos, sink);
        let mut rest = bytes.get(seen as usize..).unwrap_or(&[]);
        while !rest.is_empty() {
            let lane = &mut self.lanes[d];
            if lane.skip > 0 && lane.len == 0 {
                let count = lane.skip(rest.len() as u64) as usize;
                rest = &rest[count..];
                continue;
            }
            if lane.opaque || lane.sync == Sync::Lost {
                let (at, opaque) = (lane.at, lane.opaque);
                lane.advance(rest.len() as u64);
                if opaque {
                    self.unseen(dir, at, sink);
                }
                return;
            }
            if lane.len == 0 {
                // The hot path: the unit is read where it lies.
                let view = &rest[..rest.len().min(N)];
                match self.ask(dir, Some(view), false, sink) {
                    Step::Need => {
                        let lane = &mut self.lanes[d];
                        lane.stash[..view.len()].copy_from_slice(view);
                        lane.len = view.len() as u16;
                        return;
                    }
                    step => {
                        let used = self.apply(dir, step, rest.len(), sink).unwrap_or(0);
                        rest = &rest[used..];
                    }
                }
                continue;
            }
            let (have, room) = (usize::from(lane.len), N - usize::from(lane.len));
            let added = room.min(rest.len());
            lane.stash[have..have + added].copy_from_slice(&rest[..added]);
            lane.len += added as u16;
            rest = &rest[added..];
            self.drain(dir, false, sink);
        }
    }

    fn gap(&mut self, dir: Dir, pos: u64, len: u64, sink: &mut dyn Sink) {
        let seen = self.chain(dir, pos, sink);
        if len > seen {
            self.missing(dir, len - seen, sink);
        }
    }

    fn turn(&mut self, dir: Dir, pos: u64, sink: &mut dyn Sink) {
        self.chain(dir, pos, sink);
        let other = &self.lanes[dir.other().index()];
        let lost = other.sync == Sync::Lost && !other.opaque;
        let at = self.lanes[dir.index()].next();
        let mut wire = wire!(self, dir, at, sink);
        if lost {
            let end = wire.next[dir.other().index()];
            wire.end_open(dir.other(), end, EndHow::Turn);
        }
        self.framer.turned(&mut wire, lost);
        let lane = &mut self.lanes[dir.index()];
        if lane.sync == Sync::Lost && !lane.opaque {
            lane.sync = Sync::Probe;
        }
    }

    fn shutdown(&mut self, dir: Dir, pos: u64, sink: &mut dyn Sink) {
        self.chain(dir, pos, sink);
        let lane = &mut self.lanes[dir.index()];
        let inside = lane.len > 0 || (lane.skip > 0 && lane.skip != u64::MAX);
        lane.advance(u64::from(lane.len));
        lane.len = 0;
        lane.skip = u64::MAX;
        let at = lane.at;
        let mut wire = wire!(self, dir, at, sink);
        self.framer.closed(&mut wire);
        wire.end_open(dir, at, EndHow::Close);
        if inside {
            sink.defect(Defect::ClosedInside, dir, at);
        }
    }
}
