//! A small set of things that are so, each with a name.

use std::fmt;
use std::marker::PhantomData;

/// What may be so: numbered from 0 to 31.
pub trait Flag: Copy {
    /// Its number.
    fn number(self) -> u8;
}

/// Which of them are.
pub struct Flags<F> {
    bits: u32,
    of: PhantomData<F>,
}

impl<F: Flag> Flags<F> {
    /// Whether something is so.
    pub fn has(self, flag: F) -> bool {
        self.bits >> flag.number() & 1 == 1
    }

    /// Something is so from now on.
    pub fn add(&mut self, flag: F) {
        self.bits |= 1 << flag.number();
    }
}

impl<F> Clone for Flags<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Flags<F> {}

impl<F> Default for Flags<F> {
    fn default() -> Self {
        Flags { bits: 0, of: PhantomData }
    }
}

impl<F> PartialEq for Flags<F> {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}

impl<F> Eq for Flags<F> {}

impl<F> fmt::Debug for Flags<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#b}", self.bits)
    }
}
