//! `wakepath export --to clickhouse`: a folder with tables, how to load them, and queries.

use super::{Exported, Source};
use crate::owner;
use anyhow::{Context as _, Result};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use wakepath_export::clickhouse::{LOAD, QUERIES, REQUESTS, SCHEMA, SPANS, Writer};
use wakepath_model::folder::Overwrite;
use wakepath_present::units::counted;

/// A file that has another name until it is whole, and is removed where it never is.
struct Draft {
    temporary: PathBuf,
    path: PathBuf,
}

impl Draft {
    fn create(dir: &Path, name: &str) -> io::Result<(Draft, File)> {
        let temporary = dir.join(format!(".{name}.{}", std::process::id()));
        // one of a process that had our number and was killed
        let _ = fs::remove_file(&temporary);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        Ok((Draft { temporary, path: dir.join(name) }, file))
    }

    fn keep(self, file: &File) -> io::Result<()> {
        file.sync_data()?;
        fs::rename(&self.temporary, &self.path)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // gone already where it was kept
        let _ = fs::remove_file(&self.temporary);
    }
}

impl Source<'_> {
    /// Writes the folder, and says how to load it.
    pub(super) fn write_tables(&self, dir: &Path) -> Result<Exported> {
        owner::claim(dir, Overwrite::Append)
            .and_then(|_| DirBuilder::new().recursive(true).mode(0o700).create(dir))
            .with_context(|| dir.display().to_string())?;
        let created = |name: &str| Draft::create(dir, name).with_context(|| dir.join(name).display().to_string());
        let ((spans, spans_file), (requests, requests_file)) = (created(SPANS)?, created(REQUESTS)?);
        let mut to = Writer::new(spans_file, requests_file)?;
        let (mut exported, mut count, traces) = (Exported::default(), 0, self.traces());
        self.each(&mut exported, &mut |r, placed| {
            let (trace, parts) = traces.with_parts(r);
            count += trace.spans.len() as u64;
            to.write(r, placed, &trace, &parts)
        })?;
        let kept = to.finish().and_then(|[spans_file, requests_file]| {
            spans.keep(&spans_file)?;
            requests.keep(&requests_file)?;
            for (name, text) in [("schema.sql", SCHEMA), ("load.sql", LOAD), ("queries.sql", QUERIES)] {
                let (draft, mut file) = Draft::create(dir, name)?;
                file.write_all(text.as_bytes())?;
                draft.keep(&file)?;
            }
            Ok(())
        });
        kept.with_context(|| format!("{}: cannot be written", dir.display()))?;
        exported.parts.push(counted(count, "span", "spans"));
        let load = "clickhouse-client --queries-file schema.sql load.sql";
        exported.next = Some(format!("to load it: cd {} && {load}; then ask it queries.sql", dir.display()));
        Ok(exported)
    }
}
