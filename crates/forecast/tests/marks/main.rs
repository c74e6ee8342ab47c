//! From marks to a system: every folder `tests/golden/forecast.marks/*` is a test with marks and what is derived of them
//! (`UPDATE_GOLDEN=1` writes that), and laws that hold for any recording.

mod laws;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use wakepath_forecast::derive::marks::{self, Error};
use wakepath_forecast::derived::{Derived, Model};
use wakepath_forecast::outcome::{Outcome, Place};
use wakepath_forecast::replay::{Options, replay};
use wakepath_forecast::system::{NOT_SEEN, Runs, StateId, Step, System};
use wakepath_model::folder::{Folder, FolderWriter, HostInfo};
use wakepath_testkit::marks::write;

/// A folder with these marks; the first is where it lies.
fn folder(text: &str) -> (tempfile::TempDir, Folder) {
    let dir = tempfile::tempdir().unwrap();
    write(text, &dir.path().join("t")).unwrap();
    let folder = Folder::open(&[dir.path().join("t")]).unwrap();
    (dir, folder)
}

fn derived(text: &str, between: Option<(&str, &str)>) -> Result<Derived, Error> {
    let (dir, folder) = folder(text);
    let made = marks::derive(
        &folder,
        &marks::Options { between, times: (None, None), steps_max: 1 << 20, directory: dir.path() },
    )?;
    // what its warnings alone are is the same
    let alone = marks::check(&folder)?;
    assert!(between.is_some() || alone == made.warnings);
    Ok(made)
}

fn system(made: &Derived) -> &System {
    match &made.model {
        Model::Machines(system) => system,
        Model::Jobs(_) => panic!("marks are machines"),
    }
}

fn after(latency_ns: u64) -> String {
    if latency_ns == NOT_SEEN { String::new() } else { format!(" after {latency_ns}") }
}

fn step(system: &System, step: Step) -> String {
    match step {
        Step::Work { state, ns } => format!("{ns} {:?}", system.states[state.index()].state),
        Step::Enqueue { queue, count, latency_ns } => {
            format!("+{count} {:?}{}", system.queues[queue.index()].name, after(latency_ns))
        }
        Step::Dequeue { queue, count, latency_ns } => {
            format!("-{count} {:?}{}", system.queues[queue.index()].name, after(latency_ns))
        }
        Step::Begin { kind } => format!("begin {:?}", system.kinds[kind.index()]),
        other => format!("{other:?}"),
    }
}

fn place(system: &System, place: Place) -> String {
    let state = |s: &wakepath_forecast::system::State| format!("{}/{}/{}", s.host, s.process, s.state);
    match place {
        Place::State(s) => state(&system.states[s.index()]),
        Place::Station(s) => system.stations[s.index()].name.clone(),
        Place::Queue(q) => format!("way through {}", system.queues[q.index()].name),
        Place::Full(q) => format!("room in {}", system.queues[q.index()].name),
    }
}

/// A system and its replay for people.
fn shown(made: &Derived) -> String {
    let system = system(made);
    let mut out = String::new();
    let m = &made.measured;
    writeln!(out, "measured {} {:?} in {}, mean {}", m.count, m.unit, m.elapsed_ns, m.latency.mean()).unwrap();
    for q in &system.queues {
        writeln!(out, "queue {:?} initial {} room {:?}", q.name, q.initial, q.capacity).unwrap();
    }
    for a in &system.actors {
        let Runs::Script(script) = a.runs else { panic!("{a:?}") };
        writeln!(out, "{} from {}", a.name, a.start_ns).unwrap();
        for s in &system.steps[system.scripts[script.index()].clone()] {
            writeln!(out, "    {}", step(system, *s)).unwrap();
        }
    }
    let outcome: Outcome = replay(system, &Options::default());
    writeln!(
        out,
        "replayed in {}, {} transactions, stuck {:?}",
        outcome.elapsed_ns, outcome.transactions, outcome.stuck
    )
    .unwrap();
    for s in &outcome.path {
        writeln!(out, "    {} {}", s.ns, place(system, s.place)).unwrap();
    }
    for l in &outcome.loops {
        writeln!(out, "loop by {} {} in {} rounds", system.queues[l.closed_by.index()].name, l.ns, l.count).unwrap();
    }
    out
}

fn cases() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/forecast.marks");
    let mut cases: Vec<PathBuf> = std::fs::read_dir(&root).unwrap().map(|e| e.unwrap().path()).collect();
    cases.sort();
    assert!(!cases.is_empty());
    cases.into_iter().map(|c| (c.clone(), std::fs::read_to_string(c.join("input.marks")).unwrap())).collect()
}

#[test]
fn golden_marks() {
    for (case, text) in cases() {
        let made = derived(&text, None).unwrap();
        let mut got = shown(&made);
        for w in &made.warnings {
            writeln!(got, "{} {}: {}", w.defect, w.count, w.place()).unwrap();
        }
        for f in &made.flows {
            writeln!(got, "flow {} items: {}", f.items, f.machines.join(", ")).unwrap();
        }
        let between = case.join("between.txt");
        if let Ok(asked) = std::fs::read_to_string(between) {
            let (a, b) = asked.trim().split_once(' ').unwrap();
            writeln!(got, "\nbetween {a} and {b}: {}", shown(&derived(&text, Some((a, b))).unwrap())).unwrap();
        }
        wakepath_testkit::golden::holds(&case, &got);
    }
}

/// Whatever contradicts itself in the marks, nobody waits forever.
#[test]
fn what_is_derived_can_be_replayed() {
    for (case, text) in cases() {
        let made = derived(&text, None).unwrap();
        let outcome = replay(system(&made), &Options::default());
        assert!(outcome.stuck.is_empty(), "{}: {:?}", case.display(), outcome.stuck);
    }
}

fn text_of(figure: &str) -> String {
    cases().into_iter().find(|(c, _)| c.ends_with(figure)).unwrap().1
}

#[test]
fn the_papers_figures() {
    let figure_3 = derived(&text_of("figure_3"), None).unwrap();
    let outcome = replay(system(&figure_3), &Options::default());
    // 13 units waiting, with weight 0, and an edge of 2
    assert_eq!((outcome.elapsed_ns, outcome.queues[0].waited_items_ns), (18, 13));
    let way = |s: &&wakepath_forecast::outcome::Share| matches!(s.place, Place::Queue(_));
    assert_eq!(outcome.path.iter().find(way).map(|s| s.ns), Some(2));

    let rounds = |name: &str| {
        let made = derived(&text_of(name), None).unwrap();
        let outcome = replay(system(&made), &Options::default());
        (outcome.kinds[0].latency.max(), outcome.loops.len(), made)
    };
    let (one, loops, made) = rounds("figure_4_one_buffer");
    assert_eq!((one, loops), (11, 1));
    let (two, loops, _) = rounds("figure_4_two_buffers");
    assert_eq!((two, loops), (7, 0));
    // and from the recording with one buffer, given another
    let mut changed = system(&made).clone();
    let credit = changed.queues.iter_mut().find(|q| q.name == "credit").unwrap();
    credit.initial += 1;
    assert_eq!(replay(&changed, &Options::default()).kinds[0].latency.max(), 7);
}

/// What others do to a machine that serves them too is where it was, and nothing of it is on a path to them.
#[test]
fn a_path_between_two_machines_takes_as_long_as_it_took() {
    let text = text_of("shared_driver");
    for (from, to, ns) in [("client[1]", "server[9]", 56), ("client[2]", "server[8]", 32)] {
        let made = derived(&text, Some((from, to))).unwrap();
        let outcome = replay(system(&made), &Options::default());
        assert_eq!((outcome.elapsed_ns, made.measured.elapsed_ns), (ns, ns));
        let foreign = if from == "client[1]" { "[2]" } else { "[1]" };
        assert!(system(&made).actors.iter().all(|a| !a.name.ends_with(foreign)), "{:?}", system(&made).actors);
        assert!(outcome.stuck.is_empty(), "{:?}", outcome.stuck);
    }
}

#[test]
fn names_of_nobody_are_refused_with_those_that_are_there() {
    let text = text_of("shared_driver");
    let Err(Error::NoMachine(name, known)) = derived(&text, Some(("client[1]", "server[7]"))) else { panic!() };
    assert_eq!(name, "server[7]");
    assert!(known.contains("db/server[9]"), "{known}");
    let dir = tempfile::tempdir().unwrap();
    FolderWriter::create(dir.path().join("t"), HostInfo::default(), Default::default()).unwrap().close().unwrap();
    let none = Folder::open(&[dir.path().join("t")]).unwrap();
    assert!(matches!(marks::check(&none), Err(Error::NoMarks)) && !marks::has_marks(&none));
}

/// A recording that does not fit into memory is replayed from disk, with the same outcome.
#[test]
fn steps_on_disk_are_the_same_steps() {
    for (case, text) in cases() {
        let (dir, folder) = folder(&text);
        let of = |steps_max| {
            marks::derive(
                &folder,
                &marks::Options { between: None, times: (None, None), steps_max, directory: dir.path() },
            )
            .unwrap()
        };
        let (all, one) = (of(1 << 20), of(1));
        let in_memory = replay(system(&all), &Options::default());
        let steps = (system(&all).steps.len(), system(&one).steps.len());
        assert!(steps.0 <= 1 && system(&one).spooled.is_none() || steps.1 == 0 && system(&one).spooled.is_some());
        let on_disk = replay(system(&one), &Options::default());
        assert_eq!(format!("{in_memory:?}"), format!("{on_disk:?}"), "{}", case.display());
        // and so do changes
        for state in (0..system(&all).states.len() as u32).map(StateId) {
            let changed = |made: &Derived| {
                let mut changed = system(made).clone();
                let (before, of) = (changed.work(|s| s == state), |s| s == state);
                assert_eq!(changed.scale_work(of, 3.0), before);
                assert_eq!(changed.work(of), (before.0, before.1 * 3));
                format!("{:?}", replay(&changed, &Options::default()))
            };
            assert_eq!(changed(&all), changed(&one), "{}", case.display());
        }
    }
}
