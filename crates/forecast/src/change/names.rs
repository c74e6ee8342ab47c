//! Names that people give, and what they mean.

/// Whether a name is meant by what was given: itself, or a pattern in which `*` stands for anything.
pub(super) fn is_meant(given: &str, name: &str) -> bool {
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

/// What is meant among things of which each may have several names: those that bear exactly what was given, else those
/// that its `*` fit.
pub(super) fn find<'a, N: AsRef<str>>(
    given: &str,
    things: impl IntoIterator<Item = (usize, Vec<N>)> + 'a,
) -> Vec<usize> {
    let (mut exact, mut fitting) = (Vec::new(), Vec::new());
    for (id, names) in things {
        if names.iter().any(|n| n.as_ref() == given) {
            exact.push(id);
        } else if names.iter().any(|n| is_meant(given, n.as_ref())) {
            fitting.push(id);
        }
    }
    if exact.is_empty() { fitting } else { exact }
}

/// The names without repetitions, those most like what was given first.
pub(super) fn nearest(given: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let given = given.to_lowercase();
    let mut out: Vec<(usize, String)> = Vec::new();
    for name in names {
        if !out.iter().any(|(_, n)| *n == name) {
            let lower = name.to_lowercase();
            // who writes a part of a name means the name
            let far = if lower.contains(&given) { 0 } else { 1 + distance(&given, &lower) };
            out.push((far, name));
        }
    }
    out.sort();
    out.into_iter().map(|(_, name)| name).collect()
}

/// Letters that have to be put in, taken out or changed to make one of the other, of their first 64.
pub(super) fn distance(a: &str, b: &str) -> usize {
    let [a, b] = [a, b].map(|text| text.chars().take(64).collect::<String>());
    strsim::levenshtein(&a, &b)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn an_exact_name_wins_over_a_pattern() {
        let things = ["SELECT * FROM t", "SELECT a FROM t"];
        let found = |given| find(given, things.iter().enumerate().map(|(i, n)| (i, vec![*n])));
        assert_eq!(found("SELECT * FROM t"), [0]);
        assert_eq!(found("SELECT *"), [0, 1]);
        assert_eq!(found("nothing"), [0; 0]);
    }

    #[test]
    fn the_nearest_name_comes_first() {
        let names = ["postgres:5432", "nginx:80", "gunicorn:8000", "nginx:80"].map(String::from);
        assert_eq!(nearest("gunicron", names.clone())[0], "gunicorn:8000");
        assert_eq!(nearest("nginx", names.clone())[0], "nginx:80");
        assert_eq!(nearest("", names).len(), 3);
        assert_eq!((distance("kitten", "sitting"), distance("", "abc"), distance("abc", "")), (3, 3, 3));
    }
}
