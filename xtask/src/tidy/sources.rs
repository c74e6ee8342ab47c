//! What source files may not hold.

use super::{File, Tree};

/// Lines of code (no comments, no blanks, no tests, no tables of words) of a protocol's file. HTTP/2, whose streams have more
/// states than fit, has a limit of its own, so that it does not grow.
const PROCESSOR_MAX: usize = 275;
const LARGER: [(&str, usize); 1] = [("http2", 434)];
/// What stands before a table of words, and what ends it.
const TABLE: [&str; 2] = ["#[rustfmt::skip]", "];"];

/// Unsafe code has reasons in these folders alone: it talks to the kernel there.
const UNSAFE_IN: [&str; 6] =
    ["crates/capture/", "crates/wire/", "crates/wakepath/", "probes/", "annotations/rust/", "testbeds/"];
/// How far above `unsafe` its `SAFETY` comment may begin.
const SAFETY_LINES: usize = 8;

// in two pieces each, so that this file does not hold what it looks for
const UNFINISHED: [&str; 3] = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("dbg", "!(")];
const IGNORED: &str = concat!("#[", "ignore]");
const WORKPLACE: [&str; 2] = [concat!("/wo", "rk/"), concat!("/fa", "rm/")];
/// Where other people's recordings may lie, and the one file that may look there: it names them by a variable.
const OTHERS: &str = concat!("shared", "/data");
const OTHERS_NAMED_BY: &str = ".ci/run";
const TEMPORARY: &str = concat!("/t", "mp/");

pub fn check(tree: &Tree, out: &mut Vec<String>) {
    for f in tree.files.iter().filter(|f| !f.path.starts_with("tests/golden/")) {
        check_file(f, out);
        check_processor(f, out);
    }
}

/// A processor that grows beyond its limit should share more, or do less.
fn check_processor(f: &File, out: &mut Vec<String>) {
    let name = f.path.strip_prefix("crates/protocols/src/processors/").and_then(|name| name.strip_suffix(".rs"));
    let Some(name) = name else { return };
    let max = LARGER.iter().find(|(larger, _)| *larger == name).map_or(PROCESSOR_MAX, |(_, max)| *max);
    let mut in_table = false;
    let is_code = |l: &&str| {
        in_table |= l.starts_with(TABLE[0]);
        let counts = !in_table && !l.trim().is_empty() && !l.trim_start().starts_with("//");
        in_table &= !l.starts_with(TABLE[1]);
        counts
    };
    let lines = product_lines(f).map(|(_, l)| l).filter(is_code).count();
    if lines > max {
        out.push(format!("{}: {lines} lines of code, more than {max} for a processor", f.path));
    }
}

fn check_file(f: &File, out: &mut Vec<String>) {
    let (is_rust, is_code) = (f.path.ends_with(".rs"), is_code(&f.path));
    let mut say = |line: usize, what: &str| out.push(format!("{}:{line}: {what}", f.path));

    for (i, line) in f.text.lines().enumerate() {
        let n = i + 1;
        if WORKPLACE.iter().any(|w| line.contains(w)) {
            say(n, "names a workplace, which nobody else has");
        }
        if f.path != OTHERS_NAMED_BY && line.contains(OTHERS) {
            say(n, "a path outside the repository; remedy: WAKEPATH_DATA names other people's recordings");
        }
        if is_rust && (line.contains('\t') || line.ends_with(' ')) {
            say(n, "tab or trailing space; remedy: cargo fmt --all");
        }
        if is_code && UNFINISHED.iter().any(|u| line.contains(u)) {
            say(n, "unfinished, or left over from debugging");
        }
        if is_rust && line.contains(IGNORED) {
            say(n, "an ignored test without a reason; remedy: #[ignore = \"reason\"]");
        }
    }
    if is_rust {
        for (i, line) in product_lines(f) {
            if line.contains(TEMPORARY) {
                say(i + 1, "a fixed path for temporary files; remedy: std::env::temp_dir, or tempfile");
            }
        }
        unsafe_code(f, &mut say);
    }
}

/// Whether a file is code, by its name.
pub fn is_code(path: &str) -> bool {
    let extension = path.rsplit_once('.').map_or("", |(_, e)| e);
    ["rs", "c", "h", "py", "ts", "svelte", "java"].contains(&extension)
}

/// Lines of the product with their index: without tests.
pub fn product_lines(f: &File) -> impl Iterator<Item = (usize, &str)> {
    let is_test = f.path.contains("/tests/") || f.path.ends_with("/tests.rs");
    f.text.lines().enumerate().take_while(move |(_, l)| !is_test && l.trim() != "#[cfg(test)]")
}

fn unsafe_code(f: &File, say: &mut impl FnMut(usize, &str)) {
    let lines: Vec<&str> = f.text.lines().collect();
    for (i, line) in lines.iter().enumerate() {
        if !is_unsafe(line) {
            continue;
        }
        if !f.path.contains("/tests/") && !UNSAFE_IN.iter().any(|u| f.path.starts_with(u)) {
            say(i + 1, "unsafe code outside the rooms that talk to the kernel");
        }
        let near = &lines[i.saturating_sub(SAFETY_LINES)..=i];
        if !near.iter().any(|l| l.contains("SAFETY") || l.contains("# Safety")) {
            say(i + 1, "unsafe without a SAFETY comment that says why it is sound");
        }
    }
}

fn is_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    const FORMS: [&str; 5] = ["{", "fn ", "impl", "extern", "trait"];
    code.match_indices("unsafe ").any(|(i, word)| {
        let before = code[..i].chars().next_back();
        let is_word = before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != '"');
        is_word && FORMS.iter().any(|f| code[i + word.len()..].starts_with(f))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let mut out = Vec::new();
        check_file(&File { path: path.into(), text: text.into() }, &mut out);
        out
    }

    #[test]
    fn what_is_forbidden_is_found() {
        let bad = [
            ("crates/model/src/a.rs", concat!("let x = un", "safe { y };"), 2),
            ("crates/capture/src/a.rs", concat!("let x = un", "safe { y };"), 1),
            ("crates/model/src/a.rs", "\tlet x;", 1),
            ("crates/model/src/a.rs", concat!("todo", "!()"), 1),
            ("crates/model/src/a.rs", concat!("#[", "ignore]"), 1),
            ("crates/model/src/a.rs", concat!("\"/t", "mp/x\""), 1),
            ("scripts/a", concat!("cd /wo", "rk/main"), 1),
            ("crates/decode/tests/a.rs", concat!("\"../shared", "/data/pcap\""), 1),
            (".ci/run", concat!("WAKEPATH_DATA=../shared", "/data"), 0),
        ];
        for (path, text, count) in bad {
            assert_eq!(found(path, text).len(), count, "{path}: {text}");
        }
    }

    #[test]
    fn what_is_allowed_is_not() {
        let good = [
            ("crates/capture/src/a.rs", concat!("// SAFETY: it is.\nlet x = un", "safe { y };")),
            ("crates/model/src/a.rs", "#![forbid(unsafe_code)] // unsafe { }"),
            ("crates/model/src/a.rs", "#[ignore = \"needs a disk that is full\"]"),
            ("crates/model/src/a.rs", concat!("fn a() {}\n#[cfg(test)]\n\"/t", "mp/x\"")),
            ("crates/model/tests/a.rs", concat!("\"/t", "mp/x\"")),
        ];
        for (path, text) in good {
            assert_eq!(found(path, text), [""; 0], "{path}: {text}");
        }
    }
}
