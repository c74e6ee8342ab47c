//! Records of several processors put in order of time: perf empties one processor's buffer after the other, and says
//! when it has been at each of them once (FINISHED_ROUND).

/// Most bytes held. A file that never says that a round is over, or one with huge buffers, must not fill the memory.
const HELD_MAX: usize = 128 << 20;

#[derive(Clone, Copy)]
struct Entry {
    time: u64,
    at: u32,
    len: u32,
}

/// Holds records until nothing older than they can come. Records without a time (0) come first, at the time of the
/// first that has one.
#[derive(Default)]
pub(super) struct Rounds {
    entries: Vec<Entry>,
    held: Vec<u8>,
    spare: Vec<u8>,
    /// Latest time of this round and those before.
    latest: u64,
    /// The same when the last round was over.
    latest_before: u64,
}

impl Rounds {
    /// Takes a record. Whether too much is held now: then [`Rounds::relieve`].
    pub fn push(&mut self, time: u64, record: &[u8]) -> bool {
        // both fit: `HELD_MAX` and a record's length are far below 4 GiB
        self.entries.push(Entry { time, at: self.held.len() as u32, len: record.len() as u32 });
        self.held.extend_from_slice(record);
        self.latest = self.latest.max(time);
        self.held.len() >= HELD_MAX
    }

    /// A round is over: what the round before had at the latest is complete.
    pub fn finish(&mut self, take: impl FnMut(u64, &[u8])) {
        self.release(self.latest_before, take);
        self.latest_before = self.latest;
    }

    /// Gives the older half.
    pub fn relieve(&mut self, take: impl FnMut(u64, &[u8])) {
        self.entries.sort_by_key(|e| e.time);
        let middle = self.entries.get(self.entries.len() / 2).map_or(0, |e| e.time);
        self.release(middle, take);
    }

    /// Gives all that is left.
    pub fn end(&mut self, take: impl FnMut(u64, &[u8])) {
        self.release(u64::MAX, take);
    }

    fn release(&mut self, until: u64, mut take: impl FnMut(u64, &[u8])) {
        self.entries.sort_by_key(|e| e.time);
        let ready = self.entries.partition_point(|e| e.time <= until);
        if ready == 0 {
            return;
        }
        let bytes = |e: &Entry| e.at as usize..(e.at + e.len) as usize;
        let untimed = self.entries.iter().map(|e| e.time).find(|t| *t > 0).unwrap_or(self.latest);
        for entry in &self.entries[..ready] {
            let time = if entry.time == 0 { untimed } else { entry.time };
            take(time, &self.held[bytes(entry)]);
        }
        self.entries.drain(..ready);
        self.spare.clear();
        for entry in &mut self.entries {
            let at = self.spare.len() as u32;
            self.spare.extend_from_slice(&self.held[bytes(entry)]);
            entry.at = at;
        }
        std::mem::swap(&mut self.held, &mut self.spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(give: impl FnOnce(&mut dyn FnMut(u64, &[u8]))) -> Vec<(u64, Vec<u8>)> {
        let mut all = Vec::new();
        give(&mut |time, bytes| all.push((time, bytes.to_vec())));
        all
    }

    #[test]
    fn a_round_releases_what_the_one_before_reached() {
        let mut rounds = Rounds::default();
        for time in [1, 3, 2, 4] {
            rounds.push(time, &[time as u8; 3]);
        }
        assert_eq!(taken(|t| rounds.finish(t)), []);
        for time in [5, 6, 4, 7] {
            rounds.push(time, &[time as u8 + 10]);
        }
        let second = taken(|t| rounds.finish(t));
        assert_eq!(second.iter().map(|e| e.0).collect::<Vec<_>>(), [1, 2, 3, 4, 4]);
        assert_eq!(
            (&second[3].1[..], &second[4].1[..]),
            (&[4u8, 4, 4][..], &[14u8][..]),
            "equal times keep their order"
        );
        rounds.push(6, b"late");
        let rest = taken(|t| rounds.end(t));
        assert_eq!(rest.iter().map(|e| e.0).collect::<Vec<_>>(), [5, 6, 6, 7]);
        assert_eq!(rest[2].1, b"late");
    }

    #[test]
    fn what_has_no_time_comes_first() {
        let mut rounds = Rounds::default();
        for time in [9, 0, 8] {
            rounds.push(time, &[time as u8]);
        }
        assert_eq!(taken(|t| rounds.finish(t)), [(8, vec![0])]);
        rounds.push(0, b"z");
        assert_eq!(taken(|t| rounds.end(t)), [(8, b"z".to_vec()), (8, vec![8]), (9, vec![9])]);
    }

    #[test]
    fn without_rounds_the_older_half_goes() {
        let mut rounds = Rounds::default();
        for time in (0..100).rev() {
            rounds.push(time, b"x");
        }
        assert_eq!(taken(|t| rounds.relieve(t)).len(), 51);
        assert_eq!(taken(|t| rounds.end(t)).len(), 49);
    }
}
