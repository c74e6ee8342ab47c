//! Plain English: phrases that people should not meet, and sentences that are too long.

use super::links::prose;
use super::sources::product_lines;
use super::{File, Tree};
use crate::tables::{self, Made};

/// The phrases, one a line with what to write instead: `phrase => better`. Tests of the command line read it too.
pub const LIST: &str = include_str!("../../../docs/internals/wording.txt");
/// Most words of a sentence in documents.
const WORDS_MAX: usize = 30;
/// Most words of a sentence in the prose of a page, on average.
const WORDS_ON_AVERAGE: usize = 20;
/// Fewer words are a label and no sentence.
const LABEL_MAX: usize = 3;
/// Most words of all pages right below `docs/`, without the tables that are made from registries.
const PAGES: usize = 25_000;
/// Most words of a document.
const DOCUMENTS: [(&str, usize); 2] = [("README.md", 1_000), (MAP, 1_500)];
/// The map, which people look at rather than read.
const MAP: &str = "ARCHITECTURE.md";
/// Most characters of a line of the map.
const MAP_WIDTH: usize = 120;
/// Crates whose texts people read.
const SPEAKING: [&str; 8] = [
    "crates/analysis/src/",
    "crates/capture/src/",
    "crates/export/src/",
    "crates/forecast/src/",
    "crates/model/src/",
    "crates/present/src/",
    "crates/wakepath/src/",
    "web/src/",
];

pub fn check(tree: &Tree, out: &mut Vec<String>) {
    let phrases = phrases(LIST);
    for f in &tree.files {
        let lines: Vec<(usize, String)> = if is_document(&f.path) || is_answer(&f.path) {
            f.text.lines().enumerate().map(|(i, l)| (i, l.to_lowercase())).collect()
        } else if SPEAKING.iter().any(|s| f.path.starts_with(s)) {
            said(f).map(|(i, l)| (i, l.to_lowercase())).collect()
        } else {
            continue;
        };
        for (i, line) in lines {
            for (phrase, better) in phrases.iter().filter(|(phrase, _)| line.contains(phrase.as_str())) {
                out.push(format!("{}:{}: \"{phrase}\" is no plain English; write {better}", f.path, i + 1));
            }
        }
        if is_document(&f.path) {
            for sentence in sentences(&f.text, !is_for_newcomers(&f.path)).iter().filter(|s| words(s) > WORDS_MAX) {
                out.push(format!("{}: {} words in one sentence: {sentence}", f.path, words(sentence)));
            }
            let average = average(&f.text);
            if average > WORDS_ON_AVERAGE {
                out.push(format!("{}: {average} words in a sentence on average, more than {WORDS_ON_AVERAGE}", f.path));
            }
        }
    }
    let is_page = |path: &str| path.strip_prefix("docs/").is_some_and(|p| p.ends_with(".md") && !p.contains('/'));
    let made = tables::all();
    let pages = tree.files.iter().filter(|f| is_page(&f.path));
    let count: usize = pages.map(|f| by_hand(&made, &f.path, &f.text).split_whitespace().count()).sum();
    if count > PAGES {
        out.push(format!("docs/*.md: {count} words without made tables, more than {PAGES}; shorten a page, or move what only a developer needs to docs/internals"));
    }
    for (path, most) in DOCUMENTS {
        let count = tree.text(path).split_whitespace().count();
        if count > most {
            out.push(format!("{path}: {count} words, more than {most}"));
        }
    }
    for i in wide(tree.text(MAP)) {
        out.push(format!("{MAP}:{i}: more than {MAP_WIDTH} characters"));
    }
}

/// Numbers of the lines that are wider than a line of the map may be, from 1.
fn wide(text: &str) -> impl Iterator<Item = usize> {
    text.lines().enumerate().filter(|(_, l)| l.chars().count() > MAP_WIDTH).map(|(i, _)| i + 1)
}

/// The list, in lower case.
fn phrases(list: &str) -> Vec<(String, &str)> {
    let entries = list.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split_once(" => "));
    entries.map(|(phrase, better)| (phrase.trim_matches('"').to_lowercase(), better)).collect()
}

fn is_for_newcomers(path: &str) -> bool {
    path == "README.md" || path == "docs/README.md" || path == "docs/tutorial.md" || path.starts_with("docs/how-to/")
}

/// What users and contributors read: README, docs and the page on benches, without internals and what is made of the code's comments.
pub fn is_document(path: &str) -> bool {
    let is_page = path.starts_with("docs/") && path.ends_with(".md") && !path.starts_with("docs/internals/");
    ["README.md", "CONTRIBUTING.md", "bench/README.md"].contains(&path)
        || (is_page && path != "docs/formats/columns.md")
}

/// What a golden case expects to be printed, and what schemas say of answers.
fn is_answer(path: &str) -> bool {
    let is_golden = path.starts_with("tests/golden/") && path.ends_with(".txt") && !path.ends_with("input.txt");
    is_golden || path.starts_with("docs/schemas/") || path == "docs/defects.md" || path == "docs/answers.md"
}

/// Lines of the product that are no comments.
fn said(f: &File) -> impl Iterator<Item = (usize, &str)> {
    let is_comment = |l: &str| ["//", "*", "/*", "<!--"].iter().any(|c| l.starts_with(c));
    product_lines(f).filter(move |(_, l)| !is_comment(l.trim_start()))
}

/// Sentences of a document's prose: paragraphs, items of lists, and cells of tables. In a reference, which lists much in few
/// lines, a semicolon ends one too.
fn sentences(text: &str, is_reference: bool) -> Vec<String> {
    let mut blocks: Vec<String> = vec![String::new()];
    for line in prose(text) {
        let line = line.trim();
        let begins =
            line.is_empty() || line.starts_with(['#', '-', '|', '*']) || line.starts_with(|c: char| c.is_ascii_digit());
        if begins {
            blocks.push(String::new());
        }
        if line.starts_with('|') {
            blocks.extend(line.split('|').map(str::to_owned));
        } else if let Some(block) = blocks.last_mut() {
            block.push(' ');
            block.push_str(line);
        }
    }
    let ends = |s: &str| {
        let ended = s.replace("? ", ". ").replace("! ", ". ").replace(": ", ". ");
        if is_reference { ended.replace("; ", ". ") } else { ended }
    };
    blocks.iter().flat_map(|b| ends(b).split(". ").map(|s| s.trim().to_owned()).collect::<Vec<_>>()).collect()
}

/// A page without what is made: rows from a registry, and what stands between `<!-- made by …: begin -->` and `<!-- end -->`.
fn by_hand(made: &[Made], path: &str, text: &str) -> String {
    let mut text = text.to_owned();
    for part in made.iter().filter(|part| part.path == path) {
        text = part.emptied().within(&text).unwrap_or(text);
    }
    let mut is_made = false;
    let lines = text.lines().filter(|line| {
        is_made |= line.starts_with("<!-- made by");
        let is_kept = !is_made;
        is_made &= !line.starts_with("<!-- end -->");
        is_kept
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Sentences of a page's prose. Tables, headings, and labels are none; a colon does not end one.
pub fn prose_sentences(text: &str) -> Vec<String> {
    let is_prose = |line: &&str| !line.trim_start().starts_with(['|', '#']);
    // what is left out ends a paragraph
    let prose: Vec<&str> = text.lines().map(|line| if is_prose(&line) { line } else { "" }).collect();
    let found = sentences(&prose.join("\n").replace(": ", ":\u{a0}"), false);
    found.into_iter().map(|s| s.replace('\u{a0}', " ")).filter(|s| words(s) > LABEL_MAX).collect()
}

/// Words of a sentence of a page's prose on average, rounded up.
fn average(text: &str) -> usize {
    let counts: Vec<usize> = prose_sentences(text).iter().map(|s| words(s)).collect();
    counts.iter().sum::<usize>().div_ceil(counts.len().max(1))
}

/// Words of a sentence; what stands in back quotes is one, and so is a list of such.
fn words(sentence: &str) -> usize {
    let plain: String = sentence.split('`').enumerate().map(|(i, s)| if i % 2 == 1 { "`" } else { s }).collect();
    let mut words: Vec<&str> =
        plain.split_whitespace().filter(|w| w.contains('`') || w.chars().any(char::is_alphanumeric)).collect();
    words.dedup_by(|next, before| next.starts_with('`') && *before == "`,");
    words.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_have_something_better() {
        let all = phrases(LIST);
        assert!(all.len() >= 40, "{} phrases", all.len());
        assert_eq!(phrases("# no\nqueued there => \"waiting to be picked up\"\n")[0].0, "queued there");
    }

    #[test]
    fn what_is_made_does_not_count() {
        let made = |place| Made { path: "docs/a.md", place, rows: vec!["| x | y |".into()] };
        let made = [made(tables::Place::Table("| id | n |"))];
        let text = "One.\n| id | n |\n| --- | --- |\n| x | y |\n\n<!-- made by z: begin -->\nno\n<!-- end -->\nTwo.\n";
        assert_eq!(by_hand(&made, "docs/a.md", text), "One.\n| id | n |\n| --- | --- |\n\nTwo.");
        assert!(by_hand(&made, "docs/b.md", text).contains("| x | y |"));
    }

    #[test]
    fn the_average_is_of_sentences_in_prose() {
        let text = "# A heading of many words in one line\n\nOne two three four.\nOne: two three four five six.\n\n\
                    | one two three four five six seven eight nine |\n\n- a label\n";
        assert_eq!(average(text), 5);
        assert_eq!(average(""), 0);
    }

    #[test]
    fn lines_of_the_map_are_counted_in_characters() {
        let text = format!("{}\n{}\n", "═".repeat(MAP_WIDTH), "a".repeat(MAP_WIDTH + 1));
        assert_eq!(wide(&text).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn sentences_are_told_apart_in_paragraphs_lists_and_tables() {
        let text = "One two\nthree. Four?\n\n- five\n- six\n\n| a b | c |\n\n```\nno no\n```\n";
        let found: Vec<String> = sentences(text, false).into_iter().filter(|s| !s.is_empty()).collect();
        assert_eq!(found, ["One two three", "Four?", "- five", "- six", "a b", "c"]);
        assert_eq!(words("run `a b c` now - or"), 4);
        assert_eq!(words("one of `a`, `b`, `c d`"), 3);
        assert_eq!(sentences("a; b", true), ["a", "b"]);
    }
}
