//! Values by a number of their own that is never another's: a place, and how many were made before.

use wakepath_flows::places::Places;

/// Values by number. Numbers rise in the order in which they were given.
pub(crate) struct Numbered<T> {
    places: Places<(u64, Option<T>)>,
    free: Vec<u32>,
    made: u64,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered { places: Places::default(), free: Vec::new(), made: 0 }
    }
}

/// Bits of a number that are its place.
const PLACE_BITS: u32 = 26;

fn place(number: u64) -> u32 {
    number as u32 & ((1 << PLACE_BITS) - 1)
}

impl<T> Numbered<T> {
    /// A new number, whose value comes later.
    pub(crate) fn reserve(&mut self) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| self.places.push((0, None)));
        self.made += 1;
        let number = self.made << PLACE_BITS | u64::from(place);
        self.places[place].0 = number;
        number
    }

    /// The value of a number that was reserved.
    pub(crate) fn insert(&mut self, number: u64, value: T) {
        self.places[place(number)].1 = Some(value);
    }

    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        self.places.get(place(number)).filter(|p| p.0 == number)?.1.as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.places.get_mut(place(number)).filter(|p| p.0 == number)?.1.as_mut()
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let value = self.places.get_mut(place(number)).filter(|p| p.0 == number)?.1.take()?;
        self.free.push(place(number));
        Some(value)
    }

    /// The numbers of all values, in the order in which they were given.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.places.iter().filter(|p| p.1.is_some()).map(|p| p.0).collect();
        numbers.sort_unstable();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustc_hash::FxHashMap;

    proptest! {
        #[test]
        fn says_what_a_table_would(steps in proptest::collection::vec((any::<bool>(), 0usize..600), 0..600)) {
            let (mut numbered, mut table, mut given) = (Numbered::default(), FxHashMap::default(), Vec::new());
            for (i, (is_new, of)) in steps.into_iter().enumerate() {
                if is_new || given.is_empty() {
                    let number = numbered.reserve();
                    prop_assert!(given.last() < Some(&number));
                    numbered.insert(number, i);
                    table.insert(number, i);
                    given.push(number);
                } else {
                    let number = given[of % given.len()];
                    prop_assert_eq!(numbered.remove(number), table.remove(&number));
                }
            }
            for number in given {
                prop_assert_eq!(numbered.get(number), table.get(&number));
                prop_assert_eq!(numbered.get_mut(number).copied(), table.get(&number).copied());
            }
            let mut left: Vec<u64> = table.into_keys().collect();
            left.sort_unstable();
            prop_assert_eq!(numbered.numbers(), left);
        }
    }
}
