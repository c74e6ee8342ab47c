//! Causality: which operations belong together. Linkers over the model's rows; every edge keeps the rule that made it.
//!
//! Two passes over a folder, both streaming: the first learns how each task works ([`roles`]), the second makes
//! exchanges ([`exchange`]), finds whose doing each call was ([`attribution`]) and joins the components ([`path`]).
#![deny(missing_docs)]

mod at_work;
mod attribution;
mod client_tasks;
pub mod conditions;
pub mod evidence;
pub mod exchange;
pub mod finished;
mod first_pass;
pub mod flags;
mod host_out;
mod intervals;
mod jobs;
mod lineage;
mod options;
pub mod path;
mod per_task;
pub mod process;
pub mod proof;
pub mod reduced;
mod remembered;
mod report;
pub mod request;
mod roles;
mod second_pass;
mod slab;
pub mod sniffed;
mod stream;

use first_pass::{BASE, LearnedFlows, learn};
pub use options::{Explain, Options, TakesProof};
use path::Request;
pub use report::Report;
use roles::Roles;
use second_pass::link;
use wakepath_flows::Place;
use wakepath_model::folder::{Folder, Host, TableSet};
use wakepath_model::ids::{HostId, TaskId};
use wakepath_model::rows::Table;

/// Finds the paths of all requests of a folder; `out` gets each as soon as it is whole, `refused` each connection that
/// did not come about, with who tried, where, and why (Linux's error number, 0 = not known). Memory: what is open at once, not
/// the length of the recording.
pub fn reconstruct(
    folder: &Folder,
    out: impl FnMut(Request),
    refused: impl FnMut(HostId, TaskId, Place, i32),
) -> Report {
    reconstruct_with(folder, &Options::default(), out, refused)
}

/// Bytes that [`reconstruct`] reads of a folder in its two passes, about: whether waits are read, too, it learns on the way.
pub fn bytes_to_read(folder: &Folder) -> u64 {
    let of = |h: &Host| match reduced::is_reduced(h) {
        true => h.bytes_of(TableSet::of(&[Table::Reduced, Table::Endpoint])),
        false => 2 * h.bytes_of(TableSet::of(&BASE)),
    };
    folder.hosts().iter().map(of).sum()
}

/// The same as [`reconstruct`], as the options say.
pub fn reconstruct_with(
    folder: &Folder,
    options: &Options,
    mut out: impl FnMut(Request),
    mut refused: impl FnMut(HostId, TaskId, Place, i32),
) -> Report {
    let Learned { roles, known } = Learned::of(folder);
    link(folder, options, (&roles, known), &mut out, &mut refused)
}

/// What the first pass learns of a folder, for those who find its paths more than once.
pub struct Learned {
    roles: Vec<Roles>,
    known: Vec<LearnedFlows>,
}

impl Learned {
    /// Reads the folder once.
    pub fn of(folder: &Folder) -> Learned {
        let of = |h: &Host| if reduced::is_reduced(h) { Default::default() } else { learn(h) };
        let (roles, known) = folder.hosts().iter().map(of).unzip();
        Learned { roles, known }
    }

    /// The same as [`reconstruct`], of the folder that this was learned of: reads it once.
    pub fn reconstruct(&self, folder: &Folder, mut out: impl FnMut(Request)) -> Report {
        link(folder, &Options::default(), (&self.roles, self.known.clone()), &mut out, &mut |_, _, _, _| {})
    }
}
