//! CPython: the context that a thread runs in, of which asyncio makes one for each task and callback.
//!
//! The interpreter exports its version and `_PyRuntime`, in which the key stands under which each thread keeps its state; the
//! C library tells debuggers where a thread keeps its values. Verified by `PyThreadState.thread_id`, what `pthread_self` gives.
//! An address is soon another context's, so that probes must tell which are made; without them nothing is read.

use crate::calls;
use crate::jvm::MODULES_MAX;
use crate::mapped::Mapped;
use crate::memory::{Memory as _, Running};
use crate::offsets;
use crate::program::Program;
use crate::{Point, Probing, Process, Runtime, Unread};
use wakepath_wire::{self as w, Runtime as Layout};

const OFFSETS: &str = include_str!("../offsets/python.csv");
/// In the name of the interpreter where it is a library.
const LIBRARY: &str = "/libpython3.";
/// In the name of a loop that is not asyncio's: it reads before it enters a context, and sends when it has come round, in nobody's. Whether
/// a program that has loaded it runs on it does not show: Sanic loads it and may run on asyncio's own.
const OTHER_LOOP: &str = "/uvloop/loop.";

/// In the name of the part of the standard library that asyncio rests on.
const ASYNCIO: &str = "/_asyncio.";
/// What makes that part a module, where it is in the interpreter itself.
const ASYNCIO_BUILT_IN: &str = "PyInit__asyncio";
/// In the name of the library that gevent and eventlet rest on.
const GREENLET: &str = "/greenlet/_greenlet.";
/// What makes each greenlet that runs anything, in its two names.
const GREENLET_MAKERS: [&str; 2] = [
    "_ZN8greenlet12UserGreenletC1EP9_greenletNS_4refs17_BorrowedGreenletIS1_XadL_ZNS3_15GreenletCheckerEPvEEEE",
    "_ZN8greenlet12UserGreenletC2EP9_greenletNS_4refs17_BorrowedGreenletIS1_XadL_ZNS3_15GreenletCheckerEPvEEEE",
];
/// Where in its thread-local words a thread's state is, and how many bytes it has of them: so from 2.0 on.
const GREENLET_STATE: (u64, u64) = (8, 16);

/// Most probes in uvloop; the versions that were tried have eight.
const CALLS_MAX: usize = 32;

/// What came with a version before 3.11, the newest first.
const FUNCTIONS_SINCE: [(&str, &str); 3] =
    [("PyModule_AddObjectRef", "3.10"), ("PyModule_AddType", "3.9"), ("PyContext_CopyCurrent", "before 3.9")];
/// Only an interpreter without the global lock has it, and what is said of its version.
const WITHOUT_LOCK: &str = "_Py_DecRefShared";
const FREE_THREADED: &str = " (free-threaded)";

pub(crate) fn recognise(process: &Process) -> Option<Runtime> {
    let interpreter = interpreter(process)?;
    let runtime = interpreter.program.exported("_PyRuntime")?;
    let version = version(&interpreter.program);
    let offsets = version.as_deref().and_then(verified);
    let (has_other, uvloop) = (Mapped::find(process.tgid, OTHER_LOOP).is_some(), uvloop(process.tgid));
    let greenlets = greenlets(process.tgid);
    let tasks = match (has_other, &uvloop, &greenlets) {
        (false, _, None) if has_greenlets(process.tgid) => {
            "asyncio tasks (not greenlets: the library greenlet must be 2.0 or later)"
        }
        (false, _, None) => "asyncio tasks",
        (false, _, Some(_)) => "asyncio tasks and greenlets",
        (true, Some(_), None) => "asyncio tasks, uvloop's too",
        (true, Some(_), Some(_)) => "asyncio tasks, uvloop's too, and greenlets",
        (true, None, None) => "asyncio tasks (not those of uvloop, which it has loaded)",
        (true, None, Some(_)) => "asyncio tasks (not those of uvloop, which it has loaded) and greenlets",
    };
    let greenlets = greenlets.unwrap_or_default();
    let layout = match (offsets, thread_values(process.tgid)) {
        (None, _) => Err(Unread::Version),
        (_, Err(why)) => Err(why),
        (Some([key, state_context, state_thread, context_entered]), Ok(thread_values)) => Ok(Layout {
            kind: u32::from(w::RUNTIME_PYTHON),
            python_key: interpreter.bias.wrapping_add(runtime).wrapping_add(u64::from(key)),
            thread_values,
            state_context,
            state_thread,
            context_entered,
            other_loop: u32::from(uvloop.is_some()),
            greenlets: greenlets.of_type,
            module: greenlets.module,
            thread_word: greenlets.thread_word,
            ..crate::EMPTY
        }),
    };
    let version = version.unwrap_or_else(|| "of an unknown version".into());
    Some(Runtime { name: "CPython", tasks, version, asked_by: "--runtimes=python", layout })
}

/// Whether the process has loaded a loop, or greenlets. In an interpreter with asyncio built in that does not show: then it counts as
/// loaded.
pub(crate) fn has_loop(process: &Process) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.tgid)).unwrap_or_default();
    let is_loaded = [ASYNCIO, OTHER_LOOP, GREENLET].into_iter().any(|part| maps.contains(part));
    is_loaded || interpreter(process).is_some_and(|i| i.program.exported(ASYNCIO_BUILT_IN).is_some())
}

/// Whether the process has loaded the library of greenlets, in whatever version.
pub(crate) fn has_greenlets(tgid: u32) -> bool {
    Mapped::find(tgid, GREENLET).is_some()
}

/// Every exported function that makes a context; in uvloop, where it puts off what tasks write, and leaves contexts; and where greenlets
/// are made.
pub(crate) fn probing(process: &Process) -> Vec<Probing> {
    let Some(contexts) = contexts(process) else { return Vec::new() };
    let greenlets = greenlets(process.tgid).and_then(|found| found.probing);
    [Some(contexts), uvloop(process.tgid), greenlets].into_iter().flatten().collect()
}

fn contexts(process: &Process) -> Option<Probing> {
    let interpreter = interpreter(process)?;
    let functions = [
        (Point::PythonCopies, "PyContext_CopyCurrent"),
        (Point::PythonMakes, "PyContext_Copy"),
        (Point::PythonMakes, "PyContext_New"),
    ];
    let place = |name| interpreter.program.place(interpreter.program.exported(name)?);
    let places = functions.into_iter().map(|(point, name)| Some((point, place(name)?))).collect::<Option<_>>()?;
    Some(Probing { file: interpreter.path, places })
}

/// uvloop adds a connection on which a task wrote to a set, and enters a context for each callback. It is in C without a symbol that one
/// may rely on, but calls the interpreter for both.
fn uvloop(tgid: u32) -> Option<Probing> {
    let uvloop = Mapped::find(tgid, OTHER_LOOP)?;
    let points = [Point::UvloopQueues, Point::UvloopLeaves];
    let calls = calls::of(&uvloop.program, ["PySet_Add", "PyContext_Exit"]);
    let has_all = points.iter().enumerate().all(|(n, _)| calls.iter().any(|(of, _)| *of == n));
    if !has_all || calls.len() > CALLS_MAX {
        return None;
    }
    let place = |&(of, call): &(usize, u64)| Some((points[of], uvloop.program.place(call)?));
    let places = calls.iter().map(place).collect::<Option<_>>()?;
    Some(Probing { file: uvloop.path, places })
}

/// Where a thread keeps which greenlet it runs.
#[derive(Default)]
struct Greenlets {
    /// The address of the type that all are of.
    of_type: u64,
    module: u32,
    thread_word: u32,
    probing: Option<Probing>,
}

/// Nothing where not all of it is as it is known: an address is soon another greenlet's, and only the probe tells of which.
fn greenlets(tgid: u32) -> Option<Greenlets> {
    let library = Mapped::find(tgid, GREENLET)?;
    let program = &library.program;
    let (thread_word, bytes) = GREENLET_STATE;
    let makes = program.exported(GREENLET_MAKERS[0])?;
    // a compiler that puts it into its callers leaves it there all the same
    let is_called = !calls::of(program, GREENLET_MAKERS).is_empty();
    if !is_called || program.thread_local().is_none_or(|(has, _)| has != bytes) {
        return None;
    }
    let slot = library.bias.wrapping_add(program.module_slot()?);
    let module = Running::open(tgid)?.word(slot).filter(|m| (1..MODULES_MAX).contains(m))?;
    let of_type = library.bias.wrapping_add(program.exported("PyGreenlet_Type")?);
    let places = vec![(Point::GreenletMakes, program.place(makes)?)];
    let probing = Some(Probing { file: library.path, places });
    Some(Greenlets { of_type, module: module as u32, thread_word: thread_word as u32, probing })
}

/// What has the interpreter in it: a library, or the program.
fn interpreter(process: &Process) -> Option<Mapped> {
    if process.program.exported("_PyRuntime").is_some() {
        return Mapped::executed(process.tgid);
    }
    Mapped::find(process.tgid, LIBRARY)
}

/// `3.11.2`; before 3.11, which exports no number, `3.10`: each minor version brought functions that it has had ever since.
fn version(program: &Program) -> Option<String> {
    let Some(word) = program.exported("Py_Version") else {
        let newest = FUNCTIONS_SINCE.iter().find(|(name, _)| program.exported(name).is_some());
        return newest.map(|(_, version)| (*version).to_owned());
    };
    let hex = u32::from_le_bytes(program.bytes_at(program.place(word)?)?);
    let [major, minor, patch] = [24, 16, 8].map(|bits| hex >> bits & 0xff);
    let kind = if program.exported(WITHOUT_LOCK).is_some() { FREE_THREADED } else { "" };
    Some(format!("{major}.{minor}.{patch}{kind}"))
}

/// Of a version that somebody verified. Objects without a global lock have other headers.
fn verified(version: &str) -> Option<[u32; 4]> {
    if version.ends_with(FREE_THREADED) { None } else { offsets::of(OFFSETS, version) }
}

/// Where in a thread's own block the addresses of its keys' values are (bytes).
fn thread_values(tgid: u32) -> Result<u32, Unread> {
    let library = Mapped::find(tgid, "/libc.so.6").ok_or(Unread::LibraryMissing)?;
    let place = |p: &Program| p.place(p.exported("_thread_db_pthread_specific")?);
    let told = place(&library.program).and_then(|place| library.program.bytes_at::<12>(place));
    // size in bits, count, offset in bytes
    let [.., a, b, c, d] = told.ok_or(Unread::Library)?;
    Ok(u32::from_le_bytes([a, b, c, d]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_the_table_can_be_read() {
        for version in ["3.9", "3.10", "3.11.0", "3.12.12", "3.13.0"] {
            assert!(verified(version).is_some(), "{version}");
        }
        for other in ["before 3.9", "3.8", "3.14.0", "3.13.0 (free-threaded)"] {
            assert_eq!(verified(other), None, "{other}");
        }
    }

    #[test]
    fn documents_name_the_versions_of_the_table() {
        let document = include_str!("../../../docs/runtimes/python.md");
        let versions = OFFSETS.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.rsplit(',').next());
        let row = format!("| versions | CPython {},", versions.collect::<Vec<_>>().join(", "));
        assert!(document.contains(&row), "docs/runtimes/python.md lacks `{row}`");
    }
}
