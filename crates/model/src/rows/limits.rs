//! What bounds a system: facts that no event tells, and that a forecast needs.

use crate::ids::{EndpointId, MonoNs, StrId, TaskId};
use crate::{codes, table};

codes! {
    /// What bounds it: [`LimitRow::kind`].
    LimitKind(u8) {
        /// The host has `value` processors that are online.
        Processors = 1 => "processors",
        /// All tasks of `cgroup` together get `value` ns of processor time in each `beside` ns; `task`'s process is one of them.
        /// Of quotas one above the other it is the least. A process without such a row, and not made by one with it, has no quota.
        Quota = 2 => "quota",
        /// `task`'s process may run on `value` processors, fewer than there are; those of the first 64 are the bits of `beside`.
        Affinity = 3 => "affinity",
        /// The listener `flow` at `port` keeps `value` + 1 connections until they are accepted (Linux is full when there are
        /// *more* than that number); `beside` of them waited at that moment.
        Backlog = 4 => "backlog",
        /// The connection `flow` has a send buffer of `value` bytes and a receive buffer of `beside` bytes at that moment, as the
        /// kernel counts them: with the room that its own bookkeeping takes.
        Buffers = 5 => "buffers",
        /// Who connects from this host (the recorder's network namespace) and is not answered sends its SYN `value` times more
        /// after the same time before the kernel doubles it (`net.ipv4.tcp_syn_linear_timeouts`, since Linux 6.5).
        SynLinear = 6 => "syn_linear",
        /// An accept of `task`'s process on the listener `flow` failed with the error `value`, as no descriptor was left: 24 (EMFILE)
        /// to the process, 23 (ENFILE) to the host. Each failure is a row.
        Descriptors = 7 => "descriptors",
    }
}

table! {
    /// A bound, as it stood at `at`. The last row of the same kind and of the same task or flow is the one that holds.
    LimitRow {
        /// When it was looked at.
        at: MonoNs,
        /// The endpoint, 0 = none.
        flow: EndpointId => none(0),
        /// How much, by `kind`.
        value: u64,
        /// What belongs to it, by `kind`.
        beside: u64,
        /// The task that leads the process, 0 = none.
        task: TaskId => none(0),
        /// The cgroup that bounds (path in the hierarchy of the processors), empty = none.
        cgroup: StrId,
        /// The listener's port, 0 = none.
        port: u16 => none(0),
        /// What it bounds.
        kind: LimitKind,
        /// Zero.
        pad: [u8; 5],
    }
}
