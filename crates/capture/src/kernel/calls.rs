//! System calls at tracepoints of their own. Programs at `sys_enter` and `sys_exit` run for every call of every process of the host,
//! and cost each some 60 ns; a program at one call's tracepoint runs for that call, and others cost up to 20 ns more.

use super::{KernelOptions, skel};
use crate::error::CaptureError;
use crate::syscalls::{self, Call};
use libbpf_rs::skel::Skel as _;
use libbpf_rs::{Link, ProgramMut, TracepointCategory};
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use wakepath_wire as w;

/// Where the kernel lists its tracepoints.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// From this kernel on, runs that were left out since another program was running are counted for these programs too.
const COUNTED_FROM: (u32, u32) = (6, 7);

/// Whether this kernel, and what is mounted here, let programs run at the tracepoints of single calls.
pub(crate) fn has_calls() -> bool {
    // on aarch64 a task with io_uring is only told from others by every call's begin and end
    cfg!(target_arch = "x86_64")
        && crate::support::release().is_some_and(|r| r >= COUNTED_FROM)
        && syscalls::calls().iter().all(|c| c.is_optional || has_point(c.name))
}

fn has_point(name: &str) -> bool {
    ["enter", "exit"].iter().all(|end| point_id(end, name).is_some())
}

/// The kernel's number of the tracepoint at the begin (`enter`) or end (`exit`) of a call.
fn point_id(end: &str, name: &str) -> Option<u64> {
    let read = |tracefs: &&str| std::fs::read_to_string(format!("{tracefs}/events/syscalls/sys_{end}_{name}/id")).ok();
    TRACEFS.iter().find_map(read)?.trim().parse().ok()
}

/// The tracepoints of single calls, by name and number, at which a recording with [`KernelOptions::default`] has programs all the time.
pub(crate) fn usual_points() -> Vec<(String, u64)> {
    let mut out = Vec::new();
    for call in syscalls::calls().iter().filter(|c| !matches!(c.class, w::SC_BIND | w::SC_MMAP)) {
        let hooks = hooks(call.class, true);
        for (program, end) in [(hooks.entry, "enter"), (hooks.exit, "exit")] {
            let id = program.filter(|_| !hooks.for_datagrams).and_then(|_| point_id(end, call.name));
            out.extend(id.map(|id| (format!("sys_{end}_{}", call.name), id)));
        }
    }
    out
}

/// Which program runs at which call's begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hooks {
    entry: Option<&'static str>,
    exit: Option<&'static str>,
    /// Only while datagrams are used.
    for_datagrams: bool,
}

/// The hooks of a class of calls. `waits`: switches are seen, which tell when most calls began.
fn hooks(class: u8, waits: bool) -> Hooks {
    let entered = Some("on_call_entered");
    let unless_waits = if waits { None } else { entered };
    let (entry, exit) = match class {
        w::SC_ACCEPT | w::SC_CONNECT | w::SC_SELECT | w::SC_PSELECT | w::SC_PPOLL | w::SC_EPOLL2 => {
            (entered, Some("on_call_returned"))
        }
        w::SC_EPOLL | w::SC_POLL => (unless_waits, Some("on_call_returned")),
        w::SC_SHUTDOWN | w::SC_BIND => (None, Some("on_call_returned")),
        w::SC_CLOSE => (Some("on_close_entered"), None),
        w::SC_READ | w::SC_READV => (None, Some("on_bytes_returned")),
        w::SC_WRITE | w::SC_WRITEV | w::SC_SENDFILE | w::SC_SPLICE => (unless_waits, Some("on_bytes_returned")),
        w::SC_SENDMMSG => (entered, None),
        w::SC_RECVMMSG => (entered, Some("on_datagrams_returned")),
        w::SC_RECVFROM | w::SC_RECVMSG => (None, Some("on_datagrams_returned")),
        w::SC_SENDTO | w::SC_SENDMSG => (entered, None),
        w::SC_MMAP => (None, Some("on_mmap_returned")),
        _ => (None, None),
    };
    let is_sender = matches!(class, w::SC_SENDTO | w::SC_SENDMSG);
    let for_datagrams = (is_sender && waits) || matches!(class, w::SC_RECVFROM | w::SC_RECVMSG);
    Hooks { entry, exit, for_datagrams }
}

/// The section of programs that run at single calls: which, `hooks` says.
pub(super) const SECTION: &str = "tp";

/// Whether datagrams' programs are needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Datagrams {
    /// Not known yet, so they are attached.
    #[default]
    NotLooked,
    /// Somebody watched uses datagrams: they stay attached.
    Used,
    /// Nobody watched had a socket for them: they are attached when somebody uses one.
    NotUsed,
}

/// The programs that run at single calls while a recording goes on. Dropping it takes them away.
#[derive(Default)]
pub(super) struct Calls {
    links: Vec<Link>,
    /// Those at calls that datagrams need, and nothing else.
    of_datagrams: Vec<Link>,
    /// Classes of calls whose begin the datagrams' programs see, a bit each.
    entered_for_datagrams: u32,
    datagrams: Datagrams,
    /// Detaches them. The kernel refuses to attach a program where it still is.
    leaving: Option<JoinHandle<()>>,
    waits: bool,
}

impl Calls {
    /// Attaches the programs to the calls that a recording with these options needs.
    pub(super) fn attach(
        skel: &mut skel::WakepathSkel<'_>,
        options: &KernelOptions,
        marks: bool,
    ) -> Result<Calls, CaptureError> {
        let mut out = Calls::default();
        out.waits = options.waits;
        out.links = attach(
            skel,
            |c| {
                let is_wanted = match c.class {
                    w::SC_BIND => !options.rules.ports.is_empty(),
                    w::SC_MMAP => marks,
                    _ => true,
                };
                is_wanted && !hooks(c.class, options.waits).for_datagrams
            },
            options.waits,
        )?;
        out.entered_for_datagrams = entered(options.waits, true);
        classes(skel).store(entered(options.waits, false), Ordering::Release);
        out.attach_datagrams(skel)?;
        Ok(out)
    }

    fn attach_datagrams(&mut self, skel: &mut skel::WakepathSkel<'_>) -> Result<(), CaptureError> {
        let waits = self.waits;
        self.of_datagrams = attach(skel, |c| hooks(c.class, waits).for_datagrams, waits)?;
        // from now on a call's begin is known where it ends
        classes(skel).fetch_or(self.entered_for_datagrams, Ordering::AcqRel);
        Ok(())
    }

    /// Takes the datagrams' programs away if nobody watched has a socket for datagrams from anywhere when the recording begins.
    pub(super) fn looked(&mut self, skel: &skel::WakepathSkel<'_>, has_datagrams: bool) {
        if self.datagrams != Datagrams::NotLooked {
            return;
        }
        self.datagrams = if has_datagrams { Datagrams::Used } else { Datagrams::NotUsed };
        if !has_datagrams {
            classes(skel).fetch_and(!self.entered_for_datagrams, Ordering::AcqRel);
            let links = std::mem::take(&mut self.of_datagrams);
            // the rings must be read meanwhile
            self.leaving = Some(std::thread::spawn(move || drop(links)));
        }
    }

    /// Attaches the datagrams' programs, for good, once somebody watched uses datagrams. Senders of the few datagrams before are not
    /// known. Call it now and then.
    pub(super) fn tend(&mut self, skel: &mut skel::WakepathSkel<'_>) -> Result<(), CaptureError> {
        let are_wanted = self.datagrams == Datagrams::NotUsed && used(skel).load(Ordering::Relaxed) != 0;
        if are_wanted && self.leaving.as_ref().is_none_or(JoinHandle::is_finished) {
            self.datagrams = Datagrams::Used;
            self.attach_datagrams(skel)?;
        }
        Ok(())
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        let mut links = std::mem::take(&mut self.links);
        links.append(&mut self.of_datagrams);
        if !links.is_empty() {
            detach_later(links);
        }
    }
}

/// Detaches programs from single calls, without waiting for it. The kernel takes some 40 ms for each, one after the other, until none can
/// run any more. It takes them in whichever process closes them last: one that is made for it, has nothing else open, and ends with it. Where
/// that cannot be made, this one waits.
fn detach_later(links: Vec<Link>) {
    let mut kept: Vec<RawFd> = links.iter().map(|l| l.as_fd().as_raw_fd()).collect();
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return;
    }
    let [waits, tells] = ends;
    kept.push(waits);
    kept.sort_unstable();
    // SAFETY: the child makes system calls alone, on memory that is there already, and ends.
    match unsafe { libc::fork() } {
        // SAFETY: this is the process that was forked.
        0 => unsafe { close_last(&kept, waits) },
        child => {
            drop(links);
            // SAFETY: both are this function's own. The child, if there is one, reads the end of the pipe and goes on.
            unsafe {
                libc::close(tells);
                libc::close(waits);
                if child > 0 {
                    // it has left its only task to a child of its own
                    libc::waitpid(child, std::ptr::null_mut(), 0);
                }
            }
        }
    }
}

/// In the child: leaves the rest to a process that nobody waits for. That closes everything but `kept` (in order), waits until the other end
/// of `waits` is closed, and ends, which closes what is left.
///
/// # Safety
/// Only in a process that was just forked.
unsafe fn close_last(kept: &[RawFd], waits: RawFd) -> ! {
    // SAFETY: system calls on this process's own descriptors; one byte of room for what never comes.
    unsafe {
        if libc::fork() != 0 {
            libc::_exit(0);
        }
        let mut from = 0;
        for fd in kept {
            if *fd > from {
                libc::syscall(libc::SYS_close_range, from, fd - 1, 0);
            }
            from = fd + 1;
        }
        libc::syscall(libc::SYS_close_range, from, RawFd::MAX, 0);
        let mut byte = 0u8;
        libc::read(waits, (&raw mut byte).cast(), 1);
        libc::_exit(0);
    }
}

/// The classes of calls whose begin programs see: those for datagrams, or the others.
fn entered(waits: bool, for_datagrams: bool) -> u32 {
    let is_meant = |c: &&Call| {
        let hooks = hooks(c.class, waits);
        hooks.entry == Some("on_call_entered") && hooks.for_datagrams == for_datagrams
    };
    syscalls::calls().iter().filter(is_meant).fold(0, |bits, c| bits | 1 << c.class)
}

fn attach(
    skel: &mut skel::WakepathSkel<'_>,
    is_wanted: impl Fn(&Call) -> bool,
    waits: bool,
) -> Result<Vec<Link>, CaptureError> {
    let mut links = Vec::new();
    for call in syscalls::calls().iter().filter(|c| is_wanted(c) && has_point(c.name)) {
        let hooks = hooks(call.class, waits);
        for (program, end) in [(hooks.entry, "enter"), (hooks.exit, "exit")] {
            let Some(program) = program else { continue };
            links.push(
                of_name(skel, program)
                    .attach_tracepoint(TracepointCategory::Syscalls, format!("sys_{end}_{}", call.name))?,
            );
        }
    }
    Ok(links)
}

fn of_name<'a>(skel: &'a mut skel::WakepathSkel<'_>, name: &str) -> ProgramMut<'a> {
    skel.object_mut().progs_mut().find(|p| p.name() == name).expect("hooks names programs of the object")
}

fn classes<'a>(skel: &'a skel::WakepathSkel<'_>) -> &'a AtomicU32 {
    let data = skel.maps.data_data.as_deref().expect("the object has .data");
    // SAFETY: a mapped u32 that this process alone writes and kernel programs read.
    unsafe { &*(&raw const data.entered_classes).cast::<AtomicU32>() }
}

/// Whatever these programs still see is recorded no more.
pub(super) fn stop(skel: &skel::WakepathSkel<'_>) {
    let data = skel.maps.data_data.as_deref().expect("the object has .data");
    // SAFETY: a mapped u32 that this process alone writes and kernel programs read.
    unsafe { &*(&raw const data.calls_stopped).cast::<AtomicU32>() }.store(1, Ordering::Release);
}

fn used<'a>(skel: &'a skel::WakepathSkel<'_>) -> &'a AtomicU32 {
    let data = skel.maps.data_data.as_deref().expect("the object has .data");
    // SAFETY: a mapped u32 that kernel programs write.
    unsafe { &*(&raw const data.datagrams_used).cast::<AtomicU32>() }
}
