//! Recording with the real binary, and what it wrote.

use std::io::Read as _;
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wakepath_model::defects::id as defect;
use wakepath_model::folder::{Folder, Head, TableSet};
use wakepath_model::ids::{CommonNs, EndpointId, TaskId};
use wakepath_model::rows::OpKind;
use wakepath_model::rows::*;

/// One recording at a time: they would see each other, and the machine is small.
static ONE: Mutex<()> = Mutex::new(());

pub const BACKENDS: [&str; 3] = ["calls", "socket-hooks", "syscalls"];

pub fn skip(why: &str) {
    println!("skipped: {why}");
}

/// The binary: the one that cargo built, or that of the folder `WAKEPATH_BIN`, as in another kernel's guest.
pub fn binary() -> PathBuf {
    std::env::var_os("WAKEPATH_BIN")
        .map_or_else(|| env!("CARGO_BIN_EXE_wakepath").into(), |dir| PathBuf::from(dir).join("wakepath"))
}

pub struct Recording {
    pub child: Child,
    pub folder: PathBuf,
    stderr: PathBuf,
    dir: tempfile::TempDir,
    _one: MutexGuard<'static, ()>,
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a recording of this process; `None` (and the reason printed) where this machine cannot.
pub fn record(backend: &str, args: &[&str]) -> Option<Recording> {
    let me = std::process::id().to_string();
    record_as(backend, &[&["--pid", &me], args].concat())
}

/// Does something while no other test records: programs that it starts, and calls by the thousand, would be in theirs.
pub fn unrecorded<T>(f: impl FnOnce() -> T) -> T {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    f()
}

/// The same with what was there before, made while no other test records: it is thousands of calls.
pub fn record_behind<T>(backend: &str, before: impl FnOnce() -> T) -> Option<(Recording, T)> {
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = before();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = dir.path().join("trace");
    let me = std::process::id().to_string();
    Some((record_in(backend, &["--pid", &me], folder, dir, one)?, before))
}

/// Starts a recording with these arguments alone.
pub fn record_as(backend: &str, args: &[&str]) -> Option<Recording> {
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = dir.path().join("trace");
    record_in(backend, args, folder, dir, one)
}

/// Records a command to its end, with these variables besides; the folder is `trace` in the one that is returned.
pub fn recorded(backend: &str, args: &[&str], variables: &[(String, String)]) -> Option<tempfile::TempDir> {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(binary());
    command.args(["record", "--backend", backend, "-o"]).arg(dir.path().join("trace")).args(args);
    let o = command.envs(variables.iter().cloned()).stdin(Stdio::null()).output().expect("the binary starts");
    let text = String::from_utf8_lossy(&o.stderr);
    if !o.status.success() && ["needs CAP", "lacks", "refused"].iter().any(|t| text.contains(t)) {
        skip(&format!("{backend}: {}", text.trim()));
        return None;
    }
    assert!(o.status.success(), "{text}");
    Some(dir)
}

/// Starts a recording into a folder of the caller's.
pub fn record_to(backend: &str, args: &[&str], folder: PathBuf) -> Option<Recording> {
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    record_in(backend, args, folder, tempfile::tempdir().expect("a temporary folder"), one)
}

fn record_in(
    backend: &str,
    args: &[&str],
    folder: PathBuf,
    dir: tempfile::TempDir,
    one: MutexGuard<'static, ()>,
) -> Option<Recording> {
    let ready = dir.path().join("ready");
    let stderr = dir.path().join("stderr");
    let child = Command::new(binary())
        // a few requests are asked once and looked for by name
        .env("WAKEPATH_WORDS", "all")
        .args(["record", "--backend", backend, "-o"])
        .arg(&folder)
        .arg("--ready-file")
        .arg(&ready)
        .args(args)
        .stdin(Stdio::null())
        .stderr(std::fs::File::create(&stderr).expect("a file for its messages"))
        .spawn()
        .expect("the binary starts");
    let mut r = Recording { child, folder, stderr, dir, _one: one };
    let begun = Instant::now();
    while !std::fs::metadata(&ready).is_ok_and(|m| m.len() > 0) {
        if r.child.try_wait().expect("it can be waited for").is_some() {
            let text = r.said();
            let lacks = ["needs CAP", "lacks", "refused"].iter().any(|t| text.contains(t));
            assert!(lacks, "the recorder ended before it was ready: {text}");
            skip(&format!("{backend}: {}", text.trim()));
            return None;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "not ready within a minute: {}", r.said());
        std::thread::sleep(Duration::from_millis(2));
    }
    Some(r)
}

impl Recording {
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    pub fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: signals a child of ours that was not waited for yet.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Waits for its end; the exit code.
    pub fn wait(&mut self, limit: Duration) -> i32 {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return status.code().unwrap_or(-1);
            }
            assert!(begun.elapsed() < limit, "the recorder did not end: {}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until something is told, which may come late on a busy machine, and stops.
    pub fn stop_when(self, told: impl Fn(&Trace) -> bool) -> Trace {
        until("what is told", || told(&self.read()));
        self.stop()
    }

    /// Ends it as a user does, and reads what it wrote.
    pub fn stop(mut self) -> Trace {
        // the newest records settle for some milliseconds
        std::thread::sleep(Duration::from_millis(20));
        self.signal(libc::SIGINT);
        let code = self.wait(Duration::from_secs(60));
        assert_eq!(code, 0, "{}", self.said());
        self.read()
    }

    pub fn read(&self) -> Trace {
        Trace::open(&self.folder)
    }
}

/// What a folder holds, table by table, in order of time.
#[derive(Default)]
pub struct Trace {
    pub ops: Vec<OpRow>,
    pub endpoints: Vec<EndpointRow>,
    pub states: Vec<FlowStateRow>,
    pub waits: Vec<WaitRow>,
    pub stays: Vec<StayRow>,
    pub stacks: Vec<StackRow>,
    pub polls: Vec<PollRow>,
    pub tasks: Vec<TaskRow>,
    pub losses: Vec<(String, u64)>,
    pub messages: Vec<MessageRow>,
    pub limits: Vec<LimitRow>,
    pub marks: Vec<MarkRow>,
    pub faults: Vec<FaultRow>,
    pub heads: Vec<Head>,
    texts: std::collections::HashMap<u32, String>,
    pub defects: Vec<String>,
}

impl Trace {
    pub fn open(folder: &std::path::Path) -> Trace {
        let folder = Folder::open(&[folder]).expect("the folder reads");
        let host = &folder.hosts()[0];
        let mut t = Trace::default();
        for e in host.events(TableSet::ALL, ..) {
            match e {
                Event::Op(r) => t.ops.push(r),
                Event::Endpoint(r) => t.endpoints.push(r),
                Event::FlowState(r) => t.states.push(r),
                Event::Wait(r) => t.waits.push(r),
                Event::Stay(r) => t.stays.push(r),
                Event::Stack(r) => t.stacks.push(r),
                Event::Poll(r) => t.polls.push(r),
                Event::Task(r) => t.tasks.push(r),
                Event::Loss(r) => t.losses.push((host.text(r.what).to_owned(), r.count)),
                Event::Message(r) => t.messages.push(r),
                Event::Limit(r) => t.limits.push(r),
                Event::Mark(r) => t.marks.push(r),
                Event::Fault(r) => t.faults.push(r),
                _ => {}
            }
        }
        t.heads = host.heads(..).collect();
        let mut ids: Vec<u32> = t.tasks.iter().flat_map(|r| [r.comm.0, r.cmdline.0]).collect();
        ids.extend(t.endpoints.iter().map(|r| r.path.0));
        ids.extend(t.stacks.iter().map(|r| r.frames.0));
        ids.extend(t.limits.iter().map(|r| r.cgroup.0));
        ids.extend(t.waits.iter().map(|r| r.file.0));
        ids.extend(t.faults.iter().map(|r| r.file.0));
        ids.extend(t.marks.iter().flat_map(|r| [r.machine.0, r.name.0]));
        ids.extend(t.messages.iter().flat_map(|r| [r.protocol.0, r.verb.0, r.target.0]));
        t.texts = ids.into_iter().map(|i| (i, host.text(wakepath_model::ids::StrId(i)).to_owned())).collect();
        t.defects = folder.defects().iter().map(|d| d.defect.id.to_owned()).collect();
        t
    }

    pub fn text(&self, id: wakepath_model::ids::StrId) -> &str {
        self.texts.get(&id.0).map_or("", String::as_str)
    }

    /// Losses of one kind.
    pub fn lost(&self, what: &str) -> u64 {
        self.losses.iter().filter(|(w, _)| w == what).map(|(_, n)| n).sum()
    }

    /// Operations of these flows whose ranges are of a class; of all flows together as many are counted as there are.
    pub fn ranged(&self, class: RangeHow, flows: &[EndpointId]) -> usize {
        let what = if class == RangeHow::Gap { defect::RANGE_GAP } else { defect::RANGE_OVERLAP };
        let is_of_class = |o: &&OpRow| o.range == class;
        let at_start = if class == RangeHow::Gap { self.lost(defect::RANGE_START) } else { 0 };
        assert_eq!(self.lost(what) + at_start, self.ops.iter().filter(is_of_class).count() as u64, "{what}");
        self.ops.iter().filter(is_of_class).filter(|o| flows.contains(&o.flow)).count()
    }

    /// Whether all ranges of these flows fit to each other.
    pub fn is_whole(&self, flows: &[EndpointId]) -> bool {
        self.ranged(RangeHow::Gap, flows) + self.ranged(RangeHow::Overlap, flows) == 0
    }

    pub fn flow_ops(&self, flow: EndpointId) -> Vec<OpRow> {
        self.ops.iter().filter(|o| o.flow == flow).copied().collect()
    }

    /// Operations of one kind that moved bytes.
    pub fn moved(&self, flow: EndpointId, kind: OpKind) -> Vec<OpRow> {
        self.ops.iter().filter(|o| o.flow == flow && o.kind == kind && o.result > 0).copied().collect()
    }

    /// The last word on an endpoint.
    pub fn endpoint(&self, flow: EndpointId) -> Option<EndpointRow> {
        self.endpoints.iter().rev().find(|e| e.flow == flow).copied()
    }

    /// The first word on it.
    pub fn first_endpoint(&self, flow: EndpointId) -> Option<EndpointRow> {
        self.endpoints.iter().find(|e| e.flow == flow).copied()
    }

    /// The tasks that a tid meant.
    pub fn tasks_of(&self, tid: i32) -> Vec<TaskId> {
        let mut ids: Vec<TaskId> = self.tasks.iter().filter(|t| t.tid == tid as u32).map(|t| t.task).collect();
        ids.sort();
        ids.dedup();
        ids
    }

    pub fn task(&self, tid: i32) -> TaskId {
        let ids = self.tasks_of(tid);
        assert_eq!(ids.len(), 1, "tid {tid} means {ids:?}");
        ids[0]
    }

    pub fn waits_of(&self, tid: i32) -> Vec<WaitRow> {
        let task = self.task(tid);
        self.waits.iter().filter(|w| w.task == task).copied().collect()
    }

    /// Waits that ended, of a task in a system call.
    pub fn slept_in(&self, tid: i32, syscall: libc::c_long) -> Vec<WaitRow> {
        let waits = self.waits_of(tid);
        waits
            .into_iter()
            .filter(|w| i64::from(w.syscall) == syscall && w.state != 0 && w.cause != EndedBy::Open)
            .collect()
    }

    /// The endpoint after a descriptor, by the ids that the recorder may have given it.
    pub fn flow(&self, ids: [EndpointId; 2]) -> EndpointId {
        let known = |i: &EndpointId| self.ops.iter().any(|o| o.flow == *i) || self.endpoint(*i).is_some();
        ids.into_iter().find(known).unwrap_or_else(|| panic!("no trace of flow {ids:x?}"))
    }

    /// All bytes of one direction, numbered without a hole: the numbers of the first and of one past the last.
    pub fn chain(&self, flow: EndpointId, kind: OpKind, class: RangeHow) -> (u64, u64) {
        let ops = self.moved(flow, kind);
        assert!(!ops.is_empty(), "no operations of kind {kind} on {flow:x?}");
        for o in &ops {
            assert_eq!(o.range, class, "{o:?}");
            assert_eq!(o.end - o.start, o.result as u64, "{o:?}");
            assert!(o.entry <= o.at, "{o:?}");
        }
        for pair in ops.windows(2) {
            assert_eq!(pair[0].end, pair[1].start, "{:?} then {:?}", pair[0], pair[1]);
        }
        (ops[0].start, ops[ops.len() - 1].end)
    }

    /// Every captured head says what was sent; `stream` begins at number `base`. How many there are.
    pub fn check_heads(&self, flow: EndpointId, sent: bool, base: u64, stream: &[u8]) -> usize {
        let heads: Vec<_> = self.heads.iter().filter(|h| h.flow == flow && h.sent == sent).collect();
        for h in &heads {
            let from = (h.pos - base) as usize;
            assert!(stream[from..].starts_with(&h.bytes), "a head of {} bytes at {from} differs", h.bytes.len());
        }
        heads.len()
    }
}

/// The ids that a recording may give to a socket: its cookie, or one made from its inode.
pub fn ids(fd: &impl AsRawFd) -> [EndpointId; 2] {
    let fd = fd.as_raw_fd();
    let mut cookie = 0u64;
    let mut len = 8;
    // SAFETY: a place for eight bytes and its length; `stat` is zeroed, which is a valid value.
    let inode = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_COOKIE, (&raw mut cookie).cast(), &mut len);
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &mut stat);
        stat.st_ino
    };
    [EndpointId(cookie), EndpointId((inode & 0xffff_ffff) | 1 << 62)]
}

/// The id of a pipe.
pub fn pipe_id(fd: RawFd) -> EndpointId {
    // SAFETY: `stat` is zeroed, which is a valid value, and is only written to.
    let inode = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &mut stat);
        stat.st_ino
    };
    EndpointId(inode | 1 << 63)
}

pub fn gettid() -> i32 {
    // SAFETY: has no conditions.
    unsafe { libc::gettid() }
}

pub fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Longer than anything here takes, on a machine however busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// A port at which nobody listens now.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).and_then(|l| l.local_addr()).expect("a port").port()
}

/// Waits for what comes soon.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what} does not come");
        pause(5);
    }
}

/// Waits until a thread sleeps in a system call; with `arg0`, in one with that first argument.
pub fn until_asleep(tid: i32, syscall: libc::c_long, arg0: Option<RawFd>) {
    let wanted = arg0.map_or_else(|| format!("{syscall} "), |fd| format!("{syscall} {fd:#x} "));
    until(&format!("the sleep of {tid} in {wanted}"), || {
        std::fs::read_to_string(format!("/proc/{tid}/syscall")).is_ok_and(|s| s.starts_with(&wanted))
    });
}

/// A processor that this process may use.
pub fn a_processor() -> usize {
    // SAFETY: a zeroed set is a valid value, and is of the stated size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &mut set);
        (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &set)).unwrap_or(0)
    }
}

/// Moves this thread there; whether that could be done.
pub fn on_processor(cpu: usize) -> bool {
    // SAFETY: as above.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set) == 0
    }
}

/// Begin and end, in nanoseconds of CLOCK_MONOTONIC.
pub type Interval = (u64, u64);

pub fn now_ns() -> u64 {
    wakepath_capture::monotonic_ns()
}

pub fn overlap(a: Interval, b: Interval) -> u64 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}

/// The active path of a thread, as `waits` tells it: slices that cover its time without a gap, each with when it was.
pub fn path_of(recording: &Recording, tid: i32) -> Vec<(Interval, serde_json::Value)> {
    let line = Command::new(binary())
        .args(["waits", "--json", "--task", &tid.to_string()])
        .arg(&recording.folder)
        .output()
        .expect("the binary starts");
    assert!(line.status.success(), "{}", String::from_utf8_lossy(&line.stderr));
    let told: serde_json::Value = serde_json::from_slice(&line.stdout).expect("it is JSON");
    let ns = |v: &serde_json::Value, name: &str| v[name].as_u64().unwrap_or_else(|| panic!("no {name} in {v}"));
    let slices = told["slices"].as_array().expect("it has slices");
    let sum: u64 = slices.iter().map(|s| ns(s, "duration_ns")).sum();
    assert_eq!(sum, ns(&told, "elapsed_ns"), "the slices add up to the elapsed time");
    for two in slices.windows(2) {
        assert_eq!(two[0]["to_ns"], two[1]["from_ns"], "no gap and no overlap");
    }
    // the time of day by the recording's own anchors: it may be set meanwhile
    let folder = Folder::open(&[&recording.folder]).expect("the folder reads");
    let (line, host) = (folder.timeline(), folder.hosts()[0].id());
    let at = |v: &serde_json::Value, name: &str| line.local(host, CommonNs(ns(v, name) as i64)).0;
    slices.iter().map(|s| ((at(s, "from_ns"), at(s, "to_ns")), s.clone())).collect()
}

/// Runs this test binary again as a helper: `name` is the test that plays the part, `args` come as variables.
pub fn helper(name: &str, part: &str) -> Command {
    let mut c = Command::new(std::env::current_exe().expect("this program has a path"));
    c.args([name, "--exact", "--nocapture", "--test-threads=1"]).env("WAKEPATH_PART", part).stdin(Stdio::piped());
    c
}

/// The part that this process was started to play.
pub fn part() -> Option<String> {
    std::env::var("WAKEPATH_PART").ok()
}

/// Waits for one byte on standard input, or its end.
pub fn wait_stdin() {
    let _ = std::io::stdin().read(&mut [0u8; 1]);
}

pub fn run(program: &str, args: &[&str]) -> Result<(), String> {
    match Command::new(program).args(args).output() {
        Ok(o) if o.status.success() => Ok(()),
        Ok(o) => Err(format!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&o.stderr).trim())),
        Err(e) => Err(format!("{program}: {e}")),
    }
}
