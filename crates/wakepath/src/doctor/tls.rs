//! Which TLS libraries run here, and whether `record --tls` reads them.

use super::{check, check_to_do};
use crate::tls::{library, own_tls};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use wakepath_capture::procfs;
use wakepath_present::doctor::{Check, Verdict};

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
    fn what_stays_encrypted_is_a_limit() {
        assert_eq!(told(&BTreeMap::new()).verdict, Verdict::Yes);
        let open = BTreeMap::from([(("OpenSSL", true), 2)]);
        assert_eq!(told(&open).found, "2 × OpenSSL: `record --tls` reads its plaintext");
        let both = BTreeMap::from([(("OpenSSL", true), 2), (("NSS", false), 1)]);
        assert_eq!(told(&both).verdict, Verdict::Limit);
    }
}
