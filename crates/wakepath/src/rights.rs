//! Capabilities: which are needed, and giving up the others.

/// Name, number, and what for.
pub const NEEDED: &[(&str, u32, &str)] = &[
    ("CAP_BPF", 39, "load kernel programs, add processes to those watched, read program statistics"),
    ("CAP_PERFMON", 38, "attach to tracepoints and read kernel memory from programs"),
    ("CAP_SYS_PTRACE", 19, "read /proc/PID of other users' processes"),
    ("CAP_DAC_READ_SEARCH", 2, "read programs, and files of container runtimes, that only their owners may read"),
];

/// How to give the binary these rights.
pub const SETCAP: &str = "sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep $(which wakepath)";

/// The capability to pass and read others' folders.
const CAP_DAC_READ_SEARCH: u32 = 2;
/// The capability to send signals to other users' processes.
const CAP_KILL: u32 = 5;
/// The capability that includes the others of the kernel vantage.
pub const CAP_SYS_ADMIN: u32 = 21;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const VERSION_3: u32 = 0x2008_0522;

fn get() -> [Data; 2] {
    let mut h = Header { version: VERSION_3, pid: 0 };
    let mut d = [Data::default(); 2];
    // SAFETY: the layouts are capget(2)'s, and both pointers are valid.
    unsafe { libc::syscall(libc::SYS_capget, &mut h, d.as_mut_ptr()) };
    d
}

/// Whether this process may use a capability now.
pub fn has(capability: u32) -> bool {
    get()[(capability / 32) as usize].effective >> (capability % 32) & 1 == 1
}

/// The rights that the kernel vantage lacks, in words.
pub fn missing_for_kernel_vantage() -> Option<String> {
    let missing: Vec<&str> =
        NEEDED.iter().filter(|(_, n, _)| !has(*n) && !has(CAP_SYS_ADMIN)).map(|(name, _, _)| *name).collect();
    (!missing.is_empty()).then(|| missing.join(", "))
}

/// Gives up, for this process, every capability that recording does not need once it is attached. `has_command`: and that
/// of asking a command to end that runs as another user meanwhile.
pub fn keep_only_needed(has_command: bool) {
    keep_only(NEEDED.iter().map(|n| n.1).chain(has_command.then_some(CAP_KILL)));
}

/// Gives up every capability, where nothing of others is looked at: packets come out of sockets that are open. With a folder
/// on the disk, but that of passing others' folders on the way to it; with a command, but that of asking it to end.
/// Before other threads are started, since rights are each thread's own.
pub fn keep_only_paths(has_folder: bool, has_command: bool) {
    let paths = has_folder.then_some(CAP_DAC_READ_SEARCH);
    keep_only(paths.into_iter().chain(has_command.then_some(CAP_KILL)));
}

/// What is given up cannot be had again, also not by executing a program that has rights of its own.
fn keep_only(numbers: impl IntoIterator<Item = u32>) {
    // SAFETY: plain numbers; what the kernel refuses or does not know stays as it was. The bounding set first: it takes a
    // capability to make it smaller.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let mut capability: libc::c_ulong = 0;
        while libc::prctl(libc::PR_CAPBSET_READ, capability, 0, 0, 0) >= 0 {
            libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
            capability += 1;
        }
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    }
    let mut d = get();
    let mut keep = [0u32; 2];
    for n in numbers {
        keep[(n / 32) as usize] |= 1 << (n % 32);
    }
    // a user who is root writes into folders of others: that is root's file right, and the folder is already open
    for i in 0..2 {
        d[i].effective &= keep[i];
        d[i].permitted &= keep[i];
        d[i].inheritable = 0;
    }
    let mut h = Header { version: VERSION_3, pid: 0 };
    // SAFETY: as in `get`; a refusal leaves things as they were, which is no worse than before.
    unsafe { libc::syscall(libc::SYS_capset, &mut h, d.as_ptr()) };
}

/// Makes this thread's files those of a user and a group. The kernel takes rights over files away
/// with root's id; that of passing others' folders is needed further and taken again.
pub fn write_as(uid: u32, gid: u32) {
    // SAFETY: plain numbers; both return what was before, and cannot fail otherwise than by changing nothing.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
    }
    let mut d = get();
    let bit = 1 << CAP_DAC_READ_SEARCH;
    d[0].effective |= d[0].permitted & bit;
    let mut h = Header { version: VERSION_3, pid: 0 };
    // SAFETY: as in `get`; a refusal leaves the right away, and what cannot be read then is an error of its own.
    unsafe { libc::syscall(libc::SYS_capset, &mut h, d.as_ptr()) };
}

/// Whose files this thread makes now: user and group.
pub fn file_ids() -> (u32, u32) {
    // SAFETY: an id that cannot be changes nothing; what is given is the id from before.
    unsafe { (libc::setfsuid(u32::MAX) as u32, libc::setfsgid(u32::MAX) as u32) }
}

/// Makes this thread, for files, a user with one group and no right beyond that user's. For a thread that ends afterwards.
pub fn become_user_of_files(uid: u32, gid: u32) -> std::io::Result<()> {
    if file_ids() == (uid, gid) {
        return Ok(());
    }
    // SAFETY: plain numbers. The system call itself, since the C library's function changes all threads.
    unsafe {
        libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>());
        libc::setfsgid(gid);
        libc::setfsuid(uid);
    }
    if file_ids() == (uid, gid) { Ok(()) } else { Err(std::io::ErrorKind::PermissionDenied.into()) }
}

/// Makes this thread's files its own user's again.
pub fn write_as_self() {
    // SAFETY: both take nothing and cannot fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    write_as(uid, gid);
}

/// Asks to run before others: among hundreds of busy tasks the rings would fill up before it is the agent's turn. It
/// sleeps nearly always, so this costs the others nothing. A refusal is no failure: then losses are counted.
pub fn go_first() {
    // SAFETY: plain values.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -10) };
}

/// Asks that this thread alone runs after all others, also those of its own process.
pub fn go_last() {
    // SAFETY: plain values.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
}
