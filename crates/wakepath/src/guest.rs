//! `wakepath guest`: wires the plugin in QEMU's emulator to the decoder to the folder.

use crate::cli::GuestArgs;
use crate::ending::{self, Ending};
use crate::library::{Beginning, Recording, find_library};
use crate::output;
use crate::owner;
use crate::program::{self, CannotStart};
use crate::sink::{self, options};
use anyhow::{Context as _, Result};
use clap::ValueEnum as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use wakepath_capture::{Arena, ArenaOptions, LibrarySource};
use wakepath_decode::Payload;
use wakepath_model::folder::{HostInfo, MONOTONIC};

/// The plugin's file.
pub const PLUGIN: &str = "libwakepath_plugin.so";

/// Records a guest until its emulator ends, the time is over, or a signal comes. Returns the emulator's exit code.
pub fn run(args: &GuestArgs) -> Result<i32> {
    if let Some(program) = args.command.first() {
        program::require(program)?;
    }
    let plugin = find_plugin()?;
    let payload: Payload = args.payload.into();
    let stop = ending::on_signals()?;
    let arena = Arena::create(&ArenaOptions {
        // one emulator is one guest, which is one host
        slots: 1,
        ring_bytes: u32::try_from(args.ring_bytes.0).unwrap_or(u32::MAX),
        head_bytes: if payload == Payload::None { 0 } else { args.head_bytes },
    })?;
    let flag = flag(&plugin, arena.path());
    let recording = Recording::begin(Beginning {
        output: &args.output,
        host: host(args)?,
        options: sink::read_along(None, options(false, args.force, None, None, !args.no_compress)),
        payload,
        recurring: sink::recurring(args.words, payload)?,
        source: LibrarySource::new(arena)?,
        kernel: None,
        is_guest: true,
    })?;
    recording.arena().switch_on(false);
    let (child, ready) = if args.flags {
        (None, output::print(format!("-plugin {flag}\n").as_bytes()))
    } else {
        (Some(start(&args.command, &flag)?), Ok(()))
    };
    output::tell!("recording into {} (Ctrl-C ends it)", args.output.display());
    let ending = Ending::new(child, stop, args.duration.map(|d| d.0));
    recording.until(ending, ready, &args.output, None)
}

fn start(command: &[String], flag: &str) -> Result<Child> {
    let (program, rest) = command.split_first().context("no command was given")?;
    let mut command = Command::new(program);
    command.args(rest).args(["-plugin", flag]);
    Ok(owner::spawn(&mut command).map_err(|e| CannotStart::new(program, &e))?)
}

/// The plugin's file: beside this program, or where an installation puts it.
pub fn find_plugin() -> Result<PathBuf> {
    find_library(PLUGIN, "wakepath-plugin")
}

/// What follows `-plugin`. QEMU takes a comma for the next setting, and two of them for one.
pub fn flag(plugin: &Path, arena: &Path) -> String {
    let written = |path: &Path| path.display().to_string().replace(',', ",,");
    format!("file={},arena={}", written(plugin), written(arena))
}

/// The guest as a host of the folder. Each recording is a boot of its own.
fn host(args: &GuestArgs) -> Result<HostInfo> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).context("no random number for the guest's boot")?;
    let hex: String = random.iter().map(|b| format!("{b:02x}")).collect();
    let payload = args.payload.to_possible_value().map_or(String::new(), |v| v.get_name().into());
    Ok(HostInfo {
        hostname: args.name.clone(),
        boot_id: [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"),
        arch: "x86_64".into(),
        cpus: processors(&args.command),
        selection: args.command.first().map_or_else(|| "--flags".into(), |c| format!("-- {c}")),
        flags: vec![
            format!("--payload {payload}"),
            args.words.setting(),
            format!("--ring-bytes {}", args.ring_bytes.0),
        ],
        agent_version: env!("CARGO_PKG_VERSION").into(),
        clock: MONOTONIC.into(),
        ..HostInfo::default()
    })
}

/// How many processors QEMU gives the guest, by its arguments: 1 where they do not say, 0 where nothing is known.
fn processors(command: &[String]) -> u32 {
    let given = command.iter().position(|a| a == "-smp").and_then(|i| command.get(i + 1));
    match given {
        None => u32::from(!command.is_empty()),
        Some(given) => {
            let mut settings = given.split(',');
            settings.find_map(|s| s.strip_prefix("cpus=").unwrap_or(s).parse().ok()).unwrap_or(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_paths_are_not_taken_for_settings() {
        let flag = flag(Path::new("/opt/a,b/plugin.so"), Path::new("/dev/shm/x"));
        assert_eq!(flag, "file=/opt/a,,b/plugin.so,arena=/dev/shm/x");
    }

    #[test]
    fn processors_are_those_of_the_command_line() {
        let of = |line: &str| processors(&line.split_whitespace().map(String::from).collect::<Vec<_>>());
        assert_eq!(of("qemu -smp 4 -m 1G"), 4);
        assert_eq!(of("qemu -smp sockets=1,cpus=2"), 2);
        assert_eq!(of("qemu -smp many"), 0);
        assert_eq!(of("qemu -m 1G"), 1);
        assert_eq!(of(""), 0);
    }
}
