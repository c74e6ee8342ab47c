//! Archives in the format of POSIX (ustar): as much of it as packages need.

use super::tree::{Entry, What};
use anyhow::{Context as _, Result, ensure};
use flate2::{Compression, GzBuilder};
use std::collections::BTreeSet;
use std::io::Write as _;

const BLOCK: usize = 512;

/// An archive of these entries and the folders above them, all of root's and of this time (s since 1970).
pub fn archive(entries: &[Entry], time: u64) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut folders: BTreeSet<String> = BTreeSet::new();
    for e in entries {
        for (at, _) in e.path.match_indices('/') {
            let folder = &e.path[..=at];
            if folders.insert(folder.to_owned()) {
                out.extend(header(folder, 0o755, b'5', 0, "", time)?);
            }
        }
        match &e.what {
            What::File(bytes) => {
                out.extend(header(&e.path, e.mode, b'0', bytes.len(), "", time)?);
                out.extend_from_slice(bytes);
                out.resize(out.len().next_multiple_of(BLOCK), 0);
            }
            What::Link(to) => out.extend(header(&e.path, 0o777, b'2', 0, to, time)?),
            What::Folder => {
                let path = format!("{}/", e.path);
                if folders.insert(path.clone()) {
                    out.extend(header(&path, e.mode, b'5', 0, "", time)?);
                }
            }
        }
    }
    out.resize(out.len() + 2 * BLOCK, 0);
    Ok(out)
}

/// The same, compressed.
pub fn gzipped(entries: &[Entry], time: u64) -> Result<Vec<u8>> {
    gzip(&archive(entries, time)?)
}

/// Compressed without a name or a time.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut out = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    out.write_all(bytes)?;
    Ok(out.finish()?)
}

fn header(path: &str, mode: u32, kind: u8, size: usize, link: &str, time: u64) -> Result<[u8; BLOCK]> {
    let (prefix, name) = split(path)?;
    ensure!(link.len() <= 100, "{link}: too long for a link in an archive");
    let mut h = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| h[at..at + text.len()].copy_from_slice(text);
    put(0, name.as_bytes());
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, format!("{size:011o}").as_bytes());
    put(136, format!("{time:011o}").as_bytes());
    put(148, b"        ");
    put(156, &[kind]);
    put(157, link.as_bytes());
    put(257, b"ustar\x0000root");
    put(297, b"root");
    put(329, b"0000000");
    put(337, b"0000000");
    put(345, prefix.as_bytes());
    let sum: u32 = h.iter().map(|b| u32::from(*b)).sum();
    h[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(h)
}

/// A path in its two fields: 155 bytes that end at a slash, and 100.
fn split(path: &str) -> Result<(&str, &str)> {
    if path.len() <= 100 {
        return Ok(("", path));
    }
    let slash = path.match_indices('/').map(|(at, _)| at).find(|at| path.len() - at - 1 <= 100);
    let at = slash.filter(|at| *at <= 155 && at + 1 < path.len());
    at.map(|at| (&path[..at], &path[at + 1..])).with_context(|| format!("{path}: too long for an archive"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn tar_reads_what_is_written() {
        let long = format!("{}/{}", "a".repeat(90), "b".repeat(90));
        let file = |path: &str, bytes: &[u8]| Entry::file(path, 0o644, bytes.to_vec());
        let entries = [
            file("usr/bin/x", b"hello"),
            file(&long, &[7; 513]),
            Entry { path: "usr/lib/y".into(), mode: 0, what: What::Link("../bin/x".into()) },
            Entry { path: "var/empty".into(), mode: 0o700, what: What::Folder },
        ];
        let bytes = gzipped(&entries, 1_700_000_000).expect("short enough");
        assert_eq!(bytes, gzipped(&entries, 1_700_000_000).expect("short enough"), "the same again");
        let mut tar = Command::new("tar")
            .args(["--utc", "--full-time", "-tvzf", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("tar");
        tar.stdin.take().expect("piped").write_all(&bytes).expect("taken");
        let said = tar.wait_with_output().expect("ended");
        let text = String::from_utf8(said.stdout).expect("UTF-8");
        let lines: Vec<String> = text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let time = "2023-11-14 22:13:20";
        assert!(said.status.success());
        assert_eq!(
            lines,
            [
                format!("drwxr-xr-x root/root 0 {time} usr/"),
                format!("drwxr-xr-x root/root 0 {time} usr/bin/"),
                format!("-rw-r--r-- root/root 5 {time} usr/bin/x"),
                format!("drwxr-xr-x root/root 0 {time} {}/", "a".repeat(90)),
                format!("-rw-r--r-- root/root 513 {time} {long}"),
                format!("drwxr-xr-x root/root 0 {time} usr/lib/"),
                format!("lrwxrwxrwx root/root 0 {time} usr/lib/y -> ../bin/x"),
                format!("drwxr-xr-x root/root 0 {time} var/"),
                format!("drwx------ root/root 0 {time} var/empty/"),
            ]
        );
    }

    #[test]
    fn refuses_a_path_that_is_too_long() {
        assert!(archive(&[Entry::file(&"x".repeat(101), 0o644, Vec::new())], 0).is_err());
    }
}
