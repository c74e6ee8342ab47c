//! A selection among busy neighbours: what is recorded of them, and that they keep nothing of the selected from being recorded.

use crate::harness::*;
use crate::holders::{Player, told};
use crate::net::*;
use std::io::{Read as _, Write as _};
use std::time::Duration;
use wakepath_model::rows::{EndedBy, OpKind, gaps};

/// Two threads that wake each other so many times by two pipes.
fn ping_pong(times: u64) {
    let (mut to, mut from) = (pipes(), pipes());
    let other = std::thread::spawn(move || {
        let mut byte = [0];
        while to.0.read(&mut byte).is_ok_and(|n| n > 0) {
            from.1.write_all(&byte).expect("somebody reads");
        }
    });
    for _ in 0..times {
        to.1.write_all(b"x").expect("somebody reads");
        assert_eq!(from.0.read(&mut [0]).expect("it answers"), 1);
    }
    drop(to.1);
    other.join().expect("it ends");
}

fn pipes() -> (std::io::PipeReader, std::io::PipeWriter) {
    std::io::pipe().expect("a pipe")
}

#[test]
fn neighbours_leave_no_waits_but_who_wakes_a_selected_task_does() {
    const NAME: &str = "neighbours::neighbours_leave_no_waits_but_who_wakes_a_selected_task_does";
    const TIMES: u64 = 3_000;
    match part().as_deref() {
        Some("storm") => {
            println!("up");
            told();
            ping_pong(TIMES);
            println!("done");
            return wait_stdin();
        }
        Some(_) => {
            println!("up{}", gettid());
            while std::io::stdin().read(&mut [0]).is_ok_and(|n| n > 0) {}
            return;
        }
        None => {}
    }
    let mut selected = Player::start(NAME, "selected");
    let mut storm = Player::start(NAME, "storm");
    let reader = selected.number("up") as i32;
    storm.hears("up");
    until_asleep(reader, libc::SYS_read, Some(0));
    let Some(rec) = record_as("auto", &["--pid", &selected.pid()]) else { return };
    storm.tell();
    storm.hears("done");
    // this thread is not selected: it sleeps, and then wakes who is
    let waker = gettid();
    for _ in 0..3 {
        pause(30);
        selected.to.write_all(b"x").expect("it reads");
        until_asleep(reader, libc::SYS_read, Some(0));
    }
    let trace = rec.stop();
    let process = |t: &&wakepath_model::rows::TaskRow| t.tgid == storm.child.id();
    let theirs: Vec<_> = trace.tasks.iter().filter(process).map(|t| t.task).collect();
    let rows = trace.waits.iter().filter(|w| theirs.contains(&w.task)).count();
    assert_eq!(rows, 0, "of {TIMES} round trips of a neighbour nothing is kept");
    let left_out = trace.lost("selection.waits");
    assert!(left_out >= TIMES, "{left_out} waits are counted");
    assert_eq!(trace.lost("loss.ring.wait") + trace.lost("loss.ring.task"), 0);

    let waker = trace.task(waker);
    let own: Vec<_> = trace.slept_in(reader, libc::SYS_read);
    let woken: Vec<_> = own.iter().filter(|w| w.cause == EndedBy::Task || w.by == waker).collect();
    assert!(woken.len() >= 3 && woken.iter().all(|w| w.by == waker), "{own:?}");
    // its sleep before the first wake-up was written when it woke the selected one, and says that there were others before
    let slept =
        |w: &&wakepath_model::rows::WaitRow| w.task == waker && i64::from(w.syscall) == libc::SYS_clock_nanosleep;
    let long: Vec<_> = trace.waits.iter().filter(slept).filter(|w| w.at.0 - w.blocked.0 > 25_000_000).collect();
    assert!(long.len() >= 3 && long.iter().all(|w| w.cause == EndedBy::Timer), "{long:?}");
    let first = trace.waits.iter().find(|w| w.task == waker).expect("it has waits");
    assert_ne!(first.gaps & gaps::BEFORE, 0, "{first:?}");
    let after = trace.waits.iter().filter(|w| w.task == waker).skip(1);
    assert!(
        after.clone().count() > 2 && after.clone().all(|w| w.gaps & gaps::BEFORE == 0),
        "it is followed from then on"
    );
    assert!(trace.waits.iter().filter(|w| theirs.contains(&w.by)).count() == 0);
}

#[test]
fn who_had_the_processor_of_a_selected_task_is_named_and_not_what_it_waited_for() {
    const NAME: &str = "neighbours::who_had_the_processor_of_a_selected_task_is_named_and_not_what_it_waited_for";
    if let Some(part) = part() {
        let is_there = on_processor(a_processor());
        println!("up{}", u8::from(is_there));
        println!("tid{}", gettid());
        told();
        let begin = now_ns();
        while now_ns() - begin < 400_000_000 {
            std::hint::spin_loop();
        }
        // who wakes this test, which woke a selected one, is followed from then on
        if part == "selected" {
            println!("done");
        }
        return wait_stdin();
    }
    let (mut selected, mut other) = (Player::start(NAME, "selected"), Player::start(NAME, "other"));
    if selected.number("up") + other.number("up") < 2 {
        return skip("no processor for both");
    }
    let (tid, others) = (selected.number("tid") as i32, other.number("tid") as i32);
    let Some(mut rec) = record_as("auto", &["--pid", &selected.pid()]) else { return };
    other.tell();
    selected.tell();
    selected.hears("done");
    pause(30);
    rec.signal(libc::SIGINT);
    assert_eq!(rec.wait(Duration::from_secs(60)), 0, "{}", rec.said());
    let trace = rec.read();
    let (task, holder) = (trace.task(tid), trace.task(others));
    assert_eq!(trace.waits.iter().filter(|w| w.task == holder).count(), 0, "it let nobody go on");
    let stays: Vec<_> = trace.stays.iter().filter(|s| s.task == holder).collect();
    assert!(stays.len() >= 2 && stays.iter().all(|s| s.from < s.to && s.to <= s.at), "{stays:?}");
    // while the selected one was ready to run
    let ready = |w: &&wakepath_model::rows::WaitRow| w.task == task && w.cause == EndedBy::Preempted;
    let held = |w: &wakepath_model::rows::WaitRow| -> u64 {
        stays.iter().map(|s| overlap((w.blocked.0, w.at.0), (s.from.0, s.to.0))).sum()
    };
    let displaced: u64 = trace.waits.iter().filter(ready).map(held).sum();
    assert!(displaced > 0, "two that share a processor take it from each other");
    // where it was off its processor, the answer names the neighbour
    let path = path_of(&rec, tid);
    let named: u64 = path
        .iter()
        .filter(|(_, s)| {
            s["state"] == "preempted" && s["by"].as_str().is_some_and(|by| by.ends_with(&format!("/{others}")))
        })
        .map(|((from, to), _)| to - from)
        .sum();
    assert!(named * 10 >= displaced * 8, "{named} of {displaced} ns: {path:#?}");
    let all: u64 = trace.stays.iter().filter(|s| s.task.0 == 0).map(|s| s.ran_ns).sum();
    assert!(all > 100_000_000, "what ran besides is told in sum: {all}");
}

/// Twelve threads that wake who reads a pipe, again and again.
fn wake_often() {
    let path = std::env::var("WAKEPATH_FIFO").expect("a path");
    let to = std::fs::OpenOptions::new().write(true).open(path).expect("a pipe");
    let wakes = |mut to: std::fs::File| {
        for _ in 0..400 {
            to.write_all(b"x").expect("it reads");
            std::thread::sleep(Duration::from_micros(50));
        }
    };
    let threads: Vec<_> = (0..12)
        .map(|_| {
            let to = to.try_clone().expect("a descriptor");
            std::thread::spawn(move || wakes(to))
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().expect("it ends"));
}

#[test]
fn what_neighbours_fill_leaves_room_for_the_selected() {
    const NAME: &str = "neighbours::what_neighbours_fill_leaves_room_for_the_selected";
    const PAIRS: u64 = 60;
    match part().as_deref() {
        Some("storm") => {
            // wakes the selected process once, and so is followed for a while; each of its threads
            on_processor(a_processor());
            println!("up");
            told();
            wake_often();
            println!("done");
            return wait_stdin();
        }
        Some(_) => {
            on_processor(a_processor());
            let (a, b) = socketpair(libc::SOCK_STREAM);
            let path = std::env::var("WAKEPATH_FIFO").expect("a path");
            // one thread is woken by the storm, and another works when it is told
            std::thread::spawn(move || {
                let mut from = std::fs::OpenOptions::new().read(true).write(true).open(path).expect("a pipe");
                println!("up");
                let mut bytes = [0; 4096];
                while from.read(&mut bytes).is_ok_and(|n| n > 0) {
                    std::thread::sleep(Duration::from_millis(200));
                }
            });
            told();
            for _ in 0..PAIRS {
                send_by("send", &a, b"sixsix");
                assert_eq!(recv_raw(&b, 6, 0), 6);
            }
            println!("done");
            return wait_stdin();
        }
        None => {}
    }
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("fifo");
    let name = path.to_str().expect("plain");
    if let Err(e) = run("mkfifo", &[name]) {
        return skip(&e);
    }
    let with = |part| Player::with(NAME, part, &[("WAKEPATH_FIFO", name)]);
    let (mut selected, mut storm) = (with("selected"), with("storm"));
    selected.hears("up");
    storm.hears("up");
    let Some(rec) = record_as("auto", &["--pid", &selected.pid(), "--ring-bytes", "64K"]) else { return };
    // a recorder that does not come to its work
    rec.signal(libc::SIGSTOP);
    let status = format!("/proc/{}/status", rec.child.id());
    until("its stop", || std::fs::read_to_string(&status).is_ok_and(|s| s.contains("State:\tT")));
    storm.tell();
    storm.hears("done");
    selected.tell();
    selected.hears("done");
    rec.signal(libc::SIGCONT);
    let trace = rec.stop();
    let rows = trace.ops.iter().filter(|o| o.kind <= OpKind::Recv && o.result == 6).count() as u64;
    println!("{rows} rows, {} of neighbours found no room", trace.lost("selection.dropped"));
    assert!(trace.lost("selection.dropped") > 0, "they would have filled the ring");
    assert_eq!((rows, trace.lost("loss.ring.op")), (2 * PAIRS, 0));
    assert_eq!(
        trace.losses.iter().filter(|(what, n)| what.starts_with("loss.ring") && *n > 0).count(),
        0,
        "{:?}",
        trace.losses
    );
}
