//! Offsets in the memory of runtimes that are wrong: nothing that is read by them may be believed.

use crate::harness::*;
use crate::runtimes::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use wakepath_capture::{KernelOptions, KernelSource, Watch, monotonic_ns};
use wakepath_wire as w;

/// The numbers of tasks, for each connection and kind of operation.
type Names = BTreeMap<(u64, u8), Vec<u64>>;

/// In whose names a server's operations are, by connection and kind, if its logical tasks are where this layout says.
fn named(source: &mut KernelSource, server: &Server, layout: &w::Runtime) -> Names {
    let (tgid, mut named) = (server.0.id(), Names::new());
    source.read_identities(tgid, layout).expect("room");
    // the end of a connection of the round before may have been named by that round's layout, and be read only now
    let since = monotonic_ns();
    ask(server.1, "/x/");
    source.drain(monotonic_ns(), |f| {
        let head = f.head().filter(|h| h.kind == w::KIND_OP && h.sub & w::SUB_LOGICAL != 0);
        let Some(op) = head.and_then(|_| f.read::<w::Op>()) else { return };
        if op.tgid == tgid && op.ts_ns.saturating_sub(w::ago_ns(op.entry_ago_ns)) >= since {
            let who = w::view::<w::Logical>(f.tail::<w::Op>(f.bytes.len())).expect("the head says so");
            named.entry((op.flow, op.head.sub & !w::SUB_LOGICAL)).or_default().push(who.key);
        }
    });
    named
}

type Offset = fn(&mut w::Runtime) -> &mut u32;

/// Nobody is named on any connection.
fn is_nobody(named: &Names) -> bool {
    named.is_empty()
}

/// One task replies on each connection, and no two are the same one's.
fn has_its_own(named: &Names) -> bool {
    let replies: Vec<_> = named.iter().filter(|((_, kind), _)| *kind == w::OP_SEND).map(|(_, keys)| keys).collect();
    let tasks: BTreeSet<u64> = replies.iter().copied().flatten().copied().collect();
    replies.iter().all(|keys| keys.iter().all(|&k| k == keys[0])) && tasks.len() == replies.len()
}

/// What a server's tasks are named where one of these is another by so many bytes.
fn are_named_where_wrong(program: &[PathBuf], fields: &[(&str, u32, Offset)], are: impl Fn(&Names) -> bool) {
    let server = serve(program, &["down"]);
    let watch = Watch::Processes(vec![server.0.id()]);
    let options = KernelOptions { head_bytes: 0, waits: false, watch, ..KernelOptions::default() };
    let mut source = match KernelSource::attach(&options) {
        Ok(source) => source,
        Err(e) => return skip(&e.to_string()),
    };
    let mut right = wakepath_runtimes::of_process(server.0.id()).and_then(|r| r.layout.ok()).expect("it is known");
    // of contexts nothing is read without; those that are older than the probes are named too
    right.is_marked = u32::from(right.kind == u32::from(w::RUNTIME_PYTHON));
    let with_all = named(&mut source, &server, &right);
    assert!(with_all.values().map(Vec::len).sum::<usize>() >= CLIENTS * REQUESTS, "{with_all:?}");
    for &(name, by, field) in fields {
        for down in [false, true] {
            let mut wrong = right;
            let offset = field(&mut wrong);
            *offset = if down { offset.wrapping_sub(by) } else { offset.wrapping_add(by) };
            let found = named(&mut source, &server, &wrong);
            assert!(are(&found), "{name} {wrong:?}: {found:?}");
        }
    }
}

#[test]
fn no_virtual_thread_is_believed_where_an_offset_is_wrong() {
    let classes = tempfile::tempdir().expect("a folder");
    let Some(program) = java_service("25", classes.path(), "testbeds/virtual/Service.java", "Service") else { return };
    are_named_where_wrong(
        &program,
        &[
            ("module", 1, |r| &mut r.module),
            ("thread_word", 8, |r| &mut r.thread_word),
            ("thread_os", 8, |r| &mut r.thread_os),
            ("os_number", 8, |r| &mut r.os_number),
            ("thread_runs", 8, |r| &mut r.thread_runs),
            ("thread_is_virtual", 8, |r| &mut r.thread_is_virtual),
            ("thread_owner", 8, |r| &mut r.thread_owner),
        ],
        is_nobody,
    );
}

/// The thread's number does not guard the goroutine's: its state does, which stands before it.
#[test]
fn no_goroutine_is_believed_where_an_offset_is_wrong() {
    let Some(program) = service() else { return };
    let program = [program];
    let wrong: [(&str, u32, Offset); 4] = [
        ("tls", 8, |r| bytemuck::cast_mut(&mut r.tls)),
        ("g_m", 8, |r| &mut r.g_m),
        ("m_procid", 8, |r| &mut r.m_procid),
        ("g_goid", 8, |r| &mut r.g_goid),
    ];
    are_named_where_wrong(&program, &wrong, is_nobody);
    // these are asked on a scheduler's stack alone; and nothing is wrong where an offset is 0 bytes off
    let never: [(&str, u32, Offset); 3] =
        [("m_g0", 8, |r| &mut r.m_g0), ("m_curg", 8, |r| &mut r.m_curg), ("g_goid", 0, |r| &mut r.g_goid)];
    are_named_where_wrong(&program, &never, has_its_own);
}

#[test]
fn no_context_is_believed_where_an_offset_is_wrong() {
    let Some(program) = python("/usr/bin/python3") else { return };
    are_named_where_wrong(
        &program,
        &[
            ("python_key", 8, |r| &mut bytemuck::cast_mut::<u64, [u32; 2]>(&mut r.python_key)[0]),
            ("thread_values", 8, |r| &mut r.thread_values),
            ("state_context", 8, |r| &mut r.state_context),
            ("state_thread", 8, |r| &mut r.state_thread),
        ],
        is_nobody,
    );
    // this tells a thread's own context, in which no handler runs, from those that it entered
    are_named_where_wrong(&program, &[("context_entered", 8, |r| &mut r.context_entered)], |n| {
        is_nobody(n) || has_its_own(n)
    });
}

/// Its type guards a greenlet: no other object has it.
#[test]
fn no_greenlet_is_believed_where_an_offset_is_wrong() {
    let Some(program) = gevent() else { return };
    are_named_where_wrong(
        &program,
        &[
            ("module", 1, |r| &mut r.module),
            ("thread_word", 8, |r| &mut r.thread_word),
            ("greenlets", 8, |r| &mut bytemuck::cast_mut::<u64, [u32; 2]>(&mut r.greenlets)[0]),
            ("state_thread", 8, |r| &mut r.state_thread),
        ],
        is_nobody,
    );
}
