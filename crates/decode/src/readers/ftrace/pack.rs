//! How a trace.dat of version 7 is compressed.

use flate2::{Decompress, FlushDecompress, Status};

/// The algorithm that the file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    None,
    Zstd,
    Zlib,
}

impl Packing {
    pub fn named(name: &str) -> Option<Packing> {
        match name {
            "none" => Some(Packing::None),
            "zstd" => Some(Packing::Zstd),
            "zlib" => Some(Packing::Zlib),
            _ => None,
        }
    }
}

/// How many times as long as itself what zstd unpacks can be: a block of 4 bytes repeats one byte 128 KiB times (RFC 8878,
/// section 3.1.1.2).
const ZSTD_TIMES: usize = (128 << 10) / 4;

/// Unpacks into `out`, which then has what came out, at most `size` bytes. Whether all was well.
pub fn unpack(packing: Packing, packed: &[u8], size: usize, out: &mut Vec<u8>) -> bool {
    out.clear();
    match packing {
        Packing::None => {
            out.extend_from_slice(&packed[..packed.len().min(size)]);
            true
        }
        Packing::Zstd => {
            // more than that nothing can come out of so many bytes
            out.resize(size.min(packed.len().saturating_mul(ZSTD_TIMES)), 0);
            let count = zstd::bulk::decompress_to_buffer(packed, &mut out[..]);
            out.truncate(count.as_ref().map_or(0, |n| *n));
            count.is_ok()
        }
        Packing::Zlib => {
            out.reserve(size);
            let status = Decompress::new(true).decompress_vec(packed, out, FlushDecompress::Finish);
            // the buffer may have had more room than was asked for
            let fits = out.len() <= size;
            out.truncate(size);
            fits && matches!(status, Ok(Status::StreamEnd))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn unpacks_what_was_packed_and_refuses_the_rest() {
        let bytes: Vec<u8> = (0..5000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let zstd = zstd::bulk::compress(&bytes, 3).unwrap();
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        zlib.write_all(&bytes).unwrap();
        let zlib = zlib.finish().unwrap();
        for (packing, packed) in [(Packing::None, &bytes), (Packing::Zstd, &zstd), (Packing::Zlib, &zlib)] {
            let mut out = vec![7];
            assert!(unpack(packing, packed, bytes.len(), &mut out), "{packing:?}");
            assert_eq!(out, bytes, "{packing:?}");
            if packing != Packing::None {
                assert!(!unpack(packing, &packed[..packed.len() / 2], bytes.len(), &mut out), "{packing:?}");
                assert!(!unpack(packing, b"nonsense", bytes.len(), &mut out), "{packing:?}");
                assert!(!unpack(packing, packed, 100, &mut out), "{packing:?}");
                assert!(out.len() <= 100, "{packing:?}");
            }
        }
    }
}
