//! `wakepath import`, on traces of our own and of other people.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{Tested, check, run, stderr, stdout};
use wakepath_analysis::active_path::{active_path, lifetime};
use wakepath_decode::readers::ctf;
use wakepath_graph::Index;
use wakepath_model::folder::{Folder, Host};
use wakepath_model::ids::HostId;
use wakepath_model::rows::{EndedBy, Event, PacketRow, Table, TaskRow, WaitRow};
use wakepath_testkit::data;

/// Our own trace: `a` has one processor, `b` handles interrupts in threads.
fn guests() -> tempfile::TempDir {
    data::unpacked(&data::own("lttng/guests.tar.gz"))
}

/// Unpacks other people's trace.
fn unpacked(name: &str) -> tempfile::TempDir {
    data::unpacked(&data::others(&format!("lttng/{name}.tar.gz")))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// Imports a folder, and gives it with what was said.
fn imported(source: &Path, out: &Path) -> (Folder, String) {
    let output = run(&["import", text(source), "-o", text(out)]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    (Folder::open(&[out]).expect("the folder opens"), said)
}

/// The events that import says to have read, by host.
fn said_events(said: &str) -> BTreeMap<String, u64> {
    let lines = said.lines().filter_map(|l| l.split_once(" events read")?.0.split_once(": "));
    let digits = |s: &str| s.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0);
    lines.map(|(host, count)| (host.to_owned(), digits(count))).collect()
}

/// The events that babeltrace2 reads; `None`, and said so, where it is not installed.
fn counted(trace: &Path) -> Option<u64> {
    let run = Command::new("babeltrace2").arg(trace).stdin(Stdio::null()).output();
    let Ok(output) = run else {
        println!("skipped: no babeltrace2 to count the events of {}", trace.display());
        return None;
    };
    Some(output.stdout.split(|&b| b == b'\n').filter(|l| l.starts_with(b"[")).count() as u64)
}

fn waits(host: &Host) -> Vec<WaitRow> {
    host.events(Table::Wait.into(), ..).filter_map(|e| if let Event::Wait(w) = e { Some(w) } else { None }).collect()
}

fn tasks(host: &Host) -> Vec<TaskRow> {
    host.events(Table::Task.into(), ..).filter_map(|e| if let Event::Task(t) = e { Some(t) } else { None }).collect()
}

/// Waits of a task follow each other; returns how many there are.
fn tile(host: &Host) -> usize {
    let mut by_task: BTreeMap<u32, Vec<WaitRow>> = BTreeMap::new();
    for w in waits(host) {
        assert!(w.blocked <= w.woken && w.woken <= w.at, "{w:?}");
        by_task.entry(w.task.0).or_default().push(w);
    }
    for waits in by_task.values_mut() {
        waits.sort_by_key(|w| (w.blocked, w.at));
        for pair in waits.windows(2) {
            assert!(pair[0].at <= pair[1].blocked, "{pair:?}");
        }
    }
    by_task.values().map(Vec::len).sum()
}

fn caused_by(host: &Host, cause: EndedBy) -> usize {
    waits(host).iter().filter(|w| w.cause == cause).count()
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn three_hosts_of_one_folder() -> Tested {
    let dir = unpacked("django-vote");
    let out = dir.path().join("out");
    let (folder, said) = imported(&dir.path().join("django-vote"), &out);
    assert_eq!(folder.hosts().len(), 3, "{said}");
    if let Some(events) = counted(&dir.path().join("django-vote")) {
        assert_eq!(said_events(&said).values().sum::<u64>(), events, "{said}");
    }
    for host in folder.hosts() {
        assert!(tile(host) > 100);
        assert!(
            caused_by(host, EndedBy::Task) > 10 && caused_by(host, EndedBy::Timer) > 10,
            "{}",
            host.info().hostname
        );
    }
    let client = folder.hosts().iter().find(|h| h.info().hostname.contains("client")).expect("the client");
    let python = tasks(client).into_iter().find(|t| t.tid == 2327).expect("TID 2327");
    let of_python: Vec<_> = waits(client).into_iter().filter(|w| w.task == python.task).collect();
    assert!(of_python.iter().any(|w| w.cause == EndedBy::Packet), "a packet wakes it");
    assert!(said.contains("next: wakepath sync"), "{said}");
    assert!(said.contains("next: wakepath waits"), "{said}");
    Ok(())
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn two_recordings_of_one_boot_are_one_host() -> Tested {
    let dir = unpacked("wget-pair");
    let (folder, said) = imported(dir.path(), &dir.path().join("out"));
    assert_eq!(folder.hosts().len(), 1, "{said}");
    let host = &folder.hosts()[0];
    assert!(tile(host) > 1000);
    // it has no waking events, and says so
    assert!(said.contains("import.no_waking"), "{said}");
    // no wait bridges the time between the two
    let longest = waits(host).iter().map(|w| w.at.0 - w.blocked.0).max().unwrap_or(0);
    assert!(longest < 120_000_000_000, "{longest}");
    Ok(())
}

#[test]
fn packets_have_the_same_key_on_both_hosts() {
    have_the_same_keys(guests().path(), 50);
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn packets_of_others_hosts_have_the_same_key() {
    have_the_same_keys(unpacked("guests-wget").path(), 100);
}

/// At least so many TCP packets each way are found on both hosts.
fn have_the_same_keys(source: &Path, least: usize) {
    let out = tempfile::tempdir().expect("a temporary folder");
    let (folder, said) = imported(source, &out.path().join("out"));
    assert_eq!(folder.hosts().len(), 2, "{said}");
    let keys = |host: &Host, wanted: u8| -> BTreeMap<u64, u64> {
        let rows = host.events(Table::Packet.into(), ..);
        let packets = rows.filter_map(|e| if let Event::Packet(p) = e { Some(p) } else { None });
        packets.filter(|p| p.sent == wanted && p.protocol == 6).map(|p| (p.key, p.id)).collect()
    };
    let (a, b) = (&folder.hosts()[0], &folder.hosts()[1]);
    for (from, to) in [(a, b), (b, a)] {
        let (sent, received) = (keys(from, 1), keys(to, 0));
        let both = sent.keys().filter(|k| received.contains_key(k)).count();
        assert!(both >= least, "{both} of {} TCP packets", sent.len());
        tile(from);
    }
    assert!(caused_by(a, EndedBy::Packet) >= 30, "{}", caused_by(a, EndedBy::Packet));
}

/// On `b`, each line's thread is woken by its line alone, after the end of the line's handler, whatever that interrupted.
#[test]
fn threads_of_interrupts_are_woken_by_their_lines() -> Tested {
    let dir = guests();
    let (folder, said) = imported(dir.path(), &dir.path().join("out"));
    let [a, b] = folder.hosts() else { return Err(said.into()) };
    assert_eq!(a.info().cpus, 1, "{said}");
    if let Some(events) = counted(dir.path()) {
        assert_eq!(said_events(&said).values().sum::<u64>(), events, "{said}");
    }
    let mut by_line = 0;
    for t in tasks(b) {
        let name = String::from_utf8_lossy(b.text(t.comm).as_bytes()).into_owned();
        let Some(line) = name.strip_prefix("irq/").and_then(|n| n.split_once('-')?.0.parse::<u64>().ok()) else {
            continue;
        };
        // what a wait that began before the trace was for, and one that goes on, is not seen
        let of_it = |w: &WaitRow| w.task == t.task && w.state == 1 && w.cause != EndedBy::Open;
        for w in waits(b).iter().filter(|w| of_it(w)) {
            assert_eq!((w.cause, w.object), (EndedBy::Irq, line), "{name}: {w:?}");
            by_line += 1;
        }
    }
    assert!(by_line > 50, "{by_line}");
    // what came in there was received in those threads, and woke from there
    assert!(caused_by(b, EndedBy::Packet) > 10, "{}", caused_by(b, EndedBy::Packet));
    Ok(())
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn a_modern_kernel() -> Tested {
    let dir = unpacked("kernel-6.2");
    let (folder, said) = imported(dir.path(), &dir.path().join("out"));
    let host = &folder.hosts()[0];
    if let Some(events) = counted(&dir.path().join("traces/kernel")) {
        assert_eq!(said_events(&said).values().sum::<u64>(), events, "{said}");
    }
    assert!(tile(host) > 1000);
    assert!(caused_by(host, EndedBy::Block) > 0 && caused_by(host, EndedBy::Preempted) > 0);
    assert_eq!(caused_by(host, EndedBy::Socket), 0);
    Ok(())
}

#[test]
fn tasks_that_slept_before_the_trace_were_not_stopped_by_a_signal() -> Tested {
    let trace = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/read.perf/file/perf.data"));
    let dir = tempfile::tempdir()?;
    let out = dir.path().join("out");
    imported(&trace, &out);
    let document = check("open", &stdout(&run(&["open", text(&out), "--json"])));
    assert_eq!(document["waits"].as_array().map(Vec::len), Some(0), "{document}");
    let idle = document["idle"].as_array().ok_or("no idle tasks")?;
    assert!(idle.iter().any(|i| i["waits_for"] == "unseen" && i["tasks"].as_u64() > Some(0)), "{document}");
    Ok(())
}

#[test]
fn json_tells_what_was_read_and_lost() -> Tested {
    let golden = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/read.ftrace"));
    let (whole, lossy) = (golden.join("v6/trace.dat"), golden.join("v7_lost/trace.dat"));
    let dir = tempfile::tempdir()?;
    let out = dir.path().join("out");
    let (web, db) = (format!("web={}", text(&whole)), format!("db={}", text(&lossy)));
    let args = ["import", "--host", &web, "--host", &db, "--json", "-o", text(&out)];
    let output = run(&args);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    let document = check("import", &stdout(&output));
    assert_eq!((&document["schema"], &document["output"]), (&"wakepath.import/1".into(), &text(&out).into()));
    let hosts = document["hosts"].as_array().ok_or("no hosts")?;
    let folder = Folder::open(&[&out])?;
    assert_eq!(hosts.len(), folder.hosts().len());
    for ((of, name), trace) in hosts.iter().zip(["web", "db"]).zip([&whole, &lossy]) {
        assert_eq!(of["host"], name);
        let source = &of["sources"][0];
        assert_eq!((&source["path"], &source["format"]), (&text(trace).into(), &"trace.dat".into()));
        let bytes = source["bytes"].as_u64().ok_or("no bytes")?;
        assert!(bytes > 0 && bytes <= std::fs::metadata(trace)?.len(), "{source}");
        let host = folder.hosts().iter().find(|h| h.info().hostname == name).ok_or("no such host")?;
        assert_eq!((&of["boot_id"], &of["waits"]), (&host.info().boot_id.clone().into(), &waits(host).len().into()));
        let names = of["names"].as_array().ok_or("no names")?;
        let named: u64 = names.iter().filter_map(|n| n["count"].as_u64()).sum();
        assert_eq!(of["events"].as_u64(), Some(named));
        assert!(of["from_ns"].as_u64() <= of["to_ns"].as_u64());
    }
    assert_eq!(hosts[0]["events_lost"], 0);
    let lost = hosts[1]["events_lost"].as_u64().unwrap_or(0);
    let losses = document["losses"].as_array().ok_or("no losses")?;
    let told = losses.iter().find(|l| l["id"] == "loss.trace.events").ok_or("no loss is told")?;
    assert!(lost > 0 && told["count"] == lost && told["host"] == "db", "{lost}: {told}");

    assert_eq!(run(&[&args[..], &["--force", "--strict"]].concat()).status.code(), Some(3));
    let text_form: Vec<&str> = args.into_iter().filter(|a| *a != "--json").chain(["--force"]).collect();
    let said = run(&text_form);
    assert!(said.stdout.is_empty() && stderr(&said).contains("events read"), "{}", stderr(&said));
    Ok(())
}

#[test]
fn what_cannot_be_imported_says_what_to_do() -> Tested {
    let dir = tempfile::tempdir()?;
    let out = dir.path().join("out");
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty)?;
    let file = |name: &str, bytes: &[u8]| -> std::io::Result<PathBuf> {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes)?;
        Ok(path)
    };
    for (source, says) in [
        (dir.path().join("nothing"), "no such file"),
        (empty, "holds no CTF trace"),
        (file("a", b"")?, "empty"),
        (file("b", b"\x1f\x8b\x08\0\0\0")?, "unpack it first"),
        (file("c", b"wget 12 [000] sched:sched_switch")?, "not a trace"),
        (file("d", b"/* CTF 1.8 */ nonsense")?, "metadata"),
    ] {
        let output = run(&["import", text(&source), "-o", text(&out)]);
        assert_eq!(output.status.code(), Some(1), "{}", source.display());
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
        assert!(!out.exists(), "{} leaves a folder", source.display());
    }
    for args in [&["import", "-o", "x"][..], &["import", "x"], &["import", "--host", "x", "-o", "y"]] {
        assert_eq!(run(args).status.code(), Some(2), "{args:?}");
    }
    Ok(())
}

#[test]
fn output_that_exists_is_not_overwritten_unasked() -> Tested {
    let dir = guests();
    let named = |name: &str| format!("tr-{name}={}", dir.path().join("guests").join(name).display());
    let (a, b) = (named("a"), named("b"));
    let out = dir.path().join("out");
    let import = |args: &[&str]| run(&[&["import", "-o", text(&out)], args].concat());
    assert_eq!(import(&["--host", &a]).status.code(), Some(0));
    let again = import(&["--host", &a]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("--force") && stderr(&again).contains("--append"), "{}", stderr(&again));
    assert_eq!(import(&["--host", &b, "--append"]).status.code(), Some(0));
    let names = || -> Vec<String> {
        let folder = Folder::open(&[&out]).expect("it opens");
        folder.hosts().iter().map(|h| h.info().hostname.clone()).collect()
    };
    assert_eq!(names(), ["tr-a", "tr-b"]);
    assert_eq!(import(&["--host", &b, "--force"]).status.code(), Some(0));
    assert_eq!(names(), ["tr-b"]);
    Ok(())
}

/// A field of an event.
fn field<'v>(event: &'v ctf::Event<'_>, name: &str) -> Option<&'v ctf::Value> {
    let ctf::Value::Fields(fields) = event.parts[2].as_ref()? else { return None };
    fields.iter().find(|(n, _)| &**n == name).map(|(_, value)| value)
}

/// How long a task of this name slept for the answers to what it sent to port 53, each time until it was woken; nothing but
/// the trace's own events says so. `None` where the trace does not show it asking.
fn slept_for_names(kernel: &Path, comm: &str) -> Option<u64> {
    let is = |e: &ctf::Event<'_>, name: &str| matches!(field(e, name), Some(ctf::Value::Text(text)) if text.split(|b| *b == 0).next() == Some(comm.as_bytes()));
    let stream = |path: PathBuf| {
        let name = path.file_name()?.to_str().filter(|n| ctf::is_stream(n) && path.is_file())?.to_owned();
        Some((name, Box::new(std::fs::read(path).ok()?) as Box<_>))
    };
    let entries = std::fs::read_dir(kernel).ok()?.flatten();
    let source = ctf::Source {
        name: String::new(),
        metadata: std::fs::read(kernel.join("metadata")).ok()?,
        streams: entries.filter_map(|e| stream(e.path())).collect(),
    };
    let (mut on, mut asks, mut since, mut slept) = (None, false, None, None);
    ctf::CtfReader::new(vec![source]).ok()?.each(&mut |e| match e.name {
        "sched_switch" => {
            if is(e, "prev_comm") {
                (on, since) = (None, asks.then_some(e.at_ns));
            }
            if is(e, "next_comm") {
                on = Some(e.cpu);
            }
        }
        "sched_wakeup" if is(e, "comm") => {
            let total = slept.unwrap_or(0) + since.take().map_or(0, |since| e.at_ns - since);
            slept = (asks || slept.is_some()).then_some(total);
        }
        "syscall_entry_connect" if on == Some(e.cpu) => {
            asks = matches!(field(e, "dport"), Some(ctf::Value::Int(53, _)));
        }
        "syscall_entry_socket" if on == Some(e.cpu) => asks = false,
        _ => {}
    });
    slept
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn the_wait_for_a_name_is_told_as_one_and_is_as_long_as_it_was() -> Tested {
    let dir = unpacked("wget-pair");
    let mut kernels = Vec::new();
    let mut folders = vec![dir.path().to_owned()];
    while let Some(folder) = folders.pop() {
        let inside: Vec<PathBuf> = std::fs::read_dir(&folder)?.flatten().map(|e| e.path()).collect();
        kernels.extend(inside.iter().any(|p| p.ends_with("metadata")).then_some(folder));
        folders.extend(inside.into_iter().filter(|p| p.is_dir()));
    }
    kernels.sort();
    let [slow, fast] = &kernels[..] else { return Err(format!("not a pair: {kernels:?}").into()) };
    let slept = slept_for_names(slow, "wget").ok_or("the slow one does not ask")?;
    assert!(slept > 0);
    let (before, after) = (dir.path().join("fast"), dir.path().join("slow"));
    imported(fast, &before);
    imported(slow, &after);
    let output = run(&["why", text(&before), text(&after), "--task", "wget", "--limit", "0", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document = check("why", &stdout(&output));
    let differences = document["kinds"][0]["differences"].as_array().ok_or("no differences")?;
    let dns: Vec<_> = differences.iter().filter(|d| d["cause"] == "dns").collect();
    let [dns] = dns[..] else { return Err(format!("{} differences are name servers'", dns.len()).into()) };
    assert_eq!(dns["service"], "wget");
    let told = dns["text"].as_str().ok_or("no text")?;
    assert!(told.starts_with("wget waiting for the DNS name server") && told.contains(":53"), "{told}");
    assert_eq!(dns["slow_ns"].as_u64(), Some(slept), "{dns}");
    // it asked again and the answers were there sooner; the rest of the difference is another's
    let typical = dns["typical_ns"].as_u64().ok_or("no typical time")?;
    assert!(typical < slept && dns["more_ns"].as_u64() == Some(slept - typical), "{dns}");

    // the trace has no UDP header: its calls tell the port
    let folder = Folder::open(&[&after])?;
    let host = &folder.hosts()[0];
    let asker = tasks(host).into_iter().find(|t| host.text(t.comm) == "wget").ok_or("no wget")?;
    let packets: Vec<PacketRow> = host
        .events(Table::Packet.into(), ..)
        .filter_map(|e| if let Event::Packet(p) = e { Some(p) } else { None })
        .filter(|p| p.protocol == 17)
        .collect();
    let asked = packets.iter().filter(|p| p.sent == 1 && p.task == asker.task && p.dport == 53).count();
    let its: Vec<WaitRow> =
        waits(host).into_iter().filter(|w| w.task == asker.task && w.cause == EndedBy::Packet).collect();
    let woken_by = |p: &&PacketRow| its.iter().any(|w| w.object == p.id);
    let answered: Vec<_> = packets.iter().filter(|p| p.sent == 0).filter(woken_by).map(|p| p.sport).collect();
    assert!(asked > 0 && !answered.is_empty() && answered.iter().all(|p| *p == 53), "{asked}, {answered:?}");
    Ok(())
}

/// Active paths of tasks told at most, of each trace and all in all.
const PATHS_MAX: usize = 400;

/// The active path of each task of a folder has neither gap nor overlap and is as long as the time that elapsed.
fn every_path_adds_up(out: &Path, folder: &Folder) -> (usize, u64) {
    let index = Index::open(folder, &[out.to_owned()]).expect("the index is made");
    let (mut paths, mut slices) = (0, 0);
    for (host, id) in folder.hosts().iter().zip(0u16..) {
        let tasks: std::collections::BTreeSet<_> = tasks(host).iter().map(|t| t.task).collect();
        let step = (tasks.len() * folder.hosts().len()).div_ceil(PATHS_MAX).max(1);
        for task in tasks.into_iter().step_by(step) {
            let Some((from, to)) = lifetime(&index, HostId(id), task) else { continue };
            let (mut at, mut sum) = (from, 0);
            active_path(&index, HostId(id), task, from, to, &mut |s| {
                assert!(s.from == at && s.to > s.from, "{task:?} of host {id}: {s:?} behind {at:?}");
                at = s.to;
                sum += s.duration_ns();
                slices += 1;
            });
            assert_eq!((at, sum), (to, to.0.abs_diff(from.0)), "{task:?} of host {id}");
            paths += 1;
        }
    }
    assert_eq!(index.failed_reads(), 0);
    (paths, slices)
}

/// Imports a trace and adds up the active paths of its tasks.
fn paths_add_up(name: &str, trace: &Path) {
    let out = tempfile::tempdir().expect("a temporary folder");
    let out = out.path().join("out");
    let (folder, _) = imported(trace, &out);
    let (paths, slices) = every_path_adds_up(&out, &folder);
    println!("{name}: {paths} active paths, {slices} slices");
    assert!(paths > 20 && slices > 1000, "{name}: {paths} active paths, {slices} slices");
}

#[test]
fn slices_of_every_active_path_add_up() {
    paths_add_up("guests", guests().path());
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn slices_of_every_active_path_of_others_add_up() {
    for name in ["django-vote", "guests-wget", "kernel-6.2", "wget-pair"] {
        paths_add_up(name, unpacked(name).path());
    }
}
