//! The kernel vantage: loads and attaches the programs, maps their rings, drains them in time order.

mod calls;
mod programs;
mod rings;
mod runtimes;
mod tls;
mod watching;

pub(crate) use calls::{has_calls, usual_points};

use crate::error::CaptureError;
use crate::refusal;
use crate::support::{Support, support};
use crate::usdt::Attached;
use calls::Calls;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, MapHandle, OpenObject};
use programs::{Choice, attach_programs, choose, choose_programs, configure};
use rings::Rings;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
pub use tls::Placed;
use wakepath_wire::{self as w, Frame};

#[allow(missing_docs, dead_code, clippy::all, clippy::undocumented_unsafe_blocks, unsafe_op_in_unsafe_fn)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/wakepath.skel.rs"));
}

/// Which way operations are observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The best that this kernel has.
    Auto,
    /// `sock_send_length` / `sock_recv_length`, and what else is needed at single calls' own tracepoints (Linux 6.7, x86-64).
    Calls,
    /// `sock_send_length` / `sock_recv_length`, and what else is needed at `sys_enter` / `sys_exit` (Linux 6.3 and later).
    SocketHooks,
    /// System call exits (any kernel with BTF tracepoints and task storage, 5.12 and later).
    Syscalls,
}

/// Whose operations and waits are recorded. Of others, waits are recorded while they let those go on, and who had a processor for which
/// those waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Every task but the agent's.
    All,
    /// These processes and their descendants; more by [`KernelSource::watch`].
    Processes(Vec<u32>),
}

/// Processes whose runtimes' memory is read at once: as many as `runtimes` has room for.
const RUNTIMES_MAX: usize = 4096;

/// How to record.
#[derive(Clone, Debug)]
pub struct KernelOptions {
    /// Way of observing operations.
    pub backend: Backend,
    /// Bytes of each processor's ring: a power of two, at least 64 KiB.
    pub ring_bytes: u32,
    /// Most bytes of message head taken after each change of direction; 0 = none.
    pub head_bytes: u32,
    /// Record waits too.
    pub waits: bool,
    /// With each wait of a watched task, where in its program it blocked.
    pub stacks: bool,
    /// Listen to the annotations of watched programs; see [`KernelSource::listen_to`].
    pub marks: bool,
    /// Record page faults of watched tasks.
    pub faults: bool,
    /// Read plaintext at the calls of TLS libraries; see [`KernelSource::read_tls`].
    pub tls: bool,
    /// Where the runtimes of processes that run now keep the identity of logical tasks; more by
    /// [`KernelSource::read_identities`].
    pub runtimes: Vec<(u32, w::Runtime)>,
    /// Whose operations.
    pub watch: Watch,
    /// Whose besides, while the recording goes on.
    pub rules: SelectionRules,
}

/// What makes a process watched while the recording goes on. The programs hold the rules themselves, so that nothing of such a
/// process is missed; its `TASK_SELECTED` record says who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectionRules {
    /// Who executes a program of one of these names, or takes such a name (at most 64).
    pub comms: Vec<String>,
    /// Who binds to one of these ports, or accepts a connection at one (at most [`w::SELECTED_PORTS_MAX`]).
    pub ports: Vec<u16>,
    /// Who joins one of these cgroups or one below (at most [`w::SELECTED_CGROUPS_MAX`]), by its path from the root of a hierarchy. Of who
    /// is made into one, a `TASK_PLACED` record tells, and the caller decides.
    pub cgroups: Vec<String>,
}

impl Default for KernelOptions {
    fn default() -> Self {
        KernelOptions {
            backend: Backend::Auto,
            ring_bytes: 8 << 20,
            head_bytes: 2048,
            waits: true,
            stacks: false,
            marks: false,
            faults: false,
            tls: false,
            runtimes: Vec::new(),
            watch: Watch::All,
            rules: SelectionRules::default(),
        }
    }
}

/// What was left out of a recording with a selection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unselected {
    /// Waits.
    pub waits: u64,
    /// Processor time (ns) of tasks at moments at which their waits were not recorded.
    pub ran_ns: u64,
}

/// What one program cost so far, by the kernel's own accounting (`kernel.bpf_stats_enabled`).
#[derive(Clone, Debug)]
pub struct ProgramCost {
    /// Program.
    pub name: String,
    /// Runs (0 where accounting is off).
    pub runs: u64,
    /// Nanoseconds in all.
    pub ns: u64,
    /// Runs skipped because the program was already running there.
    pub skipped: u64,
}

/// Programs attached to the running kernel. Dropping it detaches them; so does the process's death, however it dies,
/// since nothing is pinned.
pub struct KernelSource {
    skel: skel::WakepathSkel<'static>,
    links: Vec<Link>,
    calls: Calls,
    rings_submit: Option<Link>,
    open_waits: Option<Link>,
    annotated: Attached,
    /// Probes at runtimes' functions.
    marked: Attached,
    /// And at those of TLS libraries.
    in_tls: Attached,
    backend: Backend,
    stacks: bool,
    rings: Rings,
    key: u32,
    /// The loader's arena: freed last.
    _object: ObjectBox,
}

/// Owns the memory after the skeleton.
struct ObjectBox(*mut MaybeUninit<OpenObject>);

impl Drop for ObjectBox {
    fn drop(&mut self) {
        // SAFETY: made by Box::into_raw in `attach`, and the skeleton that borrowed it is dropped before (field order).
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl KernelSource {
    /// Loads and attaches the programs. From then on records gather in the rings: take the snapshot next, then drain.
    pub fn attach(options: &KernelOptions) -> Result<KernelSource, CaptureError> {
        if !options.ring_bytes.is_power_of_two() || !(1 << 16..=w::RING_BYTES_MAX).contains(&options.ring_bytes) {
            return Err(CaptureError::Setting(format!(
                "a ring of {} bytes: give a power of two from 64 KiB to 256 MiB (64K to 256M)",
                options.ring_bytes
            )));
        }
        let support = support();
        if !support.btf {
            return Err(CaptureError::Unsupported("BTF (/sys/kernel/btf/vmlinux)".into()));
        }
        let backend = choose(options.backend, &support)?;
        match KernelSource::attach_by(backend, options, &support) {
            // single calls' tracepoints need more of the kernel than the others: perf events
            Err(_) if options.backend == Backend::Auto && backend == Backend::Calls => {
                KernelSource::attach_by(Backend::SocketHooks, options, &support)
            }
            attached => attached,
        }
    }

    fn attach_by(backend: Backend, options: &KernelOptions, support: &Support) -> Result<KernelSource, CaptureError> {
        let marks = options.marks && has_uprobes();
        if options.faults && !support.has("page_fault_user") {
            let missing = "the tracepoint exceptions:page_fault_user, so --faults cannot be had";
            return Err(CaptureError::Unsupported(missing.into()));
        }
        refusal::listen();

        let object = Box::into_raw(Box::new(MaybeUninit::uninit()));
        let guard = ObjectBox(object);
        // SAFETY: the box lives until `guard` is dropped, after the skeleton (field order of KernelSource).
        let mut open = skel::WakepathSkelBuilder::default().open(unsafe { &mut *object })?;

        let cpus = libbpf_rs::num_possible_cpus()?.min(w::MAX_CPUS as usize);
        let key = monotonic_mix();
        let choice = Choice { options, backend, marks, support };
        configure(&mut open, &choice, key, cpus)?;
        choose_programs(&mut open, &choice);
        let mut skel = open.load().map_err(|e| match refusal::take() {
            // the verifier's word, whatever number the kernel gives for it: a missing right is refused before it looks
            Some(refused) => CaptureError::Load(format!(
                "{refused}. Please report this line and the kernel's version (`uname -r`); WAKEPATH_LIBBPF_LOG=1 prints \
                 the whole log. `wakepath run` records without the kernel's help"
            )),
            None => CaptureError::from(e).unexplained(),
        })?;
        watching::watch(&skel, options)?;
        // before the first operation is seen: one that was begun without its identity could not be gone on with
        for (tgid, layout) in options.runtimes.iter().take(RUNTIMES_MAX) {
            skel.maps.runtimes.update(&tgid.to_ne_bytes(), w::bytes_of(layout), MapFlags::ANY)?;
        }
        let rings = Rings::map(&skel, options.ring_bytes, cpus)?;
        let links = attach_programs(&mut skel)?;
        let calls = match backend {
            Backend::Calls => Calls::attach(&mut skel, options, marks)?,
            _ => Calls::default(),
        };
        // now, while the rights for it are there
        let open_waits = if options.waits { Some(skel.progs.open_waits.attach()?) } else { None };
        let stacks = options.stacks;
        let mut source = KernelSource {
            skel,
            links,
            calls,
            rings_submit: None,
            open_waits,
            annotated: Attached::default(),
            marked: Attached::default(),
            in_tls: Attached::default(),
            backend,
            stacks,
            rings,
            key,
            _object: guard,
        };
        source.count_runtimes();
        // every task that is there gets its state
        source.open_waits(|_| {})?;
        source.tend()?;
        Ok(source)
    }

    /// The way that was chosen.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Everything that was open before: endpoints and who holds them. Call it after [`KernelSource::attach`].
    pub fn snapshot(&mut self, mut sink: impl FnMut(Frame<'_>)) -> Result<(), CaptureError> {
        const UDP: u16 = 17;
        let link = self.skel.progs.snapshot_files.attach()?;
        let (mut takes_from_all, mut has_datagrams) = (None, false);
        let seen = |f: Frame<'_>| {
            match f.head().map(|h| h.kind) {
                Some(w::KIND_FLOW) => {
                    let flow = f.read::<w::FlowSeen>().filter(|r| r.protocol == UDP && r.rport == 0);
                    takes_from_all = flow.map(|r| r.flow);
                }
                Some(w::KIND_FD) => {
                    let fd = f.read::<w::Descriptor>().filter(|d| d.marks & w::FDM_WATCHED != 0);
                    has_datagrams |= fd.is_some_and(|d| takes_from_all == Some(d.flow));
                }
                _ => {}
            }
            sink(f);
        };
        let failed = |e| CaptureError::Load(format!("reading the snapshot of open files: {e}"));
        iterate(&link, &mut { seen }).map_err(failed)?;
        self.calls.looked(&self.skel, has_datagrams);
        Ok(())
    }

    /// What sockets have room for now, as [`w::Sizes`]; how they and pipes stand, as [`w::Descriptor`]; and where those that
    /// are being connected go to. Of a socket that several processes hold, several times.
    pub fn sockets(&mut self, mut sink: impl FnMut(Frame<'_>)) -> Result<(), CaptureError> {
        const SYN_SENT: u8 = 2;
        self.snapshot(|f| {
            let is_news = match f.head().map(|h| h.kind) {
                Some(w::KIND_FLOW) => f.read::<w::FlowSeen>().is_some_and(|r| r.state == SYN_SENT),
                kind => matches!(kind, Some(w::KIND_SIZES | w::KIND_FD)),
            };
            if is_news {
                sink(f);
            }
        })
    }

    /// The waits that go on now, as records with the cause `CAUSE_OPEN`. Each comes again when it ends.
    pub fn open_waits(&mut self, mut sink: impl FnMut(Frame<'_>)) -> Result<(), CaptureError> {
        let Some(link) = &self.open_waits else {
            return Ok(());
        };
        iterate(link, &mut sink).map_err(|e| CaptureError::Load(format!("reading the waits still going on: {e}")))
    }

    /// Hands over committed records in time order, up to `until_ns`; the number handed over.
    ///
    /// A program that was interrupted between taking its time and writing its record may deliver late: give an `until_ns`
    /// a few milliseconds before now, and bear small inversions. Where a record is being written for longer, later ones of all
    /// processors wait for it, up to a second. `u64::MAX` is the end: all that is left, after [`KernelSource::detach`].
    pub fn drain(&mut self, until_ns: u64, mut sink: impl FnMut(Frame<'_>)) -> u64 {
        if until_ns == u64::MAX {
            return self.rings.finish(self.key, &mut sink);
        }
        self.rings.drain(self.key, until_ns, &mut sink)
    }

    /// Bytes waiting in the fullest ring, and a ring's size.
    pub fn backlog(&self) -> (u64, u64) {
        self.rings.fullest()
    }

    /// Records that found no room so far, by `DROP_…`.
    pub fn drops(&self) -> [u64; w::DROP_KINDS as usize] {
        let mut sum = [0; w::DROP_KINDS as usize];
        for cpu in 0..self.rings.cpus {
            for (s, d) in sum.iter_mut().zip(self.rings.drops(cpu)) {
                *s += d;
            }
        }
        // of what kind they were is not known
        sum[w::DROP_OP as usize] += self.rings.abandoned();
        sum
    }

    /// What was left out so far since it concerned nobody selected; nothing where everybody is.
    pub fn unselected(&self) -> Unselected {
        let mut sum = Unselected::default();
        for (waits, ran_ns) in (0..self.rings.cpus).map(|cpu| self.rings.unselected(cpu)) {
            sum.waits += waits;
            sum.ran_ns += ran_ns;
        }
        sum
    }

    /// The kernel's table of stacks; `None` where none was asked for.
    pub fn stacks(&self) -> Result<Option<StackTable>, CaptureError> {
        self.stacks.then(|| Ok(StackTable(MapHandle::try_from(&self.skel.maps.stacks)?))).transpose()
    }

    /// Adapts the programs to what the watched processes use. Call it now and then. An error costs only what was to be added.
    pub fn tend(&mut self) -> Result<(), CaptureError> {
        if self.rings_submit.is_none() {
            self.rings_submit = programs::attach_rings(&mut self.skel)?;
        }
        self.calls.tend(&mut self.skel)
    }

    /// Adds a process (and its descendants from now on) to those that are watched.
    pub fn watch(&mut self, tgid: u32) -> Result<(), CaptureError> {
        self.skel.maps.watch_tgids.update(&tgid.to_ne_bytes(), &[1], MapFlags::ANY)?;
        let g = (&raw const self.generation().watch_generation).cast::<AtomicU32>();
        // SAFETY: a mapped u32 that this process and its children add to and kernel programs read.
        unsafe { &*g }.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Attaches to the annotations in the code that a process has mapped now; how many probes came new. They tell of every
    /// process that maps the same file and is watched.
    pub fn listen_to(&mut self, tgid: u32) -> Result<usize, CaptureError> {
        let KernelSource { skel, annotated, .. } = self;
        match listener(skel) {
            Some(program) if tgid != std::process::id() => annotated.process(program, tgid),
            _ => Ok(0),
        }
    }

    /// The same for a file that will be executed.
    pub fn listen_to_file(&mut self, file: &Path) -> Result<usize, CaptureError> {
        let KernelSource { skel, annotated, .. } = self;
        listener(skel).map_or(Ok(0), |program| annotated.file(program, file, None))
    }

    /// Says which heads of a flow are wanted. It may take it some turns to notice; where the map is full the oldest is
    /// forgotten, which costs heads that nobody reads, or those of messages that begin without a turn.
    pub fn want(&mut self, flow: u64, wants: u8) -> Result<(), CaptureError> {
        Ok(self.skel.maps.wanted_heads.update(&flow.to_ne_bytes(), &[wants], MapFlags::ANY)?)
    }

    /// What a process made by this one calls between fork and exec to be watched from its first instruction, with its
    /// descendants. It makes one system call and touches no memory but the kernel's: safe after fork.
    pub fn watch_on_exec(&self) -> impl FnMut() -> std::io::Result<()> + Send + Sync + 'static {
        let map = self.skel.maps.watch_tgids.as_fd().as_raw_fd();
        let generation = (&raw const self.generation().watch_generation).cast::<u32>() as usize;
        move || {
            // SAFETY: getpid has no conditions.
            let tgid = unsafe { libc::getpid() } as u32;
            let value = 1u8;
            // SAFETY: the descriptor is a map with keys of four bytes and values of one, both on this stack.
            let r = unsafe {
                libbpf_rs::libbpf_sys::bpf_map_update_elem(map, (&raw const tgid).cast(), (&raw const value).cast(), 0)
            };
            if r != 0 {
                return Err(std::io::Error::from_raw_os_error(-r));
            }
            // SAFETY: the child shares the mapping of the programs' data; the address is theirs until exec.
            unsafe { &*(generation as *const AtomicU32) }.fetch_add(1, Ordering::AcqRel);
            Ok(())
        }
    }

    fn generation(&self) -> &skel::types::data {
        self.skel.maps.data_data.as_deref().expect("the object has .data")
    }

    /// Stops recording: no record is written after this returns. What is in the rings can still be drained.
    pub fn detach(&mut self) {
        // first: plaintext without its ciphertext would fit nothing
        self.stop_tls();
        self.links.clear();
        calls::stop(&self.skel);
        self.calls = Calls::default();
        self.rings_submit = None;
        self.annotated.clear();
        self.marked.clear();
    }

    /// Runs of all programs so far that the kernel skipped, each because its program was already running there.
    pub fn skipped(&self) -> u64 {
        self.costs().iter().map(|c| c.skipped).sum()
    }

    /// Cost and skipped runs of each program so far.
    pub fn costs(&self) -> Vec<ProgramCost> {
        let mut out = Vec::new();
        for program in self.skel.object().progs() {
            let fd = program.as_fd().as_raw_fd();
            if fd < 0 {
                continue;
            }
            // SAFETY: zeroed is a valid bpf_prog_info, and its size is passed along.
            let mut info: libbpf_rs::libbpf_sys::bpf_prog_info = unsafe { std::mem::zeroed() };
            let mut len = size_of_val(&info) as u32;
            // SAFETY: `info` and `len` are valid for the call.
            let r = unsafe { libbpf_rs::libbpf_sys::bpf_obj_get_info_by_fd(fd, (&raw mut info).cast(), &mut len) };
            if r == 0 {
                out.push(ProgramCost {
                    name: program.name().to_string_lossy().into_owned(),
                    runs: info.run_cnt,
                    ns: info.run_time_ns,
                    skipped: info.recursion_misses,
                });
            }
        }
        out
    }
}

/// The stacks that the kernel programs took, each once, by number.
pub struct StackTable(MapHandle);

impl StackTable {
    /// The return addresses of a stack, innermost first, at most [`w::STACK_FRAMES`]; `None` where it is not there.
    pub fn frames(&self, id: u32) -> Option<Vec<u64>> {
        let bytes = self.0.lookup(&id.to_ne_bytes(), MapFlags::ANY).ok()??;
        let words = bytes.chunks_exact(8).map(|w| u64::from_ne_bytes(w.try_into().expect("eight bytes")));
        Some(words.take_while(|&a| a != 0).collect())
    }
}

/// Reads what an iterator's program wrote, record by record.
fn iterate(link: &Link, sink: &mut impl FnMut(Frame<'_>)) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    Iter::new(link).map_err(std::io::Error::other)?.read_to_end(&mut bytes)?;
    let mut rest = &bytes[..];
    while let Some(head) = w::view::<w::Head>(rest) {
        let n = head.bytes as usize;
        if n < 8 || n > rest.len() {
            break;
        }
        sink(Frame { origin: u32::MAX, bytes: &rest[..n] });
        rest = &rest[n..];
    }
    Ok(())
}

/// The program for annotations that was loaded.
fn listener<'a>(skel: &'a skel::WakepathSkel<'static>) -> Option<&'a libbpf_rs::ProgramMut<'static>> {
    [&skel.progs.on_mark_multi, &skel.progs.on_mark].into_iter().find(|p| p.as_fd().as_raw_fd() >= 0)
}

/// Whether this kernel has user-space probes.
fn has_uprobes() -> bool {
    Path::new("/sys/bus/event_source/devices/uprobe/type").exists()
}

/// Length of a jiffy: what the kernel's coarse clocks go by.
fn tick_ns() -> u32 {
    const USUAL: u32 = 4_000_000;
    let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    let r = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut tick) };
    if r == 0 && tick.tv_sec == 0 { u32::try_from(tick.tv_nsec).unwrap_or(USUAL) } else { USUAL }
}

/// A key that a program under observation cannot guess, so that no payload looks like a commit mark.
fn monotonic_mix() -> u32 {
    // without it the clock alone must do
    getrandom::u32().unwrap_or(0) ^ crate::monotonic_ns() as u32
}
