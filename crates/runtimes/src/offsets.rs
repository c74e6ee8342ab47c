//! Tables of layouts: a line for each minor version.

/// The numbers of a version's line: `1.22` of `1.22.3`, in the order of the table's columns. `None` where nobody verified it.
pub(crate) fn of<const N: usize>(table: &str, version: &str) -> Option<[u32; N]> {
    let mut parts = version.split('.');
    let minor_digits = |s: &str| s.chars().take_while(char::is_ascii_digit).collect::<String>();
    let minor = format!("{}.{}", parts.next()?, minor_digits(parts.next()?));
    let line = table.lines().find(|l| l.split(',').next() == Some(minor.as_str()))?;
    let mut numbers = line.split(',').skip(1);
    let mut out = [0; N];
    for to in &mut out {
        *to = numbers.next()?.parse().ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_its_minor_versions_and_no_other_is_guessed() {
        let table = "# head\n1.2,7,8,1.2.9\n1.22,5,6,1.22.1\n";
        assert_eq!(of::<2>(table, "1.22.4"), Some([5, 6]));
        assert_eq!(of::<2>(table, "1.2rc1"), Some([7, 8]));
        for unknown in ["1.23.0", "1", "", "1.", "# head", "devel"] {
            assert_eq!(of::<2>(table, unknown), None, "{unknown}");
        }
    }
}
