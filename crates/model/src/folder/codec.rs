//! Rows to bytes that compress well, and back.
//!
//! Rows are regrouped in blocks of up to [`BLOCK_ROWS`]: within a block, byte `b` of all rows stands together (a
//! *plane*), so that what hardly changes from row to row becomes long runs. Times are replaced by the distance to
//! the row before. Rows of a block beyond a multiple of eight follow it as they are.

use super::layout::{FLAG_LZ4, FLAG_PLANES};

/// Rows of a block: a block of the widest row and its planes fit into the first-level cache together.
const BLOCK_ROWS: usize = 128;

/// Transposes an 8×8 matrix of bytes: byte `i` of word `j` becomes byte `j` of word `i`.
#[inline(always)]
fn transpose(mut w: [u64; 8]) -> [u64; 8] {
    for i in [0, 2, 4, 6] {
        let t = (w[i] >> 8 ^ w[i + 1]) & 0x00ff_00ff_00ff_00ff;
        w[i] ^= t << 8;
        w[i + 1] ^= t;
    }
    for i in [0, 1, 4, 5] {
        let t = (w[i] >> 16 ^ w[i + 2]) & 0x0000_ffff_0000_ffff;
        w[i] ^= t << 16;
        w[i + 2] ^= t;
    }
    for i in [0, 1, 2, 3] {
        let t = (w[i] >> 32 ^ w[i + 4]) & 0x0000_0000_ffff_ffff;
        w[i] ^= t << 32;
        w[i + 4] ^= t;
    }
    w
}

/// Regroups rows of `W` words; `planes` has as many words as `rows`.
fn to_planes<const W: usize>(rows: &[u64], planes: &mut [u64]) {
    let mut before = 0u64;
    let (rows, _) = rows.as_chunks::<W>();
    let mut out = planes;
    for block in rows.chunks(BLOCK_ROWS) {
        let (groups, rest) = block.as_chunks::<8>();
        let stride = groups.len();
        let (here, after) = out.split_at_mut(block.len() * W);
        let (grouped, tail) = here.split_at_mut(stride * 8 * W);
        for (g, group) in groups.iter().enumerate() {
            for c in 0..W {
                let mut w: [u64; 8] = std::array::from_fn(|i| group[i][c]);
                if c == 0 {
                    let last = w[7];
                    for i in (1..8).rev() {
                        w[i] = w[i].wrapping_sub(w[i - 1]);
                    }
                    w[0] = w[0].wrapping_sub(before);
                    before = last;
                }
                for (b, plane) in transpose(w).into_iter().enumerate() {
                    grouped[(c * 8 + b) * stride + g] = plane;
                }
            }
        }
        for (row, to) in rest.iter().zip(tail.as_chunks_mut::<W>().0) {
            *to = *row;
            to[0] = row[0].wrapping_sub(before);
            before = row[0];
        }
        out = after;
    }
}

/// The inverse of [`to_planes`].
fn from_planes<const W: usize>(planes: &[u64], rows: &mut [u64]) {
    let mut before = 0u64;
    let (rows, _) = rows.as_chunks_mut::<W>();
    let mut from = planes;
    for block in rows.chunks_mut(BLOCK_ROWS) {
        let (here, after) = from.split_at(block.len() * W);
        let (groups, rest) = block.as_chunks_mut::<8>();
        let stride = groups.len();
        let (grouped, tail) = here.split_at(stride * 8 * W);
        for (g, group) in groups.iter_mut().enumerate() {
            for c in 0..W {
                let w = transpose(std::array::from_fn(|b| grouped[(c * 8 + b) * stride + g]));
                for i in 0..8 {
                    group[i][c] = w[i];
                }
            }
            for row in group {
                before = before.wrapping_add(row[0]);
                row[0] = before;
            }
        }
        for (row, word) in rest.iter_mut().zip(tail.as_chunks::<W>().0) {
            *row = *word;
            before = before.wrapping_add(row[0]);
            row[0] = before;
        }
        from = after;
    }
}

macro_rules! by_width {
    ($words:expr, $f:ident($from:expr, $to:expr)) => {
        match $words {
            3 => $f::<3>($from, $to),
            4 => $f::<4>($from, $to),
            5 => $f::<5>($from, $to),
            6 => $f::<6>($from, $to),
            7 => $f::<7>($from, $to),
            8 => $f::<8>($from, $to),
            12 => $f::<12>($from, $to),
            13 => $f::<13>($from, $to),
            21 => $f::<21>($from, $to),
            26 => $f::<26>($from, $to),
            _ => return false,
        }
        return true
    };
}

/// False where no table has rows of so many words: then the rows are kept as they are.
fn regroup(words: usize, rows: &[u64], planes: &mut [u64]) -> bool {
    by_width!(words, to_planes(rows, planes));
}

fn ungroup(words: usize, planes: &[u64], rows: &mut [u64]) -> bool {
    by_width!(words, from_planes(planes, rows));
}

/// Encodes frames; its buffers are kept.
#[derive(Default)]
pub(super) struct Encoder {
    planes: Vec<u64>,
}

impl Encoder {
    /// Appends the body for rows of `words` words each and returns the frame's flags.
    pub fn rows(&mut self, words: usize, rows: &[u64], compress: bool, out: &mut Vec<u8>) -> u8 {
        if !compress {
            out.extend_from_slice(bytemuck::cast_slice(rows));
            return 0;
        }
        if self.planes.len() < rows.len() {
            self.planes.resize(rows.len(), 0);
        }
        let planes = &mut self.planes[..rows.len()];
        if regroup(words, rows, planes) {
            return lz4(bytemuck::cast_slice(planes), out) | FLAG_PLANES;
        }
        lz4(bytemuck::cast_slice(rows), out)
    }

    /// Appends the body for plain bytes and returns the frame's flags.
    pub fn bytes(&mut self, bytes: &[u8], compress: bool, out: &mut Vec<u8>) -> u8 {
        if compress {
            lz4(bytes, out)
        } else {
            out.extend_from_slice(bytes);
            0
        }
    }
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

/// Decodes frames; its buffers are kept.
#[derive(Default)]
pub(super) struct Decoder {
    planes: Vec<u64>,
}

impl Decoder {
    /// Decodes a body into exactly `count` rows of `words` words. False where the body is not what its flags say.
    pub fn rows(&mut self, flags: u8, words: usize, count: usize, body: &[u8], out: &mut Vec<u64>) -> bool {
        let total = words * count;
        out.resize(total, 0);
        if flags & FLAG_PLANES == 0 {
            return plain(flags, body, bytemuck::cast_slice_mut(out));
        }
        if self.planes.len() < total {
            self.planes.resize(total, 0);
        }
        let planes = &mut self.planes[..total];
        plain(flags, body, bytemuck::cast_slice_mut(planes)) && ungroup(words, planes, out)
    }

    /// Decodes a body of plain bytes.
    pub fn bytes(&mut self, flags: u8, raw_bytes: usize, body: &[u8], out: &mut Vec<u8>) -> bool {
        out.resize(raw_bytes, 0);
        flags & FLAG_PLANES == 0 && plain(flags, body, out)
    }
}

fn plain(flags: u8, body: &[u8], out: &mut [u8]) -> bool {
    if flags & FLAG_LZ4 != 0 {
        return lz4_flex::block::decompress_into(body, out).is_ok_and(|n| n == out.len());
    }
    if body.len() == out.len() {
        out.copy_from_slice(body);
    }
    body.len() == out.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Table;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_come_back(width in 0usize..6, count in 0usize..400, seed: u64, compress: bool) {
            let words = [3, 4, 5, 6, 8, 12][width];
            let mut x = seed | 1;
            let rows: Vec<u64> = (0..words * count).map(|i| {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if i % 3 == 0 { x } else { x >> 56 }
            }).collect();
            let mut body = vec![9, 9, 9];
            let flags = Encoder::default().rows(words, &rows, compress, &mut body);
            let mut back = Vec::new();
            prop_assert!(Decoder::default().rows(flags, words, count, &body[3..], &mut back));
            prop_assert_eq!(rows, back);
        }

        #[test]
        fn garbage_is_refused_or_read_but_never_panics(flags: u8, body: Vec<u8>, count in 0usize..100) {
            let mut out = Vec::new();
            let _ = Decoder::default().rows(flags, 8, count, &body, &mut out);
            let mut bytes = Vec::new();
            let _ = Decoder::default().bytes(flags, count, &body, &mut bytes);
        }
    }

    #[test]
    fn every_table_is_regrouped() {
        for table in Table::ALL {
            let mut none = [];
            assert!(regroup(table.row_bytes() / 8, &[], &mut none), "{}", table.name());
        }
    }
}
