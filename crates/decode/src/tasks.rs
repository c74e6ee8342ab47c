//! Which task a tid means at a moment: tids are reused, an exec moves one, threads share a process.

use crate::command_line;
use crate::kept::{Kept, OwnWait};
use crate::placed::Placed;
use crate::sink::{RowSink, TaskFacts, known};
use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_model::ids::{MonoNs, StrId, TaskId};
use wakepath_model::rows::{HandoverRow, Life, StreamRow, Strength, TaskClass, TaskRow};
use wakepath_wire as w;

#[derive(Clone, Copy)]
struct Known {
    row: TaskRow,
    dead: bool,
    kept: Kept,
}

impl Known {
    /// When the kernel made it.
    fn began(&self) -> MonoNs {
        if self.kept.began.0 == 0 { self.row.start } else { self.kept.began }
    }
}

/// The tasks that live now.
#[derive(Default)]
pub struct Tasks {
    by_tid: FxHashMap<u32, Known>,
    /// The logical tasks of each process, by what its runtime calls them.
    logical: FxHashMap<u32, FxHashMap<(u8, u64), Logical>>,
    placed: Placed,
    /// Processes are selected without being named.
    keeps_all_words: bool,
    /// First tasks of selected processes whose command lines were read.
    named: FxHashSet<TaskId>,
    next: u32,
}

/// A logical task.
#[derive(Clone, Copy)]
struct Logical {
    row: TaskRow,
    /// When it last did something. That it ended does not show.
    last: MonoNs,
}

/// How long a logical task may do nothing before it counts as ended: its identity is another's then.
const LOGICAL_IDLE_NS: u64 = 600_000_000_000;

/// `/proc` tells when a task was made in ticks of 10 ms.
const START_NEAR_NS: u64 = 20_000_000;

const PF_KTHREAD: u32 = 0x0020_0000;
const PF_IO_WORKER: u32 = 0x10;

impl Tasks {
    /// The task that `tid` means now; described and written down where it is new.
    pub fn id<S: RowSink>(&mut self, tgid: u32, tid: u32, at: MonoNs, sink: &mut S) -> TaskId {
        if let Some(k) = self.by_tid.get(&tid) {
            return k.row.task;
        }
        if tid == 0 {
            return TaskId::UNKNOWN;
        }
        let facts = sink.describe(tgid, tid);
        self.add(tgid, tid, &facts, at, sink)
    }

    /// The task that `tid` means, if it was met.
    pub fn known(&self, tid: u32) -> TaskId {
        self.by_tid.get(&tid).map_or(TaskId::UNKNOWN, |k| k.row.task)
    }

    /// The task that `tid` meant at a moment not long ago, if it was met.
    pub fn known_at(&self, tid: u32, at: MonoNs) -> TaskId {
        let before = self
            .by_tid
            .get(&tid)
            .map(|k| k.kept.before)
            .filter(|(task, since)| *task != TaskId::UNKNOWN && at < *since);
        before.map_or_else(|| self.known(tid), |(task, _)| task)
    }

    /// The same if it is a thread of this process.
    pub fn known_in(&self, tgid: u32, tid: u32, at: MonoNs) -> TaskId {
        let is_in = self.by_tid.get(&tid).is_some_and(|k| k.row.tgid == tgid);
        if is_in { self.known_at(tid, at) } else { TaskId::UNKNOWN }
    }

    /// A thread waited at a word of its own stack.
    pub(crate) fn waited_at_its_own<S: RowSink>(&mut self, tid: u32, wait: OwnWait, sink: &mut S) {
        if self.by_tid.get_mut(&tid).is_some_and(|k| k.kept.waited(wait)) {
            self.next_of_kept(tid, wait, wait.woken, sink);
        }
    }

    /// A thread may have another name: so a kept one does, when it takes up its next task.
    fn is_named<S: RowSink>(&mut self, e: &w::TaskEvent, name: &[u8], sink: &mut S) {
        let known = self.by_tid.get_mut(&e.tid).filter(|_| e.head.sub == w::TASK_NAME);
        if let Some(wait) = known.and_then(|k| k.kept.named(name)) {
            self.next_of_kept(e.tid, wait, MonoNs(e.ts_ns), sink);
        }
    }

    /// The task of a kept thread was over when such a wait began. Its next one begins at `at`, where another woke it for that.
    fn next_of_kept<S: RowSink>(&mut self, tid: u32, wait: OwnWait, at: MonoNs, sink: &mut S) {
        let task = self.fresh();
        let Some(k) = self.by_tid.get_mut(&tid) else { return };
        if !std::mem::replace(&mut k.kept.is_over, true) {
            sink.push(&TaskRow { at: wait.from, what: Life::Exit, parent_strength: Strength::Seen, ..k.row });
        }
        if wait.by != TaskId::UNKNOWN {
            (k.kept.is_over, k.kept.before) = (false, (k.row.task, at));
            k.kept.began = k.began();
            let (start, parent, parent_strength) = (wait.woken, wait.by, Strength::Seen);
            k.row = TaskRow { at, start, task, parent, parent_strength, what: Life::Fork, ..k.row };
            sink.push(&k.row);
        }
    }

    /// Writes down a task found by the snapshot.
    pub fn add<S: RowSink>(&mut self, tgid: u32, tid: u32, facts: &TaskFacts, at: MonoNs, sink: &mut S) -> TaskId {
        if let Some(k) = self.by_tid.get(&tid).filter(|k| !k.dead) {
            return k.row.task;
        }
        let row = TaskRow {
            at,
            start: MonoNs(facts.start_ns),
            task: self.fresh(),
            // a thread's maker is not told: /proc has its process's parent
            parent: if tgid == tid { self.known(facts.parent) } else { TaskId::UNKNOWN },
            tgid,
            tid,
            comm: sink.intern(&facts.comm),
            cmdline: match self.keeps_all_words {
                true => sink.intern(&command_line::masked(&facts.cmdline)),
                false => sink.intern(command_line::program_of(&facts.comm)),
            },
            cgroup: self.placed.cgroup(&facts.cgroup, at, sink),
            what: Life::Snapshot,
            class: facts.class,
            ..Default::default()
        };
        self.keep(row, sink)
    }

    /// The logical task that a runtime calls so; described and written down where it is new.
    pub fn logical<S: RowSink>(&mut self, tgid: u32, who: &w::Logical, at: MonoNs, sink: &mut S) -> TaskId {
        let key = (who.runtime, who.key);
        if let Some(l) = self.logical.get_mut(&tgid).and_then(|all| all.get_mut(&key)) {
            l.last = at;
            // one that was named by others has not told who made it, and when; one that waited before it did anything not when
            if who.born_ns == 0 || l.row.start.0 != 0 {
                return l.row.task;
            }
        }
        let Some(runtime) = known(who.runtime, at, sink) else { return TaskId::UNKNOWN };
        let before = self.logical.get(&tgid).and_then(|all| all.get(&key)).map(|l| l.row);
        let parent = match who.parent {
            0 => before.map_or(TaskId::UNKNOWN, |row| row.parent),
            maker => self.logical(tgid, &w::Logical { key: maker, parent: 0, born_ns: 0, ..*who }, at, sink),
        };
        self.id(tgid, tgid, at, sink);
        let process = self.by_tid.get(&tgid).map(|k| k.row).unwrap_or_default();
        let row = TaskRow {
            at,
            start: MonoNs(who.born_ns),
            key: who.key,
            task: before.map_or_else(|| self.fresh(), |row| row.task),
            parent,
            tgid,
            tid: 0,
            what: Life::Snapshot,
            runtime,
            parent_strength: if parent == TaskId::UNKNOWN { Strength::None } else { Strength::Seen },
            ..process
        };
        sink.push(&row);
        self.logical.entry(tgid).or_default().insert(key, Logical { row, last: at });
        row.task
    }

    /// What made a logical task, and what made that.
    pub fn makers<S: RowSink>(&mut self, r: &w::Makers, sink: &mut S) {
        let mut parent = 0;
        for (&key, &born_ns) in r.line.iter().zip(&r.born_ns).rev().filter(|&(&key, _)| key != 0) {
            let who = w::Logical { key, parent, born_ns, runtime: r.head.sub, pad: [0; 7] };
            self.logical(r.tgid, &who, MonoNs(r.ts_ns), sink);
            parent = key;
        }
    }

    /// A logical task works for others.
    pub fn for_others<S: RowSink>(&mut self, r: &w::Ended, sink: &mut S) {
        let at = MonoNs(r.ts_ns);
        let who = w::Logical { key: r.key, parent: 0, born_ns: 0, runtime: r.head.sub, pad: [0; 7] };
        self.logical(r.tgid, &who, at, sink);
        let known = self.logical.get(&r.tgid).and_then(|all| all.get(&(who.runtime, who.key)));
        known.iter().for_each(|l| sink.push(&TaskRow { at, what: Life::ForOthers, ..l.row }));
    }

    /// A logical task ended. Its number is not used again.
    pub fn ended<S: RowSink>(&mut self, r: &w::Ended, sink: &mut S) {
        let at = MonoNs(r.ts_ns);
        let who = w::Logical { key: r.key, parent: r.parent, born_ns: r.born_ns, runtime: r.head.sub, pad: [0; 7] };
        self.logical(r.tgid, &who, at, sink);
        let all = self.logical.get_mut(&r.tgid);
        if let Some(ended) = all.and_then(|all| all.get_mut(&(who.runtime, who.key))) {
            // what it made may act yet, and names it then
            ended.last = MonoNs(0);
            sink.push(&TaskRow { at, what: Life::Exit, ..ended.row });
        }
    }

    /// A goroutine got an item of a channel from another.
    pub fn handed_over<S: RowSink>(&mut self, r: &w::Handover, sink: &mut S) {
        let at = MonoNs(r.ts_ns);
        let [task, from, first] = [r.to, r.from, r.first].map(|key| match key {
            0 => TaskId::UNKNOWN,
            key => {
                let who = w::Logical { key, parent: 0, born_ns: 0, runtime: r.head.sub, pad: [0; 7] };
                self.logical(r.tgid, &who, at, sink)
            }
        });
        sink.push(&HandoverRow {
            at,
            sent: MonoNs(r.sent_ns),
            first_sent: MonoNs(r.first_ns),
            of: r.of,
            task,
            from,
            first,
            is_empty: u8::from(r.flags & w::HANDOVERF_EMPTY != 0),
            ..Default::default()
        });
    }

    /// A goroutine serves a stream, or asks by it.
    pub fn stream<S: RowSink>(&mut self, r: &w::Stream, sink: &mut S) {
        let at = MonoNs(r.ts_ns);
        let named = |key, parent, born_ns| w::Logical { key, parent, born_ns, runtime: r.head.sub, pad: [0; 7] };
        let by = self.logical(r.tgid, &named(r.by, 0, 0), at, sink);
        let task = self.logical(r.tgid, &named(r.key, r.parent, r.born_ns), at, sink);
        let (stream, calls) = (u64::from(r.stream), u8::from(r.calls != 0));
        sink.push(&StreamRow { at, stream, task, by, calls, ..Default::default() });
    }

    fn fresh(&mut self) -> TaskId {
        self.next += 1;
        TaskId(self.next)
    }

    fn keep<S: RowSink>(&mut self, row: TaskRow, sink: &mut S) -> TaskId {
        let before = self.by_tid.get(&row.tid).filter(|_| matches!(row.what, Life::Name | Life::Exit));
        let kept = before.map_or(Kept::default(), |k| k.kept);
        // a kept thread's last task was told to be over when that was
        if row.what != Life::Exit || !kept.is_over {
            sink.push(&row);
        }
        self.by_tid.insert(row.tid, Known { row, dead: row.what == Life::Exit, kept });
        row.task
    }

    /// A step in a task's life.
    pub fn event<S: RowSink>(&mut self, e: &w::TaskEvent, cmdline: &[u8], sink: &mut S) {
        let at = MonoNs(e.ts_ns);
        let comm = &e.comm[..e.comm.iter().position(|&b| b == 0).unwrap_or(16)];
        if e.head.sub == w::TASK_PLACED {
            // for the recorder alone, who may select it
            return;
        }
        if e.head.sub == w::TASK_SELECTED {
            self.id(e.tgid, e.tid, at, sink);
            self.watched(e.tgid, at, sink);
            return;
        }
        if e.head.sub == w::TASK_FORK {
            let parent = self.id(e.parent_tgid, e.parent_tid, at, sink);
            let from = self.by_tid.get(&e.parent_tid).map(|k| k.row);
            // a child may have told of itself before its maker does, as one that `posix_spawn` made
            let is_it = |k: &&mut Known| k.row.parent == TaskId::UNKNOWN && k.row.at > at;
            let told = self.by_tid.get_mut(&e.tid).filter(is_it).map(|k| {
                k.row.parent = parent;
                k.row
            });
            let row = TaskRow {
                at,
                start: MonoNs(told.map_or(e.start_ns, |k| k.start.0)),
                task: told.map_or_else(|| self.fresh(), |k| k.task),
                parent,
                tgid: e.tgid,
                tid: e.tid,
                comm: sink.intern(comm),
                // a child is its parent's program until it says otherwise
                cmdline: from.map_or(StrId::EMPTY, |f| f.cmdline),
                cgroup: from.map_or(StrId::EMPTY, |f| f.cgroup),
                what: Life::Fork,
                class: class(e.flags),
                ..Default::default()
            };
            match told {
                Some(_) => sink.push(&row),
                None => _ = self.keep(row, sink),
            }
            return;
        }
        if e.head.sub == w::TASK_SNAPSHOT {
            self.named(e, comm, at, sink);
            return;
        }
        if e.head.sub == w::TASK_EXEC && e.parent_tid != e.tid {
            // a thread that is not the leader took over the leader's tid
            if let Some(mut k) = self.by_tid.remove(&e.parent_tid) {
                k.row.tid = e.tid;
                self.by_tid.insert(e.tid, k);
            }
        }
        self.id(e.tgid, e.tid, at, sink);
        self.is_named(e, comm, sink);
        let Some(k) = self.by_tid.get(&e.tid) else {
            return;
        };
        let mut row = TaskRow { at, what: Life::Name, class: class(e.flags), ..k.row };
        if e.head.sub != w::TASK_EXIT {
            row.comm = sink.intern(comm);
        }
        match e.head.sub {
            w::TASK_EXEC => {
                row.what = Life::Exec;
                // of a process that is not watched no words are read
                row.cmdline = match cmdline {
                    [] => sink.intern(command_line::program_of(comm)),
                    words => sink.intern(&command_line::masked(words)),
                };
                // who starts a container or a unit moves itself there, and then begins its program
                if let Some(path) = sink.cgroup(e.tgid) {
                    row.cgroup = self.placed.cgroup(&path, at, sink);
                }
            }
            w::TASK_EXIT => (row.what, row.status) = (Life::Exit, e.parent_tgid),
            _ => {}
        }
        self.keep(row, sink);
        if e.tid == e.tgid && matches!(row.what, Life::Exec | Life::Exit) {
            self.logical.remove(&e.tgid);
        }
        if e.head.sub == w::TASK_EXIT && self.by_tid.len() > 100_000 {
            self.by_tid.retain(|_, k| !k.dead);
        }
    }

    /// Who a task is that is not selected and met one that is. Its fork was not recorded.
    fn named<S: RowSink>(&mut self, e: &w::TaskEvent, comm: &[u8], at: MonoNs, sink: &mut S) {
        let is_same = |k: &&Known| !k.dead && k.began().0.abs_diff(e.start_ns) < START_NEAR_NS;
        let known = self.by_tid.get(&e.tid).filter(is_same).map(|k| k.row);
        let comm = sink.intern(comm);
        match known {
            Some(row) if row.comm == comm => {}
            Some(row) => _ = self.keep(TaskRow { at, comm, what: Life::Name, ..row }, sink),
            None => {
                let path = sink.cgroup(e.tgid).unwrap_or_default();
                let row = TaskRow {
                    at,
                    start: MonoNs(e.start_ns),
                    task: self.fresh(),
                    tgid: e.tgid,
                    tid: e.tid,
                    comm,
                    cgroup: self.placed.cgroup(&path, at, sink),
                    what: Life::Snapshot,
                    class: class(e.flags),
                    ..Default::default()
                };
                self.keep(row, sink);
            }
        }
    }

    /// Writes down that a process was selected to be watched. False: it is not known yet.
    pub fn watched<S: RowSink>(&mut self, tgid: u32, at: MonoNs, sink: &mut S) -> bool {
        let Some(leader) = self.by_tid.get(&tgid).map(|k| k.row) else { return false };
        if self.named.insert(leader.task) && !self.keeps_all_words {
            let facts = sink.describe(tgid, tgid);
            if !facts.cmdline.is_empty() {
                let words = sink.intern(&command_line::masked(&facts.cmdline));
                self.by_tid.values_mut().filter(|k| k.row.tgid == tgid).for_each(|k| k.row.cmdline = words);
            }
        }
        let known = self.by_tid.get(&tgid);
        known.iter().for_each(|k| sink.push(&TaskRow { at, what: Life::Watched, ..k.row }));
        true
    }

    /// Everybody is selected: of everybody the words of the command line are kept.
    pub fn select_all(&mut self) {
        self.keeps_all_words = true;
    }

    /// Every living task again, for a segment that must stand alone.
    pub fn restate<S: RowSink>(&mut self, at: MonoNs, sink: &mut S) {
        let living = self.by_tid.values().filter(|k| !k.dead).map(|k| k.row.cgroup).collect();
        self.placed.restate(&living, at, sink);
        for k in self.by_tid.values().filter(|k| !k.dead) {
            sink.push(&TaskRow { at, what: Life::Snapshot, ..k.row });
        }
        for all in self.logical.values_mut() {
            all.retain(|_, l| l.last.0 + LOGICAL_IDLE_NS > at.0);
            all.values().for_each(|l| sink.push(&TaskRow { at, ..l.row }));
        }
    }
}

fn class(flags: u32) -> TaskClass {
    match flags {
        f if f & PF_IO_WORKER != 0 => TaskClass::IoUring,
        f if f & PF_KTHREAD != 0 => TaskClass::Kernel,
        _ => TaskClass::User,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::pushed::Pushed;
    use wakepath_model::rows::Event;

    /// A wait, which cannot tell when a goroutine was made, may come before what it first does.
    #[test]
    fn a_goroutine_that_waits_first_tells_later_when_it_was_made() {
        let (mut tasks, mut sink) = (Tasks::default(), Pushed::default());
        let named = |parent, born_ns| w::Logical { key: 9, parent, born_ns, runtime: w::RUNTIME_GO, pad: [0; 7] };
        let mut told = |parent, born_ns, at| tasks.logical(70, &named(parent, born_ns), MonoNs(at), &mut sink);
        let ids = [told(8, 0, 100), told(8, 50, 110), told(8, 50, 120), told(0, 60, 130)];
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        let rows = sink.0.into_iter().filter_map(|e| if let Event::Task(r) = e { Some(r) } else { None });
        let rows: Vec<TaskRow> = rows.collect();
        let of_it: Vec<_> = rows.iter().filter(|r| r.key == 9).map(|r| (r.start.0, r.parent)).collect();
        let maker = rows.iter().find(|r| r.key == 8).expect("its maker").task;
        assert_eq!(of_it, [(0, maker), (50, maker)]);
    }

    #[test]
    fn a_neighbour_is_named_when_it_is_met_and_again_when_its_number_is_anothers() {
        let (mut tasks, mut sink) = (Tasks::default(), Pushed::default());
        let mut met = |start_ns, at| {
            let head = w::Head { tag: 0, bytes: 80, kind: w::KIND_TASK, sub: w::TASK_SNAPSHOT };
            let event = w::TaskEvent {
                head,
                ts_ns: at,
                start_ns,
                cgroup: 0,
                tgid: 70,
                tid: 71,
                parent_tid: 0,
                parent_tgid: 0,
                comm: [0; 16],
                cmdline_bytes: 0,
                flags: PF_KTHREAD,
            };
            tasks.event(&event, &[], &mut sink);
            tasks.known(71)
        };
        // `/proc` rounds when a task was made
        let one = [met(1_005_000_000, 10), met(1_000_000_000, 20)];
        let other = met(9_000_000_000, 30);
        assert!(one[0] == one[1] && other != one[0], "a number that is used again is another task's");
        let rows = sink.0.iter().filter_map(|e| match e {
            Event::Task(r) => Some((r.task, r.class, r.what)),
            _ => None,
        });
        assert_eq!(
            rows.collect::<Vec<_>>(),
            [(one[0], TaskClass::Kernel, Life::Snapshot), (other, TaskClass::Kernel, Life::Snapshot)]
        );
    }

    #[test]
    fn a_task_that_works_for_others_is_named_so_whether_it_was_met_or_not() {
        let (mut tasks, mut sink) = (Tasks::default(), Pushed::default());
        let head = w::Head { tag: 0, bytes: 48, kind: w::KIND_FOR_OTHERS, sub: w::RUNTIME_JVM };
        let who = w::Logical { key: 9, parent: 8, born_ns: 50, runtime: w::RUNTIME_JVM, pad: [0; 7] };
        let met = tasks.logical(70, &who, MonoNs(60), &mut sink);
        for key in [9, 10] {
            tasks.for_others(&w::Ended { head, ts_ns: 100, tgid: 70, pad: 0, key, parent: 0, born_ns: 0 }, &mut sink);
        }
        let told = sink.0.iter().filter_map(|e| match e {
            Event::Task(r) if r.what == Life::ForOthers => Some((r.task, r.key, r.start.0, r.at.0)),
            _ => None,
        });
        let told: Vec<_> = told.collect();
        assert!(matches!(told[..], [(task, 9, 50, 100), (_, 10, 0, 100)] if task == met), "{told:?}");
    }
}
