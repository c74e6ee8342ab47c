//! Writes a recording whose names try to be something else than names: `cargo run --example hostile -- FOLDER`. For the
//! page's tests (`scripts/page --test`).

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use wakepath_model::rows::Event;
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::script::play;

/// Requests.
const REQUESTS: u64 = 90;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("the folder to make is missing")?;
    let mut recording = play(&script())?;
    let targets = [
        "/<img src=x onerror=alert(1)>".to_owned(),
        "/\u{202e}gnp.exe\u{2066}\u{1b}[2J'; DROP TABLE \"x\" & --json".to_owned(),
        format!("/{}", "<b>long</b>".repeat(1000)),
    ];
    for host in &mut recording.hosts {
        let names = targets.each_ref().map(|t| host.text(t));
        let process = host.text("</script><script>alert(1)</script>");
        for row in &mut host.rows {
            match row {
                Event::Message(m) => m.target = names[(m.at.0 / 10_000_000) as usize % names.len()],
                Event::Task(t) if t.tid % 2 == 1 => t.comm = process,
                _ => {}
            }
        }
    }
    let written = recording.write(Path::new(&folder), Cuts::default())?;
    println!("{}", written[0].display());
    Ok(())
}

/// A gateway that asks a service, which sleeps for every tenth request.
fn script() -> String {
    let mut text = String::from("task A front\ntask D store\nflow c - A\nflow d A D\n");
    for n in 0..REQUESTS {
        let (t, slept, n) = (1_000 + n * 10_000, if n % 10 == 9 { 4_000 } else { 0 }, n + 1);
        let _ = writeln!(
            text,
            "{t} A woken by c since {}\n{} A takes r{n} c\n{} A asks q{n} d for r{n}",
            t - 500,
            t + 10,
            t + 20
        );
        let _ = writeln!(text, "{} D woken by d since {}\n{} D takes q{n}", t + 40, t - 400, t + 50);
        if slept > 0 {
            let _ = writeln!(text, "{} D woken by timer since {}", t + 60 + slept, t + 60);
        }
        let answered = t + 120 + slept;
        let _ = writeln!(text, "{answered} D answers q{n}\n{} A woken by d since {}", answered + 15, t + 30);
        let _ = writeln!(text, "{} A hears q{n}\n{} A answers r{n}", answered + 20, answered + 60);
    }
    text
}
