//! `attach-env`, `on`, `off`: programs that others start, recorded when it is wanted.

use super::{ARENA_ENV, PRELOAD_ENV, arena_options, find_preload};
use crate::cli::{AttachEnvArgs, Isolation, LibraryArgs, OffArgs, OnArgs, Whom};
use crate::output::{self, ANSWERED, tell};
use anyhow::{Context as _, Result, bail};
use clap::ValueEnum as _;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wakepath_capture::Arena;

/// How long a recorder that was asked to end is waited for.
const END_WAIT: Duration = Duration::from_secs(20);

/// Makes the folder's arena and prints what puts programs under it.
pub fn attach_env(args: &AttachEnvArgs) -> Result<i32> {
    let library = find_preload()?;
    let arena = Arena::of_folder(&args.output, &arena_options(&args.library))?;
    output::answer(environment(args.whom, &library, arena.path()).as_bytes())?;
    Ok(ANSWERED)
}

fn environment(whom: Whom, library: &Path, arena: &Path) -> String {
    let (library, arena) = (library.display().to_string(), arena.display().to_string());
    match whom {
        Whom::Shell => {
            let quoted = library.replace('\'', "'\\''");
            format!(
                "export {PRELOAD_ENV}='{quoted}'\"${{{PRELOAD_ENV}:+:${PRELOAD_ENV}}}\"\nexport {ARENA_ENV}={arena}\n"
            )
        }
        Whom::Systemd => {
            let quoted = library.replace('%', "%%").replace('"', "\\\"");
            format!("[Service]\nEnvironment=\"{PRELOAD_ENV}={quoted}\"\nEnvironment=\"{ARENA_ENV}={arena}\"\n")
        }
        // numbers of processes must mean the same inside and outside
        Whom::Docker => format!(
            "--pid=host --volume {library}:{library}:ro --volume {arena}:{arena} --env {PRELOAD_ENV}={library} \
             --env {ARENA_ENV}={arena}\n"
        ),
    }
}

/// Switches recording on.
pub fn on(args: &OnArgs) -> Result<i32> {
    let is_new = !Arena::path_of(&args.folder).exists();
    let arena = Arena::of_folder(&args.folder, &arena_options(&args.library))?;
    match arena.recorder() {
        Some(pid) => {
            args.isolation.switch_on(&arena);
            tell!("recording into {} (process {pid})", args.folder.display());
        }
        None => {
            let pid = start_recorder(&args.folder, args.isolation, &args.library)?;
            tell!("recording into {} (process {pid}); `wakepath off {0}` ends it", args.folder.display());
        }
    }
    if is_new {
        tell!(
            "no program runs under it yet: start programs with the environment that `wakepath attach-env -o {}` prints",
            args.folder.display()
        );
    }
    Ok(ANSWERED)
}

fn start_recorder(folder: &Path, isolation: Isolation, library: &LibraryArgs) -> Result<u32> {
    let mut command = Command::new(std::env::current_exe().context("finding this program's own file")?);
    command.arg("recorder").arg("-o").arg(folder).arg(isolation.flag());
    let payload = library.payload.to_possible_value().map_or(String::new(), |v| v.get_name().into());
    let words = library.words.to_possible_value().map_or(String::new(), |v| v.get_name().into());
    command
        .args(["--payload", &payload])
        .args(["--words", &words])
        .args(["--head-bytes", &library.head_bytes.to_string()]);
    command.args(["--ring-bytes", &library.ring_bytes.0.to_string()]).args(["--slots", &library.slots.to_string()]);
    if library.no_compress {
        command.arg("--no-compress");
    }
    // in a session of its own: what ends this terminal does not end the recording
    // SAFETY: one system call, which touches no memory.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
    let log = tempfile(folder)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log.try_clone().context("the recorder's messages")?);
    let mut child = command.spawn().context("starting the recorder")?;
    let mut said = String::new();
    let mut out = child.stdout.take().context("the recorder's standard output")?;
    let mut byte = [0u8; 1];
    while !said.ends_with('\n') && out.read(&mut byte).context("waiting for the recorder")? == 1 {
        said.push(char::from(byte[0]));
    }
    if said != "ready\n" {
        let status = child.wait().context("waiting for the recorder")?;
        let mut words = String::new();
        use std::io::{Seek as _, SeekFrom};
        let mut log = log;
        let _ = log.seek(SeekFrom::Start(0)).and_then(|_| log.read_to_string(&mut words));
        bail!("the recorder ended at once ({status}): {}", words.trim().trim_start_matches("wakepath: "));
    }
    Ok(child.id())
}

/// A file without a name: what the recorder says before it is ready is read from there.
fn tempfile(folder: &Path) -> Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let dir = if Path::new("/dev/shm").is_dir() { Path::new("/dev/shm") } else { folder };
    std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE)
        .open(dir)
        .with_context(|| format!("making a temporary file in {}", dir.display()))
}

/// Switches recording off and waits until the recorder has written everything.
pub fn off(args: &OffArgs) -> Result<i32> {
    let path = Arena::path_of(&args.folder);
    let Some(arena) = Arena::open(&path)? else {
        bail!(
            "nothing records into {}: `wakepath on {0}` starts recording, and `wakepath attach-env -o {0}` prints \
             the environment for programs",
            args.folder.display()
        );
    };
    arena.switch_off();
    if let Some(pid) = arena.recorder() {
        // SAFETY: the kernel names the process that holds the arena's lock now.
        unsafe { libc::kill(pid as i32, libc::SIGTERM) };
        let begin = Instant::now();
        while arena.recorder() == Some(pid) {
            if begin.elapsed() > END_WAIT {
                bail!("the recorder (process {pid}) was asked to end and is still writing; wait, or check the disk");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        tell!("recorded into {}", args.folder.display());
    } else {
        tell!("switched off; no recorder was running");
    }
    if args.forget {
        arena.remove();
    }
    Ok(ANSWERED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_gets_its_own_form() {
        let (library, arena) = (Path::new("/opt/w's/lib.so"), Path::new("/dev/shm/wakepath-0-1"));
        let shell = environment(Whom::Shell, library, arena);
        let script = format!("LD_PRELOAD=/x.so; {shell} printf %s \"$LD_PRELOAD\" \"$WAKEPATH_ARENA\"");
        let said = Command::new("sh").args(["-c", &script]).env_remove("LD_PRELOAD").output().expect("sh");
        // the shell itself does not load it: the variable was set inside
        assert_eq!(String::from_utf8_lossy(&said.stdout), "/opt/w's/lib.so:/x.so/dev/shm/wakepath-0-1");
        assert!(environment(Whom::Systemd, Path::new("/a%b/l.so"), arena).contains("\"LD_PRELOAD=/a%%b/l.so\"\n"));
        let docker = environment(Whom::Docker, Path::new("/l.so"), arena);
        assert!(
            docker.contains("--volume /l.so:/l.so:ro") && docker.ends_with("WAKEPATH_ARENA=/dev/shm/wakepath-0-1\n")
        );
        assert_eq!(docker.lines().count(), 1);
    }
}
