//! Reader of marks: every folder `tests/golden/read.marks/*` is a test with a file and what is read from it
//! (`UPDATE_GOLDEN=1` writes that).

use proptest::prelude::*;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use wakepath_decode::readers::marks::{Bad, MarksReader};

/// All that is read, of pieces that follow each other.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<String>, Vec<Bad>, Vec<(&'static str, u64)>) {
    let (mut reader, mut lines) = (MarksReader::default(), Vec::new());
    for piece in pieces {
        reader.feed(piece, |mark| lines.push(format!("{mark:?}")));
    }
    reader.finish();
    let counted: u64 = reader.bad_counts().values().sum();
    assert!(counted >= reader.bad().len() as u64);
    (lines, reader.bad().to_vec(), reader.counts().collect())
}

fn golden() -> Vec<(PathBuf, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/read.marks");
    let mut cases: Vec<PathBuf> = std::fs::read_dir(&root).unwrap().map(|e| e.unwrap().path()).collect();
    cases.sort();
    assert!(!cases.is_empty());
    cases.into_iter().map(|case| (case.clone(), std::fs::read(case.join("input.marks")).unwrap())).collect()
}

#[test]
fn golden_marks() {
    for (case, file) in golden() {
        let (lines, bad, counts) = read([&file[..]]);
        let mut text = format!("{counts:?}\n");
        lines.iter().for_each(|l| writeln!(text, "{l}").unwrap());
        bad.iter().for_each(|b| writeln!(text, "line {}: {}: {}", b.line, b.defect, b.what).unwrap());
        wakepath_testkit::golden::holds(&case, &text);
    }
}

#[test]
fn a_file_cut_anywhere_is_read_up_to_the_cut() {
    for (case, file) in golden() {
        let (whole, _, _) = read([&file[..]]);
        for len in 0..file.len() {
            let (lines, bad, _) = read([&file[..len]]);
            assert_eq!(lines[..], whole[..lines.len()], "{} cut at {len}", case.display());
            let at_a_border = len > 0 && file[len - 1] == b'\n';
            assert!(at_a_border || !bad.is_empty(), "{} cut at {len}", case.display());
        }
    }
}

proptest! {
    #[test]
    fn any_split_gives_the_same(which in 0usize..100, cuts in proptest::collection::vec(0usize..2000, 0..40)) {
        let all = golden();
        let (_, file) = &all[which % all.len()];
        let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(file.len())).chain([0, file.len()]).collect();
        cuts.sort_unstable();
        prop_assert_eq!(read(cuts.windows(2).map(|c| &file[c[0]..c[1]])), read([&file[..]]));
    }

    #[test]
    fn bytes_turned_anywhere_are_read_to_the_end(which in 0usize..100, at in 0usize..2000, to in any::<u8>()) {
        let all = golden();
        let (_, file) = &all[which % all.len()];
        let mut turned = file.clone();
        let at = at % turned.len();
        turned[at] = to;
        let (lines, bad, counts) = read([&turned[..]]);
        let counted: u64 = counts.iter().map(|c| c.1).sum();
        prop_assert_eq!(lines.len() as u64, counted);
        // one byte touches one line, or two where it ends or joins them, unless it was the header's
        let before = read([&file[..]]).0.len();
        let header = file.iter().position(|b| *b == b'\n').unwrap_or(file.len());
        prop_assert!(at <= header || lines.len() + 2 >= before, "{lines:?} {bad:?}");
    }
}
