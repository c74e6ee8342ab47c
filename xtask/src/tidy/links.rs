//! Links in documents: the file that a link names exists, and so does the heading.

use super::Tree;
use std::collections::BTreeSet;

pub fn check(tree: &Tree, out: &mut Vec<String>) {
    for f in tree.files.iter().filter(|f| f.path.ends_with(".md")) {
        for target in targets(&f.text) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { f.path.clone() } else { beside(&f.path, file) };
            if !tree.has(&path) {
                out.push(format!("{}: links to {target}, but {path} does not exist", f.path));
            } else if !heading.is_empty() && !headings(tree.text(&path)).contains(heading) {
                out.push(format!("{}: links to {target}, but {path} has no such heading", f.path));
            }
        }
    }
}

/// What is linked to within the repository, code blocks left out.
fn targets(text: &str) -> Vec<&str> {
    prose(text)
        .flat_map(|l| l.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.trim())
        .filter(|t| !t.contains("://") && !t.starts_with("mailto:"))
        .collect()
}

/// Lines outside of code blocks.
pub fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_block = false;
    text.lines().filter(move |l| {
        let is_fence = l.trim_start().starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence
    })
}

/// The path below the root of `target`, as a file at `from` names it.
fn beside(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// Anchors of a document's headings, as GitHub makes them.
fn headings(text: &str) -> BTreeSet<String> {
    let anchor = |title: &str| -> String {
        let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    prose(text).filter(|l| l.starts_with('#')).map(|l| anchor(l.trim_start_matches('#'))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "[a](b.md#c) and [d](../e.md)\n```\n[f](g)\n```\n[h](https://i.example)";
        assert_eq!(targets(text), ["b.md#c", "../e.md"]);
        assert_eq!(beside("docs/how-to/x.md", "../e.md"), "docs/e.md");
        assert_eq!(beside("README.md", "docs/e.md"), "docs/e.md");
    }

    #[test]
    fn headings_become_anchors() {
        assert!(headings("## Why a path is incomplete\n").contains("why-a-path-is-incomplete"));
        assert!(headings("# `wakepath top`, live\n").contains("wakepath-top-live"));
    }
}
