//! Where critical paths went, one line for each stack, as flame graph tools read it: `FRAME;FRAME NANOSECONDS`. Of two
//! selections, two numbers a line: of the others, then of the selected.

use crate::pprof::frames;
use std::collections::BTreeSet;
use std::io::{self, Write};
use wakepath_analysis::flame::{Flame, Stack};

/// A stack as one text: a semicolon in a name would begin a frame.
fn line(stack: &Stack) -> String {
    frames(stack).iter().map(|f| f.replace(';', ":")).collect::<Vec<_>>().join(";")
}

/// Writes the stacks of a selection.
pub fn write(flame: &Flame, out: &mut dyn Write) -> io::Result<()> {
    flame.stacks.iter().try_for_each(|(stack, time)| writeln!(out, "{} {}", line(stack), time.ns))
}

/// Writes the stacks of a selection beside those of the others. The times of the others are what so many requests as are
/// selected would have had, so that the two can be compared.
pub fn write_difference(selected: &Flame, others: &Flame, out: &mut dyn Write) -> io::Result<()> {
    let stacks: BTreeSet<&Stack> = selected.stacks.keys().chain(others.stacks.keys()).collect();
    for stack in stacks {
        let of = |flame: &Flame| flame.stacks.get(stack).map_or(0, |t| t.ns);
        let scaled = of(others) * u128::from(selected.requests) / u128::from(others.requests.max(1));
        writeln!(out, "{} {scaled} {}", line(stack), of(selected))?;
    }
    Ok(())
}
