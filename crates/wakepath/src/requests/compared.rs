//! `wakepath requests --against`, `--against-from` and `--against-to`: kinds, or services and calls, of two recordings or periods.

use super::{is_read, part, spans, view_of, whole};
use crate::cli::{PartOfRequests, RequestsArgs};
use crate::output::{self, Answers};
use crate::{folders, progress, sides};
use anyhow::Result;
use std::path::PathBuf;
use wakepath_analysis::names::Names;
use wakepath_analysis::selection::Selection;
use wakepath_analysis::service_map::service_map;
use wakepath_graph::Index;
use wakepath_model::defects::Answer;
use wakepath_model::folder::Folder;
use wakepath_present::compared::{KindsComparedView, MapComparedView};
use wakepath_present::requests::RequestsView;
use wakepath_present::service_map::ServiceMapView;
use wakepath_present::text::Style;
use wakepath_present::{json, losses};

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.requests_compared/1";
/// Schema of the JSON answer of `--map`.
pub const MAP_SCHEMA: &str = "wakepath.service_map_compared/1";

/// Requests that are compared with others.
struct Side {
    folder: Folder,
    /// Where the selection asks for causes.
    index: Option<Index>,
    selection: Selection,
    name: String,
}

impl Side {
    fn open(dirs: &[PathBuf], requests: &PartOfRequests, args: &RequestsArgs) -> Result<Side> {
        let folder = folders::open(dirs)?;
        let whole = whole(&spans(&folder));
        let selection = part::selection(requests, args.kind.as_deref(), whole)?;
        let index = folders::index_for(&folder, dirs, &selection)?;
        let name = sides::name(dirs, &selection, whole, args.against.against.is_empty());
        Ok(Side { folder, index, selection, name })
    }

    fn kinds(&self) -> RequestsView {
        view_of(&self.folder, self.index.as_ref(), &self.selection)
    }

    fn map(&self) -> ServiceMapView {
        let span_ns = spans(&self.folder).into_iter().map(|s| part::within(s, &self.selection));
        progress::reads(&self.folder, wakepath_causality::bytes_to_read(&self.folder));
        let map = service_map(&self.folder, &Names::read(&self.folder), self.index.as_ref(), &self.selection);
        ServiceMapView::new(&map, span_ns.map(|(from, to)| to.abs_diff(from)).sum())
    }
}

/// Prints what changed.
pub fn run(args: &RequestsArgs, out: &mut Answers) -> Result<i32> {
    let own = &args.folders.folders;
    let selected = Side::open(own, &args.part, args)?;
    let against = Side::open(args.against.folders(own), &args.against.part(&args.part), args)?;
    let mut lost = losses::collect(&selected.folder);
    if !args.against.against.is_empty() {
        lost.extend(losses::collect(&against.folder));
    }
    let sides = (selected.name.as_str(), against.name.as_str());
    let style = Style::for_stdout();
    let (text, requests, is_complete) = if args.map {
        let view = MapComparedView::new(sides, &selected.map(), &against.map());
        let text = match args.answering.json {
            true => json::document(MAP_SCHEMA, &lost, &view)?,
            false => view.render(&lost, style),
        };
        (text, view.sides.requests(), view.sides.is_complete())
    } else {
        let view = KindsComparedView::new(sides, &selected.kinds(), &against.kinds());
        let text = match args.answering.json {
            true => json::document(SCHEMA, &lost, &view)?,
            false => view.render(args.limit, &lost, style),
        };
        (text, view.sides.requests(), view.sides.is_complete())
    };
    is_read(selected.index.as_ref(), own)?;
    is_read(against.index.as_ref(), args.against.folders(own))?;
    if requests == 0 {
        part::exists(&selected.folder, &selected.selection)?;
    }
    out.give(text.as_bytes())?;
    let touched = losses::touch(&lost, &[Answer::Requests]) || !is_complete;
    Ok(output::exit_code(&args.answering, touched))
}
