//! How large functions, files and structs may be, and that no files need each other in a circle.

use super::c_functions;
use super::circles;
use super::exceptions::{EXCEPTIONS, EXCEPTIONS_MAX, Limit, TEMPORARY};
use super::{Tree, sources};

/// Lines of code of a function, from its `fn` to its last brace; blank lines and lines of comment do not count.
const FUNCTION_LINES_MAX: usize = 80;
/// Lines of a file of code.
const FILE_LINES_MAX: usize = 600;
/// Fields of a struct, in the folders of `FEW_FIELDS_IN`.
const FIELDS_MAX: usize = 12;
const FEW_FIELDS_IN: [&str; 4] = ["crates/causality/", "crates/flows/", "crates/clocks/", "crates/graph/"];
/// Where functions of C have the limits that those of Rust have.
const C_IN: &str = "probes/bpf/";
/// Folders whose files need each other in one direction only.
const NO_CIRCLES_IN: [&str; 5] =
    ["crates/causality/src", "crates/flows/src", "crates/clocks/src", "crates/graph/src", "crates/decode/src"];

/// Something that has a size.
#[derive(Debug, PartialEq, Eq)]
struct Sized {
    limit: Limit,
    path: String,
    /// Where in the file, from 1; 0 where it is no place in a file.
    line: usize,
    /// Of a function or struct; empty for files and circles.
    name: String,
    size: usize,
    /// What a reader needs to know beside it: the files of a circle.
    detail: String,
}

pub fn check(tree: &Tree, out: &mut Vec<String>) {
    let too_large = too_large(tree);
    for found in &too_large {
        let allowed = allowance(found);
        if found.size > allowed.unwrap_or(0) {
            out.push(said(found, allowed));
        }
    }
    if EXCEPTIONS.len() > EXCEPTIONS_MAX {
        out.push(format!("{LIST}: {} exceptions, more than {EXCEPTIONS_MAX}", EXCEPTIONS.len()));
    }
    for e in EXCEPTIONS {
        if !too_large.iter().any(|f| f.limit == e.limit && f.path == e.path && f.name == e.name) {
            out.push(format!("{LIST}: {} {} is within the limits: delete its exception", e.path, e.name));
        }
    }
}

const LIST: &str = "xtask/src/tidy/exceptions.rs";

/// The list of what may be larger, a line each, for whoever reads what tidy prints.
pub fn exceptions(tree: &Tree) -> Vec<String> {
    let found = too_large(tree);
    let mut lines: Vec<String> = EXCEPTIONS
        .iter()
        .map(|e| format!("exception: {} {} ({:?}, {} at most): {}", e.path, e.name, e.limit, e.most, e.reason))
        .collect();
    for (limit, path, name, most) in TEMPORARY {
        let now = found.iter().find(|f| f.limit == *limit && f.path == *path && f.name == *name);
        let now = now.map_or("within the limits now: delete this line".to_owned(), |f| format!("{} now", f.size));
        lines.push(format!("temporary ceiling: {path} {name} ({limit:?}, {most} at most): {now}"));
    }
    lines
}

/// How large it may be by the list, if it is in it.
fn allowance(found: &Sized) -> Option<usize> {
    let lasting = EXCEPTIONS.iter().map(|e| (e.limit, e.path, e.name, e.most));
    let mut all = lasting.chain(TEMPORARY.iter().copied());
    all.find(|&(l, p, n, _)| (l, p, n) == (found.limit, &found.path, &found.name)).map(|(.., most)| most)
}

fn said(found: &Sized, allowed: Option<usize>) -> String {
    let Sized { path, line, name, size, .. } = found;
    let of =
        |max: usize| allowed.map_or(format!("more than {max}"), |a| format!("more than the {a} that {LIST} allows"));
    match found.limit {
        Limit::Function => format!("{path}:{line}: fn {name} has {size} lines of code, {}", of(FUNCTION_LINES_MAX)),
        Limit::File => format!("{path}:{line}: {size} lines, {}: one concept a file", of(FILE_LINES_MAX)),
        Limit::Struct => format!("{path}:{line}: struct {name} has {size} fields, {}", of(FIELDS_MAX)),
        Limit::Circle => format!("{path}: {size} files need each other in circles, {}: {}", of(0), found.detail),
    }
}

/// All that is beyond the general limits.
fn too_large(tree: &Tree) -> Vec<Sized> {
    let mut found = Vec::new();
    for f in tree.files.iter().filter(|f| sources::is_code(&f.path)) {
        let lines = f.text.lines().count();
        // nobody writes what is made
        if lines > FILE_LINES_MAX && !f.text.starts_with("/* Made by") {
            found.push(Sized {
                limit: Limit::File,
                path: f.path.clone(),
                line: lines,
                name: String::new(),
                size: lines,
                detail: String::new(),
            });
        }
        if f.path.ends_with(".rs") {
            items(&f.path, &f.text, &mut found);
        } else if f.path.starts_with(C_IN) && (f.path.ends_with(".c") || f.path.ends_with(".h")) {
            for function in c_functions::functions(&f.text).filter(|f| f.size > FUNCTION_LINES_MAX) {
                found.push(Sized {
                    limit: Limit::Function,
                    path: f.path.clone(),
                    line: function.line,
                    name: function.name.to_owned(),
                    size: function.size,
                    detail: String::new(),
                });
            }
        }
    }
    for folder in NO_CIRCLES_IN {
        let in_circles = circles::files_in_circles(tree, folder);
        if !in_circles.is_empty() {
            let (path, size) = (folder.to_owned(), in_circles.len());
            found.push(Sized {
                limit: Limit::Circle,
                path,
                line: 0,
                name: String::new(),
                size,
                detail: in_circles.join(", "),
            });
        }
    }
    found
}

/// Functions and structs of a Rust file that are beyond the limits. Relies on rustfmt: an item ends at the line that
/// has its closing brace at the indentation of its first line.
fn items(path: &str, text: &str, found: &mut Vec<Sized>) {
    let lines: Vec<&str> = text.lines().collect();
    let few_fields = FEW_FIELDS_IN.iter().any(|f| path.starts_with(f));
    for (i, line) in lines.iter().enumerate() {
        let Some((limit, name)) = item(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let Some(body) = body(&lines[i..], indent) else { continue };
        let (size, max) = match limit {
            Limit::Function => (body.iter().filter(|l| is_code_line(l)).count(), FUNCTION_LINES_MAX),
            Limit::Struct if few_fields => (body.iter().filter(|l| is_field(l, indent + 4)).count(), FIELDS_MAX),
            _ => continue,
        };
        if size > max {
            found.push(Sized {
                limit,
                path: path.to_owned(),
                line: i + 1,
                name: name.to_owned(),
                size,
                detail: String::new(),
            });
        }
    }
}

/// The function or struct that a line begins.
fn item(line: &str) -> Option<(Limit, &str)> {
    let mut words = line.split_whitespace().skip_while(|w| {
        w.starts_with("pub") || ["const", "async", "unsafe", "extern", "\"C\"", "\"C-unwind\""].contains(w)
    });
    let limit = match words.next()? {
        "fn" => Limit::Function,
        "struct" => Limit::Struct,
        _ => return None,
    };
    let name = words.next()?.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (!name.is_empty()).then_some((limit, name))
}

/// The lines of an item, to its last brace; `None` for one without a body.
fn body<'a, 'b>(lines: &'a [&'b str], indent: usize) -> Option<&'a [&'b str]> {
    let at_indent = |l: &&str| l.len() - l.trim_start().len() == indent;
    for (n, line) in lines.iter().enumerate() {
        let code = line.trim();
        if at_indent(line) && code.ends_with(';') && !code.starts_with('}') || n == 0 && code.ends_with('}') {
            return None;
        }
        if n > 0 && at_indent(line) && code.starts_with('}') {
            return Some(&lines[..=n]);
        }
    }
    None
}

fn is_code_line(line: &str) -> bool {
    let code = line.trim();
    !code.is_empty() && !code.starts_with("//")
}

/// Whether a line at this indentation declares a field.
fn is_field(line: &str, indent: usize) -> bool {
    let code = line.trim_start();
    let name = code.strip_prefix("pub ").or(code.strip_prefix("pub(crate) ")).or(code.strip_prefix("pub(super) "));
    let name = name.unwrap_or(code).split_once(": ").map_or("", |(name, _)| name);
    line.len() - code.len() == indent && !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(Limit, usize, String, usize)> {
        let mut out = Vec::new();
        items(path, text, &mut out);
        out.into_iter().map(|s| (s.limit, s.line, s.name, s.size)).collect()
    }

    #[test]
    fn finds_a_function_of_81_lines_of_code_and_not_one_of_80() {
        let function =
            |lines: usize| format!("fn before();\npub(crate) fn long(\n) {{\n{}}}\n", "    x();\n".repeat(lines));
        assert_eq!(found("a.rs", &function(78)), [(Limit::Function, 2, "long".to_owned(), 81)]);
        assert_eq!(found("a.rs", &function(77)), []);
    }

    #[test]
    fn does_not_count_blank_and_comment_lines_of_a_function() {
        let text = format!("fn commented() {{\n{}}}\n", "    // why\n\n    x();\n".repeat(78));
        assert_eq!(found("a.rs", &text), []);
    }

    #[test]
    fn finds_a_method_by_its_indentation() {
        let text = format!("impl A {{\n    pub(super) const fn m() {{\n{}    }}\n}}\n", "        x();\n".repeat(90));
        assert_eq!(found("a.rs", &text), [(Limit::Function, 2, "m".to_owned(), 92)]);
    }

    #[test]
    fn a_declaration_without_a_body_does_not_swallow_the_next_function() {
        let text = format!(
            "trait T {{\n    fn a(\n        x: u8,\n    ) -> u8;\n    fn b() {{}}\n{}}}\n",
            "    // x\n".repeat(99)
        );
        assert_eq!(found("a.rs", &text), []);
    }

    #[test]
    fn counts_the_fields_of_structs_where_these_are_limited() {
        let text = format!("pub struct S {{\n{}}}\n", "    /// x: y\n    pub a: u8,\n".repeat(13));
        assert_eq!(found("crates/causality/src/a.rs", &text), [(Limit::Struct, 1, "S".to_owned(), 13)]);
        assert_eq!(found("crates/wire/src/a.rs", &text), []);
    }
}
