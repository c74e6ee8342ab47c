//! Where the calls of a TLS library are in a file: of OpenSSL, and of what has functions of the same names (BoringSSL, LibreSSL,
//! programs that export their own, such as Node.js).

use crate::program::Program;
use std::path::Path;

/// What a probe at a TLS library's function tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPoint {
    /// It reads plaintext, and returns how much.
    Reads,
    /// It reads plaintext, and writes how much where the fourth argument says.
    ReadsSized,
    /// It writes plaintext, and returns how much.
    Writes,
    /// It writes plaintext, and writes how much where the fourth argument says.
    WritesSized,
    /// It goes on with the handshake.
    Shakes,
    /// Any of these returns.
    Returns,
    /// It frees a session.
    Frees,
    /// It puts out ciphertext.
    Puts,
}

/// The functions, and what each tells. Of a library that has any but the first, the next three are there.
const FUNCTIONS: [(&str, TlsPoint); 7] = [
    ("BIO_write", TlsPoint::Puts),
    ("SSL_read", TlsPoint::Reads),
    ("SSL_write", TlsPoint::Writes),
    ("SSL_free", TlsPoint::Frees),
    ("SSL_do_handshake", TlsPoint::Shakes),
    ("SSL_read_ex", TlsPoint::ReadsSized),
    ("SSL_write_ex", TlsPoint::WritesSized),
];

/// More names than any library has: bytes.
const NAMES_MAX: u64 = 1 << 26;

/// Where probes must be in a file; none where it exports no such functions.
pub fn tls_places(file: &Path) -> Vec<(TlsPoint, u64)> {
    let Some(program) = file.to_str().and_then(Program::open) else { return Vec::new() };
    let names = program.section(".dynstr", NAMES_MAX).unwrap_or_default();
    let has = |name: &[u8]| memchr::memmem::find(&names, name).is_some();
    if !has(b"\0BIO_write\0") && !has(b"\0SSL_read\0") {
        return Vec::new();
    }
    let found = program.all_exported(FUNCTIONS.map(|(name, _)| name)).map(|address| program.place(address?));
    let is_whole = found[1..4].iter().all(Option::is_some);
    let mut out = Vec::new();
    for (&(_, point), at) in FUNCTIONS.iter().zip(found) {
        // one that lacks some is not what it is taken for
        let Some(at) = at.filter(|_| is_whole || point == TlsPoint::Puts) else { continue };
        out.push((point, at));
        if !matches!(point, TlsPoint::Frees | TlsPoint::Puts) {
            out.push((TlsPoint::Returns, at));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_the_functions_has_no_places() {
        assert_eq!(tls_places(Path::new("/proc/self/exe")), []);
        assert_eq!(tls_places(Path::new("/nowhere")), []);
    }
}
