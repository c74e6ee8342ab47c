//! The JVM (HotSpot): the virtual thread that a thread runs.
//!
//! HotSpot describes its own layout in tables (`gHotSpotVMStructs`, and those of its compiler interface), so that no version needs an
//! entry here. A thread-local word leads to the `Thread`, in which flight recording (JFR), recording or not, keeps the number of
//! the virtual thread that is mounted, outside of the heap that collectors move. Verified by `OSThread::_thread_id`, the
//! thread's number, and where there is one (Java 24 and later) by `JavaThread::_monitor_owner_id`, the virtual thread's once more.

mod described;

use crate::mapped::Mapped;
use crate::memory::{Memory as _, Running};
use crate::{Process, Runtime, Unread};
use described::{Described, Field};
use wakepath_wire::{self as w, Runtime as Layout};

const LIBRARY: &str = "/libjvm.so";
/// The table of the compiler interface, a static array; the other is where an exported word says.
const COMPILERS_TABLE: &str = "_ZN14JVMCIVMStructs21localHotSpotVMStructsE";
const CURRENT_THREAD: &str = "_ZN6Thread12_thr_currentE";
/// The first version with virtual threads (a preview).
const VIRTUAL_SINCE: u32 = 19;
/// Beyond it, no offset is believed.
const OFFSET_MAX: u64 = 1 << 16;
/// Most libraries with thread-local words.
const MODULES_MAX: u64 = 4096;

pub(crate) fn recognise(process: &Process) -> Option<Runtime> {
    let library = Mapped::find(process.tgid, LIBRARY)?;
    let Some(memory) = Running::open(process.tgid) else { return Some(unread("of unknown version", Unread::Memory)) };
    let at = |name: &str| Some(library.bias.wrapping_add(library.program.exported(name)?));
    let described = Described::new(&memory, at)?;
    let compilers = library.program.symbol(COMPILERS_TABLE).map(|table| library.bias.wrapping_add(table));
    let tables = [memory.word(at("gHotSpotVMStructs")?), compilers];
    let fields = described.fields(tables.into_iter().flatten());
    let version = |field| fields.get(&field).and_then(|at| memory.bytes(*at)).map(u32::from_le_bytes);
    let major = version(Field::Major).filter(|major| *major >= VIRTUAL_SINCE)?;
    let version = [Some(major), version(Field::Minor), version(Field::Security)];
    let version: Vec<String> = version.into_iter().flatten().map(|n| n.to_string()).collect();
    let offset = |field| fields.get(&field).copied().filter(|o| *o < OFFSET_MAX).map(|o| o as u32);
    let layout = match (thread_local(&library, &memory), offsets(offset)) {
        _ if Mapped::find(process.tgid, "/libc.so.6").is_none() => Err(Unread::Library),
        (None, _) => Err(Unread::Names),
        (_, None) => Err(Unread::Version),
        (Some((module, thread_word)), Some(offsets)) => Ok(Layout { module, thread_word, ..offsets }),
    };
    Some(Runtime { layout, ..unread(&version.join("."), Unread::Version) })
}

fn unread(version: &str, why: Unread) -> Runtime {
    Runtime { name: "JVM", tasks: "virtual threads", version: version.into(), asked_by: "", layout: Err(why) }
}

/// Offsets in a `Thread`.
fn offsets(of: impl Fn(Field) -> Option<u32>) -> Option<Layout> {
    let recorder = of(Field::ThreadRecorder)?;
    Some(Layout {
        kind: u32::from(w::RUNTIME_JVM),
        thread_os: of(Field::ThreadOs)?,
        os_number: of(Field::OsNumber)?,
        thread_runs: recorder + of(Field::RecorderNumber)?,
        thread_is_virtual: recorder + of(Field::RecorderIsVirtual)?,
        thread_owner: of(Field::ThreadOwner).unwrap_or(0),
        ..crate::EMPTY
    })
}

/// Which of the libraries with thread-local words it is, and where in them the current thread is.
fn thread_local(library: &Mapped, memory: &Running) -> Option<(u32, u32)> {
    let word = library.program.symbol(CURRENT_THREAD).filter(|word| *word < OFFSET_MAX)?;
    let slot = library.program.module_slot()?;
    let module = memory.word(library.bias.wrapping_add(slot)).filter(|m| (1..MODULES_MAX).contains(m))?;
    Some((module as u32, word as u32))
}
