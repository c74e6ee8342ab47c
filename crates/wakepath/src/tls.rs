//! Which TLS a process uses, by the files that it has mapped, and whether `record --tls` reads it.

use crate::output::tell;
use std::collections::HashSet;
use std::path::Path;
use wakepath_capture::procfs;
use wakepath_runtimes::{TlsPoint, tls_places};

/// Most processes of which is remembered that they were named.
const NAMED_MAX: usize = 4096;

/// What the name of a file that a process has mapped says of its TLS: whose it is, and whether it is read.
pub fn library(path: &str) -> Option<(&'static str, bool)> {
    let name = Path::new(path).file_name()?.to_str()?;
    let begins = |what: &str| name.starts_with(what);
    match () {
        () if begins("libssl") && !begins("libssl3.so") => Some(("OpenSSL", true)),
        () if begins("libgnutls") => Some(("GnuTLS", true)),
        // NSS, whose library has the same name without a dot
        () if begins("libssl3.so") => Some(("NSS", false)),
        () if begins("libjvm.so") => Some(("Java's own TLS", false)),
        () => None,
    }
}

/// The TLS that a program has in itself, where it can be read.
pub fn own_tls(program: &Path) -> Option<&'static str> {
    let places = tls_places(program);
    let has = |wanted| places.iter().any(|&(point, _)| point == wanted);
    match () {
        () if has(TlsPoint::GoWrites) => Some("Go"),
        () if has(TlsPoint::Frees) => Some("a library in the program"),
        () => None,
    }
}

/// Names processes whose TLS cannot be read, each once.
#[derive(Default)]
pub struct Unread {
    noted: HashSet<u32>,
    /// Those that nobody looked at yet.
    waiting: Vec<u32>,
}

impl Unread {
    /// A process moves TLS that was not read.
    pub fn note(&mut self, tgid: u32) {
        if self.noted.len() < NAMED_MAX && self.noted.insert(tgid) {
            self.waiting.push(tgid);
        }
    }

    /// Looks at one of them: to be called between two readings of the rings, for that takes a while.
    pub fn look(&mut self) {
        let Some(tgid) = self.waiting.pop() else { return };
        let name = procfs::comm(tgid).unwrap_or_default();
        let name = String::from_utf8_lossy(&name);
        if let Some(whose) = replaced(procfs::mapped_files(tgid).iter().map(|f| f.path.as_str())) {
            tell!(
                "wakepath: {name} ({tgid}) still uses {whose} from a file that was replaced since it started, which Wakepath cannot read; its \
                 messages stay encrypted until you restart it"
            );
            return;
        }
        let mapped: Vec<_> = procfs::code(tgid).iter().filter_map(|m| library(&m.path)).collect();
        if let Some(whose) = unread(&mapped) {
            tell!("wakepath: {name} ({tgid}) uses {whose}, which Wakepath cannot read; its messages stay encrypted");
        }
    }
}

/// Whose library of those that are read is mapped from a file that has no name any more, as an upgrade leaves it.
fn replaced<'f>(mut mapped: impl Iterator<Item = &'f str>) -> Option<&'static str> {
    mapped
        .find_map(|path| library(path.strip_suffix(" (deleted)")?).filter(|(_, is_read)| *is_read))
        .map(|(whose, _)| whose)
}

/// Whose TLS it is that cannot be read; `None` where it has a library that is read, so that this connection alone is not, and where none is
/// known: it may only pass on what others encrypted.
fn unread(mapped: &[(&'static str, bool)]) -> Option<&'static str> {
    let is_any_read = mapped.iter().any(|(_, is_read)| *is_read);
    mapped.first().filter(|_| !is_any_read).map(|(whose, _)| *whose)
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
        assert_eq!(library("/opt/jdk/lib/server/libjvm.so"), Some(("Java's own TLS", false)));
        assert_eq!(library("/usr/lib/libc.so.6"), None);
    }

    #[test]
    fn a_library_of_which_the_file_is_gone_is_named() {
        let (old, new) = ("/usr/lib/libssl.so.3 (deleted)", "/usr/lib/libssl.so.3");
        assert_eq!(replaced(["/usr/lib/libc.so.6 (deleted)", new].into_iter()), None);
        assert_eq!(replaced([new, old].into_iter()), Some("OpenSSL"));
        assert_eq!(replaced(["/usr/lib/libssl3.so (deleted)"].into_iter()), None, "it is not read in any case");
    }

    #[test]
    fn only_who_has_no_tls_that_is_read_is_named() {
        let (java, openssl) = (("Java's own TLS", false), ("OpenSSL", true));
        assert_eq!(unread(&[java]), Some("Java's own TLS"));
        assert_eq!(unread(&[]), None);
        assert_eq!(unread(&[java, openssl]), None);
    }
}
