//! Every folder `tests/golden/ana.active_path/*` is a test: a script (`support`), and the active paths that it gives.
//! Any rows whatever give a path that covers its interval to the nanosecond. `UPDATE_GOLDEN=1` writes `expected.txt` anew.

mod support;

use proptest::prelude::*;
use support::{Script, check};
use wakepath_analysis::active_path::active_path;
use wakepath_analysis::slices::{Slice, State};
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{CommonNs, EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{EndedBy, FaultKind, FaultRow, OpKind, OpRow, PacketContext, PacketRow, WaitRow};
use wakepath_testkit::golden;

fn path_of(index: &Index, host: HostId, task: TaskId, from: CommonNs, to: CommonNs) -> Vec<Slice> {
    let mut slices = Vec::new();
    active_path(index, host, task, from, to, &mut |s| slices.push(s));
    check(&slices, from, to);
    slices
}

#[test]
fn every_golden_case_gives_the_active_paths_that_are_expected() {
    golden::each("ana.active_path", |case| {
        let script = Script::read(&golden::text(case, "input.txt"));
        let dir = tempfile::tempdir().expect("a folder");
        let dirs = [dir.path().join("t")];
        script.write(&dirs[0]);
        let folder = Folder::open(&dirs).expect("opened");
        let index = Index::open(&folder, &dirs).expect("an index");
        let mut got = String::new();
        for (task, from, to) in &script.asked {
            let (host, id) = script.tasks[task];
            let slices = path_of(&index, HostId(host as u16), TaskId(id), Script::common(*from), Script::common(*to));
            got += &format!("{task} {from}..{to}\n{}", script.show(&slices));
        }
        golden::holds(case, &got);
    });
}

#[test]
fn a_stale_index_is_made_again_and_a_read_only_folder_is_answered() {
    let script = |wait: &str| Script::read(&format!("host a\ntask A\ntask B\n{wait}\n"));
    let dir = tempfile::tempdir().expect("a folder");
    let dirs = [dir.path().join("t")];
    let ask = || {
        let folder = Folder::open(&dirs).expect("opened");
        Index::open(&folder, &dirs).expect("an index").wait_count()
    };
    let cached = || std::fs::read_dir(dirs[0].join("cache")).expect("a cache").count();
    script("A 10..20 20 timer").write(&dirs[0]);
    assert_eq!((ask(), ask(), cached()), (1, 1, 1));
    script("A 30..40 40 timer\nA 50..60 60 timer").write(&dirs[0]);
    assert_eq!((ask(), cached()), (3, 1));
    // a file where the cache should be: nothing can be kept, and the answer is the same
    std::fs::remove_dir_all(dirs[0].join("cache")).expect("removed");
    std::fs::write(dirs[0].join("cache"), "").expect("written");
    assert_eq!(ask(), 3);
}

/// What a task does with a processor: which task, how long, and how it leaves.
type Turn = (u32, u64, bool);

/// Turns of tasks on one processor as wait records, and what a task's path must be: begin, end, state, by whom (us).
fn schedule(turns: &[Turn], script: &mut Script) -> Vec<(u64, u64, State, Option<u32>)> {
    const ASKED: u32 = 1;
    let mut spans: Vec<(u64, u64, u32, bool)> = Vec::new();
    let mut at = 100;
    for &(task, length, sleeps) in [(ASKED, 5, true)].iter().chain(turns) {
        match spans.last_mut().filter(|s| s.2 == task) {
            Some(last) => last.1 += length,
            None => spans.push((at, at + length, task, sleeps)),
        }
        at += length;
    }
    // each comes once more, so that what it did before is known
    let last: Vec<(u64, u64, u32, bool)> =
        (1..5).map(|t| (at + u64::from(t), at + u64::from(t) + 1, t, true)).collect();
    spans.extend(last);
    let mut expected: Vec<(u64, u64, State, Option<u32>)> = Vec::new();
    for task in 1..5u32 {
        let mut left: Option<(u64, u32, bool)> = Some((0, 0, true));
        for (i, &(from, to, of, sleeps)) in spans.iter().enumerate() {
            if of != task {
                continue;
            }
            if let Some((blocked, by, slept)) = left {
                let mut w: WaitRow = Default::default();
                let woken = if slept { blocked + (from - blocked) / 3 } else { blocked };
                [w.blocked, w.woken, w.at] = [blocked, woken, from].map(|t| MonoNs(t * 1000));
                (w.task, w.syscall, w.cpu, w.state) = (TaskId(task), 0xffff, 1, u16::from(slept));
                (w.cause, w.by) = if slept { (EndedBy::Timer, TaskId(0)) } else { (EndedBy::Preempted, TaskId(by)) };
                script.hosts[0].2.push(w.into());
                if task == ASKED && blocked > 0 {
                    expected.push((blocked, woken, State::Timer, None));
                    for &(a, b, of, _) in spans.iter().filter(|s| s.1 > woken && s.0 < from) {
                        expected.push((a.max(woken), b.min(from), State::Preempted, Some(of)));
                    }
                }
            }
            let next = spans.get(i + 1).map_or(0, |s| s.2);
            left = Some((to, next, sleeps));
            if task == ASKED {
                expected.push((from, to, State::Running, None));
            }
        }
    }
    expected.retain(|e| e.0 < e.1);
    expected
}

/// Host, times, task, waker, cause, object, number.
type WildWait = (bool, [u64; 3], u32, u32, u8, u64, u32);
/// Host, entry, return, endpoint, first byte, task, kind.
type WildSend = (bool, u64, u64, u64, u64, u32, u8);
/// Host, time, number, key, trigger, task, sent, context.
type WildPacket = (bool, u64, u64, u64, u64, u32, bool, u8);

#[derive(Clone, Debug)]
struct Wild {
    waits: Vec<WildWait>,
    sends: Vec<WildSend>,
    packets: Vec<WildPacket>,
    faults: Vec<WildFault>,
}

/// Host, begin, end, task, kind, inode.
type WildFault = (bool, u64, u64, u32, u8, u64);

fn wild() -> impl Strategy<Value = Wild> {
    let t = 0u64..40;
    let wait = (any::<bool>(), [t.clone(), t.clone(), t.clone()], 0u32..5, 0u32..5, 0u8..12, 0u64..6, 0u32..50);
    let send = (any::<bool>(), t.clone(), t.clone(), 1u64..5, 0u64..50, 0u32..5, 1u8..7);
    let fault = (any::<bool>(), t.clone(), t.clone(), 0u32..5, 0u8..5, 0u64..3);
    let packet = (any::<bool>(), t, 1u64..8, 0u64..4, 0u64..8, 0u32..5, any::<bool>(), 0u8..4);
    let many = |n| 0..n;
    (
        proptest::collection::vec(wait, many(60)),
        proptest::collection::vec(send, many(20)),
        proptest::collection::vec(packet, many(20)),
        proptest::collection::vec(fault, many(20)),
    )
        .prop_map(|(waits, sends, packets, faults)| Wild { waits, sends, packets, faults })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// However many share a processor, each part of the time that one of them could have run names who ran.
    #[test]
    fn who_ran_instead_is_told_from_switch_to_switch(
        turns in proptest::collection::vec((1u32..5, 1u64..50, any::<bool>()), 1..120),
    ) {
        let mut script = Script::read("host a\ntask A\ntask B\ntask C\ntask D\n");
        let expected = schedule(&turns, &mut script);
        let dir = tempfile::tempdir().expect("a folder");
        let dirs = [dir.path().join("t")];
        script.write(&dirs[0]);
        let folder = Folder::open(&dirs).expect("opened");
        let index = Index::open(&folder, &dirs).expect("an index");
        let (from, to) = (expected[0].0, expected[expected.len() - 2].1);
        let path = path_of(&index, HostId(0), TaskId(1), Script::common(from), Script::common(to));
        let us = |t: CommonNs| (t.0 - Script::common(0).0) as u64 / 1000;
        let told: Vec<_> =
            path.iter().map(|s| (us(s.from), us(s.to), s.state, s.by.map(|b| b.1.0))).collect();
        prop_assert_eq!(&told[..], &expected[..expected.len() - 1]);
    }

    /// Waits that overlap, end before they begin, wake each other at one moment, name what is not there: the path still
    /// covers what is asked for, and there is always an end to it.
    #[test]
    fn any_rows_give_a_path_without_gap_or_overlap(wild in wild(), from in 0u64..40, length in 1u64..40, skew in 0u64..3) {
        let mut script = Script::read(
            &format!("host a\ntask A\ntask B\ntask C of A at 5\nexit B 30\nhost b +{skew}\ntask X\ntask Y\nflow f A X\nflow g A B\nlost a 7 12\n"),
        );
        let ns = |host: bool, us: u64| MonoNs((us + if host { skew } else { 0 }) * 1000);
        for (host, at, task, by, cause, object, seq) in &wild.waits {
            let mut w: WaitRow = Default::default();
            [w.blocked, w.woken, w.at] = at.map(|t| ns(*host, t));
            (w.task, w.by, w.cause, w.object, w.rcv_seq) = (TaskId(*task), TaskId(*by), EndedBy::try_from(*cause).unwrap_or_default(), *object, *seq);
            (w.syscall, w.state, w.cpu) = (if seq % 3 == 0 { 202 } else { 0xffff }, (seq % 3) as u16, (seq % 2) as u16);
            script.hosts[usize::from(*host)].2.push(w.into());
        }
        for (host, entry, at, flow, start, task, kind) in &wild.sends {
            let mut o: OpRow = Default::default();
            (o.entry, o.at) = (ns(*host, *entry.min(at)), ns(*host, *at));
            (o.flow, o.start, o.end) = (EndpointId(*flow), (1 << 32) + start, (1 << 32) + start + 20);
            (o.task, o.kind) = (TaskId(*task), OpKind::try_from(*kind).ok().filter(|k| *k <= OpKind::Accept).unwrap_or_default());
            script.hosts[usize::from(*host)].2.push(o.into());
        }
        for (host, began, at, task, kind, inode) in &wild.faults {
            let mut f: FaultRow = Default::default();
            (f.began, f.at) = (ns(*host, *began), ns(*host, *at));
            (f.task, f.kind, f.inode) = (TaskId(*task), FaultKind::try_from(*kind).unwrap_or_default(), *inode);
            script.hosts[usize::from(*host)].2.push(f.into());
        }
        for (host, at, id, key, trigger, task, sent, context) in &wild.packets {
            let mut p: PacketRow = Default::default();
            (p.at, p.id, p.key, p.trigger, p.task) = (ns(*host, *at), *id, *key, *trigger, TaskId(*task));
            (p.sent, p.context, p.flow) = (u8::from(*sent), PacketContext::try_from(*context).unwrap_or_default(), *key % 3);
            script.hosts[usize::from(*host)].2.push(p.into());
        }
        let dir = tempfile::tempdir().expect("a folder");
        let dirs = [dir.path().join("t")];
        script.write(&dirs[0]);
        let folder = Folder::open(&dirs).expect("opened");
        let index = Index::open(&folder, &dirs).expect("an index");
        for host in [HostId(0), HostId(1)] {
            for task in 0..5 {
                path_of(&index, host, TaskId(task), Script::common(from), Script::common(from + length));
            }
        }
    }
}

/// What the time of task A was spent on, from 10 to 65 µs of a script: with each cause, who is named for it.
fn spent(script: &str) -> std::collections::BTreeMap<(String, Option<String>), u64> {
    let script = Script::read(script);
    let dir = tempfile::tempdir().expect("a folder");
    let dirs = [dir.path().join("t")];
    script.write(&dirs[0]);
    let folder = Folder::open(&dirs).expect("opened");
    let index = Index::open(&folder, &dirs).expect("an index");
    let names = wakepath_analysis::names::Names::read(&folder);
    let (host, task) = script.tasks["A"];
    let slices = path_of(&index, HostId(host as u16), TaskId(task), Script::common(10), Script::common(65));
    let mut spent = std::collections::BTreeMap::new();
    let reader = wakepath_analysis::why::Reader::new(&folder, &index, &names);
    reader.read(&slices, None, &mut |what, detail, ns| {
        *spent.entry((what.cause.name().to_owned(), detail.by)).or_default() += ns;
    });
    spent
}

/// A thread of a JVM is let go on by the VM thread: where a collector's threads ran meanwhile, garbage was collected. Another process's
/// threads of such names say nothing.
#[test]
fn a_thread_that_its_vm_stopped_was_stopped_for_its_collector() {
    let script = |collector: &str, vm: &str| {
        format!(
            "host a\ntask A named java\ntask V of A at 1 {vm} named VM_Thread\ntask G of A at 1 thread named {collector}\n\
             A 10..60 61 task V futex\nV 5..12 12 task A futex\nV 15..50 51 task G futex\nG 2..16 16 task V futex\n\
             G 55..70 70 task V futex\nV 65..80 80 task A futex\nA 70..90 90 timer\n"
        )
    };
    let causes = |script: &str| {
        let mut causes: Vec<String> = spent(script).into_keys().map(|(cause, _)| cause).collect();
        causes.retain(|cause| cause != "cpu" && cause != "preempted");
        causes.dedup();
        causes
    };
    assert_eq!(causes(&script("G1_Conc", "thread")), ["gc"]);
    assert_eq!(causes(&script("C2_CompilerThre", "thread")), ["safepoint"]);
    assert_eq!(causes(&script("G1_Conc", "")), ["lock"]);
}

/// Who lets a waiter for a file's lock have it was often queued for it itself: the lock was held by whom that waited for.
#[test]
fn a_file_lock_is_held_by_whom_the_whole_queue_waits_for() {
    let script = |call: &str| {
        format!(
            "host a\ntask A named app\ntask B named app\ntask H named hold\n\
             A 12..60 61 task B flock\nB 11..50 51 task H {call}\nH 5..48 48 timer\nB 62..70 70 timer\nA 70..90 90 timer\nH 50..80 80 timer\n"
        )
    };
    let held =
        |call: &str, who: &str| spent(&script(call)).get(&("lock".into(), Some(who.into()))).copied().unwrap_or(0);
    assert_eq!((held("flock", "hold"), held("flock", "app")), (38_000, 10_000));
    // who waits for something else meanwhile holds it
    assert_eq!((held("futex", "hold"), held("futex", "app")), (0, 48_000));
}

/// A thread waits for another one of its process, which waits for a database that waits for its disk: the thread waits for the other one.
/// Where the other one waits for the disk itself, the disk is the cause for both.
#[test]
fn who_waits_behind_another_service_does_not_wait_for_its_disk() {
    let script = |of: &str| {
        format!(
            "host a\ntask A named app\ntask B of A at 1 thread\ntask D {of}\n\
             A 10..60 61 task B futex\nB 11..55 56 task D read\nD 5..50 51 disk fdatasync\nB 62..70 70 timer\nA 70..90 90 timer\n\
             D 57..80 80 timer\n"
        )
    };
    let sums = |script: &str| {
        let mut sums = std::collections::BTreeMap::<String, u64>::new();
        spent(script).into_iter().for_each(|((cause, _), ns)| *sums.entry(cause).or_default() += ns);
        let of = |cause: &str| sums.get(cause).copied().unwrap_or_default();
        (of("futex") + of("lock") > 35_000, of("disk") > 35_000)
    };
    assert_eq!(sums(&script("named db")), (true, false));
    assert_eq!(sums(&script("of A at 1 thread")), (false, true));
}
