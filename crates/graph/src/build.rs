//! Building the index: the rows of each table of each host once, and the endpoints of all hosts in order of time.

use super::records::{
    Asked, Came, DATAGRAMS, End, Got, Interpreter, Left, Listener, OfFlow, Sent, Word, is_for_an_interpreter, is_futex,
};
use super::sort::{Keyed, Sorter};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::iter::Peekable;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use wakepath_flows::{How, Pairs};
use wakepath_model::clock::Timeline;
use wakepath_model::folder::{Events, Folder, Host, TableSet};
use wakepath_model::ids::{EndpointId, HostId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{
    EndedBy, EndpointRow, Event, FaultKind, FaultRow, LimitKind, LimitRow, MessageRole, MessageRow, OpKind, OpRow,
    PacketRow, ParkRow, PollRow, RanRow, ResentRow, Reset, Row, StayRow, Table, TaskRow, TcpState, WaitRow, held,
};

/// How long the endpoints of a flow that is gone are remembered, since the other end may still be announced.
const FORGET_NS: i64 = 20_000_000_000;

/// The file that says how long the others are, and its last line.
pub(super) const LENGTHS: &str = "lengths";
pub(super) const LENGTHS_END: &str = "end\n";

/// The file of a table of a host.
pub(super) fn file(dir: &Path, table: &str, host: usize) -> PathBuf {
    dir.join(format!("{table}-{host}"))
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Writes all files of the index into `dir`. Memory: two runs of a sorter, whatever the size of the folder.
pub(super) fn build(folder: &Folder, timeline: &Timeline, dir: &Path) -> io::Result<()> {
    let mut sent = Sorter::new(dir);
    for (i, host) in folder.hosts().iter().enumerate() {
        waits(host, i, dir)?;
        faults(host, i, dir)?;
        asked(host, i, dir)?;
        operations(host, i, dir)?;
        plain::<PollRow>(host, dir, &file(dir, "polls", i))?;
        plain::<ParkRow>(host, dir, &file(dir, "parks", i))?;
        plain::<RanRow>(host, dir, &file(dir, "ran", i))?;
        plain::<TaskRow>(host, dir, &file(dir, "tasks", i))?;
        words(host, i, dir)?;
        plain::<ResentRow>(host, dir, &file(dir, "resent", i))?;
        backlogs(host, i, dir)?;
        packets(host, i, dir, &mut sent)?;
    }
    sent.finish(create(&file(dir, "sent", 0))?)?;
    ends(folder, timeline, dir)?;
    write_lengths(dir)
}

/// Writes down how long each file is, so that one that was cut later is not taken for one with fewer rows.
fn write_lengths(dir: &Path) -> io::Result<()> {
    let mut text = String::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        text += &format!("{} {}\n", entry.file_name().to_string_lossy(), entry.metadata()?.len());
    }
    let mut out = create(&dir.join(LENGTHS))?;
    out.write_all(text.as_bytes())?;
    out.write_all(LENGTHS_END.as_bytes())
}

/// Bytes that building reads of a folder.
pub(super) fn bytes_to_read(folder: &Folder) -> u64 {
    // messages and tasks are read for their words, too
    const PASSES: [&[Table]; 3] = [
        &[
            Table::Wait,
            Table::Stay,
            Table::Fault,
            Table::Message,
            Table::Op,
            Table::Poll,
            Table::Task,
            Table::Resent,
            Table::Limit,
            Table::Park,
            Table::Ran,
        ],
        &[Table::Message, Table::Task, Table::Packet],
        &[Table::Endpoint, Table::FlowState],
    ];
    let of = |host: &Host| PASSES.iter().map(|tables| host.bytes_of(TableSet::of(tables))).sum::<u64>();
    folder.hosts().iter().map(of).sum()
}

/// Gives all rows of a table to `take`, in no order.
fn each<R: Row>(host: &Host, mut take: impl FnMut(&R) -> io::Result<()>) -> io::Result<()> {
    let mut batches = host.batches(TableSet::of(&[R::TABLE]), ..);
    while let Some(batch) = batches.next() {
        batch.rows::<R>().iter().try_for_each(&mut take)?;
        batches.recycle(batch);
    }
    Ok(())
}

fn plain<R: Row + Keyed>(host: &Host, dir: &Path, path: &Path) -> io::Result<()> {
    let mut sorter = Sorter::new(dir);
    each::<R>(host, |r| sorter.push(*r))?;
    sorter.finish(create(path)?)
}

/// Most futexes of a host that are looked at for whether they are an interpreter's.
const FUTEXES_MAX: usize = 1 << 16;
/// A lock of an interpreter is one that was asked for so often after 5 ms: once may be any time-out.
const ASKED_MIN: u32 = 2;

fn waits(host: &Host, i: usize, dir: &Path) -> io::Result<()> {
    let (mut waits, mut came, mut interpreters) = (Sorter::new(dir), Sorter::new(dir), Sorter::new(dir));
    let mut gets = Sorter::new(dir);
    let (mut files, mut named) = (Sorter::new(dir), FxHashSet::default());
    let mut asked: FxHashMap<u64, u32> = FxHashMap::default();
    each::<WaitRow>(host, |r| {
        if is_futex(r) && r.cause == EndedBy::Task {
            gets.push(Got { futex: Interpreter::of(r).futex, at: r.at, task: r.task, pad: 0 })?;
        }
        if r.file != StrId::EMPTY && named.insert(r.file) {
            files.push(Word { id: r.file, pad: 0 })?;
        }
        if is_futex(r) && is_for_an_interpreter(r) {
            let it = Interpreter::of(r);
            if asked.len() < FUTEXES_MAX || asked.contains_key(&it.futex) {
                let times = asked.entry(it.futex).or_default();
                *times += 1;
                if *times == ASKED_MIN {
                    interpreters.push(it)?;
                }
            }
        }
        if r.cause != EndedBy::Open {
            came.push(Came { at: r.at, left: MonoNs(0), task: r.task, cpu: u32::from(r.cpu) })?;
        }
        waits.push(*r)
    })?;
    each::<StayRow>(host, |r| {
        if r.task == TaskId::UNKNOWN {
            return Ok(());
        }
        came.push(Came { at: r.from, left: r.to, task: r.task, cpu: u32::from(r.cpu) })
    })?;
    waits.finish(create(&file(dir, "waits", i))?)?;
    files.finish(create(&file(dir, "waited_for", i))?)?;
    gets.finish(create(&file(dir, "gets", i))?)?;
    interpreters.finish(create(&file(dir, "interpreters", i))?)?;
    came.finish(create(&file(dir, "cpus", i))?)
}

/// Page faults that slept for a read, and the files that they read: there are no more of these than a recording has strings.
fn faults(host: &Host, i: usize, dir: &Path) -> io::Result<()> {
    let (mut faults, mut files) = (Sorter::new(dir), Sorter::new(dir));
    let mut seen = FxHashSet::default();
    each::<FaultRow>(host, |r| {
        if r.kind != FaultKind::Major {
            return Ok(());
        }
        if seen.insert(r.file) {
            files.push(Word { id: r.file, pad: 0 })?;
        }
        faults.push(*r)
    })?;
    faults.finish(create(&file(dir, "faults", i))?)?;
    files.finish(create(&file(dir, "faulted", i))?)
}

/// What was asked for on connections.
fn asked(host: &Host, i: usize, dir: &Path) -> io::Result<()> {
    let mut asked = Sorter::new(dir);
    each::<MessageRow>(host, |r| {
        if !is_asked(r) {
            return Ok(());
        }
        asked.push(Asked { flow: r.flow, at: r.at, protocol: r.protocol, verb: r.verb, target: r.target, pad: 0 })
    })?;
    asked.finish(create(&file(dir, "asked", i))?)
}

/// Somebody received a request.
fn is_asked(r: &MessageRow) -> bool {
    r.role == MessageRole::Request && r.sent == 0
}

/// The words of what was asked for, and names of tasks: there are no more of these than a recording has strings.
fn words(host: &Host, i: usize, dir: &Path) -> io::Result<()> {
    let mut words = Sorter::new(dir);
    let mut seen = FxHashSet::default();
    let mut take = |id| if seen.insert(id) { words.push(Word { id, pad: 0 }) } else { Ok(()) };
    each::<MessageRow>(host, |r| {
        if is_asked(r) { [r.protocol, r.verb, r.target].into_iter().try_for_each(&mut take) } else { Ok(()) }
    })?;
    each::<TaskRow>(host, |r| take(r.comm))?;
    words.finish(create(&file(dir, "words", i))?)
}

fn operations(host: &Host, i: usize, dir: &Path) -> io::Result<()> {
    let (mut ops, mut left) = (Sorter::new(dir), Sorter::new(dir));
    each::<OpRow>(host, |r| {
        let is_kept = match r.kind {
            OpKind::Send | OpKind::Recv => r.end > r.start,
            OpKind::Connect | OpKind::Accept | OpKind::Close | OpKind::Shutdown => true,
        };
        if is_kept {
            left.push(Left {
                flow: r.flow,
                start: r.start,
                end: r.end,
                entry: r.entry,
                at: r.at,
                task: r.task,
                kind: r.kind,
                range: r.range,
                held: if r.kind == OpKind::Send { r.flags & held::BITS } else { 0 },
            })?;
        }
        ops.push(*r)
    })?;
    ops.finish(create(&file(dir, "operations", i))?)?;
    left.finish(create(&file(dir, "left", i))?)
}

/// How long the queues of listeners were, and might become; and when no descriptor was left to accept.
fn backlogs(host: &Host, i: usize, dir: &Path) -> io::Result<()> {
    let (mut queues, mut starved) = (Sorter::new(dir), Sorter::new(dir));
    each::<LimitRow>(host, |r| match r.kind {
        LimitKind::Backlog => queues.push(*r),
        LimitKind::Descriptors => starved.push(*r),
        _ => Ok(()),
    })?;
    queues.finish(create(&file(dir, "backlogs", i))?)?;
    starved.finish(create(&file(dir, "starved", i))?)
}

fn packets(host: &Host, i: usize, dir: &Path, sent: &mut Sorter<Sent>) -> io::Result<()> {
    let (mut packets, mut flows) = (Sorter::new(dir), Sorter::new(dir));
    each::<PacketRow>(host, |r| {
        if r.flow != 0 {
            flows.push(OfFlow { flow: r.flow, at: r.at, id: r.id })?;
        }
        if r.sent != 0 {
            sent.push(Sent { key: r.key, id: r.id, at: r.at, host: i as u64 })?;
        }
        packets.push(*r)
    })?;
    flows.finish(create(&file(dir, "flows", i))?)?;
    packets.finish(create(&file(dir, "packets", i))?)
}

/// Endpoints with their other ends, found over all hosts in order of the common time.
fn ends(folder: &Folder, timeline: &Timeline, dir: &Path) -> io::Result<()> {
    let mut sorters: Vec<Sorter<End>> = folder.hosts().iter().map(|_| Sorter::new(dir)).collect();
    let mut listeners: Vec<Sorter<Listener>> = folder.hosts().iter().map(|_| Sorter::new(dir)).collect();
    let mut streams: Vec<Peekable<Events<'_>>> = folder
        .hosts()
        .iter()
        .map(|h| h.events(TableSet::of(&[Table::Endpoint, Table::FlowState]), ..).peekable())
        .collect();
    let mut pairs: Pairs = Pairs::default();
    let mut gone: VecDeque<(i64, (HostId, EndpointId))> = VecDeque::new();
    loop {
        let next = (0..streams.len())
            .filter_map(|i| {
                let at = streams[i].peek()?.at();
                Some((timeline.common(HostId(i as u16), at), i))
            })
            .min();
        let Some((at, i)) = next else { break };
        let host = HostId(i as u16);
        match streams[i].next() {
            Some(Event::Endpoint(r)) => {
                if r.state == TcpState::Listen || takes_datagrams(&r) {
                    listeners[i].push(listener(&r))?;
                }
                let was_paired = pairs.peer((host, r.flow)).is_some();
                pairs.add(host, &r);
                let peer = pairs.peer((host, r.flow));
                sorters[i].push(end(&r, peer))?;
                if let Some((other, how)) = peer.filter(|_| !was_paired) {
                    // the other end was announced before its pair was known
                    let place = pairs.place(other);
                    let mirrored = End {
                        flow: other.1,
                        peer: r.flow,
                        raddr: place.raddr,
                        peer_host: host.0,
                        lport: place.lport,
                        rport: place.rport,
                        family: place.family,
                        protocol: place.protocol,
                        how: number(how),
                        state: TcpState::None,
                        side: r.side.other(),
                        pad: [0; 2],
                        task: TaskId::UNKNOWN,
                        netns: place.netns,
                    };
                    sorters[usize::from(other.0.0)].push(mirrored)?;
                }
            }
            Some(Event::FlowState(r)) if r.new == TcpState::Close && r.reset == Reset::None => {
                gone.push_back((at.0, (host, r.flow)))
            }
            _ => {}
        }
        while let Some(&(t, end)) = gone.front()
            && t.saturating_add(FORGET_NS) < at.0
        {
            gone.pop_front();
            pairs.forget(end);
        }
    }
    for (i, sorter) in sorters.into_iter().enumerate() {
        sorter.finish(create(&file(dir, "ends", i))?)?;
    }
    for (i, sorter) in listeners.into_iter().enumerate() {
        sorter.finish(create(&file(dir, "listeners", i))?)?;
    }
    Ok(())
}

/// Whether a socket takes datagrams from anybody: it is bound, and to nobody's address connected.
fn takes_datagrams(r: &EndpointRow) -> bool {
    r.protocol == DATAGRAMS && r.lport != 0 && r.rport == 0
}

fn listener(r: &EndpointRow) -> Listener {
    let laddr = wakepath_flows::Place::of(r).laddr;
    let (port, family, protocol) = (r.lport, r.family, r.protocol);
    Listener { flow: r.flow, laddr, task: r.task, netns: r.netns, port, family, protocol, pad: 0 }
}

fn end(r: &EndpointRow, peer: Option<((HostId, EndpointId), How)>) -> End {
    let ((peer_host, peer), how) = peer.map_or(((HostId(0), EndpointId(0)), 0), |(p, how)| (p, number(how)));
    let place = wakepath_flows::Place::of(r);
    End {
        flow: r.flow,
        peer,
        raddr: place.raddr,
        peer_host: peer_host.0,
        lport: place.lport,
        rport: place.rport,
        family: place.family,
        protocol: place.protocol,
        how,
        state: r.state,
        side: r.side,
        pad: [0; 2],
        task: r.task,
        netns: r.netns,
    }
}

fn number(how: How) -> u16 {
    match how {
        How::Addresses => 1,
        How::Translated => 2,
        How::Peers => 3,
    }
}
