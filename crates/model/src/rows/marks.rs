//! Annotations: what state machines said of themselves (forecasting paper, sections 2.1 and 3.1).

use super::names;
use crate::ids::{MonoNs, StrId, TaskId};
use crate::table;

/// What a mark says: [`MarkRow::kind`].
pub mod mark {
    /// The machine is in state `name` from now on.
    pub const STATE: u8 = 1;
    /// It put `count` items into queue `name`.
    pub const ENQUEUE: u8 = 2;
    /// It took `count` items out of queue `name`.
    pub const DEQUEUE: u8 = 3;
    /// It stalls from now on, since queue `name` has fewer than `count` items.
    pub const WAIT_EMPTY: u8 = 4;
    /// It stalls from now on, since queue `name` has no room for `count` items.
    pub const WAIT_FULL: u8 = 5;
    /// It begins a transaction of kind `name`.
    pub const BEGIN: u8 = 6;
    /// Its transaction of kind `name` is over.
    pub const END: u8 = 7;
}

table! {
    /// One annotation, at the moment at which it was met.
    ///
    /// A machine is one *instance* of a state machine: the process of `task`, its name and its `key`, which tells contexts
    /// apart (section 3.3). A queue is `name` and `name_key`, of the process. A name that begins with `/` is one queue for
    /// all processes of the host. A name that begins with `//` is one queue for all hosts.
    MarkRow {
        /// When.
        at: MonoNs,
        /// Its number among the marks of one import, which orders equal times, also those of different hosts. 0 = not
        /// known: then the order of the rows does.
        seq: u64,
        /// Which context of the machine.
        key: u64,
        /// Which queue of that name, 0 for states and transactions.
        name_key: u64,
        /// Items (or bytes); 1 for states and transactions.
        count: u64,
        /// Who ran the annotated code, 0 = not known (imports).
        task: TaskId => none(0),
        /// The machine's name.
        machine: StrId => always(),
        /// The state, the queue or the kind of transaction.
        name: StrId => always(),
        /// One of [`mark`].
        kind: u8 => words(names::mark_kind),
        /// Zero.
        pad: [u8; 3],
    }
}
