//! Where rows go.

use crate::recurring::Said;
use wakepath_model::ids::{EndpointId, MonoNs, StrId};
use wakepath_model::rows::{PlacementRow, Row, TaskClass};

/// Where decoded rows go, and where the decoder asks for what it may not look up itself.
pub trait RowSink {
    /// Takes a row.
    fn push<R: Row>(&mut self, row: &R);
    /// Takes captured bytes (only with [`crate::Payload::Heads`]).
    fn push_head(&mut self, at: MonoNs, flow: EndpointId, pos: u64, sent: bool, bytes: &[u8]);
    /// Counts a defect of the central list.
    fn count(&mut self, defect: &'static str, at: MonoNs);
    /// Interns a text that the host or we ourselves chose.
    fn intern(&mut self, text: &[u8]) -> StrId;
    /// Interns a text that a message says of itself. Whatever writes it down lets it pass [`crate::recurring::Recurring`] first.
    fn said(&mut self, text: &str, said: &Said) -> StrId;
    /// Nobody can read what a flow says: its bytes are not needed any more.
    fn quiet(&mut self, _flow: EndpointId) {}
    /// A message may begin wherever bytes of this flow are moved, also where it does not turn. `in_frames`: of HTTP/2.
    fn runs_on(&mut self, _flow: EndpointId, _in_frames: bool) {}
    /// A process speaks TLS whose plaintext nobody tells. Said once of each flow.
    fn unread_tls(&mut self, _tgid: u32) {}
    /// The text ([`wakepath_model::stack`]) of stack number `id` in the kernel's table, taken in that process while it ran the
    /// program that `image` names. [`StrId::EMPTY`] where it cannot be had; who looks counts why.
    fn stack(&mut self, _tgid: u32, _image: u64, _id: u32) -> StrId {
        StrId::EMPTY
    }
    /// The path of the file with this device (major << 20 | minor), inode and generation, which that process has mapped.
    /// [`StrId::EMPTY`] where it cannot be had.
    fn file(&mut self, _tgid: u32, _device: u32, _inode: u64, _generation: u32) -> StrId {
        StrId::EMPTY
    }
    /// What is known of a task that no event introduced.
    fn describe(&mut self, tgid: u32, tid: u32) -> TaskFacts;
    /// The cgroup of a process now: it may have been put into another one since it was made. `None` where that cannot be had.
    fn cgroup(&mut self, _tgid: u32) -> Option<Vec<u8>> {
        None
    }
    /// Who runs in a cgroup that no task was in before; `None` where nothing is known of it.
    fn placement(&mut self, _cgroup: &[u8]) -> Option<PlacementRow> {
        None
    }
}

/// What can be looked up of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFacts {
    /// Start, ns since boot; 0 where not known.
    pub start_ns: u64,
    /// The process that forked its process, 0 where not known.
    pub parent: u32,
    /// Name.
    pub comm: Vec<u8>,
    /// Command line, arguments separated by NUL.
    pub cmdline: Vec<u8>,
    /// cgroup path.
    pub cgroup: Vec<u8>,
    /// Whose code it runs.
    pub class: TaskClass,
}

/// What a number of a record means. One that we do not know is counted: its record says nothing.
pub(crate) fn known<C: TryFrom<u8>, S: RowSink>(number: u8, at: MonoNs, sink: &mut S) -> Option<C> {
    let known = C::try_from(number).ok();
    if known.is_none() {
        sink.count(wakepath_model::defects::id::RECORD_CODE, at);
    }
    known
}

/// What unit tests push rows into.
#[cfg(test)]
pub(crate) mod pushed {
    use super::{RowSink, Said, StrId, TaskFacts};
    use wakepath_model::ids::{EndpointId, MonoNs};
    use wakepath_model::rows::{Event, Row, Table};

    /// All rows, in order.
    #[derive(Default)]
    pub(crate) struct Pushed(pub(crate) Vec<Event>);

    impl Pushed {
        /// The tables of the rows so far, which are forgotten.
        pub(crate) fn tables(&mut self) -> Vec<Table> {
            std::mem::take(&mut self.0).iter().map(Event::table).collect()
        }
    }

    impl RowSink for Pushed {
        fn push<R: Row>(&mut self, row: &R) {
            self.0.extend(Event::read(R::TABLE, bytemuck::bytes_of(row)));
        }
        fn push_head(&mut self, _: MonoNs, _: EndpointId, _: u64, _: bool, _: &[u8]) {}
        fn count(&mut self, _: &'static str, _: MonoNs) {}
        fn intern(&mut self, _: &[u8]) -> StrId {
            StrId(2)
        }
        fn said(&mut self, _: &str, _: &Said) -> StrId {
            StrId(2)
        }
        fn describe(&mut self, _: u32, _: u32) -> TaskFacts {
            TaskFacts::default()
        }
    }
}
