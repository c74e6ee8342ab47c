//! What bounds a system: facts that no event tells, and that a forecast needs.

use crate::ids::{EndpointId, MonoNs, StrId, TaskId};
use bytemuck::{Pod, Zeroable};

/// What bounds it: [`LimitRow::kind`].
pub mod limit {
    /// The host has `value` processors that are online.
    pub const PROCESSORS: u8 = 1;
    /// All tasks of `cgroup` together get `value` ns of processor time in each `beside` ns; `task`'s process is one of them.
    /// Of quotas one above the other it is the least. A process without such a row, and not made by one with it, has no quota.
    pub const QUOTA: u8 = 2;
    /// `task`'s process may run on `value` processors, fewer than there are; those of the first 64 are the bits of `beside`.
    pub const AFFINITY: u8 = 3;
    /// The listener `flow` at `port` keeps `value` + 1 connections until they are accepted (Linux is full when there are
    /// *more* than that number); `beside` of them waited at that moment.
    pub const BACKLOG: u8 = 4;
    /// The connection `flow` has a send buffer of `value` bytes and a receive buffer of `beside` bytes at that moment, as the
    /// kernel counts them: with the room that its own bookkeeping takes.
    pub const BUFFERS: u8 = 5;
    /// Who connects from this host (the recorder's network namespace) and is not answered sends its SYN `value` times more
    /// after the same time before the kernel doubles it (`net.ipv4.tcp_syn_linear_timeouts`, since Linux 6.5).
    pub const SYN_LINEAR: u8 = 6;
}

/// A bound, as it stood at `at`. The last row of the same kind and of the same task or flow is the one that holds.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct LimitRow {
    /// When it was looked at.
    pub at: MonoNs,
    /// The endpoint, 0 = none.
    pub flow: EndpointId,
    /// How much, by `kind`.
    pub value: u64,
    /// What belongs to it, by `kind`.
    pub beside: u64,
    /// The task that leads the process, 0 = none.
    pub task: TaskId,
    /// The cgroup that bounds (path in the hierarchy of the processors), empty = none.
    pub cgroup: StrId,
    /// The listener's port, 0 = none.
    pub port: u16,
    /// One of [`limit`].
    pub kind: u8,
    /// Zero.
    pub pad: [u8; 5],
}
