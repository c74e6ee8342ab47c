//! What `/proc` says of tasks: read once at the start and when an event names a task that no event introduced.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;

/// A task as `/proc` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcTask {
    /// Thread group.
    pub tgid: u32,
    /// Thread.
    pub tid: u32,
    /// The process that its process's forked, or that took it over; 0 where it has none.
    pub parent: u32,
    /// Start, ns since boot (10 ms grain: only the kernel's own events are finer).
    pub start_ns: u64,
    /// Name.
    pub comm: Vec<u8>,
    /// Command line of the process, NUL-separated.
    pub cmdline: Vec<u8>,
    /// `/proc/PID/cgroup`: in which cgroup of each hierarchy it is.
    pub cgroups: Vec<u8>,
    /// Kernel thread.
    pub kernel: bool,
}

/// The flag of kernel threads.
const PF_KTHREAD: u64 = 0x0020_0000;

/// Every task there is now. Tasks that end meanwhile are left out.
pub fn tasks() -> Vec<ProcTask> {
    let mut out = Vec::new();
    for tgid in numbers("/proc".into()) {
        let process = match task(tgid, tgid) {
            Some(p) => p,
            None => continue,
        };
        for tid in numbers(format!("/proc/{tgid}/task").into()) {
            if tid == tgid {
                out.push(process.clone());
            } else if let Some(Stat { comm, start_ns, .. }) = stat(tgid, tid) {
                out.push(ProcTask { tid, comm, start_ns, ..process.clone() });
            }
        }
    }
    out
}

/// One task, or `None` where it is gone.
pub fn task(tgid: u32, tid: u32) -> Option<ProcTask> {
    let Stat { comm, parent, start_ns, flags } = stat(tgid, tid)?;
    let cmdline = fs::read(format!("/proc/{tgid}/cmdline")).unwrap_or_default();
    let cgroups = fs::read(format!("/proc/{tgid}/cgroup")).unwrap_or_default();
    Some(ProcTask { tgid, tid, parent, start_ns, comm, cmdline, cgroups, kernel: flags & PF_KTHREAD != 0 })
}

/// What a process is called; `None` where it is gone.
pub fn comm(tgid: u32) -> Option<Vec<u8>> {
    let mut name = fs::read(format!("/proc/{tgid}/comm")).ok()?;
    // the kernel ends it with a new line
    name.pop();
    Some(name)
}

/// Every process there is now.
pub fn processes() -> Vec<u32> {
    numbers("/proc".into())
}

/// How often a SYN is sent again after the same time before that is doubled, in this network namespace; `None` where the kernel
/// has no such setting (before Linux 6.5).
pub fn syn_linear_timeouts() -> Option<u64> {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_syn_linear_timeouts").ok()?.trim().parse().ok()
}

/// In which cgroup of each hierarchy a process is, as `/proc` says it; `None` for a kernel thread and where it is gone.
pub fn cgroups(tgid: u32) -> Option<Vec<u8>> {
    let flags = stat(tgid, tgid)?.flags;
    (flags & PF_KTHREAD == 0).then(|| fs::read(format!("/proc/{tgid}/cgroup")).ok())?
}

/// What `stat` says of a task.
struct Stat {
    comm: Vec<u8>,
    parent: u32,
    start_ns: u64,
    flags: u64,
}

fn stat(tgid: u32, tid: u32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{tgid}/task/{tid}/stat")).ok()?;
    parse_stat(&text)
}

/// The name may hold spaces and parentheses.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|&b| b == b'(')?;
    let close = text.iter().rposition(|&b| b == b')')?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // fields are counted from 3 behind the name: ppid is the 4th, flags the 9th, starttime the 22nd
    let parent = fields.get(1)?.parse().ok()?;
    let flags = fields.get(6)?.parse().ok()?;
    let ticks: u64 = fields.get(19)?.parse().ok()?;
    let comm = text.get(open + 1..close)?.to_vec();
    // the kernel gives it as the time namespace of who reads it has it
    let start_ns = ticks.saturating_mul(10_000_000).wrapping_sub(crate::timens::own().boottime_ns as u64);
    Some(Stat { comm, parent, start_ns, flags })
}

fn numbers(folder: PathBuf) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

/// A file that is mapped into a process as code, or what the kernel put in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// Inode, 0 where it is no file.
    pub inode: u64,
    /// Path in the process's own view, or a name like `[vdso]`; empty for memory without either.
    pub path: String,
}

/// The code in a process's memory, by address; `None` where the process is gone or runs another program than the one whose
/// first stack begins at `image`.
pub fn mappings(tgid: u32, image: u64) -> Option<Vec<Mapping>> {
    let same = || {
        let stat = fs::read(format!("/proc/{tgid}/stat")).ok()?;
        (start_stack(&stat)? == image).then_some(())
    };
    same()?;
    let text = fs::read(format!("/proc/{tgid}/maps")).ok()?;
    // it may have begun another program while its memory was read
    same()?;
    Some(String::from_utf8_lossy(&text).lines().filter_map(mapping).collect())
}

/// The code in a process's memory; nothing where it is gone.
pub fn code(tgid: u32) -> Vec<Mapping> {
    let text = fs::read(format!("/proc/{tgid}/maps")).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(mapping).collect()
}

/// A file that is mapped into a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedFile {
    /// Its device: major << 20 | minor.
    pub device: u32,
    /// Its inode on that device.
    pub inode: u64,
    /// Path in the process's own view.
    pub path: String,
}

/// The files in a process's memory, each as often as it is mapped; nothing where the process is gone.
pub fn mapped_files(tgid: u32) -> Vec<MappedFile> {
    let text = fs::read(format!("/proc/{tgid}/maps")).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(mapped_file).collect()
}

fn mapped_file(line: &str) -> Option<MappedFile> {
    let mut fields = line.splitn(6, ' ').skip(3);
    let (major, minor) = fields.next()?.split_once(':')?;
    let number = |s: &str| u32::from_str_radix(s, 16).ok();
    let device = number(major)?.checked_mul(1 << 20)? | number(minor)?;
    let inode = fields.next()?.parse().ok().filter(|&i| i != 0)?;
    let path = fields.next()?.trim_start().to_owned();
    path.starts_with('/').then_some(MappedFile { device, inode, path })
}

fn start_stack(stat: &[u8]) -> Option<u64> {
    let close = stat.iter().rposition(|&b| b == b')')?;
    // the 28th field; the first after the name is the 3rd
    std::str::from_utf8(stat.get(close + 1..)?).ok()?.split_ascii_whitespace().nth(25)?.parse().ok()
}

fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?;
    let hex = |s: &str| u64::from_str_radix(s, 16).ok();
    let offset = hex(fields.next()?)?;
    let inode = fields.nth(1)?.parse().ok()?;
    let path = fields.next().unwrap_or("").trim_start();
    let path = path.strip_suffix(" (deleted)").unwrap_or(path).to_owned();
    rights.contains('x').then_some(Mapping { start: hex(start)?, end: hex(end)?, offset, inode, path })
}

/// The build id of a mapped file in hexadecimal, read through the process's own view of the file system; `None` where the
/// file has none, is not the one that is mapped any more, or cannot be read.
pub fn build_id(tgid: u32, of: &Mapping) -> Option<String> {
    use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
    const HEAD_BYTES: usize = 64 << 10;
    if of.inode == 0 || !of.path.starts_with('/') {
        return None;
    }
    // the path is the process's choice: never wait for what it may be
    let path = format!("/proc/{tgid}/root{}", of.path);
    let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path).ok()?;
    let about = file.metadata().ok()?;
    if !about.is_file() || about.ino() != of.inode {
        return None;
    }
    let mut head = vec![0; HEAD_BYTES.min(about.len() as usize)];
    let n = file.read_at(&mut head, 0).ok()?;
    crate::elf::build_id(&head[..n]).map(|id| id.iter().map(|b| format!("{b:02x}")).collect())
}

/// Whether a process listens for connections, of TCP or of a UNIX socket.
pub fn listens(tgid: u32) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{tgid}/fd")) else { return false };
    let inode = |link: PathBuf| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok();
    let own: HashSet<u64> = open.flatten().filter_map(|fd| inode(fs::read_link(fd.path()).ok()?)).collect();
    let lines = |table: &str| {
        let file = fs::File::open(format!("/proc/{tgid}/net/{table}")).ok();
        file.map(BufReader::new).into_iter().flat_map(|f| f.lines().map_while(Result::ok)).skip(1)
    };
    // the kernel lists those that listen first: of all the others none is read
    let of_tcp =
        |table| lines(table).map_while(|l| listener(&l, 3, 9, |state| state == 0x0a)).any(|i| own.contains(&i));
    let of_unix =
        || lines("unix").filter_map(|l| listener(&l, 3, 6, |flags| flags & ACCEPTS != 0)).any(|i| own.contains(&i));
    !own.is_empty() && (of_tcp("tcp") || of_tcp("tcp6") || of_unix())
}

/// The flag of UNIX sockets that listen, in `/proc/net/unix`.
const ACCEPTS: u64 = 0x1_0000;

/// The inode of a socket that listens, out of a line of `/proc/net/tcp` or `unix`: of that word, where another one says that it does.
fn listener(line: &str, says: usize, inode: usize, does: impl Fn(u64) -> bool) -> Option<u64> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let is_one = u64::from_str_radix(words.get(says)?, 16).is_ok_and(does);
    words.get(inode)?.parse().ok().filter(|_| is_one)
}

/// (process, its parent) of every process.
pub fn parents() -> Vec<(u32, u32)> {
    numbers("/proc".into())
        .into_iter()
        .filter_map(|pid| {
            let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
            let close = text.iter().rposition(|&b| b == b')')?;
            let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
            Some((pid, rest.split_ascii_whitespace().nth(1)?.parse().ok()?))
        })
        .collect()
}

/// Identity of this host: name, boot id, kernel release.
pub fn host() -> (String, String, String) {
    let read = |p: &str| fs::read_to_string(p).map(|s| s.trim().to_owned()).unwrap_or_default();
    let name = name_of_init().unwrap_or_else(|| read("/proc/sys/kernel/hostname"));
    (name, read("/proc/sys/kernel/random/boot_id"), read("/proc/sys/kernel/osrelease"))
}

/// The host's own name, where the recorder is in a container that shares the host's process numbers: there the kernel tells the
/// container's.
fn name_of_init() -> Option<String> {
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/uts")).ok();
    if namespace("1")? == namespace("self")? {
        return None;
    }
    let text = fs::read_to_string("/proc/1/root/etc/hostname").ok()?;
    let name = text.lines().map(str::trim).find(|l| !l.is_empty() && !l.starts_with('#'))?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_parentheses() {
        let line = b"7 (a) b) S 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 0 0";
        let s = parse_stat(line).unwrap();
        assert_eq!((s.comm.as_slice(), s.parent, s.start_ns, s.flags), (&b"a) b"[..], 1, 123_450_000_000, 4194304));
    }

    #[test]
    fn who_listens_is_known_by_its_sockets() {
        use std::os::linux::net::SocketAddrExt as _;
        let me = std::process::id();
        // other tests of this process may listen too: only that it is found is certain
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
        assert!(listens(me));
        drop(tcp);
        let name = std::os::unix::net::SocketAddr::from_abstract_name(format!("wakepath-{me}")).expect("a name");
        let _unix = std::os::unix::net::UnixListener::bind_addr(&name).expect("a socket");
        assert!(listens(me));
        // a kernel thread has no files
        assert!(!listens(2) && !listens(u32::MAX));
        let established = "0: 0100007F:1F90 0100007F:A000 01 00000000:00000000 00:00000000 00000000 0 0 4242 1";
        assert_eq!(listener(established, 3, 9, |s| s == 0x0a), None);
        let listening = "0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4242 1";
        assert_eq!(listener(listening, 3, 9, |s| s == 0x0a), Some(4242));
        assert_eq!(listener("0: x", 3, 9, |_| true), None);
    }

    #[test]
    fn code_is_found_in_maps() {
        let line =
            "7f1c2a000000-7f1c2a155000 r-xp 00026000 fe:01 1234                       /usr/lib/lib c.so.6 (deleted)";
        let m = mapping(line).expect("code");
        assert_eq!((m.start, m.end, m.offset, m.inode), (0x7f1c_2a00_0000, 0x7f1c_2a15_5000, 0x26000, 1234));
        assert_eq!(m.path, "/usr/lib/lib c.so.6");
        assert_eq!(mapping("7f1c2a000000-7f1c2a155000 rw-p 00000000 00:00 0 "), None);
        assert_eq!(mapping("7f1c2a000000-7f1c2a155000 r-xp 00000000 00:00 0").expect("code").path, "");
        assert_eq!(mapping(""), None);
    }

    #[test]
    fn own_code_is_mapped_by_the_program_that_runs() {
        let me = std::process::id();
        let image = start_stack(&fs::read("/proc/self/stat").expect("it is there")).expect("a stack");
        let maps = mappings(me, image).expect("they can be read");
        let here = own_code_is_mapped_by_the_program_that_runs as fn() as usize as u64;
        let m = maps.iter().find(|m| m.start <= here && here < m.end).expect("this function is mapped");
        assert_eq!(fs::canonicalize(&m.path).ok(), std::env::current_exe().ok());
        assert!(build_id(me, m).is_none_or(|id| id.len() >= 16 && id.bytes().all(|b| b.is_ascii_hexdigit())));
        assert_eq!(build_id(me, &Mapping { inode: 1, ..m.clone() }), None, "another file than the one mapped");
        assert_eq!(mappings(me, image + 8), None, "another program");
    }

    #[test]
    fn own_task_is_there() {
        let me = std::process::id();
        assert!(tasks().iter().any(|t| t.tgid == me && t.tid == me && !t.kernel));
    }
}
