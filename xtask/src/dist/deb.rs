//! The package for Debian and its kin: an `ar` archive of three files (deb(5)).

use super::Release;
use super::tar::gzipped;
use super::tree::{Entry, What};
use anyhow::Result;

/// The package. It starts nothing: `systemctl enable --now wakepath` does.
pub fn package(release: &Release<'_>, tree: &[Entry]) -> Result<Vec<u8>> {
    let below_dot: Vec<Entry> = tree.iter().map(|e| Entry { path: format!("./{}", e.path), ..e.clone() }).collect();
    let control = [Entry::file("./control", 0o644, control(release, tree).into_bytes())];
    let mut out = b"!<arch>\n".to_vec();
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzipped(&control, release.time)?),
        ("data.tar.gz", gzipped(&below_dot, release.time)?),
    ];
    for (name, bytes) in members {
        out.extend(format!("{name:<16}{:<12}0     0     100644  {:<10}`\n", release.time, bytes.len()).into_bytes());
        out.extend_from_slice(&bytes);
        out.resize(out.len().next_multiple_of(2), b'\n');
    }
    Ok(out)
}

fn control(release: &Release<'_>, tree: &[Entry]) -> String {
    let bytes: usize = tree.iter().map(size).sum();
    format!(
        "Package: wakepath\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: The authors of Wakepath <wakepath@localhost>\n\
         Installed-Size: {}\n\
         Depends: libc6 (>= 2.17)\n\
         Suggests: libpcap0.8\n\
         Section: admin\n\
         Priority: optional\n\
         Description: request paths of unmodified systems, recorded through the kernel\n\
         \x20Wakepath records a running Linux system without touching its code or configuration,\n\
         \x20and reconstructs which path each request took: through which services, with which\n\
         \x20calls and statements, where its time went, and what it waited for.\n",
        release.version,
        release.target.debian,
        bytes.div_ceil(1024),
    )
}

fn size(entry: &Entry) -> usize {
    if let What::File(bytes) = &entry.what { bytes.len() } else { 0 }
}
