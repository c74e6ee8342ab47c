//! Numbers of system calls in records: those of x86-64, whatever machine records.
//!
//! So a folder means the same on every machine, and nothing after the recorder has to know where it was made.

use crate::NO_SYSCALL;

/// Calls of aarch64 (the kernel's generic table) from number 0 on: name, and number on x86-64.
#[rustfmt::skip]
const AARCH64: [(&str, u16); 244] = [
    ("io_setup", 206), ("io_destroy", 207), ("io_submit", 209), ("io_cancel", 210), ("io_getevents", 208),
    ("setxattr", 188), ("lsetxattr", 189), ("fsetxattr", 190), ("getxattr", 191), ("lgetxattr", 192),
    ("fgetxattr", 193), ("listxattr", 194), ("llistxattr", 195), ("flistxattr", 196), ("removexattr", 197),
    ("lremovexattr", 198), ("fremovexattr", 199), ("getcwd", 79), ("lookup_dcookie", 212), ("eventfd2", 290),
    ("epoll_create1", 291), ("epoll_ctl", 233), ("epoll_pwait", 281), ("dup", 32), ("dup3", 292), ("fcntl", 72),
    ("inotify_init1", 294), ("inotify_add_watch", 254), ("inotify_rm_watch", 255), ("ioctl", 16), ("ioprio_set", 251),
    ("ioprio_get", 252), ("flock", 73), ("mknodat", 259), ("mkdirat", 258), ("unlinkat", 263), ("symlinkat", 266),
    ("linkat", 265), ("renameat", 264), ("umount2", 166), ("mount", 165), ("pivot_root", 155), ("nfsservctl", 180),
    ("statfs", 137), ("fstatfs", 138), ("truncate", 76), ("ftruncate", 77), ("fallocate", 285), ("faccessat", 269),
    ("chdir", 80), ("fchdir", 81), ("chroot", 161), ("fchmod", 91), ("fchmodat", 268), ("fchownat", 260),
    ("fchown", 93), ("openat", 257), ("close", 3), ("vhangup", 153), ("pipe2", 293), ("quotactl", 179),
    ("getdents64", 217), ("lseek", 8), ("read", 0), ("write", 1), ("readv", 19), ("writev", 20), ("pread64", 17),
    ("pwrite64", 18), ("preadv", 295), ("pwritev", 296), ("sendfile", 40), ("pselect6", 270), ("ppoll", 271),
    ("signalfd4", 289), ("vmsplice", 278), ("splice", 275), ("tee", 276), ("readlinkat", 267), ("newfstatat", 262),
    ("fstat", 5), ("sync", 162), ("fsync", 74), ("fdatasync", 75), ("sync_file_range", 277), ("timerfd_create", 283),
    ("timerfd_settime", 286), ("timerfd_gettime", 287), ("utimensat", 280), ("acct", 163), ("capget", 125),
    ("capset", 126), ("personality", 135), ("exit", 60), ("exit_group", 231), ("waitid", 247),
    ("set_tid_address", 218), ("unshare", 272), ("futex", 202), ("set_robust_list", 273), ("get_robust_list", 274),
    ("nanosleep", 35), ("getitimer", 36), ("setitimer", 38), ("kexec_load", 246), ("init_module", 175),
    ("delete_module", 176), ("timer_create", 222), ("timer_gettime", 224), ("timer_getoverrun", 225),
    ("timer_settime", 223), ("timer_delete", 226), ("clock_settime", 227), ("clock_gettime", 228),
    ("clock_getres", 229), ("clock_nanosleep", 230), ("syslog", 103), ("ptrace", 101), ("sched_setparam", 142),
    ("sched_setscheduler", 144), ("sched_getscheduler", 145), ("sched_getparam", 143), ("sched_setaffinity", 203),
    ("sched_getaffinity", 204), ("sched_yield", 24), ("sched_get_priority_max", 146), ("sched_get_priority_min", 147),
    ("sched_rr_get_interval", 148), ("restart_syscall", 219), ("kill", 62), ("tkill", 200), ("tgkill", 234),
    ("sigaltstack", 131), ("rt_sigsuspend", 130), ("rt_sigaction", 13), ("rt_sigprocmask", 14),
    ("rt_sigpending", 127), ("rt_sigtimedwait", 128), ("rt_sigqueueinfo", 129), ("rt_sigreturn", 15),
    ("setpriority", 141), ("getpriority", 140), ("reboot", 169), ("setregid", 114), ("setgid", 106),
    ("setreuid", 113), ("setuid", 105), ("setresuid", 117), ("getresuid", 118), ("setresgid", 119),
    ("getresgid", 120), ("setfsuid", 122), ("setfsgid", 123), ("times", 100), ("setpgid", 109), ("getpgid", 121),
    ("getsid", 124), ("setsid", 112), ("getgroups", 115), ("setgroups", 116), ("uname", 63), ("sethostname", 170),
    ("setdomainname", 171), ("getrlimit", 97), ("setrlimit", 160), ("getrusage", 98), ("umask", 95), ("prctl", 157),
    ("getcpu", 309), ("gettimeofday", 96), ("settimeofday", 164), ("adjtimex", 159), ("getpid", 39), ("getppid", 110),
    ("getuid", 102), ("geteuid", 107), ("getgid", 104), ("getegid", 108), ("gettid", 186), ("sysinfo", 99),
    ("mq_open", 240), ("mq_unlink", 241), ("mq_timedsend", 242), ("mq_timedreceive", 243), ("mq_notify", 244),
    ("mq_getsetattr", 245), ("msgget", 68), ("msgctl", 71), ("msgrcv", 70), ("msgsnd", 69), ("semget", 64),
    ("semctl", 66), ("semtimedop", 220), ("semop", 65), ("shmget", 29), ("shmctl", 31), ("shmat", 30), ("shmdt", 67),
    ("socket", 41), ("socketpair", 53), ("bind", 49), ("listen", 50), ("accept", 43), ("connect", 42),
    ("getsockname", 51), ("getpeername", 52), ("sendto", 44), ("recvfrom", 45), ("setsockopt", 54),
    ("getsockopt", 55), ("shutdown", 48), ("sendmsg", 46), ("recvmsg", 47), ("readahead", 187), ("brk", 12),
    ("munmap", 11), ("mremap", 25), ("add_key", 248), ("request_key", 249), ("keyctl", 250), ("clone", 56),
    ("execve", 59), ("mmap", 9), ("fadvise64", 221), ("swapon", 167), ("swapoff", 168), ("mprotect", 10),
    ("msync", 26), ("mlock", 149), ("munlock", 150), ("mlockall", 151), ("munlockall", 152), ("mincore", 27),
    ("madvise", 28), ("remap_file_pages", 216), ("mbind", 237), ("get_mempolicy", 239), ("set_mempolicy", 238),
    ("migrate_pages", 256), ("move_pages", 279), ("rt_tgsigqueueinfo", 297), ("perf_event_open", 298),
    ("accept4", 288), ("recvmmsg", 299),
];

/// And from [`AARCH64_BEHIND`] on: numbers between are those of single architectures.
#[rustfmt::skip]
const AARCH64_MORE: [(&str, u16); 35] = [
    ("wait4", 61), ("prlimit64", 302), ("fanotify_init", 300), ("fanotify_mark", 301), ("name_to_handle_at", 303),
    ("open_by_handle_at", 304), ("clock_adjtime", 305), ("syncfs", 306), ("setns", 308), ("sendmmsg", 307),
    ("process_vm_readv", 310), ("process_vm_writev", 311), ("kcmp", 312), ("finit_module", 313),
    ("sched_setattr", 314), ("sched_getattr", 315), ("renameat2", 316), ("seccomp", 317), ("getrandom", 318),
    ("memfd_create", 319), ("bpf", 321), ("execveat", 322), ("userfaultfd", 323), ("membarrier", 324),
    ("mlock2", 325), ("copy_file_range", 326), ("preadv2", 327), ("pwritev2", 328), ("pkey_mprotect", 329),
    ("pkey_alloc", 330), ("pkey_free", 331), ("statx", 332), ("io_pgetevents", 333), ("rseq", 334),
    ("kexec_file_load", 320),
];

const AARCH64_BEHIND: usize = 260;

/// From here on all architectures have the same numbers.
const COMMON_FROM: usize = 424;

/// Calls of aarch64 by number: each with its name and its number on x86-64. Those from 424 on are left out, which are the same.
pub fn of_aarch64() -> impl Iterator<Item = (usize, &'static str, u16)> {
    let behind = (AARCH64_BEHIND..).zip(AARCH64_MORE);
    (0..).zip(AARCH64).chain(behind).map(|(number, (name, recorded))| (number, name, recorded))
}

/// What records say of a call of aarch64; [`NO_SYSCALL`] for one that is not known.
pub const fn recorded_of_aarch64(number: i64) -> u16 {
    if number < 0 || number > u16::MAX as i64 {
        return NO_SYSCALL;
    }
    let number = number as usize;
    if number < AARCH64.len() {
        AARCH64[number].1
    } else if number >= AARCH64_BEHIND && number - AARCH64_BEHIND < AARCH64_MORE.len() {
        AARCH64_MORE[number - AARCH64_BEHIND].1
    } else if number >= COMMON_FROM {
        number as u16
    } else {
        NO_SYSCALL
    }
}

/// What records say of a call that has this number on the machine that this was compiled for.
pub const fn recorded(number: i64) -> u16 {
    if cfg!(target_arch = "aarch64") { recorded_of_aarch64(number) } else { number as u16 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_aarch64_are_recorded_by_their_numbers_on_x86_64() {
        // by asm-generic/unistd.h: io_setup, epoll_pwait, openat, read, ppoll, futex, recvfrom, mmap, accept4, rseq
        let known = [0, 22, 56, 63, 73, 98, 207, 222, 242, 293];
        assert_eq!(known.map(recorded_of_aarch64), [206, 281, 257, 0, 271, 202, 45, 9, 288, 334]);
        assert_eq!([424, 426, 441].map(recorded_of_aarch64), [424, 426, 441]);
        assert_eq!([-1, 244, 259, 295, 423, 70_000].map(recorded_of_aarch64), [NO_SYSCALL; 6]);
    }

    #[test]
    fn no_two_calls_of_aarch64_are_recorded_as_one() {
        let mut seen = [false; 512];
        for (number, name, recorded) in of_aarch64() {
            assert_eq!(recorded_of_aarch64(number as i64), recorded, "{name}");
            assert!(!core::mem::replace(&mut seen[usize::from(recorded)], true), "{name}");
        }
    }
}
