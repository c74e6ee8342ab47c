//! Commands that help texts and documents show: each is one that this version takes; and help is plain English.

use super::command;
use super::help::every_command;
use clap::error::ErrorKind;
use std::path::{Path, PathBuf};

/// Phrases to avoid, with what to write instead; `cargo xtask tidy` holds documents and answers against it.
const PHRASES: &str = include_str!("../../../../docs/internals/wording.txt");
const WORDS_MAX: usize = 30;

/// The words of each command of ours in a line of a shell: quotes and substitutions understood, what is not ours left out.
/// Two blanks outside of quotes end a command, as what follows explains it.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    let (mut word, mut quote, mut outer, mut blanks) = (None::<String>, None::<char>, None, 0);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        blanks = if c == ' ' { blanks + 1 } else { 0 };
        let is_end = blanks == 2 || matches!(c, '|' | ';' | '&' | '>' | '<' | ')') || (c == '#' && word.is_none());
        let is_inner = c == '$' && chars.peek() == Some(&'(');
        match (quote, c) {
            (None | Some('"'), '$') if is_inner => {
                chars.next();
                all.push(Vec::new());
                outer = quote.take();
                word = None;
            }
            (Some(q), _) if c == q => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            (None, _) if is_end => {
                all.last_mut().expect("one").extend(word.take());
                all.push(Vec::new());
                match c {
                    '#' => break,
                    ')' => quote = outer.take(),
                    _ => {}
                }
            }
            (None, ' ') => all.last_mut().expect("one").extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    all.last_mut().expect("one").extend(word);
    let ours = |words: Vec<String>| {
        let at = words.iter().position(|w| w == "wakepath")?;
        let leads = |w: &String| w == "sudo" || w == "env" || w.contains('=');
        let is_ours = words[..at].iter().all(leads) || words[at - 1].ends_with(':');
        is_ours.then(|| words[at..].iter().map(|w| given(w)).collect())
    };
    all.into_iter().filter_map(ours).collect()
}

/// A variable of the shell stands for a port.
fn given(word: &str) -> String {
    let is_name = |p: &str| p.starts_with('$') && p[1..].chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let parts: Vec<&str> = word.split(',').map(|p| if is_name(p) { "8080" } else { p }).collect();
    parts.join(",")
}

/// Why a command is not taken; `None` where it is.
fn refused(words: &[String]) -> Option<String> {
    match command().try_get_matches_from(words) {
        Ok(_) => None,
        Err(e) if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => None,
        Err(e) => Some(format!("{}: {e}", words.join(" "))),
    }
}

fn is_elided(line: &str) -> bool {
    line.contains('…') || line.contains("...") || line.contains("COMMAND")
}

/// Lines of a document that are commands: in blocks of code, of transcripts those after a prompt.
fn lines_of_code(text: &str) -> Vec<String> {
    let (mut out, mut block): (Vec<String>, Option<&str>) = (Vec::new(), None);
    let joined = text.replace("\\\n", " ");
    for line in joined.lines() {
        let trimmed = line.trim();
        if let Some(kind) = trimmed.strip_prefix("```") {
            block = if block.is_some() { None } else { Some(kind) };
            continue;
        }
        let code = match block {
            Some("console") => trimmed.strip_prefix("$ "),
            Some(_) => Some(trimmed),
            None => {
                line.strip_prefix("    ").map(str::trim).filter(|l| l.starts_with("wakepath") || l.starts_with("sudo"))
            }
        };
        out.extend(code.map(str::to_owned));
    }
    out
}

fn documents(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of documents").flatten() {
        let path = entry.path();
        if path.is_dir() {
            documents(&path, out);
        } else if path.extension().is_some_and(|e| e == "md") {
            out.push(path);
        }
    }
}

#[test]
fn a_line_is_taken_apart_as_a_shell_does() {
    let of = |line| commands(line).into_iter().map(|c| c.join("~")).collect::<Vec<_>>();
    assert_eq!(
        of("sudo wakepath show shop slowest --kind 'GET /a b'   the slowest"),
        ["wakepath~show~shop~slowest~--kind~GET /a b"]
    );
    assert_eq!(
        of("eval \"$(wakepath attach-env -o s)\"; ./x & wakepath on s; wakepath off s | cat # wakepath no"),
        ["wakepath~attach-env~-o~s", "wakepath~on~s", "wakepath~off~s"]
    );
    assert_eq!(of("wakepath record --port $WEB_PORT,80 -- CMD > out"), ["wakepath~record~--port~8080,80~--~CMD"]);
}

#[test]
fn examples_of_help_are_commands() {
    let mut count = 0;
    for (path, command) in every_command() {
        let Some(text) = command.get_after_help().map(ToString::to_string) else { continue };
        let text = text.replace("{\x1b[0mn}", "{n}").replace("\\\n", " ");
        for line in text.lines().filter(|l| !is_elided(l) && !l.contains('`')) {
            for words in commands(line.trim()) {
                count += 1;
                assert_eq!(refused(&words), None, "{path} --help: {line}");
            }
        }
    }
    assert!(count >= 80, "{count} examples");
}

#[test]
fn commands_in_documents_are_commands() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("bench/README.md")];
    documents(&root.join("docs"), &mut files);
    let mut count = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a document");
        for line in lines_of_code(&text).iter().filter(|l| !is_elided(l)) {
            for words in commands(line) {
                count += 1;
                assert_eq!(refused(&words), None, "{}: {line}", file.display());
            }
        }
    }
    assert!(count >= 60, "{count} commands");
}

#[test]
fn help_is_plain_english_in_short_sentences() {
    let mut problems = Vec::new();
    for (path, command) in every_command() {
        let arguments = command.get_arguments().filter_map(|a| a.get_long_help().or(a.get_help()));
        let about = [command.get_long_about().or(command.get_about()), command.get_after_help()];
        for text in about.into_iter().flatten().chain(arguments).map(ToString::to_string) {
            let lower = text.to_lowercase();
            for line in PHRASES.lines().filter(|l| !l.starts_with('#')) {
                if let Some((phrase, better)) = line.split_once(" => ")
                    && lower.contains(phrase)
                {
                    problems.push(format!("{path}: {phrase:?}; write {better}"));
                }
            }
            for paragraph in text.split("\n\n").filter(|p| !p.contains("wakepath ") && !p.contains("\n  ")) {
                for sentence in paragraph.split(['.', ':', ';', '?']) {
                    if sentence.split_whitespace().count() > WORDS_MAX {
                        problems.push(format!("{path}: more than {WORDS_MAX} words: {sentence}"));
                    }
                }
            }
        }
    }
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}
