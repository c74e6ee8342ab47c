//! Prints the rows of one flow port of a folder, for debugging.
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::rows::{Event, Table};
fn main() {
    let dir = std::env::args().nth(1).expect("folder");
    let port: u16 = std::env::args().nth(2).expect("port").parse().unwrap();
    let f = Folder::open(&[&dir]).unwrap();
    for h in f.hosts() {
        let mut flows = std::collections::HashMap::new();
        let t = TableSet::of(&[
            Table::Op,
            Table::Message,
            Table::MessageEnd,
            Table::Endpoint,
            Table::FlowState,
            Table::FlowNote,
            Table::Poll,
        ]);
        let mut t0 = 0;
        for e in h.events(t, ..) {
            if let Event::Endpoint(r) = &e
                && (r.lport == port || r.rport == port)
            {
                flows.insert(r.flow, format!("{}>{}", r.lport, r.rport));
                if t0 == 0 {
                    t0 = r.at.0;
                }
                println!(
                    "{:9.1} EP {:?} {} side {} how {} state {} snd {} rcv {}",
                    0.0, r.flow.0, flows[&r.flow], r.side, r.how, r.state, r.snd, r.rcv
                );
            }
            let rel = |t: u64| (t as i64 - t0 as i64) as f64 / 1e3;
            match &e {
                Event::Op(r) if flows.contains_key(&r.flow) => println!(
                    "{:9.1} {} op {} {}..{} res {} task {} range {} flags {}",
                    rel(r.at.0),
                    flows[&r.flow],
                    r.kind,
                    r.start,
                    r.end,
                    r.result,
                    r.task.0,
                    r.range,
                    r.flags
                ),
                Event::Message(r) if flows.contains_key(&r.flow) => println!(
                    "{:9.1} {} MSG role {} sent {} {}..{} {} {}",
                    rel(r.at.0),
                    flows[&r.flow],
                    r.role,
                    r.sent,
                    r.start,
                    r.end as i64,
                    h.text(r.verb),
                    r.status
                ),
                Event::MessageEnd(r) if flows.contains_key(&r.flow) => println!(
                    "{:9.1} {} END sent {} {}..{} how {}",
                    rel(r.at.0),
                    flows[&r.flow],
                    r.sent,
                    r.start,
                    r.end as i64,
                    r.how
                ),
                Event::Poll(r) if Some(r.task.0) == std::env::args().nth(3).and_then(|a| a.parse().ok()) => println!(
                    "{:9.1} POLL entry {:.1} ready {} timeout {}",
                    rel(r.at.0),
                    rel(r.entry.0),
                    r.ready,
                    r.timeout_ns as i64 / 1000
                ),
                Event::Op(r) if Some(r.task.0) == std::env::args().nth(3).and_then(|a| a.parse().ok()) => {
                    println!("{:9.1} other op {} flow {} res {}", rel(r.at.0), r.kind, r.flow.0, r.result)
                }
                Event::FlowState(r) if flows.contains_key(&r.flow) => {
                    println!("{:9.1} {} state {}->{} reset {}", rel(r.at.0), flows[&r.flow], r.old, r.new, r.reset)
                }
                Event::FlowNote(r) if flows.contains_key(&r.flow) => {
                    println!("{:9.1} {} note {} {}", rel(r.at.0), flows[&r.flow], h.text(r.protocol), h.text(r.reason))
                }
                _ => {}
            }
        }
    }
}
