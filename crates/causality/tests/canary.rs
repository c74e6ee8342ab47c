//! Every condition of the rules that a canary can weaken is asked for somewhere, and only those.

use std::collections::BTreeSet;
use std::path::Path;
use wakepath_causality::canary::CONDITIONS;

fn asked_in(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            asked_in(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source file");
        for (i, _) in text.match_indices("holds(") {
            let name = text[i + "holds(".len()..].trim_start().strip_prefix('"').and_then(|t| t.split('"').next());
            found.extend(name.map(str::to_owned));
        }
    }
}

#[test]
fn every_listed_condition_is_asked_for() {
    let mut found = BTreeSet::new();
    asked_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    let listed: BTreeSet<String> = CONDITIONS.iter().map(|&c| c.to_owned()).collect();
    assert_eq!(found, listed);
    assert_eq!(listed.len(), CONDITIONS.len());
}
