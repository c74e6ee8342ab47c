//! Requests that may be calls of other requests: whoever asks a watched service through a proxy or a translation that is not
//! seen calls an unknown address, and what arrives seems to come from clients of its own.

use super::collect::Collected;
use crate::derive::Unsupported;
use rustc_hash::FxHashMap;
use wakepath_analysis::names::Names;

/// Least requests of which it is said.
const REQUESTS_MIN: u64 = 16;
/// Two numbers that differ by less than one in so many are about the same: a recording cuts both at its ends.
const ABOUT: u64 = 8;

/// A refusal where a watched service got about as many requests as others called of the same at an address that is not
/// watched: as clients of their own they would stay as they are under a change, and would count twice.
pub fn refusal(collected: &Collected, names: &Names<'_>) -> Option<Unsupported> {
    let mut arrived = vec![0u64; collected.kinds.len()];
    collected.kind_of.iter().for_each(|&kind| arrived[kind as usize] += 1);
    // of what is asked at addresses that are not watched: where, how often, and the kind of a request that does
    let mut called: FxHashMap<String, (String, u64, u32)> = FxHashMap::default();
    for (request, &kind) in collected.requests.iter().zip(&collected.kind_of) {
        for span in request.spans.iter().filter(|s| s.parent.is_some() && s.callee.is_none()) {
            let Some(call) = &span.caller else { continue };
            let place = || (names.service(span), 0, kind);
            called.entry(names.asked(call)).or_insert_with(place).1 += 1;
        }
    }
    // by service: how many arrived of what is also called, how often that is called, and most of what arrived
    let mut services: FxHashMap<&str, (u64, u64, usize)> = FxHashMap::default();
    for (kind, (service, asked)) in collected.kinds.iter().enumerate() {
        let Some((_, calls, _)) = called.get(asked).filter(|_| !asked.is_empty()) else { continue };
        let both = services.entry(service).or_insert((0, 0, kind));
        *both = (both.0 + arrived[kind], both.1 + calls, if arrived[kind] > arrived[both.2] { kind } else { both.2 });
    }
    let (service, (got, _, most)) = services
        .into_iter()
        .filter(|(_, (got, calls, _))| *got >= REQUESTS_MIN && got.abs_diff(*calls) * ABOUT <= *got)
        .max_by_key(|&(service, (got, _, _))| (got, std::cmp::Reverse(service)))?;
    let asked = &collected.kinds[most].1;
    let (place, _, kind) = called.get(asked)?;
    let (from, by) = &collected.kinds[*kind as usize];
    let why = Unsupported::new(
        format!(
            "{got} requests that {service} got, such as \"{asked}\", may be those that {from} sent to {place}: a \
             proxy or an address translation between them is not seen, and they would count as other clients'"
        ),
        format!("record what is between them too, or forecast one kind: --request '{by}'"),
    );
    Some(why.of_requests())
}
