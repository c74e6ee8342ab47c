//! What a hooked call costs, with recording off and on. Figures are printed; only an absurd one fails, since this runs on
//! busy machines.

mod support;

use support::{Mode, program, run};

/// ns a call by name.
fn figures(mode: Mode) -> Vec<(String, u64)> {
    let run = run(mode, &program("cost"), &[]);
    assert!(run.output.status.success(), "{}", run.text());
    let line = |l: &str| {
        let (name, ns) = l.split_once(' ')?;
        Some((name.to_owned(), ns.parse().ok()?))
    };
    run.text().lines().filter_map(line).collect()
}

#[test]
fn a_call_costs_little() {
    let all = [Mode::Bare, Mode::Off, Mode::Observe, Mode::Isolate].map(figures);
    assert_eq!(all[0].len(), 5);
    println!("{:<18}{:>8}{:>8}{:>9}{:>9}  ns, the best of 15 rounds", "call", "bare", "off", "observe", "isolate");
    for (i, (name, bare)) in all[0].iter().enumerate() {
        let ns = [1, 2, 3].map(|m| all[m][i].1);
        println!("{name:<18}{bare:>8}{:>8}{:>9}{:>9}", ns[0], ns[1], ns[2]);
        assert!(ns[0] < bare + 2_000, "{name}: off is nearly nothing");
        assert!(ns[2] < bare * 4 + 20_000, "{name}: on is bearable");
    }
}
