//! The reader of CTF traces: golden cases (`tests/golden/read.ctf`), other people's traces held against babeltrace2, and
//! what must hold for any trace.

mod data;
mod properties;
mod support;

use support::{Lines, case, events, reader};
use wakepath_decode::readers::TraceReader as _;
use wakepath_testkit::golden;

#[test]
fn every_case_gives_what_is_expected() {
    golden::each("read.ctf", |folder| {
        let input = golden::text(folder, "input.txt");
        let (metadata, streams) = case(&input);
        let mut lines = Lines::default();
        let mut raw = reader(&metadata, &streams);
        raw.run(&mut lines);
        let mut got = String::from("events\n");
        for line in events(&mut reader(&metadata, &streams)) {
            got += &format!("  {line}\n");
        }
        got += "facts\n";
        for line in &lines.0 {
            got += &format!("  {line}\n");
        }
        got += &format!("host {:?}\n{:?}\n", raw.facts(), raw.tally());
        for fault in raw.counts().faults {
            got += &format!("fault {} in {} at byte {}: {}\n", fault.defect, fault.file, fault.offset, fault.what);
        }
        golden::holds(folder, &got);
    });
}
