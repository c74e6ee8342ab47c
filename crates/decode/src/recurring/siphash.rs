//! SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012): without the key nobody can tell which word has
//! which hash, not even by trying all words.

use siphasher::sip::SipHasher24;

/// 128 bits that nobody else knows.
#[derive(Clone, Copy)]
pub struct Key(SipHasher24);

impl Key {
    /// A key of random bytes.
    pub fn new(random: [u8; 16]) -> Key {
        Key(SipHasher24::new_with_key(&random))
    }

    /// The keyed hash of some bytes.
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        self.0.hash(bytes)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
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
