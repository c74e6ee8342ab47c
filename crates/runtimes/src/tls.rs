//! Where the calls of a TLS library are in a file: of OpenSSL, and of what has functions of the same names (BoringSSL, LibreSSL); of
//! GnuTLS; of Go's crypto/tls. A program may export them, as Node.js does, or have them with its symbols for debuggers.

use crate::go;
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
    /// Go: it reads what it lacks of a record from the connection.
    GoReads,
    /// Go: it has read that, or failed to.
    GoHasRead,
    /// Go: it has decrypted a record.
    GoDecrypts,
    /// Go: it writes records.
    GoWrites,
}

impl TlsPoint {
    /// Whether something ends there that another of these begins.
    pub fn is_end(self) -> bool {
        matches!(self, TlsPoint::Returns | TlsPoint::GoHasRead)
    }
}

/// OpenSSL's functions, and what each tells. Of a library that has any but the first, the next three are there.
const OPENSSL: [(&str, TlsPoint); 7] = [
    ("BIO_write", TlsPoint::Puts),
    ("SSL_read", TlsPoint::Reads),
    ("SSL_write", TlsPoint::Writes),
    ("SSL_free", TlsPoint::Frees),
    ("SSL_do_handshake", TlsPoint::Shakes),
    ("SSL_read_ex", TlsPoint::ReadsSized),
    ("SSL_write_ex", TlsPoint::WritesSized),
];

/// GnuTLS's, which return how much they moved too. Of a library that has any, the first three are there. The last is since 3.6.3 what
/// the second calls; programs may as well.
const GNUTLS: [(&str, TlsPoint); 5] = [
    ("gnutls_record_recv", TlsPoint::Reads),
    ("gnutls_record_send", TlsPoint::Writes),
    ("gnutls_deinit", TlsPoint::Frees),
    ("gnutls_handshake", TlsPoint::Shakes),
    ("gnutls_record_send2", TlsPoint::Writes),
];

/// Of reading, writing and putting out: the function with an `int`, and the one that writes how much it moved where its fourth
/// argument says (places in [`OPENSSL`]; BIO's second is only looked at).
const PAIRS: [(usize, usize, TlsPoint); 3] =
    [(1, 5, TlsPoint::ReadsSized), (2, 6, TlsPoint::WritesSized), (0, 7, TlsPoint::Puts)];

/// Bytes of a function in which its call of another is looked for.
const CODE_BYTES: u64 = 64;

/// More names than any library has: bytes.
const NAMES_MAX: u64 = 1 << 26;

/// More bytes than a name has that is looked for.
const NAME_BYTES: usize = 32;

/// Where probes must be in a file; none where it has no such functions.
pub fn tls_places(file: &Path) -> Vec<(TlsPoint, u64)> {
    let Some(program) = file.to_str().and_then(Program::open) else { return Vec::new() };
    let mut places = openssl_places(&program);
    places.extend(gnutls_places(&program));
    places.extend(go::tls_places(&program).unwrap_or_default());
    places
}

/// Where a file has functions: those that it exports; else, if it has the first of `marks`, those with a symbol for debuggers.
fn found<const N: usize>(program: &Program, marks: [&str; 2], names: [&str; N]) -> [Option<u64>; N] {
    let mark = |name: &str| format!("\0{name}\0");
    let exported = program.section(".dynstr", NAMES_MAX).unwrap_or_default();
    let mut found = [None; N];
    if marks.iter().any(|name| memchr::memmem::find(&exported, mark(name).as_bytes()).is_some()) {
        found = program.all_exported(names);
    }
    if found.iter().all(Option::is_none)
        && program.search::<(), NAME_BYTES>(".strtab", mark(marks[0]).as_bytes(), |_| Some(())).is_some()
    {
        found = program.all_with_symbols(names);
    }
    found.map(|address| program.place(address?))
}

/// Adds a probe, and one at its return where that tells something.
fn add(out: &mut Vec<(TlsPoint, u64)>, point: TlsPoint, at: u64) {
    out.push((point, at));
    if !matches!(point, TlsPoint::Frees | TlsPoint::Puts) {
        out.push((TlsPoint::Returns, at));
    }
}

fn gnutls_places(program: &Program) -> Vec<(TlsPoint, u64)> {
    let found = found(program, ["gnutls_record_recv"; 2], GNUTLS.map(|(name, _)| name));
    let mut out = Vec::new();
    // one that lacks some is not what it is taken for
    if found[..3].iter().all(Option::is_some) {
        for ((_, point), at) in GNUTLS.into_iter().zip(found) {
            at.into_iter().for_each(|at| add(&mut out, point, at));
        }
    }
    out
}

fn openssl_places(program: &Program) -> Vec<(TlsPoint, u64)> {
    let names = OPENSSL.map(|(name, _)| name);
    let names: [&str; 8] = std::array::from_fn(|i| names.get(i).copied().unwrap_or("BIO_write_ex"));
    let found = found(program, ["SSL_read", "BIO_write"], names);
    let is_whole = found[1..4].iter().all(Option::is_some);
    let code = |at: u64| program.code(at, CODE_BYTES);
    let mut out = Vec::new();
    let mut is_passed = [false; OPENSSL.len() + 1];
    for (plain, sized, point) in PAIRS.into_iter().filter(|&(.., point)| is_whole || point == TlsPoint::Puts) {
        let (Some(a), Some(b)) = (found[plain], found[sized]) else { continue };
        if let Some(at) = inner((a, &code(a).unwrap_or_default()), (b, &code(b).unwrap_or_default()), code) {
            add(&mut out, point, at);
            (is_passed[plain], is_passed[sized]) = (true, true);
        }
    }
    for (i, &(_, point)) in OPENSSL.iter().enumerate() {
        // one that lacks some is not what it is taken for
        let Some(at) = found[i].filter(|_| !is_passed[i] && (is_whole || point == TlsPoint::Puts)) else { continue };
        add(&mut out, point, at);
    }
    out
}

/// The function inside a library that both of a pair call, where a probe costs a tenth: the kernel carries out its first
/// instruction, `push`, by itself, and has to step the program through what the exported ones begin with (on x86-64: nop, push, jumps
/// and calls are carried out). Its arguments are those of the second of the pair, which passes them on untouched. `None` where the
/// code does not show that.
fn inner(plain: (u64, &[u8]), sized: (u64, &[u8]), code: impl Fn(u64) -> Option<Vec<u8>>) -> Option<u64> {
    let at = passes_on(sized.0, sized.1)?;
    let calls = |i: usize| called(plain.0, plain.1, i) == Some(at);
    if !cfg!(target_arch = "x86_64") || !(0..plain.1.len()).any(calls) {
        return None;
    }
    match code(at)?[..] {
        [0x50..=0x57, ..] | [0x41, 0x50..=0x57, ..] => Some(at),
        [0xf3, 0x0f, 0x1e, 0xfa, 0x50..=0x57, ..] | [0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x50..=0x57, ..] => {
            at.checked_add(4)
        }
        _ => None,
    }
}

/// Where a `call` at this byte of a function's code leads.
fn called(function: u64, code: &[u8], at: usize) -> Option<u64> {
    let [0xe8, far @ ..] = code.get(at..at.checked_add(5)?)? else { return None };
    let far = i32::from_le_bytes(far.try_into().ok()?);
    function.checked_add(at as u64 + 5)?.checked_add_signed(far.into())
}

/// Whom a function calls first, if nothing before that call writes to a register of an argument.
fn passes_on(function: u64, code: &[u8]) -> Option<u64> {
    let mut at = 0;
    loop {
        at += match code.get(at..)? {
            // endbr64
            [0xf3, 0x0f, 0x1e, 0xfa, ..] => 4,
            // push
            [0x50..=0x57, ..] => 1,
            [0x41, 0x50..=0x57, ..] => 2,
            // sub rsp, n
            [0x48, 0x83, 0xec, ..] => 4,
            // mov into rbx or rbp; into r12 to r15
            [0x48 | 0x4c, 0x89, modes, ..] if modes >> 6 == 3 && matches!(modes & 7, 3 | 5) => 3,
            [0x49 | 0x4d, 0x89, modes, ..] if modes >> 6 == 3 && modes & 7 >= 4 => 3,
            _ => return called(function, code, at),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Debian 12 compiles OpenSSL 3: SSL_read at 0x100, SSL_read_ex at 0x200, what both call at 0x400.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn what_both_call_is_probed_if_arguments_are_passed_on_untouched() {
        let call = |function: u64, before: &[u8]| {
            let far = 0x400 - (function as i32 + before.len() as i32 + 5);
            [before, &[0xe8], &far.to_le_bytes()[..], &[0x31, 0xd2]].concat()
        };
        // sub rsp; test edx; js; mov rcx, rsp; movslq rdx, edx
        let plain = call(0x100, b"\x48\x83\xec\x18\x85\xd2\x78\x2f\x48\x89\xe1\x48\x63\xd2");
        let sized = call(0x200, b"\x48\x83\xec\x08");
        let found = |plain: &[u8], sized: &[u8], begins: &[u8]| {
            inner((0x100, plain), (0x200, sized), |at| (at == 0x400).then(|| begins.to_vec()))
        };
        assert_eq!(found(&plain, &sized, b"\x41\x55\x41"), Some(0x400));
        assert_eq!(found(&plain, &sized, b"\xf3\x0f\x1e\xfa\x55"), Some(0x404));
        // push rbp; mov rbp, rdi; push rbx; mov rbx, rdx; sub rsp: BIO_write_ex
        let keeps = call(0x200, b"\x55\x48\x89\xfd\x53\x48\x89\xd3\x48\x83\xec\x08");
        assert_eq!(found(&plain, &keeps, b"\x41\x56"), Some(0x400));
        // the kernel would step through its first instruction; one calls another; an argument is written to
        assert_eq!(found(&plain, &sized, b"\x48\x83\xec\x08"), None);
        assert_eq!(found(&call(0x101, b"\x90"), &sized, b"\x55"), None);
        let writes = call(0x200, b"\x48\x83\xec\x08\x48\x89\xf7");
        assert_eq!(found(&plain, &writes, b"\x55"), None);
        assert_eq!(found(&plain, &[], b"\x55"), None);
        assert_eq!(found(&[], &sized, b"\x55"), None);
    }

    #[test]
    fn a_file_without_the_functions_has_no_places() {
        assert_eq!(tls_places(Path::new("/proc/self/exe")), []);
        assert_eq!(tls_places(Path::new("/nowhere")), []);
    }
}
