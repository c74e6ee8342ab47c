//! What is installed where.

use super::build::Built;
use super::debian::Sysroot;
use super::tar::gzip;
use super::{Release, execute};
use anyhow::{Context as _, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// What an entry of a tree is.
#[derive(Clone, Debug)]
pub enum What {
    File(Vec<u8>),
    /// A symbolic link to this path.
    Link(String),
    Folder,
}

/// A file, link or folder of root's.
#[derive(Clone, Debug)]
pub struct Entry {
    /// From the root, without a slash before it.
    pub path: String,
    pub mode: u32,
    pub what: What,
}

impl Entry {
    pub fn file(path: &str, mode: u32, bytes: Vec<u8>) -> Entry {
        Entry { path: path.to_owned(), mode, what: What::File(bytes) }
    }
}

/// Everything that is installed, in order of its path.
pub fn installed(release: &Release<'_>, built: &Built, sysroot: &Sysroot, sbom: &[u8]) -> Result<Vec<Entry>> {
    let of_tree = |path: &str| fs::read(release.root.join(path)).with_context(|| format!("{path} cannot be read"));
    let mut out = vec![
        Entry::file("usr/bin/wakepath", 0o755, built.program.clone()),
        Entry::file("usr/lib/wakepath/libwakepath_preload.so", 0o644, built.library.clone()),
        Entry::file("usr/lib/wakepath/libwakepath_plugin.so", 0o644, built.plugin.clone()),
        Entry::file("usr/lib/systemd/system/wakepath.service", 0o644, of_tree("packaging/wakepath.service")?),
        Entry::file(
            "usr/lib/systemd/system/wakepath-agent.service",
            0o644,
            of_tree("packaging/wakepath-agent.service")?,
        ),
        Entry::file("usr/share/doc/wakepath/agent.toml", 0o644, of_tree("packaging/agent.toml")?),
        Entry::file("usr/share/doc/wakepath/kubernetes.yaml", 0o644, of_tree("packaging/kubernetes.yaml")?),
        Entry::file("usr/share/doc/wakepath/copyright", 0o644, of_tree("LICENSE")?),
        Entry::file("usr/share/doc/wakepath/README.md", 0o644, of_tree("README.md")?),
        Entry::file("usr/share/doc/wakepath/sbom.cdx.json", 0o644, sbom.to_vec()),
    ];
    out.extend(said_by_program(release, &built.program_path, sysroot)?);
    out.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(out)
}

/// What runs the program: this machine, or an emulator with the C library of Debian's package.
fn running(release: &Release<'_>, program: &Path, sysroot: &Sysroot) -> Command {
    if release.target.arch == std::env::consts::ARCH {
        return Command::new(program);
    }
    let mut command = Command::new(format!("qemu-{}", release.target.arch));
    command.arg("-L").arg(&sysroot.files).arg(program);
    command
}

/// Manual pages and completions, which the program writes itself.
fn said_by_program(release: &Release<'_>, program: &Path, sysroot: &Sysroot) -> Result<Vec<Entry>> {
    let pages = release.folder.join("man");
    let _ = fs::remove_dir_all(&pages);
    execute(running(release, program, sysroot).arg("man").arg(&pages))?;
    let mut out = Vec::new();
    for page in fs::read_dir(&pages)?.flatten() {
        let name = page.file_name().into_string().ok().context("a page has a strange name")?;
        out.push(Entry::file(&format!("usr/share/man/man1/{name}.gz"), 0o644, gzip(&fs::read(page.path())?)?));
    }
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/wakepath"),
        ("zsh", "usr/share/zsh/vendor-completions/_wakepath"),
        ("fish", "usr/share/fish/vendor_completions.d/wakepath.fish"),
    ] {
        let said = running(release, program, sysroot).args(["completions", shell]).output()?;
        anyhow::ensure!(said.status.success(), "wakepath completions {shell} failed");
        out.push(Entry::file(path, 0o644, said.stdout));
    }
    Ok(out)
}

/// The same below a folder, where `usr` is left out: to be unpacked into `/usr/local`, or anywhere.
pub fn below_prefix(tree: &[Entry], folder: &str) -> Vec<Entry> {
    let moved =
        |e: &Entry| Entry { path: format!("{folder}/{}", e.path.strip_prefix("usr/").unwrap_or(&e.path)), ..e.clone() };
    tree.iter().map(moved).collect()
}
