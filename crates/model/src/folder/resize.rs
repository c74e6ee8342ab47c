//! Rows of another version: longer or shorter than ours.

/// Makes rows of `stored` words rows of `width` words: what a later version has behind our fields is left out, what an
/// earlier version did not have is zero, which says nothing.
pub(super) fn resize_rows(words: &mut Vec<u64>, stored: usize, width: usize) {
    let count = words.len().checked_div(stored).unwrap_or(0);
    if stored > width {
        (0..count).for_each(|i| words.copy_within(i * stored..i * stored + width, i * width));
        words.truncate(count * width);
    } else if stored < width {
        words.resize(count * width, 0);
        for i in (0..count).rev() {
            words.copy_within(i * stored..(i + 1) * stored, i * width);
            words[i * width + stored..(i + 1) * width].fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::layout::{FrameHeader, HEADER_BYTES};
    use crate::folder::{Folder, FolderWriter, HostInfo, Options};
    use crate::ids::{EndpointId, MonoNs, TaskId};
    use crate::rows::{Event, OpRow, Table};

    #[test]
    fn rows_are_cut_and_filled_up_to_our_width() {
        let rows = |stored: usize| -> Vec<u64> { (0..3 * stored as u64).map(|w| w + 1).collect() };
        for (stored, width) in [(1, 1), (1, 4), (2, 3), (3, 2), (5, 1), (4, 4)] {
            let mut words = rows(stored);
            resize_rows(&mut words, stored, width);
            assert_eq!(words.len(), 3 * width);
            for (i, row) in words.chunks(width).enumerate() {
                let expected = |w: usize| if w < stored { (i * stored + w + 1) as u64 } else { 0 };
                assert!(row.iter().enumerate().all(|(w, v)| *v == expected(w)), "{stored} {width} {row:?}");
            }
        }
        let mut none = Vec::new();
        resize_rows(&mut none, 0, 8);
        assert!(none.is_empty());
    }

    /// A segment whose operations have `more` words than ours: fewer, as before they named logical tasks, or as a later version may.
    fn read_with(more: isize) -> Result<(Vec<OpRow>, u64), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("t");
        let host = HostInfo { hostname: "web".into(), boot_id: "b".into(), ..HostInfo::default() };
        let mut w = FolderWriter::create(&path, host, Options { compress: false, ..Options::default() })?;
        for i in 1..4 {
            w.push(&OpRow { at: MonoNs(i), flow: EndpointId(i), logical: TaskId(9), ..OpRow::default() });
        }
        let segment = w.host_dir().join("00000000.seg");
        w.close()?;
        let bytes = std::fs::read(&segment)?;
        let (header, mut body) = bytes[HEADER_BYTES..].split_at(HEADER_BYTES);
        let mut frame = FrameHeader::read(header.try_into()?).ok_or("a frame")?;
        let width = frame.row_words();
        let mut rows = Vec::new();
        while !body.is_empty() {
            let (row, rest) = body.split_at(width * 8);
            let keep = width.saturating_add_signed(more.min(0)) * 8;
            rows.extend_from_slice(&row[..keep]);
            rows.resize(rows.len() + more.max(0) as usize * 8, 0xee);
            body = rest;
        }
        frame.raw_bytes = rows.len() as u32;
        frame.body_bytes = frame.raw_bytes;
        frame.body_crc = crc32fast::hash(&rows);
        std::fs::write(&segment, [&bytes[..HEADER_BYTES], &frame.write(), &rows].concat())?;
        let folder = Folder::open(&[&path])?;
        let op = |e| if let Event::Op(row) = e { Some(row) } else { None };
        let ops = folder.hosts()[0].events(Table::Op.into(), ..).filter_map(op).collect();
        Ok((ops, folder.defects().iter().map(|d| d.count).sum()))
    }

    #[test]
    fn a_frame_of_longer_or_shorter_rows_gives_the_fields_that_both_know() -> Result<(), Box<dyn std::error::Error>> {
        for (more, logical) in [(0, 9), (3, 9), (-1, 0)] {
            let (ops, defects) = read_with(more)?;
            assert_eq!((ops.len(), defects), (3, 0), "{more}");
            for (i, op) in (1..).zip(ops) {
                assert_eq!((op.at.0, op.flow.0, op.logical.0), (i, i, logical), "{more}");
            }
        }
        // longer than any row may be: counted, not believed
        let (ops, defects) = read_with(40)?;
        assert_eq!((ops.len(), defects > 0), (0, true));
        Ok(())
    }
}
