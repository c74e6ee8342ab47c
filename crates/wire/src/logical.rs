//! The records of logical tasks' lives, and of what they hand on and wait for.

use crate::Head;

layouts! {
    /// What made a goroutine or a Python context that acts for the first time: one that makes another may never act itself.
    struct Makers as "wp_makers" {
        /// Head; `sub` is one of `RUNTIME_…`.
        head: Head,
        /// When it acts.
        ts_ns: u64,
        /// Process.
        tgid: u32,
        /// Zero.
        pad: u32,
        /// Its maker's identity, that one's maker's, and so on. Zeros follow.
        line: [u64; 7],
        /// When each of them was made, 0 where that is not known.
        born_ns: [u64; 7],
    }

    /// A goroutine ended that had acted, or made another. With `KIND_FOR_OTHERS`: a task was seen to work for others, with its identity alone.
    struct Ended as "wp_ended" {
        /// Head; `sub` is one of `RUNTIME_…`.
        head: Head,
        /// When.
        ts_ns: u64,
        /// Process.
        tgid: u32,
        /// Zero.
        pad: u32,
        /// Its identity.
        key: u64,
        /// The identity of the one that made it.
        parent: u64,
        /// When it was made.
        born_ns: u64,
    }

    /// A goroutine got an item of a channel from another. Written when it is given where the other waits, else when it is taken.
    struct Handover as "wp_handover" {
        /// Head; `sub` is one of `RUNTIME_…`.
        head: Head,
        /// When the goroutine got it.
        ts_ns: u64,
        /// When the other one sent it.
        sent_ns: u64,
        /// When the first one sent it, where others only passed it on.
        first_ns: u64,
        /// Process.
        tgid: u32,
        /// `HANDOVERF_…`.
        flags: u32,
        /// Who got it.
        to: u64,
        /// Who sent it, 0 where that is not known.
        from: u64,
        /// Who sent it first.
        first: u64,
        /// The address of what describes the items' type.
        of: u64,
    }

    /// A goroutine serves an HTTP/2 stream, or asks by it, while others read or write for all of its connection.
    struct Stream as "wp_stream" {
        /// Head; `sub` is one of `RUNTIME_…`.
        head: Head,
        /// When it begins to.
        ts_ns: u64,
        /// Process.
        tgid: u32,
        /// The stream's number.
        stream: u32,
        /// 1: it asks, and `by` writes that; 0: it serves, and `by` reads what it is asked, or made the one that does.
        calls: u32,
        /// Zero.
        pad: u32,
        /// Its identity.
        key: u64,
        /// The identity of the one that made it, 0 where not known.
        parent: u64,
        /// When it was made, 0 where not known.
        born_ns: u64,
        /// See `calls`.
        by: u64,
    }

    /// Whose work a thread did when a timer interrupted it, as its processor's tick does.
    struct Ran as "wp_ran" {
        /// Head; `sub` is one of `RUNTIME_…`.
        head: Head,
        /// When.
        ts_ns: u64,
        /// Process.
        tgid: u32,
        /// Thread.
        tid: u32,
        /// Identity of the logical task that it ran.
        key: u64,
    }

    /// A goroutine was parked, and runs again. Written when it does.
    struct Park as "wp_park" {
        /// Head; `sub` is one of `RUNTIME_…`.
        head: Head,
        /// When it runs again.
        ts_ns: u64,
        /// When it was parked.
        blocked_ns: u64,
        /// When it was made ready to run, 0 where that was not seen.
        woken_ns: u64,
        /// Its identity.
        key: u64,
        /// The identity of the one that made it ready, 0 where none did (a timer) or it was not seen.
        by: u64,
        /// Process.
        tgid: u32,
        /// Thread that ran it before.
        from_tid: u32,
        /// Thread that runs it again.
        tid: u32,
        /// One of `PARK_…`.
        why: u32,
    }
}
