//! What is taken from Debian's packages: libelf and zlib, which are linked in, and the C library for the image.

use super::{Release, Target, execute};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages whose contents are used.
const PACKAGES: [&str; 3] = ["libelf-dev", "zlib1g-dev", "libc6"];
/// Headers that libbpf is compiled with.
const HEADERS: [&str; 4] = ["libelf.h", "gelf.h", "zlib.h", "zconf.h"];
/// Libraries that are linked in.
const LIBRARIES: [&str; 2] = ["libelf.a", "libz.a"];

/// Unpacked packages.
pub struct Sysroot {
    /// All files of the packages.
    pub files: PathBuf,
    /// The headers alone.
    pub include: PathBuf,
    /// The static libraries alone: beside them no other of their folder may be found.
    pub lib: PathBuf,
    /// Name and version of each package.
    pub versions: Vec<(String, String)>,
}

/// Fetches the packages through apt, of the suite that this machine has, into folders of our own.
pub fn fetch(release: &Release<'_>) -> Result<Sysroot> {
    let folder = release.folder.join("sysroot");
    let (debs, files) = (folder.join("debs"), folder.join("files"));
    if !folder.join("complete").exists() {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&debs)?;
        download(release.target, &folder, &debs)?;
        for deb in packages(&debs)? {
            execute(Command::new("dpkg-deb").arg("--extract").args([&deb, &files]))?;
        }
        collect(release.target, &folder, &files)?;
        fs::write(folder.join("complete"), "")?;
    }
    let mut versions = packages(&debs)?.iter().map(|deb| version(deb)).collect::<Result<Vec<_>>>()?;
    versions.sort();
    Ok(Sysroot { include: folder.join("include"), lib: folder.join("lib"), files, versions })
}

/// apt with lists of its own, so that nothing of this machine's changes.
fn download(target: &Target, folder: &Path, debs: &Path) -> Result<()> {
    let apt = folder.join("apt");
    fs::create_dir_all(apt.join("lists/partial"))?;
    fs::create_dir_all(apt.join("archives/partial"))?;
    fs::write(apt.join("status"), "")?;
    let of = |command: &str| {
        let mut out = Command::new("apt-get");
        for option in [
            format!("APT::Architecture={}", target.debian),
            format!("APT::Architectures={}", target.debian),
            format!("Dir::State={}", apt.display()),
            format!("Dir::State::status={}", apt.join("status").display()),
            format!("Dir::Cache={}", apt.display()),
            "APT::Sandbox::User=root".to_owned(),
        ] {
            out.args(["-o", &option]);
        }
        out.args(["-q", "-q", command]).current_dir(debs);
        out
    };
    execute(&mut of("update"))?;
    execute(of("download").args(PACKAGES))
}

fn packages(debs: &Path) -> Result<Vec<PathBuf>> {
    let all = fs::read_dir(debs)?.flatten().map(|e| e.path());
    let found: Vec<PathBuf> = all.filter(|p| p.extension().is_some_and(|e| e == "deb")).collect();
    ensure!(found.len() == PACKAGES.len(), "{} has {} packages: {PACKAGES:?} are needed", debs.display(), found.len());
    Ok(found)
}

fn version(deb: &Path) -> Result<(String, String)> {
    let out = Command::new("dpkg-deb").args(["--show", "--showformat", "${Package} ${Version}"]).arg(deb).output()?;
    let text = String::from_utf8(out.stdout)?;
    let (name, version) = text.split_once(' ').context("dpkg-deb says no version")?;
    Ok((name.to_owned(), version.to_owned()))
}

fn collect(target: &Target, folder: &Path, files: &Path) -> Result<()> {
    let link = |kind: &str, name: &str, found: PathBuf| {
        ensure!(found.exists(), "{} is in none of the packages", found.display());
        fs::create_dir_all(folder.join(kind))?;
        Ok(symlink(found, folder.join(kind).join(name))?)
    };
    for header in HEADERS {
        link("include", header, files.join("usr/include").join(header))?;
    }
    for library in LIBRARIES {
        link("lib", library, files.join("usr/lib").join(target.multiarch).join(library))?;
    }
    Ok(())
}
