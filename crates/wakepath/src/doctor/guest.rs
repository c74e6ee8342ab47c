//! The guest vantage: is the plugin there, and does this host's QEMU take it.

use super::{check, check_to_do};
use crate::guest::{PLUGIN, find_plugin, flag};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use wakepath_capture::{Arena, ArenaOptions, LibrarySource};
use wakepath_present::doctor::{Trial, Vantage, Verdict};
use wakepath_present::units;

/// The emulator of the guests that can be watched.
const EMULATOR: &str = "qemu-system-x86_64";

/// Looks and tries.
pub fn vantage() -> Vantage {
    let plugin = find_plugin();
    let version = version();
    let begin = Instant::now();
    let tried = plugin.as_ref().ok().filter(|_| version.is_some()).map(|plugin| trial(plugin));
    let duration_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let works = matches!(tried, Some(Ok(())));
    let error = tried.as_ref().and_then(|t| t.as_ref().err()).cloned();
    let found = match &plugin {
        Ok(path) => check("guest.file", "plugin", Verdict::Yes, path.display().to_string()),
        Err(e) => {
            let remedy = format!("Put {PLUGIN} beside the wakepath command.");
            check_to_do("guest.file", "plugin", Verdict::No, e.to_string(), remedy)
        }
    };
    let emulator = match &version {
        Some(version) => check("guest.emulator", "emulator", Verdict::Yes, version.clone()),
        None => {
            let found = format!("{EMULATOR} is not in PATH");
            let remedy = "Install QEMU 10 or later (Debian 13: qemu-system-x86).";
            check_to_do("guest.emulator", "emulator", Verdict::No, found, remedy)
        }
    };
    let tells = match (&tried, &error) {
        (None, _) => check("guest.trial", "trial", Verdict::Note, "not made: the emulator or the plugin is missing"),
        (_, Some(e)) => {
            let remedy = "Install QEMU 10 or later: plugins of older versions cannot read registers and memory.";
            check_to_do("guest.trial", "trial", Verdict::No, e.clone(), remedy)
        }
        (_, None) => {
            let found = format!("the emulator took the plugin in {}", units::duration(duration_ns));
            check("guest.trial", "trial", Verdict::Yes, found)
        }
    };
    let summary = if works {
        "`wakepath guest` can be used, for x86-64 guests that are emulated and whose kernels have BTF."
    } else {
        "`wakepath guest` cannot be used with this host's emulator; the reasons are below."
    };
    Vantage {
        vantage: "guest",
        works,
        summary: summary.into(),
        backend: None,
        trial: Trial { tried: tried.is_some(), programs: u32::from(works), duration_ns, error, works_with: None },
        checks: vec![found, emulator, tells],
        tracepoints: Vec::new(),
        capabilities: Vec::new(),
    }
}

/// What the emulator calls itself.
fn version() -> Option<String> {
    let output = Command::new(EMULATOR).arg("--version").stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    Some(said.lines().next().unwrap_or_default().trim().to_owned()).filter(|line| !line.is_empty())
}

/// Has the emulator load the plugin, for a machine without anything, and end.
fn trial(plugin: &Path) -> Result<(), String> {
    let options = ArenaOptions { slots: 1, ring_bytes: 1 << 16, head_bytes: 0 };
    let source = Arena::create(&options).and_then(LibrarySource::new).map_err(|e| e.to_string())?;
    let mut child = Command::new(EMULATOR)
        .args(["-accel", "tcg", "-machine", "none", "-nodefaults", "-display", "none", "-monitor", "stdio"])
        .args(["-plugin", &flag(plugin, source.arena().path())])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{EMULATOR} could not be run: {e}"))?;
    // one that refused the plugin has ended, and reads nothing
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(b"quit\n"));
    let output = child.wait_with_output().map_err(|e| format!("{EMULATOR} was lost: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(said.lines().last().unwrap_or("it failed").trim().to_owned()) }
}
