//! Folders made of marks, as `wakepath import` makes them.

use std::path::Path;
use wakepath_decode::readers::marks::MarksReader;
use wakepath_model::folder::{FolderError, FolderWriter, HostInfo, Options, Overwrite};
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::AnchorRow;

/// Writes the marks of a text (`docs/formats/marks.md`) into a folder.
///
/// # Errors
/// What the folder's writer says.
///
/// # Panics
/// Where a line cannot be read: the text is a test's own.
pub fn write(text: &str, path: &Path) -> Result<(), FolderError> {
    let (mut reader, mut hosts) = (MarksReader::default(), Vec::<(String, FolderWriter)>::new());
    let (mut failure, mut seq) = (None, 0);
    reader.feed(text.as_bytes(), |mark| {
        let at = hosts.iter().position(|(name, _)| name == mark.host).unwrap_or_else(|| {
            let info = HostInfo { hostname: mark.host.into(), boot_id: mark.host.into(), ..HostInfo::default() };
            let options = Options { overwrite: Overwrite::Append, ..Options::default() };
            match FolderWriter::create(path, info, options) {
                Ok(mut writer) => {
                    // one clock for all hosts
                    writer.push(&AnchorRow { at: MonoNs(0), real_ns: 0, error_ns: 0, ..Default::default() });
                    hosts.push((mark.host.to_owned(), writer));
                }
                Err(e) => failure = Some(e),
            }
            hosts.len().saturating_sub(1)
        });
        if let Some((_, writer)) = hosts.get_mut(at) {
            seq += 1;
            let row = mark.row(seq, |text| writer.intern(text));
            writer.push(&row);
        }
    });
    reader.finish();
    assert!(reader.bad().is_empty(), "{:?}", reader.bad());
    if let Some(failure) = failure {
        return Err(failure);
    }
    for (_, writer) in hosts {
        writer.close()?;
    }
    Ok(())
}
