//! Names for the frames of stacks, from the files on this machine. A file is believed where its build id is the one that
//! was recorded; names from another build would be wrong without looking so.

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolizer};
use std::collections::BTreeMap;
use std::path::Path;
use wakepath_model::stack::Run;

/// Looks up names, file by file.
pub struct Symbols {
    symbolizer: Symbolizer,
    /// By path and build id: why its frames have no names, or should be taken with care.
    files: BTreeMap<(String, String), Standing>,
}

/// What a file on this machine is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The one that was recorded.
    Same,
    /// Neither then nor now it has a build id.
    Unproved,
    /// Not a regular file here, or not readable.
    Absent,
    /// Another build.
    Differs,
    /// No file: code made at run time, or the kernel's.
    None,
}

impl Default for Symbols {
    fn default() -> Self {
        Symbols {
            symbolizer: Symbolizer::builder().enable_code_info(false).enable_inlined_fns(true).build(),
            files: BTreeMap::new(),
        }
    }
}

impl Symbols {
    /// Nothing looked up yet.
    pub fn new() -> Symbols {
        Symbols::default()
    }

    /// The names of a run's frames, innermost first; functions that were inlined have frames of their own. A frame without a
    /// name is `FILE+0xOFFSET`.
    pub fn names(&mut self, run: &Run<'_>) -> Vec<String> {
        let standing = self.standing(run.path, run.build_id);
        if standing == Standing::None {
            let name = if run.path.is_empty() { "[no file]" } else { run.path };
            return vec![name.to_owned(); run.offsets.len()];
        }
        let file = Path::new(run.path).file_name().map_or(run.path.into(), |f| f.to_string_lossy());
        let found = match standing {
            // a return address is where the caller goes on: the call itself is before it
            Standing::Same | Standing::Unproved => {
                let calls: Vec<u64> = run.offsets.iter().map(|o| o.saturating_sub(1)).collect();
                self.symbolizer
                    .symbolize(&Source::Elf(Elf::new(run.path)), Input::FileOffset(&calls))
                    .unwrap_or_default()
            }
            _ => Vec::new(),
        };
        let mut names = Vec::new();
        for (i, offset) in run.offsets.iter().enumerate() {
            match found.get(i).and_then(|s| s.as_sym()) {
                Some(sym) => {
                    names.extend(sym.inlined.iter().rev().map(|f| f.name.to_string()));
                    names.push(sym.name.to_string());
                }
                None => names.push(format!("{file}+{offset:#x}")),
            }
        }
        names
    }

    /// What the reader must know of the files that were asked for, one sentence each.
    pub fn notes(&self) -> Vec<String> {
        let note = |((path, _), standing): (&(String, String), &Standing)| match standing {
            Standing::Same | Standing::None => None,
            Standing::Unproved => Some(format!("{path} has no build id: names come from the current file")),
            Standing::Absent => Some(format!("{path} is not on this machine: its frames are offsets")),
            Standing::Differs => Some(format!("{path} is another build than the recorded one: its frames are offsets")),
        };
        self.files.iter().filter_map(note).collect()
    }

    fn standing(&mut self, path: &str, build_id: &str) -> Standing {
        let key = (path.to_owned(), build_id.to_owned());
        *self.files.entry(key).or_insert_with(|| {
            if !path.starts_with('/') || path.starts_with("/memfd:") {
                return Standing::None;
            }
            // the path comes from the trace: only a regular file is opened
            if !std::fs::metadata(path).is_ok_and(|m| m.is_file()) {
                return Standing::Absent;
            }
            let here: Option<String> = match blazesym::helper::read_elf_build_id(path) {
                Ok(id) => id.map(|id| id.iter().map(|b| format!("{b:02x}")).collect()),
                Err(_) => return Standing::Absent,
            };
            match here {
                None if build_id.is_empty() => Standing::Unproved,
                Some(id) if id == build_id => Standing::Same,
                _ => Standing::Differs,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<'a>(path: &'a str, build_id: &'a str) -> Run<'a> {
        Run { path, build_id, offsets: vec![0x1000, 0x2000] }
    }

    #[test]
    fn without_the_same_file_frames_are_offsets() {
        let mut s = Symbols::new();
        assert_eq!(s.names(&run("/nowhere/app", "8f")), ["app+0x1000", "app+0x2000"]);
        assert_eq!(s.names(&run("", "")), ["[no file]", "[no file]"]);
        assert_eq!(s.names(&run("[vdso]", "")), ["[vdso]", "[vdso]"]);
        assert_eq!(s.names(&run("/dev/null", ""))[0], "null+0x1000");
        let me = std::env::current_exe().expect("this program has a path");
        let me = me.to_str().expect("paths here are UTF-8");
        assert!(s.names(&run(me, "0000"))[0].ends_with("+0x1000"), "another build");
        let notes = s.notes();
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes.iter().any(|n| n.contains("another build")), "{notes:?}");
    }
}
