//! Raw events as lines of text, and rows as lines of text.
//!
//! A line is `TIME CPU EVENT …`, or `lost CPU|- FROM TO COUNT`; `#` begins a comment. Tasks are `NAME/TID`, `/TID` where
//! the event does not name it, `0` for the idle task. States: R S D Z I, or a number. `cpus N` says how many processors the
//! host has.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use wakepath_decode::imported::Importer;
use wakepath_decode::raw::{self, Block, Packet, Raw, RawSink, Task};
use wakepath_decode::recurring::Said;
use wakepath_decode::{RowSink, TaskFacts};
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::intern::Interner;
use wakepath_model::rows::{
    EndedBy, Event, Life, LossRow, PacketRow, PollRow, Row, STATE_UNKNOWN, TaskClass, TaskRow, WaitRow,
};

/// All rows, by table.
#[derive(Default)]
pub struct Rows {
    pub waits: Vec<WaitRow>,
    pub tasks: Vec<TaskRow>,
    pub packets: Vec<PacketRow>,
    pub losses: Vec<LossRow>,
    pub polls: Vec<PollRow>,
    pub defects: BTreeMap<&'static str, u64>,
    pub strings: Interner,
    order: Vec<Event>,
}

impl RowSink for Rows {
    fn push<R: Row>(&mut self, row: &R) {
        let event = Event::read(R::TABLE, bytemuck::bytes_of(row)).expect("a row of its table");
        match event {
            Event::Wait(r) => self.waits.push(r),
            Event::Task(r) => self.tasks.push(r),
            Event::Packet(r) => self.packets.push(r),
            Event::Loss(r) => self.losses.push(r),
            Event::Poll(r) => self.polls.push(r),
            other => panic!("an importer makes no {:?}", other.table()),
        }
        self.order.push(event);
    }
    fn push_head(&mut self, _: MonoNs, _: EndpointId, _: u64, _: bool, _: &[u8]) {
        panic!("an importer has no payload");
    }
    fn count(&mut self, defect: &'static str, _: MonoNs) {
        assert!(wakepath_model::defects::find(defect).is_some(), "{defect}");
        *self.defects.entry(defect).or_default() += 1;
    }
    fn intern(&mut self, text: &[u8]) -> StrId {
        self.strings.intern(text)
    }
    fn said(&mut self, text: &str, _: &Said) -> StrId {
        self.intern(text.as_bytes())
    }
    fn describe(&mut self, _: u32, _: u32) -> TaskFacts {
        TaskFacts::default()
    }
}

impl Rows {
    fn string(&self, id: StrId) -> String {
        String::from_utf8_lossy(self.strings.get(id).unwrap_or_default()).into_owned()
    }

    fn task(&self, id: TaskId) -> String {
        match self.tasks.iter().rev().find(|t| t.task == id) {
            _ if id == TaskId::UNKNOWN => "unknown".into(),
            Some(t) => format!("{}/{}#{}", self.string(t.comm), t.tid, id.0),
            None => format!("#{}", id.0),
        }
    }

    /// One line a row, in the order in which they came, then the defects.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for e in &self.order {
            out += &match e {
                Event::Wait(w) => self.wait(w),
                Event::Task(t) => {
                    let what = if t.what == Life::Snapshot { "alive" } else { t.what.name() };
                    let parent =
                        if t.parent.0 == 0 { String::new() } else { format!(" parent {}", self.task(t.parent)) };
                    let class = if t.class == TaskClass::Kernel { " kernel" } else { "" };
                    let run = match (t.what, t.cmdline) {
                        (Life::Exec, c) => format!(" runs {}", self.string(c)),
                        _ => String::new(),
                    };
                    let name = self.string(t.comm);
                    format!(
                        "task {what} {name}/{}#{} tgid {}{parent}{class}{run} at {}",
                        t.tid, t.task.0, t.tgid, t.at.0
                    )
                }
                Event::Packet(p) => {
                    let way = if p.sent == 1 { "sent" } else { "received" };
                    let context = p.context;
                    let trigger = if p.trigger == 0 { String::new() } else { format!(" triggered by {}", p.trigger) };
                    format!("packet {} {way} seq {} in {context} at {}{trigger}", p.id, p.seq, p.at.0)
                }
                Event::Loss(l) => format!("loss {} {} {}..{}", self.string(l.what), l.count, l.from.0, l.at.0),
                Event::Poll(p) => {
                    format!("poll {} {}..{} ready {} fd {}", self.task(p.task), p.entry.0, p.at.0, p.ready, p.fd)
                }
                other => format!("{other:?}"),
            };
            out.push('\n');
        }
        for (defect, count) in &self.defects {
            out += &format!("count {defect} {count}\n");
        }
        out
    }

    fn wait(&self, w: &WaitRow) -> String {
        let state = match w.state {
            0 => "R".into(),
            1 => "S".into(),
            2 => "D".into(),
            raw::STATE_IDLE => "I".into(),
            0x800 => "new".into(),
            STATE_UNKNOWN => "unknown".into(),
            s => s.to_string(),
        };
        let call = match w.syscall {
            0xffff if w.arg0 != 0 => format!(" fault {:#x}", w.arg0),
            0xffff => String::new(),
            nr => format!(" syscall {nr}({})", w.arg0),
        };
        let cause = match w.cause {
            EndedBy::Unknown => "unknown".into(),
            EndedBy::Task => format!("task {}", self.task(w.by)),
            EndedBy::Net => "net".into(),
            EndedBy::Timer => "timer".into(),
            EndedBy::Block => format!("block {:#x}", w.object),
            EndedBy::Irq if w.object & EndedBy::VECTOR != 0 => format!("vector {}", w.object & !EndedBy::VECTOR),
            EndedBy::Irq => format!("irq {}", w.object),
            EndedBy::Softirq => format!("softirq {}", w.object),
            EndedBy::Preempted => format!("preempted {}", self.task(w.by)),
            EndedBy::Open => "open".into(),
            EndedBy::Packet => format!("packet {}", w.object),
            other => other.to_string(),
        };
        let task = self.task(w.task);
        format!("wait {task} {}..{}..{} {state}{call} cpu {} by {cause}", w.blocked.0, w.woken.0, w.at.0, w.cpu)
    }
}

fn number<T: TryFrom<u64>>(text: Option<&str>) -> Result<T, String> {
    let text = text.ok_or("a number is missing")?;
    let n = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    n.ok().and_then(|n| T::try_from(n).ok()).ok_or_else(|| format!("{text}: not such a number"))
}

fn task(text: Option<&str>) -> Result<Task<'_>, String> {
    let text = text.ok_or("a task is missing")?;
    if text == "0" {
        return Ok(Task::default());
    }
    let (name, tid) = text.rsplit_once('/').ok_or_else(|| format!("{text}: write NAME/TID"))?;
    // a process's number may follow: NAME/TID:TGID
    let (tid, tgid) = tid.split_once(':').unwrap_or((tid, "0"));
    Ok(Task { tid: number(Some(tid))?, tgid: number(Some(tgid))?, comm: name.as_bytes() })
}

fn state(text: Option<&str>) -> Result<u16, String> {
    match text {
        Some("R") => Ok(0),
        Some("S") => Ok(1),
        Some("D") => Ok(2),
        Some("Z") => Ok(0x20),
        Some("I") => Ok(raw::STATE_IDLE),
        other => number(other),
    }
}

/// A packet: `seq=7 port=80 object=1 socket`, ports mirrored where it is received.
fn packet<'a>(sent: bool, words: impl Iterator<Item = &'a str>) -> Result<Packet, String> {
    let mut p = Packet { sent, protocol: 6, ip: 4, payload: Some(1), ..Packet::default() };
    (p.saddr[0], p.daddr[0]) = if sent { (1, 2) } else { (2, 1) };
    (p.sport, p.dport) = (4000, 4000);
    for w in words {
        match w.split_once('=') {
            Some(("seq", v)) => p.seq = number(Some(v))?,
            Some(("port", v)) => *(if sent { &mut p.dport } else { &mut p.sport }) = number(Some(v))?,
            Some(("object", v)) => p.object = number(Some(v))?,
            None if w == "socket" => {
                p.at_socket = true;
                (p.protocol, p.ip, p.sport, p.dport, p.payload) = (0, 0, 0, 0, None);
                (p.saddr, p.daddr) = Default::default();
            }
            _ => return Err(format!("{w}: not of a packet")),
        }
    }
    Ok(p)
}

fn event<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<Raw<'a>, String> {
    let kind = words.next().ok_or("an event is missing")?;
    Ok(match kind {
        "switch" => {
            Raw::Switch { prev: task(words.next())?, prev_state: state(words.next())?, next: task(words.next())? }
        }
        "waking" => Raw::Waking { task: task(words.next())? },
        "wakeup" => {
            let task = task(words.next())?;
            Raw::Wakeup { task, target_cpu: words.next().map(|w| number(Some(w))).transpose()? }
        }
        "wakeup_new" => Raw::WakeupNew { task: task(words.next())? },
        "fork" => Raw::Fork { parent: task(words.next())?, child: task(words.next())? },
        "exec" => Raw::Exec {
            task: task(words.next())?,
            old_tid: number(words.next())?,
            filename: words.next().unwrap_or_default().as_bytes(),
        },
        "exit" => Raw::Exit { task: task(words.next())? },
        "name" => Raw::Name { task: task(words.next())? },
        "current" => Raw::Current { task: task(words.next())? },
        "alive" => Raw::Alive { task: task(words.next())?, ppid: number(words.next())?, kernel: None },
        "irq+" => Raw::IrqEntry { irq: number(words.next())?, name: b"" },
        "irq-" => Raw::IrqExit { irq: number(words.next())?, wakes_thread: words.next() == Some("wakes") },
        "vector+" => Raw::VectorEntry { vector: number(words.next())?, is_call: words.next() == Some("call") },
        "vector-" => Raw::VectorExit { vector: number(words.next())?, is_call: words.next() == Some("call") },
        "softirq+" => Raw::SoftirqEntry { vector: number(words.next())? },
        "softirq-" => Raw::SoftirqExit { vector: number(words.next())? },
        "timer+" => Raw::TimerEntry,
        "timer-" => Raw::TimerExit,
        "sends" => Raw::Packet(packet(true, words)?),
        "takes" => Raw::Packet(packet(false, words)?),
        "done" => {
            let (device, sector) = (number(words.next())?, number(words.next())?);
            Raw::BlockDone(Block { device, sector, bytes: 4096, write: true })
        }
        "call" => Raw::SyscallEntry { nr: Some(number(words.next())?), arg0: number(words.next())? },
        "return" => Raw::SyscallExit { nr: None, ret: number::<u32>(words.next())?.into() },
        "fault" => Raw::PageFault { address: number(words.next())? },
        other => return Err(format!("{other}: no such event")),
    })
}

/// Plays a script.
pub fn play(script: &str) -> Result<Rows, String> {
    let cpus = script.lines().find_map(|l| l.strip_prefix("cpus ")?.trim().parse().ok()).unwrap_or(0);
    let mut importer = Importer::new(Rows::default(), cpus);
    for (i, line) in script.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let mut one = || -> Result<(), String> {
            let Some(first) = words.next() else { return Ok(()) };
            if first == "cpus" {
                return Ok(());
            }
            if first == "lost" {
                let cpu = words.next().filter(|w| *w != "-").map(|w| number(Some(w))).transpose()?;
                let (from, to) = (number(words.next())?, number(words.next())?);
                importer.lost(cpu, MonoNs(from), MonoNs(to), number(words.next())?);
                return Ok(());
            }
            let (at, cpu) = (number(Some(first))?, number(words.next())?);
            importer.event(MonoNs(at), cpu, &event(&mut words)?);
            Ok(())
        };
        one().map_err(|e| format!("line {}: {e}", i + 1))?;
    }
    Ok(importer.finish().0)
}
