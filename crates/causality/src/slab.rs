//! Where exchanges live while they are open: places that are used again, told apart by their turn.

use crate::exchange::Exchange;
use rustc_hash::FxHashSet;
use wakepath_flows::places::Places;

/// An exchange in the engine's slab: a place, and how often the place was used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExId {
    /// The place.
    pub place: u32,
    /// Its use.
    pub turn: u32,
}

/// Exchanges that are open or not yet given away.
#[derive(Default)]
pub struct Slab {
    all: Places<Exchange>,
    turns: Vec<u32>,
    free: Vec<u32>,
    made: u64,
}

impl Slab {
    /// The exchange.
    pub fn get(&self, x: ExId) -> &Exchange {
        debug_assert!(self.is_live(x));
        &self.all[x.place]
    }

    /// Whether it was not given back yet.
    pub fn is_live(&self, x: ExId) -> bool {
        self.turns.get(x.place as usize) == Some(&x.turn)
    }

    pub(crate) fn get_mut(&mut self, x: ExId) -> &mut Exchange {
        &mut self.all[x.place]
    }

    pub(crate) fn insert(&mut self, mut e: Exchange) -> ExId {
        e.number = self.made;
        self.made += 1;
        match self.free.pop() {
            Some(place) => {
                self.all[place] = e;
                ExId { place, turn: self.turns[place as usize] }
            }
            None => {
                self.turns.push(0);
                ExId { place: self.all.push(e), turn: 0 }
            }
        }
    }

    /// Gives a place back; ids of it are no longer live.
    pub fn release(&mut self, x: ExId) {
        self.turns[x.place as usize] = self.turns[x.place as usize].wrapping_add(1);
        self.free.push(x.place);
    }

    /// What is live.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Exchange> {
        let free: FxHashSet<u32> = self.free.iter().copied().collect();
        (0..self.turns.len() as u32).filter(move |place| !free.contains(place)).map(|place| &self.all[place])
    }

    /// Places in use.
    pub fn in_use(&self) -> usize {
        self.all.count() - self.free.len()
    }
}
