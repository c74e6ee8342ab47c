//! Rows as columns of bits, and back: what `docs/formats/folder.md` calls *packed*.
//!
//! Rows stand in blocks of [`BLOCK_ROWS`]; each word of the rows of a block is a column. Its values are first made small,
//! by one of the ways below, then only those of their bits are kept that differ within the block. That needs no search, as a
//! general compressor does, so that a row costs the recorder some nanoseconds.

use crate::rows::{Table, WORDS_MAX};
use crate::table::Way;

/// Rows of a block: its columns and planes fit into the first-level cache together.
const BLOCK_ROWS: usize = 128;
const GROUPS: usize = BLOCK_ROWS / 8;

const STEP: u8 = Way::Step as u8;
const NEAR: u8 = Way::Near as u8;
const BEYOND: u8 = Way::Beyond as u8;
const NEXT: u8 = Way::Next as u8;

/// How the words of a table's rows are made small.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    ways: [u8; WORDS_MAX],
    width: usize,
}

impl Plan {
    /// The plan of a table.
    pub fn of(table: Table) -> Plan {
        Plan { ways: table.ways(), width: table.row_bytes() / 8 }
    }

    fn ways(&self) -> &[u8] {
        &self.ways[..self.width]
    }
}

/// Lowest bit of each byte.
const ONES: u64 = 0x0101_0101_0101_0101;

/// By how much a time is before the row's, and one more; 0, which stands for no time, stays 0. Its own inverse.
#[inline(always)]
fn near(at: u64, time: u64) -> u64 {
    let behind = at.wrapping_add(1);
    if time == 0 || time == behind { time } else { behind.wrapping_sub(time) }
}

/// By how much `end` is behind `begin`, and one more; 0 where `end` is all ones, which stands for none.
#[inline(always)]
fn beyond(begin: u64, end: u64) -> u64 {
    match end {
        u64::MAX => 0,
        // what would be 0 takes the place that all ones left free
        _ if end.wrapping_add(1) == begin => begin.wrapping_neg(),
        _ => end.wrapping_sub(begin).wrapping_add(1),
    }
}

/// The inverse of [`beyond`]: the end.
#[inline(always)]
fn back(begin: u64, beyond: u64) -> u64 {
    match beyond {
        0 => u64::MAX,
        _ if beyond == begin.wrapping_neg() => begin.wrapping_sub(1),
        _ => begin.wrapping_add(beyond).wrapping_sub(1),
    }
}

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

/// Bit `bit` of each of a word's bytes, as one byte.
#[inline(always)]
fn gather(word: u64, bit: u32) -> u8 {
    ((word >> bit & ONES).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// The inverse of [`gather`] for bit 0, of each byte.
static SPREAD: [u64; 256] = {
    let mut all = [0; 256];
    let mut bits = 0;
    while bits < all.len() {
        let each = (bits as u64).wrapping_mul(ONES) & 0x8040_2010_0804_0201;
        all[bits] = (each + 0x7f7f_7f7f_7f7f_7f7f) >> 7 & ONES;
        bits += 1;
    }
    all
};

/// A word without its zero bytes: which bytes there are, then these.
#[inline]
fn put_word(word: u64, out: &mut Vec<u8>) {
    let bytes = word.to_le_bytes();
    let (mut packed, mut n) = ([0u8; 9], 1);
    for (i, b) in bytes.into_iter().enumerate() {
        packed[n] = b;
        packed[0] |= u8::from(b != 0) << i;
        n += usize::from(b != 0);
    }
    out.extend_from_slice(&packed[..n]);
}

fn take_word(from: &mut &[u8]) -> Option<u64> {
    let (which, rest) = from.split_first()?;
    let (bytes, rest) = rest.split_at_checked(which.count_ones() as usize)?;
    let (mut word, mut left) = (0, *which);
    for b in bytes {
        word |= u64::from(*b) << (8 * left.trailing_zeros());
        left &= left - 1;
    }
    *from = rest;
    Some(word)
}

/// Appends a frame's rows: the ways of their words, then block by block the columns.
pub(super) fn pack(plan: &Plan, rows: &[u64], out: &mut Vec<u8>) {
    let width = plan.width;
    out.extend_from_slice(plan.ways());
    let mut before = [0u64; WORDS_MAX];
    for block in rows.chunks(BLOCK_ROWS * width) {
        for (c, way) in plan.ways().iter().enumerate() {
            let mut column = [0u64; BLOCK_ROWS];
            let cells = block.chunks_exact(width).zip(&mut column);
            match *way {
                STEP => {
                    cells.for_each(|(row, to)| *to = row[c].wrapping_sub(std::mem::replace(&mut before[c], row[c])))
                }
                NEAR => cells.for_each(|(row, to)| *to = near(row[0], row[c])),
                BEYOND => cells.for_each(|(row, to)| *to = beyond(row[c - 1], row[c])),
                NEXT => cells.for_each(|(row, to)| *to = row[c].wrapping_add(1)),
                _ => cells.for_each(|(row, to)| *to = row[c]),
            }
            pack_column(&mut column, block.len() / width, out);
        }
    }
}

/// Appends a column of `n` values: the first one, which bits differ from it in any row, and these bits, a plane each.
fn pack_column(column: &mut [u64; BLOCK_ROWS], n: usize, out: &mut Vec<u8>) {
    let base = column[0];
    let mut varies = 0;
    for v in &mut column[..n] {
        *v ^= base;
        varies |= *v;
    }
    put_word(base, out);
    put_word(varies, out);
    if varies == 0 {
        return;
    }
    let groups = n.div_ceil(8);
    let mut planes = [[0u64; GROUPS]; 8];
    for (g, group) in column.as_chunks::<8>().0[..groups].iter().enumerate() {
        for (plane, word) in planes.iter_mut().zip(transpose(*group)) {
            plane[g] = word;
        }
    }
    for (plane, varies) in planes.iter().zip(varies.to_le_bytes()) {
        let plane = &plane[..groups];
        if varies == 0xff {
            for word in plane {
                out.extend_from_slice(&word.to_le_bytes());
            }
            continue;
        }
        let mut left = varies;
        while left != 0 {
            let bit = left.trailing_zeros();
            let mut bits = [0u8; GROUPS];
            for (b, word) in bits.iter_mut().zip(plane) {
                *b = gather(*word, bit);
            }
            out.extend_from_slice(&bits[..groups]);
            left &= left - 1;
        }
    }
}

/// The inverse of [`pack`]: exactly so many `rows` of `width` words. False where the bytes are not such rows.
pub(super) fn unpack(width: usize, from: &[u8], rows: &mut [u64]) -> bool {
    let Some((ways, mut from)) = from.split_at_checked(width) else {
        return false;
    };
    // the first word cannot be made small against another
    let is_known = |(c, way): (usize, &u8)| *way <= NEXT && (c > 0 || *way <= STEP);
    if !(1..=WORDS_MAX).contains(&width) || !ways.iter().enumerate().all(is_known) {
        return false;
    }
    let mut before = [0u64; WORDS_MAX];
    let mut column = [0u64; BLOCK_ROWS];
    for block in rows.chunks_mut(BLOCK_ROWS * width) {
        for (c, way) in ways.iter().enumerate() {
            if unpack_column(&mut from, block.len() / width, &mut column).is_none() {
                return false;
            }
            let cells = block.chunks_exact_mut(width).zip(&column);
            match *way {
                STEP => {
                    let mut last = before[c];
                    cells.for_each(|(row, v)| {
                        last = last.wrapping_add(*v);
                        row[c] = last;
                    });
                    before[c] = last;
                }
                NEAR => cells.for_each(|(row, v)| row[c] = near(row[0], *v)),
                BEYOND => cells.for_each(|(row, v)| row[c] = back(row[c - 1], *v)),
                NEXT => cells.for_each(|(row, v)| row[c] = v.wrapping_sub(1)),
                _ => cells.for_each(|(row, v)| row[c] = *v),
            }
        }
    }
    from.is_empty()
}

/// The inverse of [`pack_column`]: the first `n` values of the column.
fn unpack_column(from: &mut &[u8], n: usize, column: &mut [u64; BLOCK_ROWS]) -> Option<()> {
    let base = take_word(from)?;
    let varies = take_word(from)?;
    if varies == 0 {
        column[..n].fill(base);
        return Some(());
    }
    let groups = n.div_ceil(8);
    let which = varies.to_le_bytes();
    let (column, _) = column.as_chunks_mut::<8>();
    let column = &mut column[..groups];
    if which.iter().filter(|varies| **varies != 0).count() <= FEW {
        column.as_flattened_mut().fill(base);
        for (byte, varies) in which.into_iter().enumerate().filter(|(_, varies)| *varies != 0) {
            let mut plane = [0; GROUPS];
            take_plane(from, varies, &mut plane[..groups])?;
            for (group, word) in column.iter_mut().zip(plane) {
                for (v, b) in group.iter_mut().zip(word.to_le_bytes()) {
                    *v ^= u64::from(b) << (8 * byte);
                }
            }
        }
        return Some(());
    }
    let mut planes = [[0u64; GROUPS]; 8];
    for (plane, varies) in planes.iter_mut().zip(which) {
        take_plane(from, varies, &mut plane[..groups])?;
    }
    for (g, group) in column.iter_mut().enumerate() {
        *group = transpose(std::array::from_fn(|b| planes[b][g])).map(|v| v ^ base);
    }
    Some(())
}

/// Where so many bytes of a column vary, it takes less to put them in one by one than to transpose all.
const FEW: usize = 2;

/// One byte of each value of a column, eight values a word: the bits that vary, a plane each. `plane` is zero before.
#[inline(always)]
fn take_plane(from: &mut &[u8], varies: u8, plane: &mut [u64]) -> Option<()> {
    if varies == 0xff {
        let (bytes, rest) = from.split_at_checked(plane.len() * 8)?;
        for (word, b) in plane.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*b);
        }
        *from = rest;
        return Some(());
    }
    let mut left = varies;
    while left != 0 {
        let bit = left.trailing_zeros();
        let (bytes, rest) = from.split_at_checked(plane.len())?;
        for (word, b) in plane.iter_mut().zip(bytes) {
            *word |= SPREAD[usize::from(*b)] << bit;
        }
        *from = rest;
        left &= left - 1;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn there_and_back(plan: &Plan, rows: &[u64]) -> Vec<u64> {
        let mut out = Vec::new();
        pack(plan, rows, &mut out);
        let mut back = vec![7; rows.len()];
        assert!(unpack(plan.width, &out, &mut back));
        if let Some(cut) = out.len().checked_sub(1) {
            assert!(!unpack(plan.width, &out[..cut], &mut vec![0; rows.len()]), "a byte less is not the same rows");
        }
        back
    }

    proptest! {
        /// Values of every size, and those at which the ways have exceptions.
        #[test]
        fn rows_come_back(table in 0..Table::ALL.len(), count in 0usize..300, seed: u64) {
            let plan = Plan::of(Table::ALL[table]);
            let mut x = seed | 1;
            let mut rows = vec![0u64; plan.width * count];
            for i in 0..rows.len() {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (row, word) = (i / plan.width * plan.width, i.saturating_sub(1));
                rows[i] = match x >> 60 {
                    0 => 0,
                    1 => u64::MAX,
                    2 => rows[row].wrapping_add(1),
                    3 => rows[word].wrapping_sub(1),
                    4 => rows[word].wrapping_neg(),
                    n => x << 4 >> (n * 4),
                };
            }
            prop_assert_eq!(there_and_back(&plan, &rows), rows);
        }

        #[test]
        fn foreign_bytes_are_refused_or_read(width in 0usize..40, count in 0usize..300, body: Vec<u8>) {
            let mut rows = vec![0; width * count];
            let _ = unpack(width, &body, &mut rows);
            let known = [vec![STEP, NEAR, BEYOND, NEXT], body].concat();
            let _ = unpack(4, &known, &mut rows[..4 * (width * count / 4)]);
        }
    }

    #[test]
    fn each_way_has_an_inverse_at_its_exceptions() {
        for a in [0, 1, 2, 1 << 40, u64::MAX - 1, u64::MAX] {
            let edges = [0, 1, a.wrapping_sub(1), a, a.wrapping_add(1), a.wrapping_neg(), u64::MAX - 1, u64::MAX];
            for v in edges {
                assert_eq!(near(a, near(a, v)), v, "{a} {v}");
                assert_eq!(back(a, beyond(a, v)), v, "{a} {v}");
            }
        }
        assert_eq!((near(100, 97), near(100, 0)), (4, 0));
        assert_eq!((beyond(100, 150), beyond(100, u64::MAX)), (51, 0));
    }

    #[test]
    fn what_does_not_change_costs_nothing() {
        let row = [5u64, 1 << 50, 3, 4, 5, 6, 7, 8];
        let rows: Vec<u64> = (0..BLOCK_ROWS).flat_map(|_| row).collect();
        let mut out = Vec::new();
        pack(&Plan { ways: [Way::Plain as u8; WORDS_MAX], width: 8 }, &rows, &mut out);
        assert!(out.len() <= 8 + 8 * 3, "{}", out.len());
    }
}
