//! `wakepath-ctf`: makes kernel traces in CTF as long as wanted, and measures how fast they are read. For benches.

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use serde_json::json;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;
use wakepath_decode::imported::Importer;
use wakepath_decode::raw::{Raw, RawSink};
use wakepath_decode::readers::ctf::{CtfReader, Source, is_stream};
use wakepath_decode::readers::{ReadAt, TraceReader as _};
use wakepath_decode::recurring::Said;
use wakepath_decode::{RowSink, TaskFacts};
use wakepath_model::ids::{EndpointId, MonoNs, StrId};
use wakepath_model::intern::Interner;
use wakepath_model::rows::Row;

/// Makes and reads kernel traces in CTF
#[derive(Parser)]
#[command(name = "wakepath-ctf")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes a trace as LTTng would: tasks that are woken by packets, read, and sleep
    Make {
        /// Folder to make
        out: PathBuf,
        /// Events in all
        #[arg(long, default_value_t = 1_000_000)]
        events: u64,
        /// Streams, one a processor
        #[arg(long, default_value_t = 8)]
        streams: u32,
        /// Events of a stream are about equally far apart: however many streams there are, the next event is another's
        #[arg(long)]
        even: bool,
    },
    /// Reads a trace; one JSON line with events, processor seconds and memory
    Read {
        /// Folder with `metadata`
        trace: PathBuf,
        /// Makes rows too, and drops them
        #[arg(long)]
        rows: bool,
        /// Reads it so many times, each time later than the time before
        #[arg(long, default_value_t = 1)]
        times: u64,
    },
    /// Runs a program; one JSON line with its processor seconds and memory
    ///
    /// The kernel counts a program's memory from before it was started, which is its starter's: that must be small.
    Cost {
        /// Where its standard output goes
        #[arg(long, default_value = "/dev/null")]
        out: PathBuf,
        /// The program, and what it is given
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        line: Vec<String>,
    },
}

fn main() -> Result<()> {
    match Args::parse().command {
        Command::Make { out, events, streams, even } => make(&out, events, streams, even),
        Command::Read { trace, rows, times } => read(&trace, rows, times),
        Command::Cost { out, line } => cost(&out, &line),
    }
}

const PACKET_BYTES: usize = 256 << 10;
const HEADER_BYTES: usize = 24 + 52;
const UUID: [u8; 16] = *b"made for benches";
const FIRST_NS: u64 = 3_600_000_000_000;
/// Tasks of each processor.
const TASKS: u32 = 50;

/// Events of one turn of a task, by their ids.
#[derive(Clone, Copy)]
enum Id {
    Switch,
    Waking,
    IrqEntry,
    IrqExit,
    SoftirqEntry,
    SoftirqExit,
    ReadEntry,
    ReadExit,
    TimerEntry,
    TimerExit,
    Runtime,
}

/// What describes the streams, in the words of LTTng's metadata.
fn metadata() -> String {
    const COMM: &str = "integer { size = 8; align = 8; signed = 1; encoding = UTF8; base = 10; }";
    let u = |bits: u32| format!("integer {{ size = {bits}; align = 8; signed = 0; }}");
    let i = |bits: u32| format!("integer {{ size = {bits}; align = 8; signed = 1; }}");
    let id: String = UUID.iter().map(|b| format!("{b:02x}")).collect();
    let uuid = format!("{}-{}-{}-{}-{}", &id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]);
    let stamp = |bits: u32, align: u32| {
        format!("integer {{ size = {bits}; align = {align}; signed = 0; map = clock.monotonic.value; }}")
    };
    let comm = |name: &str| format!("{COMM} _{name}[16]; ");
    let events = [
        (
            "sched_switch",
            format!(
                "{}{} _prev_tid; {} _prev_prio; {} _prev_state; {}{} _next_tid; {} _next_prio;",
                comm("prev_comm"),
                i(32),
                i(32),
                i(64),
                comm("next_comm"),
                i(32),
                i(32)
            ),
        ),
        ("sched_waking", format!("{}{} _tid; {} _prio; {} _target_cpu;", comm("comm"), i(32), i(32), i(32))),
        ("irq_handler_entry", format!("{} _irq; string _name;", i(32))),
        ("irq_handler_exit", format!("{} _irq; {} _ret;", i(32), i(32))),
        ("irq_softirq_entry", format!("{} _vec;", u(32))),
        ("irq_softirq_exit", format!("{} _vec;", u(32))),
        ("syscall_entry_read", format!("{} _fd; {} _count;", u(32), u(64))),
        ("syscall_exit_read", format!("{} _ret; {} _buf;", i(64), u(64))),
        ("timer_hrtimer_expire_entry", format!("{} _hrtimer; {} _now; {} _function;", u(64), i(64), u(64))),
        ("timer_hrtimer_expire_exit", format!("{} _hrtimer;", u(64))),
        ("sched_stat_runtime", format!("{}{} _tid; {} _runtime; {} _vruntime;", comm("comm"), i(32), u(64), u(64))),
    ];
    let mut out = format!(
        "/* CTF 1.8 */\n\
         trace {{ major = 1; minor = 8; uuid = \"{uuid}\"; byte_order = le;\n\
           packet.header := struct {{ {} magic; {} uuid[16]; {} stream_id; }};\n}};\n\
         env {{ hostname = \"made\"; domain = \"kernel\"; tracer_name = \"lttng-modules\"; kernel_release = \"6.1\"; }};\n\
         clock {{ name = \"monotonic\"; uuid = \"{uuid}\"; freq = 1000000000; offset = 1700000000000000000; }};\n\
         stream {{ id = 0;\n\
           event.header := struct {{\n\
             enum : integer {{ size = 5; align = 1; signed = 0; }} {{ compact = 0 ... 30, extended = 31 }} id;\n\
             variant <id> {{ struct {{ {} timestamp; }} compact;\n\
               struct {{ {} id; {} timestamp; }} extended; }} v;\n\
           }} align(8);\n\
           packet.context := struct {{ {t} timestamp_begin; {t} timestamp_end; {u64} content_size; {u64} packet_size;\n\
             {u64} packet_seq_num; {u64} events_discarded; {} cpu_id; }};\n}};\n",
        u(32),
        u(8),
        u(32),
        stamp(27, 1),
        u(32),
        stamp(64, 8),
        u(32),
        t = stamp(64, 8),
        u64 = u(64),
    );
    for (id, (name, fields)) in events.iter().enumerate() {
        let _ =
            writeln!(out, "event {{ name = \"{name}\"; id = {id}; stream_id = 0; fields := struct {{ {fields} }}; }};");
    }
    out
}

/// One stream being written.
struct Stream {
    file: BufWriter<File>,
    packet: Vec<u8>,
    cpu: u32,
    sequence: u64,
    begin: u64,
    now: u64,
    dice: u64,
    left: u64,
    even: bool,
}

impl Stream {
    /// Begins an event some time after the one before; false where there are enough.
    fn event(&mut self, id: Id, after: u64, fields: &[&[u8]]) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        let bytes: usize = fields.iter().map(|f| f.len()).sum();
        if self.packet.len() + 4 + bytes > PACKET_BYTES {
            self.flush()?;
        }
        self.left -= 1;
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.now += if self.even { 2_000 + (self.dice >> 52) } else { after + (self.dice >> 56) };
        if self.packet.is_empty() {
            self.packet.resize(HEADER_BYTES, 0);
            self.begin = self.now;
        }
        let word = id as u32 | (self.now as u32 & 0x07ff_ffff) << 5;
        self.packet.extend_from_slice(&word.to_le_bytes());
        for f in fields {
            self.packet.extend_from_slice(f);
        }
        Ok(true)
    }

    fn flush(&mut self) -> Result<()> {
        if self.packet.is_empty() {
            return Ok(());
        }
        let content = self.packet.len() as u64 * 8;
        self.packet.resize(PACKET_BYTES, 0);
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(&0xc1fc_1fc1_u32.to_le_bytes());
        header.extend_from_slice(&UUID);
        header.extend_from_slice(&0_u32.to_le_bytes());
        for word in [self.begin, self.now, content, PACKET_BYTES as u64 * 8, self.sequence, 0] {
            header.extend_from_slice(&word.to_le_bytes());
        }
        header.extend_from_slice(&self.cpu.to_le_bytes());
        self.packet[..HEADER_BYTES].copy_from_slice(&header);
        self.file.write_all(&self.packet)?;
        self.packet.clear();
        self.sequence += 1;
        Ok(())
    }

    /// A task is woken by a packet, returns from its read, works, reads again and sleeps. False at the end.
    fn turn(&mut self, task: u32) -> Result<bool> {
        let tid = (1000 + self.cpu * TASKS + task).to_le_bytes();
        let mut comm = [0; 16];
        write!(&mut comm[..], "worker/{task}")?;
        let mut idle = [0; 16];
        write!(&mut idle[..], "swapper/{}", self.cpu)?;
        let (zero, one, prio) = (0_u32.to_le_bytes(), 1_u32.to_le_bytes(), 20_u32.to_le_bytes());
        let (irq, net, long, sleeps) =
            (30_u32.to_le_bytes(), 3_u32.to_le_bytes(), 4096_u64.to_le_bytes(), 1_u64.to_le_bytes());
        let runs = 0_u64.to_le_bytes();
        let cpu = self.cpu.to_le_bytes();
        let events: [(Id, u64, &[&[u8]]); 13] = [
            (Id::IrqEntry, 20_000, &[&irq, b"eth0\0"]),
            (Id::IrqExit, 1_000, &[&irq, &one]),
            (Id::SoftirqEntry, 300, &[&net]),
            (Id::Waking, 2_000, &[&comm, &tid, &prio, &cpu]),
            (Id::SoftirqExit, 500, &[&net]),
            (Id::Switch, 800, &[&idle, &zero, &prio, &runs, &comm, &tid, &prio]),
            (Id::ReadExit, 500, &[&long, &long]),
            (Id::TimerEntry, 9_000, &[&long, &long, &long]),
            (Id::TimerExit, 700, &[&long]),
            (Id::Runtime, 300, &[&comm, &tid, &long, &long]),
            (Id::ReadEntry, 6_000, &[&one, &long]),
            (Id::Runtime, 300, &[&comm, &tid, &long, &long]),
            (Id::Switch, 400, &[&comm, &tid, &prio, &sleeps, &idle, &zero, &prio]),
        ];
        for (id, after, fields) in events {
            if !self.event(id, after, fields)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn make(out: &Path, events: u64, streams: u32, even: bool) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    fs::write(out.join("metadata"), metadata())?;
    for cpu in 0..streams {
        let file = File::create(out.join(format!("channel0_{cpu}")))?;
        let each = events / u64::from(streams) + u64::from(u64::from(cpu) < events % u64::from(streams));
        let mut stream = Stream {
            file: BufWriter::new(file),
            packet: Vec::with_capacity(PACKET_BYTES),
            cpu,
            sequence: 0,
            begin: 0,
            // each anywhere in its turn
            now: FIRST_NS + u64::from(cpu) * if even { 7_919 } else { 37 } % 50_000,
            dice: u64::from(cpu) + 1,
            left: each,
            even,
        };
        let mut task = 0;
        while stream.turn(task)? {
            task = (task + 1) % TASKS;
        }
        stream.flush()?;
        stream.file.flush()?;
    }
    Ok(())
}

/// A file read at any place.
struct Opened(File, u64);

impl ReadAt for Opened {
    fn size(&self) -> u64 {
        self.1
    }
    fn read_at(&self, at: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.0, buf, at)
    }
}

fn source(folder: &Path) -> Result<Source> {
    let mut streams = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() && is_stream(&name) {
            let file = File::open(&path)?;
            let size = file.metadata()?.len();
            streams.push((name, Box::new(Opened(file, size)) as Box<_>));
        }
    }
    streams.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Source { name: String::new(), metadata: fs::read(folder.join("metadata"))?, streams })
}

/// Counts rows and forgets them.
#[derive(Default)]
struct Nowhere {
    rows: u64,
    strings: Interner,
}

impl RowSink for Nowhere {
    fn push<R: Row>(&mut self, _: &R) {
        self.rows += 1;
    }
    fn push_head(&mut self, _: MonoNs, _: EndpointId, _: u64, _: bool, _: &[u8]) {}
    fn count(&mut self, _: &'static str, _: MonoNs) {}
    fn intern(&mut self, text: &[u8]) -> StrId {
        self.strings.intern(text)
    }
    fn said(&mut self, text: &str, _: &Said) -> StrId {
        self.intern(text.as_bytes())
    }
    fn describe(&mut self, _: u32, _: u32) -> TaskFacts {
        TaskFacts::default()
    }
}

/// Puts a repetition after the one before; makes rows, or only counts.
struct Later {
    importer: Option<Importer<Nowhere>>,
    by: u64,
    last: u64,
    taken: u64,
}

impl RawSink for Later {
    #[inline]
    fn event(&mut self, at: MonoNs, cpu: u16, event: &Raw<'_>) {
        let at = MonoNs(at.0 + self.by);
        self.last = self.last.max(at.0);
        self.taken += 1;
        if let Some(importer) = &mut self.importer {
            importer.event(at, cpu, event);
        }
    }
    fn lost(&mut self, cpu: Option<u16>, from: MonoNs, to: MonoNs, count: u64) {
        if let Some(importer) = &mut self.importer {
            importer.lost(cpu, MonoNs(from.0 + self.by), MonoNs(to.0 + self.by), count);
        }
    }
    fn count(&mut self, _: &'static str, _: MonoNs) {}
}

fn cost(out: &Path, line: &[String]) -> Result<()> {
    let (program, rest) = line.split_first().context("no program was given")?;
    let out = File::create(out).with_context(|| format!("making {}", out.display()))?;
    let status = std::process::Command::new(program).args(rest).stdout(out).status();
    let status = status.with_context(|| format!("starting {program}"))?;
    ensure!(status.success(), "{program} ended with {status}");
    let (cpu_seconds, resident) = used(libc::RUSAGE_CHILDREN);
    println!("{}", json!({ "cpu_seconds": cpu_seconds, "resident_bytes_max": resident }));
    Ok(())
}

/// Processor seconds and most resident bytes of this process, or of those that it started and that ended.
fn used(whose: libc::c_int) -> (f64, u64) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for writing, and zeroes are a valid value.
    let usage = unsafe {
        libc::getrusage(whose, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss as u64 * 1024)
}

fn read(trace: &Path, rows: bool, times: u64) -> Result<()> {
    let (started, before) = (Instant::now(), used(libc::RUSAGE_SELF).0);
    let importer = rows.then(|| Importer::new(Nowhere::default(), 0));
    let mut sink = Later { importer, by: 0, last: 0, taken: 0 };
    let (mut events, mut first) = (0, None);
    for _ in 0..times {
        let mut reader = CtfReader::new(vec![source(trace)?])?;
        let begin = reader.next_at(&mut sink).unwrap_or_default().0;
        // the first event again, a moment after the last one
        let first = *first.get_or_insert(begin);
        if sink.last > 0 {
            sink.by = sink.last + 1_000 - first;
        }
        reader.run(&mut sink);
        events += reader.counts().total();
    }
    let done = sink.importer.map(Importer::finish);
    let (after, rss) = used(libc::RUSAGE_SELF);
    println!(
        "{}",
        json!({
            "events": events,
            "taken": sink.taken,
            "rows": done.as_ref().map(|(out, _)| out.rows),
            "waits": done.as_ref().map(|(_, d)| d.waits),
            "seconds": started.elapsed().as_secs_f64(),
            "cpu_seconds": after - before,
            "resident_bytes_max": rss,
        })
    );
    Ok(())
}
