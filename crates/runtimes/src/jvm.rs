//! The JVM (HotSpot): the virtual thread that a thread runs.
//!
//! HotSpot describes its own layout in tables (`gHotSpotVMStructs`, and those of its compiler interface), so that no version needs an
//! entry here. A thread-local word leads to the `Thread`, in which flight recording (JFR), recording or not, keeps the number of
//! the virtual thread that is mounted, outside of the heap that collectors move. Verified by `OSThread::_thread_id`, the
//! thread's number, and where there is one (Java 24 and later) by `JavaThread::_monitor_owner_id`, the virtual thread's once more.
//!
//! What a platform thread works at, one of many tasks of an executor, is in no memory of the JVM's own. Wakepath's agent
//! (`helpers/jvm`, by `wakepath attach`) keeps it in a file that it maps and removes at once, by whose name it is found.
//! Verified at each read by two words at its begin, and by the thread's number in what the thread keeps there.

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
/// The agent, as a jar; empty where there was no JDK when Wakepath was built.
pub const AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/wakepath-agent.jar"));
/// The first version that the agent is for.
const AGENT_SINCE: u32 = 17;
/// In the name of the file in which the agent keeps its words.
const WORDS: &str = "/wakepath-agent-";
/// Where in it the number of the layout stands.
const AT_LAYOUT: u64 = 16;
/// And how many tasks were told to work for others.
const AT_OTHERS: u64 = 24;
/// How many of them are told again to a recording that begins: what they made may be at work yet.
const OTHERS_AGAIN: u64 = 256;
/// Beyond it, no offset is believed.
const OFFSET_MAX: u64 = 1 << 16;
/// Most libraries with thread-local words.
pub(crate) const MODULES_MAX: u64 = 4096;

pub(crate) fn recognise(process: &Process) -> Option<Runtime> {
    let library = Mapped::find(process.tgid, LIBRARY)?;
    let Some(memory) = Running::open(process.tgid) else { return Some(unread("of unknown version", Unread::Memory)) };
    let at = |name: &str| Some(library.bias.wrapping_add(library.program.exported(name)?));
    let described = Described::new(&memory, at)?;
    let compilers = library.program.symbol(COMPILERS_TABLE).map(|table| library.bias.wrapping_add(table));
    let tables = [memory.word(at("gHotSpotVMStructs")?), compilers];
    let fields = described.fields(tables.into_iter().flatten());
    let version = |field| fields.get(&field).and_then(|at| memory.bytes(*at)).map(u32::from_le_bytes);
    let major = version(Field::Major).filter(|major| *major >= AGENT_SINCE)?;
    let version = [Some(major), version(Field::Minor), version(Field::Security)];
    let version: Vec<String> = version.into_iter().flatten().map(|n| n.to_string()).collect();
    let offset = |field| fields.get(&field).copied().filter(|o| *o < OFFSET_MAX).map(|o| o as u32);
    let layout = match (thread_local(&library, &memory), offsets(offset)) {
        _ if major < VIRTUAL_SINCE => Err(Unread::Agent),
        _ if Mapped::find(process.tgid, "/libc.so.6").is_none() => Err(Unread::Library),
        (None, _) => Err(Unread::Names),
        (_, None) => Err(Unread::Version),
        (Some((module, thread_word)), Some(offsets)) => Ok(Layout { module, thread_word, ..offsets }),
    };
    let words = agent_words(process.tgid);
    let layout = match (layout, words) {
        (layout, Some(helper_words)) => {
            let layout = layout.unwrap_or(Layout { kind: u32::from(w::RUNTIME_JVM), ..crate::EMPTY });
            let others_told = memory.word(helper_words + AT_OTHERS).unwrap_or(0).saturating_sub(OTHERS_AGAIN);
            Ok(Layout { helper_words, others_told, ..layout })
        }
        (layout, None) => layout,
    };
    let tasks = match layout {
        Ok(Layout { thread_is_virtual: 0, .. }) => "tasks of executors",
        Ok(Layout { helper_words: 1.., .. }) => "virtual threads and tasks of executors",
        _ if major < VIRTUAL_SINCE => "tasks of executors",
        _ => "virtual threads",
    };
    Some(Runtime { layout, tasks, ..unread(&version.join("."), Unread::Version) })
}

/// Where the words of the agent are that a process has now; `None` where it has none, or one that was taken away.
pub fn agent_words(tgid: u32) -> Option<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{tgid}/maps")).ok()?;
    let at = maps.lines().find_map(words)?;
    let memory = Running::open(tgid)?;
    let magic = (u128::from(w::JVM_MAGIC_0) | u128::from(w::JVM_MAGIC_1) << 64).to_le_bytes();
    let is_begun = memory.bytes(at + AT_LAYOUT) == Some(w::JVM_LAYOUT.to_le_bytes());
    (memory.bytes(at) == Some(magic) && is_begun).then_some(at)
}

/// Where the agent's file is mapped from its first byte on, out of a line of `maps`.
fn words(line: &str) -> Option<u64> {
    let (at, path) = crate::mapped::first_byte(line)?;
    (path.contains(WORDS) && path.ends_with(" (deleted)")).then_some(at)
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

#[cfg(test)]
mod tests {
    use super::*;

    const HOOKS: &str = concat!(
        include_str!("../helpers/jvm/WakepathTasks.java"),
        include_str!("../helpers/jvm/WakepathTasksOthers.java")
    );

    #[test]
    fn the_agent_has_the_words_by_which_it_is_found_where_they_are_read() {
        for line in [
            format!("MAGIC_0 = {:#018x}L;", w::JVM_MAGIC_0),
            format!("MAGIC_1 = {:#018x}L;", w::JVM_MAGIC_1),
            format!("LAYOUT = {};", w::JVM_LAYOUT),
            format!("THREADS = 1 << {};", w::JVM_THREADS.ilog2()),
            format!("SLOT_BYTES = {};", w::JVM_SLOT_BYTES),
            format!("AtomicLong(1L << {});", w::JVM_AGENT_KEYS.ilog2()),
            format!("AT_LAYOUT = {AT_LAYOUT};"),
            format!("AT_OTHERS = {AT_OTHERS};"),
            format!("SLOTS_MAX = 1 << {};", w::JVM_SLOTS_MAX.ilog2()),
            format!("ROOM = 1 << {};", w::JVM_OTHERS.ilog2()),
        ] {
            assert!(HOOKS.contains(&line), "{line}");
        }
    }

    #[test]
    fn the_agents_file_is_found_when_it_was_removed() {
        let line = "7ff764e00000-7ff766e01000 rw-p 00000000 fe:00 99 /tmp/wakepath-agent-12 (deleted)";
        assert_eq!(words(line), Some(0x7ff7_64e0_0000));
        for other in
            [line.replace(" (deleted)", ""), line.replace("00000000 fe", "00001000 fe"), line.replace("-agent", "")]
        {
            assert_eq!(words(&other), None, "{other}");
        }
    }
}
