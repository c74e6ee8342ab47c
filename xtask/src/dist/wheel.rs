//! The wheel for Python: the program, its libraries, and the modules that run it for many hosts.

use super::build::{Built, GLIBC, tools};
use super::{Release, execute};
use anyhow::{Context as _, Result};
use std::fs;
use std::process::Command;

/// Its file name and its bytes. `python/build_hook.py` says what is in it.
pub fn package(release: &Release<'_>, built: &Built) -> Result<(String, Vec<u8>)> {
    let folder = release.folder.join("wheel");
    let _ = fs::remove_dir_all(&folder);
    let made = built.program_path.parent().context("a program lies in a folder")?;
    let platform = format!("manylinux_{}_{}", GLIBC.replace('.', "_"), release.target.arch);
    let mut pip = Command::new(tools(release)?.join("pip"));
    pip.args(["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]).arg(&folder);
    pip.arg(release.root.join("python")).env("WAKEPATH_BUILT", made).env("WAKEPATH_PLATFORM", platform);
    // the same commit gives the same wheel
    pip.env("SOURCE_DATE_EPOCH", release.time.to_string());
    execute(&mut pip)?;
    let wheel = fs::read_dir(&folder)?.flatten().next().context("pip made no wheel")?;
    let name = wheel.file_name().into_string().ok().context("the wheel has a strange name")?;
    Ok((name, fs::read(wheel.path())?))
}
