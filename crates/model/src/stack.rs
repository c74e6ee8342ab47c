//! Call stacks as text: what [`crate::rows::StackRow::frames`] holds.
//!
//! Addresses mean nothing once a process is gone, so the recorder writes each as an offset into the file that was mapped
//! there. Frames of one file that follow each other are one run: `PATH|BUILD-ID|OFFSET,OFFSET…`, runs apart by `;`,
//! innermost first, offsets and build id in hexadecimal. A path is empty where no file was mapped there: then the offsets are
//! addresses. `/usr/bin/app|8f02…|1a2b,3c4d;/usr/lib/libc.so.6|93ac…|27500` is three frames.

use std::fmt::Write as _;

/// Most frames that the recorder takes of one stack; of a deeper one the outermost are not there.
pub const FRAMES_MAX: usize = 64;

/// Frames of one file that follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run<'a> {
    /// The file as the process saw it, or what the kernel says in its place (`[vdso]`); empty where nothing was mapped.
    pub path: &'a str,
    /// Build id in hexadecimal, empty where the file has none or could not be read.
    pub build_id: &'a str,
    /// Offsets into the file; addresses where it is not a file.
    pub offsets: Vec<u64>,
}

/// Appends one frame to the text of a stack. What would end the path early is replaced.
pub fn push_frame(text: &mut String, path: &str, build_id: &str, offset: u64) {
    let same = text.rsplit(';').next().and_then(|run| run.rsplit_once('|')).is_some_and(|(file, _)| {
        file.rsplit_once('|').is_some_and(|(p, b)| b == build_id && p.chars().eq(path.chars().map(plain)))
    });
    if same {
        let _ = write!(text, ",{offset:x}");
        return;
    }
    if !text.is_empty() {
        text.push(';');
    }
    text.extend(path.chars().map(plain));
    let _ = write!(text, "|{build_id}|{offset:x}");
}

fn plain(c: char) -> char {
    if matches!(c, ';' | '|') || c.is_control() { '?' } else { c }
}

/// The runs of a stack's text, innermost first. What is no run is left out.
pub fn runs(text: &str) -> impl Iterator<Item = Run<'_>> {
    text.split(';').filter_map(|run| {
        let (file, offsets) = run.rsplit_once('|')?;
        let (path, build_id) = file.rsplit_once('|')?;
        let offsets = offsets.split(',').map(|o| u64::from_str_radix(o, 16)).collect::<Result<_, _>>().ok()?;
        Some(Run { path, build_id, offsets })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frames_of_one_file_are_one_run() {
        let mut text = String::new();
        for (path, id, offset) in
            [("/a", "8f", 0x1a2b), ("/a", "8f", 0x3c), ("/b;|", "", 1), ("/b;|", "", 2), ("", "", 7)]
        {
            push_frame(&mut text, path, id, offset);
        }
        assert_eq!(text, "/a|8f|1a2b,3c;/b??||1,2;||7");
        let read: Vec<Run<'_>> = runs(&text).collect();
        assert_eq!(read.len(), 3);
        assert_eq!(read[0], Run { path: "/a", build_id: "8f", offsets: vec![0x1a2b, 0x3c] });
        assert_eq!(read[2], Run { path: "", build_id: "", offsets: vec![7] });
    }

    #[test]
    fn what_is_no_stack_has_no_frames() {
        for text in ["", ";;", "…", "/a|8f", "/a|8f|zz", "/a|8f|1,"] {
            assert_eq!(runs(text).count(), 0, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_frame_comes_back(frames in prop::collection::vec((0usize..3, any::<u64>()), 0..FRAMES_MAX)) {
            const FILES: [(&str, &str); 3] = [("/usr/bin/app", "8f02"), ("/lib/libc.so.6", ""), ("", "")];
            let mut text = String::new();
            for &(file, offset) in &frames {
                push_frame(&mut text, FILES[file].0, FILES[file].1, offset);
            }
            let read: Vec<(String, u64)> = runs(&text)
                .flat_map(|r| r.offsets.clone().into_iter().map(move |o| (r.path.to_owned(), o)))
                .collect();
            let given: Vec<(String, u64)> = frames.iter().map(|&(f, o)| (FILES[f].0.to_owned(), o)).collect();
            prop_assert_eq!(read, given);
        }

        #[test]
        fn no_text_makes_a_panic(text in ".{0,200}") {
            for run in runs(&text) {
                prop_assert!(!run.offsets.is_empty());
            }
        }
    }
}
