//! Who may depend on whom: data walks one way through the house.

use super::Tree;
use serde_json::Value;
use std::process::Command;

/// A package of ours.
struct Room {
    name: &'static str,
    /// Rooms it may depend on.
    knows: &'static [&'static str],
}

const ALL: &[&str] = &[
    "wire",
    "runtimes",
    "capture",
    "protocols",
    "decode",
    "model",
    "flows",
    "clocks",
    "graph",
    "causality",
    "analysis",
    "forecast",
    "present",
    "export",
    "ui",
];

/// The table. What is not in it is not part of the house; tests may also use `testkit`, and those of
/// `wakepath` have the preload library and the plugin built and annotate themselves.
const ROOMS: &[Room] = &[
    Room { name: "wire", knows: &[] },
    Room { name: "guest", knows: &["wire"] },
    Room { name: "plugin", knows: &["wire", "guest"] },
    Room { name: "protocols", knows: &[] },
    Room { name: "preload", knows: &["wire", "protocols"] },
    Room { name: "model", knows: &[] },
    Room { name: "runtimes", knows: &["wire"] },
    Room { name: "capture", knows: &["wire", "runtimes"] },
    Room { name: "decode", knows: &["wire", "model", "protocols"] },
    Room { name: "flows", knows: &["model"] },
    Room { name: "clocks", knows: &["model"] },
    Room { name: "graph", knows: &["model", "flows"] },
    Room { name: "causality", knows: &["model", "flows"] },
    Room { name: "analysis", knows: &["model", "flows", "graph", "causality"] },
    Room { name: "forecast", knows: &["model", "flows", "graph", "causality", "analysis"] },
    Room { name: "present", knows: &["model", "clocks", "causality", "analysis", "forecast"] },
    Room { name: "export", knows: &["model", "flows", "graph", "causality", "analysis", "present"] },
    Room { name: "ui", knows: &[] },
    Room { name: "wakepath", knows: ALL },
    // outbuildings: nobody in the house knows them
    Room { name: "annotate", knows: &[] },
    Room { name: "testkit", knows: &["wire", "model", "decode", "causality"] },
    Room { name: "testbed-vapp", knows: &[] },
    Room { name: "testbed-load", knows: &[] },
    Room { name: "testbed-rpc", knows: &[] },
    Room { name: "testbed-score", knows: &["model", "decode", "clocks", "causality", "testkit"] },
    Room { name: "probes-host", knows: &["wire", "protocols", "model", "decode"] },
    Room { name: "xtask", knows: &["wire", "model", "protocols", "decode", "causality", "analysis"] },
];

/// Crates without the standard library: they run inside other programs, or describe the kernel's records.
const NO_STD: [&str; 2] = ["wire", "protocols"];

pub fn check(tree: &Tree, out: &mut Vec<String>) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let metadata = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(&tree.root)
        .output()
        .ok()
        .and_then(|o| serde_json::from_slice::<Value>(&o.stdout).ok());
    let Some(packages) = metadata.as_ref().and_then(|m| m["packages"].as_array()) else {
        out.push("Cargo.toml: `cargo metadata` gives nothing to read".into());
        return;
    };
    for package in packages {
        check_package(package, out);
    }
    for name in NO_STD {
        let path = format!("crates/{name}/src/lib.rs");
        if !tree.text(&path).contains("#![no_std]") {
            out.push(format!("{path}: must be #![no_std]"));
        }
    }
}

fn check_package(package: &Value, out: &mut Vec<String>) {
    let name = short(package["name"].as_str().unwrap_or_default());
    let Some(room) = ROOMS.iter().find(|r| r.name == name) else {
        out.push(format!("xtask/src/tidy/rooms.rs: package {name} is not in the table of rooms"));
        return;
    };
    for d in package["dependencies"].as_array().into_iter().flatten() {
        // ours are those that lie in the tree
        if d["path"].is_null() {
            continue;
        }
        let on = short(d["name"].as_str().unwrap_or_default());
        let in_tests = d["kind"] == "dev";
        let for_tests = on == "testkit" || matches!(on, "preload" | "annotate") && name == "wakepath";
        if !(room.knows.contains(&on) || in_tests && for_tests) {
            let what = if in_tests { "tests of " } else { "" };
            out.push(format!("{what}{name} must not depend on {on} (xtask/src/tidy/rooms.rs)"));
        }
    }
}

fn short(package: &str) -> &str {
    package.strip_prefix("wakepath-").unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_walks_one_way() {
        // in the order of the table each room comes after those that it knows
        for (i, room) in ROOMS.iter().enumerate() {
            for known in room.knows {
                let at = ROOMS.iter().position(|r| r.name == *known).expect("it is in the table");
                assert!(at < i, "{} knows {known}, which comes later", room.name);
            }
        }
    }

    #[test]
    fn a_wrong_direction_is_found() {
        let package = serde_json::json!({
            "name": "wakepath-model",
            "dependencies": [{ "name": "wakepath-present", "path": "x", "kind": null }],
        });
        let mut out = Vec::new();
        check_package(&package, &mut out);
        assert_eq!(out, ["model must not depend on present (xtask/src/tidy/rooms.rs)"]);
    }
}
