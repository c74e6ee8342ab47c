//! An OCI image as an archive of its layout, made without a daemon: `podman load`, `docker load`, `skopeo` and
//! `ctr images import` take it.

use super::debian::Sysroot;
use super::tar::{archive, gzip};
use super::tree::{Entry, What};
use super::{Release, Target, sha256};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;

/// What of Debian's C library the program needs.
const LIBRARIES: [&str; 5] = ["libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"];

/// The blobs of a layout.
#[derive(Default)]
struct Blobs(Vec<Entry>);

impl Blobs {
    /// Adds a blob; what names it.
    fn add(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest = sha256(&bytes);
        let name = json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len() });
        self.0.push(Entry::file(&format!("blobs/sha256/{digest}"), 0o644, bytes));
        name
    }
}

/// The layout. The image has two layers: the C library, and what packages install.
pub fn layout(release: &Release<'_>, tree: &[Entry], sysroot: &Sysroot) -> Result<Vec<u8>> {
    let mut blobs = Blobs::default();
    let mut layers = Vec::new();
    let mut contents = Vec::new();
    let program: Vec<Entry> = tree.iter().filter(|e| !e.path.contains("/systemd/")).cloned().collect();
    for entries in [base(release.target, sysroot)?, program] {
        let plain = archive(&entries, release.time)?;
        contents.push(format!("sha256:{}", sha256(&plain)));
        layers.push(blobs.add("application/vnd.oci.image.layer.v1.tar+gzip", gzip(&plain)?));
    }
    let labels = json!({
        "org.opencontainers.image.title": "wakepath",
        "org.opencontainers.image.version": release.version,
        "org.opencontainers.image.licenses": "Apache-2.0",
    });
    let config = json!({
        "architecture": release.target.debian,
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/wakepath"],
            "Env": ["PATH=/usr/bin"],
            "WorkingDir": "/var/lib/wakepath",
            "Labels": labels,
        },
        "rootfs": { "type": "layers", "diff_ids": contents },
    });
    let config = blobs.add("application/vnd.oci.image.config.v1+json", config.to_string().into_bytes());
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": layers,
    });
    let mut manifest = blobs.add("application/vnd.oci.image.manifest.v1+json", manifest.to_string().into_bytes());
    let name = format!("localhost/wakepath:{}", release.version);
    manifest["annotations"] =
        json!({ "org.opencontainers.image.ref.name": release.version, "io.containerd.image.name": name });
    manifest["platform"] = json!({ "architecture": release.target.debian, "os": "linux" });
    let index =
        json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest] });
    let mut files = blobs.0;
    files.push(Entry::file("index.json", 0o644, index.to_string().into_bytes()));
    files.push(Entry::file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()));
    archive(&files, release.time)
}

/// The C library of Debian's package, and the folders that a program expects.
fn base(target: &Target, sysroot: &Sysroot) -> Result<Vec<Entry>> {
    let mut out = Vec::new();
    for library in LIBRARIES {
        let path = format!("usr/lib/{}/{library}", target.multiarch);
        let bytes = ["", "usr/"].iter().find_map(|below| {
            let lib = sysroot.files.join(below).join("lib").join(target.multiarch).join(library);
            fs::read(lib).ok()
        });
        out.push(Entry::file(&path, 0o755, bytes.with_context(|| format!("{library} is in none of the packages"))?));
    }
    let (folder, loader) = target.loader.split_once('/').context("a loader has a folder")?;
    let of_package = sysroot.files.join("lib").join(target.multiarch).join(loader);
    let bytes = fs::read(&of_package).with_context(|| format!("{}: no loader", of_package.display()))?;
    out.push(Entry::file(&format!("usr/{folder}/{loader}"), 0o755, bytes));
    for folder in BTreeSet::from(["lib", folder]) {
        out.push(Entry { path: folder.into(), mode: 0, what: What::Link(format!("usr/{folder}")) });
    }
    let rights = "usr/share/doc/libc6/copyright";
    out.push(Entry::file(rights, 0o644, fs::read(sysroot.files.join(rights)).context("libc6 has no copyright")?));
    out.push(Entry { path: "tmp".into(), mode: 0o1777, what: What::Folder });
    out.push(Entry { path: "var/lib/wakepath".into(), mode: 0o700, what: What::Folder });
    out.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(out)
}
