//! What a proxy says of its client before the first bytes of the protocol that is spoken (HAProxy's PROXY protocol, versions 1 and 2).

use crate::bytes::be16;

/// The longest header of version 1, in bytes with its end.
const TEXT_MAX: usize = 107;

/// What bytes are that a client sends first.
pub(crate) enum Header {
    /// The protocol itself.
    None,
    /// More of them would tell.
    More,
    /// A header of so many bytes, of which fewer may be at hand.
    Bytes(u64),
}

/// The header at the start of a direction, if there is one.
pub(crate) fn header(bytes: &[u8]) -> Header {
    const TEXT: &[u8] = b"PROXY ";
    const BINARY: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
    if bytes.starts_with(TEXT) {
        let kind = &bytes[TEXT.len()..bytes.len().min(TEXT.len() + 3)];
        let is_header = [&b"TCP"[..], b"UNK"].iter().any(|known| known.starts_with(kind));
        return match bytes.iter().take(TEXT_MAX).position(|&b| b == b'\n') {
            Some(end) if is_header => Header::Bytes(end as u64 + 1),
            None if is_header && bytes.len() < TEXT_MAX => Header::More,
            _ => Header::None,
        };
    }
    if bytes.starts_with(BINARY) {
        return match (bytes.get(12), be16(bytes, 14)) {
            (Some(0x20 | 0x21), Some(length)) => Header::Bytes(16 + u64::from(length)),
            (Some(0x20 | 0x21) | None, None) => Header::More,
            _ => Header::None,
        };
    }
    let begins = TEXT.starts_with(bytes) || BINARY.starts_with(bytes);
    if begins { Header::More } else { Header::None }
}
