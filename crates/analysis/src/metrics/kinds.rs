//! Kinds of request, bounded. Where path templates leave too many (user names, hashes in words), the part of the path in which
//! most of them differ becomes `{…}`; what cannot be put together so is of the kind `(other)`.

use super::{Kind, KindIds, Metrics, OTHER, Tally, Texts};
use crate::names::asked;
use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_model::rows::SniffedExchangeRow;

/// Ids of kinds that are remembered beside their texts.
const CACHE_MAX: usize = 1 << 16;
/// Parts of a path that are looked at.
const PARTS_MAX: usize = 12;
/// What stands for a part of a path with too many values.
const ANY: &str = "{…}";
/// Fewer kinds are not put together.
const ALIKE_MIN: usize = 8;
/// Places of kinds that were put together stay taken, since windows name them: so many times more places than kinds.
const PLACES: usize = 4;

/// What was asked with each one part of its path left out; nothing where it has no path.
fn wider(asked: &str) -> Vec<String> {
    let Some(path) = asked.find(" /").map(|i| i + 1) else { return Vec::new() };
    let (verb, path) = asked.split_at(path);
    let parts: Vec<&str> = path.split('/').collect();
    let is_told = |i: &usize| !parts[*i].is_empty() && !parts[*i].starts_with('{');
    (1..parts.len().min(PARTS_MAX))
        .filter(is_told)
        .map(|i| {
            let mut parts = parts.clone();
            parts[i] = ANY;
            format!("{verb}{}", parts.join("/"))
        })
        .collect()
}

impl Metrics {
    /// The kind of an exchange at a service.
    pub(super) fn kind_of(&mut self, service: u32, source: u16, row: &SniffedExchangeRow, texts: &impl Texts) -> u32 {
        let ids: KindIds = (service, source, row.protocol, row.verb, row.target);
        if let Some(&k) = self.by_ids.get(&ids) {
            return k;
        }
        let protocol = texts.text(row.protocol);
        let asked = asked(&protocol, &texts.text(row.verb), &texts.text(row.target));
        let k = self.kind_named(service, &protocol, asked);
        if self.by_ids.len() >= CACHE_MAX {
            self.by_ids.clear();
        }
        self.by_ids.insert(ids, k);
        k
    }

    fn kind_named(&mut self, s: u32, protocol: &str, asked: String) -> u32 {
        let key = (s, protocol.to_owned(), asked);
        if let Some(k) = self.known(&key) {
            return k;
        }
        let service = &mut self.services[s as usize];
        if service.protocol.is_empty() {
            service.protocol.push_str(protocol);
        }
        // the last place of a service is for all others
        let is_full =
            service.kinds.len() + 1 >= self.options.kinds_max || self.kinds_live >= self.options.kinds_all_max;
        if !is_full {
            return self.add_kind(key);
        }
        if let Some(k) = service.other {
            return k;
        }
        if self.kinds.len() < self.options.kinds_all_max * PLACES && self.put_together(s) {
            return self.known(&key).unwrap_or_else(|| self.add_kind(key));
        }
        let k = self.add_kind((s, key.1, OTHER.to_owned()));
        self.services[s as usize].other = Some(k);
        k
    }

    /// The kind of a text, or of a wider one.
    fn known(&self, key: &(u32, String, String)) -> Option<u32> {
        if let Some(&k) = self.by_text.get(key) {
            return Some(k);
        }
        let has_wider = self.services[key.0 as usize].has_wider;
        let wider = if has_wider { wider(&key.2) } else { Vec::new() };
        wider.into_iter().find_map(|w| self.by_text.get(&(key.0, key.1.clone(), w)).copied())
    }

    fn add_kind(&mut self, key: (u32, String, String)) -> u32 {
        let k = self.kinds.len() as u32;
        self.kinds_live += 1;
        self.services[key.0 as usize].kinds.push(k);
        self.kinds.push(Kind {
            service: key.0,
            is_http: key.1.starts_with("proto.http"),
            protocol: key.1.clone(),
            asked: key.2.clone(),
            open: 0,
            counting: Tally::default(),
            closed: Tally::default(),
            is_touched: false,
        });
        self.by_text.insert(key, k);
        k
    }

    /// Makes one kind of those of a service that differ in one part of their path alone, where these are many.
    fn put_together(&mut self, s: u32) -> bool {
        let mut groups: FxHashMap<(&str, String), Vec<u32>> = FxHashMap::default();
        for &k in &self.services[s as usize].kinds {
            let kind = &self.kinds[k as usize];
            wider(&kind.asked).into_iter().for_each(|w| groups.entry((&kind.protocol, w)).or_default().push(k));
        }
        let enough = ALIKE_MIN.max(self.options.kinds_max / 4);
        let most =
            groups.into_iter().filter(|g| g.1.len() >= enough).max_by(|a, b| (a.1.len(), &b.0).cmp(&(b.1.len(), &a.0)));
        let Some(((protocol, asked), members)) = most else { return false };
        let key = (s, protocol.to_owned(), asked);
        let into = self.add_kind(key);
        let gone: FxHashSet<u32> = members.iter().copied().collect();
        let mut sum = (0, Tally::default(), Tally::default(), false);
        for &k in &members {
            let kind = &mut self.kinds[k as usize];
            sum.0 += std::mem::take(&mut kind.open);
            sum.1.merge(&std::mem::take(&mut kind.counting));
            sum.2.merge(&std::mem::take(&mut kind.closed));
            sum.3 |= std::mem::take(&mut kind.is_touched);
            self.by_text.remove(&(s, kind.protocol.clone(), kind.asked.clone()));
        }
        let kind = &mut self.kinds[into as usize];
        (kind.open, kind.counting, kind.closed, kind.is_touched) = sum;
        self.touched_kinds.retain(|k| !gone.contains(k));
        if self.kinds[into as usize].is_touched {
            self.touched_kinds.push(into);
        }
        self.open.values_mut().filter(|o| gone.contains(&o.kind)).for_each(|o| o.kind = into);
        self.by_ids.clear();
        self.kinds_live -= members.len();
        let service = &mut self.services[s as usize];
        service.kinds.retain(|k| !gone.contains(k));
        service.has_wider = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::wider;

    #[test]
    fn each_part_of_a_path_may_be_left_out() {
        assert_eq!(wider("GET /a/{n}/b"), ["GET /{…}/{n}/b", "GET /a/{n}/{…}"]);
        assert_eq!(wider("GET /"), [""; 0]);
        assert_eq!(wider("SELECT a FROM b"), [""; 0]);
        assert_eq!(wider("GET /{…}"), [""; 0]);
    }
}
