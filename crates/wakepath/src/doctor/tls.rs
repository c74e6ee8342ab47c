//! Which TLS libraries run here, and whether `record --tls` reads them.

use super::{check, check_to_do};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use wakepath_capture::procfs;
use wakepath_present::doctor::{Check, Verdict};
use wakepath_runtimes::{TlsPoint, tls_places};

/// What the name of a file that a process has mapped says of its TLS.
fn library(path: &str) -> Option<(&'static str, bool)> {
    let name = Path::new(path).file_name()?.to_str()?;
    let begins = |what: &str| name.starts_with(what);
    match () {
        () if begins("libssl") && !begins("libssl3.so") => Some(("OpenSSL", true)),
        () if begins("libgnutls") => Some(("GnuTLS", true)),
        // NSS, whose library has the same name without a dot
        () if begins("libssl3.so") => Some(("NSS", false)),
        () => None,
    }
}

/// Of the processes that run now, by library: how many.
fn found() -> BTreeMap<(&'static str, bool), usize> {
    let mut found = BTreeMap::new();
    let mut programs = HashMap::new();
    for tgid in procfs::processes() {
        let mut has: Vec<_> = procfs::code(tgid).iter().filter_map(|m| library(&m.path)).collect();
        let program = PathBuf::from(format!("/proc/{tgid}/exe"));
        if let Ok(file) = std::fs::metadata(&program) {
            let own = programs.entry((file.dev(), file.ino())).or_insert_with(|| own_tls(&program));
            has.extend(own.map(|name| (name, true)));
        }
        has.sort_unstable();
        has.dedup();
        has.into_iter().for_each(|library| *found.entry(library).or_default() += 1);
    }
    found
}

/// The TLS that a program has in itself, where it can be read.
fn own_tls(program: &Path) -> Option<&'static str> {
    let places = tls_places(program);
    let has = |wanted| places.iter().any(|&(point, _)| point == wanted);
    match () {
        () if has(TlsPoint::GoWrites) => Some("Go"),
        () if has(TlsPoint::Frees) => Some("a library in the program"),
        () => None,
    }
}

/// Whether what goes through TLS here can be read in clear.
pub fn tls_check() -> Check {
    told(&found())
}

fn told(found: &BTreeMap<(&'static str, bool), usize>) -> Check {
    let (id, title) = ("host.tls", "TLS");
    let said: Vec<String> = found
        .iter()
        .map(|(&(name, is_read), n)| {
            let how = if is_read { "`record --tls` reads its plaintext" } else { "stays encrypted" };
            format!("{n} × {name}: {how}")
        })
        .collect();
    if said.is_empty() {
        return check(id, title, Verdict::Yes, "no process has a TLS library that is known");
    }
    if found.keys().all(|(_, is_read)| *is_read) {
        return check(id, title, Verdict::Yes, said.join("; "));
    }
    let remedy = "Record the plain-text side of a proxy.";
    check_to_do(id, title, Verdict::Limit, said.join("; "), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_files() {
        assert_eq!(library("/usr/lib/x86_64-linux-gnu/libssl.so.3"), Some(("OpenSSL", true)));
        assert_eq!(library("/venv/psycopg2.libs/libssl-81ffa89e.so.3"), Some(("OpenSSL", true)));
        assert_eq!(library("/usr/lib/libssl3.so"), Some(("NSS", false)));
        assert_eq!(library("/usr/lib/libgnutls.so.30"), Some(("GnuTLS", true)));
        assert_eq!(library("/usr/lib/libc.so.6"), None);
    }

    #[test]
    fn what_stays_encrypted_is_a_limit() {
        assert_eq!(told(&BTreeMap::new()).verdict, Verdict::Yes);
        let open = BTreeMap::from([(("OpenSSL", true), 2)]);
        assert_eq!(told(&open).found, "2 × OpenSSL: `record --tls` reads its plaintext");
        let both = BTreeMap::from([(("OpenSSL", true), 2), (("NSS", false), 1)]);
        assert_eq!(told(&both).verdict, Verdict::Limit);
    }
}
