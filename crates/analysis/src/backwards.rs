//! Slices that are found last first and read first first. Few are held: a longer path goes to a temporary file, of which
//! nothing stays behind.

use crate::reasons;
use crate::slices::{Slice, State};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use wakepath_causality::evidence::Class;
use wakepath_model::ids::{CommonNs, HostId, TaskId};

/// Slices held at most: some 2 MB.
const HELD_MAX: usize = 1 << 14;
/// Bytes of the file that are read together.
const BLOCK_BYTES: usize = 64 << 10;
/// Bytes of a slice in the file, after the bytes of its object.
const FIXED_BYTES: usize = 56;
/// Bytes of an object that are kept: more than any name that the path gives one.
const OBJECT_BYTES_MAX: usize = 1 << 10;

/// Slices given last first.
pub struct Backwards {
    held: Vec<Slice>,
    held_max: usize,
    spool: Option<Spool>,
    /// The one taken first.
    first: Option<Box<Slice>>,
    failed: bool,
}

/// The slices that are not held, last first, in a file without a name.
struct Spool {
    file: File,
    bytes: u64,
    /// Texts that stand for themselves by their place: the rules and the reasons, of which there are few.
    rules: Vec<(&'static str, Class)>,
    reasons: Vec<&'static str>,
    buffer: Vec<u8>,
}

impl Default for Backwards {
    fn default() -> Backwards {
        Backwards::holding(HELD_MAX)
    }
}

impl Backwards {
    /// Holds so many in memory, at least two.
    fn holding(held_max: usize) -> Backwards {
        Backwards { held: Vec::new(), held_max: held_max.max(2), spool: None, first: None, failed: false }
    }

    /// Takes the slice before the one that it took last.
    pub fn push(&mut self, slice: Slice) {
        if self.held.len() >= self.held_max {
            if self.first.is_none() {
                self.first = self.held.first().cloned().map(Box::new);
            }
            self.spill();
        }
        self.held.push(slice);
    }

    /// The slice that it took last.
    pub fn last_mut(&mut self) -> Option<&mut Slice> {
        self.held.last_mut()
    }

    /// Whether a file was needed and could not be written: further slices are held in memory.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.held.clear();
        self.first = None;
        if let Some(s) = &mut self.spool {
            s.bytes = 0;
        }
    }

    /// Gives all of them in order of time. Where the file cannot be read, one slice stands for those that it had.
    pub fn each(&self, take: &mut dyn FnMut(&Slice)) {
        self.held.iter().rev().for_each(&mut *take);
        self.in_file(self.held.first().map(|s| s.to), &mut |s| take(&s));
    }

    /// Gives all of them in order of time, and forgets them.
    pub fn drain(&mut self, take: &mut dyn FnMut(Slice)) {
        let reached = self.held.first().map(|s| s.to);
        self.held.drain(..).rev().for_each(&mut *take);
        self.in_file(reached, take);
        self.clear();
    }

    fn in_file(&self, mut reached: Option<CommonNs>, take: &mut dyn FnMut(Slice)) {
        let Some(spool) = &self.spool else { return };
        let read = spool.each(&mut |s| {
            reached = Some(s.to);
            take(s);
        });
        if let (Err(_), Some(from), Some(first)) = (read, reached, &self.first) {
            let rest = Slice { from, state: State::Unknown, reason: Some(reasons::NO_ROOM), ..Slice::clone(first) };
            take(rest);
        }
    }

    /// All but the last one taken go to the file.
    fn spill(&mut self) {
        if self.failed {
            return;
        }
        if self.spool.is_none() {
            self.spool = Spool::new().ok();
        }
        let Some(spool) = &mut self.spool else {
            self.failed = true;
            return;
        };
        let kept = self.held.len() - 1;
        match spool.write(&self.held[..kept]) {
            Ok(()) => drop(self.held.drain(..kept)),
            Err(_) => self.failed = true,
        }
    }
}

/// The place of a text in a list, which it joins where it is new.
fn place<T: PartialEq + Copy>(list: &mut Vec<T>, of: Option<T>) -> u8 {
    let Some(of) = of else { return 0 };
    let at = list.iter().position(|x| *x == of).unwrap_or_else(|| {
        list.push(of);
        list.len() - 1
    });
    u8::try_from(at + 1).unwrap_or(0)
}

fn at<T: Copy>(list: &[T], place: u8) -> Option<T> {
    usize::from(place).checked_sub(1).and_then(|i| list.get(i)).copied()
}

fn state_place(state: State) -> u8 {
    State::ALL.iter().position(|s| *s == state).map_or(0, |i| i as u8 + 1)
}

impl Spool {
    fn new() -> io::Result<Spool> {
        let file = tempfile::tempfile()?;
        Ok(Spool { file, bytes: 0, rules: Vec::new(), reasons: Vec::new(), buffer: Vec::new() })
    }

    fn write(&mut self, slices: &[Slice]) -> io::Result<()> {
        self.buffer.clear();
        for s in slices {
            self.encode(s);
        }
        self.file.write_all_at(&self.buffer, self.bytes)?;
        self.bytes += self.buffer.len() as u64;
        Ok(())
    }

    fn encode(&mut self, s: &Slice) {
        let object = s.object.as_deref().unwrap_or_default().as_bytes();
        let object = &object[..object.len().min(OBJECT_BYTES_MAX)];
        let (rule, reason) = (place(&mut self.rules, s.evidence), place(&mut self.reasons, s.reason));
        let out = &mut self.buffer;
        let before = out.len();
        out.extend_from_slice(object);
        out.extend_from_slice(&s.from.0.to_le_bytes());
        out.extend_from_slice(&s.to.0.to_le_bytes());
        let by = s.by.unwrap_or((HostId(0), TaskId(0)));
        for number in [s.task.0, by.1.0, s.span.unwrap_or(0)] {
            out.extend_from_slice(&u64::from(number).to_le_bytes());
        }
        let flags = u16::from(s.by.is_some())
            | u16::from(s.syscall.is_some()) << 1
            | u16::from(s.object.is_some()) << 2
            | u16::from(s.span.is_some()) << 3;
        let numbers = [s.host.0, by.0.0, s.syscall.unwrap_or(0), s.depth, flags, object.len() as u16];
        numbers.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
        out.extend_from_slice(&[state_place(s.state), s.wait.map_or(0, state_place), rule, reason]);
        debug_assert_eq!(out.len() - before, object.len() + FIXED_BYTES);
    }

    fn decode(&self, object: &[u8], fixed: &[u8; FIXED_BYTES]) -> Slice {
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| fixed[at + i]));
        let short = |at: usize| u16::from_le_bytes(std::array::from_fn(|i| fixed[at + i]));
        let state = |place: u8| at(State::ALL, place);
        let flags = short(48);
        let has = |bit: u16| flags & bit != 0;
        Slice {
            host: HostId(short(40)),
            task: TaskId(long(16) as u32),
            from: CommonNs(long(0) as i64),
            to: CommonNs(long(8) as i64),
            state: state(fixed[52]).unwrap_or(State::Unknown),
            by: has(1).then_some((HostId(short(42)), TaskId(long(24) as u32))),
            syscall: has(2).then_some(short(44)),
            object: has(4).then(|| String::from_utf8_lossy(object).into_owned()),
            depth: short(46),
            wait: state(fixed[53]),
            span: has(8).then_some(long(32) as u32),
            evidence: at(&self.rules, fixed[54]),
            reason: at(&self.reasons, fixed[55]),
        }
    }

    /// Gives what was written last first.
    fn each(&self, take: &mut dyn FnMut(Slice)) -> io::Result<()> {
        let (mut block, mut from) = (Vec::new(), self.bytes);
        // where in the block the next slice ends
        let mut end = 0usize;
        while from > 0 || end > 0 {
            if end < FIXED_BYTES + OBJECT_BYTES_MAX && from > 0 {
                let more = (from.min(BLOCK_BYTES as u64)) as usize;
                let rest: Vec<u8> = block[..end].to_vec();
                from -= more as u64;
                block.resize(more + end, 0);
                self.file.read_exact_at(&mut block[..more], from)?;
                block[more..].copy_from_slice(&rest);
                end = block.len();
            }
            let cut = || io::Error::from(io::ErrorKind::UnexpectedEof);
            let (before, fixed) = block[..end].split_last_chunk::<FIXED_BYTES>().ok_or_else(cut)?;
            let object_bytes = usize::from(u16::from_le_bytes([fixed[50], fixed[51]]));
            let start = before.len().checked_sub(object_bytes).ok_or_else(cut)?;
            take(self.decode(&before[start..], fixed));
            end = start;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULES: [&str; 3] = ["bytes", "read", "wake-up"];

    prop_compose! {
        fn slice()(
            host in any::<u16>(), task in any::<u32>(), from in any::<i64>(), to in any::<i64>(),
            state in 0..State::ALL.len(), by in proptest::option::of((any::<u16>(), any::<u32>())),
            syscall in proptest::option::of(any::<u16>()), object in proptest::option::of(".{0,40}"),
            depth in any::<u16>(), wait in proptest::option::of(0..State::ALL.len()),
            (span, rule) in (proptest::option::of(any::<u32>()), proptest::option::of((0..3usize, any::<bool>()))),
            reason in proptest::option::of(0..crate::reasons::ALL.len()),
        ) -> Slice {
            let class = |is_observed| if is_observed { Class::Observed } else { Class::ByRule };
            Slice {
                host: HostId(host),
                task: TaskId(task),
                from: CommonNs(from),
                to: CommonNs(to),
                state: State::ALL[state],
                by: by.map(|b| (HostId(b.0), TaskId(b.1))),
                syscall,
                object,
                depth,
                wait: wait.map(|w| State::ALL[w]),
                span,
                evidence: rule.map(|(i, o)| (RULES[i], class(o))),
                reason: reason.map(|r| crate::reasons::ALL[r].0),
            }
        }
    }

    fn read(of: &Backwards) -> Vec<Slice> {
        let mut out = Vec::new();
        of.each(&mut |s| out.push(s.clone()));
        out
    }

    proptest! {
        #[test]
        fn what_is_written_last_first_is_read_first_first(
            mut slices in proptest::collection::vec(slice(), 0..300), held in 2usize..40,
        ) {
            let mut b = Backwards::holding(held);
            slices.iter().for_each(|s| b.push(s.clone()));
            prop_assert!(b.held.len() <= held && !b.has_failed());
            slices.reverse();
            prop_assert_eq!(&read(&b), &slices);
            let mut drained = Vec::new();
            b.drain(&mut |s| drained.push(s));
            prop_assert_eq!(drained, slices);
            prop_assert!(read(&b).is_empty());
        }
    }

    /// A file that lost its end: what it had is one slice, and nothing is missing.
    #[test]
    fn what_cannot_be_read_back_is_unknown() {
        let mut b = Backwards::holding(2);
        let plain = |n: i64| Slice {
            host: HostId(0),
            task: TaskId(1),
            from: CommonNs(n),
            to: CommonNs(n + 1),
            state: State::Running,
            by: None,
            syscall: None,
            object: None,
            depth: 0,
            wait: None,
            span: None,
            evidence: None,
            reason: None,
        };
        (0..10).rev().for_each(|n| b.push(plain(n)));
        b.spool.as_ref().expect("a file").file.set_len(10).expect("cut");
        let read = read(&b);
        assert!(read.windows(2).all(|two| two[0].to == two[1].from), "{read:?}");
        let last = read.last().expect("slices");
        assert_eq!((read[0].from, last.to, last.reason), (CommonNs(0), CommonNs(10), Some(reasons::NO_ROOM)));
    }

    #[test]
    fn states_have_places_of_their_own() {
        let places: std::collections::BTreeSet<u8> = State::ALL.iter().map(|s| state_place(*s)).collect();
        assert!(places.len() == State::ALL.len() && !places.contains(&0));
    }
}
