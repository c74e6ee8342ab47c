//! One host by itself: everything that answers about requests need of it, without its operations and messages.

use crate::connections::{self, Connections};
use std::path::Path;
use wakepath_causality::reduced;
use wakepath_model::defects::id;
use wakepath_model::folder::{Copier, Folder, FolderError, FolderWriter, Options, WriteCounts};
use wakepath_model::rows::{ReducedRow, StepKind};

/// Links the only host of a folder ([`Folder::open_host`]), and writes it into the folder `out`. It depends on nothing else: hosts may be
/// reduced at once, in any order, on any machine.
///
/// # Errors
/// If `out` cannot be written.
pub fn reduce(folder: &Folder, out: &Path, options: Options) -> Result<WriteCounts, FolderError> {
    let [host] = folder.hosts() else { return Err(FolderError::Usage("one host is reduced at a time")) };
    if reduced::is_reduced(host) {
        return Err(FolderError::Usage("the host is reduced already; reduce its recording"));
    }
    let mut copier = Copier::new(host, FolderWriter::create(out, host.info().clone(), options)?);
    let mut steps = reduced::reduce(&mut copier);
    let mut found = Connections::default();
    connections::of_host(host, &mut found);
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    for h in found.held_replies {
        let (task, status, number) = (h.task, h.port, h.replies);
        let row = ReducedRow { task, status, number, count: count(h.held), ..ReducedRow::default() };
        steps.push(StepKind::HeldReplies, row);
    }
    for c in found.closed_unread {
        let (task, status, number) = (c.task, c.port, c.accepted);
        let row = ReducedRow { task, status, number, count: count(c.closed), ..ReducedRow::default() };
        steps.push(StepKind::ClosedUnread, row);
    }
    for d in folder.defects() {
        // these are rows already, which were copied
        let is_row = d.defect.id == id::FOLDER_CRC || host.missing().iter().any(|m| m.defect == d.defect.id);
        if !is_row {
            steps.defect(d.defect.id, d.count);
        }
    }
    steps.end();
    copier.writer.close()
}
