//! Two directions of bytes around one `Framer`: everything that is alike in all stream protocols.
//!
//! A protocol sees its stream as a row of *units*: an HTTP head, a chunk-size line, a PostgreSQL message, a line of
//! RESP. It is asked with the bytes at a unit's start and answers how long the unit is. Splitting, skipping, gaps,
//! loss and resynchronising happen here, once for all protocols.
//!
//! ```text
//!            lost, or first contact
//!   Probe ◄──────── turn ──────── Lost
//!     │ begins like a message      ▲
//!     ▼                            │ gap at a border, bad bytes (after a gap, some protocols are probed without a turn)
//!   Good ──────────────────────────┘          Opaque: upgraded or encrypted, never left
//! ```

use crate::proxy::{self, Header};
use crate::{Attrs, Border, Defect, Dir, EndHow, Message, Outcome, Processor, Role, Sink, Status, Upgrade, Witness};

/// An offset that no stream reaches.
pub(crate) const NONE: u64 = u64::MAX;

/// What a protocol makes of the bytes at the start of a unit: `Ok` is the unit's length (at least 1, may exceed the bytes
/// at hand; `u64::MAX`: until the end of the stream).
pub(crate) type Unit = Result<u64, Stop>;

/// Why there is no unit.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Not enough yet. Nothing may have been changed or emitted. Where no more will be shown, the border is lost.
    Need,
    /// The border of this message is not to be known; the open message, if any, ends at the next turn.
    Lost(Option<Defect>),
    /// The unit has this length, and after it both directions are no longer this protocol.
    Opaque(u64),
}

/// The bytes are not a message of this protocol.
pub(crate) const BAD: Stop = Stop::Lost(Some(Defect::BadHead));

/// Whether bytes begin like a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// They do, and bytes of no other origin begin so: at least some 32 bits of them are as they must be.
    Sure,
    /// They do; but so may bytes of another origin.
    Yes,
    No,
    More,
}

impl Fit {
    /// The same, but sure where it fits at all.
    pub fn and_sure(self) -> Fit {
        if self == Fit::Yes { Fit::Sure } else { self }
    }

    /// Whether it fits, sure or not.
    pub fn is_fit(self) -> bool {
        matches!(self, Fit::Sure | Fit::Yes)
    }
}

impl From<bool> for Fit {
    fn from(yes: bool) -> Fit {
        if yes { Fit::Yes } else { Fit::No }
    }
}

/// Whether bytes begin like a message of which this is known.
impl<T> From<Result<T, Stop>> for Fit {
    fn from(begun: Result<T, Stop>) -> Fit {
        match begun {
            Err(Stop::Need) => Fit::More,
            begun => begun.is_ok().into(),
        }
    }
}

/// The protocol's part.
pub(crate) trait Framer {
    /// For a flow at its start or joined in mid-stream.
    const NEW: Self;
    /// Whether messages follow each other without a turn, and begin like nothing else: one that begins behind a gap is found.
    const REJOINS: bool = false;
    /// Whether `bytes` begin like a message; asked only on first contact and after a loss, at a turn or (with `REJOINS`) a gap.
    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit;
    /// Looks at the unit that starts at `wire.at`. `last`: no more bytes of it will be shown, because a gap follows
    /// or the direction's buffer is full. An answer other than `Need` must not depend on bytes after those it needed.
    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit;
    /// A gap begins where a unit should. `None`: the border is lost.
    fn blind(&mut self, _wire: &mut Wire<'_>) -> Option<u64> {
        None
    }
    /// `wire.dir` was lost at `wire.at`.
    fn lost(&mut self, _wire: &mut Wire<'_>) {}
    /// `wire.dir` was found again: a message begins at `wire.at`.
    fn found(&mut self, _wire: &mut Wire<'_>) {}
    /// The flow turned to `wire.dir`. `lost`: the other direction is lost, so what was open in it is over.
    fn turned(&mut self, _wire: &mut Wire<'_>, _lost: bool) {}
    /// `wire.dir` was closed at `wire.at`. As a rule, what was not told by then is told as lost.
    fn closed(&mut self, wire: &mut Wire<'_>) {
        self.lost(wire);
    }
    /// Whether the open message of `wire.dir` is sure to be the last before the next turn, since nothing else was asked.
    /// Then the turn ends it, and nothing is unknown where its framing was not captured: that is no defect.
    fn alone(&self, _wire: &Wire<'_>) -> bool {
        false
    }
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

    /// Emits a message of this direction that begins with this unit and ends at `end`; its head has `head` bytes.
    pub fn whole(&mut self, role: Role, end: u64, head: usize, attrs: Attrs<'_>, witnesses: &[Witness]) {
        self.message(role, (self.at, Border::Known(end)), self.behind(head).min(end), attrs, witnesses);
    }

    /// Emits a message of this direction that begins with this unit, and remembers it as open.
    pub fn begin(&mut self, role: Role, head: usize, attrs: Attrs<'_>, witnesses: &[Witness]) {
        self.message(role, (self.at, Border::Open), self.behind(head), attrs, witnesses);
    }

    /// Emits a message of `dir` that began at `start`, and remembers it as open.
    pub fn begun(&mut self, dir: Dir, role: Role, start: u64, head_end: u64, attrs: Attrs<'_>) {
        let here = core::mem::replace(&mut self.dir, dir);
        self.message(role, (start, Border::Open), head_end, attrs, &[]);
        self.dir = here;
    }

    /// Emits the server's reply that began at `start` (`NONE`: there is none), and remembers it as open; where it is open,
    /// an error amends it.
    pub fn answer(&mut self, start: u64, status: Status<'_>) {
        let open = self.open[Dir::ToClient.index()];
        if open == NONE && start != NONE {
            self.begun(Dir::ToClient, Role::Reply, start, self.behind(5u64), Attrs::status("", status));
        } else if open != NONE && status.outcome == Outcome::Error {
            self.sink.amend(Dir::ToClient, open, status);
        }
    }

    /// The offset `length` bytes after the start of the unit.
    pub fn behind(&self, length: impl TryInto<u64>) -> u64 {
        self.at.saturating_add(length.try_into().unwrap_or(u64::MAX))
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
    /// Lost, but after a gap a message may begin.
    Gap,
}

#[derive(Clone, Copy, Debug)]
struct Direction<const N: usize> {
    /// Offset of the first byte that is not yet dealt with: the start of `stash`.
    at: u64,
    /// Bytes of the current unit that need not be seen; `u64::MAX`: all.
    skip: u64,
    len: u16,
    /// A message ends with the current unit.
    ends: bool,
    sync: Sync,
    opaque: bool,
    /// The loss was reported.
    told: bool,
    stash: [u8; N],
}

impl<const N: usize> Direction<N> {
    const NEW: Self =
        Direction { at: 0, skip: 0, len: 0, ends: false, sync: Sync::Fresh, opaque: false, told: false, stash: [0; N] };

    fn is_lost(&self) -> bool {
        matches!(self.sync, Sync::Lost | Sync::Gap)
    }

    fn next(&self) -> u64 {
        self.at.saturating_add(u64::from(self.len))
    }

    fn advance(&mut self, len: u64) {
        self.at = self.at.saturating_add(len);
    }

    /// Whether the last unit ended a message and has passed.
    fn at_border(&self) -> bool {
        self.ends && self.skip == 0
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

/// Passes everything on, and remembers whether a message of `dir` ends after `from`.
struct Watch<'s> {
    sink: &'s mut dyn Sink,
    dir: Dir,
    from: u64,
    ends: bool,
}

impl Sink for Watch<'_> {
    fn message(&mut self, message: &Message<'_>) {
        self.sink.message(message);
    }

    fn end(&mut self, dir: Dir, start: u64, end: u64, how: EndHow) {
        self.ends |= dir == self.dir && end > self.from;
        self.sink.end(dir, start, end, how);
    }

    fn amend(&mut self, dir: Dir, start: u64, status: Status<'_>) {
        self.sink.amend(dir, start, status);
    }

    fn upgraded(&mut self, to: Upgrade, dir: Dir, pos: u64) {
        self.sink.upgraded(to, dir, pos);
    }

    fn defect(&mut self, defect: Defect, dir: Dir, pos: u64) {
        self.sink.defect(defect, dir, pos);
    }
}

/// A stream processor: a `Framer` with a direction for each direction, which keeps at most `N` bytes of a unit whose head
/// was split over chunks (heads that come in one chunk are read in place). Size: about `2 N` bytes.
pub struct Duplex<F, const N: usize> {
    framer: F,
    open: [u64; 2],
    directions: [Direction<N>; 2],
}

macro_rules! wire {
    ($self:ident, $dir:expr, $at:expr, $sink:expr) => {
        Wire {
            dir: $dir,
            at: $at,
            next: [$self.directions[0].next(), $self.directions[1].next()],
            open: &mut $self.open,
            sink: $sink,
        }
    };
}

#[allow(private_bounds)]
impl<F: Framer, const N: usize> Duplex<F, N> {
    /// For a flow at its start or joined in mid-stream.
    pub const fn new() -> Self {
        assert!(N > 0 && N <= u16::MAX as usize);
        Duplex { framer: F::NEW, open: [NONE; 2], directions: [Direction::NEW; 2] }
    }

    /// Chains an event to what came before: the number of its first bytes that were already seen.
    fn chain(&mut self, dir: Dir, pos: u64, sink: &mut dyn Sink) -> u64 {
        let direction = &mut self.directions[dir.index()];
        if direction.sync == Sync::Fresh {
            direction.at = pos;
            direction.sync = Sync::Probe;
        }
        let next = direction.next();
        if pos > next {
            self.missing(dir, pos - next, sink);
        }
        next.saturating_sub(pos)
    }

    /// Asks the protocol about `bytes` at the direction's `at`; `None`: about the stash.
    fn ask(&mut self, dir: Dir, bytes: Option<&[u8]>, last: bool, sink: &mut dyn Sink) -> Unit {
        let next = [self.directions[0].next(), self.directions[1].next()];
        let direction = &mut self.directions[dir.index()];
        let bytes = bytes.unwrap_or(&direction.stash[..usize::from(direction.len)]);
        let last = last || bytes.len() >= N;
        let mut watch = Watch { sink, dir, from: direction.at, ends: false };
        let mut wire = Wire { dir, at: direction.at, next, open: &mut self.open, sink: &mut watch };
        if dir == Dir::ToServer && direction.sync == Sync::Probe {
            match proxy::header(bytes) {
                Header::Bytes(length) => {
                    direction.ends = false;
                    return Ok(length);
                }
                Header::More if !last => return Err(Stop::Need),
                _ => {}
            }
        }
        if matches!(direction.sync, Sync::Probe | Sync::Gap) {
            match self.framer.fit(dir, bytes) {
                Fit::More if !last => return Err(Stop::Need),
                Fit::Yes | Fit::Sure => {
                    direction.sync = Sync::Good;
                    direction.told = false;
                    self.framer.found(&mut wire);
                }
                _ => return Err(Stop::Lost(Some(Defect::BorderLost))),
            }
        }
        let step = self.framer.unit(&mut wire, bytes, last);
        direction.ends = watch.ends;
        match step {
            Err(Stop::Need) if last => Err(Stop::Lost(Some(Defect::BorderLost))),
            Ok(0) => Err(BAD),
            step => step,
        }
    }

    /// Does to the direction what the protocol said of the unit, of which (or after which) `have` bytes are at hand.
    /// The number of bytes dealt with; `None` where the direction was lost.
    fn apply(&mut self, dir: Dir, step: Unit, have: usize, sink: &mut dyn Sink) -> Option<usize> {
        let (length, opaque) = match step {
            Err(Stop::Need) => return Some(0),
            Err(Stop::Lost(defect)) => {
                self.lose(dir, defect, sink);
                return None;
            }
            Ok(length) => (length, false),
            Err(Stop::Opaque(length)) => (length, true),
        };
        let used = usize::try_from(length).unwrap_or(usize::MAX).min(have);
        let direction = &mut self.directions[dir.index()];
        direction.advance(used as u64);
        direction.skip = match length {
            u64::MAX => u64::MAX,
            length => length - used as u64,
        };
        if opaque {
            self.close_eyes(dir, sink);
        }
        Some(used)
    }

    /// Deals with the units in the stash, up to the first end of a message after `stop`. `last`: nothing will be added.
    fn drain(&mut self, dir: Dir, last: bool, stop: u64, sink: &mut dyn Sink) {
        loop {
            let direction = &mut self.directions[dir.index()];
            let have = usize::from(direction.len);
            if have == 0 {
                return;
            }
            if direction.opaque {
                let at = direction.at;
                direction.len = 0;
                direction.advance(have as u64);
                return self.unseen(dir, at, sink);
            }
            let step = self.ask(dir, None, last, sink);
            let Some(used @ 1..) = self.apply(dir, step, have, sink) else {
                return;
            };
            let direction = &mut self.directions[dir.index()];
            direction.stash.copy_within(used..have, 0);
            direction.len = (have - used) as u16;
            if direction.at_border() && direction.at > stop {
                return;
            }
        }
    }

    fn lose(&mut self, dir: Dir, defect: Option<Defect>, sink: &mut dyn Sink) {
        let direction = &mut self.directions[dir.index()];
        let (at, framed) = (direction.at, direction.sync == Sync::Good);
        let alone = framed && self.framer.alone(&wire!(self, dir, at, sink));
        let defect = defect.filter(|defect| *defect != Defect::BorderLost || !alone);
        let direction = &mut self.directions[dir.index()];
        direction.sync = Sync::Lost;
        direction.skip = 0;
        direction.advance(u64::from(direction.len));
        direction.len = 0;
        let told = direction.told;
        direction.told |= defect.is_some();
        self.framer.lost(&mut wire!(self, dir, at, sink));
        if let (Some(defect), false) = (defect, told) {
            sink.defect(defect, dir, at);
        }
    }

    /// From here on both directions are no longer this protocol.
    fn close_eyes(&mut self, dir: Dir, sink: &mut dyn Sink) {
        for direction in &mut self.directions {
            direction.opaque = true;
            if direction.sync == Sync::Fresh {
                continue;
            }
            direction.sync = Sync::Good;
        }
        let other = &mut self.directions[dir.other().index()];
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

    /// `len` bytes after everything known so far were not captured.
    fn missing(&mut self, dir: Dir, len: u64, sink: &mut dyn Sink) {
        let d = dir.index();
        self.drain(dir, true, NONE, sink);
        let direction = &mut self.directions[d];
        let left = len - direction.skip(len);
        if left == 0 {
            return;
        }
        if direction.opaque {
            let at = direction.at;
            direction.advance(left);
            self.unseen(dir, at, sink);
            return;
        }
        if !direction.is_lost() {
            let at = direction.at;
            match self.framer.blind(&mut wire!(self, dir, at, sink)) {
                Some(length) => self.directions[d].skip = length,
                None => self.lose(dir, Some(Defect::BorderLost), sink),
            }
        }
        let direction = &mut self.directions[d];
        let left = left - direction.skip(left);
        direction.advance(left);
        if F::REJOINS && direction.sync == Sync::Lost {
            direction.sync = Sync::Gap;
        }
    }

    /// `bytes` at `pos`; where `stop` is set, only those up to the end of the first message. How many were taken.
    fn feed(&mut self, dir: Dir, pos: u64, bytes: &[u8], stop: bool, sink: &mut dyn Sink) -> usize {
        let d = dir.index();
        let seen = self.chain(dir, pos, sink);
        let mut rest = bytes.get(seen as usize..).unwrap_or(&[]);
        let stop = if stop { pos.saturating_add(seen) } else { NONE };
        while !rest.is_empty() {
            let direction = &mut self.directions[d];
            if direction.skip > 0 && direction.len == 0 {
                let count = direction.skip(rest.len() as u64) as usize;
                rest = &rest[count..];
            } else if direction.opaque || direction.sync == Sync::Lost {
                let (at, opaque) = (direction.at, direction.opaque);
                direction.advance(rest.len() as u64);
                if opaque {
                    self.unseen(dir, at, sink);
                }
                break;
            } else if direction.len == 0 {
                // The hot path: the unit is read where it lies.
                let view = &rest[..rest.len().min(N)];
                match self.ask(dir, Some(view), false, sink) {
                    Err(Stop::Need) => {
                        let direction = &mut self.directions[d];
                        direction.stash[..view.len()].copy_from_slice(view);
                        direction.len = view.len() as u16;
                        break;
                    }
                    step => {
                        let used = self.apply(dir, step, rest.len(), sink).unwrap_or(0);
                        rest = &rest[used..];
                    }
                }
            } else {
                let (have, room) = (usize::from(direction.len), N - usize::from(direction.len));
                let added = room.min(rest.len());
                direction.stash[have..have + added].copy_from_slice(&rest[..added]);
                direction.len += added as u16;
                rest = &rest[added..];
                self.drain(dir, false, stop, sink);
            }
            let direction = &mut self.directions[d];
            if direction.at_border() && direction.at > stop {
                direction.len = 0; // what lies behind the border came with this call: it is handed back
                return usize::try_from(direction.at - pos).unwrap_or(bytes.len());
            }
        }
        bytes.len()
    }
}

#[allow(private_bounds)]
impl<F: Framer, const N: usize> Default for Duplex<F, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: Framer, const N: usize> Processor for Duplex<F, N> {
    fn data(&mut self, dir: Dir, pos: u64, bytes: &[u8], sink: &mut dyn Sink) {
        self.feed(dir, pos, bytes, false, sink);
    }

    fn data_to_border(&mut self, dir: Dir, pos: u64, bytes: &[u8], sink: &mut dyn Sink) -> usize {
        self.feed(dir, pos, bytes, true, sink)
    }

    fn ahead(&self, dir: Dir) -> u64 {
        let direction = &self.directions[dir.index()];
        match direction.len {
            0 if direction.skip > 0 => direction.skip,
            _ if direction.opaque || direction.sync == Sync::Lost => u64::MAX,
            _ => 0,
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
        let other = &self.directions[dir.other().index()];
        let lost = other.is_lost() && !other.opaque;
        let at = self.directions[dir.index()].next();
        let mut wire = wire!(self, dir, at, sink);
        if lost {
            let end = wire.next[dir.other().index()];
            wire.end_open(dir.other(), end, EndHow::Turn);
        }
        self.framer.turned(&mut wire, lost);
        let direction = &mut self.directions[dir.index()];
        if direction.is_lost() && !direction.opaque {
            direction.sync = Sync::Probe;
        }
    }

    fn shutdown(&mut self, dir: Dir, pos: u64, sink: &mut dyn Sink) {
        self.chain(dir, pos, sink);
        let direction = &mut self.directions[dir.index()];
        let inside = direction.len > 0 || (direction.skip > 0 && direction.skip != u64::MAX);
        direction.advance(u64::from(direction.len));
        direction.len = 0;
        direction.skip = u64::MAX;
        let at = direction.at;
        let mut wire = wire!(self, dir, at, sink);
        self.framer.closed(&mut wire);
        wire.end_open(dir, at, EndHow::Close);
        if inside {
            sink.defect(Defect::ClosedInside, dir, at);
        }
    }
}
