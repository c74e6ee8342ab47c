//! Prints the losses of a folder.
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::rows::{Event, Table};
fn main() {
    let f = Folder::open(&[std::env::args().nth(1).unwrap()]).unwrap();
    for h in f.hosts() {
        let s = h.span().unwrap();
        println!("start {} span {} ms", s.0.0, (s.1.0 - s.0.0) / 1000000);
        for e in h.events(TableSet::of(&[Table::Loss]), ..) {
            if let Event::Loss(r) = e {
                println!(
                    "{:8.1}..{:8.1} {} {}",
                    (r.from.0 as i64 - s.0.0 as i64) as f64 / 1e6,
                    (r.at.0 - s.0.0) as f64 / 1e6,
                    h.text(r.what),
                    r.count
                );
            }
        }
    }
}
