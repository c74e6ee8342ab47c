//! How links are sought.

use crate::proof::Proof;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use wakepath_model::ids::{EndpointId, HostId};

/// Takes a proof of one of a host's calls.
pub type TakesProof = dyn FnMut(HostId, Proof);

/// How links are sought.
#[derive(Clone, Default)]
pub struct Options {
    /// No link rests on a habit. (A folder may refuse them, too: [`wakepath_model::folder::Folder::refuse_habits`].)
    pub refuses_habits: bool,
    /// No link rests on an identifier that a service handed on with a call, nor on an answer that it passed on. (A folder may refuse that, too:
    /// [`wakepath_model::folder::Folder::refuse_witness`].)
    pub refuses_witness: bool,
    /// Gives proofs of calls here: those of a host's flow and first byte of which `is_asked` holds.
    pub explain: Option<Explain>,
    /// Once this holds, nothing more is linked: who takes the requests wants no more. What was learned before is read whole.
    pub stop: Option<Rc<Cell<bool>>>,
    /// For tests: rules are asked in this random order. It changes nothing.
    pub order: Option<u64>,
    /// For tests: from so many requests on, those that could have made a call are kept as a set and not one by one. It changes
    /// nothing.
    pub shared_from: Option<usize>,
}

/// Whose proofs are wanted, and where they go.
#[derive(Clone)]
pub struct Explain {
    /// Whether the proof of a call is asked for.
    pub is_asked: Rc<dyn Fn(HostId, EndpointId, u64) -> bool>,
    /// Takes it.
    pub out: Rc<RefCell<TakesProof>>,
}
