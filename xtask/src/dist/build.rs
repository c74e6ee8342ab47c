//! The program and the preload library, linked by Zig against glibc 2.17.

use super::debian::Sysroot;
use super::{Release, TRIPLE, execute};
use anyhow::{Context as _, Result};
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// From PyPI: the linker that has every version of glibc, and how cargo is told of it.
const TOOLS: [&str; 2] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.0"];
/// The oldest glibc.
const GLIBC: &str = "2.17";

/// What was built.
pub struct Built {
    pub program: Vec<u8>,
    pub library: Vec<u8>,
    /// Where the program lies.
    pub program_path: PathBuf,
}

pub fn build(release: &Release<'_>, sysroot: &Sysroot) -> Result<Built> {
    // the page of `wakepath ui`, which the program takes in
    execute(&mut Command::new(release.root.join("scripts/page")))?;
    let tools = tools(release)?;
    let target = release.root.join("target/dist/build");
    let path = env::join_paths([tools].into_iter().chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())))?;
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    for package in
        [&["-p", "wakepath", "--bin", "wakepath", "--features", "static"][..], &["-p", "wakepath-preload", "--lib"]]
    {
        let mut command = Command::new(&cargo);
        command.args(["zigbuild", "--locked", "--profile", "dist", "--target"]);
        command.arg(format!("{TRIPLE}.{GLIBC}")).args(package).current_dir(release.root);
        command.env("PATH", &path).env("CARGO_TARGET_DIR", &target);
        // only these libraries and their headers: everything else comes from Zig
        command.env("LIBBPF_SYS_EXTRA_CFLAGS", format!("-I{}", sysroot.include.display()));
        command.env("LIBBPF_SYS_LIBRARY_PATH", &sysroot.lib);
        execute(&mut command)?;
    }
    let made = target.join(TRIPLE).join("dist");
    let read = |name: &str| fs::read(made.join(name)).with_context(|| format!("cargo made no {name}"));
    let (program, library) = (read("wakepath")?, read("libwakepath_preload.so")?);
    Ok(Built { program, library, program_path: made.join("wakepath") })
}

/// The folder of the tools, which are installed where they are missing.
fn tools(release: &Release<'_>) -> Result<PathBuf> {
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
