//! Masking: what a message is about, without what it says. Values go, structure stays.
//!
//! Everything here holds for input that was cut off anywhere: a literal whose end is missing is masked to the end.

mod statement;

pub use statement::{Sql, statement, verb};

use crate::Text;

/// FNV-1a, 64 bit.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The path template of an HTTP request target; `cut`: the target's end is missing.
///
/// Scheme and authority, query, fragment and `;parameters` are dropped. A segment becomes
/// - `{n}` if it is a number, also before an extension (`123.html` → `{n}.html`);
/// - `{id}` if it is at least 8 hexadecimal digits or hyphens with a digit among them (so also a UUID), is 20 or more
///   letters, digits, `-` and `_` with digits and letters among them, is longer than 64 bytes, or holds `@`, `%`,
///   `=` or bytes that are not printable; and the last one if the target is cut.
///
/// Other segments are kept: `/users/17/orders/5f3a9c00b1` → `/users/{n}/orders/{id}`, `/v2/page-3` stays.
pub fn path<const N: usize>(target: &[u8], cut: bool, out: &mut Text<N>) {
    let path = match target.iter().position(|&b| b == b':') {
        // Absolute form: http://host/path. A colon later in a path is no scheme.
        Some(colon) if !target[..colon].contains(&b'/') => {
            match target[colon..].strip_prefix(b"://") {
                Some(rest) => match rest.iter().position(|&b| b == b'/') {
                    Some(slash) => &rest[slash..],
                    None => b"/",
                },
                None => b"{authority}", // of CONNECT: host:port
            }
        }
        _ => target,
    };
    let end = path.iter().position(|&b| b == b'?' || b == b'#');
    let cut = cut && end.is_none();
    let mut segments = path[..end.unwrap_or(path.len())].split(|&b| b == b'/').peekable();
    let mut first = true;
    while let Some(segment) = segments.next() {
        if !core::mem::take(&mut first) {
            out.push(b'/');
        }
        let name = segment.split(|&b| b == b';').next().unwrap_or(&[]);
        match segment_mask(name) {
            _ if cut && segments.peek().is_none() => out.push_all(b"{id}"),
            Some((mask, kept)) => {
                out.push_all(mask);
                out.push_all(kept);
            }
            None => out.push_all(name),
        }
    }
    if cut {
        out.mark_cut();
    }
}

/// A name of labels with dots between them, such as a subject: each label is masked as a segment of a path is.
pub fn labels<const N: usize>(name: &[u8], out: &mut Text<N>) {
    for (i, label) in name.split(|&b| b == b'.').enumerate() {
        if i > 0 {
            out.push(b'.');
        }
        out.push_all(segment_mask(label).map_or(label, |(mask, _)| mask));
    }
}

/// The mask of a segment and the rest that is kept, or `None` if all of it is kept.
fn segment_mask(segment: &[u8]) -> Option<(&'static [u8], &[u8])> {
    let dot = segment.iter().rposition(|&b| b == b'.');
    let (stem, extension) = segment.split_at(dot.unwrap_or(segment.len()));
    if !stem.is_empty() && stem.iter().all(u8::is_ascii_digit) {
        let plain = extension.len() <= 6 && extension.iter().skip(1).all(u8::is_ascii_alphabetic);
        return Some((b"{n}", if plain { extension } else { b"" }));
    }
    let digit = stem.iter().any(u8::is_ascii_digit);
    let letter = stem.iter().any(u8::is_ascii_alphabetic);
    let hex = |&b: &u8| b.is_ascii_hexdigit() || b == b'-';
    let word = |&b: &u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let odd = |&b: &u8| matches!(b, b'@' | b'%' | b'=') || !b.is_ascii_graphic();
    let id = (stem.len() >= 8 && digit && stem.iter().all(hex))
        || (stem.len() >= 20 && digit && letter && stem.iter().all(word))
        || segment.len() > 64
        || (segment.iter().any(odd) && segment != b"{authority}");
    id.then_some((b"{id}", b""))
}
