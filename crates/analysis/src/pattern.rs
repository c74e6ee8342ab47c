//! Patterns of names: `*` stands for anything.

/// Whether a name is meant by what was given: itself, or a pattern in which `*` stands for anything.
#[must_use]
pub fn is_meant(given: &str, name: &str) -> bool {
    given == name || (given.contains('*') && glob(given.as_bytes(), name.as_bytes()))
}

/// Whether `*` of the pattern can be filled in so that it becomes the name. Linear in memory, no recursion.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // where to go on after the last `*` when what follows it does not fit
    let mut again: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&b'*') {
            again = Some((p + 1, n));
            p += 1;
        } else if pattern.get(p) == Some(&name[n]) {
            (p, n) = (p + 1, n + 1);
        } else if let Some((after, from)) = again {
            again = Some((after, from + 1));
            (p, n) = (after, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::is_meant;

    #[test]
    fn stars_stand_for_anything() {
        for (given, name, meant) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("*", "anything", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "abcd", false),
            ("a*b*c", "aXbYbZc", true),
            ("*SELECT*", "pg:5432 SELECT * FROM t", true),
            ("SELECT * FROM t", "SELECT * FROM t", true),
            ("**", "x", true),
            ("", "x", false),
        ] {
            assert_eq!(is_meant(given, name), meant, "{given} {name}");
        }
    }
}
