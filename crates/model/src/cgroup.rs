//! What the path of a cgroup says of who runs there: container, pod, systemd unit. Paths are as runtimes make them, under
//! either version of cgroups and either driver (cgroupfs, systemd); `tests/cgroups.tsv` has them.

use std::borrow::Cow;

/// Where the tasks of a cgroup run, as far as its path says it. Everything is empty where the path does not say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement<'a> {
    /// What runs the container: `docker`, `containerd`, `cri-o`, `podman`, `lxc`, `systemd-nspawn` …; empty also where the path has
    /// a container's id alone.
    pub runtime: &'a str,
    /// The container's id, for `lxc` and `systemd-nspawn` its name.
    pub container: Cow<'a, str>,
    /// The pod's UID as Kubernetes writes it.
    pub pod_uid: Cow<'a, str>,
    /// The systemd unit, escaped as systemd shows it; of a container that runs systemd, the unit inside.
    pub unit: &'a str,
}

impl<'a> Placement<'a> {
    /// What a path says. The innermost container counts, and what is inside of it.
    pub fn of(path: &'a str) -> Placement<'a> {
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        let mut out = Placement::default();
        let mut before = "";
        for part in path.split('/').filter(|p| !p.is_empty() && *p != "..") {
            // a driver for cgroupfs that was given systemd's way of naming: SLICE:PREFIX:ID
            match part.splitn(3, ':').collect::<Vec<_>>()[..] {
                [slice, prefix, id] if is_id(id) => {
                    out.enter(before, slice);
                    out.contain(runtime_of(prefix), id);
                }
                _ => out.enter(before, part),
            }
            before = part;
        }
        out
    }

    fn enter(&mut self, before: &str, part: &'a str) {
        if let Some(uid) = pod_uid(part) {
            *self = Placement { pod_uid: uid, ..Placement::default() };
        } else if let Some((runtime, id)) = named_container(part).filter(|(runtime, _)| !is_monitor(runtime)) {
            self.contain(runtime, id);
        } else if is_id(part) {
            let runtime = match before {
                "docker" => "docker",
                "libpod_parent" => "podman",
                _ => "",
            };
            self.contain(runtime, part);
        } else if let Some(name) = part.strip_prefix("lxc.payload.").or((before == "lxc").then_some(part)) {
            self.contain("lxc", name);
        } else if let Some(name) = machine(part) {
            self.contain(name.0, name.1);
        } else if part.ends_with(".service") || part.ends_with(".scope") {
            self.unit = part;
        }
    }

    fn contain(&mut self, runtime: &'a str, id: impl Into<Cow<'a, str>>) {
        (self.runtime, self.container, self.unit) = (runtime, id.into(), "");
    }

    /// How much it says: 3 = a container, 2 = a pod, 1 = a unit, 0 = nothing.
    fn rank(&self) -> u8 {
        match self {
            p if !p.container.is_empty() => 3,
            p if !p.pod_uid.is_empty() => 2,
            p => u8::from(!p.unit.is_empty()),
        }
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.rank() == 0
    }
}

/// The path to go by, of all that `/proc/PID/cgroup` has: the one that says most of who runs there. Of those that say as much it
/// is version 2's, or the longest where that is the root: a host with both versions may have containers in either.
pub fn telling_path(proc_cgroup: &str) -> &str {
    let lines = proc_cgroup.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (hierarchy, _, path) = (parts.next()?, parts.next()?, parts.next()?);
        Some((Placement::of(path).rank(), hierarchy == "0" && path.len() > 1, path.len(), path))
    });
    lines.max_by_key(|&(rank, is_v2, length, _)| (rank, is_v2, length)).map_or("", |line| line.3)
}

/// The deployment that made a pod of this name, by how Kubernetes names pods: `DEPLOYMENT-HASH-FIVE`, where the hash is the
/// ReplicaSet's. A ReplicaSet that somebody made by hand and named so is taken for a deployment's.
pub fn deployment_of(pod: &str) -> Option<&str> {
    /// What Kubernetes makes names of, so that no word comes about.
    const SAFE: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let is_safe = |text: &str| text.bytes().all(|b| SAFE.contains(&b));
    let (rest, five) = pod.rsplit_once('-')?;
    let (deployment, hash) = rest.rsplit_once('-')?;
    // a job's pod may have a time in minutes there: digits alone
    let is_hash = (6..=10).contains(&hash.len()) && is_safe(hash) && !hash.bytes().all(|b| b.is_ascii_digit());
    (!deployment.is_empty() && is_hash && five.len() == 5 && is_safe(five)).then_some(deployment)
}

/// 64 hexadecimal digits, as all runtimes' ids but lxc's.
fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// `PREFIX-ID.scope`, `PREFIX-ID`: prefix's runtime and id.
fn named_container(part: &str) -> Option<(&str, &str)> {
    let (prefix, id) = part.strip_suffix(".scope").unwrap_or(part).rsplit_once('-')?;
    is_id(id).then(|| (runtime_of(prefix), id))
}

/// What a runtime calls itself in cgroups, as people call it.
fn runtime_of(prefix: &str) -> &str {
    match prefix {
        "cri-containerd" | "nerdctl" => "containerd",
        "crio" => "cri-o",
        "libpod" | "libpod-payload" => "podman",
        other => other,
    }
}

/// Whether it is what watches over a container, outside of it.
fn is_monitor(prefix: &str) -> bool {
    prefix.ends_with("conmon")
}

/// `podUID`, `…-podUID.slice`.
fn pod_uid(part: &str) -> Option<Cow<'_, str>> {
    let text = part.strip_suffix(".slice").unwrap_or(part);
    let uid = text.strip_prefix("pod").or_else(|| text.rsplit_once("-pod").map(|(_, uid)| uid))?;
    let is_hex = |b: u8| b.is_ascii_hexdigit();
    let is_mark = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    match uid.len() {
        // what the kubelet made of a file instead of a UID
        32 if uid.bytes().all(is_hex) => Some(Cow::Borrowed(uid)),
        36 if uid.bytes().enumerate().all(|(at, b)| if is_mark(at) { matches!(b, b'-' | b'_') } else { is_hex(b) }) => {
            // systemd takes a dash for a level of its tree, so it is an underscore there
            Some(if uid.contains('_') { uid.replace('_', "-").into() } else { uid.into() })
        }
        _ => None,
    }
}

/// What systemd's machines are: `machine-NAME.scope` (of nspawn, or of libvirt's `lxc-NUMBER-NAME`), `systemd-nspawn@NAME.service`.
fn machine(part: &str) -> Option<(&'static str, Cow<'_, str>)> {
    if let Some(name) = part.strip_prefix("systemd-nspawn@").and_then(|p| p.strip_suffix(".service")) {
        return Some(("systemd-nspawn", unescaped(name)));
    }
    let name = unescaped(part.strip_prefix("machine-")?.strip_suffix(".scope")?);
    if name.starts_with("qemu-") {
        return None;
    }
    let of_libvirt = name.strip_prefix("lxc-").and_then(|rest| rest.split_once('-'));
    match of_libvirt.filter(|(number, _)| number.bytes().all(|b| b.is_ascii_digit())) {
        Some((_, name)) => Some(("lxc", Cow::Owned(name.to_owned()))),
        None => Some(("systemd-nspawn", name)),
    }
}

/// systemd's `\x2d` back to what it stands for.
fn unescaped(name: &str) -> Cow<'_, str> {
    if !name.contains("\\x") {
        return Cow::Borrowed(name);
    }
    let mut parts = name.split("\\x");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let byte = part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(u8::is_ascii_graphic);
        match byte {
            Some(byte) => {
                out.push(char::from(byte));
                out.push_str(&part[2..]);
            }
            None => {
                out.push_str("\\x");
                out.push_str(part);
            }
        }
    }
    Cow::Owned(out)
}
