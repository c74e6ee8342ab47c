//! Streams: much data in one direction, as a model of what each byte takes on its way.
//!
//! The sender computes, waits for room in its send buffer, and hands bytes to the link; the link takes its time for each
//! byte and for the way; the reader takes them and computes. What was acknowledged frees the send buffer, one way later.
//! That is the paper's first application (section 4.3), with the socket buffer as the queue of credits that closes the loop.

mod find;
mod gather;
mod layout;
mod measure;

use super::links::Links;
use super::{Selection, Unsupported};
use crate::derived::{Block, Derived, Measured, Model, Unit};
use wakepath_analysis::histogram::Histogram;
use wakepath_analysis::names::Names;
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::CommonNs;

pub use find::{Bulk, Side};
pub use measure::Facts;

/// Parts of the recording of which the error bar is made.
const BLOCKS: u32 = 8;

/// The model of the recording's streams; `None` where there is none.
pub fn derive(
    folder: &Folder,
    index: &Index,
    names: &Names<'_>,
    selection: &Selection,
) -> Result<Option<Derived>, Unsupported> {
    let bulks = find::find(folder, index, selection);
    if bulks.is_empty() {
        return Ok(None);
    }
    let links = Links::read(folder, index);
    let gathered = gather::gather(folder, index, &bulks, selection);
    let mut flows: Vec<(Bulk, Facts)> = Vec::new();
    for (bulk, seen) in bulks.into_iter().zip(&gathered) {
        let way = links.way_of_stream(index, &bulk);
        if let Some(facts) = measure::measure(seen, way, BLOCKS) {
            flows.push((bulk, facts));
        }
    }
    if flows.is_empty() {
        return Err(Unsupported::new(
            "the streams of this recording are too short to tell what limits them",
            "record at least some seconds of them",
        ));
    }
    let lossy = lossy(index, &flows);
    let (system, assumptions) = layout::system(folder, index, names, &flows);
    let (model, measured) = (Model::Machines(system), measured(&flows));
    Ok(Some(Derived {
        model,
        measured,
        assumptions,
        lossy,
        impossible: Vec::new(),
        hidden: None,
        flows: Vec::new(),
        warnings: Vec::new(),
    }))
}

/// All streams together, over the time in which all were measured on average.
fn measured(flows: &[(Bulk, Facts)]) -> Measured {
    let blocks = (0..BLOCKS as usize).map(|i| {
        let of = || flows.iter().filter_map(|(_, f)| f.blocks.get(i));
        let elapsed_ns = of().map(|b| b.elapsed_ns).max().unwrap_or(0);
        // bytes of streams that were measured for less time, as if they went on so
        let rate: f64 = of().map(|b| b.count as f64 / b.elapsed_ns.max(1) as f64).sum();
        Block { count: (rate * elapsed_ns as f64) as u64, elapsed_ns, mean_ns: 0.0 }
    });
    let elapsed_ns = flows.iter().map(|(_, f)| f.elapsed_ns).max().unwrap_or(0);
    let rate: f64 = flows.iter().map(|(_, f)| f.bytes_per_ns()).sum();
    Measured {
        unit: Unit::Bytes,
        count: (rate * elapsed_ns as f64) as u64,
        elapsed_ns,
        latency: Histogram::default(),
        blocks: blocks.collect(),
    }
}

/// Share of the parts in which operations or waits of a side were lost.
fn lossy(index: &Index, flows: &[(Bulk, Facts)]) -> f64 {
    let (mut touched, mut all) = (0u32, 0u32);
    for (bulk, facts) in flows {
        let part = facts.elapsed_ns / u64::from(BLOCKS);
        for i in 0..u64::from(BLOCKS) {
            let from = facts.from.saturating_add_unsigned(i * part);
            let is_lost = [&bulk.sender, &bulk.reader].iter().any(|side| {
                let local = |at: i64| index.timeline().local(side.host, CommonNs(at));
                index.lost_between(side.host, local(from), local(from.saturating_add_unsigned(part)))
            });
            touched += u32::from(is_lost);
            all += 1;
        }
    }
    let gaps: f64 = flows.iter().map(|(_, f)| f.missing).fold(0.0, f64::max);
    (f64::from(touched) / f64::from(all.max(1))).max(gaps)
}
