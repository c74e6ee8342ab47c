//! ARCHITECTURE.md against the tree, in both directions; the reasons in docs/internals; schemas; what a repository must have.

use super::Tree;
use std::os::unix::fs::PermissionsExt as _;

const MAP: &str = "ARCHITECTURE.md";
const TRAPS: &str = "docs/internals/traps.md";
const NEEDED: [&str; 5] = ["README.md", MAP, "CHANGELOG.md", "LICENSE", "Cargo.lock"];
const EXECUTABLE: [&str; 4] = ["demo", "test", ".ci/run", "scripts/install"];

pub fn check(tree: &Tree, out: &mut Vec<String>) {
    for file in NEEDED {
        if !tree.has(file) {
            out.push(format!("{file}: missing"));
        }
    }
    for file in EXECUTABLE {
        let mode = std::fs::metadata(tree.root.join(file)).map_or(0, |m| m.permissions().mode());
        if mode & 0o111 != 0o111 {
            out.push(format!("{file}: must be there and be executable (chmod 755)"));
        }
    }
    map(tree, out);
    for (file, test) in tests_in(tree.text(TRAPS)) {
        let is_there = tree.has(file) && test.is_none_or(|t| tree.text(file).contains(&format!("fn {t}(")));
        if !is_there {
            out.push(format!("{TRAPS}: names {file} {}, which does not exist", test.unwrap_or("")));
        }
    }
    for f in tree.files.iter().filter(|f| f.path.starts_with("docs/schemas/")) {
        if let Err(e) = serde_json::from_str::<serde_json::Value>(&f.text) {
            out.push(format!("{}: not JSON: {e}", f.path));
        }
    }
}

fn map(tree: &Tree, out: &mut Vec<String>) {
    let named = paths_in(tree.text(MAP));
    let begins = begins_in(tree.text(MAP));
    let places: Vec<&str> = begins.iter().map(|(_, place)| *place).collect();
    for path in named.iter().filter(|path| !places.contains(path)) {
        if !tree.has(path) {
            out.push(format!("{MAP}: names {path}, which does not exist"));
        }
    }
    for f in tree.files.iter().filter(|f| f.path.starts_with("docs/internals/") && f.path.ends_with(".md")) {
        for path in paths_in(&f.text).into_iter().filter(|path| !tree.has(path)) {
            out.push(format!("{}: names {path}, which does not exist", f.path));
        }
    }
    for path in begins.iter().map(|(room, place)| format!("{room}/{place}")).filter(|path| !tree.has(path)) {
        out.push(format!("{MAP}: says to begin at {path}, which does not exist"));
    }
    let top = tree.folders("");
    let rooms = ["crates", "testbeds"]
        .iter()
        .flat_map(|of| tree.folders(of).into_iter().map(move |name| format!("{of}/{name}")));
    for folder in top.into_iter().filter(|f| !f.starts_with('.')).chain(rooms) {
        if !named.iter().any(|n| *n == folder) {
            out.push(format!("{MAP}: does not name `{folder}`"));
        }
    }
}

/// What stands in back quotes and looks like a path of the repository: one word with a slash, without the last one.
fn paths_in(text: &str) -> Vec<&str> {
    let mut in_block = false;
    let lines = text.lines().filter(|l| {
        in_block ^= l.starts_with("```");
        !in_block && !l.starts_with("```")
    });
    lines
        .flat_map(|l| l.split('`').skip(1).step_by(2))
        .filter(|w| w.contains('/') && !w.contains([' ', '*', '<', ':', '$']) && !w.starts_with('/'))
        .map(|w| w.trim_end_matches('/'))
        .collect()
}

/// The rooms of the map and where in them to begin: of tables whose last column is `begin`, the first and the last cell.
fn begins_in(text: &str) -> Vec<(&str, &str)> {
    let mut is_table_of_rooms = false;
    let mut begins = Vec::new();
    for line in text.lines() {
        if !line.starts_with('|') {
            is_table_of_rooms = false;
            continue;
        }
        is_table_of_rooms |= line.ends_with("| begin |");
        let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        if let [_, room, .., place, _] = cells[..]
            && is_table_of_rooms
            && line.ends_with("` |")
        {
            begins.push((room.trim_end_matches('/'), place));
        }
    }
    begins
}

/// What the last cell of each row names: a file and a function in it, or a folder alone.
fn tests_in(text: &str) -> Vec<(&str, Option<&str>)> {
    let mut named: Vec<(&str, Option<&str>)> = Vec::new();
    for row in text.lines().filter(|l| l.starts_with('|')) {
        let cell = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap_or("");
        for word in cell.split('`').skip(1).step_by(2) {
            match named.last_mut() {
                Some(last) if !word.contains('/') => last.1 = Some(word),
                _ => named.push((word, None)),
            }
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::{begins_in, paths_in, tests_in};

    #[test]
    fn tests_are_named_by_file_and_function_or_by_folder() {
        let text = "words `a/b`\n| `x` | `a/b.rs` `holds`, `c/d` |\n| y | none |\n| z | `e/f.rs` `too` |";
        assert_eq!(tests_in(text), [("a/b.rs", Some("holds")), ("c/d", None), ("e/f.rs", Some("too"))]);
    }

    #[test]
    fn a_row_of_a_room_ends_with_where_to_begin() {
        let text = "| room | begin |\n| --- | --- |\n| `a/` | `src/c.rs` |\n\n| x | y |\n| `d/e` | `f/g` |\n";
        assert_eq!(begins_in(text), [("a", "src/c.rs")]);
    }

    #[test]
    fn paths_are_words_in_back_quotes_with_a_slash() {
        let text = "`crates/wire` and `probes/`, `Word`, `a b/c`, /etc, `/proc/1`\n```\n`x/y`\n```\n`docs/a.md`";
        assert_eq!(paths_in(text), ["crates/wire", "probes", "docs/a.md"]);
    }
}
