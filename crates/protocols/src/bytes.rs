//! Numbers and strings at places in bytes that may end before.

use crate::duplex::{Fit, Stop};

/// The length of the line at the start of `bytes` with its end; and whether that is missing, so that it is cut.
pub(crate) fn line(bytes: &[u8], last: bool) -> Result<(usize, bool), Stop> {
    match find(bytes, b'\n') {
        Some(newline) => Ok((newline + 1, false)),
        None if last => Ok((bytes.len(), true)),
        None => Err(Stop::Need),
    }
}

/// Where a byte stands first. Eight are looked at at a time: this is most of what a head costs the program that reads it.
fn find(bytes: &[u8], byte: u8) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let wanted = ONES * u64::from(byte);
    let (words, rest) = bytes.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        // zero where the byte stands; the subtraction borrows from the lowest such place on, so that one is right
        let x = u64::from_le_bytes(*word) ^ wanted;
        let zeros = x.wrapping_sub(ONES) & !x & (ONES << 7);
        if zeros != 0 {
            return Some(i * 8 + zeros.trailing_zeros() as usize / 8);
        }
    }
    Some(words.len() * 8 + rest.iter().position(|&b| b == byte)?)
}

fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    chunk(bytes, at).map(u16::from_be_bytes)
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    chunk(bytes, at).map(u32::from_be_bytes)
}

pub(crate) fn be64(bytes: &[u8], at: usize) -> Option<u64> {
    chunk(bytes, at).map(u64::from_be_bytes)
}

pub(crate) fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    chunk(bytes, at).map(u16::from_le_bytes)
}

pub(crate) fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    chunk(bytes, at).map(u32::from_le_bytes)
}

/// The bytes before the first NUL; and whether there is none, so that they are cut.
pub(crate) fn until_nul(bytes: &[u8]) -> (&[u8], bool) {
    match bytes.iter().position(|&b| b == 0) {
        Some(nul) => (&bytes[..nul], false),
        None => (bytes, true),
    }
}

/// A length-encoded integer of MySQL, and how many bytes it takes.
pub(crate) fn lenenc(bytes: &[u8]) -> Option<(u64, usize)> {
    let wide = |count: usize| {
        let field = bytes.get(1..1 + count)?;
        Some((field.iter().rev().fold(0, |value, &b| value << 8 | u64::from(b)), 1 + count))
    };
    match *bytes.first()? {
        short @ 0..=0xfa => Some((short.into(), 1)),
        0xfc => wide(2),
        0xfd => wide(3),
        0xfe => wide(8),
        _ => None,
    }
}

/// A number in decimal digits, at most 12 of them.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if !(1..=12).contains(&text.len()) || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')))
}

/// Whether these are characters as a person types them, beginning with a letter.
pub(crate) fn is_typed(text: &[u8]) -> bool {
    let shown = text.iter().all(|b| !b.is_ascii_control() || b.is_ascii_whitespace());
    shown && text.first().is_some_and(u8::is_ascii_alphabetic)
}

/// Whether a line holds nothing but characters that are shown; its end does not count.
pub(crate) fn is_shown(line: &[u8]) -> bool {
    line.trim_ascii_end().iter().all(|b| (b' '..=b'~').contains(b))
}

/// Whether these are the begin of a line of text whose first word is a command.
pub(crate) fn command_fits(bytes: &[u8], is_command: impl Fn(&[u8]) -> bool) -> Fit {
    let length = bytes.iter().take_while(|b| b.is_ascii_alphanumeric()).count();
    let line = bytes.split(|&b| b == b'\n').next().unwrap_or(&[]);
    match bytes.get(length) {
        None if length <= 16 => Fit::More,
        Some(b' ' | b'\r' | b'\n') => {
            (bytes[0].is_ascii_alphabetic() && is_shown(line) && is_command(&bytes[..length])).into()
        }
        _ => Fit::No,
    }
}

/// Whether these are the begin of a value of RESP, after whose type a text or a number stands.
pub(crate) fn resp_fits(bytes: &[u8]) -> Fit {
    let end = bytes.iter().position(|&b| b == b'\n');
    let line = &bytes[1..end.unwrap_or(bytes.len()).max(1)];
    let is_text = matches!(bytes[0], b'+' | b'-' | b'_' | b'#' | b',' | b'(');
    let is_number = |text: &[u8]| decimal(text.strip_prefix(b"-").unwrap_or(text)).is_some();
    match end {
        _ if !is_shown(line) => Fit::No,
        None if line.len() < 200 => Fit::More,
        None => Fit::No,
        Some(_) => line.strip_suffix(b"\r").is_some_and(|line| is_text || is_number(line)).into(),
    }
}

/// Whether `data` goes on as it does after a line that says that `count` bytes follow, and then the end of a line.
pub(crate) fn payload_fits(data: &[u8], count: u64) -> Fit {
    /// Most bytes whose end is waited for before the protocol is known.
    const WAITED_MAX: u64 = 160;
    match usize::try_from(count).ok().and_then(|count| data.get(count..)).unwrap_or(&[]) {
        [b'\r', b'\n', ..] => Fit::Sure,
        [] | [b'\r'] if count < WAITED_MAX => Fit::More,
        [] | [b'\r'] => Fit::Yes, // the end is too far
        _ => Fit::No,
    }
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn a_byte_is_found_where_it_stands_first() {
        // neighbours of the byte and of its top bit are what a comparison of eight at a time may stumble over
        let others = [0x00, 0x09, 0x0b, 0x80, 0x89, 0x8a, 0x8b, 0xff];
        for length in 0..40 {
            for other in others {
                assert_eq!(find(&[other; 40][..length], b'\n'), None, "{length} of {other:#x}");
                for (first, second) in (0..length).flat_map(|a| (a..length).map(move |b| (a, b))) {
                    let mut bytes = [other; 40];
                    (bytes[first], bytes[second]) = (b'\n', b'\n');
                    assert_eq!(find(&bytes[..length], b'\n'), Some(first), "{second} of {length} of {other:#x}");
                }
            }
        }
    }
}
