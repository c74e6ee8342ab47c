//! Files of a crate that need each other in a circle, by the paths (`use`, `crate::…`, `super::…`, `child::…`) in them.
//! A module that only hands on what a child of it has (`pub use child::Thing`) does not need the child; who names the
//! thing there needs the child.

use super::{File, Tree, sources};
use std::collections::{BTreeMap, BTreeSet};

/// A module's path within its crate: the root's is empty.
type Module = Vec<String>;

/// A source file as a module.
struct Source {
    /// Names of the modules that it declares.
    children: BTreeSet<String>,
    /// Paths that it names in code, not handed on.
    named: Vec<Module>,
    /// What it hands on: name (`*`: all) → where it comes from, as it is written.
    handed_on: Vec<(String, Module)>,
}

/// The files below `folder` (a crate's `src`) that are in some circle, by their path below it, in order.
pub fn files_in_circles(tree: &Tree, folder: &str) -> Vec<String> {
    let mut sources: BTreeMap<Module, Source> = BTreeMap::new();
    let mut paths: BTreeMap<Module, String> = BTreeMap::new();
    for f in &tree.files {
        let Some(below) = f.path.strip_prefix(folder).and_then(|p| p.strip_prefix('/')) else { continue };
        let Some(name) = below.strip_suffix(".rs").filter(|n| *n != "tests" && !n.ends_with("/tests")) else {
            continue;
        };
        let module: Module = match name {
            "lib" | "main" => Vec::new(),
            _ => name.trim_end_matches("/mod").split('/').map(str::to_owned).collect(),
        };
        paths.insert(module.clone(), below.to_owned());
        sources.insert(module, read(f));
    }
    let needs: BTreeMap<&Module, BTreeSet<Module>> = sources
        .iter()
        .map(|(module, source)| {
            let needed = source.named.iter().filter_map(|path| resolve(&sources, module, path, 0));
            (module, needed.filter(|needed| needed != module).collect())
        })
        .collect();
    let in_circle = |module: &&Module| reaches(&needs, module, module);
    sources.keys().filter(in_circle).map(|module| paths[module].clone()).collect()
}

/// Whether `to` is needed by `from`, directly or by others.
fn reaches(needs: &BTreeMap<&Module, BTreeSet<Module>>, from: &Module, to: &Module) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        for needed in &needs[module] {
            if needed == to {
                return true;
            }
            if seen.insert(needed) {
                open.push(needed);
            }
        }
    }
    false
}

/// The module that a path means, written in `module`; `None` where it is not of this crate.
fn resolve(sources: &BTreeMap<Module, Source>, module: &Module, path: &Module, depth: usize) -> Option<Module> {
    let mut at = match path.first()?.as_str() {
        "crate" => Module::new(),
        "self" => module.clone(),
        "super" => module[..module.len().checked_sub(1)?].to_vec(),
        child if sources[module].children.contains(child) => [&module[..], &path[..1]].concat(),
        _ => return None,
    };
    for (i, name) in path.iter().enumerate().skip(1) {
        if name == "super" {
            at.pop()?;
            continue;
        }
        let below = [&at[..], std::slice::from_ref(name)].concat();
        if sources.contains_key(&below) {
            at = below;
            continue;
        }
        let handed_on = sources.get(&at)?.handed_on.iter().find(|(known, _)| known == name);
        return match handed_on {
            // what is handed on may be handed on again; a circle of those would not compile
            Some((_, from)) if depth < 8 => {
                let whole = [&from[..], &path[i + 1..]].concat();
                resolve(sources, &at, &whole, depth + 1)
            }
            _ => Some(at),
        };
    }
    sources.contains_key(&at).then_some(at)
}

fn read(f: &File) -> Source {
    let lines: Vec<&str> =
        sources::product_lines(f).map(|(_, l)| l).filter(|l| !l.trim_start().starts_with("//")).collect();
    let declared = lines.iter().filter_map(|l| {
        let word = l.trim().strip_suffix(';')?.rsplit_once("mod ")?.1;
        word.chars().all(|c| c.is_alphanumeric() || c == '_').then(|| word.to_owned())
    });
    let mut source = Source { children: declared.collect(), named: Vec::new(), handed_on: Vec::new() };
    let text = lines.join("\n");
    let mut rest = String::new();
    for statement in text.split_inclusive(';') {
        // what is before `use` in a statement: attributes, visibility, the brace that ends an item
        let Some((before, tree)) =
            statement.rsplit_once("use ").filter(|(b, _)| b.is_empty() || b.ends_with(['\n', ' ']))
        else {
            rest.push_str(statement);
            continue;
        };
        rest.push_str(before);
        let is_public = before.trim_end().rsplit(['\n', '}', ']']).next().is_some_and(|b| b.trim().starts_with("pub"));
        for path in expand(tree.trim_end_matches(';')) {
            let is_below = source.children.contains(&path[0]) || path[0] == "self";
            match path.last() {
                Some(name) if is_public && is_below => source.handed_on.push((name.clone(), path)),
                _ => source.named.push(path),
            }
        }
    }
    let inline = inline_paths(&rest, &source.children);
    source.named.extend(inline);
    source
}

/// The paths of a `use`: `a::{b, c::{d, self}}` is `a::b`, `a::c::d` and `a::c`.
fn expand(tree: &str) -> Vec<Module> {
    let tree = tree.trim().split(" as ").next().unwrap_or_default();
    let Some((prefix, group)) = tree.split_once('{') else {
        return vec![
            tree.split("::").map(|w| w.trim().to_owned()).filter(|w| w != "self" || tree.starts_with("self")).collect(),
        ];
    };
    let prefix: Module = prefix.split("::").map(|w| w.trim().to_owned()).filter(|w| !w.is_empty()).collect();
    let group = group.trim_end().strip_suffix('}').unwrap_or(group);
    let (mut depth, mut start, mut members) = (0, 0, Vec::new());
    for (i, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                members.push(&group[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    members.push(&group[start..]);
    let filled = members.into_iter().filter(|m| !m.trim().is_empty());
    filled
        .flat_map(expand)
        .map(|member| [&prefix[..], &member.into_iter().filter(|w| w != "self").collect::<Vec<_>>()[..]].concat())
        .collect()
}

/// Paths in code that begin at the crate, at the module above or at a child. Who may see a thing (`pub(in …)`) is none.
fn inline_paths(code: &str, children: &BTreeSet<String>) -> Vec<Module> {
    let code = code.replace("pub(in crate::", "pub(in ");
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut paths = Vec::new();
    for chunk in code.split(|c: char| !is_word(c) && c != ':') {
        let words: Module = chunk.split("::").map(str::to_owned).collect();
        let begins = ["crate", "super"].contains(&words[0].as_str()) || children.contains(&words[0]);
        if words.len() > 1 && begins {
            paths.push(words.into_iter().filter(|w| !w.is_empty()).collect());
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(p, t)| File { path: format!("c/src/{p}"), text: (*t).into() }).collect();
        files_in_circles(&Tree { root: ".".into(), files }, "c/src")
    }

    #[test]
    fn finds_files_that_use_each_other() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "use crate::{\n    b::Thing,\n    c,\n};\n"),
            ("b.rs", "fn f() {\n    super::c::call();\n}\n"),
            ("c.rs", "use super::a;\n"),
        ];
        assert_eq!(circles(&files), ["a.rs", "b.rs", "c.rs"]);
        assert_eq!(circles(&files[..3]), [""; 0]);
    }

    #[test]
    fn finds_a_child_that_uses_what_its_user_above_has() {
        let files = [("a.rs", "mod b;\nfn f() { b::g() }\n"), ("a/b.rs", "use super::Thing;\n")];
        assert_eq!(circles(&files), ["a.rs", "a/b.rs"]);
    }

    #[test]
    fn looks_through_what_a_module_hands_on() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use a::{One, Two};\n"),
            ("a.rs", "mod c;\npub use c::One;\npub struct Two;\n"),
            ("a/c.rs", "use crate::b::X;\npub struct One;\n"),
            ("b.rs", "use crate::Two;\n"),
        ];
        assert_eq!(circles(&files), [""; 0]);
        let files = [files[0], files[1], files[2], ("b.rs", "use crate::One;\n")];
        assert_eq!(circles(&files), ["a/c.rs", "b.rs"]);
    }

    #[test]
    fn who_may_see_a_thing_is_no_need() {
        let files = [("a.rs", "mod b;\nfn f() { b::g() }\n"), ("a/b.rs", "pub(in crate::a) fn g() {}\n")];
        assert_eq!(circles(&files), [""; 0]);
    }

    #[test]
    fn leaves_tests_and_comments_out() {
        let files = [
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "//! See [`crate::a`].\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
        ];
        assert_eq!(circles(&files), [""; 0]);
    }
}
