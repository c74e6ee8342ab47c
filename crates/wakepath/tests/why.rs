//! `wakepath why` and `wakepath open` as scripts and people meet them.

#[path = "support/gateway.rs"]
mod gateway;
mod support;

use gateway::{REQUESTS, folder, folder_with, script};
use serde_json::Value;
use std::fmt::Write as _;
use support::{Tested, check, run, stderr, stdout, widest};
use wakepath_model::ids::TaskId;
use wakepath_model::rows::{EndedBy, Event, WaitRow};
use wakepath_testkit::recording::{Cuts, HostRows};
use wakepath_testkit::script::play;
use wakepath_testkit::shapes::{Plan, Shape, simulate};

fn number(v: &Value) -> i64 {
    v.as_i64().expect("a number")
}

/// The differences and the rest are the whole, which is that of the averages.
fn adds_up(kind: &Value) {
    let told: i64 = kind["differences"].as_array().expect("a list").iter().map(|d| number(&d["more_ns"])).sum();
    assert_eq!(told + number(&kind["rest_ns"]), number(&kind["more_ns"]), "{kind:#}");
    let mean = |side: &str| number(&kind[side]["mean_ns"]);
    assert_eq!(mean("slow") - mean("typical"), number(&kind["more_ns"]));
}

#[test]
fn the_reason_of_the_slow_ones_comes_first() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "t", &script(5_000, 0));
    let output = run(&["why", &folder]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(widest(&text) <= 100 && !text.contains('\x1b'), "{text}");
    for part in ["The slowest 3 of the 60 requests", "store:81 sleeping", "3 of 3", "e.g. ", "Next: wakepath waits "] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    let document = check("why", &stdout(&run(&["why", "--json", &folder, "--slowest", "10%"])));
    let kind = &document["kinds"][0];
    adds_up(kind);
    let first = &kind["differences"][0];
    assert_eq!((&first["cause"], number(&first["more_ns"])), (&Value::from("timer"), 4_999_000), "{kind:#}");
    assert_eq!((number(&first["requests_with"]), number(&kind["slow"]["count"])), (6, 6));
    // what is named can be looked at
    let example = first["examples"][0].as_str().expect("an id");
    let waits = check("waits", &stdout(&run(&["waits", "--json", &folder, "--request", example])));
    assert!(number(&waits["elapsed_ns"]) > 5_000_000);
    Ok(())
}

/// Of the slowest, the longest lost an event each: only the others can be looked at, and they are not like them.
#[test]
fn who_could_be_looked_at_is_told_where_the_others_are_not_like_them() -> Tested {
    let dir = tempfile::tempdir()?;
    let whole = script(5_000, 0);
    let mut text = whole.clone();
    for n in REQUESTS + 1..=REQUESTS + 3 {
        let t = 1_000 + n as u64 * 30_000;
        let _ = writeln!(text, "{t} A woken by c since {}\n{} A takes r{n} c", t - 500, t + 10);
        let _ = writeln!(text, "~{} A asks q{n} d for r{n}\nlost {} {}", t + 20, t + 15, t + 25);
        let _ = writeln!(text, "{} D takes q{n}\n{} D answers q{n}", t + 60, t + 20_000);
        let _ = writeln!(text, "{} A woken by d since {}", t + 20_015, t + 30);
        let _ = writeln!(text, "{} A hears q{n}\n{} A answers r{n}", t + 20_020, t + 20_060);
    }
    let asked = |name: &str, text: &str, slowest: &str| {
        let folder = folder(dir.path(), name, text);
        let document = check("why", &stdout(&run(&["why", "--json", &folder, "--slowest", slowest])));
        (document["kinds"][0].clone(), stdout(&run(&["why", &folder, "--slowest", slowest])))
    };
    let (kind, told) = asked("some", &text, "10%");
    let (slow, sentence) = (&kind["slow"], kind["sentence"].as_str().expect("a sentence"));
    assert_eq!((number(&slow["count"]), number(&slow["incomplete"])), (4, 3), "{kind:#}");
    let (mean, all) = (number(&slow["mean_ns"]), number(&slow["all_mean_ns"]));
    assert!((5_000_000..5_400_000).contains(&mean) && (11_000_000..12_000_000).contains(&all), "{kind:#}");
    let (first, all) = ("the 4 with a complete path took 5.", " on average (with those left out: 11.");
    assert!(sentence.contains(first) && sentence.contains(all), "{sentence}");
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains(first) && told.contains(all), "{told}");
    // where none could be examined, no cause is given to programs either
    let (none, _) = asked("none", &text, "1%");
    assert!(none["sentence"].as_str().expect("a sentence").contains("nothing can be said"), "{none:#}");
    assert_eq!(
        (&none["differences"], number(&none["more_ns"]), number(&none["rest_ns"])),
        (&Value::from(Vec::<Value>::new()), 0, 0)
    );
    // nothing is said of the kind where all are whole
    let (kind, _) = asked("all", &whole, "10%");
    assert!(!kind["sentence"].as_str().expect("a sentence").contains("complete path"), "{kind:#}");
    Ok(())
}

/// Every tenth request waits 4 ms in the store D, in `epoll_wait`, until the store E, which slept itself, wakes it: a row lock. E serves on
/// a flow e, whose client `others` may be watched, an update before D waits, and the end of its transaction before it lets go.
fn row_lock(others: &str) -> String {
    let mut text = format!("task A front\ntask D store\ntask E store\n{others}\nflow c - A\nflow d A D\n");
    let is_watched = others.contains("task");
    for n in 1..=REQUESTS {
        let t = n as u64 * 10_000;
        let _ = writeln!(text, "{} A takes r{n} c\n{} A asks q{n} d for r{n}\n{} D takes q{n}", t + 10, t + 20, t + 50);
        let held = if n % 10 == 9 { 4_000 } else { 0 };
        let asks = |at: u64, name: char, text: &mut String| {
            if is_watched {
                let _ = writeln!(text, "{at} P asks {name}{n} e for -\n{} E takes {name}{n}", at + 3);
            } else {
                let _ = writeln!(text, "{} E takes {name}{n} e", at + 3);
            }
        };
        if held > 0 {
            asks(t + 22, 'u', &mut text);
            let _ = writeln!(text, "{} E answers u{n}\n{} E woken by timer since {}", t + 30, t + 50 + held, t + 40);
            // its own client ended the transaction: so it let go of what D waits for
            asks(t + 52 + held, 'x', &mut text);
            let _ = writeln!(text, "{} D woken by E since {}", t + 60 + held, t + 60);
            let _ = writeln!(text, "{} E answers x{n}", t + 70 + held);
        }
        let answered = t + 100 + held;
        let _ = writeln!(
            text,
            "{answered} D answers q{n}\n{} A hears q{n}\n{} A answers r{n}",
            answered + 20,
            answered + 60
        );
    }
    text
}

/// What ends a wait is seen in `epoll_wait`.
fn in_poll(row: &mut Event) {
    match row {
        Event::Wait(w) if w.cause == EndedBy::Task => w.syscall = 232,
        _ => {}
    }
}

#[test]
fn a_lock_between_processes_is_named() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder_with(dir.path(), "t", &row_lock("flow e - E"), &in_poll);
    let document = check("why", &stdout(&run(&["why", "--json", &folder, "--slowest", "10%"])));
    let kind = &document["kinds"][0];
    adds_up(kind);
    let first = &kind["differences"][0];
    assert_eq!((&first["cause"], &first["parts"][0]["by"]), (&Value::from("lock"), &Value::from("store")), "{first:#}");
    assert!(number(&first["more_ns"]) > 3_900_000, "{first:#}");
    let waits = check("waits", &stdout(&run(&["waits", "--json", &folder, "--request", "slowest"])));
    let behind = waits["slices"].as_array().expect("a list").iter().find(|s| s["evidence"] == "latch (by-rule)");
    let behind = behind.expect("the lock is followed");
    assert_eq!((&behind["wait"], &behind["state"]), (&Value::from("lock"), &Value::from("timer")), "{behind:#}");
    Ok(())
}

/// Who holds a row lock is a worker of a database: its client is who can let go, and its statement says where to look.
#[test]
fn the_holder_of_a_row_lock_has_a_client_and_a_statement() -> Tested {
    let dir = tempfile::tempdir()?;
    let watched = "task P psql\nflow e P E ports 40009 5432";
    for (client, others) in [("psql", watched), ("10.0.0.99", "flow e - E ports 40009 5432")] {
        let mut recording = play(&row_lock(others))?;
        for host in &mut recording.hosts {
            let [update, commit, vote] = ["/update", "/commit", "/vote"].map(|t| host.text(t));
            let of = |name: char, host: &mut HostRows| {
                (1..=REQUESTS).map(|n| host.text(&format!("/{name}{n}"))).collect::<Vec<_>>()
            };
            let (updates, commits) = (of('u', host), of('x', host));
            for row in &mut host.rows {
                in_poll(row);
                if let Event::Message(m) = row {
                    m.target = match m.target {
                        t if updates.contains(&t) => update,
                        t if commits.contains(&t) => commit,
                        _ => vote,
                    };
                }
            }
        }
        let dirs = recording.write(&dir.path().join(client), Cuts::default())?;
        let folder = dirs[0].to_str().ok_or("temporary paths are UTF-8")?;
        let asked = ["why", "--json", folder, "--kind", "GET /vote", "--slowest", "10%"];
        let document = check("why", &stdout(&run(&asked)));
        let first = &document["kinds"][0]["differences"][0];
        // not what ended the transaction: what it had asked when the wait began
        let object = format!("its client: {client}, its statement: GET /update");
        assert_eq!((&first["cause"], &first["object"]), (&Value::from("lock"), &Value::from(&*object)), "{first:#}");
        assert!(first["parts"].as_array().is_some_and(|p| p.iter().all(|p| p["object"] == *object)), "{first:#}");
        let text = stdout(&run(&["why", folder, "--kind", "GET /vote"]));
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&format!("another store that holds a lock, in epoll_wait ({object})")), "{text}");
    }
    Ok(())
}

/// The slow requests ask the store nine times for what the others ask once.
#[test]
fn calls_that_the_slow_ones_make_more_of_are_counted() -> Tested {
    let dir = tempfile::tempdir()?;
    let mut text = String::from("task A front\ntask D store\nflow c - A\nflow d A D\n");
    for n in 1..=REQUESTS {
        let t = n as u64 * 10_000;
        let _ = writeln!(text, "{} A woken by c since {}\n{} A takes r{n} c", t + 5, t - 500, t + 10);
        let calls = if n % 10 == 9 { 9 } else { 1 };
        for call in 1..=calls {
            let (q, t) = (n * 10 + call, t + call as u64 * 100);
            let _ = writeln!(text, "{t} A asks q{q} d for r{n}\n{} D takes q{q}", t + 20);
            let _ = writeln!(text, "{} D answers q{q}\n{} A hears q{q}", t + 60, t + 80);
        }
        let _ = writeln!(text, "{} A answers r{n}", t + calls as u64 * 100 + 90);
    }
    let folder = folder(dir.path(), "t", &text);
    let document = check("why", &stdout(&run(&["why", "--json", &folder, "--slowest", "10%"])));
    let kind = &document["kinds"][0];
    adds_up(kind);
    let calls = kind["calls"].as_array().expect("a list");
    assert_eq!(calls.len(), 1, "{kind:#}");
    let numbers = (calls[0]["slow"].as_f64(), calls[0]["typical"].as_f64(), number(&calls[0]["requests_with"]));
    assert_eq!(numbers, (Some(9.0), Some(1.0), 6), "{kind:#}");
    assert!(calls[0]["service"].as_str().is_some_and(|s| s.starts_with("store")), "{kind:#}");
    let text = stdout(&run(&["why", &folder, "--slowest", "10%"]));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("on average, where their number differs:"), "{text}");
    assert!(
        text.contains("A slow one leads to 9.0 calls of GET /vote at store:81 on average, a typical one to 1.0."),
        "{text}"
    );
    assert!(text.contains("9.0 1.0 6 of 6 GET /vote at store:81"), "{text}");
    Ok(())
}

/// A script that runs long in a store with one thread holds up whoever comes meanwhile: it is named.
#[test]
fn what_a_busy_store_computed_meanwhile_is_named() -> Tested {
    let dir = tempfile::tempdir()?;
    let mut text = String::from("task A front\ntask D store\nflow c - A\nflow d A D\nflow e - D\n");
    for n in 1..=REQUESTS {
        let t = n as u64 * 10_000;
        let ran = if n % 10 == 9 { 4_000 } else { 40 };
        let _ = writeln!(text, "{} D woken by e since {}\n{} D takes p{n} e", t + 5, t - 500, t + 8);
        let _ = writeln!(text, "{} A woken by c since {}", t + 9, t - 500);
        let _ = writeln!(text, "{} A takes r{n} c\n{} A asks q{n} d for r{n}", t + 10, t + 20);
        let done = t + 30 + ran;
        let _ = writeln!(text, "{done} D answers p{n}\n{} D takes q{n}", done + 5);
        let _ = writeln!(text, "{} D answers q{n}\n{} A woken by d since {}", done + 50, done + 55, t + 25);
        let _ = writeln!(text, "{} A hears q{n}\n{} A answers r{n}", done + 60, done + 80);
    }
    let mut recording = play(&text)?;
    for host in &mut recording.hosts {
        let scripts: Vec<_> = (1..=REQUESTS).map(|n| host.text(&format!("/p{n}"))).collect();
        let (script, vote) = (host.text("/script"), host.text("/vote"));
        for row in &mut host.rows {
            if let Event::Message(m) = row {
                m.target = if scripts.contains(&m.target) { script } else { vote };
            }
        }
    }
    let dirs = recording.write(&dir.path().join("t"), Cuts::default())?;
    let folder = dirs[0].to_str().expect("temporary paths are UTF-8");
    let asked = ["why", "--json", folder, "--kind", "GET /vote", "--slowest", "10%"];
    let document = check("why", &stdout(&run(&asked)));
    let kind = &document["kinds"][0];
    adds_up(kind);
    let first = &kind["differences"][0];
    assert!(number(&first["more_ns"]) > 3_900_000, "{kind:#}");
    assert_eq!(first["text"], "waiting to be picked up by store:81, which was computing for GET /script", "{kind:#}");
    Ok(())
}

/// What a wait was for is its cause, however it ended.
#[test]
fn a_wait_is_named_by_its_object() -> Tested {
    type Change = fn(&mut WaitRow);
    let cases: [(&str, &str, Change); 4] = [
        ("futex", "waiting on a futex until its timeout, with no wake-up", |w| w.syscall = 202),
        ("stopped", "stopped by SIGSTOP from front", |w| {
            (w.cause, w.state, w.object, w.by) = (EndedBy::Stopped, 4, 19, TaskId(1));
        }),
        ("quota", "held back by the CPU quota of its cgroup", |w| {
            (w.cause, w.state, w.object, w.woken) = (EndedBy::Preempted, 0, 1, w.blocked);
        }),
        ("unknown", "the kernel delayed it", |w| (w.state, w.syscall) = (2, 1)),
    ];
    for (name, text, change) in cases {
        let dir = tempfile::tempdir()?;
        let folder = folder_with(dir.path(), "t", &script(5_000, 0), &|row| match row {
            Event::Wait(w) if w.cause == EndedBy::Timer => change(w),
            _ => {}
        });
        let document = check("why", &stdout(&run(&["why", "--json", &folder])));
        let first = &document["kinds"][0]["differences"][0];
        assert_eq!(first["cause"], Value::from(name), "{first:#}");
        // a sleep is followed by a microsecond in which it was ready
        assert!((4_999_000..=5_000_000).contains(&number(&first["more_ns"])), "{first:#}");
        assert!(first["text"].as_str().is_some_and(|t| t.contains(text)), "{first:#}");
    }
    Ok(())
}

#[test]
fn two_recordings_are_compared() -> Tested {
    let dir = tempfile::tempdir()?;
    let before = folder(dir.path(), "before", &script(0, 0));
    let after = folder(dir.path(), "after", &script(0, 700));
    let document = check("why", &stdout(&run(&["why", "--json", &before, &after])));
    let kind = &document["kinds"][0];
    adds_up(kind);
    assert_eq!(document["mode"], "before_after");
    let first = &kind["differences"][0];
    assert_eq!((&first["cause"], number(&first["more_ns"])), (&Value::from("cpu"), 700_000), "{kind:#}");
    assert!(first["service"].as_str().is_some_and(|s| s.starts_with("front")), "{first:#}");
    let back = check("why", &stdout(&run(&["why", "--json", &after, &before])));
    assert_eq!(number(&back["kinds"][0]["differences"][0]["more_ns"]), -700_000);
    let text = stdout(&run(&["why", &after, &before]));
    assert!(text.contains("less") && text.contains("front:80 computing"), "{text}");
    // tasks too
    let tasks = check("why", &stdout(&run(&["why", "--json", &before, &after, "--task", "front"])));
    assert_eq!(tasks["mode"], "tasks");
    adds_up(&tasks["kinds"][0]);
    Ok(())
}

#[test]
fn what_cannot_be_compared_says_what_to_do() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "t", &script(0, 0));
    for (args, part) in [
        (&["--kind", "GET /nowhere"][..], "wakepath requests"),
        (&["--task", "front"], "BEFORE AFTER"),
        (&[folder.as_str(), "--task", "nobody"], "no task"),
    ] {
        let output = run(&[&["why", &folder], args].concat());
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
    for args in [
        &["why"][..],
        &["why", "a", "b", "c"],
        &["why", &folder, "--slowest", "0%"],
        &["why", &folder, "--slowest", "5"],
    ] {
        assert_eq!(run(args).status.code(), Some(2), "{args:?}");
    }
    Ok(())
}

#[test]
fn a_request_that_nobody_answered_is_in_flight() -> Tested {
    let dir = tempfile::tempdir()?;
    let script = "
task A front
task D store
flow c - A
flow d A D
90 A woken by c since 10
100 A takes r1 c
110 A asks q1 d for r1
150 D woken by d since 20
160 D takes q1
400 D polls 0 since 380
";
    let folder = folder(dir.path(), "t", script);
    let document = check("open", &stdout(&run(&["open", "--json", &folder])));
    let request = &document["requests"][0];
    assert_eq!(document["requests"].as_array().map(Vec::len), Some(1), "{document:#}");
    let is = |key: &str, start: &str| request[key].as_str().is_some_and(|s| s.starts_with(start));
    assert!(is("service", "front") && is("at_service", "store") && is("task", "store/"), "{request:#}");
    assert!(number(&request["age_ns"]) >= 290_000, "{request:#}");
    let text = stdout(&run(&["open", &folder]));
    assert!(text.contains("In flight when the recording ended: 1 request") && widest(&text) <= 100, "{text}");
    // once answered, it is not
    let whole = self::folder(dir.path(), "whole", &self::script(0, 0));
    let document = check("open", &stdout(&run(&["open", "--json", &whole])));
    assert_eq!(document["requests"], Value::Array(Vec::new()), "{document:#}");
    Ok(())
}

#[test]
fn a_selection_is_compared_with_the_others() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "t", &script(5_000, 0));
    let document = check("why", &stdout(&run(&["why", "--json", &folder, "--longer-than", "5ms"])));
    let kind = &document["kinds"][0];
    adds_up(kind);
    assert_eq!(
        (&document["mode"], number(&kind["slow"]["found"]), number(&kind["typical"]["found"])),
        (&"selected".into(), 6, 54)
    );
    assert_eq!(kind["differences"][0]["cause"], "timer", "{kind:#}");
    // by time: the slow one of a selection of fifteen has less weight, and none is left out
    let document = check("why", &stdout(&run(&["why", "--json", &folder, "--to", "+150ms"])));
    let kind = &document["kinds"][0];
    adds_up(kind);
    assert_eq!(number(&kind["slow"]["found"]) + number(&kind["typical"]["found"]), REQUESTS as i64);
    assert!((12..=16).contains(&number(&kind["slow"]["found"])), "{kind:#}");
    let text = stdout(&run(&["why", &folder, "--longer-than", "5ms"]));
    assert!(text.contains("The selected ones of") && widest(&text) <= 100, "{text}");
    for (args, code, part) in [
        (&[&folder, "--longer-than", "10s"][..], 1, "no request is selected"),
        (&[&folder, "--longer-than", "10s", "--kind", "GET /nowhere"], 1, "no request of kind"),
        (&[&folder, "--to", "+1s", "--slowest", "5%"], 2, "cannot be used with"),
    ] {
        let output = run(&[&["why"], args].concat());
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
    // of the whole there are no others
    let all = check("why", &stdout(&run(&["why", "--json", &folder, "--longer-than", "0s"])));
    assert_eq!((&all["kinds"], &all["too_few_kinds"]), (&Value::Array(Vec::new()), &1.into()));
    Ok(())
}

/// Clients that give up after 2 ms leave each slow request: what the service took its time for is said all the same.
#[test]
fn slow_requests_whose_clients_left_are_examined() -> Tested {
    let dir = tempfile::tempdir()?;
    let mut text = String::from("task A front\n");
    for n in 1..=REQUESTS {
        let t = n as u64 * 20_000;
        let _ = writeln!(text, "flow c{n} - A ports {} 80\n{t} A takes r{n} c{n}", 40_000 + n);
        if n % 10 == 9 {
            let _ =
                writeln!(text, "{} A loses client c{n}\n{} A woken by timer since {}", t + 2_000, t + 9_000, t + 10);
            let _ = writeln!(text, "{} A fails c{n}\n{} A closes c{n}", t + 9_050, t + 9_060);
        } else {
            let _ = writeln!(text, "{} A answers r{n}\n{} A closes c{n}", t + 100, t + 110);
        }
    }
    let folder = folder(dir.path(), "t", &text);
    let document = check("why", &stdout(&run(&["why", "--json", &folder])));
    let kind = &document["kinds"][0];
    assert!(!kind.is_null(), "{document:#}");
    adds_up(kind);
    assert_eq!((number(&kind["slow"]["count"]), number(&kind["slow"]["abandoned"])), (3, 3), "{kind:#}");
    assert_eq!(kind["differences"][0]["cause"], "timer", "{kind:#}");
    let sentence = kind["sentence"].as_str().ok_or("a sentence")?;
    assert!(sentence.contains("Their clients left before the reply; the times are the service's."), "{sentence}");
    Ok(())
}

/// Where all take as long to the last digit that is told apart, that is no reason to say nothing.
#[test]
fn requests_that_take_equally_long_say_what_for() -> Tested {
    let dir = tempfile::tempdir()?;
    let mut text = String::from("task A front\nflow c - A\n");
    for n in 1..=10u64 {
        let t = n * 3_000_000;
        let _ = writeln!(text, "{t} A takes r{n} c\n{} A woken by timer since {}", t + 2_000_000, t + 10);
        let _ = writeln!(text, "{} A answers r{n}", t + 2_000_020);
    }
    let folder = folder(dir.path(), "t", &text);
    let document = check("why", &stdout(&run(&["why", "--json", &folder])));
    let kind = &document["kinds"][0];
    let sentence = kind["sentence"].as_str().ok_or("a sentence")?;
    assert!(
        sentence.starts_with("All 10 requests /vote at front") || sentence.contains("about equally long"),
        "{sentence}"
    );
    assert!(sentence.contains("Of that, 2.00 s are front") && kind["usual"]["cause"] == "timer", "{kind:#}");
    Ok(())
}

/// The slow ones wait 6 ms for what is not known, where the others sleep 5 ms: of the one millisecond more, that cannot be a part.
#[test]
fn what_is_not_known_is_no_part_of_less_than_it_takes() -> Tested {
    let dir = tempfile::tempdir()?;
    let told = |name: &str, usual_us: u64| {
        let mut text = String::from("task A front\nflow c - A\n");
        for n in 1..=REQUESTS as u64 {
            let (t, slept) = (n * 20_000, if n % 10 == 9 { 6_000 } else { usual_us });
            let _ = writeln!(text, "{t} A takes r{n} c\n{} A woken by timer since {}", t + 10 + slept, t + 10);
            let _ = writeln!(text, "{} A answers r{n}", t + 20 + slept);
        }
        let folder = folder_with(dir.path(), name, &text, &|row| match row {
            // the kernel delayed it in a write, and why was not recorded
            Event::Wait(w) if w.woken.0 > w.blocked.0 + 5_900_000 => (w.state, w.syscall) = (2, 1),
            _ => {}
        });
        let document = check("why", &stdout(&run(&["why", "--json", &folder])));
        let kind = document["kinds"][0].clone();
        let first = &kind["differences"][0];
        assert_eq!((&first["cause"], number(&first["more_ns"])), (&Value::from("unknown"), 5_999_000), "{kind:#}");
        let text = stdout(&run(&["why", &folder]));
        (number(&kind["more_ns"]), kind, text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let (more, kind, text) = told("more", 5_000);
    assert_eq!(more, 1_000_000, "{kind:#}");
    assert!(text.contains("Not known: 6.00 ms more, see the rows that say so. Other parts take less time."), "{text}");
    let sentence = kind["sentence"].as_str().ok_or("a sentence")?;
    assert!(sentence.contains("6.00 ms more are") && !sentence.contains("Of the"), "{sentence}");
    let (more, _, text) = told("whole", 0);
    assert!((6_000_000..6_010_000).contains(&more), "{more}");
    assert!(text.contains("Not known: 6.00 ms of it, see the rows that say so."), "{text}");
    Ok(())
}

/// Where requests differ from each other in all kinds of ways, no reason takes longer than what it explains, in no answer.
#[test]
fn no_reason_takes_longer_than_what_is_not_known() -> Tested {
    let dir = tempfile::tempdir()?;
    for (seed, shape) in Shape::ALL.into_iter().enumerate() {
        let plan = Plan { clients: 4, requests: 20, ..Plan::new(shape, seed as u64) };
        let folder = simulate(&plan).write(&dir.path().join(seed.to_string()), Cuts::default())?.remove(0);
        let folder = folder.to_str().ok_or("temporary paths are UTF-8")?;
        let output = run(&["waits", "--json", folder, "--request", "slowest"]);
        assert_eq!(output.status.code(), Some(0), "{shape:?}: {}", stderr(&output));
        let waits = check("waits", &stdout(&output));
        let sum =
            |key: &str| waits[key].as_array().map_or(0, |l| l.iter().map(|s| number(&s["duration_ns"])).sum::<i64>());
        assert!(sum("by_reason") <= number(&waits["elapsed_ns"]), "{shape:?}: {waits:#}");
        assert_eq!(sum("by_cause"), number(&waits["elapsed_ns"]), "{shape:?}: {waits:#}");
        let slices = waits["slices"].as_array().ok_or("a list")?;
        for reason in waits["by_reason"].as_array().ok_or("a list")? {
            let explained = slices.iter().filter(|s| s["reason"] == reason["name"]);
            let ns: i64 = explained.map(|s| number(&s["duration_ns"])).sum();
            assert!(number(&reason["duration_ns"]) <= ns, "{shape:?}: {reason:#} of {ns}");
        }
    }
    Ok(())
}
