//! What was asked on a connection that answers in order.

/// The kinds of the first `N` requests that wait for their replies, and how many others wait behind them, or may, of which
/// no more is known.
pub(crate) struct Asked<const N: usize> {
    kinds: [u8; N],
    known: u8,
    others: u16,
}

impl<const N: usize> Asked<N> {
    pub const NEW: Self = Asked { kinds: [0; N], known: 0, others: 0 };

    /// One more. `false`: its kind finds no room, and is the first that does not.
    pub fn push(&mut self, kind: u8) -> bool {
        match self.kinds.get_mut(usize::from(self.known)) {
            Some(slot) if self.others == 0 => {
                *slot = kind;
                self.known += 1;
                true
            }
            _ => {
                self.missed();
                self.others > 1
            }
        }
    }

    /// One more may be there.
    pub fn missed(&mut self) {
        self.others = self.others.saturating_add(1);
    }

    /// The kind of the one that is answered next, if it is known.
    pub fn first(&self) -> Option<u8> {
        self.kinds[..usize::from(self.known)].first().copied()
    }

    /// That one is answered.
    pub fn pop(&mut self) -> Option<u8> {
        let first = self.first();
        match self.known.checked_sub(1) {
            Some(known) => {
                self.kinds.rotate_left(1);
                self.known = known;
            }
            None => self.others = self.others.saturating_sub(1),
        }
        first
    }

    /// How many wait (count).
    pub fn len(&self) -> u32 {
        u32::from(self.others) + u32::from(self.known)
    }
}
