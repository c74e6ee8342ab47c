//! How the links of a request are known: `wakepath show --evidence`.

use anyhow::{Result, bail};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use wakepath_analysis::names::Names;
use wakepath_causality::path::{Half, Request};
use wakepath_causality::proof::Proof;
use wakepath_causality::reduced::is_reduced;
use wakepath_causality::{Explain, Options, reconstruct_with};
use wakepath_model::folder::Folder;
use wakepath_model::ids::{EndpointId, HostId, MonoNs};
use wakepath_present::proofs::ProofView;

/// A call: its caller's host, flow and first byte.
type Call = (HostId, EndpointId, u64);

/// Whether proofs can be found of all hosts.
///
/// # Errors
/// Where a host was reduced.
pub fn can_be_found(folder: &Folder) -> Result<()> {
    match folder.hosts().iter().find(|h| is_reduced(h)) {
        Some(host) => bail!(
            "{} was reduced, and its evidence needs its recording: ask the folder of that, or leave out --evidence",
            host.info().hostname
        ),
        None => Ok(()),
    }
}

/// Proofs of the calls of a request, and of those that may be its; of one span alone where that is given. Links are sought
/// once more, since proofs are not kept.
pub fn of(folder: &Folder, names: &Names<'_>, request: &Request, span: Option<u32>) -> Vec<ProofView> {
    let call = |half: &Half| (half.host, half.exchange.flow, half.exchange.request.start);
    let mut calls: BTreeMap<Call, (Option<u32>, &Half)> = BTreeMap::new();
    for (i, s) in request.spans.iter().enumerate().filter(|(i, _)| span.is_none_or(|s| s as usize == *i)) {
        for open in &s.open_calls {
            calls.insert(call(&open.half), (None, &open.half));
        }
        if let Some(caller) = &s.caller {
            calls.insert(call(caller), (Some(i as u32), caller));
        }
    }
    let proofs = prove(folder, calls.keys().copied().collect());
    let line = folder.timeline();
    let root = &request.spans[0];
    let begin = root.callee.as_ref().or(root.caller.as_ref()).map(|h| line.common(h.host, h.exchange.request.began).0);
    let offset = |host: HostId, at: MonoNs| line.common(host, at).0.saturating_sub(begin.unwrap_or_default());
    let views = calls.into_iter().filter_map(|(key, (span, half))| {
        let proof = proofs.get(&key)?;
        Some(ProofView::new(proof, span, half, names, |at| offset(half.host, at)))
    });
    let mut views: Vec<ProofView> = views.collect();
    views.sort_by_key(|v| (v.span.is_none(), v.offset_ns));
    views
}

fn prove(folder: &Folder, calls: Vec<Call>) -> BTreeMap<Call, Proof> {
    let found = Rc::new(RefCell::new(BTreeMap::new()));
    let take = Rc::clone(&found);
    let explain = Explain {
        is_asked: Rc::new(move |host, flow, start| calls.binary_search(&(host, flow, start)).is_ok()),
        out: Rc::new(RefCell::new(move |host, proof: Proof| {
            take.borrow_mut().insert((host, proof.flow, proof.start), proof);
        })),
    };
    let options = Options { explain: Some(explain), ..Options::default() };
    reconstruct_with(folder, &options, |_| {}, |_, _, _, _| {});
    found.take()
}
