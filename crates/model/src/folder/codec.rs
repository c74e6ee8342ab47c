//! Bodies of frames: rows and plain bytes to what stands in the file, and back.

use super::layout::{FLAG_LZ4, FLAG_PACKED};
use super::packed::{self, Plan};
use crate::rows::Table;

/// Appends the body for rows of a table and returns the frame's flags.
pub(super) fn encode_rows(table: Table, rows: &[u64], compress: bool, out: &mut Vec<u8>) -> u8 {
    let start = out.len();
    if compress {
        packed::pack(&Plan::of(table), rows, out);
        if out.len() - start < rows.len() * 8 {
            return FLAG_PACKED;
        }
        out.truncate(start);
    }
    out.extend_from_slice(bytemuck::cast_slice(rows));
    0
}

/// Appends the body for plain bytes and returns the frame's flags.
pub(super) fn encode_bytes(bytes: &[u8], compress: bool, out: &mut Vec<u8>) -> u8 {
    if compress {
        return lz4(bytes, out);
    }
    out.extend_from_slice(bytes);
    0
}

/// Appends `bytes` compressed, or as they are where that does not help.
fn lz4(bytes: &[u8], out: &mut Vec<u8>) -> u8 {
    let start = out.len();
    out.resize(start + lz4_flex::block::get_maximum_output_size(bytes.len()), 0);
    match lz4_flex::block::compress_into(bytes, &mut out[start..]) {
        Ok(n) if n < bytes.len() => {
            out.truncate(start + n);
            FLAG_LZ4
        }
        _ => {
            out.truncate(start);
            out.extend_from_slice(bytes);
            0
        }
    }
}

/// Decodes a body into rows of `words` words, exactly as many as `rows` has room for. False where the body is not what its flags say.
pub(super) fn decode_rows(flags: u8, words: usize, body: &[u8], rows: &mut [u64]) -> bool {
    match flags {
        FLAG_PACKED => packed::unpack(words, body, rows),
        0 => plain(body, bytemuck::cast_slice_mut(rows)),
        _ => false,
    }
}

/// Decodes a body of plain bytes.
pub(super) fn decode_bytes(flags: u8, raw_bytes: usize, body: &[u8], out: &mut Vec<u8>) -> bool {
    out.resize(raw_bytes, 0);
    match flags {
        FLAG_LZ4 => lz4_flex::block::decompress_into(body, out).is_ok_and(|n| n == out.len()),
        0 => plain(body, out),
        _ => false,
    }
}

fn plain(body: &[u8], out: &mut [u8]) -> bool {
    let fits = body.len() == out.len();
    if fits {
        out.copy_from_slice(body);
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_come_back(table in 0..Table::ALL.len(), count in 0usize..400, seed: u64, compress: bool) {
            let table = Table::ALL[table];
            let words = table.row_bytes() / 8;
            let mut x = seed | 1;
            let rows: Vec<u64> = (0..words * count).map(|i| {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if i % 3 == 0 { x } else { x >> 56 }
            }).collect();
            let mut body = vec![9, 9, 9];
            let flags = encode_rows(table, &rows, compress, &mut body);
            let mut back = vec![7; words * count];
            prop_assert!(decode_rows(flags, words, &body[3..], &mut back));
            prop_assert_eq!(rows, back);
        }

        #[test]
        fn bytes_come_back(bytes: Vec<u8>, compress: bool) {
            let mut body = vec![9];
            let flags = encode_bytes(&bytes, compress, &mut body);
            let mut back = Vec::new();
            prop_assert!(decode_bytes(flags, bytes.len(), &body[1..], &mut back));
            prop_assert_eq!(bytes, back);
        }

        #[test]
        fn garbage_is_refused_or_read_but_never_panics(flags: u8, body: Vec<u8>, count in 0usize..100) {
            let _ = decode_rows(flags % 4, 8, &body, &mut vec![0; 8 * count]);
            let mut bytes = Vec::new();
            let _ = decode_bytes(flags % 4, count, &body, &mut bytes);
        }
    }
}
