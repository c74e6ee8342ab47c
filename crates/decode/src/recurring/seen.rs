//! Who said a word that has not recurred: bounded, and without the words.

use super::asker::Asker;
use rustc_hash::FxHashMap;

/// Clients that make a word one of the service's own.
pub const CLIENTS: usize = 3;
/// Requests that do where clients cannot: see [`Service`].
pub const REQUESTS: u8 = 12;
/// Requests of a service after which what was seen of its clients is taken for all there are.
const SETTLED: u32 = 16;
/// Services told apart.
const SERVICES_MAX: usize = 4096;
/// Words in each row of the table.
const WAYS: usize = 4;
/// Rows of the table.
const ROWS: usize = 1 << 14;

/// Different numbers, up to [`CLIENTS`] of them; 0 = none.
#[derive(Clone, Copy, Default)]
struct Few([u16; CLIENTS]);

impl Few {
    fn add(&mut self, number: u64) {
        let number = (number ^ number >> 16 ^ number >> 32 ^ number >> 48) as u16 | 1;
        if let Some(slot) = self.0.iter_mut().find(|slot| **slot == number || **slot == 0) {
            *slot = number;
        }
    }

    fn is_full(&self) -> bool {
        self.0[CLIENTS - 1] != 0
    }
}

/// What is known of those who ask a service.
#[derive(Clone, Copy, Default)]
struct Service {
    addresses: Few,
    connections: Few,
    requests: u32,
    last: u64,
}

/// A word at a service.
#[derive(Clone, Copy, Default)]
struct Word {
    /// Word and service; 0 = free.
    key: u64,
    addresses: Few,
    connections: Few,
    requests: u8,
    /// Of the request that was counted last: both of its ends may be watched.
    last: u16,
}

/// What came of counting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The word has recurred.
    pub recurs: bool,
    /// Another word was forgotten to make room.
    pub forgot: bool,
}

/// The words that were said and have not recurred.
pub struct Seen {
    rows: Vec<[Word; WAYS]>,
    services: FxHashMap<u64, Service>,
}

impl Seen {
    pub fn new() -> Seen {
        Seen { rows: Vec::new(), services: FxHashMap::default() }
    }

    /// A request was asked of a service.
    pub fn request(&mut self, asker: &Asker, start: u64) {
        if self.services.len() >= SERVICES_MAX && !self.services.contains_key(&asker.service) {
            return;
        }
        let service = self.services.entry(asker.service).or_default();
        let last = asker.connection ^ start;
        if service.last != last {
            service.last = last;
            service.requests = service.requests.saturating_add(1);
            service.addresses.add(asker.address);
            service.connections.add(asker.connection);
        }
    }

    /// A request that begins at `start` said the word with this hash.
    pub fn word(&mut self, hash: u64, asker: &Asker, start: u64, among_programs: bool) -> Counted {
        let service = self.services.get(&asker.service).copied().unwrap_or_default();
        if self.rows.is_empty() {
            self.rows = vec![[Word::default(); WAYS]; ROWS];
        }
        let key = (hash ^ asker.service.rotate_left(29).wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1;
        let row = &mut self.rows[(key >> 40) as usize % ROWS];
        let place = row.iter().position(|w| w.key == key);
        let (place, forgot) = match place.or_else(|| row.iter().position(|w| w.key == 0)) {
            Some(place) => (place, false),
            None => ((0..WAYS).min_by_key(|&i| row[i].requests).unwrap_or(0), true),
        };
        let word = &mut row[place];
        if word.key != key {
            *word = Word { key, ..Word::default() };
        }
        let last = (asker.connection ^ start.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 48;
        if word.requests == 0 || word.last != last as u16 {
            word.last = last as u16;
            word.requests = word.requests.saturating_add(1);
            word.addresses.add(asker.address);
            word.connections.add(asker.connection);
        }
        Counted { recurs: recurs(word, &service, among_programs), forgot }
    }
}

/// The rule of `docs/privacy.md`.
fn recurs(word: &Word, service: &Service, among_programs: bool) -> bool {
    if word.addresses.is_full() {
        return true;
    }
    let often = word.requests >= REQUESTS;
    if among_programs && often {
        return true;
    }
    if service.addresses.is_full() || service.requests < SETTLED {
        return false;
    }
    if service.connections.is_full() { word.connections.is_full() } else { often }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says a word in requests of these (address, connection), after `others` of an address and connections of their own.
    fn say(others: &[(u64, u64)], by: &[(u64, u64)], among_programs: bool) -> Option<usize> {
        let mut seen = Seen::new();
        let asker = |&(address, connection): &(u64, u64)| Asker { service: 77, address, connection };
        for (i, other) in others.iter().enumerate() {
            seen.request(&asker(other), 1_000_000 + i as u64);
        }
        by.iter().enumerate().position(|(i, one)| {
            seen.request(&asker(one), 7 * i as u64);
            // both ends are watched: the second time is the same request
            seen.word(5, &asker(one), 7 * i as u64, among_programs);
            seen.word(5, &asker(one), 7 * i as u64, among_programs).recurs
        })
    }

    fn of(address: u64, connections: std::ops::Range<u64>) -> Vec<(u64, u64)> {
        connections.map(|c| (address << 20, c << 33)).collect()
    }

    #[test]
    fn three_addresses_make_a_word_recur() {
        assert_eq!(say(&[], &[of(1, 1..9), of(2, 9..12), of(3, 12..13)].concat(), false), Some(11));
    }

    #[test]
    fn one_of_several_clients_never_does() {
        let others = [of(1, 1..9), of(2, 9..12), of(3, 12..13)].concat();
        assert_eq!(say(&others, &of(4, 20..500), false), None);
        assert_eq!(say(&others, &[of(4, 20..500), of(5, 500..900)].concat(), false), None);
        // what a program asks a database again and again is its statement
        assert_eq!(say(&others, &of(4, 20..500), true), Some(usize::from(REQUESTS) - 1));
    }

    #[test]
    fn where_all_come_by_one_proxy_a_connection_is_a_client() {
        let others = of(1, 1..30);
        assert_eq!(say(&others, &of(1, 40..60), false), Some(2));
        assert_eq!(say(&others, &of(1, 40..41).repeat(50), false), None);
    }

    #[test]
    fn of_one_connection_requests_count() {
        assert_eq!(say(&of(1, 1..2), &of(1, 1..2).repeat(50), false), Some(14), "12 requests, 16 of the service");
        assert_eq!(say(&[], &of(1, 1..2).repeat(11), false), None);
    }

    #[test]
    fn the_first_clients_of_a_recording_are_not_taken_for_all() {
        // six connections of one browser, before anybody else comes
        assert_eq!(say(&[], &of(1, 1..7), false), None);
    }

    #[test]
    fn memory_is_bounded_and_what_is_forgotten_is_said() {
        let mut seen = Seen::new();
        let asker = Asker { service: 1, address: 1, connection: 1 };
        let key = super::super::Key::new([3; 16]);
        let forgot =
            (0..200_000u64).filter(|i| seen.word(key.hash(&i.to_le_bytes()), &asker, *i, false).forgot).count();
        assert!(forgot > 200_000 - ROWS * WAYS && forgot < 200_000 - ROWS * WAYS * 8 / 10, "{forgot}");
        assert!(size_of::<Word>() <= 24);
        (0..10_000).for_each(|service| seen.request(&Asker { service, address: 1, connection: 1 }, 0));
        assert_eq!(seen.services.len(), SERVICES_MAX);
    }
}
