//! What was meant by a name that does not exist.

use crate::requests;
use wakepath_model::folder::Folder;

/// Names less alike than this are not suggested; 1 = the same.
const ALIKE_MIN: f64 = 0.75;

/// The most alike of the names, the first of several; one that has the wanted one in it is more alike than any other.
pub fn nearest<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let wanted = wanted.to_lowercase();
    let alike = |name: &str| {
        let name = name.to_lowercase();
        let holds = !wanted.is_empty() && name.contains(&wanted);
        strsim::jaro_winkler(&wanted, &name) + f64::from(u8::from(holds))
    };
    let mut best: Option<(f64, &str)> = None;
    for name in names {
        let score = alike(name);
        if score >= ALIKE_MIN && best.is_none_or(|(b, _)| score > b) {
            best = Some((score, name));
        }
    }
    best.map(|(_, name)| name)
}

/// What to say of a kind of request that the folder does not have: the nearest one, or where they are listed.
pub fn kind(folder: &Folder, wanted: &str) -> String {
    let view = requests::view(folder);
    let all = || view.kinds.iter().map(|k| k.asked.as_str());
    let with_service = |k: &wakepath_present::requests::KindView| format!("{} {}", k.service, k.asked);
    let full: Vec<String> = view.kinds.iter().map(with_service).collect();
    match nearest(wanted, all()).or_else(|| nearest(wanted, full.iter().map(String::as_str))) {
        Some(near) => format!("did you mean '{near}'? `wakepath requests` lists the kinds"),
        None if view.kinds.is_empty() => "no requests were seen at all; `wakepath info` shows what was".to_owned(),
        None => "`wakepath requests` lists the kinds".to_owned(),
    }
}

/// What to say of a service that is not among these: the nearest one, or where they are listed.
pub fn service<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> String {
    match nearest(wanted, names) {
        Some(near) => format!("did you mean '{near}'? `wakepath requests DIR --map` lists services and who calls whom"),
        None => "`wakepath requests DIR --map` lists services and who calls whom".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_name_is_suggested_and_no_far_one() {
        let kinds = ["GET /results", "GET /vote/{n}", "POST /login", "SELECT title FROM items WHERE id = ?"];
        for (wanted, near) in [
            ("GET /vote", Some("GET /vote/{n}")),
            ("get /vote/{n}", Some("GET /vote/{n}")),
            ("vote", Some("GET /vote/{n}")),
            ("GET /resluts", Some("GET /results")),
            ("POST /log", Some("POST /login")),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(nearest(wanted, kinds.into_iter()), near, "{wanted}");
        }
    }
}
