//! Attaches, drains for some seconds, prints counts by kind and each program's cost.
use wakepath_capture::*;
fn main() {
    let secs: f64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(2.0);
    let arg = |n: &str| std::env::args().any(|a| a == n);
    let o = KernelOptions {
        waits: !arg("nowaits"),
        head_bytes: if arg("nohead") { 0 } else { 2048 },
        backend: if arg("syscalls") { Backend::Syscalls } else { Backend::Auto },
        ring_bytes: std::env::args()
            .find_map(|a| a.strip_prefix("ring=").and_then(|n| n.parse().ok()))
            .unwrap_or(8 << 20),
        ..Default::default()
    };
    let mut s = match KernelSource::attach(&o) {
        Ok(s) => s,
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(1)
        }
    };
    let mut snap = 0;
    s.snapshot(|_| snap += 1).unwrap();
    println!("snapshot {snap}");
    let end = monotonic_ns() + (secs * 1e9) as u64;
    let mut kinds = [0u64; 32];
    let mut bytes = 0u64;
    let mut last = 0u64;
    let mut back = 0u64;
    let mut heads = 0;
    let verbose = arg("-v");
    let mut n = 0;
    while monotonic_ns() < end {
        n += s.drain(monotonic_ns() - 2_000_000, |f| {
            let h = f.head().unwrap();
            kinds[h.kind as usize] += 1;
            bytes += f.bytes.len() as u64;
            let ts = u64::from_ne_bytes(f.bytes[8..16].try_into().unwrap());
            if ts < last {
                back += 1
            } else {
                last = ts
            }
            if h.kind == 1 {
                let o: wakepath_wire::Op = f.read().unwrap();
                if o.head_bytes > 0 {
                    heads += 1
                }
                if verbose {
                    println!(
                        "{:?} {:?}",
                        o,
                        String::from_utf8_lossy(f.tail::<wakepath_wire::Op>(o.head_bytes as usize))
                    );
                }
            } else if verbose && h.kind == 2 {
                println!("{:?}", f.read::<wakepath_wire::FlowSeen>());
            } else if verbose && h.kind == 5 {
                println!("{:?}", f.read::<wakepath_wire::Poll>());
            } else if verbose && h.kind == 3 {
                println!("{:?}", f.read::<wakepath_wire::FlowState>());
            }
        });
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    println!("backlog {:?}", s.backlog());
    s.detach();
    println!("events {n} kinds {kinds:?} heads {heads} bytes {bytes} backwards {back} drops {:?}", s.drops());
    for c in s.costs() {
        if c.runs > 0 || c.skipped > 0 {
            println!("{:20} runs {:9} avg {:5} ns skipped {}", c.name, c.runs, c.ns / c.runs.max(1), c.skipped);
        }
    }
}
