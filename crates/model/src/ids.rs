//! Ids as newtypes, so that mixing two does not compile.

use bytemuck::{Pod, Zeroable};

macro_rules! id {
    ($(#[$m:meta])* $name:ident($t:ty)) => {
        $(#[$m])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
        pub struct $name(pub $t);
    };
}

id! {
    /// One end of a flow on one host: a socket cookie, or a pipe's inode with the top bit set.
    EndpointId(u64)
}

impl EndpointId {
    /// Whether it is a pipe: what is written there is never answered there.
    pub fn is_pipe(self) -> bool {
        self.0 >> 63 != 0
    }
}

id! {
    /// A flow as a sniffer saw it, both directions: a hash of its endpoints, the tunnels and VLANs around it and its epoch,
    /// the same wherever and however often it is captured.
    SniffedFlowId(u64)
}
id! {
    /// A task of one host recording: an index that is never given twice, so a reused tid is another task. 0 = not known.
    TaskId(u32)
}
id! {
    /// An interned string of one host recording; 0 is the empty string.
    StrId(u32)
}
id! {
    /// A host of a folder: an index in the folder's host list.
    HostId(u16)
}
id! {
    /// Nanoseconds of one host's monotonic clock. Never compare two hosts' values: convert first.
    MonoNs(u64)
}
id! {
    /// Nanoseconds of a folder's common time line ([`crate::clock::Timeline`]): two hosts' values may be compared.
    CommonNs(i64)
}

impl StrId {
    /// The empty string, also "none".
    pub const EMPTY: StrId = StrId(0);
}

impl TaskId {
    /// No task, or one that was never named.
    pub const UNKNOWN: TaskId = TaskId(0);
}
