//! `wakepath timeline` and `wakepath flame`: sums that are exact, whatever is drawn.

#[path = "support/gateway.rs"]
mod gateway;
mod support;

use gateway::{REQUESTS, folder, script};
use serde_json::{Value, json};
use support::{Tested, check, run, stderr, stdout, widest};
use wakepath_model::rows::Event;

/// Time by state: how long, and how many intervals.
fn sums(of: &Value) -> Vec<(String, u64, u64)> {
    let states = of["by_state"].as_array().expect("checked").iter();
    let mut sums: Vec<_> = states
        .map(|s| {
            let number = |name: &str| s[name].as_u64().expect("checked");
            (s["state"].as_str().expect("checked").to_owned(), number("duration_ns"), number("count"))
        })
        .collect();
    sums.sort();
    sums
}

#[test]
fn the_sums_of_a_task_are_what_it_did() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(5_000, 0));
    let ask = |more: &[&str]| check("timeline", &stdout(&run(&[&["timeline", &folder, "--json"], more].concat())));
    let fine = ask(&["--task", "store", "--columns", "10000"]);
    let slept = REQUESTS as u64 / 10;
    let of = |sums: &[(String, u64, u64)], state: &str| sums.iter().find(|s| s.0 == state).map(|s| (s.1, s.2));
    // every tenth request it slept for 5 ms, of which the last microsecond is that until it ran
    assert_eq!(of(&sums(&fine), "timer"), Some((slept * 4_999_000, slept)), "{fine}");
    // it waited once for each request, and ran after each wait
    assert_eq!(of(&sums(&fine), "network").map(|s| s.1), Some(REQUESTS as u64));
    assert_eq!(of(&sums(&fine), "running").map(|s| s.1), Some(REQUESTS as u64 + slept));
    // however few columns there are, the sums are the same, and parts cover what they stand for
    let coarse = ask(&["--task", "store", "--columns", "3"]);
    assert_eq!(sums(&fine), sums(&coarse));
    for answer in [&fine, &coarse] {
        let parts = answer["tasks"][0]["parts"].as_array().ok_or("parts")?;
        let counted: u64 = parts.iter().filter_map(|p| p["count"].as_u64()).sum();
        assert_eq!(counted, sums(answer).iter().map(|s| s.2).sum::<u64>());
        let covered: i64 =
            parts.iter().map(|p| p["to_ns"].as_i64().unwrap_or(0) - p["from_ns"].as_i64().unwrap_or(0)).sum();
        assert_eq!(covered, sums(answer).iter().map(|s| s.1 as i64).sum::<i64>());
    }
    assert!(coarse["tasks"][0]["parts"].as_array().map_or(0, Vec::len) < 20, "{coarse}");
    // two halves are the whole
    let halves = ["--to", "--from"].map(|side| ask(&["--task", "store", side, "+300ms"]));
    let time = |answer: &Value| sums(answer).iter().map(|s| s.1).sum::<u64>();
    assert_eq!(time(&halves[0]) + time(&halves[1]), time(&fine));
    Ok(())
}

#[test]
fn programs_that_serve_come_first() -> Tested {
    let dir = tempfile::tempdir()?;
    // a neighbour that waits more often than anybody, a worker that shares a server's program, and one that serves nothing
    let mut script = script(5_000, 0) + "task N neighbour\ntask W store\n";
    for n in 0..300u64 {
        script += &format!("{} N woken by timer since {}\n", 1_000 + n * 1_000, 500 + n * 1_000);
    }
    script += "1000 W woken by timer since 500\n";
    let folder = folder(dir.path(), "shop", &script);
    let all = check("timeline", &stdout(&run(&["timeline", &folder, "--json", "--columns", "1"])));
    let tasks = all["tasks"].as_array().ok_or("tasks")?;
    let seen: Vec<_> = tasks.iter().map(|t| (t["program"].as_str().unwrap_or(""), t["serves"] == true)).collect();
    assert_eq!(seen.last(), Some(&("neighbour", false)), "{seen:?}");
    assert!(seen[..seen.len() - 1].iter().all(|s| s.1), "{seen:?}");
    assert_eq!(seen.iter().filter(|s| s.0 == "store").count(), 2, "{seen:?}");
    let waits: Vec<_> = tasks.iter().map(|t| t["waits"].as_u64().unwrap_or(0)).collect();
    assert!(waits[..waits.len() - 1].is_sorted_by(|a, b| a >= b) && waits.last() > waits.first(), "{waits:?}");
    // of fewer, the neighbour is left out
    let text = stdout(&run(&["timeline", &folder, "--limit", "2"]));
    assert!(!text.contains("neighbour"), "{text}");
    Ok(())
}

#[test]
fn a_path_is_drawn_below_its_task() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(5_000, 0));
    let drawn = run(&["timeline", &folder, "--task", "front", "--path", "--columns", "10000", "--json"]);
    let drawn = check("timeline", &stdout(&drawn));
    let waits = check("waits", &stdout(&run(&["waits", &folder, "--task", "front", "--json"])));
    let path = drawn["path"].as_array().ok_or("a path")?;
    let covered: i64 = path.iter().map(|p| p["to_ns"].as_i64().unwrap_or(0) - p["from_ns"].as_i64().unwrap_or(0)).sum();
    assert_eq!(Some(covered), waits["elapsed_ns"].as_i64(), "it has no gap");
    let slices: u64 = path.iter().filter_map(|p| p["count"].as_u64()).sum();
    assert_eq!(slices, waits["slices"].as_array().map_or(0, Vec::len) as u64);
    assert!(path.iter().any(|p| p["task"] != drawn["tasks"][0]["task"]), "it is followed to others");
    let several = run(&["timeline", &folder, "--path"]);
    assert!(several.status.code() == Some(1) && stderr(&several).contains("--task NAME/TID"), "{}", stderr(&several));
    Ok(())
}

#[test]
fn a_terminal_shows_a_line_for_each_task() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(5_000, 0));
    let text = stdout(&run(&["timeline", &folder]));
    assert!(widest(&text) <= 100 && text.contains("store/") && text.contains("front/"), "{text}");
    assert!(text.contains("Sums over 2 tasks.") && text.contains('~') && text.contains("T timer"), "{text}");
    let one = stdout(&run(&["timeline", &folder, "--limit", "1"]));
    assert!(one.contains("1 more task"), "{one}");
    for (flags, says) in [
        (&["--task", "nobody"][..], "no task with recorded waits matches"),
        (&["--from", "+2s", "--to", "+1s"], "nothing was recorded between"),
    ] {
        let refused = run(&[&["timeline", folder.as_str()], flags].concat());
        assert!(refused.status.code() == Some(1) && stderr(&refused).contains(says), "{}", stderr(&refused));
    }
    Ok(())
}

#[test]
fn a_flame_is_the_time_of_all_requests() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(5_000, 0));
    let each = check("each", &stdout(&run(&["requests", "--each", "--limit", "0", "--json", &folder])));
    let slow: u64 = 4_000_000;
    let lengths: Vec<u64> =
        each["requests"].as_array().ok_or("requests")?.iter().filter_map(|r| r["duration_ns"].as_u64()).collect();
    let sum = |keep: &dyn Fn(u64) -> bool| lengths.iter().copied().filter(|ns| keep(*ns)).sum::<u64>();
    let flame = check("flame", &stdout(&run(&["flame", &folder, "--longer-than", "4ms", "--difference", "--json"])));
    assert_eq!(flame["selected"]["elapsed_ns"], json!(sum(&|ns| ns >= slow)));
    assert_eq!(flame["others"]["elapsed_ns"], json!(sum(&|ns| ns < slow)));
    assert_eq!(flame["selected"]["requests"].as_u64(), Some(REQUESTS as u64 / 10));
    let stacks = flame["stacks"].as_array().ok_or("stacks")?;
    for (group, time) in [("selected", "duration_ns"), ("others", "others_ns")] {
        assert_eq!(json!(stacks.iter().filter_map(|s| s[time].as_u64()).sum::<u64>()), flame[group]["elapsed_ns"]);
    }
    let timer = stacks.iter().find(|s| s["cause"] == "timer").ok_or("they slept")?;
    assert_eq!((timer["program"].as_str(), timer["others_ns"].as_u64()), (Some("store"), Some(0)));
    let text = stdout(&run(&["flame", &folder, "--longer-than", "4ms", "--difference"]));
    assert!(widest(&text) <= 100 && text.contains("timer") && text.contains("than others"), "{text}");
    // against another recording: the same services, but nobody slept
    let calm = gateway::folder(dir.path(), "calm", &script(0, 0));
    let against = check("flame", &stdout(&run(&["flame", &folder, "--against", &calm, "--json"])));
    let alone = |folder: &str| check("flame", &stdout(&run(&["flame", folder, "--json"])))["selected"].clone();
    assert_eq!((&against["selected"], &against["others"]), (&alone(&folder), &alone(&calm)));
    let stacks = against["stacks"].as_array().ok_or("stacks")?;
    let slept = |s: &Value| (s["duration_ns"].as_u64() > Some(0), s["others_ns"].as_u64() > Some(0));
    assert!(stacks.iter().filter(|s| s["cause"] == "timer").all(|s| slept(s) == (true, false)));
    assert!(stacks.iter().any(|s| s["cause"] != "timer" && slept(s) == (true, true)), "names are compared");
    let missing = run(&["flame", &folder, "--against", "/nowhere"]);
    assert!(missing.status.code() == Some(1) && stderr(&missing).contains("/nowhere"), "{}", stderr(&missing));
    let unknown = run(&["flame", &folder, "--kind", "GET /vot"]);
    assert!(unknown.status.code() == Some(1) && stderr(&unknown).contains("did you mean"), "{}", stderr(&unknown));
    Ok(())
}

/// Two tasks, each on a processor of its own: whoever had it is told, and no moment is told of twice.
#[test]
fn processors_say_who_had_them() -> Tested {
    let dir = tempfile::tempdir()?;
    let apart = |e: &mut Event| {
        if let Event::Wait(w) = e {
            w.cpu = (w.task.0 % 2) as u16;
        }
    };
    let folder = gateway::folder_with(dir.path(), "two", &script(0, 300), &apart);
    let ask = |flags: &[&str]| check("timeline", &stdout(&run(&[&["timeline", &folder, "--json"], flags].concat())));
    assert!(ask(&[])["processors"].is_null());
    let found = ask(&["--processors", "--columns", "10000"]);
    let processors = found["processors"].as_array().ok_or("processors")?;
    assert_eq!(processors.iter().map(|p| p["cpu"].as_u64()).collect::<Vec<_>>(), [Some(0), Some(1)]);
    for p in processors {
        let [holder] = &p["by_task"].as_array().ok_or("tasks")?[..] else { return Err("one task".into()) };
        let tasks = found["tasks"].as_array().ok_or("tasks")?;
        let of = tasks.iter().find(|t| t["task"] == holder["task"]).ok_or("it is shown")?;
        let states = of["by_state"].as_array().ok_or("states")?;
        let ran =
            states.iter().find(|s| s["state"] == "running").and_then(|s| s["duration_ns"].as_u64()).ok_or("ran")?;
        let held = p["held_ns"].as_u64().ok_or("a time")?;
        // all that it ran, but for what began before its first wait or has no recorded end
        assert!(held <= ran && held * 10 >= ran * 9, "{held} of {ran}: {}", holder["task"]);
        let parts = p["parts"].as_array().ok_or("parts")?;
        let at = |part: &Value, key: &str| part[key].as_i64().unwrap_or_default();
        assert!(parts.windows(2).all(|w| at(&w[0], "to_ns") <= at(&w[1], "from_ns")), "in order");
        assert!(parts.iter().all(|w| at(w, "from_ns") < at(w, "to_ns") && w["task"] == holder["task"]));
    }
    let text = stdout(&run(&["timeline", &folder, "--processors"]));
    assert!(text.contains("\nprocessor 1 ") && text.contains("was not recorded") && widest(&text) <= 100, "{text}");
    Ok(())
}

/// Waits count by their system call, and intervals come in order of time, whichever task they are of.
#[test]
fn system_calls_and_events_say_when_each_task_waited() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(5_000, 0));
    let ask = |flags: &[&str]| check("timeline", &stdout(&run(&[&["timeline", &folder, "--json"], flags].concat())));
    assert!(ask(&[])["syscalls"].is_null() && ask(&[])["events"].is_null());
    // however few tasks are drawn, they count
    let found = ask(&["--syscalls", "--events", "100000", "--limit", "1", "--columns", "1"]);
    let all = ask(&["--limit", "0", "--columns", "1"]);
    let calls = found["syscalls"].as_array().ok_or("calls")?;
    let sum = |of: &[Value], key: &str| of.iter().filter_map(|v| v[key].as_u64()).sum::<u64>();
    let waited: Vec<_> = sums(&all).into_iter().filter(|s| !["running", "preempted"].contains(&&*s.0)).collect();
    assert_eq!(sum(calls, "duration_ns"), waited.iter().map(|s| s.1).sum::<u64>());
    assert_eq!(sum(calls, "count"), waited.iter().map(|s| s.2).sum::<u64>());
    assert!(calls.windows(2).all(|w| w[0]["duration_ns"].as_u64() >= w[1]["duration_ns"].as_u64()), "most time first");
    for c in calls {
        let longest = c["longest"]["duration_ns"].as_u64();
        assert!(longest >= c["p99_ns"].as_u64() && c["p99_ns"].as_u64() >= c["p50_ns"].as_u64(), "{c}");
        assert_eq!(c["longest"]["syscall"], c["syscall"]);
    }
    let events = found["events"]["events"].as_array().ok_or("events")?;
    assert_eq!(events.len() as u64, sums(&all).iter().map(|s| s.2).sum::<u64>());
    let at = |e: &Value| e["from_ns"].as_i64().unwrap_or_default();
    assert!(events.windows(2).all(|w| at(&w[0]) <= at(&w[1])), "in order of time");
    // the first few, and only what is asked for
    let some = ask(&["--events", "3", "--what", "TIMER"]);
    let timers: Vec<&Value> = events.iter().filter(|e| e["state"] == "timer").collect();
    assert_eq!(some["events"]["events"], json!(timers[..3]));
    assert_eq!(some["events"]["more"], json!(timers.len() - 3));
    // those after the last of them
    let from = format!("{}", at(timers[2]));
    let rest = ask(&["--events", "100000", "--what", "timer", "--from", &from]);
    assert_eq!(rest["events"]["events"], json!(timers[3..]));
    let text = stdout(&run(&["timeline", &folder, "--syscalls", "--events", "3"]));
    assert!(
        text.contains("system call") && text.contains(" more: continue with --from") && widest(&text) <= 100,
        "{text}"
    );
    Ok(())
}
