//! Programs under the library, and what it wrote about them.
#![allow(dead_code)] // each test file uses its part

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;
use wakepath_wire as w;
use wakepath_wire::arena as a;

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Without the library.
    Bare,
    /// With it, recording off.
    Off,
    /// Recording, changing nothing.
    Observe,
    /// Recording, one input at a time.
    Isolate,
    /// Recording, one input at a time for the whole process.
    Rest,
}

/// The library, which cargo builds beside the tests.
pub fn library() -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows its own path");
    let folder = exe.parent().expect("it lies in a folder");
    let name = "libwakepath_preload.so";
    let found = [folder.join(name), folder.with_file_name(name)].into_iter().find(|p| p.exists());
    found.unwrap_or_else(|| panic!("{name} is not beside {}: cargo builds it for tests", exe.display()))
}

/// A compiled test program.
pub fn program(name: &str) -> PathBuf {
    compiled(name, &[])
}

/// A compiled test program, with further arguments for the compiler.
pub fn compiled(name: &str, more: &[&str]) -> PathBuf {
    static BUILT: OnceLock<Mutex<Vec<PathBuf>>> = OnceLock::new();
    let out =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("preload-{name}{}-{}", more.concat(), std::process::id()));
    let mut built = BUILT.get_or_init(Mutex::default).lock().expect("no test panics here");
    if !built.contains(&out) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
        let cc = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&out).arg(&source).args(more).output();
        let cc = cc.expect("cc runs; remedy: scripts/install");
        assert!(cc.status.success(), "{}: {}", source.display(), String::from_utf8_lossy(&cc.stderr));
        built.push(out.clone());
    }
    out
}

/// The arena of one test.
pub struct Arena {
    path: PathBuf,
    base: *mut u8,
    bytes: usize,
}

// SAFETY: the memory is shared with other processes anyway, and read by atomics and copies of committed records
unsafe impl Send for Arena {}
// SAFETY: see above
unsafe impl Sync for Arena {}

const SLOTS: u32 = 96;
/// Room for what a program says while the thread that drains it waits for a busy processor (bytes).
const RING: u32 = 1 << 22;
const KEY: u32 = 0x5eed;

impl Arena {
    fn new(mode: Mode) -> Arena {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Relaxed);
        let path = PathBuf::from(format!("/dev/shm/wakepath-test-{}-{n}", std::process::id()));
        let bytes = a::arena_bytes(SLOTS, RING);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).expect("/dev/shm has room");
        file.set_len(bytes as u64).expect("/dev/shm has room");
        let base = map(&file, bytes);
        let arena = Arena { path, base, bytes };
        // SAFETY: a fresh mapping
        unsafe {
            let h = base.cast::<a::ArenaHeader>();
            (&raw mut (*h).version).write(a::ARENA_VERSION);
            (&raw mut (*h).slots).write(SLOTS);
            (&raw mut (*h).ring_bytes).write(RING);
            (&raw mut (*h).head_bytes).write(1024);
            (&raw mut (*h).key).write(KEY);
        }
        arena.header().magic.store(a::ARENA_MAGIC, Release);
        arena.switch(mode);
        arena
    }

    /// Switches to `mode`.
    pub fn switch(&self, mode: Mode) {
        let h = self.header();
        h.epoch.fetch_add(1, Relaxed);
        let switches = match mode {
            Mode::Bare | Mode::Off => 0,
            Mode::Observe => a::ON,
            Mode::Isolate => a::ON | a::ISOLATE,
            Mode::Rest => a::ON | a::ISOLATE | a::REST,
        };
        h.switches.store(switches, Release);
    }

    /// The first page.
    pub fn header(&self) -> &a::ArenaHeader {
        // SAFETY: mapped, and as long as `self`
        unsafe { &*self.base.cast() }
    }

    /// How many slots were claimed.
    pub fn claimed(&self) -> usize {
        (0..SLOTS).filter(|&i| self.slot(i).0.state.load(Acquire) != a::SLOT_FREE).count()
    }

    fn slot(&self, i: u32) -> (&a::SlotHeader, *const u8) {
        let at = a::ARENA_PAGE + i as usize * a::slot_bytes(RING);
        // SAFETY: inside the mapping
        unsafe { (&*self.base.add(at).cast(), self.base.add(at + a::ARENA_PAGE).cast_const()) }
    }

    fn drain(&self, into: &mut Vec<Vec<u8>>) {
        for i in 0..SLOTS {
            let (s, ring) = self.slot(i);
            if s.state.load(Acquire) != a::SLOT_LIVE {
                continue;
            }
            let (mut at, end) = (s.consumed.load(Relaxed), s.reserved.load(Acquire));
            while at < end {
                // SAFETY: a record begins inside the ring and ends inside the slack
                unsafe {
                    let p = ring.add((at % u64::from(RING)) as usize);
                    if (*p.cast::<AtomicU32>()).load(Acquire) != a::commit_tag(at, KEY) {
                        break;
                    }
                    let n = p.add(4).cast::<u16>().read();
                    into.push(std::slice::from_raw_parts(p, n.into()).to_vec());
                    at += u64::from(n);
                }
            }
            s.consumed.store(at, Release);
        }
    }

    fn counts(&self) -> ([u64; a::aside::KINDS], u64) {
        let mut aside = [0; a::aside::KINDS];
        let mut drops = 0;
        for i in 0..SLOTS {
            let (s, _) = self.slot(i);
            aside.iter_mut().zip(&s.aside).for_each(|(n, c)| *n += c.load(Relaxed));
            drops += s.drops.iter().map(|c| c.load(Relaxed)).sum::<u64>();
        }
        (aside, drops)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `new`
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
        let _ = std::fs::remove_file(&self.path);
    }
}

fn map(file: &File, bytes: usize) -> *mut u8 {
    // SAFETY: a new mapping of a file of this size
    let p = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    assert_ne!(p, libc::MAP_FAILED);
    p.cast()
}

/// What became of a program.
pub struct Run {
    /// What it said, and how it ended.
    pub output: Output,
    /// What was recorded, each process's records in order.
    pub records: Vec<Vec<u8>>,
    /// See `wakepath_wire::arena::aside`.
    pub aside: [u64; a::aside::KINDS],
    /// Records lost.
    pub drops: u64,
    /// Programs that the loader gave no library.
    pub not_loaded: u64,
}

impl Run {
    /// The program's standard output.
    pub fn text(&self) -> String {
        format!("{}{}", String::from_utf8_lossy(&self.output.stdout), String::from_utf8_lossy(&self.output.stderr))
    }

    /// Records of one kind.
    pub fn all<T: w::Record>(&self, kind: u8) -> Vec<T> {
        self.records.iter().filter(|r| r[6] == kind).filter_map(|r| w::view(r)).collect()
    }

    /// Operations.
    pub fn operations(&self) -> Vec<w::Op> {
        self.all(w::KIND_OP)
    }

    /// Steps of tasks.
    pub fn tasks(&self) -> Vec<w::TaskEvent> {
        self.all(w::KIND_TASK)
    }
}

/// Runs `command` in `mode`. `during` is called while it runs, with its output's reading end.
pub fn run_with(mode: Mode, command: &mut Command, during: impl FnOnce(&Arena, &mut std::process::Child)) -> Run {
    let arena = Arc::new(Arena::new(mode));
    if mode != Mode::Bare {
        command.env("LD_PRELOAD", library()).env(a::ARENA_ENV, &arena.path);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let done = Arc::new(AtomicBool::new(false));
    let drainer = thread::spawn({
        let (arena, done) = (arena.clone(), done.clone());
        move || {
            let mut records = Vec::new();
            while !done.load(Acquire) {
                arena.drain(&mut records);
                thread::sleep(Duration::from_millis(1));
            }
            arena.drain(&mut records);
            records
        }
    });
    during(&arena, &mut child);
    let output = child.wait_with_output().expect("the program ends");
    done.store(true, Release);
    let records = drainer.join().expect("draining works");
    let (aside, drops) = arena.counts();
    Run { output, records, aside, drops, not_loaded: arena.header().not_loaded.load(Relaxed) }
}

/// Runs a test program's part in `mode`.
pub fn run(mode: Mode, program: &Path, arguments: &[&str]) -> Run {
    run_with(mode, Command::new(program).args(arguments), |_, _| ())
}

/// Runs it in all modes and holds what its user sees against a run without the library; the isolating run.
pub fn same_in_all_modes(program: &Path, arguments: &[&str]) -> Run {
    let bare = run(Mode::Bare, program, arguments);
    assert!(bare.output.status.success(), "without the library {arguments:?}: {}", bare.text());
    for mode in [Mode::Off, Mode::Observe, Mode::Rest] {
        let other = run(mode, program, arguments);
        assert_eq!(other.text(), bare.text(), "{arguments:?} {mode:?}");
        assert_eq!(other.output.status, bare.output.status, "{arguments:?} {mode:?}");
        assert_eq!(other.drops, 0);
        assert!(mode != Mode::Off || other.records.is_empty(), "off means off");
    }
    let isolated = run(Mode::Isolate, program, arguments);
    assert_eq!(isolated.text(), bare.text(), "{arguments:?} isolating");
    assert_eq!(isolated.output.status, bare.output.status, "{arguments:?} isolating");
    assert_eq!(isolated.drops, 0);
    isolated
}

/// Reads from `from` until `what` has come.
pub fn wait_for(from: &mut impl std::io::Read, what: &str) {
    let (mut text, mut byte) = (String::new(), [0u8; 1]);
    while !text.contains(what) {
        assert_eq!(from.read(&mut byte).expect("the program speaks"), 1, "it ended after {text:?}");
        text.push(byte[0] as char);
    }
}
