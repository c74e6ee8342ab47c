//! Something about each end of a flow: a table of pages of places, since a host counts its flows up, so that most pages are
//! full, and few of them are all that is needed to find one of many.

use crate::places::Places;
use rustc_hash::FxHashMap;
use wakepath_model::ids::{EndpointId, HostId};

/// Flows of a page: a power of two.
const PAGE: usize = 32;
const NONE: u32 = u32::MAX;

/// An endpoint of a folder.
pub type End = (HostId, EndpointId);

struct Page {
    places: Box<[u32; PAGE]>,
    count: u32,
}

/// A value for each of some ends.
pub struct PerEnd<T> {
    pages: FxHashMap<(HostId, u64), Page>,
    values: Places<T>,
    free: Vec<u32>,
    /// The end that was changed last, and its place: most steps ask for it several times.
    last: Option<(End, u32)>,
}

impl<T> Default for PerEnd<T> {
    fn default() -> Self {
        PerEnd { pages: FxHashMap::default(), values: Places::default(), free: Vec::new(), last: None }
    }
}

fn page_of((host, flow): End) -> ((HostId, u64), usize) {
    ((host, flow.0 / PAGE as u64), flow.0 as usize % PAGE)
}

impl<T: Default> PerEnd<T> {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.values.count() - self.free.len()
    }

    /// The place of the end that was asked for last, which is mostly the one that is asked for.
    #[inline]
    fn same(&self, end: End) -> Option<u32> {
        self.last.filter(|(last, _)| *last == end).map(|(_, place)| place)
    }

    #[inline(never)]
    fn find(&self, end: End) -> Option<u32> {
        let (page, at) = page_of(end);
        Some(self.pages.get(&page)?.places[at]).filter(|place| *place != NONE)
    }

    #[inline(never)]
    fn find_to_change(&mut self, end: End) -> Option<u32> {
        let place = self.find(end)?;
        self.last = Some((end, place));
        Some(place)
    }

    /// The end's value.
    #[inline]
    pub fn get(&self, end: End) -> Option<&T> {
        let place = self.same(end).or_else(|| self.find(end))?;
        Some(&self.values[place])
    }

    /// The end's value, to be changed.
    #[inline]
    pub fn get_mut(&mut self, end: End) -> Option<&mut T> {
        let place = self.same(end).or_else(|| self.find_to_change(end))?;
        Some(&mut self.values[place])
    }

    /// The end's value, made where there is none.
    #[inline]
    pub fn or_insert_with(&mut self, end: End, make: impl FnOnce() -> T) -> &mut T {
        let found = self.same(end).or_else(|| self.find_to_change(end));
        let place = found.unwrap_or_else(|| self.add(end, make()));
        &mut self.values[place]
    }

    #[cold]
    fn add(&mut self, end: End, value: T) -> u32 {
        let place = match self.free.pop() {
            Some(place) => {
                self.values[place] = value;
                place
            }
            None => self.values.push(value),
        };
        let (page, at) = page_of(end);
        let page = self.pages.entry(page).or_insert_with(|| Page { places: Box::new([NONE; PAGE]), count: 0 });
        page.places[at] = place;
        page.count += 1;
        self.last = Some((end, place));
        place
    }

    /// Takes the end's value away.
    pub fn remove(&mut self, end: End) -> Option<T> {
        let (key, at) = page_of(end);
        let page = self.pages.get_mut(&key)?;
        let place = Some(std::mem::replace(&mut page.places[at], NONE)).filter(|place| *place != NONE)?;
        page.count -= 1;
        if page.count == 0 {
            self.pages.remove(&key);
        }
        self.last = None;
        self.free.push(place);
        Some(std::mem::take(&mut self.values[place]))
    }

    /// All ends and their values, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (End, &T)> {
        let of_page = move |(&(host, page), p): (&(HostId, u64), &'_ Page)| {
            let end = move |i: usize| (host, EndpointId(page * PAGE as u64 + i as u64));
            let places = *p.places;
            (0..PAGE).filter(move |i| places[*i] != NONE).map(move |i| (end(i), &self.values[places[i]]))
        };
        self.pages.iter().flat_map(of_page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn says_what_a_table_would(
            steps in proptest::collection::vec((any::<bool>(), 0u16..2, prop_oneof![0u64..100, u64::MAX - 40..=u64::MAX]), 0..300),
        ) {
            let (mut per_end, mut table) = (PerEnd::default(), FxHashMap::default());
            for (i, (is_new, host, flow)) in steps.into_iter().enumerate() {
                let end = (HostId(host), EndpointId(flow));
                prop_assert_eq!(per_end.get(end), table.get(&end));
                prop_assert_eq!(per_end.get_mut(end), table.get_mut(&end));
                if is_new {
                    prop_assert_eq!(per_end.or_insert_with(end, || i), table.entry(end).or_insert(i));
                } else {
                    prop_assert_eq!(per_end.remove(end), table.remove(&end));
                }
                prop_assert_eq!(per_end.count(), table.len());
            }
            let mut all: Vec<(End, usize)> = per_end.iter().map(|(end, v)| (end, *v)).collect();
            let mut expected: Vec<(End, usize)> = table.into_iter().collect();
            all.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(all, expected);
        }
    }
}
