//! Transcripts in documents: headings of tables and of sections are those that answers print today. Figures vary from machine to
//! machine and are not compared; `scripts/transcripts` makes them anew.

use super::Tree;

/// Where answers are put into words.
const WORDS_OF: [&str; 3] = ["crates/present/src/", "crates/wakepath/src/", "crates/analysis/src/"];

pub fn check(tree: &Tree, out: &mut Vec<String>) {
    let said: String =
        tree.files.iter().filter(|f| WORDS_OF.iter().any(|w| f.path.starts_with(w))).map(|f| f.text.as_str()).collect();
    for f in tree.files.iter().filter(|f| f.path == "README.md" || f.path.starts_with("docs/")) {
        for (i, line) in transcripts(&f.text) {
            for heading in headings(line).into_iter().filter(|h| !said.contains(h)) {
                out.push(format!("{}:{}: no answer prints \"{heading}\"; remedy: scripts/transcripts", f.path, i + 1));
            }
        }
    }
}

/// Lines of a document that a command printed.
fn transcripts(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut block: Option<&str> = None;
    text.lines().enumerate().filter(move |(_, line)| {
        if let Some(kind) = line.trim().strip_prefix("```") {
            block = if block.is_some() { None } else { Some(kind) };
            return false;
        }
        block == Some("console") && !line.trim_start().starts_with("$ ")
    })
}

/// What a line says whatever was recorded: a section's title, or the names of a table's columns.
fn headings(line: &str) -> Vec<String> {
    let line = line.trim();
    let is_name = |cell: &str| {
        let letters = cell.strip_prefix("p").filter(|n| n.chars().all(|c| c.is_ascii_digit())).map_or(cell, |_| "p");
        letters.starts_with(char::is_alphabetic)
            && letters.chars().all(|c| c.is_alphabetic() || " ,()".contains(c))
            && !letters.contains(char::is_uppercase)
    };
    let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
    if cells.len() >= 4 && cells.iter().all(|c| is_name(c)) {
        return cells.into_iter().map(|c| format!("\"{c}\"")).collect();
    }
    let is_title = line.starts_with(char::is_uppercase) && line.ends_with(':') && line.split(' ').count() >= 4;
    let is_fixed = !line.contains(|c: char| c.is_ascii_digit() || "('`/;".contains(c));
    if is_title && is_fixed { vec![line.to_owned()] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_what_does_not_vary() {
        assert_eq!(headings("  tier   own time  p50  share"), ["\"tier\"", "\"own time\"", "\"p50\"", "\"share\""]);
        assert_eq!(
            headings("Where the time goes, per request on average:"),
            ["Where the time goes, per request on average:"]
        );
        for row in
            ["GET /vote  a:80  1.2 ms  -", "nginx:80  1.0  100 µs  1 %", "The bottleneck: processors of vm (1.92)."]
        {
            assert!(headings(row).is_empty(), "{row}");
        }
    }

    #[test]
    fn transcripts_are_blocks_of_a_console() {
        let text = "a\n```console\n$ wakepath x\nb\n```\n```\nc\n```\n";
        assert_eq!(transcripts(text).collect::<Vec<_>>(), [(3, "b")]);
    }
}
