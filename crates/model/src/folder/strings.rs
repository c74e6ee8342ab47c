//! The strings of a host, as its segments define them.

use crate::ids::StrId;
use crate::intern::OVERFLOW_TEXT;
use rustc_hash::FxHashMap;
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
            let id = strings.define(local, &String::from_utf8_lossy(text)).unwrap_or_else(|| {
                overflow += 1;
                strings.define(1, OVERFLOW_TEXT).unwrap_or(UNDEFINED.0)
            });
            if self.ids.len() <= local as usize {
                self.ids.resize(local as usize + 1, UNDEFINED.0);
            }
            self.ids[local as usize] = id;
        }
        (true, overflow)
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
