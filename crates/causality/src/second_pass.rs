//! The second pass: what each host's linker finds, host beside host on one line, joined.

use crate::first_pass::LearnedFlows;
use crate::host_out::{HostOut, Joined};
use crate::options::Options;
use crate::path::{Assembler, Request};
use crate::reduced::{self, Replay};
use crate::report::{HostReport, Report};
use crate::roles::Roles;
use crate::sniffed::{Seen, Wires};
use crate::stream::Stream;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::rc::Rc;
use wakepath_flows::Place;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{HostId, TaskId};
use wakepath_model::rows::Table;

/// Who takes a connection that did not come about.
pub(crate) type Refused<'a> = dyn FnMut(HostId, TaskId, Place, i32) + 'a;

/// Links the rows of hosts, and joins them with those that were linked before ([`crate::reduced`]); of these nothing is learned.
///
/// Not generic over who takes what it finds: each crate that calls it would compile the linker again.
pub(crate) fn link(
    folder: &Folder,
    options: &Options,
    (roles, known): (&[Roles], Vec<LearnedFlows>),
    out: &mut dyn FnMut(Request),
    refused: &mut Refused<'_>,
) -> Report {
    let options = Options {
        refuses_habits: options.refuses_habits || folder.refuses_habits(),
        refuses_witness: options.refuses_witness || folder.refuses_witness(),
        ..options.clone()
    };
    let hosts = folder.hosts();
    let line = Rc::new(folder.timeline());
    let sniffers = hosts.iter().filter(|h| h.row_count(Table::SniffedExchange) > 0);
    let seen: FxHashMap<HostId, Seen> = sniffers.map(|h| (h.id(), Seen::read(h))).collect();
    let out = Rc::new(RefCell::new(out));
    let given = Rc::clone(&out);
    let wires = (!seen.is_empty()).then(|| {
        let wires = Wires::new(Rc::clone(&line), seen, move |r| (given.borrow_mut())(r));
        Rc::new(RefCell::new(wires))
    });
    let through = wires.clone();
    let given = move |r| match &through {
        Some(wires) => wires.borrow_mut().request(r),
        None => (out.borrow_mut())(r),
    };
    let joined = Joined {
        assembler: Rc::new(RefCell::new(Assembler::new(given, refused))),
        wires,
        line: (hosts.len() > 1).then(|| Rc::clone(&line)),
    };
    let mut sources: Vec<Source<'_, '_>> = hosts
        .iter()
        .zip(roles.iter().zip(known))
        .map(|(host, (roles, known))| {
            let out = HostOut { host: host.id(), joined: joined.clone() };
            match reduced::is_reduced(host) {
                true => Source::Steps(Box::new(Replay::new(host, folder.ledger().clone(), out))),
                false => Source::Rows(Box::new(Stream::new(host, roles, known, options.clone(), out))),
            }
        })
        .collect();
    let is_stopped = || options.stop.as_ref().is_some_and(|stop| stop.get());
    if let [only] = &mut sources[..] {
        while !is_stopped() && only.step() {}
    } else {
        // hosts side by side on one line: only for how long things are kept, links go by bytes
        let mut next: BinaryHeap<_> =
            sources.iter_mut().enumerate().filter_map(|(i, s)| Some(Reverse((s.next_at()?, i)))).collect();
        while !is_stopped()
            && let Some(mut first) = next.peek_mut()
        {
            let Reverse((_, i)) = *first;
            sources[i].step();
            match sources[i].next_at() {
                Some(at) => *first = Reverse((at, i)),
                None => _ = PeekMut::pop(first),
            }
        }
    }
    let mut report = Report::default();
    for (host, source) in hosts.iter().zip(sources) {
        report.add_host(host.id(), source.finish());
    }
    let mut assembler = joined.assembler.borrow_mut();
    assembler.finish();
    report.linked = assembler.linked.clone();
    if let Some(wires) = &joined.wires {
        let mut wires = wires.borrow_mut();
        wires.finish();
        report.add(&wires.counts);
    }
    report
}

/// Where a host's steps come from.
enum Source<'f, 'o> {
    /// Its rows are linked now.
    Rows(Box<Stream<'f, HostOut<'o>>>),
    /// They were linked before.
    Steps(Box<Replay<'f, 'o>>),
}

impl Source<'_, '_> {
    /// When its next step is, on the common line (ns).
    fn next_at(&mut self) -> Option<i64> {
        match self {
            Source::Rows(s) => {
                let at = s.next_at()?;
                Some(s.out().common(at))
            }
            Source::Steps(s) => s.next_at(),
        }
    }

    /// Makes its next step; false where there is none.
    fn step(&mut self) -> bool {
        match self {
            Source::Rows(s) => s.step(),
            Source::Steps(s) => s.step(),
        }
    }

    /// The recording is over.
    fn finish(self) -> HostReport {
        match self {
            Source::Rows(s) => s.finish().0,
            Source::Steps(s) => s.finish(),
        }
    }
}
