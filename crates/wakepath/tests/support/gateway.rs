//! A gateway that asks a service, as a recording of hosts that never were.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::fmt::Write as _;
use std::path::Path;
use wakepath_model::rows::Event;
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::script::play;

/// Requests of a recording; every tenth is slow.
pub const REQUESTS: usize = 60;

/// A gateway that asks a service; in slow requests the service first sleeps for `sleep_us`, and the gateway computes
/// `compute_us` longer in all of them.
pub fn script(sleep_us: u64, compute_us: u64) -> String {
    script_of(|n| (if n % 10 == 9 { sleep_us } else { 0 }, compute_us))
}

/// The same, whose second half of requests computes longer: from [`DEPLOYED_MS`] on.
pub fn deployed(compute_us: u64) -> String {
    script_of(|n| (0, if n < REQUESTS / 2 { 0 } else { compute_us }))
}

/// Milliseconds from the begin, amid the requests of [`deployed`].
pub const DEPLOYED_MS: u64 = 300;

/// Each request sleeps and computes so long (µs).
fn script_of(times: impl Fn(usize) -> (u64, u64)) -> String {
    let mut text = String::from("task A front\ntask D store\nflow c - A\nflow d A D\n");
    for n in 0..REQUESTS {
        let t = 1_000 + n as u64 * 10_000;
        let ((slept, compute_us), n) = (times(n), n + 1);
        let asked = t + 20 + compute_us;
        let _ = writeln!(text, "{} A woken by c since {}\n{} A takes r{n} c", t, t - 500, t + 10);
        let _ = writeln!(text, "{asked} A asks q{n} d for r{n}");
        let _ = writeln!(text, "{} D woken by d since {}\n{} D takes q{n}", asked + 20, t - 400, asked + 30);
        if slept > 0 {
            let _ = writeln!(text, "{} D woken by timer since {}", asked + 40 + slept, asked + 40);
        }
        let answered = asked + 100 + slept;
        let _ = writeln!(text, "{answered} D answers q{n}\n{} A woken by d since {}", answered + 15, asked + 10);
        let _ = writeln!(text, "{} A hears q{n}\n{} A answers r{n}", answered + 20, answered + 60);
    }
    text
}

/// A gateway with one worker that computes 300 µs, asks a service that computes 200 µs, and is asked again 500 µs after.
pub fn steady(requests: usize) -> String {
    let mut text = String::from("task A front\ntask D store\nflow c - A\nflow d A D\n");
    for n in 1..=requests {
        let t = n as u64 * 1_100;
        let _ = writeln!(text, "{t} A woken by c since {}\n{} A takes r{n} c", t - 480, t + 5);
        let _ = writeln!(text, "{} A asks q{n} d for r{n}", t + 305);
        let _ = writeln!(text, "{} D woken by d since {}\n{} D takes q{n}", t + 315, t - 560, t + 320);
        let _ = writeln!(text, "{} D answers q{n}\n{} A woken by d since {}", t + 520, t + 530, t + 310);
        let _ = writeln!(text, "{} A hears q{n}\n{} A answers r{n}", t + 535, t + 600);
    }
    text
}

/// Its folder, of requests of one kind.
pub fn folder(dir: &Path, name: &str, script: &str) -> String {
    folder_with(dir, name, script, &|_| {})
}

/// With its rows changed.
pub fn folder_with(dir: &Path, name: &str, script: &str, change: &dyn Fn(&mut Event)) -> String {
    let mut recording = play(script).expect("the script");
    // requests of one kind, which a script names one by one
    for host in &mut recording.hosts {
        let target = host.text("/vote");
        for row in &mut host.rows {
            if let Event::Message(m) = row {
                m.target = target;
            }
            change(row);
        }
    }
    let dirs = recording.write(&dir.join(name), Cuts::default()).expect("written");
    dirs[0].to_str().expect("temporary paths are UTF-8").to_owned()
}
