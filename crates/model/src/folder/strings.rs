//! The strings of a host, as its segments define them.

use crate::ids::StrId;
use crate::intern::OVERFLOW_TEXT;
use crate::words::Words;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The id of every string whose definition is gone.
pub const UNDEFINED: StrId = StrId(u32::MAX);
/// What [`UNDEFINED`] is shown as.
pub const UNDEFINED_TEXT: &str = "?";

/// Ids that a recording may use: far above what its interner gives.
const LOCAL_MAX: u32 = 1 << 22;
/// Bytes of strings that are kept of one host.
const BYTES_MAX: usize = 128 << 20;

/// All strings of a host; ids of its rows resolve here.
///
/// Ids belong to a recording. Those of a host's first recording stay as they are; where another one uses an id for
/// another string, its rows are translated as they are read.
#[derive(Clone, Debug, Default)]
pub struct Strings {
    texts: Vec<Option<Arc<str>>>,
    ids: FxHashMap<Arc<str>, u32>,
    bytes: usize,
}

impl Strings {
    /// The text of an id; `?` where it was never defined.
    pub fn get(&self, id: StrId) -> &str {
        match self.texts.get(id.0 as usize) {
            Some(Some(text)) => text,
            _ if id == StrId::EMPTY => "",
            _ => UNDEFINED_TEXT,
        }
    }

    /// The id of a text, if any row can use it. Rows of one host that name the same text have the same id.
    pub fn find(&self, text: &str) -> Option<StrId> {
        if text.is_empty() { Some(StrId::EMPTY) } else { self.ids.get(text).map(|id| StrId(*id)) }
    }

    /// Every defined string.
    pub fn iter(&self) -> impl Iterator<Item = (StrId, &str)> {
        self.texts.iter().enumerate().filter_map(|(i, t)| Some((StrId(i as u32), t.as_deref()?)))
    }

    /// One past the largest id: the size of a table by id.
    pub fn id_end(&self) -> u32 {
        self.texts.len() as u32
    }

    /// The id of a text that no recording need have defined.
    pub(super) fn add(&mut self, text: &str) -> StrId {
        self.define(LOCAL_MAX, text).map_or(UNDEFINED, StrId)
    }

    /// Takes a definition of a recording and returns the id that the host uses, or `None` where there is no room.
    fn define(&mut self, local: u32, text: &str) -> Option<u32> {
        if let Some(id) = self.ids.get(text) {
            return Some(*id);
        }
        if self.bytes + text.len() > BYTES_MAX && text != OVERFLOW_TEXT {
            return None;
        }
        let is_free = self.texts.get(local as usize).is_none_or(Option::is_none);
        let id = if is_free && local < LOCAL_MAX { local } else { (self.texts.len() as u32).max(2) };
        if self.texts.len() <= id as usize {
            self.texts.resize(id as usize + 1, None);
        }
        let text: Arc<str> = Arc::from(text);
        self.bytes += text.len();
        self.texts[id as usize] = Some(text.clone());
        self.ids.insert(text, id);
        Some(id)
    }
}

/// A recording's ids to its host's.
#[derive(Clone, Debug, Default)]
pub(super) struct StringMap {
    ids: Vec<u32>,
    /// Words that have recurred in this recording.
    words: Words,
    /// Texts with hashes of words: what they mean is known when all of the recording's texts are.
    hashed: BTreeMap<u32, Box<str>>,
}

impl StringMap {
    /// Reads the definitions of one frame. Returns false where the bytes are not definitions, and the number of
    /// strings that there was no room for.
    pub fn define_all(&mut self, strings: &mut Strings, mut bytes: &[u8]) -> (bool, u64) {
        let mut overflow = 0;
        while !bytes.is_empty() {
            let Some((head, rest)) = bytes.split_first_chunk::<8>() else {
                return (false, overflow);
            };
            let local = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
            let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
            if length > rest.len() || local >= LOCAL_MAX || local == 0 {
                return (false, overflow);
            }
            let (text, rest) = rest.split_at(length);
            bytes = rest;
            let text = String::from_utf8_lossy(text);
            if !self.words.learn(&text) {
                overflow += self.define(strings, local, &text);
            } else if strings.bytes + text.len() > BYTES_MAX {
                overflow += 1;
            } else if self.hashed.insert(local, text.as_ref().into()).is_none() {
                strings.bytes += text.len();
            }
        }
        (true, overflow)
    }

    /// All definitions were read: gives the texts with words in them their meaning. Returns the number of those that there was
    /// no room for.
    pub fn settle(&mut self, strings: &mut Strings) -> u64 {
        let hashed = std::mem::take(&mut self.hashed);
        strings.bytes -= hashed.values().map(|text| text.len()).sum::<usize>().min(strings.bytes);
        hashed.into_iter().map(|(local, text)| self.define(strings, local, &self.words.show(&text))).sum()
    }

    /// Gives a recording's id a text. 1 where there was no room.
    fn define(&mut self, strings: &mut Strings, local: u32, text: &str) -> u64 {
        let id = strings.define(local, text);
        if self.ids.len() <= local as usize {
            self.ids.resize(local as usize + 1, UNDEFINED.0);
        }
        self.ids[local as usize] = id.or_else(|| strings.define(1, OVERFLOW_TEXT)).unwrap_or(UNDEFINED.0);
        u64::from(id.is_none())
    }

    /// The host's id; [`UNDEFINED`] where the recording's definition is gone.
    pub fn get(&self, local: u32) -> u32 {
        if local == 0 { 0 } else { self.ids.get(local as usize).copied().unwrap_or(UNDEFINED.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(id: u32, text: &str) -> Vec<u8> {
        [&id.to_le_bytes()[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
    }

    #[test]
    fn a_second_recording_is_translated_where_it_differs() {
        let mut strings = Strings::default();
        let mut first = StringMap::default();
        assert_eq!(first.define_all(&mut strings, &[definition(2, "GET"), definition(3, "/a")].concat()), (true, 0));
        assert_eq!((first.get(2), first.get(3)), (2, 3));
        let mut second = StringMap::default();
        let bytes = [definition(2, "PUT"), definition(3, "/a"), definition(4, "GET"), definition(5, "new")].concat();
        assert_eq!(second.define_all(&mut strings, &bytes), (true, 0));
        let text = |local| strings.get(StrId(second.get(local)));
        assert_eq!((text(2), text(3), text(4), text(5), text(0), text(77)), ("PUT", "/a", "GET", "new", "", "?"));
        assert_eq!(strings.find("GET"), Some(StrId(2)));
        assert_eq!(second.get(77), UNDEFINED.0);
    }

    #[test]
    fn a_word_that_recurs_is_read_in_texts_from_before_and_all_other_values_are_one_text() {
        let (mut strings, mut map) = (Strings::default(), StringMap::default());
        let (alice, bob, orders) = ("{~00000000000000aa}", "{~00000000000000bb}", "{~00000000000000cc}");
        let bytes = [
            definition(2, &format!("/{orders}/{alice}")),
            definition(3, &format!("/{orders}/{bob}")),
            definition(4, "/{=00000000000000cc:orders}/{~00000000000000dd}"),
            definition(5, "GET"),
        ];
        assert_eq!(map.define_all(&mut strings, &bytes.concat()), (true, 0));
        // a segment that tells a text again changes nothing
        assert_eq!(map.define_all(&mut strings, &bytes[0]), (true, 0));
        assert_eq!(map.settle(&mut strings), 0);
        let text = |local| strings.get(StrId(map.get(local)));
        assert_eq!([2, 3, 4, 5].map(text), ["/orders/{value}", "/orders/{value}", "/orders/{value}", "GET"]);
        assert_eq!((map.get(2), map.get(3)), (map.get(4), map.get(4)), "one kind");
        assert_eq!(strings.bytes, "/orders/{value}GET".len());
        // another recording's hashes are under another key
        let mut other = StringMap::default();
        assert_eq!(other.define_all(&mut strings, &definition(2, &format!("/{orders}"))), (true, 0));
        assert_eq!(other.settle(&mut strings), 0);
        assert_eq!(strings.get(StrId(other.get(2))), "/{value}");
    }

    #[test]
    fn broken_definitions_are_refused_without_harm() {
        let mut strings = Strings::default();
        let mut map = StringMap::default();
        let good = definition(2, "abc");
        for cut in 1..good.len() {
            assert_eq!(map.define_all(&mut strings, &good[..cut]), (false, 0));
        }
        assert_eq!(map.define_all(&mut strings, &definition(u32::MAX, "x")), (false, 0));
        assert_eq!(map.define_all(&mut strings, &definition(0, "x")), (false, 0));
    }
}
