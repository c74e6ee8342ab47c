//! Records that a writer in Rust leaves in an arena, as the library would.

use super::*;
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// A process's end of an arena: what the library does, without the library.
struct Writer {
    arena: Arena,
    slot: usize,
}

/// A reserved record.
struct Reserved {
    at: u64,
    bytes: u16,
    ts: u64,
}

impl Writer {
    fn claim(path: &Path, tgid: u32) -> Option<Writer> {
        let arena = Arena::open(path).expect("an arena")?;
        let slot = (0..arena.slots()).find(|&i| {
            let state = &arena.slot(i).state;
            state.compare_exchange(a::SLOT_FREE, a::SLOT_CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })?;
        arena.slot(slot).tgid.store(tgid, Ordering::Relaxed);
        arena.slot(slot).state.store(a::SLOT_LIVE, Ordering::Release);
        Some(Writer { arena, slot })
    }

    fn reserve(&self, ts: u64, bytes: u16) -> Option<Reserved> {
        let h = self.arena.slot(self.slot);
        let mut at = h.reserved.load(Ordering::Relaxed);
        loop {
            if at + u64::from(bytes) - h.consumed.load(Ordering::Acquire) > self.arena.ring_bytes() {
                h.drops[w::DROP_OP as usize].fetch_add(1, Ordering::Relaxed);
                return None;
            }
            match h.reserved.compare_exchange_weak(at, at + u64::from(bytes), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(Reserved { at, bytes, ts }),
                Err(now) => at = now,
            }
        }
    }

    fn commit(&self, r: &Reserved, number: u64) {
        let p = self.arena.place(self.slot, r.at);
        // SAFETY: the record's room was reserved, and `place` has it after it.
        unsafe {
            p.add(4).cast::<u16>().write(r.bytes);
            p.add(6).write(w::KIND_OP);
            p.add(7).write(0);
            p.add(8).cast::<u64>().write(r.ts);
            p.add(16).cast::<u64>().write(number);
            // what is behind looks like anything
            for i in (24..r.bytes as usize).step_by(8) {
                p.add(i).cast::<u64>().write(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            }
            (*p.cast::<AtomicU32>()).store(commit_tag(r.at, self.arena.key()), Ordering::Release);
        }
    }

    fn write(&self, ts: u64, bytes: u16, number: u64) -> bool {
        match self.reserve(ts, bytes) {
            Some(r) => {
                self.commit(&r, number);
                true
            }
            None => false,
        }
    }
}

/// Processes that live as long as the value.
struct Sleepers(Vec<Child>);

impl Sleepers {
    fn new(count: usize) -> Sleepers {
        Sleepers((0..count).map(|_| Command::new("sleep").arg("300").spawn().expect("sleep")).collect())
    }

    fn tgid(&self, i: usize) -> u32 {
        self.0[i].id()
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for c in &mut self.0 {
            let _ = c.kill();
            let _ = c.wait();
        }
    }
}

fn source(slots: u32, ring_bytes: u32) -> (LibrarySource, PathBuf) {
    let arena = Arena::create(&ArenaOptions { slots, ring_bytes, head_bytes: 64 }).expect("shared memory");
    let path = arena.path().to_owned();
    (LibrarySource::new(arena).expect("nobody else records"), path)
}

fn taken(source: &mut LibrarySource, now: u64, until: u64) -> Vec<(u64, u64)> {
    let mut out = Vec::new();
    source.drain(now, until, |f| {
        let word = |i: usize| u64::from_ne_bytes(f.bytes[i..i + 8].try_into().expect("eight bytes"));
        out.push((word(8), word(16)));
    });
    out
}

/// What one of several threads of several processes does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A thread of this process takes the time.
    Take(usize),
    /// The n-th that has its time reserves, with so many words after the number.
    Reserve(usize, u16),
    /// The n-th that has reserved writes.
    Commit(usize),
    /// The recorder looks.
    Drain,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3usize).prop_map(Step::Take),
        4 => (0..8usize, 0..40u16).prop_map(|(n, words)| Step::Reserve(n, words)),
        4 => (0..8usize).prop_map(Step::Commit),
        1 => Just(Step::Drain),
    ];
    proptest::collection::vec(step, 1..600)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the interleaving: each record once, and in order of time as far as all before it were written (a record
    /// that is reserved hides those after it).
    #[test]
    fn every_record_comes_once_and_in_order(steps in steps()) {
        let sleepers = Sleepers::new(3);
        let (mut source, path) = source(8, 1 << 16);
        let writers: Vec<Writer> = (0..3).map(|i| Writer::claim(&path, sleepers.tgid(i)).expect("a slot")).collect();
        let (mut time, mut number) = (10, 0);
        let mut begun: Vec<(usize, u64)> = Vec::new();
        let mut reserved: Vec<(usize, Reserved)> = Vec::new();
        let (mut written, mut got) = (Vec::new(), Vec::new());
        let mut places: Vec<(usize, u64, u64)> = Vec::new();
        let mut full = 0;
        for step in steps {
            match step {
                Step::Take(w) => {
                    begun.push((w, time));
                    time += 1;
                }
                Step::Reserve(n, words) if !begun.is_empty() => {
                    let (w, ts) = begun.remove(n % begun.len());
                    match writers[w].reserve(ts, 24 + 8 * words) {
                        Some(r) => {
                            places.push((w, r.at, r.ts));
                            reserved.push((w, r));
                        }
                        None => full += 1,
                    }
                }
                Step::Commit(n) if !reserved.is_empty() => {
                    let (w, r) = reserved.remove(n % reserved.len());
                    number += 1;
                    writers[w].commit(&r, number);
                    written.push((r.ts, number));
                }
                Step::Drain => {
                    let is_hidden =
                        |p: &&(usize, u64, u64)| reserved.iter().any(|(w, r)| *w == p.0 && r.at <= p.1);
                    let hidden = places.iter().filter(is_hidden).map(|p| p.2);
                    let oldest = begun.iter().map(|b| b.1).chain(hidden).min();
                    got.extend(taken(&mut source, 1, oldest.unwrap_or(time) - 1));
                }
                _ => {}
            }
        }
        for (w, r) in &reserved {
            number += 1;
            writers[*w].commit(r, number);
            written.push((r.ts, number));
        }
        got.extend(taken(&mut source, 1, u64::MAX));
        written.sort_unstable();
        prop_assert_eq!(got, written);
        prop_assert_eq!(source.drops()[w::DROP_OP as usize], full);
        prop_assert_eq!(source.backlog().0, 0);
    }

    /// Whatever stands in the memory: no panic, no endless loop, and it can be used again.
    #[test]
    fn rubbish_in_the_memory_is_skipped(words in proptest::collection::vec((0..10_000usize, any::<u64>()), 0..300),
                                        reserved in any::<u64>(), consumed in any::<u64>(), small in any::<bool>()) {
        let (mut source, path) = source(2, 1 << 16);
        let sleepers = Sleepers::new(1);
        let writer = Writer::claim(&path, sleepers.tgid(0)).expect("a slot");
        for (at, word) in words {
            // SAFETY: inside the ring.
            unsafe { writer.arena.place(writer.slot, 8 * at as u64).cast::<u64>().write(word) };
        }
        let h = writer.arena.slot(writer.slot);
        h.reserved.store(if small { reserved % 70_000 } else { reserved }, Ordering::Relaxed);
        h.consumed.store(consumed, Ordering::Relaxed);
        for now in [1, 2 * STUCK_NS, 4 * STUCK_NS] {
            taken(&mut source, now, u64::MAX);
        }
        drop(sleepers);
        taken(&mut source, 6 * STUCK_NS, u64::MAX);
        taken(&mut source, 8 * STUCK_NS, u64::MAX);
        prop_assert_eq!(source.processes(), 0);
        let again = Sleepers::new(1);
        let writer = Writer::claim(&path, again.tgid(0)).expect("the slot is free again");
        prop_assert!(writer.write(5, 24, 77));
        prop_assert_eq!(taken(&mut source, 9 * STUCK_NS, u64::MAX), vec![(5, 77)]);
    }
}

#[test]
fn a_full_ring_is_counted_and_nothing_else() {
    let sleepers = Sleepers::new(1);
    let (mut source, path) = source(2, 1 << 16);
    let writer = Writer::claim(&path, sleepers.tgid(0)).expect("a slot");
    let fitted = (0..5_000).filter(|&i| writer.write(i, 64, i)).count();
    assert_eq!(fitted, (1 << 16) / 64);
    assert_eq!(source.backlog(), (1 << 16, 1 << 16));
    assert_eq!(taken(&mut source, 1, u64::MAX).len(), fitted);
    assert_eq!(source.drops()[w::DROP_OP as usize], 5_000 - fitted as u64);
    assert!(writer.write(9_000, 64, 1) && taken(&mut source, 1, u64::MAX) == [(9_000, 1)]);
}

#[test]
fn a_writer_killed_in_mid_record_costs_that_record() {
    let (mut source, path) = source(4, 1 << 16);
    let mut sleepers = Sleepers::new(1);
    let writer = Writer::claim(&path, sleepers.tgid(0)).expect("a slot");
    assert!(writer.write(1, 48, 1));
    let _never = writer.reserve(2, 400).expect("room");
    assert!(writer.write(3, 24, 3) && writer.write(4, 104, 4));
    // its thread may only be slow: nothing after it yet
    assert_eq!(taken(&mut source, 5, u64::MAX), [(1, 1)]);
    assert_eq!(taken(&mut source, 6, u64::MAX), []);
    sleepers.0[0].kill().and_then(|()| sleepers.0[0].wait()).expect("it was there");
    assert_eq!(taken(&mut source, 7, u64::MAX), [(3, 3), (4, 4)]);
    assert_eq!(source.drops()[w::DROP_OP as usize], 1);
    assert_eq!(source.processes(), 0);
    assert_eq!(writer.arena.slot(writer.slot).state.load(Ordering::Relaxed), a::SLOT_FREE);
    // the next owner's positions begin anew, and the old marks are gone
    let sleepers = Sleepers::new(1);
    let next = Writer::claim(&path, sleepers.tgid(0)).expect("the same slot");
    let open = next.reserve(8, 48).expect("room");
    assert_eq!(taken(&mut source, 9, u64::MAX), []);
    next.commit(&open, 8);
    assert_eq!(taken(&mut source, 10, u64::MAX), [(8, 8)]);
}

#[test]
fn a_record_that_a_living_process_never_writes_is_waited_for_and_skipped() {
    let sleepers = Sleepers::new(1);
    let (mut source, path) = source(2, 1 << 16);
    let writer = Writer::claim(&path, sleepers.tgid(0)).expect("a slot");
    let _never = writer.reserve(2, 64).expect("room");
    assert!(writer.write(3, 24, 3));
    assert_eq!(taken(&mut source, 10, u64::MAX), []);
    assert_eq!(taken(&mut source, 10 + STUCK_NS, u64::MAX), [(3, 3)]);
    assert_eq!(source.drops()[w::DROP_OP as usize], 1);
}

#[test]
fn slots_are_opened_as_they_are_claimed_and_what_an_exec_leaves_is_freed() {
    let sleepers = Sleepers::new(2);
    let (mut source, path) = source(40, 1 << 16);
    let first = Writer::claim(&path, sleepers.tgid(0)).expect("a slot");
    let open =
        |s: &LibrarySource| (0..40).filter(|&i| s.arena.slot(i).state.load(Ordering::Relaxed) == a::SLOT_FREE).count();
    taken(&mut source, 1, u64::MAX);
    assert_eq!((open(&source), source.processes()), (OPEN_AHEAD, 1));
    assert!(first.write(5, 24, 1));
    let second = Writer::claim(&path, sleepers.tgid(0)).expect("a slot");
    assert!(second.write(6, 24, 2));
    assert_eq!(taken(&mut source, 1, u64::MAX), [(5, 1), (6, 2)]);
    taken(&mut source, 1, u64::MAX);
    assert_eq!((source.processes(), second.write(7, 24, 3)), (1, true));
    assert_eq!(taken(&mut source, 1, u64::MAX), [(7, 3)]);
}

#[test]
fn processes_write_at_once_and_some_are_killed() {
    let (mut source, path) = source(16, 1 << 20);
    const EACH: u64 = 20_000;
    let mut children = Vec::new();
    for c in 0..3u64 {
        // SAFETY: the child uses mapped memory and atomics alone, and leaves by _exit.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: as above.
            let me = unsafe { libc::getpid() } as u32;
            let Some(writer) = Writer::claim(&path, me) else {
                // SAFETY: leaves at once.
                unsafe { libc::_exit(1) }
            };
            let mut n = 0;
            while c == 2 || n < EACH {
                if writer.write(crate::monotonic_ns(), 24 + 8 * (n % 9) as u16, c << 32 | n) {
                    n += 1;
                }
            }
            // SAFETY: leaves at once.
            unsafe { libc::_exit(0) }
        }
        children.push(pid);
    }
    let (mut got, begin) = (vec![Vec::new(); 3], crate::monotonic_ns());
    let mut last = 0;
    while got[0].len() < EACH as usize || got[1].len() < EACH as usize || source.processes() > 0 {
        let now = crate::monotonic_ns();
        assert!(now - begin < 60_000_000_000, "{:?} after a minute", got.iter().map(Vec::len).collect::<Vec<_>>());
        if got[2].len() > 5_000 {
            // SAFETY: a child of this test; being dead already is no failure.
            unsafe { libc::kill(children[2], libc::SIGKILL) };
        }
        for &pid in &children {
            // SAFETY: only takes children away.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
        }
        let batch = taken(&mut source, now, now.saturating_sub(2_000_000));
        assert!(batch.is_sorted_by_key(|r| r.0));
        last = batch.last().map_or(last, |r| r.0);
        for (_, number) in batch {
            got[(number >> 32) as usize].push(number & 0xffff_ffff);
        }
    }
    for (c, numbers) in got.iter().enumerate() {
        assert!(numbers.iter().enumerate().all(|(i, n)| *n == i as u64), "of process {c}: each once, none missing");
    }
    assert!(last > begin);
}

#[test]
fn a_second_recorder_is_refused_and_a_killed_ones_arena_goes_on() {
    let dir = std::env::temp_dir().join(format!("wakepath-arena-{}", std::process::id()));
    let path = Arena::path_of(&dir);
    assert_eq!(path, Arena::path_of(&dir), "the same folder has the same arena");
    let options = ArenaOptions { slots: 2, ring_bytes: 1 << 16, head_bytes: 0 };
    let arena = Arena::of_folder(&dir, &options).expect("shared memory");
    arena.switch_on(true);
    assert_eq!((arena.switches(), arena.recorder()), ((true, true), None));
    // SAFETY: the child makes system calls and leaves by _exit.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let locked = Arena::open(&path).ok().flatten().is_some_and(|a| {
            let ok = a.lock().is_ok();
            std::mem::forget(a);
            ok
        });
        if !locked {
            // SAFETY: leaves at once.
            unsafe { libc::_exit(1) }
        }
        loop {
            // SAFETY: sleeps until it is killed.
            unsafe { libc::pause() };
        }
    }
    let began = std::time::Instant::now();
    while arena.recorder().is_none() {
        assert!(began.elapsed().as_secs() < 20, "the child records");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(arena.recorder(), Some(pid as u32));
    let refused = LibrarySource::new(Arena::open(&path).expect("readable").expect("there"));
    assert!(refused.is_err_and(|e| e.to_string().contains(&format!("process {pid}"))));
    // SAFETY: a child of this test.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
    let again = Arena::of_folder(&dir, &options).expect("the same one");
    assert_eq!(again.switches(), (true, true), "programs go on where the recorder was killed");
    again.switch_off();
    assert_eq!(arena.switches(), (false, true));
    drop(LibrarySource::new(again).expect("nobody records now"));
    arena.remove();
    assert!(Arena::open(&path).expect("no error").is_none());
}

#[test]
fn what_somebody_else_put_where_an_arena_is_to_be_is_not_followed() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("wakepath-linked-{}", std::process::id()));
    let secret = folder.with_extension("secret");
    std::fs::write(&secret, "somebody's")?;
    let place = Arena::path_of(&folder);
    std::os::unix::fs::symlink(&secret, &place)?;
    let refused = Arena::of_folder(&folder, &ArenaOptions::default()).map(drop);
    let kept = std::fs::read_to_string(&secret)?;
    std::fs::remove_file(&place)?;
    std::fs::remove_file(&secret)?;
    assert!(refused.is_err());
    assert_eq!(kept, "somebody's");
    Ok(())
}
