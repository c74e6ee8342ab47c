//! `wakepath guest` with an emulator of our own: what it is started with, and what becomes of its end. The real one is
//! `scripts/guest-below`'s.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{Tested, stderr, stdout};
use wakepath_model::folder::Folder;

/// The command in a folder of its own, with a file for the plugin beside it, and an emulator that writes down its arguments.
fn with_emulator(dir: &Path) -> Result<(PathBuf, PathBuf), Box<dyn std::error::Error>> {
    let (command, emulator) = (dir.join("wakepath"), dir.join("qemu"));
    install(Path::new(env!("CARGO_BIN_EXE_wakepath")), &command)?;
    fs::write(dir.join("libwakepath_plugin.so"), "")?;
    let script = "#!/bin/sh\nd=$(dirname \"$0\")\nfor a; do echo \"$a\"; done > \"$d/arguments\"\n\
                  f=${a#*arena=}\ntest -s \"$f\" && echo there >> \"$d/arguments\"\nexit 3\n";
    let text = dir.join("emulator.sh");
    fs::write(&text, script)?;
    install(&text, &emulator)?;
    Ok((command, emulator))
}

/// Copies a program in a process of its own: if this one wrote it, a child that another test starts meanwhile could still hold the
/// file open for writing, and the kernel does not run such a file.
fn install(from: &Path, to: &Path) -> Tested {
    let status = Command::new("install").args(["-m", "755"]).arg(from).arg(to).status()?;
    assert!(status.success(), "install: {status}");
    Ok(())
}

#[test]
fn an_emulator_gets_the_plugin_and_its_exit_code_is_passed_on() -> Tested {
    let dir = tempfile::tempdir()?;
    let (command, emulator) = with_emulator(dir.path())?;
    let trace = dir.path().join("vm");
    let output = Command::new(&command)
        .args(["guest", "--name", "shop", "-o"])
        .arg(&trace)
        .args(["--", emulator.to_str().ok_or("a path")?, "-smp", "4"])
        .stdin(Stdio::null())
        .output()?;
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let arguments = fs::read_to_string(dir.path().join("arguments"))?;
    let lines: Vec<&str> = arguments.lines().collect();
    assert_eq!(lines[..3], ["-smp", "4", "-plugin"]);
    let plugin = fs::canonicalize(dir.path().join("libwakepath_plugin.so"))?;
    assert!(lines[3].starts_with(&format!("file={},arena=/dev/shm/", plugin.display())), "{arguments}");
    assert_eq!(lines[4], "there");
    let folder = Folder::open(&[&trace])?;
    let host = folder.hosts().first().ok_or("one host")?.info();
    assert_eq!((&host.hostname[..], &host.arch[..], host.cpus), ("shop", "x86_64", 4));
    assert!(host.boot_id.len() == 36 && host.boot_id != fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim());
    Ok(())
}

#[test]
fn the_flags_for_others_are_printed_while_it_records() -> Tested {
    let dir = tempfile::tempdir()?;
    let (command, _) = with_emulator(dir.path())?;
    let output = Command::new(&command)
        .args(["guest", "--flags", "--duration", "1s", "-o"])
        .arg(dir.path().join("vm"))
        .stdin(Stdio::null())
        .output()?;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = stdout(&output);
    let arena = said.trim().rsplit_once(",arena=").ok_or("an arena")?.1;
    assert!(said.starts_with("-plugin file="), "{said}");
    assert!(!Path::new(arena).exists(), "the shared memory is gone with the recorder");
    assert!(Folder::open(&[&dir.path().join("vm")]).is_ok());
    Ok(())
}

#[test]
fn a_missing_plugin_is_named_before_anything_starts() -> Tested {
    let dir = tempfile::tempdir()?;
    let (command, emulator) = with_emulator(dir.path())?;
    fs::remove_file(dir.path().join("libwakepath_plugin.so"))?;
    let output = Command::new(&command).args(["guest", "--"]).arg(emulator).current_dir(dir.path()).output()?;
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("libwakepath_plugin.so"), "{}", stderr(&output));
    assert!(!dir.path().join("arguments").exists() && !dir.path().join("wakepath-trace").exists());
    Ok(())
}
