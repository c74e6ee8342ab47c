//! The priority at which a recorder empties its rings. On a host with more work than processors a ring fills up before it is an ordinary
//! program's turn, so it asks for the lowest real-time priority; and never keeps it for more than a part of a processor's time.

use crate::cli::PriorityFlag;
use crate::output::tell;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Most of one processor's time that it takes at a real-time priority, in percent over [`ROUND_NS`].
pub const SHARE_MAX: u64 = 50;
/// Over which its share is measured.
const ROUND_NS: u64 = 1_000_000_000;
/// How many rounds it stays an ordinary program after it took more.
const REST_ROUNDS: u32 = 10;
/// Longest that it computes at a real-time priority without a pause (us): then the kernel sends SIGXCPU.
const AT_ONCE_US: u64 = 500_000;
/// The niceness where there is no real-time priority.
const NICE: i32 = -20;

/// The kernel said that it computed for too long.
static TOO_LONG: AtomicBool = AtomicBool::new(false);
/// The thread of which it said so: another one may get the signal.
static RECORDER: AtomicI32 = AtomicI32::new(0);

/// How the recorder stands against other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Before all that are not real-time programs.
    RealTime,
    /// With the least niceness.
    Nice,
    /// Like any other program.
    Normal,
}

/// The recorder's priority, and what it used of its processor.
pub struct Priority {
    wanted: Level,
    now: Level,
    round_ns: u64,
    used_ns: u64,
    /// How many rounds are left of a rest.
    rest: u32,
    has_said: bool,
}

impl Priority {
    /// For the start of a recording, on the calling thread: what happens until it records is missed, so others may not delay it. It computes
    /// no longer than it takes to load the programs and to read what is there. Gives what [`Before::restore`] brings back.
    pub fn start(flag: PriorityFlag) -> Before {
        let mut param = libc::sched_param { sched_priority: 0 };
        // SAFETY: a live structure, of this thread; plain values.
        let before = unsafe {
            libc::sched_getparam(0, &mut param);
            Before {
                policy: libc::sched_getscheduler(0),
                priority: param.sched_priority,
                nice: libc::getpriority(libc::PRIO_PROCESS, 0),
            }
        };
        if flag != PriorityFlag::Normal {
            set_ordinary();
            set_nice(NICE);
        }
        before
    }

    /// Takes the priority that was asked for, as far as this process may. For the calling thread, and before rights are given up.
    pub fn take(flag: PriorityFlag) -> Priority {
        let is_wanted = matches!(flag, PriorityFlag::Auto | PriorityFlag::Realtime);
        let level = match () {
            () if is_wanted && begin_real_time() => Level::RealTime,
            () if flag != PriorityFlag::Normal && set_nice(NICE) => Level::Nice,
            () => Level::Normal,
        };
        let round_ns = wakepath_capture::monotonic_ns();
        Priority { wanted: level, now: level, round_ns, used_ns: thread_ns(), rest: 0, has_said: false }
    }

    /// What it is, for people.
    pub fn said(&self, flag: PriorityFlag) -> Option<String> {
        match (self.now, flag) {
            (Level::RealTime, _) => Some(format!(
                "recorder's priority: real-time (SCHED_RR 1), for at most {SHARE_MAX} % of one processor; --priority changes it"
            )),
            (Level::Nice, PriorityFlag::Realtime) => {
                Some(format!("recorder's priority: niceness {NICE}; a real-time priority needs CAP_SYS_NICE"))
            }
            (Level::Normal, PriorityFlag::Auto | PriorityFlag::Realtime | PriorityFlag::Nice) => Some(
                "recorder's priority: normal, because CAP_SYS_NICE is missing; on a busy host events may be lost"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// Looks what was used; to be called often. Rests where that was too much, and goes on after the rest.
    pub fn look(&mut self, now_ns: u64) {
        if self.wanted != Level::RealTime {
            return;
        }
        if TOO_LONG.swap(false, Ordering::Relaxed) {
            self.begin_rest();
        }
        let round = now_ns.saturating_sub(self.round_ns);
        if round < ROUND_NS {
            return;
        }
        let used = thread_ns();
        let is_too_much = used.wrapping_sub(self.used_ns).saturating_mul(100) > round.saturating_mul(SHARE_MAX);
        (self.round_ns, self.used_ns) = (now_ns, used);
        match self.now {
            Level::RealTime if is_too_much => self.begin_rest(),
            Level::RealTime => {}
            _ if self.rest > 1 => self.rest -= 1,
            _ => {
                if !is_too_much && set_real_time() {
                    self.now = Level::RealTime;
                }
            }
        }
    }

    fn begin_rest(&mut self) {
        set_ordinary();
        (self.now, self.rest) = (Level::Nice, REST_ROUNDS);
        if !std::mem::replace(&mut self.has_said, true) {
            tell!(
                "recorder's priority: it used more than {SHARE_MAX} % of a processor, so for {REST_ROUNDS} s it runs at niceness {NICE}; \
                 a narrower selection costs less"
            );
        }
    }
}

/// How the calling thread stood before: what it starts then stands as its user wanted.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    policy: libc::c_int,
    priority: libc::c_int,
    nice: i32,
}

impl Before {
    /// Brings that back, on the calling thread.
    pub fn restore(self) {
        let param = libc::sched_param { sched_priority: self.priority };
        // SAFETY: a live structure, of this thread.
        unsafe { libc::sched_setscheduler(0, self.policy, &param) };
        set_nice(self.nice);
    }
}

/// Takes a real-time priority, with the kernel's own limit on it; whether that could be done.
fn begin_real_time() -> bool {
    let priority = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
    let time = libc::rlimit { rlim_cur: AT_ONCE_US, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: live structures; the handler makes one system call and one store, as signal handlers may.
    unsafe {
        RECORDER.store(libc::gettid(), Ordering::Relaxed);
        // before the signal can come
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_too_long as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        if libc::sigaction(libc::SIGXCPU, &action, std::ptr::null_mut()) != 0
            || libc::setrlimit(libc::RLIMIT_RTTIME, &time) != 0
        {
            return false;
        }
        // so that it may take it again when the right for it is given up; without that it only stays an ordinary program
        libc::setrlimit(libc::RLIMIT_RTPRIO, &priority);
    }
    // where it rests
    set_nice(NICE);
    set_real_time()
}

extern "C" fn on_too_long(_: libc::c_int) {
    let param = libc::sched_param { sched_priority: 0 };
    let recorder = RECORDER.load(Ordering::Relaxed);
    // SAFETY: a live structure; a system call that handlers may make.
    unsafe { libc::sched_setscheduler(recorder, libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, &param) };
    TOO_LONG.store(true, Ordering::Relaxed);
}

fn set_real_time() -> bool {
    set_policy(libc::SCHED_RR, 1)
}

fn set_ordinary() {
    set_policy(libc::SCHED_OTHER, 0);
}

/// For this thread. What it makes is of ordinary priority.
fn set_policy(policy: libc::c_int, priority: libc::c_int) -> bool {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: a live structure, of this thread.
    unsafe { libc::sched_setscheduler(0, policy | libc::SCHED_RESET_ON_FORK, &param) == 0 }
}

fn set_nice(nice: i32) -> bool {
    // SAFETY: plain values.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) == 0 }
}

/// Processor time of this thread (ns).
fn thread_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> i32 {
        // SAFETY: asks of this thread.
        unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK }
    }

    /// Computes for a while of this thread's own processor time.
    fn compute(ms: u64) {
        let until = thread_ns() + ms * 1_000_000;
        while thread_ns() < until {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn what_is_started_after_the_start_stands_as_its_user_wanted() {
        // SAFETY: asks of this thread.
        let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        set_nice(7);
        let before = Priority::start(PriorityFlag::Auto);
        if nice() != NICE {
            println!("skipped: no right to a lower niceness");
            return;
        }
        before.restore();
        assert_eq!((nice(), policy()), (7, libc::SCHED_OTHER));
        let child = std::process::Command::new("nice").output().expect("nice runs");
        assert_eq!(String::from_utf8_lossy(&child.stdout).trim(), "7", "a command inherits it");
    }

    #[test]
    fn a_recorder_that_takes_too_much_becomes_an_ordinary_program_and_comes_back() {
        let mut p = Priority::take(PriorityFlag::Auto);
        if p.now != Level::RealTime {
            println!("skipped: no right to a real-time priority");
            return;
        }
        assert_eq!(policy(), libc::SCHED_RR);
        let child = std::thread::spawn(policy).join().expect("it ends");
        assert_eq!(child, libc::SCHED_OTHER, "what it makes is an ordinary program");
        // more than its share of a round, in pieces that are each short enough
        let begin = p.round_ns;
        p.used_ns = p.used_ns.wrapping_sub(ROUND_NS);
        p.look(begin + ROUND_NS);
        assert_eq!((policy(), p.now), (libc::SCHED_OTHER, Level::Nice));
        for round in 2..=u64::from(REST_ROUNDS) {
            p.look(begin + round * ROUND_NS);
            assert_eq!(policy(), libc::SCHED_OTHER, "round {round} of its rest");
        }
        p.look(begin + u64::from(REST_ROUNDS + 1) * ROUND_NS);
        assert_eq!((policy(), p.now), (libc::SCHED_RR, Level::RealTime));
        // at once: the kernel stops it by itself
        compute(AT_ONCE_US / 1_000 + 1_500);
        assert_eq!(policy(), libc::SCHED_OTHER, "it computed for longer than it may");
        p.look(begin + u64::from(REST_ROUNDS + 1) * ROUND_NS);
        assert_eq!(p.now, Level::Nice);
    }
}
