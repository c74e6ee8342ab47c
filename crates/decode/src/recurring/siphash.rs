//! SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012): without the key nobody can tell which word has
//! which hash, not even by trying all words.

/// 128 bits that nobody else knows.
#[derive(Clone, Copy)]
pub struct Key([u64; 2]);

impl Key {
    /// A key of random bytes.
    pub fn new(random: [u8; 16]) -> Key {
        let all = u128::from_le_bytes(random);
        Key([all as u64, (all >> 64) as u64])
    }

    /// The keyed hash of some bytes.
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let [k0, k1] = self.0;
        let mut v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let mut eight = [0; 8];
            eight.copy_from_slice(word);
            compress(&mut v, u64::from_le_bytes(eight));
        }
        let mut last = [0; 8];
        let rest = words.remainder();
        last[..rest.len()].copy_from_slice(rest);
        last[7] = bytes.len() as u8;
        compress(&mut v, u64::from_le_bytes(last));
        v[2] ^= 0xff;
        (0..4).for_each(|_| round(&mut v));
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

fn compress(v: &mut [u64; 4], word: u64) {
    v[3] ^= word;
    round(v);
    round(v);
    v[0] ^= word;
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_vectors_of_its_authors() {
        // key 00 01 … 0f, input 00 01 … (n - 1)
        let key = Key::new(std::array::from_fn(|i| i as u8));
        let input: Vec<u8> = (0..16).collect();
        let of = |n: usize| key.hash(&input[..n]).to_le_bytes();
        assert_eq!(of(0), [0x31, 0x0e, 0x0e, 0xdd, 0x47, 0xdb, 0x6f, 0x72]);
        assert_eq!(of(1), [0xfd, 0x67, 0xdc, 0x93, 0xc5, 0x39, 0xf8, 0x74]);
        assert_eq!(of(8), [0x62, 0x24, 0x93, 0x9a, 0x79, 0xf5, 0xf5, 0x93]);
        assert_eq!(key.hash(&input[..15]), 0xa129_ca61_49be_45e5);
    }
}
