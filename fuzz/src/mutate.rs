//! Mutations that keep inputs nearly right: parts of valid ones put in anywhere, and numbers where formats go wrong, times above
//! all. What is left is libFuzzer's own.

use std::path::{Path, PathBuf};

/// Numbers at which times and lengths go wrong.
const ODD: [u64; 12] = [
    0,
    1,
    0x7f,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 48,
    i64::MAX as u64,
    1 << 63,
    u64::MAX / 1000,
    u64::MAX - 1,
    u64::MAX,
];

/// The parts of which valid inputs are made: `cut` cuts each file below the folders `tests/golden/NAME` into them.
pub fn golden(names: &[&str], cut: fn(Vec<u8>) -> Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
    let mut folders: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
    let mut parts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path if path.file_name().is_some_and(|name| name != "expected.txt") => {
                    parts.extend(std::fs::read(path).map(cut).unwrap_or_default());
                }
                _ => {}
            }
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.sort();
    parts
}

/// A file as it is.
pub fn whole(file: Vec<u8>) -> Vec<Vec<u8>> {
    vec![file]
}

/// A text's lines.
pub fn lines(file: Vec<u8>) -> Vec<Vec<u8>> {
    file.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect()
}

/// Small numbers without a pattern, from one.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % end.max(1)
    }
}

/// Changes the first `size` bytes of `data`, which has room for `max`; how many they are then.
pub fn mutate(parts: &[Vec<u8>], data: &mut [u8], size: usize, max: usize, seed: u32) -> usize {
    let mut dice = Dice(u64::from(seed) | 1 << 32);
    let max = max.min(data.len());
    match dice.below(4) {
        0 if !parts.is_empty() => insert(data, size, max, &parts[dice.below(parts.len())], dice.below(size + 1)),
        1 => {
            let mut number = ODD[dice.below(ODD.len())].wrapping_add(dice.below(3) as u64).wrapping_sub(1);
            if dice.below(4) == 0 {
                number = u64::from(seed) << dice.below(33);
            }
            let width = [4, 8][dice.below(2)];
            let at = dice.below(size + 1) & if dice.below(2) == 0 { !3 } else { !0 };
            if dice.below(4) == 0 {
                return insert(data, size, max, number.to_string().as_bytes(), at);
            }
            let bytes = if dice.below(4) == 0 { number.rotate_right(32).to_be_bytes() } else { number.to_le_bytes() };
            let end = (at + width).min(max);
            if at < end {
                data[at..end].copy_from_slice(&bytes[..end - at]);
            }
            size.max(end)
        }
        _ => libfuzzer_sys::fuzzer_mutate(data, size, max),
    }
}

fn insert(data: &mut [u8], size: usize, max: usize, part: &[u8], at: usize) -> usize {
    let part = &part[..part.len().min(max.saturating_sub(size))];
    data.copy_within(at..size, at + part.len());
    data[at..at + part.len()].copy_from_slice(part);
    size + part.len()
}
