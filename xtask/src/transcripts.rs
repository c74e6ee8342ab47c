//! `cargo xtask transcripts DIR`: transcripts in documents against what the same commands print today, which
//! `scripts/transcripts DIR` wrote to `DIR/answers`. Figures, names and the order of causes vary; phrases do not: three words
//! in a row must be in some answer of today, or in the words of which answers are made.

use std::collections::HashSet;
use std::path::Path;

/// Where answers are put into words.
const WORDS_OF: [&str; 7] = [
    "crates/present/src",
    "crates/wakepath/src",
    "crates/analysis/src",
    "crates/causality/src",
    "crates/clocks/src",
    "crates/model/src",
    "crates/forecast/src",
];
/// Programs of the demo stack and of the machine.
const NAMES: [&str; 9] = ["gunicorn", "postgres", "nginx", "vload", "vm", "redis-server", "psql", "kworker", "python3"];
/// Words in a row that are compared.
const PHRASE: usize = 3;
/// Of a document's phrases one in so many may be another: which causes there were varies.
const OTHERS: usize = 20;
/// And so many at least.
const OTHERS_MIN: usize = 3;

/// Compares all documents and prints what is not said any more; the number of documents with too much of that.
pub fn run(root: &Path, made: &Path) -> Result<usize, String> {
    let mut known = HashSet::new();
    for text in texts(&made.join("answers"), "txt")?.iter().map(|(_, text)| text) {
        phrases(text, &mut |phrase| _ = known.insert(phrase));
    }
    for folder in WORDS_OF {
        for (_, text) in texts(&root.join(folder), "rs")? {
            phrases(&literals(&text), &mut |phrase| _ = known.insert(phrase));
        }
    }
    let mut documents = texts(&root.join("docs"), "md")?;
    documents.extend(texts(root, "md")?.into_iter().filter(|(name, _)| name.ends_with("README.md")));
    let mut outdated = 0;
    for (name, text) in documents {
        let (mut all, mut others) = (0, Vec::new());
        phrases(&printed(&text), &mut |phrase| {
            all += 1;
            if !known.contains(&phrase) {
                others.push(phrase.join(" "));
            }
        });
        let is_outdated = others.len() > OTHERS_MIN.max(all / OTHERS);
        outdated += usize::from(is_outdated);
        for phrase in others {
            println!("{name}: {} \"{phrase}\"", if is_outdated { "nothing prints" } else { "not printed this time:" });
        }
    }
    Ok(outdated)
}

/// The files of a folder and those below it with this extension: name and text.
fn texts(folder: &Path, extension: &str) -> Result<Vec<(String, String)>, String> {
    let told = |e: std::io::Error, path: &Path| format!("{}: {e}; remedy: scripts/transcripts DIR", path.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| told(e, folder))? {
        let path = entry.map_err(|e| told(e, folder))?.path();
        if path.is_dir() && extension != "md" || path.ends_with("how-to") {
            found.extend(texts(&path, extension)?);
        } else if path.extension().is_some_and(|e| e == extension) {
            let text = std::fs::read_to_string(&path).map_err(|e| told(e, &path))?;
            found.push((path.display().to_string(), text));
        }
    }
    found.sort();
    Ok(found)
}

/// Of a document what commands printed, without the commands.
fn printed(text: &str) -> String {
    let mut is_inside = false;
    let mut out = String::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(kind) = line.strip_prefix("```") {
            is_inside = !is_inside && kind == "console";
            out.push_str("\n\n");
        } else if is_inside && !line.starts_with("$ ") {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// Source code with its strings in one piece, and something that is no word where another is put in.
fn literals(code: &str) -> String {
    let mut out = String::new();
    let mut depth = 0;
    let mut rest = code.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' if rest.peek() == Some(&'\n') => while rest.next_if(|c| c.is_whitespace()).is_some() {},
            '{' => depth += 1,
            '}' if depth > 0 => {
                depth -= 1;
                out.push_str(" 0 ");
            }
            '"' => out.push_str(" 0 "),
            '\n' => {
                depth = 0;
                out.push('\n');
            }
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

/// The phrases of a text. A cell of a table, a figure, a name, a mark and an empty line end one.
fn phrases(text: &str, each: &mut impl FnMut([String; PHRASE])) {
    for paragraph in text.split("\n\n") {
        let mut run: Vec<String> = Vec::new();
        for line in paragraph.lines().map(str::trim) {
            for cell in line.split("  ") {
                if line.contains("  ") {
                    run.clear();
                }
                cell.split_whitespace().for_each(|word| goes_on(&mut run, word, each));
            }
        }
    }
}

/// Adds a word to what stands before it.
fn goes_on(run: &mut Vec<String>, word: &str, each: &mut impl FnMut([String; PHRASE])) {
    let bare = word.trim_matches(|c: char| ".,;:()\"'`".contains(c));
    let is_word = bare.starts_with(|c: char| c.is_ascii_alphabetic())
        && bare.chars().all(|c| c.is_ascii_alphabetic() || "'’-".contains(c))
        && !(bare.len() > 1 && bare.chars().all(|c| c.is_ascii_uppercase()))
        && !NAMES.contains(&bare);
    if !is_word || word.starts_with('(') {
        run.clear();
    }
    if is_word {
        run.push(bare.to_lowercase());
    }
    if let Some(phrase) = run.last_chunk::<PHRASE>().filter(|_| is_word) {
        each(phrase.clone());
    }
    if word.ends_with(|c: char| ".,;:)".contains(c)) {
        run.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        phrases(text, &mut |phrase| found.push(phrase.join(" ")));
        found
    }

    #[test]
    fn a_phrase_ends_at_figures_names_marks_and_cells() {
        assert_eq!(
            all("Of 12 ms on average, the largest part is theirs"),
            ["ms on average", "the largest part", "largest part is", "part is theirs"]
        );
        assert_eq!(all("kind of request  entry of it"), ["kind of request", "entry of it"]);
        assert_eq!(all("the time that\nnginx took for it"), ["the time that", "took for it"]);
    }

    #[test]
    fn strings_are_read_in_one_piece() {
        let code = "format!(\"Of {:.0} ms on \\\n        average {what}, the\")";
        assert_eq!(all(&literals(code)), ["ms on average"]);
    }

    #[test]
    fn of_documents_only_what_was_printed_counts() {
        let text =
            "Some words here.\n```console\n$ wakepath requests shop now please\nno data lost\n```\nand more of it\n";
        assert_eq!(all(&printed(text)), ["no data lost"]);
    }
}
