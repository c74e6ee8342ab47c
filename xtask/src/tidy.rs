//! The house's rules, as far as a program can check them. Each rule is a function from the tree to lines that name the
//! file and what to do.

mod c_functions;
mod circles;
mod documents;
mod exceptions;
mod grammar;
mod limits;
mod links;
mod registries;
mod rooms;
mod sources;
mod transcripts;
mod words;

use std::path::{Path, PathBuf};

/// Everything that is amiss in the tree; empty where nothing is.
pub fn problems(root: &Path) -> Vec<String> {
    let tree = Tree::read(root);
    let mut out = Vec::new();
    rooms::check(&tree, &mut out);
    documents::check(&tree, &mut out);
    registries::check(&tree, &mut out);
    sources::check(&tree, &mut out);
    limits::check(&tree, &mut out);
    links::check(&tree, &mut out);
    words::check(&tree, &mut out);
    grammar::check(&tree, &mut out);
    transcripts::check(&tree, &mut out);
    if !crate::bindings::is_current(root) {
        out.push("probes/bpf/wire.h: stale; remedy: cargo xtask bindings".into());
    }
    for document in crate::columns::stale(root) {
        out.push(format!("{document}: stale; remedy: cargo xtask tables"));
    }
    out.sort();
    out
}

/// What may be larger than the limits, a line each with its reason.
pub fn exceptions(root: &Path) -> Vec<String> {
    limits::exceptions(&Tree::read(root))
}

/// The text files of the repository, without what is built or derived.
pub struct Tree {
    root: PathBuf,
    files: Vec<File>,
}

/// A file with its path below the root.
pub struct File {
    /// Path with `/`.
    pub path: String,
    /// Contents; empty where they are not text.
    pub text: String,
}

/// Folders that are not the repository's, wherever they are; in a work tree beside a clone, `.git` is a file.
const NOT_OURS: [&str; 8] = [".git", "target", "__pycache__", ".venv", "corpus", "artifacts", "node_modules", "page"];

impl Tree {
    fn read(root: &Path) -> Tree {
        let mut files = Vec::new();
        let mut folders = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop() {
            let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            for entry in entries {
                let (path, name) = (entry.path(), entry.file_name());
                // no link is followed: what it points at is somewhere else's
                let Ok(kind) = entry.file_type() else { continue };
                if NOT_OURS.iter().any(|n| name == *n) {
                    continue;
                }
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_file() {
                    let below = path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned();
                    files.push(File { path: below, text: std::fs::read_to_string(&path).unwrap_or_default() });
                }
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Tree { root: root.to_path_buf(), files }
    }

    /// The text of a file, or nothing where it is not there.
    pub fn text(&self, path: &str) -> &str {
        self.files.iter().find(|f| f.path == path).map_or("", |f| &f.text)
    }

    /// Whether a file or folder is there.
    pub fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Names of the folders in a folder (`""`: the root) that hold any file of ours.
    pub fn folders(&self, of: &str) -> Vec<String> {
        let prefix = if of.is_empty() { String::new() } else { format!("{of}/") };
        let mut out: Vec<String> = self
            .files
            .iter()
            .filter_map(|f| Some(f.path.strip_prefix(&prefix)?.split_once('/')?.0.to_owned()))
            .collect();
        out.dedup();
        out
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_tree_is_tidy() {
        let problems = super::problems(crate::root());
        assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
    }
}
