//! Integers of any width at any bit, in both byte orders.

/// The `bits` (1 to 64) bits from bit `at` on. Little endian counts bits of a byte from the lowest, big endian from the
/// highest (CTF 1.8, §4.1.5). `None` where `data` ends before.
#[inline]
pub(super) fn read(data: &[u8], at: u64, bits: u8, big: bool) -> Option<u64> {
    let first = usize::try_from(at / 8).ok()?;
    let shift = (at % 8) as u32;
    let bits = u32::from(bits);
    let count = (shift + bits).div_ceil(8) as usize;
    let bytes = data.get(first..first.checked_add(count)?)?;
    let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
    let mut wide = 0u128;
    if big {
        for b in bytes {
            wide = wide << 8 | u128::from(*b);
        }
        wide >>= count as u32 * 8 - shift - bits;
    } else {
        for b in bytes.iter().rev() {
            wide = wide << 8 | u128::from(*b);
        }
        wide >>= shift;
    }
    Some(wide as u64 & mask)
}

/// The value of a signed integer of `bits` bits, as the bits of an `i64`.
#[inline]
pub(super) fn extend(value: u64, bits: u8) -> u64 {
    let unused = 64 - u32::from(bits.clamp(1, 64));
    ((value << unused) as i64 >> unused) as u64
}

/// The next multiple of `align` (a power of two) from `at` on.
#[inline]
pub(super) fn align(at: u64, align: u32) -> u64 {
    let mask = u64::from(align) - 1;
    at.saturating_add(mask) & !mask
}

/// An LEB128 integer that begins at byte `at`: its value and its bytes. Bits beyond 64 are dropped. `None` where `data`
/// ends before.
pub(super) fn leb128(data: &[u8], at: usize, signed: bool) -> Option<(u64, usize)> {
    let mut value = 0u64;
    let mut shift = 0u32;
    for (i, b) in data.get(at..)?.iter().enumerate() {
        if shift < 64 {
            value |= u64::from(b & 0x7f) << shift;
        }
        shift = shift.saturating_add(7);
        if b & 0x80 == 0 {
            let negative = signed && b & 0x40 != 0 && shift < 64;
            return Some((if negative { value | u64::MAX << shift } else { value }, i + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn widths_and_orders() {
        let data = [0b1010_0101, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0];
        assert_eq!(read(&data, 8, 32, false), Some(0x7856_3412));
        assert_eq!(read(&data, 8, 32, true), Some(0x1234_5678));
        assert_eq!(read(&data, 0, 5, false), Some(0b00101));
        assert_eq!(read(&data, 0, 5, true), Some(0b10100));
        assert_eq!(read(&data, 4, 8, false), Some(0x2a));
        assert_eq!(read(&data, 4, 8, true), Some(0x51));
        assert_eq!(read(&data, 3, 64, true).map(|v| v >> 59), Some(0b00101));
        assert_eq!(read(&data, 9, 64, false), None);
        assert_eq!(extend(0x1f, 5) as i64, -1);
        assert_eq!(extend(0x0f, 5), 15);
        assert_eq!((align(9, 8), align(16, 8), align(3, 1)), (16, 16, 3));
    }

    #[test]
    fn leb128_of_both_signs() {
        assert_eq!(leb128(&[0xe5, 0x8e, 0x26], 0, false), Some((624_485, 3)));
        assert_eq!(leb128(&[0x80, 0x7f], 0, true).map(|(v, n)| (v as i64, n)), Some((-128, 2)));
        assert_eq!(leb128(&[0x80], 0, false), None);
        let long = [[0xff; 9].as_slice(), &[0x7f]].concat();
        assert_eq!(leb128(&long, 0, true).map(|(v, n)| (v as i64, n)), Some((-1, 10)));
    }

    proptest! {
        #[test]
        fn whole_bytes_are_what_the_standard_library_says(v: u64, pad in 0usize..4) {
            let data = |bytes: [u8; 8]| [vec![0; pad], bytes.to_vec()].concat();
            prop_assert_eq!(read(&data(v.to_le_bytes()), pad as u64 * 8, 64, false), Some(v));
            prop_assert_eq!(read(&data(v.to_be_bytes()), pad as u64 * 8, 64, true), Some(v));
        }

        #[test]
        fn two_parts_make_the_whole(v: u64, at in 0u64..20, low in 1u8..63) {
            let data = [v.to_le_bytes(), v.to_be_bytes()].concat();
            for big in [false, true] {
                let whole = read(&data, at, 64, big);
                let first = read(&data, at, low, big);
                let second = read(&data, at + u64::from(low), 64 - low, big);
                let joined = first.zip(second).map(|(a, b)| if big { a << (64 - low) | b } else { b << low | a });
                prop_assert_eq!(whole, joined);
            }
        }
    }
}
