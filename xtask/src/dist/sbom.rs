//! What the program is made of, in CycloneDX's format: crates, and the libraries that are linked in.

use super::Release;
use super::debian::Sysroot;
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

/// The packages whose products are packed.
const ROOTS: [&str; 3] = ["wakepath", "wakepath-preload", "wakepath-plugin"];

/// The document.
pub fn document(release: &Release<'_>, sysroot: &Sysroot) -> Result<Vec<u8>> {
    let metadata = metadata(release)?;
    let packages: BTreeMap<&str, &Value> = list(&metadata["packages"]).map(|p| (text(&p["id"]), p)).collect();
    let nodes: BTreeMap<&str, &Value> = list(&metadata["resolve"]["nodes"]).map(|n| (text(&n["id"]), n)).collect();
    let hashes = hashes(release)?;
    let is_root = |p: &&Value| ROOTS.contains(&text(&p["name"]));
    let mut open: Vec<&str> = packages.values().copied().filter(is_root).map(|p| text(&p["id"])).collect();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let linked = linked(nodes.get(id).context("a package without a node")?);
        let package = packages.get(id).context("a node without a package")?;
        components.push(component(package, &hashes));
        let on: Vec<String> = linked.iter().filter_map(|id| packages.get(id)).map(|p| purl(p)).collect();
        dependencies.push(json!({ "ref": purl(package), "dependsOn": on }));
        open.extend(linked);
    }
    components.extend(sysroot.versions.iter().filter(|(name, _)| name.ends_with("-dev")).map(|(name, version)| {
        let purl = format!("pkg:deb/debian/{name}@{version}?arch={}", release.target.debian);
        json!({ "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl })
    }));
    for list in [&mut components, &mut dependencies] {
        list.sort_by_key(|c| text(c.get("bom-ref").unwrap_or(&c["ref"])).to_owned());
    }
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": { "type": "application", "name": "wakepath", "version": release.version, "bom-ref": release.name() },
            "tools": { "components": [{ "type": "application", "name": "cargo xtask dist", "version": release.version }] },
        },
        "components": components,
        "dependencies": dependencies,
    });
    Ok(serde_json::to_vec_pretty(&document)?)
}

fn metadata(release: &Release<'_>) -> Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--features",
        "wakepath/static",
        "--filter-platform",
    ]);
    let out = command.arg(release.target.triple).current_dir(release.root).output()?;
    ensure!(out.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&out.stderr));
    Ok(serde_json::from_slice(&out.stdout)?)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Packages that are linked in: not those of tests, nor of building.
fn linked(node: &Value) -> Vec<&str> {
    let is_linked = |d: &&Value| list(&d["dep_kinds"]).any(|k| k["kind"].is_null());
    list(&node["deps"]).filter(is_linked).map(|d| text(&d["pkg"])).collect()
}

fn purl(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]))
}

fn component(package: &Value, hashes: &BTreeMap<(String, String), String>) -> Value {
    let (name, version) = (text(&package["name"]), text(&package["version"]));
    let mut out = json!({
        "type": "library",
        "bom-ref": purl(package),
        "name": name,
        "version": version,
        "purl": purl(package),
    });
    if let Some(licence) = package["license"].as_str() {
        // the older way of saying "or"
        out["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
    }
    if let Some(hash) = hashes.get(&(name.to_owned(), version.to_owned())) {
        out["hashes"] = json!([{ "alg": "SHA-256", "content": hash }]);
    }
    out
}

/// Checksums of crates, by name and version, as Cargo.lock has them.
fn hashes(release: &Release<'_>) -> Result<BTreeMap<(String, String), String>> {
    let lock = fs::read_to_string(release.root.join("Cargo.lock"))?;
    let field = |part: &str, name: &str| {
        let line = part.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(" = \""));
        line.and_then(|l| l.strip_suffix('"')).map(str::to_owned)
    };
    let of = |part: &str| Some(((field(part, "name")?, field(part, "version")?), field(part, "checksum")?));
    Ok(lock.split("[[package]]").filter_map(of).collect())
}
