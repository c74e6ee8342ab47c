//! The arena's file: made, found again, switched on and off.

use super::remover::Remover;
use crate::CaptureError;
use fnv::FnvHasher;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use wakepath_wire as w;
use wakepath_wire::arena::{self as a, ArenaHeader};

/// Where arenas are: memory that every Linux has, without a disk behind it.
const FOLDER: &str = "/dev/shm";

/// How to make an arena.
#[derive(Clone, Debug)]
pub struct ArenaOptions {
    /// Maximum number of processes at once.
    pub slots: u32,
    /// Bytes of each process's ring: a power of two, at least 64 KiB.
    pub ring_bytes: u32,
    /// Most bytes of a message's head, 0 = none.
    pub head_bytes: u32,
}

impl Default for ArenaOptions {
    fn default() -> Self {
        ArenaOptions { slots: 512, ring_bytes: 2 << 20, head_bytes: 2048 }
    }
}

/// The shared memory, mapped.
pub struct Arena {
    path: PathBuf,
    file: File,
    base: *mut u8,
    bytes: usize,
    slots: usize,
    ring_bytes: u32,
    key: u32,
    remove: bool,
    /// Ends after the removal.
    _remover: Option<Remover>,
}

// SAFETY: the mapping is shared between processes and accessed by atomics and volatile copies alone.
unsafe impl Send for Arena {}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: what mmap gave.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
        if self.remove {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn failed(what: &str, path: &Path, e: impl std::fmt::Display) -> CaptureError {
    CaptureError::Arena(format!("{what} {}: {e}", path.display()))
}

impl Arena {
    /// Makes an arena of a name nobody can guess. It is removed when this value is dropped, and when this process ends in
    /// any other way.
    pub fn create(options: &ArenaOptions) -> Result<Arena, CaptureError> {
        sweep();
        let name = format!("{}{}-{:016x}", run_prefix(), std::process::id(), random());
        let path = Path::new(FOLDER).join(name);
        // a process of its own, before there is anything that it should not have
        let remover = Remover::start(&path);
        let mut arena = Arena::make(&path, options, true)?;
        (arena.remove, arena._remover) = (true, remover);
        Ok(arena)
    }

    /// The arena that belongs to a trace folder, made where it is not there. It stays when this value is dropped, since
    /// programs find it by its name: see [`Arena::remove`].
    pub fn of_folder(folder: &Path, options: &ArenaOptions) -> Result<Arena, CaptureError> {
        let path = Arena::path_of(folder);
        match Arena::open(&path)? {
            Some(arena) => Ok(arena),
            None => Arena::make(&path, options, false),
        }
    }

    /// Where the arena of a trace folder is.
    pub fn path_of(folder: &Path) -> PathBuf {
        let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let canonical = fs::canonicalize(&absolute).unwrap_or(absolute);
        // the same in every version and on every machine
        let mut hash = FnvHasher::default();
        hash.write(canonical.as_os_str().as_bytes());
        Path::new(FOLDER).join(format!("wakepath-{}-{:016x}", uid(), hash.finish()))
    }

    /// `is_locked`: it has its recorder's lock before it has a name, so that nobody takes it for a dead recorder's.
    fn make(path: &Path, options: &ArenaOptions, is_locked: bool) -> Result<Arena, CaptureError> {
        if !options.ring_bytes.is_power_of_two() || options.ring_bytes < 1 << 16 {
            return Err(CaptureError::Setting(format!(
                "a ring of {} bytes: give a power of two of at least 64 KiB",
                options.ring_bytes
            )));
        }
        let slots = options.slots.clamp(1, 4096);
        let making = |e| failed("making the shared memory", path, e);
        let file = if is_locked { unnamed(path) } else { named(path) }.map_err(making)?;
        let bytes = a::arena_bytes(slots, options.ring_bytes);
        file.set_len(bytes as u64).map_err(|e| failed("sizing the shared memory", path, e))?;
        if !set_aside(&file, 0, a::ARENA_PAGE) {
            let _ = fs::remove_file(path);
            return Err(failed("no room for the shared memory", path, std::io::Error::last_os_error()));
        }
        let base = map(&file, bytes).map_err(|e| failed("mapping the shared memory", path, e))?;
        let header = base.cast::<ArenaHeader>();
        let key = random() as u32;
        // SAFETY: a fresh mapping that nobody else has yet: the magic, which says that it can be used, comes last.
        unsafe {
            (&raw mut (*header).version).write(a::ARENA_VERSION);
            (&raw mut (*header).slots).write(slots);
            (&raw mut (*header).ring_bytes).write(options.ring_bytes);
            (&raw mut (*header).head_bytes).write(options.head_bytes.min(w::HEAD_MAX));
            (&raw mut (*header).key).write(key);
        }
        let arena = Arena {
            path: path.to_owned(),
            file,
            base,
            bytes,
            slots: slots as usize,
            ring_bytes: options.ring_bytes,
            key,
            remove: false,
            _remover: None,
        };
        for i in 0..arena.slots {
            if !set_aside(&arena.file, arena.slot_offset(i), a::ARENA_PAGE) {
                let _ = fs::remove_file(path);
                return Err(failed("no room for the shared memory", path, std::io::Error::last_os_error()));
            }
            arena.slot(i).state.store(a::SLOT_CLOSED, Ordering::Relaxed);
        }
        arena.header().pidns.store(pidns(), Ordering::Relaxed);
        arena.header().magic.store(a::ARENA_MAGIC, Ordering::Release);
        if is_locked {
            arena.lock()?;
            link(&arena.file, path).map_err(making)?;
        }
        Ok(arena)
    }

    /// Maps an arena that is there; `None` where there is no file of that name.
    pub fn open(path: &Path) -> Result<Option<Arena>, CaptureError> {
        let opened =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW).open(path);
        let file = match opened {
            Ok(f) => f,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed("opening the shared memory", path, e)),
        };
        let meta = file.metadata().map_err(|e| failed("looking at the shared memory", path, e))?;
        if meta.uid() != uid() || !meta.is_file() {
            return Err(failed("the shared memory", path, "belongs to another user; remove it, or run as that user"));
        }
        let foreign = || failed("the shared memory", path, "is no arena of this version; remove it");
        let bytes = usize::try_from(meta.len()).map_err(|_| foreign())?;
        if bytes < a::ARENA_PAGE {
            return Err(foreign());
        }
        let base = map(&file, bytes).map_err(|e| failed("mapping the shared memory", path, e))?;
        let header = base.cast::<ArenaHeader>();
        // SAFETY: the mapping has at least a page; these fields do not change once the magic is there.
        let (magic, version, slots, ring_bytes, key) = unsafe {
            let h = &*header;
            (h.magic.load(Ordering::Acquire), h.version, h.slots, h.ring_bytes, h.key)
        };
        let (path, slots_there) = (path.to_owned(), slots as usize);
        let arena =
            Arena { path, file, base, bytes, slots: slots_there, ring_bytes, key, remove: false, _remover: None };
        let is_ours = magic == a::ARENA_MAGIC
            && version == a::ARENA_VERSION
            && slots <= 4096
            && ring_bytes.is_power_of_two()
            && ring_bytes >= 1 << 16
            && a::arena_bytes(slots, ring_bytes) == bytes;
        if is_ours { Ok(Some(arena)) } else { Err(foreign()) }
    }

    /// Where it is: what [`a::ARENA_ENV`] is set to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Switches recording on; processes announce their flows again.
    pub fn switch_on(&self, isolate: bool) {
        self.switch(if isolate { a::ISOLATE } else { 0 });
    }

    /// Switches recording on; inputs are handed over when the whole process has come to rest.
    pub fn switch_on_at_rest(&self) {
        self.switch(a::ISOLATE | a::REST);
    }

    fn switch(&self, how: u32) {
        let header = self.header();
        header.epoch.fetch_add(1, Ordering::AcqRel);
        header.switches.store(a::ON | how, Ordering::Release);
    }

    /// Switches recording off.
    pub fn switch_off(&self) {
        self.header().switches.fetch_and(!a::ON, Ordering::AcqRel);
    }

    /// Whether recording is on, and whether events are isolated.
    pub fn switches(&self) -> (bool, bool) {
        let s = self.header().switches.load(Ordering::Acquire);
        (s & a::ON != 0, s & a::ISOLATE != 0)
    }

    /// Makes this process the recorder; the kernel takes the lock back however the process ends.
    pub(super) fn lock(&self) -> Result<(), CaptureError> {
        let mut l = whole_file(libc::F_WRLCK);
        // SAFETY: a lock description on this stack.
        if unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_SETLK, &raw mut l) } == 0 {
            return Ok(());
        }
        let who = self.recorder().map_or_else(String::new, |pid| format!(" (process {pid})"));
        Err(failed("the shared memory", &self.path, format!("another recorder{who} has it; end it first")))
    }

    /// The process that records from it, if one does and it is not this one.
    pub fn recorder(&self) -> Option<u32> {
        recorder_of(&self.file)
    }

    /// Counts a program that the library does not see.
    pub fn count_not_loaded(&self) {
        self.header().not_loaded.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes the file: programs that have it mapped keep it, others do not find it any more.
    pub fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }

    /// How many slots.
    pub fn slots(&self) -> usize {
        self.slots
    }

    pub(super) fn ring_bytes(&self) -> u64 {
        self.ring_bytes.into()
    }

    pub(super) fn key(&self) -> u32 {
        self.key
    }

    pub(super) fn header(&self) -> &ArenaHeader {
        // SAFETY: the mapping has at least a page; what changes in it is atomic.
        unsafe { &*self.base.cast::<ArenaHeader>() }
    }

    fn slot_offset(&self, i: usize) -> usize {
        a::ARENA_PAGE + i * a::slot_bytes(self.ring_bytes)
    }

    pub(super) fn slot_address(&self, i: usize) -> *mut u8 {
        assert!(i < self.slots, "slot {i} of {}", self.slots);
        // SAFETY: checked.
        unsafe { self.base.add(self.slot_offset(i)) }
    }

    /// The address of a position of a slot's ring; a whole record's room is behind it.
    pub(super) fn place(&self, i: usize, at: u64) -> *mut u8 {
        let offset = (at & u64::from(self.ring_bytes - 1) & !7) as usize;
        // SAFETY: inside the slot's ring.
        unsafe { self.slot_address(i).add(a::ARENA_PAGE + offset) }
    }

    /// Copies a record out: who wrote it may still change it.
    pub(super) fn copy(&self, i: usize, at: u64, out: &mut [u8]) {
        debug_assert!(out.len() <= w::RING_SLACK as usize);
        // SAFETY: `place` has RING_SLACK bytes after it, and `out` is at most that long.
        unsafe { std::ptr::copy_nonoverlapping(self.place(i, at), out.as_mut_ptr(), out.len()) };
    }

    /// Sets the slot's memory aside and lets processes claim it; false where there is none.
    pub(super) fn open_slot(&self, i: usize) -> bool {
        if !set_aside(&self.file, self.slot_offset(i), a::slot_bytes(self.ring_bytes)) {
            return false;
        }
        self.slot(i).state.store(a::SLOT_FREE, Ordering::Release);
        true
    }

    /// Gives the memory of a free slot back.
    pub(super) fn close_slot(&self, i: usize) {
        let state = &self.slot(i).state;
        if state.compare_exchange(a::SLOT_FREE, a::SLOT_CLOSED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            let (offset, bytes) = (self.slot_offset(i) + a::ARENA_PAGE, a::slot_bytes(self.ring_bytes) - a::ARENA_PAGE);
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            // SAFETY: a descriptor and plain numbers; who claims a slot claims no closed one.
            unsafe { libc::fallocate(self.file.as_raw_fd(), mode, offset as i64, bytes as i64) };
        }
    }

    /// Makes the slot as new: without the old marks, which a new owner's positions would meet again.
    pub(super) fn clear(&self, i: usize) {
        let header = self.slot(i);
        let used = header.reserved.load(Ordering::Relaxed).saturating_add(w::RING_SLACK.into());
        let used = used.min(a::slot_bytes(self.ring_bytes) as u64 - a::ARENA_PAGE as u64) as usize;
        // SAFETY: inside the slot; its process is gone.
        unsafe { std::ptr::write_bytes(self.place(i, 0), 0, used) };
        header.tgid.store(0, Ordering::Relaxed);
        header.start_ns.store(0, Ordering::Relaxed);
        header.reserved.store(0, Ordering::Relaxed);
        header.consumed.store(0, Ordering::Relaxed);
        header.state.store(a::SLOT_FREE, Ordering::Release);
    }
}

fn whole_file(kind: i32) -> libc::flock {
    // SAFETY: plain numbers; zeros are the whole file, counted from its begin.
    let mut l: libc::flock = unsafe { std::mem::zeroed() };
    l.l_type = kind as i16;
    l
}

fn uid() -> u32 {
    // SAFETY: no conditions.
    unsafe { libc::geteuid() }
}

fn pidns() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |m| m.ino())
}

fn random() -> u64 {
    // keyed by the system's random numbers
    let mut h = std::hash::RandomState::new().build_hasher();
    h.write_u64(crate::monotonic_ns());
    h.finish()
}

fn set_aside(file: &File, offset: usize, bytes: usize) -> bool {
    // SAFETY: a descriptor and plain numbers.
    unsafe { libc::fallocate(file.as_raw_fd(), 0, offset as i64, bytes as i64) == 0 }
}

fn map(file: &File, bytes: usize) -> std::io::Result<*mut u8> {
    // SAFETY: maps a file of that length; the result is checked.
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
    if p == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(p.cast()) }
}

/// Who has the lock of an arena's file, if it is not this process.
fn recorder_of(file: &File) -> Option<u32> {
    let mut l = whole_file(libc::F_WRLCK);
    // SAFETY: a lock description on this stack.
    let r = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut l) };
    (r == 0 && i32::from(l.l_type) != libc::F_UNLCK).then_some(l.l_pid as u32)
}

fn named(path: &Path) -> std::io::Result<File> {
    let flags = libc::O_CLOEXEC | libc::O_NOFOLLOW;
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).custom_flags(flags).open(path)
}

/// A file without a name in the folder of `path`.
fn unnamed(path: &Path) -> std::io::Result<File> {
    let flags = libc::O_CLOEXEC | libc::O_TMPFILE;
    let dir = path.parent().unwrap_or(Path::new(FOLDER));
    OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(flags).open(dir)
}

/// Gives a file without a name one.
fn link(file: &File, path: &Path) -> std::io::Result<()> {
    let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let to = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: two C strings.
    let r =
        unsafe { libc::linkat(libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), libc::AT_SYMLINK_FOLLOW) };
    if r == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// How the names of arenas of `run` begin.
fn run_prefix() -> String {
    format!("wakepath-{}-run-", uid())
}

/// Removes arenas of this user's recorders that were killed together with their [`Remover`]: nobody has their lock, and
/// nobody can find them any more.
fn sweep() {
    let prefix = run_prefix();
    // this process does not see its own locks
    let own = format!("{prefix}{}-", std::process::id());
    for entry in fs::read_dir(FOLDER).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_arena = name.starts_with(&prefix)
            && !name.starts_with(&own)
            && entry.metadata().is_ok_and(|m| m.is_file() && m.uid() == uid());
        let flags = libc::O_CLOEXEC | libc::O_NOFOLLOW;
        if is_arena
            && let Ok(file) = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path)
            && recorder_of(&file).is_none()
        {
            let _ = fs::remove_file(&path);
        }
    }
}
