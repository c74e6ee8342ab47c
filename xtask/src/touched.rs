//! `cargo xtask touched`: how many product files the last additions of each kind touched, by the history of the repository.
//! CONTRIBUTING.md has the outcome; a test holds each of its figures against the commit that it names.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const DOCUMENT: &str = "CONTRIBUTING.md";
/// Between these lines of the document stands what is made here.
const BEGIN: &str = "<!-- made by `cargo xtask touched --write`: begin -->";
const END: &str = "<!-- end -->";
/// Additions of a kind that are counted: the last ones.
const LAST: usize = 3;

/// A kind of addition, recognised by what it adds.
struct Kind {
    what: &'static str,
    sign: Sign,
    /// Whether a commit with the sign is one of the kind.
    also: fn(&Commit) -> bool,
}

/// What shows that a commit adds one of a kind.
enum Sign {
    /// A new file below this folder (and in none below that), other than `mod.rs`.
    File(&'static str),
    /// The first file in a folder whose path begins so.
    Folder(&'static str),
    /// A new line in one of these files or folders: what the function finds in a line that is added and in none that is removed.
    Line(&'static str, fn(&str) -> Option<&str>),
}

const KINDS: &[Kind] = &[
    Kind { what: "a linking rule", sign: Sign::File("crates/causality/src/attribution/rules/"), also: any },
    Kind {
        what: "a condition of a rule",
        // `canary.rs` had their names until `conditions.rs` gave each a sentence
        sign: Sign::Line("crates/causality/src/c*.rs", |l| {
            l.strip_prefix("is(\"")
                .and_then(|l| l.split('"').next())
                .or_else(|| l.strip_prefix('"')?.strip_suffix("\","))
        }),
        also: |c| !c.adds_in("crates/causality/src/attribution/rules/") && !c.adds_in("crates/causality/src/"),
    },
    Kind { what: "a wait cause with its hook", sign: Sign::Line(CAUSES, cause), also: |c| c.touches("probes/bpf/") },
    Kind {
        what: "a wait cause from what is recorded",
        sign: Sign::Line(CAUSES, cause),
        also: |c| !c.touches("probes/bpf/"),
    },
    Kind {
        what: "a runtime's identity",
        sign: Sign::Line("crates/runtimes/src", |l| l.split_once("tasks: \"")?.1.split('"').next()),
        also: |c| c.touches("probes/bpf/"),
    },
    Kind { what: "a protocol", sign: Sign::Folder("tests/golden/proto."), also: any },
    Kind { what: "a reader (`import`)", sign: Sign::Folder("tests/golden/read."), also: any },
    Kind {
        what: "a form of `export`",
        sign: Sign::Line("crates/wakepath/src/cli/export.rs", |l| {
            l.strip_suffix(',')
                .filter(|name| name.starts_with(char::is_uppercase) && name.chars().all(char::is_alphanumeric))
        }),
        also: |c| c.adds_in("crates/export/src/"),
    },
    Kind {
        what: "a command",
        sign: Sign::Line("crates/wakepath/src/cli.rs", |l| {
            l.strip_suffix("Args),")?.split_once('(').map(|(name, _)| name)
        }),
        also: |c| c.adds_in("crates/wakepath/src/cli/"),
    },
    Kind {
        what: "a column",
        sign: Sign::Line("docs/formats/columns.md", |l| l.split('`').nth(1).filter(|name| *name != "pad")),
        also: |c| c.touches("crates/model/src/rows"),
    },
];

const CAUSES: &str = "crates/analysis/src/causes.rs";

fn cause(line: &str) -> Option<&str> {
    line.strip_prefix("name: \"")?.strip_suffix("\",")
}

fn any(_: &Commit) -> bool {
    true
}

/// A commit that is no merge.
#[derive(Debug, Default, PartialEq)]
struct Commit {
    /// Its name, all digits.
    id: String,
    /// Its files, and whether it adds each; a renamed file is not added.
    files: Vec<(String, bool)>,
}

impl Commit {
    fn touches(&self, place: &str) -> bool {
        self.files.iter().any(|(f, _)| f.starts_with(place))
    }

    /// Whether it adds a file in this folder.
    fn adds_in(&self, folder: &str) -> bool {
        self.added_in(folder).next().is_some()
    }

    fn added_in<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        let added = self.files.iter().filter(|(_, is_added)| *is_added);
        added.map(|(f, _)| f.as_str()).filter(move |f| {
            f.strip_prefix(folder).is_some_and(|name| !name.contains('/') && name.ends_with(".rs") && name != "mod.rs")
        })
    }

    /// Number of its product files.
    fn touched(&self) -> usize {
        self.files.iter().filter(|(f, _)| is_product(f)).count()
    }
}

/// What is built into Wakepath and written by hand: no tests, documents or generated files.
fn is_product(path: &str) -> bool {
    let is_built = ["crates/", "probes/", "annotations/", "web/src/"].iter().any(|of| path.starts_with(of));
    let is_aside = ["/tests/", "/examples/", "/tests.rs", "crates/testkit/"].iter().any(|of| path.contains(of));
    is_built && !is_aside && !path.ends_with(".md") && !is_generated(path)
}

/// Files that other tasks write.
fn is_generated(path: &str) -> bool {
    // the conditions' names were generated as long as they had no sentences
    path == "crates/causality/src/canary.rs" || path == "probes/bpf/wire.h" || path.starts_with("crates/ui/page/")
}

/// What git prints, or why it prints nothing.
fn git(root: &Path, args: &[&str]) -> Result<String, String> {
    let output =
        Command::new("git").args(args).current_dir(root).output().map_err(|e| format!("git does not start: {e}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// All commits but merges, newest first.
///
/// # Errors
/// If there is no history, or only its last part.
fn history(root: &Path) -> Result<Vec<Commit>, String> {
    if git(root, &["rev-parse", "--is-shallow-repository"])?.trim() != "false" {
        return Err("this clone is shallow; `git fetch --unshallow` fetches its history".into());
    }
    let log = git(root, &["log", "--no-merges", "-M", "--name-status", "--format=commit\t%H"])?;
    Ok(commits(&log))
}

/// What `git log --name-status` lists.
fn commits(log: &str) -> Vec<Commit> {
    let mut out: Vec<Commit> = Vec::new();
    for line in log.lines() {
        let mut cells = line.split('\t');
        match (cells.next(), cells.next_back(), out.last_mut()) {
            (Some("commit"), Some(id), _) => out.push(Commit { id: id.to_owned(), files: Vec::new() }),
            (Some(status), Some(file), Some(commit)) => commit.files.push((file.to_owned(), status == "A")),
            _ => {}
        }
    }
    out
}

/// The words that each commit adds to these files and removes from none, by the patch that git prints of them.
fn new_words(patch: &str, word: fn(&str) -> Option<&str>) -> Vec<(&str, BTreeSet<&str>)> {
    patch
        .split("commit\t")
        .filter_map(|one| one.split_once('\n'))
        .map(|(id, lines)| {
            let with = |sign: char| {
                let of = lines.lines().filter_map(move |l| l.strip_prefix(sign));
                of.filter_map(|l| word(l.trim())).collect::<BTreeSet<&str>>()
            };
            (id, &with('+') - &with('-'))
        })
        .collect()
}

/// Names of the commits that have the sign, newest first.
fn with_sign(root: &Path, sign: &Sign, history: &[Commit]) -> Result<Vec<String>, String> {
    Ok(match sign {
        Sign::File(folder) => history.iter().filter(|c| c.adds_in(folder)).map(|c| c.id.clone()).collect(),
        Sign::Folder(begin) => {
            let mut known = BTreeSet::new();
            let mut found: Vec<String> = Vec::new();
            for commit in history.iter().rev() {
                let of = commit.files.iter().filter_map(|(f, _)| f.strip_prefix(begin)?.split('/').next());
                // each must be asked, so that all become known
                if of.filter(|name| known.insert((*name).to_owned())).count() > 0 {
                    found.insert(0, commit.id.clone());
                }
            }
            found
        }
        Sign::Line(place, word) => {
            let args = ["log", "--no-merges", "-M", "-p", "-U0", "--format=commit\t%H", "--", place];
            let patch = git(root, &args)?;
            let words = new_words(&patch, *word);
            words.into_iter().filter(|(_, new)| !new.is_empty()).map(|(id, _)| id.to_owned()).collect()
        }
    })
}

/// The last additions of a kind, newest first.
fn last<'a>(root: &Path, kind: &Kind, history: &'a [Commit]) -> Result<Vec<&'a Commit>, String> {
    let ids = with_sign(root, &kind.sign, history)?;
    let named = ids.iter().filter_map(|id| history.iter().find(|c| c.id == *id));
    Ok(named.filter(|c| (kind.also)(c)).take(LAST).collect())
}

fn row(kind: &Kind, last: &[&Commit]) -> String {
    let mut counts: Vec<usize> = last.iter().map(|c| c.touched()).collect();
    counts.sort_unstable();
    let middle = counts.get(counts.len() / 2).map_or("none yet".to_owned(), usize::to_string);
    let each: Vec<String> = last.iter().map(|c| format!("`{:.8}` {}", c.id, c.touched())).collect();
    format!("| {} | {middle} | {} |", kind.what, each.join(", "))
}

fn table(root: &Path) -> Result<Vec<String>, String> {
    let history = history(root)?;
    let mut rows =
        vec!["| to add | product files | the last ones: commit, files |".to_owned(), "| --- | --- | --- |".to_owned()];
    for kind in KINDS {
        rows.push(row(kind, &last(root, kind, &history)?));
    }
    Ok(rows)
}

/// Prints the table, or writes it into the document.
///
/// # Errors
/// If there is no whole history, or the document has no place for it.
pub fn run(root: &Path, is_written: bool) -> Result<(), String> {
    let rows = table(root)?;
    if !is_written {
        println!("{}", rows.join("\n"));
        return Ok(());
    }
    let path = root.join(DOCUMENT);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{DOCUMENT}: {e}"))?;
    let (before, rest) = text.split_once(BEGIN).ok_or_else(|| format!("{DOCUMENT}: no line {BEGIN}"))?;
    let (_, after) = rest.split_once(END).ok_or_else(|| format!("{DOCUMENT}: no line {END}"))?;
    let text = format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", rows.join("\n"));
    std::fs::write(&path, text).map_err(|e| format!("{DOCUMENT}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_commits_are_read_and_renamed_ones_are_not_added() {
        let log = "commit\tab12\n\nA\tcrates/x/src/r/a.rs\nM\tdocs/b.md\nR095\tcrates/c.rs\tcrates/x/src/r/d.rs\ncommit\tcd34\n";
        let found = commits(log);
        assert_eq!(found.iter().map(|c| (c.id.as_str(), c.touched())).collect::<Vec<_>>(), [("ab12", 2), ("cd34", 0)]);
        assert_eq!(found[0].added_in("crates/x/src/r/").collect::<Vec<_>>(), ["crates/x/src/r/a.rs"]);
        assert!(!found[0].adds_in("crates/x/src/"), "a folder further down is another one");
    }

    #[test]
    fn a_word_that_only_moves_is_not_new() {
        let patch = "commit\tab\n-    name: \"cpu\",\n+    name: \"cpu\",\n+    name: \"disk\",\ncommit\tcd\n+x\n";
        let words = new_words(patch, cause);
        assert_eq!(words, [("ab", BTreeSet::from(["disk"])), ("cd", BTreeSet::new())]);
    }

    #[test]
    fn tests_documents_and_generated_files_are_no_product() {
        assert!(is_product("crates/wire/src/lib.rs") && is_product("probes/bpf/state.h"));
        for other in [
            "crates/wire/tests/a.rs",
            "crates/testkit/src/lib.rs",
            "probes/bpf/wire.h",
            "crates/causality/src/canary.rs",
            "docs/a.md",
            "tests/golden/x",
            "xtask/src/main.rs",
        ] {
            assert!(!is_product(other), "{other}");
        }
    }

    /// Commits do not change, so this holds whatever comes after them; that newer ones are missing breaks nothing.
    #[test]
    fn the_document_says_what_its_commits_touched() {
        let history = match history(crate::root()) {
            Ok(history) => history,
            Err(e) => return println!("skipped: {e}"),
        };
        let text = std::fs::read_to_string(crate::root().join(DOCUMENT)).expect("a document");
        let part = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).expect("its place").0;
        for kind in KINDS {
            let begin = format!("| {} |", kind.what);
            let line = part.lines().find(|l| l.starts_with(&begin)).unwrap_or_else(|| panic!("no row {begin}"));
            let ids = line.split('`').filter(|w| w.len() == 8 && w.bytes().all(|b| b.is_ascii_hexdigit()));
            let named: Vec<&Commit> = ids
                .map(|id| history.iter().find(|c| c.id.starts_with(id)))
                .map(|c| c.unwrap_or_else(|| panic!("{line}: no such commit; remedy: cargo xtask touched --write")))
                .collect();
            assert_eq!(line, row(kind, &named));
        }
    }
}
