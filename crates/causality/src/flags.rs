//! A small set of things that are so, each with a name.

use std::fmt;
use std::marker::PhantomData;

/// What may be so: numbered from 0 to 31.
pub trait Flag: Copy {
    /// Its number.
    fn number(self) -> u8;
}

/// Declares an enum of what may be so, numbered in order.
macro_rules! flags {
    ($(#[$about:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $flag:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        $vis enum $name { $($(#[$doc])* $flag),+ }

        impl $crate::flags::Flag for $name {
            fn number(self) -> u8 { self as u8 }
        }
    };
}
pub(crate) use flags;

/// Which of them are.
pub struct Flags<F> {
    bits: u32,
    of: PhantomData<F>,
}

impl<F: Flag> Flags<F> {
    /// These alone.
    pub fn of(flags: &[F]) -> Flags<F> {
        let mut all = Flags::default();
        flags.iter().for_each(|&flag| all.add(flag));
        all
    }

    /// As a number: bit N is that of the flag of number N.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// Those of a number that [`Flags::bits`] gave.
    pub fn of_bits(bits: u32) -> Flags<F> {
        Flags { bits, of: PhantomData }
    }

    /// Whether something is so.
    pub fn has(self, flag: F) -> bool {
        self.bits >> flag.number() & 1 == 1
    }

    /// Something is so from now on.
    pub fn add(&mut self, flag: F) {
        self.bits |= 1 << flag.number();
    }

    /// Something is so from now on, if `is_so`; else it is as it was.
    pub fn add_if(&mut self, flag: F, is_so: bool) {
        self.bits |= u32::from(is_so) << flag.number();
    }

    /// Whether something is so from now on.
    pub fn set(&mut self, flag: F, is_so: bool) {
        self.bits = self.bits & !(1 << flag.number()) | u32::from(is_so) << flag.number();
    }

    /// Something is so from now on; whether that is new.
    pub fn insert(&mut self, flag: F) -> bool {
        let is_new = !self.has(flag);
        self.add(flag);
        is_new
    }

    /// Whether something was so; it is not any more.
    pub fn take(&mut self, flag: F) -> bool {
        let was = self.has(flag);
        self.set(flag, false);
        was
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

#[cfg(test)]
mod tests {
    use super::*;

    impl Flag for u8 {
        fn number(self) -> u8 {
            self
        }
    }

    #[test]
    fn each_flag_is_its_own() {
        let mut flags = Flags::of(&[0u8, 31]);
        flags.add_if(3, true);
        flags.add_if(31, false);
        flags.set(0, false);
        assert_eq!((0..32).filter(|&flag| flags.has(flag)).collect::<Vec<_>>(), [3, 31]);
        assert!(flags.take(31) && !flags.take(31));
        assert!(flags.insert(7) && !flags.insert(7) && flags.take(7));
        assert_eq!(flags, Flags::of(&[3]));
    }
}
