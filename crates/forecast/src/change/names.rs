//! Names that people give, and what they mean.

pub(super) use wakepath_analysis::pattern::is_meant;

/// What is meant among things of which each may have several names: those that bear exactly what was given, else those
/// that its `*` fit; else so too, whatever the case of letters (words of SQL are written in any).
pub(super) fn find<'a, N: AsRef<str>>(
    given: &str,
    things: impl IntoIterator<Item = (usize, Vec<N>)> + 'a,
) -> Vec<usize> {
    let lower = given.to_ascii_lowercase();
    let rank = |name: &str| {
        let name_lower = name.to_ascii_lowercase();
        let fits = [name == given, is_meant(given, name), name_lower == lower, is_meant(&lower, &name_lower)];
        fits.iter().position(|fits| *fits)
    };
    let ranked: Vec<(usize, usize)> = things
        .into_iter()
        .filter_map(|(id, names)| Some((names.iter().filter_map(|n| rank(n.as_ref())).min()?, id)))
        .collect();
    let best = ranked.iter().map(|r| r.0).min();
    ranked.into_iter().filter(|r| Some(r.0) == best).map(|r| r.1).collect()
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
    fn an_exact_name_wins_over_a_pattern() {
        let things = ["SELECT * FROM t", "SELECT a FROM t"];
        let found = |given| find(given, things.iter().enumerate().map(|(i, n)| (i, vec![*n])));
        assert_eq!(found("SELECT * FROM t"), [0]);
        assert_eq!(found("SELECT *"), [0, 1]);
        assert_eq!(found("nothing"), [0; 0]);
        assert_eq!(found("select * from t"), [0], "words of SQL are written in any case");
        assert_eq!(found("select *"), [0, 1]);
        let things = ["GET /A", "GET /a"];
        let found = |given| find(given, things.iter().enumerate().map(|(i, n)| (i, vec![*n])));
        assert_eq!((found("GET /a"), found("GET /A")), (vec![1], vec![0]), "the case that was given goes first");
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
