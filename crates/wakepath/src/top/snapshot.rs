//! What `top` shows, read once: by the same library as the commands that print it.

use crate::open;
use crate::output::reasons;
use crate::requests::spans;
use crate::{folders, why};
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wakepath_analysis::names::Names;
use wakepath_analysis::requests::{KINDS_MAX, Kinds};
use wakepath_analysis::selection::{Placed, Selection};
use wakepath_graph::Index;
use wakepath_model::folder::{Folder, Host, Part};
use wakepath_model::ids::CommonNs;
use wakepath_present::losses::{self, Loss};
use wakepath_present::requests::{KindView, RequestsView};

/// Of a longer recording only its last minute is counted.
const WINDOW_NS: i64 = 60_000_000_000;
/// Parts of the window in which requests are counted.
pub const PARTS: usize = 60;
/// Kinds that are looked into.
const WHY_KINDS: usize = 3;

/// A request in flight.
#[derive(Clone, Debug)]
pub struct Flight {
    /// Its id.
    pub request: String,
    /// How old it was when the recording ended (ns).
    pub age_ns: u64,
    /// What was asked of which service.
    pub kind: String,
    /// What it waits for.
    pub waits_for: String,
}

/// A kind of request.
pub struct Kind {
    /// As `wakepath requests` has it, of the window.
    pub view: KindView,
    /// Requests begun in each part of the window.
    pub begun: [u32; PARTS],
}

impl Kind {
    /// As commands take it.
    pub fn name(&self) -> String {
        format!("{} {}", self.view.service, self.view.asked)
    }

    /// Those that did not end well.
    pub fn errors(&self) -> u64 {
        self.view.without_success()
    }
}

/// What the folders said at one time.
pub struct Snapshot {
    /// When the recording began and ended so far (ns since 1970).
    pub span: (i64, i64),
    /// From when on kinds and `why` count (ns since 1970).
    pub from: i64,
    /// Requests in flight, oldest first; or why they are not known.
    pub flights: Result<Vec<Flight>, String>,
    /// Kinds, most requests first.
    pub kinds: Vec<Kind>,
    /// What the slow ones spend more on, in sentences; or why that is not known.
    pub why: Result<Vec<String>, String>,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// How long it took to read.
    pub took: Duration,
    /// Bytes that were read.
    pub bytes: u64,
    /// It may be less than all.
    pub is_sample: bool,
}

impl Snapshot {
    /// Reads a part of the folders.
    pub fn read(dirs: &[PathBuf], part: Part) -> Result<Snapshot> {
        let began = Instant::now();
        let folder = folders::open_part(dirs, part)?;
        let names = Names::read(&folder);
        let all = spans(&folder);
        let span = (all.first().map_or(0, |s| s.0), all.last().map_or(0, |s| s.1));
        let from = span.0.max(span.1.saturating_sub(WINDOW_NS));
        let kinds = kinds(&folder, &names, &all, (from, span.1));
        let (flights, why) = match folders::index(&folder, dirs) {
            Ok(index) => {
                let followed = (flights(&folder, &index, &names), reasons_for(&folder, &index, &names, (span.0, from)));
                match folders::whole(&index, dirs) {
                    Ok(()) => followed,
                    Err(e) => (Err(reasons(&e)), Err(reasons(&e))),
                }
            }
            Err(e) => (Err(reasons(&e)), Err(reasons(&e))),
        };
        let losses = losses::collect(&folder);
        let bytes = folder.hosts().iter().map(Host::bytes).sum();
        let is_sample = part != Part::All;
        Ok(Snapshot { span, from, flights, kinds, why, losses, took: began.elapsed(), bytes, is_sample })
    }

    /// Whether kinds and `why` are of a part of the recording.
    pub fn is_part(&self) -> bool {
        self.from > self.span.0
    }
}

/// Kinds of the requests that began in the window.
fn kinds(folder: &Folder, names: &Names<'_>, recorded: &[(i64, i64)], window: (i64, i64)) -> Vec<Kind> {
    let line = folder.timeline();
    let mut kinds = Kinds::default();
    let mut begun: BTreeMap<(String, String), [u32; PARTS]> = BTreeMap::new();
    let length = window.1.saturating_sub(window.0).max(1) as u128;
    let report = wakepath_causality::reconstruct(
        folder,
        |r| {
            let Some(placed) = Placed::new(&r, names, &line).filter(|p| p.began.0 >= window.0) else { return };
            let part = placed.began.0.saturating_sub(window.0) as u128 * PARTS as u128 / length;
            if begun.len() < KINDS_MAX || begun.contains_key(&placed.kind) {
                begun.entry(placed.kind).or_insert([0; PARTS])[(part as usize).min(PARTS - 1)] += 1;
            }
            kinds.add(&r, names);
        },
        |_, _, _, _| {},
    );
    let counted: Vec<(i64, i64)> =
        recorded.iter().map(|s| (s.0.max(window.0), s.1)).filter(|(from, to)| from < to).collect();
    let views = RequestsView::new(&kinds, &report, &counted).kinds;
    let with_parts = |view: KindView| {
        let begun = begun.remove(&(view.service.clone(), view.asked.clone())).unwrap_or([0; PARTS]);
        Kind { view, begun }
    };
    views.into_iter().map(with_parts).collect()
}

fn flights(folder: &Folder, index: &Index, names: &Names<'_>) -> Result<Vec<Flight>, String> {
    let (_, view) = open::view(folder, index, names);
    let flights = view.requests.iter().map(|r| {
        let wait = view.waits.iter().find(|w| w.holds.contains(&r.request));
        Flight {
            request: r.request.clone(),
            age_ns: r.age_ns,
            kind: format!("{} at {}", r.kind, r.service),
            waits_for: match wait {
                Some(w) => format!("{} {}", w.task, w.text),
                None => r.place.clone(),
            },
        }
    });
    Ok(flights.collect())
}

/// What `why` says of the window, against all before; of a recording that is no longer than it, of its slowest requests.
fn reasons_for(
    folder: &Folder,
    index: &Index,
    names: &Names<'_>,
    (begin, from): (i64, i64),
) -> Result<Vec<String>, String> {
    let part = (from > begin).then(|| Selection { from: Some(CommonNs(from)), ..Selection::default() });
    let view = match &part {
        Some(selection) => why::selected_of(folder, index, names, "", WHY_KINDS, selection),
        None => why::slowest_of(folder, index, names, "", WHY_KINDS),
    };
    match view.kinds.is_empty() {
        true => Err("too few requests to be compared".into()),
        false => Ok(view.kinds.into_iter().map(|k| k.sentence).collect()),
    }
}
