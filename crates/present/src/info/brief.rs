//! `wakepath info --brief`: what the heads of a folder's frames say, without the rows behind them. It takes about as long
//! whatever the recording's length.

use crate::losses::{self, Loss};
use crate::table::{Cell, Column, Table as Lines};
use crate::text::{Style, Tint, sanitise, wrap};
use crate::units;
use serde::Serialize;
use std::path::Path;
use wakepath_model::folder::Folder;
use wakepath_model::rows::Table;

/// The document's schema.
pub const BRIEF_SCHEMA: &str = "wakepath.brief/1";

/// Rows of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BriefTable {
    /// The table.
    pub table: &'static str,
    /// Rows of all hosts.
    pub rows: u64,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BriefHost {
    /// Its name, told apart from others of the same name.
    pub name: String,
    /// Kernel release.
    pub kernel_release: String,
    /// Processors.
    pub cpus: u32,
    /// What was selected.
    pub selection: String,
    /// Version of the agent or importer.
    pub agent_version: String,
    /// From its first row to its last (ns); none where there are no rows.
    pub duration_ns: Option<u64>,
    /// Rows.
    pub rows: u64,
}

/// What a folder holds, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Brief {
    /// The folders that were given.
    pub folders: Vec<String>,
    /// When the first recording began, on the line that all hosts share (ns since 1970); none where there are no rows.
    pub from_ns: Option<i64>,
    /// When the last ended.
    pub to_ns: Option<i64>,
    /// Time in which something was recorded on any host (ns): where recordings do not overlap, their sum.
    pub span_ns: u64,
    /// Recordings that do not overlap in time.
    pub recordings: u64,
    /// Bytes of frames.
    pub bytes: u64,
    /// Rows.
    pub rows: u64,
    /// The same by table, most first; tables without rows are left out.
    pub tables: Vec<BriefTable>,
    /// Hosts.
    pub hosts: Vec<BriefHost>,
}

impl Brief {
    /// Of folders opened from `paths`; `spans`: when anything was recorded, without overlap (ns since 1970).
    pub fn new(folder: &Folder, paths: &[impl AsRef<Path>], spans: &[(i64, i64)]) -> Brief {
        let count = |table| folder.hosts().iter().map(|h| h.row_count(table)).sum();
        let tables = Table::ALL.iter().map(|&t| BriefTable { table: t.name(), rows: count(t) });
        let mut tables: Vec<BriefTable> = tables.filter(|t| t.rows > 0).collect();
        tables.sort_by(|a, b| b.rows.cmp(&a.rows).then(a.table.cmp(b.table)));
        let hosts = folder.hosts().iter().zip(crate::parquet::host_names(folder)).map(|(host, name)| {
            let info = host.info();
            BriefHost {
                name,
                kernel_release: info.kernel_release.clone(),
                cpus: info.cpus,
                selection: info.selection.clone(),
                agent_version: info.agent_version.clone(),
                duration_ns: host.span().map(|(begin, end)| end.0.saturating_sub(begin.0)),
                rows: Table::ALL.iter().map(|&t| host.row_count(t)).sum(),
            }
        });
        Brief {
            folders: paths.iter().map(|p| p.as_ref().display().to_string()).collect(),
            from_ns: spans.first().map(|s| s.0),
            to_ns: spans.last().map(|s| s.1),
            span_ns: spans.iter().map(|(a, b)| b.saturating_sub(*a).max(0) as u64).sum(),
            recordings: spans.len() as u64,
            bytes: folder.hosts().iter().map(wakepath_model::folder::Host::bytes).sum(),
            rows: tables.iter().map(|t| t.rows).sum(),
            hosts: hosts.collect(),
            tables,
        }
    }

    /// As text for a terminal; `losses`: what recordings say that they lost.
    pub fn render(&self, losses: &[Loss], style: Style) -> String {
        let mut out = String::new();
        let when = match (self.from_ns, self.recordings) {
            (None, _) => "nothing was recorded".to_owned(),
            (Some(from), 1) => format!("{} from {}", units::duration(self.span_ns), units::wall(from)),
            (Some(from), n) => format!(
                "{} in {} recordings, the first from {}",
                units::duration(self.span_ns),
                units::count(n),
                units::wall(from)
            ),
        };
        let rows = units::counted(self.rows, "row", "rows");
        let text = format!("{}: {when}; {rows}, {}", self.folders.join(" "), units::bytes(self.bytes));
        out.push_str(&style.paint(&wrap(&sanitise(&text), "", style.prose()), Tint::Strong));
        let mut hosts = Lines::new(&[Column::text("host"), Column::text("recorded"), Column::number("rows")]);
        for h in &self.hosts {
            let recorded = h.duration_ns.map_or_else(|| "nothing".into(), units::duration);
            hosts.row([Cell::from(&h.name), Cell::from(recorded), Cell::from(units::count(h.rows))]);
        }
        out.push_str(&hosts.render(style));
        let mut tables = Lines::new(&[Column::text("rows of"), Column::number("count")]);
        for t in &self.tables {
            tables.row([Cell::from(t.table), Cell::from(units::count(t.rows))]);
        }
        out.push_str(&tables.render(style));
        match losses {
            [] => out.push_str(
                "The recordings report no lost data. Their rows were not read, so damage there would not show.\n",
            ),
            some => out.push_str(&losses::render(some, style)),
        }
        out
    }
}
