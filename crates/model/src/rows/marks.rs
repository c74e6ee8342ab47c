//! Annotations: what state machines said of themselves (forecasting paper, sections 2.1 and 3.1).

use crate::ids::{MonoNs, StrId, TaskId};
use crate::{codes, table};

codes! {
    /// What a mark says: [`MarkRow::kind`].
    MarkKind(u8) {
        /// The machine is in state `name` from now on.
        State = 1 => "state",
        /// It put `count` items into queue `name`.
        Enqueue = 2 => "enqueue",
        /// It took `count` items out of queue `name`.
        Dequeue = 3 => "dequeue",
        /// It stalls from now on, since queue `name` has fewer than `count` items.
        WaitEmpty = 4 => "wait_empty",
        /// It stalls from now on, since queue `name` has no room for `count` items.
        WaitFull = 5 => "wait_full",
        /// It begins a transaction of kind `name`.
        Begin = 6 => "begin",
        /// Its transaction of kind `name` is over.
        End = 7 => "end",
    }
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
        /// What it says.
        kind: MarkKind,
        /// Zero.
        pad: [u8; 3],
    }
}
