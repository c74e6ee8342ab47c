//! `cargo xtask dist`: packages that run on any Linux with glibc 2.17 or later, without a tool-chain.

mod build;
mod deb;
mod debian;
mod image;
mod sbom;
mod tar;
mod tree;
mod wheel;

use anyhow::{Context as _, Result, bail, ensure};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most bytes of the program, kernel programs inside.
const PROGRAM_BYTES_MAX: usize = 15_000_000;

/// What packages are made for.
struct Target {
    /// As Rust and the kernel call it.
    arch: &'static str,
    /// As Debian and OCI images call it.
    debian: &'static str,
    /// As Rust's and Zig's targets are called.
    triple: &'static str,
    /// The folder of its libraries on Debian.
    multiarch: &'static str,
    /// Its dynamic linker, as programs name it.
    loader: &'static str,
}

/// The kernel programs know the registers and calls of no other.
const TARGETS: [Target; 2] = [
    Target {
        arch: "x86_64",
        debian: "amd64",
        triple: "x86_64-unknown-linux-gnu",
        multiarch: "x86_64-linux-gnu",
        loader: "lib64/ld-linux-x86-64.so.2",
    },
    Target {
        arch: "aarch64",
        debian: "arm64",
        triple: "aarch64-unknown-linux-gnu",
        multiarch: "aarch64-linux-gnu",
        loader: "lib/ld-linux-aarch64.so.1",
    },
];

/// What all packages of a run share.
pub struct Release<'r> {
    root: &'r Path,
    target: &'static Target,
    version: String,
    /// Time of all files: that of the commit (s since 1970), so that the same commit gives the same packages.
    time: u64,
    /// Where everything of this run is.
    folder: PathBuf,
}

impl Release<'_> {
    fn name(&self) -> String {
        format!("wakepath-{}-linux-{}", self.version, self.target.arch)
    }
}

/// Makes the packages. `arguments`: none, or `--arch` and what for; else for this machine.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let arch = match arguments {
        [] => std::env::consts::ARCH,
        [option, arch] if option == "--arch" => arch,
        _ => bail!("usage: cargo xtask dist [--arch x86_64|aarch64]"),
    };
    let target = TARGETS.iter().find(|t| t.arch == arch);
    let target = target.with_context(|| format!("the kernel programs know x86_64 and aarch64, and not {arch}"))?;
    let folder = root.join("target/dist").join(target.arch);
    fs::create_dir_all(&folder)?;
    let release = Release { root, target, version: version(root)?, time: commit_time(root), folder };
    let sysroot = debian::fetch(&release)?;
    let built = build::build(&release, &sysroot)?;
    let sbom = sbom::document(&release, &sysroot)?;
    let tree = tree::installed(&release, &built, &sysroot, &sbom)?;

    let name = release.name();
    let out = root.join("target/dist/packages");
    fs::create_dir_all(&out)?;
    let products = [
        (format!("{name}.tar.gz"), tar::gzipped(&tree::below_prefix(&tree, &name), release.time)?),
        (format!("wakepath_{}_{}.deb", release.version, target.debian), deb::package(&release, &tree)?),
        (format!("{name}.oci.tar"), image::layout(&release, &tree, &sysroot)?),
        wheel::package(&release, &built)?,
        (format!("{name}.cdx.json"), sbom),
    ];
    for (file, bytes) in &products {
        fs::write(out.join(file), bytes).with_context(|| format!("{file} cannot be written"))?;
        println!("{:>9.1} MB  {file}", bytes.len() as f64 / 1e6);
    }
    fs::write(out.join("SHA256SUMS"), checksums(&out)?)?;
    println!("in {}", out.display());
    let size = built.program.len();
    ensure!(size <= PROGRAM_BYTES_MAX, "the program has {size} bytes, more than {PROGRAM_BYTES_MAX}");
    Ok(())
}

/// A line for each package of the folder, as `sha256sum --check` takes them.
fn checksums(folder: &Path) -> Result<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder)?.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    let mut out = String::new();
    for name in names.iter().filter(|n| *n != "SHA256SUMS") {
        let _ = writeln!(out, "{}  {name}", sha256(&fs::read(folder.join(name))?));
    }
    Ok(out)
}

/// The SHA-256 of some bytes, as hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, b| {
        let _ = write!(out, "{b:02x}");
        out
    })
}

fn version(root: &Path) -> Result<String> {
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let line = manifest.lines().find_map(|l| l.strip_prefix("version = \""));
    Ok(line.and_then(|l| l.strip_suffix('"')).context("Cargo.toml says no version")?.to_owned())
}

fn commit_time(root: &Path) -> u64 {
    let out = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root).output();
    let said = out.ok().and_then(|o| String::from_utf8(o.stdout).ok());
    said.and_then(|t| t.trim().parse().ok()).unwrap_or(0)
}

/// Runs a command to its end; an error where it fails.
fn execute(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("{program} cannot be started: is it installed?"))?;
    ensure!(status.success(), "{program} failed ({status})");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
