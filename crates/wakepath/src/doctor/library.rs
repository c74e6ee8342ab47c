//! The library vantage: is the library there, does a program load it, is there room for the shared memory.

use super::{check, check_to_do};
use crate::library::{LIBRARY, PRELOAD_ENV, find_preload};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use wakepath_capture::{Arena, ArenaOptions, LibrarySource};
use wakepath_present::doctor::{Check, Trial, Vantage, Verdict};
use wakepath_present::units;
use wakepath_wire::arena::ARENA_ENV;

/// Room that a recording with the usual settings takes at first.
const ROOM_BYTES: u64 = 40 << 20;

/// Looks and tries.
pub fn vantage() -> Vantage {
    let library = find_preload();
    let begin = Instant::now();
    let tried = library.as_ref().ok().map(|l| trial(l));
    let duration_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let error = tried.as_ref().and_then(|t| t.as_ref().err()).cloned();
    let works = matches!(tried, Some(Ok(())));
    let found = match &library {
        Ok(path) => check("library.file", "preload library", Verdict::Yes, path.display().to_string()),
        Err(e) => check_to_do(
            "library.file",
            "preload library",
            Verdict::No,
            e.to_string(),
            format!("Put {LIBRARY} beside the wakepath command."),
        ),
    };
    let mut checks = vec![found, room()];
    checks.push(match (&tried, &error) {
        (None, _) => check("library.trial", "trial", Verdict::Note, "not made: there is no library"),
        (_, None) => check(
            "library.trial",
            "trial",
            Verdict::Yes,
            format!("a program was run under it in {}", units::duration(duration_ns)),
        ),
        (_, Some(e)) => check_to_do(
            "library.trial",
            "trial",
            Verdict::No,
            e.clone(),
            "Run a program with LD_PRELOAD set to the library's path and read what the loader says.",
        ),
    });
    let summary = if works {
        "`wakepath run` can be used, without any rights: for programs that the loader gives a library (not static or \
         privileged ones)."
            .to_owned()
    } else {
        "`wakepath run` cannot be used; the reasons are below.".to_owned()
    };
    Vantage {
        vantage: "library",
        works,
        summary,
        backend: None,
        trial: Trial { tried: tried.is_some(), programs: u32::from(works), duration_ns, error, works_with: None },
        checks,
        tracepoints: Vec::new(),
        capabilities: Vec::new(),
    }
}

fn room() -> Check {
    const TITLE: &str = "shared memory";
    let mut s = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path ends in a zero byte, and the place is one statvfs.
    let r = unsafe { libc::statvfs(c"/dev/shm".as_ptr(), s.as_mut_ptr()) };
    // SAFETY: zeroed, and any bytes are a valid statvfs.
    let s = unsafe { s.assume_init() };
    if r != 0 {
        let remedy = "Mount a tmpfs on /dev/shm.";
        return check_to_do("library.memory", TITLE, Verdict::No, "there is no /dev/shm", remedy);
    }
    let free = s.f_bavail.saturating_mul(s.f_frsize);
    let found = format!("{} free in /dev/shm", units::bytes(free));
    if free >= ROOM_BYTES {
        return check("library.memory", TITLE, Verdict::Yes, found);
    }
    let remedy = "Give /dev/shm more room, or record with a smaller --ring-bytes.";
    check_to_do("library.memory", TITLE, Verdict::Limit, found, remedy)
}

/// Runs a program under the library, which shows what is mapped into it.
fn trial(library: &Path) -> Result<(), String> {
    let options = ArenaOptions { slots: 2, ring_bytes: 1 << 16, head_bytes: 0 };
    let source = Arena::create(&options).and_then(LibrarySource::new).map_err(|e| e.to_string())?;
    source.arena().switch_on(false);
    let output = Command::new("cat")
        .arg("/proc/self/maps")
        .env(PRELOAD_ENV, library)
        .env(ARENA_ENV, source.arena().path())
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cat could not be run: {e}"))?;
    source.arena().switch_off();
    let (maps, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(format!("a program under it ended with {}: {}", output.status, said.trim()));
    }
    if !maps.contains(LIBRARY) {
        return Err(format!("the loader did not load it: {}", said.trim()));
    }
    if !maps.contains(&source.arena().path().display().to_string()) {
        return Err("it was loaded and did not take the shared memory: another version?".to_owned());
    }
    Ok(())
}
