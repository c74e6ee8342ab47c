//! Prints rows per second of writing and reading a folder: `cargo run --release -p wakepath-model --example folder_rate`.

use std::time::Instant;
use wakepath_model::folder::{Durability, Folder, FolderWriter, HostInfo, Options, TableSet};
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{EndedBy, OpKind, OpRow, RangeHow, Table, WaitRow};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rows: u64 = std::env::args().nth(1).map_or(Ok(10_000_000), |n| n.parse())?;
    for (name, compress, waits) in
        [("ops, plain", false, false), ("ops, packed", true, false), ("ops and waits, packed", true, true)]
    {
        measure(name, rows, compress, waits)?;
    }
    Ok(())
}

/// Rows as a busy host makes them, by a generator of random numbers.
struct Busy {
    random: u64,
    at: u64,
    /// Bytes moved on each flow.
    positions: [u64; 64],
}

impl Busy {
    /// Goes on to the next row: its flow.
    fn step(&mut self) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.at += 200 + self.random % 4000;
        (self.random >> 20) as usize % 64
    }

    fn wait(&self, flow: usize) -> WaitRow {
        let (x, at) = (self.random, self.at);
        WaitRow {
            at: MonoNs(at),
            blocked: MonoNs(at - 3000 - (x >> 30) % 100_000),
            woken: MonoNs(at - (x >> 33) % 3000),
            object: 0x1_0000 + flow as u64,
            arg0: flow as u64,
            task: TaskId(10 + flow as u32 % 16),
            by: TaskId(3),
            rcv_seq: self.positions[flow] as u32,
            state: 1,
            syscall: 232,
            cpu: (x >> 50) as u16 % 8,
            woken_cpu: (x >> 53) as u16 % 8,
            cause: EndedBy::Socket,
            ..Default::default()
        }
    }

    fn operation(&mut self, flow: usize) -> OpRow {
        let (x, at, start) = (self.random, self.at, self.positions[flow]);
        let length = 100 + (x >> 40) % 1200;
        self.positions[flow] += length;
        OpRow {
            at: MonoNs(at),
            entry: MonoNs(at - 500 - (x >> 44) % 2000),
            arrived: MonoNs(if x & 1 == 0 { 0 } else { at - 4000 - (x >> 41) % 9000 }),
            flow: EndpointId(0x1_0000 + flow as u64),
            start,
            end: start + length,
            task: TaskId(10 + flow as u32 % 16),
            result: length as i32,
            kind: if x & 1 == 0 { OpKind::Send } else { OpKind::Recv },
            range: RangeHow::Exact,
            syscall: 45,
            cpu: (x >> 50) as u16 % 8,
            ..Default::default()
        }
    }
}

fn measure(name: &str, rows: u64, compress: bool, waits: bool) -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("wakepath-rate-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let host = HostInfo { hostname: "rate".into(), boot_id: "0123456789".into(), ..HostInfo::default() };
    let mut writer = FolderWriter::create(&dir, host, Options { compress, ..Options::default() })?;
    let mut busy = Busy { random: 0x9e37_79b9_7f4a_7c15, at: 1_000_000_000_000, positions: [0; 64] };
    let mut flushed = busy.at;
    let begin = Instant::now();
    for i in 0..rows {
        let flow = busy.step();
        if waits && i % 3 == 0 {
            writer.push(&busy.wait(flow));
        } else {
            writer.push(&busy.operation(flow));
        }
        if busy.at - flushed > 100_000_000 {
            writer.flush(Durability::Write)?;
            flushed = busy.at;
        }
    }
    let counts = writer.close()?;
    let wrote = begin.elapsed();

    let folder = Folder::open(&[&dir])?;
    let host = &folder.hosts()[0];
    let begin = Instant::now();
    let (mut count, mut sum) = (0u64, 0u64);
    for event in host.events(TableSet::ALL, ..) {
        count += 1;
        sum = sum.wrapping_add(event.at().0);
    }
    let by_event = begin.elapsed();
    assert_eq!(count, rows);

    let begin = Instant::now();
    let mut in_batches = 0u64;
    let mut batches = host.batches(Table::Op.into(), ..);
    while let Some(batch) = batches.next() {
        in_batches += batch.rows::<OpRow>().iter().filter(|r| r.end >= r.start).count() as u64;
        batches.recycle(batch);
    }
    let by_batch = begin.elapsed();

    let rate = |n: u64, t: std::time::Duration| n as f64 / t.as_secs_f64() / 1e6;
    println!(
        "{name:20} write {:6.1} M rows/s ({:5.1} ns/row), {:5.1} B/row; events {:6.1} M rows/s; batches of ops {:6.1} M rows/s ({sum:x})",
        rate(rows, wrote),
        wrote.as_nanos() as f64 / rows as f64,
        counts.bytes as f64 / rows as f64,
        rate(count, by_event),
        rate(in_batches, by_batch),
    );
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
