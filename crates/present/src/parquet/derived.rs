//! The derived tables: `requests`, a row for each request, and `spans`, a row for each span of it.
//!
//! Both are written while paths are found, so memory is what the paths need that are open at once. A message whose caller
//! is watched but whose request is not known is no request: its spans have a row, it has none in `requests`.

use super::{Column, ColumnKind, Summary, TableError, TableWriter, host_names};
use ColumnKind::{Bool, I64, Text, U16, U32, U64};
use std::path::Path;
use wakepath_analysis::names::Names;
use wakepath_analysis::requests::{failed, kind_of};
use wakepath_analysis::spans::{Timed, evidence, lay_out};
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::{Request, Span};
use wakepath_model::clock::WallClock;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{HostId, MonoNs};

/// Names of the derived tables.
pub const DERIVED: [&str; 2] = ["requests", "spans"];

fn request_columns() -> Vec<Column> {
    let must = Column::new;
    vec![
        must("request_id", Text),
        must("kind", Text),
        must("host", Text),
        must("start_ns", I64),
        must("wall_time", ColumnKind::WallTime),
        must("duration_ns", I64),
        must("status", U16),
        Column::optional("failed", Bool),
        must("reset", Bool),
        must("cut", Bool),
        must("complete", Bool),
        must("doubts", U32),
        Column::optional("hole", Text),
        must("spans", U32),
        must("services", Text),
    ]
}

fn span_columns() -> Vec<Column> {
    let must = Column::new;
    let may = Column::optional;
    vec![
        must("request_id", Text),
        must("span", U32),
        may("parent", U32),
        must("depth", U32),
        must("host", Text),
        must("service", Text),
        must("process", Text),
        must("task", U32),
        must("flow", U64),
        may("caller_host", Text),
        may("caller_task", U32),
        may("caller_flow", U64),
        must("asked", Text),
        may("protocol", Text),
        may("verb", Text),
        may("target", Text),
        must("status", U16),
        may("failed", Bool),
        may("error", Text),
        must("start_ns", I64),
        must("end_ns", I64),
        must("wall_time", ColumnKind::WallTime),
        must("self_ns", I64),
        must("queued_ns", I64),
        may("between_ns", I64),
        must("evidence", Text),
        may("made_by", Text),
        may("joined_by", Text),
        must("watched", Bool),
        must("orphan", Bool),
        must("doubts", U32),
        may("hole", Text),
    ]
}

/// Finds the requests of `folder` and writes them as `out_dir/requests.parquet` and `out_dir/spans.parquet`; `progress`
/// hears of the number of requests so far.
pub fn write_derived(
    folder: &Folder,
    out_dir: impl AsRef<Path>,
    mut progress: impl FnMut(u64),
) -> Result<Summary, TableError> {
    let [requests, spans] = DERIVED;
    let mut tables = Tables {
        names: Names::read(folder),
        hosts: host_names(folder),
        clocks: folder.hosts().iter().map(|h| (h.id(), h.wall_clock())).collect(),
        requests: TableWriter::create(out_dir.as_ref(), requests, &request_columns())?,
        spans: TableWriter::create(out_dir.as_ref(), spans, &span_columns())?,
    };
    let mut written = Ok(());
    let mut count = 0;
    wakepath_causality::reconstruct(
        folder,
        |r| {
            count += 1;
            if written.is_ok() {
                written = tables.put(&r);
            }
            progress(count);
        },
        |_, _, _, _| {},
    );
    written?;
    Ok(Summary { tables: vec![tables.requests.finish()?, tables.spans.finish()?] })
}

struct Tables<'f> {
    names: Names<'f>,
    hosts: Vec<String>,
    clocks: Vec<(HostId, WallClock)>,
    requests: TableWriter,
    spans: TableWriter,
}

impl Tables<'_> {
    fn put(&mut self, r: &Request) -> Result<(), TableError> {
        let timed = lay_out(r);
        let id = format!("{:016x}", r.id);
        if r.orphan.is_none() {
            self.put_request(r, &id, &timed)?;
        }
        for t in &timed {
            self.put_span(r, &id, t)?;
        }
        Ok(())
    }

    fn host(&self, id: HostId) -> &str {
        self.hosts.get(usize::from(id.0)).map_or("?", |h| h.as_str())
    }

    fn wall(&self, host: HostId, at: MonoNs) -> Option<i64> {
        self.clocks.iter().find(|c| c.0 == host).and_then(|c| c.1.wall_ns(at))
    }

    fn put_request(&mut self, r: &Request, id: &str, timed: &[Timed]) -> Result<(), TableError> {
        let (Some(root), Some(span)) = (timed.first(), r.spans.first()) else { return Ok(()) };
        let Some(half) = span.callee.as_ref().or(span.caller.as_ref()) else { return Ok(()) };
        let e = &half.exchange;
        let (service, asked) = kind_of(r, &self.names);
        let mut services: Vec<String> = Vec::new();
        for s in &r.spans {
            let name = self.names.service(s);
            if !services.contains(&name) {
                services.push(name);
            }
        }
        let mut holes: Vec<&str> = r.gaps().into_iter().map(|h| h.1.name()).collect();
        holes.sort_unstable();
        holes.dedup();
        let (host, wall) = (self.host(root.host).to_owned(), self.wall(root.host, root.start));
        let mut row = self.requests.row();
        row.text(id).text(format!("{service} {asked}")).text(host).ns(root.start.0).wall_time(wall);
        row.ns(root.duration_ns())
            .u32(e.content.status.into())
            .bool_or_none(failed(e))
            .bool(e.is(ExchangeFlag::Reset))
            .bool(e.is(ExchangeFlag::Cut));
        row.bool(r.is_complete()).u32(r.spans.iter().map(|s| s.doubts).sum()).text_or_none(holes.join("; "));
        row.u32(r.spans.len() as u32).text(services.join(", "));
        row.end()
    }

    fn put_span(&mut self, r: &Request, id: &str, t: &Timed) -> Result<(), TableError> {
        let s: &Span = &r.spans[t.index as usize];
        let Some(half) = s.callee.as_ref().or(s.caller.as_ref()) else { return Ok(()) };
        let e = &half.exchange;
        let is_root = t.index == 0;
        let hole = r.orphan.filter(|_| is_root).or(s.missing());
        let (host, wall) = (self.host(t.host).to_owned(), self.wall(t.host, t.start));
        let caller_host = s.caller.as_ref().map(|c| self.host(c.host).to_owned());
        let text = |id| self.names.text(half.host, id);
        let mut row = self.spans.row();
        row.text(id).u32(t.index);
        match s.parent {
            Some(p) => row.u32(p),
            None => row.none(),
        };
        row.u32(t.depth).text(host).text(self.names.service(s)).text(self.names.process(half.host, e.request.task));
        row.u32(e.request.task.0).u64(e.flow.0);
        match (&s.caller, caller_host) {
            (Some(c), Some(host)) => row.text(host).u32(c.exchange.request.task.0).u64(c.exchange.flow.0),
            _ => row.none().none().none(),
        };
        row.text(self.names.asked(half))
            .text_or_none(text(e.content.protocol))
            .text_or_none(text(e.content.verb))
            .text_or_none(text(e.content.target));
        row.u32(e.content.status.into()).bool_or_none(failed(e)).text_or_none(if e.is(ExchangeFlag::Failed) {
            text(e.content.detail)
        } else {
            ""
        });
        row.ns(t.start.0).ns(t.end.0).wall_time(wall).ns(t.self_ns).ns(t.queued_ns);
        match t.between_ns {
            Some(ns) => row.ns(ns),
            None => row.none(),
        };
        row.text(evidence(s)).text_or_none(s.made_by.map_or("", |r| r.name()));
        row.text_or_none(s.joined_by.map_or("", |r| r.name())).bool(s.callee.is_some());
        row.bool(r.orphan.is_some()).u32(s.doubts).text_or_none(hole.map_or("", |h| h.name()));
        row.end()
    }
}
