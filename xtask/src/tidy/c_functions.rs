//! How long functions of C are. Relies on their layout, which all of `probes/bpf` has: the braces of a function's body stand alone, at
//! the beginning of their lines.

/// A function of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// Where its first line is, from 1.
    pub line: usize,
    /// Its name.
    pub name: &'a str,
    /// Lines of code, from its first to its last brace; blank lines and lines of comment do not count.
    pub size: usize,
}

/// The functions of a file, in its order.
pub fn functions(text: &str) -> impl Iterator<Item = Function<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut from = 0;
    std::iter::from_fn(move || {
        let opens = from + lines[from..].iter().position(|l| *l == "{")?;
        let closes = opens + lines[opens..].iter().position(|l| *l == "}")?;
        let first = opens - lines[from..opens].iter().rev().take_while(|l| belongs(l)).count();
        from = closes + 1;
        Some(Function { line: first + 1, name: name(&lines[first..opens]), size: code_lines(&lines[first..=closes]) })
    })
}

/// Whether a line before a function's body is part of it: no other item, comment or preprocessor's line.
fn belongs(line: &str) -> bool {
    let ends_another = line.ends_with([';', '}']) || line.ends_with("*/");
    !line.trim().is_empty() && !line.starts_with('#') && !ends_another
}

/// What stands before the first parenthesis of the last line that does not continue the one before.
fn name<'a>(signature: &[&'a str]) -> &'a str {
    let begins = signature.iter().rev().find(|l| !l.starts_with([' ', '\t'])).copied().unwrap_or_default();
    let (before, arguments) = begins.split_once('(').unwrap_or((begins, ""));
    let last = |text: &'a str| text.rsplit(|c: char| !c.is_alphanumeric() && c != '_').find(|w| !w.is_empty());
    match last(before).unwrap_or_default() {
        // the macro that unpacks a program's arguments
        "BPF_PROG" => arguments.split([',', ')']).next().unwrap_or_default(),
        name => name,
    }
}

fn code_lines(lines: &[&str]) -> usize {
    let mut in_comment = false;
    let is_code = |line: &&&str| {
        let line = line.trim();
        let begins = line.starts_with("/*");
        let is_comment = in_comment || begins || line.starts_with("//");
        if in_comment || begins {
            in_comment = !line.ends_with("*/");
        }
        !line.is_empty() && !is_comment
    };
    lines.iter().filter(is_code).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_from_the_first_line_of_a_function_to_its_last_brace() {
        let text = "\
/* Of nothing. */
static const int none;
static __always_inline int some(struct a *a,
\t\t\t\tint b)
{
\tif (b) {
\t\treturn 1;
\t}
\treturn 0;
}

SEC(\"tp_btf/x\")
int BPF_PROG(on_x, int a)
{
\treturn 0;
}
";
        let found: Vec<_> = functions(text).collect();
        assert_eq!(found, [Function { line: 3, name: "some", size: 8 }, Function { line: 12, name: "on_x", size: 5 }]);
    }

    #[test]
    fn does_not_count_blank_and_comment_lines() {
        let text = "\
int f(void)
{
\t/* why */
\t/*
\t * and at length
\t */
\t// and so

\treturn 0; /* code */
}
";
        assert_eq!(functions(text).map(|f| f.size).collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn structs_macros_and_declarations_are_no_functions() {
        let text = "\
struct a {
\tint b;
};
#define F(x) \\
\t({ x; })
int declared(void);
static const int table[] = {
\t1,
};
";
        assert_eq!(functions(text).collect::<Vec<_>>(), []);
    }
}
