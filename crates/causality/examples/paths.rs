//! Prints counts, or some paths, of a folder.
use wakepath_model::folder::Folder;
fn main() {
    let dir = std::env::args().nth(1).expect("folder");
    let n: usize = std::env::args().nth(2).and_then(|s| s.parse().ok()).unwrap_or(3);
    let f = Folder::open(&[&dir]).unwrap();
    let t = std::time::Instant::now();
    let mut shown = 0;
    let mut kinds = std::collections::BTreeMap::new();
    let port: u16 = std::env::args().nth(3).and_then(|s| s.parse().ok()).unwrap_or(0);
    let r = wakepath_causality::reconstruct(
        &f,
        |r| {
            if port != 0 && r.spans[0].callee.as_ref().is_some_and(|h| h.place.rport == port) {
                println!(
                    "{:x} orphan {:?} holes {:?} {:?}",
                    r.id,
                    r.orphan,
                    r.holes(),
                    r.spans[0].callee.as_ref().unwrap().place
                );
            }
            let h = r.spans[0].callee.as_ref().or(r.spans[0].caller.as_ref()).unwrap();
            let host = f.host(h.host).unwrap();
            let k = format!(
                ":{} {} {} spans {} complete {} orphan {:?}",
                h.place.lport,
                host.text(h.exchange.verb),
                host.text(h.exchange.target),
                r.spans.len(),
                r.is_complete(),
                r.orphan.map(|o| o.name())
            );
            let c = kinds.entry(k.clone()).or_insert(0u32);
            *c += 1;
            if *c == 1 && shown < n {
                shown += 1;
                println!("{k} id {:x} {:?}", r.id, r.holes());
                for (i, s) in r.spans.iter().enumerate() {
                    let e = s.callee.as_ref().or(s.caller.as_ref()).unwrap();
                    println!(
                        "  {i} <- {:?} by {:?} joined {:?} :{} {} {} {} began {} dur {} us callee {} doubts {} hole {:?}",
                        s.parent,
                        s.made_by.map(|r| r.name()),
                        s.joined_by.map(|r| r.name()),
                        e.place.lport,
                        host.text(e.exchange.verb),
                        host.text(e.exchange.target),
                        e.exchange.status,
                        e.exchange.began.0,
                        (e.exchange.ended.0 - e.exchange.began.0) / 1000,
                        s.callee.is_some(),
                        s.doubts,
                        s.hole
                    );
                }
            }
        },
        |_, _, p, _| println!("refused {p:?}"),
    );
    for (k, n) in kinds {
        println!("{n:6} {k}");
    }
    println!("{r:?} in {:?}", t.elapsed());
}
