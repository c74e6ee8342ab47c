//! From a recording to a model: what each request, stream or annotated program needed of whom.
//!
//! Nothing in here knows a stack by name. What is derived is what holds of any: who took requests and how many at a
//! time, how long each computed, slept or waited for whom, what there was a limited number of.

mod arrivals;
mod demand;
pub mod disks;
pub mod holds;
pub mod links;
pub mod locks;
pub mod marks;
pub mod pools;
mod requests;
pub mod streams;
pub mod visits;

use crate::derived::Derived;
use crate::jobs::Arrivals;
use wakepath_analysis::names::Names;
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::CommonNs;

/// What of a recording a forecast is about.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Requests of one kind, as `requests` names it (`GET /item/{n}` or with the entry service before it). Others stay
    /// in the model, since they take their part of processors and workers, but are not what is measured.
    pub kind: Option<String>,
    /// Nothing before this moment.
    pub from: Option<CommonNs>,
    /// Nothing from this moment on.
    pub to: Option<CommonNs>,
    /// How requests come, where the caller says so; else it is inferred.
    pub arrivals: Option<ArrivalModel>,
    /// Of annotations, only items that one of these machines had a part in (`MACHINE`, `HOST/MACHINE`, either with `[KEY]`).
    pub between: Option<(String, String)>,
}

/// Whether who asks waits for an answer before asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalModel {
    /// It does: [`Arrivals::Closed`].
    Closed,
    /// It does not: [`Arrivals::Open`].
    Open,
}

/// A recording of which no model can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; {remedy}")]
pub struct Unsupported {
    /// What is missing.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
    /// There are requests, only no model of them: then no model of something else may stand for it.
    pub has_requests: bool,
}

impl Unsupported {
    /// With these words.
    pub fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Unsupported {
        Unsupported { reason: reason.into(), remedy: remedy.into(), has_requests: false }
    }

    /// The same, of a recording that has requests.
    fn of_requests(self) -> Unsupported {
        Unsupported { has_requests: true, ..self }
    }
}

impl Arrivals {
    /// Which model it is.
    pub fn model(&self) -> ArrivalModel {
        match self {
            Arrivals::Closed { .. } => ArrivalModel::Closed,
            Arrivals::Open => ArrivalModel::Open,
        }
    }
}

/// Makes a model of a recording. Memory: some 100,000 requests at most, however long the recording is.
pub fn derive(
    folder: &Folder,
    index: &Index,
    names: &Names<'_>,
    selection: &Selection,
) -> Result<Derived, Unsupported> {
    if selection.between.is_some() {
        return annotated(folder, selection);
    }
    match requests::derive(folder, index, names, selection) {
        Ok(mut derived) => {
            if marks::has_marks(folder) {
                derived.assumptions.push("Annotations are left aside, since there are requests.".to_owned());
            }
            Ok(derived)
        }
        // without requests, what there is are annotations, or else streams
        Err(_) if marks::has_marks(folder) => annotated(folder, selection),
        Err(why) if why.has_requests => Err(why),
        Err(why) => streams::derive(folder, index, names, selection)?.ok_or(why),
    }
}

/// Makes a model of annotations; what does not fit into memory lies in a file without a name while it is needed.
fn annotated(folder: &Folder, selection: &Selection) -> Result<Derived, Unsupported> {
    const STEPS_MAX: usize = 1 << 20;
    let between = selection.between.as_ref().map(|(a, b)| (a.as_str(), b.as_str()));
    let times = (selection.from, selection.to);
    let options = marks::Options { between, times, steps_max: STEPS_MAX, directory: &std::env::temp_dir() };
    marks::derive(folder, &options).map_err(|e| {
        let text = e.to_string();
        let (reason, remedy) = text.split_once("; ").unwrap_or((&text, "give others"));
        Unsupported::new(reason, remedy)
    })
}
