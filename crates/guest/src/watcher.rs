//! A guest as its processors enter system calls and return from them.

use crate::btf::Btf;
use crate::calls::{self, Call};
use crate::flows::{Flow, Flows, Seen, id_of};
use crate::kernel::Kernel;
use crate::layout::Layout;
use crate::tasks::{Border, Pending, Tasks};
use crate::{Memory, Records, number, scan, user};
use wakepath_wire as w;
use wakepath_wire::arena::aside;

/// How often the kernel's types are looked for: a guest may boot another kernel, and a hostile one may pretend to.
const SCANS_MAX: u32 = 16;
/// `CLONE_THREAD`.
const THREAD: u64 = 0x10000;
/// Bit of the numbers of calls by the ABI of 32-bit pointers.
const X32: u64 = 1 << 30;

/// A processor of the guest that is at the border between a program and the kernel.
pub struct Cpu<'a> {
    /// Its number.
    pub number: u16,
    /// The time, ns of the recording host's monotonic clock.
    pub now_ns: u64,
    /// Where the kernel keeps this processor's variables (`IA32_KERNEL_GS_BASE` while a program runs).
    pub variables: u64,
    /// The program's stack pointer.
    pub stack: u64,
    /// The memory that it sees.
    pub memory: &'a dyn Memory,
}

/// What is known of a guest.
pub struct Guest {
    pub(crate) head_bytes: usize,
    layout: Option<Layout>,
    /// The kernel's instruction after which it was looked for.
    kernel_at: u64,
    scans: u32,
    boot: u64,
    pub(crate) tasks: Tasks,
    pub(crate) flows: Flows,
}

impl Guest {
    /// A guest of which nothing is known. `head_bytes`: how many first bytes of each operation are taken.
    pub fn new(head_bytes: usize) -> Guest {
        let head_bytes = head_bytes.min(w::HEAD_MAX as usize);
        let (layout, tasks, flows) = Default::default();
        Guest { head_bytes, layout, kernel_at: 0, scans: 0, boot: 0, tasks, flows }
    }

    /// Whether the kernel's types were found.
    pub fn is_known(&self) -> bool {
        self.layout.is_some()
    }

    /// The kernel's instruction `at` returns to a program: looks for the kernel's types, if it is not the kernel that is known.
    pub fn kernel<R: Records>(&mut self, at: u64, memory: &dyn Memory, out: &mut R) {
        if at == self.kernel_at || self.scans == SCANS_MAX {
            return;
        }
        self.scans += 1;
        let found = scan::find(memory, at);
        if found.is_none() && self.layout.is_some() {
            // it may return by another instruction
            return;
        }
        self.kernel_at = at;
        self.use_types(found.as_ref(), out);
    }

    /// Uses these types of the kernel, or none.
    pub fn use_types<R: Records>(&mut self, types: Option<&Btf>, out: &mut R) {
        self.layout = types.and_then(|btf| Layout::of(btf).ok());
        if self.layout.is_none() {
            out.aside(aside::GUEST_TYPES);
        }
    }

    /// A program enters the call `number` and goes on at `returns_to` after it, of which only the place in its page counts.
    pub fn enters<R: Records>(
        &mut self,
        number: u64,
        arguments: [u64; 6],
        returns_to: u64,
        cpu: &Cpu<'_>,
        out: &mut R,
    ) {
        if number & X32 != 0 {
            return out.aside(aside::GUEST_CALLS_32);
        }
        let (Some(call), Some(layout)) = (calls::of(number), self.layout) else { return };
        let kernel = Kernel { layout: &layout, memory: cpu.memory };
        let Some(place) = self.current(&kernel, None, cpu, out) else { return out.aside(aside::GUEST_UNREAD) };
        self.tasks.executed(&kernel, place, cpu, out);
        let Some(task) = self.tasks.at(place).map(|known| known.task) else { return };
        let mut pending = Pending {
            number,
            arguments,
            returns_to: Border::new(returns_to, cpu.stack),
            entry_ns: cpu.now_ns,
            flows: [None; 2],
            is_last: false,
            end: None,
            timeout_ns: u64::MAX,
        };
        match call {
            Call::Exit | Call::ExitAll => return self.tasks.ended(place, call == Call::ExitAll, cpu, out),
            Call::IoUring => out.aside(aside::GUEST_IO_URING),
            Call::Fork => {
                let (stack, flags) = child(number, &arguments, cpu);
                self.tasks.makes(task, stack, flags & THREAD != 0, cpu.now_ns);
            }
            Call::Poll(class) => pending.timeout_ns = timeout(class, &arguments, cpu.memory),
            Call::Exec | Call::Accept | Call::Control => {}
            Call::Between { from, to } => {
                pending.flows = [from, to].map(|i| self.flow(&kernel, place, task.tgid, arguments[i], cpu, out).0);
                if pending.flows == [None; 2] {
                    return;
                }
            }
            Call::Move { .. } | Call::Connect | Call::Listen | Call::Close | Call::Shutdown => {
                // what it was is told after the call, which may change it
                let (flow, is_last) = match call {
                    Call::Connect | Call::Listen => self.unchanged(&kernel, place, arguments[0], out),
                    Call::Close | Call::Shutdown => self.kept(&kernel, place, arguments[0], out),
                    _ => self.flow(&kernel, place, task.tgid, arguments[0], cpu, out),
                };
                if flow.is_none() {
                    return;
                }
                let ends = flow.filter(|f| f.is_tcp && is_last && call == Call::Close);
                pending.end = ends.and_then(|f| kernel.numbers(f.sock));
                (pending.flows[0], pending.is_last) = (flow, is_last);
            }
        }
        self.tasks.enters(place, pending);
    }

    /// Whether a program that comes back at `at` with this stack may end a call, or be one that was not met: else there is nothing
    /// to be read of it.
    pub fn awaits(&self, at: u64, stack: u64) -> bool {
        self.tasks.awaits(Border::new(at, stack))
    }

    /// The kernel lets a task go on at `at` in its program, with `result` where a call is over.
    pub fn returns<R: Records>(&mut self, at: u64, result: u64, cpu: &Cpu<'_>, out: &mut R) {
        let Some(layout) = self.layout else { return };
        let kernel = Kernel { layout: &layout, memory: cpu.memory };
        let Some(place) = self.current(&kernel, Some(cpu.stack), cpu, out) else {
            return out.aside(aside::GUEST_UNREAD);
        };
        self.tasks.executed(&kernel, place, cpu, out);
        self.tasks.forget_births(cpu.now_ns);
        let Some(known) = self.tasks.at(place) else { return };
        let task = known.task;
        let Some(pending) = known.returns(Border::new(at, cpu.stack)) else { return };
        self.over(&kernel, (place, task), &pending, result as i64, cpu, out);
    }

    /// Where the kernel has the task that a processor runs, which was met then.
    fn current<R: Records>(
        &mut self,
        kernel: &Kernel<'_>,
        stack: Option<u64>,
        cpu: &Cpu<'_>,
        out: &mut R,
    ) -> Option<u64> {
        let place = kernel.current(cpu.variables)?;
        let ids = kernel.ids(place)?;
        if self.tasks.is_known(place, ids) || ids.0 == 0 {
            return Some(place);
        }
        let task = kernel.task(place)?;
        if self.tasks.is_executing(place, &task) {
            return Some(place);
        }
        // the first process began anew: the guest booted again, and all numbers with it
        if task.tid == 1 && self.tasks.first().is_some_and(|first| first.start_ns != task.start_ns) {
            self.boot += 1;
            self.tasks.clear();
            self.flows.clear();
        }
        self.tasks.meet(place, task, stack, cpu, out);
        Some(place)
    }

    /// The flow of a descriptor, told where it is new, and whether that is its last one.
    pub(crate) fn flow<R: Records>(
        &mut self,
        kernel: &Kernel<'_>,
        place: u64,
        tgid: u32,
        descriptor: u64,
        cpu: &Cpu<'_>,
        out: &mut R,
    ) -> (Option<Flow>, bool) {
        let Some(file) = kernel.file(place, descriptor as i32) else {
            out.aside(aside::GUEST_UNREAD);
            return (None, false);
        };
        let Some(file) = file else { return (None, false) };
        let seen = Seen { how: w::FLOW_MET, tgid };
        let flow = self.flows.met(kernel, (id_of(&file, self.boot), file), seen, cpu, out);
        (flow, file.is_last)
    }

    /// The flow of a descriptor whose call changes it: told then.
    fn unchanged<R: Records>(
        &self,
        kernel: &Kernel<'_>,
        place: u64,
        descriptor: u64,
        out: &mut R,
    ) -> (Option<Flow>, bool) {
        match kernel.file(place, descriptor as i32) {
            None => out.aside(aside::GUEST_UNREAD),
            Some(Some(file)) if file.sock != 0 => {
                let flow = Flow::of(id_of(&file, self.boot), file.sock);
                return (Some(flow), file.is_last);
            }
            Some(_) => {}
        }
        (None, false)
    }

    /// The flow of a descriptor, if it was told before.
    fn kept<R: Records>(&self, kernel: &Kernel<'_>, place: u64, descriptor: u64, out: &mut R) -> (Option<Flow>, bool) {
        match kernel.file(place, descriptor as i32) {
            None => out.aside(aside::GUEST_UNREAD),
            Some(Some(file)) => return (self.flows.kept(id_of(&file, self.boot), file.sock), file.is_last),
            Some(None) => {}
        }
        (None, false)
    }

    /// Tells a flow of a descriptor anew, which a call made or changed.
    pub(crate) fn told<R: Records>(
        &mut self,
        kernel: &Kernel<'_>,
        place: u64,
        descriptor: u64,
        seen: Seen,
        cpu: &Cpu<'_>,
        out: &mut R,
    ) -> Option<Flow> {
        let Some(file) = kernel.file(place, descriptor as i32) else {
            out.aside(aside::GUEST_UNREAD);
            return None;
        };
        let file = file?;
        self.flows.tell(kernel, (id_of(&file, self.boot), file), seen, cpu, out)
    }
}

/// With which stack a task begins that this call makes, and the call's flags.
fn child(call: u64, arguments: &[u64; 6], cpu: &Cpu<'_>) -> (u64, u64) {
    let (flags, stack) = match call {
        calls::CLONE => (arguments[0], arguments[1]),
        calls::CLONE3 => {
            let word = |i: u64| number(cpu.memory, arguments[0].wrapping_add(8 * i), 8).unwrap_or(0);
            (word(0), word(5).wrapping_add(word(6)))
        }
        _ => (0, 0),
    };
    (if stack == 0 { cpu.stack } else { stack }, flags)
}

/// The timeout of a call that waits for descriptors, ns.
fn timeout(class: u8, arguments: &[u64; 6], memory: &dyn Memory) -> u64 {
    let milliseconds = |n: u64| if (n as i32) < 0 { u64::MAX } else { (n as u32 as u64) * 1_000_000 };
    match class {
        w::SC_EPOLL => milliseconds(arguments[3]),
        w::SC_POLL => milliseconds(arguments[2]),
        w::SC_SELECT => user::time(memory, arguments[4], 1000),
        w::SC_PSELECT => user::time(memory, arguments[4], 1),
        w::SC_PPOLL => user::time(memory, arguments[2], 1),
        _ => user::time(memory, arguments[3], 1),
    }
}
