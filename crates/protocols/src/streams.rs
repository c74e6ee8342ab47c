//! Messages on HTTP/2's streams that have not ended.

use crate::Dir;

/// Most of them: servers allow 100 to 250 streams as a rule, grpc-go's any number.
const SLOTS: usize = 512;

/// A message without an end.
#[derive(Clone, Copy)]
pub(crate) struct Open {
    /// 0: none.
    pub stream: u32,
    pub dir: Dir,
    pub failed: bool,
    pub start: u64,
}

/// Those of one connection.
pub(crate) struct Streams {
    slots: [Open; SLOTS],
    count: u16,
}

impl Streams {
    pub const NEW: Streams =
        Streams { slots: [Open { stream: 0, dir: Dir::ToServer, failed: false, start: 0 }; SLOTS], count: 0 };

    /// The place of what a condition holds for, looked for from where a stream's own is: streams are numbered in turn.
    fn place(&self, stream: u32, holds: impl Fn(&Open) -> bool) -> Option<usize> {
        let first = (stream >> 1) as usize;
        (0..SLOTS).map(|i| (first + i) % SLOTS).find(|&at| holds(&self.slots[at]))
    }

    /// The open message of a stream in a direction.
    pub fn get(&mut self, stream: u32, dir: Dir) -> Option<&mut Open> {
        if self.count == 0 || stream == 0 {
            return None;
        }
        self.place(stream, |open| open.stream == stream && open.dir == dir).map(|at| &mut self.slots[at])
    }

    /// Remembers a message; false where there is no room.
    pub fn add(&mut self, open: Open) -> bool {
        let at = self.place(open.stream, |open| open.stream == 0);
        if let Some(at) = at {
            self.slots[at] = open;
            self.count += 1;
        }
        at.is_some()
    }

    /// Forgets the message of a stream in a direction; where it began.
    pub fn take(&mut self, stream: u32, dir: Dir) -> Option<u64> {
        let open = self.get(stream, dir)?;
        open.stream = 0;
        let start = open.start;
        self.count -= 1;
        Some(start)
    }

    /// The stream of some open message of a direction.
    pub fn any(&self, dir: Dir) -> Option<u32> {
        let open = self.slots.iter().find(|open| self.count > 0 && open.stream != 0 && open.dir == dir);
        open.map(|open| open.stream)
    }
}
