//! Tokio: the task that a worker thread runs.
//!
//! Each thread keeps its task's number in a thread-local word, whose place is the linker's and which nothing in the program tells.
//! So it is found by what it does: samples of all thread-local words, taken at socket operations and where threads wait for
//! descriptors, are asked which one word behaves as a task's number does. Its place holds for the program as long as that is
//! not built anew. Before it is found, and where two words would do, nothing is read.
//!
//! Of what a task of a client's own sends, who woke it tells for whom (`record --runtimes=tokio`): wakers are the same functions for all
//! tasks, reached by address, so that no compiler puts them into their callers. Stripped programs do not tell where.
//!
//! A program is recognised by the path of Tokio's sources in its messages, stripped or not.

use crate::{Point, Probing, Process, Runtime, Unread};
use std::collections::{BTreeMap, BTreeSet};
use wakepath_wire::{self as w, LocalWords, Runtime as Layout};

/// Tokio's sources, in the messages of panics: `…/tokio-1.54.1/src/runtime/…`.
const SOURCES: &[u8] = b"tokio-1.";
/// Bytes of such a path that are looked at.
const PATH_BYTES: usize = 64;
/// Most bytes of thread-local words that are sampled.
const BLOCK_MAX: u64 = size_of::<[u64; 128]>() as u64;

/// Numbers are given in order from 1, so that none is as large as an address.
const NUMBER_MAX: u64 = 1 << 40;
/// Tasks that must have kept to their own connections.
const TASKS_MIN: usize = 4;
/// Of those that one thread must have run.
const TASKS_OF_A_THREAD_MIN: usize = 3;
/// Operations that must have had the number which the one before them on the same connection had.
const REPEATS_MIN: usize = 48;
/// Times that a thread must have waited for descriptors.
const WAITS_MIN: usize = 4;

pub(crate) fn recognise(process: &Process) -> Option<Runtime> {
    let program = &process.program;
    let (bytes, align) = program.thread_local()?;
    let version = program.search::<_, PATH_BYTES>(".rodata", SOURCES, version)?;
    let layout = match bytes.checked_next_multiple_of(align)?.checked_next_multiple_of(8)? {
        bytes @ 8..=BLOCK_MAX => {
            Ok(Layout { kind: u32::from(w::RUNTIME_TOKIO), block_bytes: bytes as u32, ..crate::EMPTY })
        }
        _ => Err(Unread::ManyLocalWords),
    };
    Some(Runtime { name: "Tokio", tasks: "tasks", version, asked_by: "", layout })
}

/// `1.54.1`, out of such a path.
fn version(path: &[u8]) -> Option<String> {
    let name = path.strip_prefix(b"tokio-")?;
    let end = name.iter().position(|&b| b == b'/')?;
    let is_version = name[..end].iter().all(|b| b.is_ascii_digit() || *b == b'.');
    let is_sources = name[end..].starts_with(b"/src/");
    (is_version && is_sources).then(|| String::from_utf8_lossy(&name[..end]).into_owned())
}

/// The two functions of a waker that wake: as names of any mangling contain them.
const WAKES: [&str; 2] = ["7runtime4task5waker11wake_by_val", "7runtime4task5waker11wake_by_ref"];

/// Where a task that was made is put into a queue; the runtime of a single thread has no such function.
const MAKES: &str = "34schedule_option_task_without_yield";

/// At the beginning of each, where the address of the task's header is still in its register. A program with several versions of
/// Tokio has several of each. With one of the two alone, some would go by unseen.
pub(crate) fn probing(process: &Process) -> Vec<Probing> {
    let program = &process.program;
    let mut places = Vec::new();
    for name in WAKES {
        let found = program.functions(name);
        if found.is_empty() {
            return Vec::new();
        }
        places.extend(found.into_iter().filter_map(|at| Some((Point::TokioWakes, program.place(at)?))));
    }
    let made = program.functions(MAKES);
    places.extend(made.into_iter().filter_map(|at| Some((Point::TokioSpawns, program.place(at)?))));
    vec![Probing { file: format!("/proc/{}/exe", process.tgid).into(), places }]
}

/// From the thread pointer to the word that has the task's number, told by samples of one program's; `None` as long as they do
/// not show that one word, and no other, has it.
pub fn word(samples: &[LocalWords], layout: &Layout) -> Option<i32> {
    let bytes = i32::try_from(layout.block_bytes).ok()?;
    let words = layout.block_bytes as usize / 8;
    let mut found = (0..words).filter(|&i| is_task(samples, i));
    let word = found.next().filter(|_| found.next().is_none())?;
    Some(8 * word as i32 - bytes)
}

/// Whether a word behaves as a task's number: the same wherever a thread waits (the number of the task that is the thread's own
/// loop, or zero), and in operations a small number, which is another for each of several connections and the same at all of
/// each one's operations.
fn is_task(samples: &[LocalWords], word: usize) -> bool {
    let numbers = || samples.iter().filter_map(|s| Some((s, *s.words.get(word)?)));
    let mut waiting: BTreeMap<u32, u64> = BTreeMap::new();
    let mut waits = 0;
    for (s, number) in numbers().filter(|(s, _)| s.flow == 0) {
        if *waiting.entry(s.tid).or_insert(number) != number {
            return false;
        }
        waits += 1;
    }
    // of each connection its number and how often; none where it had several: those of a pool serve many tasks
    let mut had: BTreeMap<u64, Option<(u64, usize)>> = BTreeMap::new();
    let mut of_thread: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for (s, number) in numbers().filter(|(s, number)| s.flow != 0 && *number != 0) {
        if number >= NUMBER_MAX {
            return false;
        }
        // a number that a thread keeps is the thread's, which shows only where it waits
        if waiting.get(&s.tid).is_some_and(|waits| *waits != number) {
            of_thread.entry(s.tid).or_default().insert(number);
            let of = had.entry(s.flow).or_insert(Some((number, 0)));
            *of = of.filter(|(n, _)| *n == number).map(|(n, times)| (n, times + 1));
        }
    }
    let kept = || had.values().flatten();
    let repeats: usize = kept().map(|(_, times)| times - 1).sum();
    let tasks: BTreeSet<u64> = kept().filter(|(_, times)| *times > 1).map(|(number, _)| *number).collect();
    let most_of_a_thread = of_thread.values().map(BTreeSet::len).max().unwrap_or(0);
    waits >= WAITS_MIN
        && tasks.len() >= TASKS_MIN
        && repeats >= REPEATS_MIN
        && most_of_a_thread >= TASKS_OF_A_THREAD_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { block_bytes: 64, ..crate::EMPTY };
    const TASK: usize = 3;

    /// Four connections with a task each, two of a pool that any task uses, and waits between; the words are those of a program
    /// that has the task's number in one, and in the others what comes.
    fn samples(others: impl Fn(u64, u64) -> u64) -> Vec<LocalWords> {
        let mut out = Vec::new();
        for turn in 0..40 {
            for task in 0..4 {
                for flow in [100 + task, 200 + (turn + task) % 2, 0] {
                    let mut words = std::array::from_fn(|i| others(flow, turn * 100 + task * 10 + i as u64));
                    words[TASK] = if flow == 0 { 0 } else { 7 + task };
                    out.push(LocalWords { flow, tgid: 1, tid: 1 + (turn % 2) as u32, words });
                }
            }
        }
        out
    }

    #[test]
    fn the_one_word_that_behaves_as_a_tasks_number_is_found() {
        let is_8_below = Some(8 * TASK as i32 - 64);
        assert_eq!(word(&samples(|_, n| n), &LAYOUT), is_8_below, "counters");
        let mut own = samples(|_, n| n);
        own.iter_mut().filter(|s| s.flow == 0).for_each(|s| s.words[TASK] = u64::from(s.tid));
        assert_eq!(word(&own, &LAYOUT), is_8_below, "a thread's loop is a task");
        assert_eq!(word(&samples(|_, _| 1), &LAYOUT), is_8_below, "flags");
        assert_eq!(word(&samples(|flow, _| 0x7f00_0000_0000 + flow), &LAYOUT), is_8_below, "addresses");
        assert_eq!(word(&samples(|flow, _| u64::from(flow != 0)), &LAYOUT), is_8_below, "whether a task runs");
        assert_eq!(
            word(&samples(|flow, n| if flow == 0 { 0 } else { n }), &LAYOUT),
            is_8_below,
            "operations of a task"
        );
    }

    #[test]
    fn a_threads_own_number_is_no_tasks() {
        // a thread for each connection, as many as wait for descriptors and as never do
        let of_threads = |waits: bool| -> Vec<LocalWords> {
            let mut all = samples(|_, n| n);
            all.retain(|s| waits || s.flow != 0 || s.tid == 2);
            for s in all.iter_mut().filter(|s| s.flow != 0) {
                s.tid = 10 + (s.flow % 100) as u32;
            }
            all.iter_mut().for_each(|s| s.words[TASK] = u64::from(s.tid));
            all
        };
        assert_eq!(word(&of_threads(true), &LAYOUT), None);
        assert_eq!(word(&of_threads(false), &LAYOUT), None);
    }

    #[test]
    fn no_word_is_taken_where_two_would_do_or_too_little_was_seen() {
        let all = samples(|flow, _| if flow == 0 { 0 } else { flow });
        assert_eq!(word(&all, &LAYOUT), None, "another word names connections");
        let all = samples(|_, n| n);
        let without_waits: Vec<_> = all.iter().copied().filter(|s| s.flow != 0).collect();
        assert_eq!(word(&without_waits, &LAYOUT), None, "nobody waited");
        let of_three: Vec<_> = all.iter().copied().filter(|s| s.flow != 103 && s.words[TASK] != 10).collect();
        assert_eq!(word(&of_three, &LAYOUT), None, "three tasks");
        assert_eq!(word(&all[..48], &LAYOUT), None, "few operations");
        assert_eq!(word(&all, &Layout { block_bytes: 24, ..LAYOUT }), None, "it is not among the words");
        let mut waits_amid = all.clone();
        waits_amid.push(LocalWords { flow: 0, words: [9; 128], ..all[0] });
        assert_eq!(word(&waits_amid, &LAYOUT), None, "a task waited for descriptors itself");
        assert_eq!(word(&[], &Layout { block_bytes: u32::MAX, ..LAYOUT }), None);
    }

    #[test]
    fn the_version_stands_in_the_path_of_the_sources() {
        assert_eq!(version(b"tokio-1.54.1/src/runtime/park.rs").as_deref(), Some("1.54.1"));
        for other in ["tokio-1.54.1/tests/", "tokio-1.5x/src/", "tokio-1.", "tokio-1.54.1", "tokio-1.2/sr"] {
            assert_eq!(version(other.as_bytes()), None, "{other}");
        }
    }
}
