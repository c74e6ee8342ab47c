//! The program, the preload library and QEMU's plugin, linked by Zig against glibc 2.17.

use super::debian::Sysroot;
use super::{Release, TARGETS, execute};
use anyhow::{Context as _, Result, ensure};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// From PyPI: the linker that has every version of glibc, how cargo is told of it, and what makes the wheel.
const TOOLS: [&str; 3] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.0", "hatchling==1.33.0"];
/// The oldest glibc.
pub const GLIBC: &str = "2.17";

/// What was built.
pub struct Built {
    pub program: Vec<u8>,
    pub library: Vec<u8>,
    pub plugin: Vec<u8>,
    /// Where the program lies.
    pub program_path: PathBuf,
}

pub fn build(release: &Release<'_>, sysroot: &Sysroot) -> Result<Built> {
    // the page of `wakepath ui`, which the program takes in
    execute(&mut Command::new(release.root.join("scripts/page")))?;
    let triple = release.target.triple;
    has_library(triple)?;
    let tools = tools(release)?;
    let target = release.root.join("target/dist/build");
    let path = env::join_paths([tools].into_iter().chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())))?;
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let packages: [&[&str]; 3] = [
        &["-p", "wakepath", "--bin", "wakepath", "--features", "static"],
        &["-p", "wakepath-preload", "--lib"],
        &["-p", "wakepath-plugin", "--lib"],
    ];
    for package in packages {
        let mut command = Command::new(&cargo);
        command.args(["zigbuild", "--locked", "--profile", "dist", "--target"]);
        command.arg(format!("{triple}.{GLIBC}")).args(package).current_dir(release.root);
        command.env("PATH", &path).env("CARGO_TARGET_DIR", &target);
        // only these libraries and their headers: everything else comes from Zig
        command.env("LIBBPF_SYS_EXTRA_CFLAGS", format!("-I{}", sysroot.include.display()));
        for target in &TARGETS {
            // the kernel programs' compiler, which runs here, has those of this machine
            let is_packed = target.triple == triple;
            let folder = if is_packed { sysroot.lib.clone() } else { Path::new("/usr/lib").join(target.multiarch) };
            command.env(format!("LIBBPF_SYS_LIBRARY_PATH_{}", target.triple.replace('-', "_")), folder);
        }
        execute(&mut command)?;
    }
    let made = target.join(triple).join("dist");
    let read = |name: &str| fs::read(made.join(name)).with_context(|| format!("cargo made no {name}"));
    Ok(Built {
        program: read("wakepath")?,
        library: read("libwakepath_preload.so")?,
        plugin: read("libwakepath_plugin.so")?,
        program_path: made.join("wakepath"),
    })
}

/// Whether Rust's own library is there for what is built.
fn has_library(triple: &str) -> Result<()> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let out = Command::new(rustc).args(["--print", "target-libdir", "--target", triple]).output()?;
    let folder = PathBuf::from(String::from_utf8_lossy(&out.stdout).trim());
    ensure!(folder.is_dir(), "Rust has no library for {triple}; remedy: rustup target add {triple}");
    Ok(())
}

/// The folder of the tools, which are installed where they are missing.
pub fn tools(release: &Release<'_>) -> Result<PathBuf> {
    let venv = release.root.join("target/dist/tools");
    let mark = venv.join("installed");
    let wanted = TOOLS.join("\n");
    if fs::read_to_string(&mark).is_ok_and(|has| has == wanted) {
        return Ok(venv.join("bin"));
    }
    execute(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    execute(Command::new(venv.join("bin/pip")).args(["install", "--quiet"]).args(TOOLS))?;
    fs::write(mark, wanted)?;
    Ok(venv.join("bin"))
}
