//! Names of containers and pods, from the files that runtimes and the kubelet keep on their host. No socket is asked and no API
//! server: what they answer, these files say.

use serde_json::Value;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// What is known of a container; empty where it is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// What runs it: `docker`, `containerd`, `cri-o`, `podman`, `runc`, `crun`.
    pub runtime: String,
    /// Its id, only where it had to be looked up.
    pub id: String,
    /// Its name; of a pod's container, the name that the pod gives it.
    pub name: String,
    /// The image that it was made of.
    pub image: String,
    /// Its pod.
    pub pod: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's UID.
    pub pod_uid: String,
}

/// Most bytes of a file that is read: podman's has all its containers.
const FILE_MAX: u64 = 8 << 20;

/// Where containerd keeps the bundles of containers, by namespace.
const CONTAINERD: &[&str] =
    &["run/containerd/io.containerd.runtime.v2.task", "run/k3s/containerd/io.containerd.runtime.v2.task"];
/// Where podman and CRI-O keep containers.
const STORAGE: &[&str] = &["run/containers/storage", "var/lib/containers/storage"];
/// What `STORAGE` is divided by.
const DRIVERS: &[&str] = &["overlay-containers", "vfs-containers", "btrfs-containers"];

const NAME: &[&str] = &["io.kubernetes.cri.container-name", "io.kubernetes.container.name", "nerdctl/name"];
const IMAGE: &[&str] = &["io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName"];
const POD: &[&str] = &["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"];
const NAMESPACE: &[&str] = &["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"];
const POD_UID: &[&str] = &["io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"];

/// The files of a host.
pub struct ContainerFiles {
    root: PathBuf,
}

impl ContainerFiles {
    /// Those of this host, also where the recorder is in a container that shares the host's process numbers.
    pub fn of_host() -> ContainerFiles {
        let of_init = Path::new("/proc/1/root");
        let root = if of_init.join("proc").exists() { of_init } else { Path::new("/") };
        ContainerFiles::below(root)
    }

    /// Those below a folder.
    pub fn below(root: impl Into<PathBuf>) -> ContainerFiles {
        ContainerFiles { root: root.into() }
    }

    /// What the files say of a container with this id; either may be empty.
    pub fn find(&self, id: &str, pod_uid: &str) -> Container {
        let mut found = match id {
            "" => Container::default(),
            id => self
                .of_containerd(id)
                .or_else(|| self.of_docker(id))
                .or_else(|| self.of_storage(id))
                .unwrap_or_default(),
        };
        if found.pod_uid.is_empty() {
            found.pod_uid = pod_uid.to_owned();
        }
        self.ask_kubelet(id, &mut found);
        found
    }

    /// A container that somebody started with `runc`, `crun` or `ctr`, whose cgroup has a name of his own choice.
    pub fn started_by_hand(&self, cgroup: &str) -> Option<Container> {
        let mut parts: Vec<&str> = cgroup.rsplit('/').filter(|p| !p.is_empty() && *p != "..").collect();
        // one of its own cgroups may be below the container's
        let by_ctr = parts.windows(2).take(2).find_map(|pair| self.started_by_ctr(pair[1], pair[0]));
        if by_ctr.is_some() {
            return by_ctr;
        }
        parts.truncate(2);
        parts.into_iter().find_map(|part| {
            let scope = part.strip_suffix(".scope");
            let of = |runtime: &str, file: &str| {
                let id = scope.and_then(|s| s.strip_prefix(runtime)?.strip_prefix('-')).unwrap_or(part);
                let is_there = self.root.join("run").join(runtime).join(id).join(file).exists();
                is_there.then(|| Container {
                    runtime: runtime.into(),
                    id: id.into(),
                    name: id.into(),
                    ..Container::default()
                })
            };
            of("runc", "state.json").or_else(|| of("crun", "status"))
        })
    }

    /// A container of containerd's, which calls its cgroup `/NAMESPACE/ID`.
    fn started_by_ctr(&self, namespace: &str, id: &str) -> Option<Container> {
        let place = |folder: &&str| self.root.join(folder).join(namespace).join(id).join("config.json");
        let bundle = CONTAINERD.iter().find_map(|folder| json(&place(folder)))?;
        let mut found = described("containerd", &bundle["annotations"]);
        found.id = id.to_owned();
        if found.name.is_empty() {
            found.name = id.to_owned();
        }
        Some(found)
    }

    fn of_containerd(&self, id: &str) -> Option<Container> {
        CONTAINERD.iter().find_map(|folder| {
            let namespaces = self.root.join(folder).read_dir().ok()?;
            namespaces.flatten().find_map(|namespace| {
                let bundle = json(&namespace.path().join(id).join("config.json"))?;
                let runtime = if namespace.file_name() == "moby" { "docker" } else { "containerd" };
                let found = described(runtime, &bundle["annotations"]);
                // Docker's own file has the name
                Some(if runtime == "docker" { self.of_docker(id).unwrap_or(found) } else { found })
            })
        })
    }

    fn of_docker(&self, id: &str) -> Option<Container> {
        let config = json(&self.root.join("var/lib/docker/containers").join(id).join("config.v2.json"))?;
        let mut found = described("docker", &config["Config"]["Labels"]);
        if found.name.is_empty() {
            found.name = text(&config["Name"]).trim_start_matches('/').to_owned();
        }
        found.image = text(&config["Config"]["Image"]).to_owned();
        Some(found)
    }

    /// Of podman or CRI-O.
    fn of_storage(&self, id: &str) -> Option<Container> {
        let places = || STORAGE.iter().flat_map(|s| DRIVERS.iter().map(move |d| self.root.join(s).join(d)));
        let bundle_of = |id: &str| places().find_map(|place| json(&place.join(id).join("userdata/config.json")));
        let found = bundle_of(id).map(|bundle| {
            let own = described("cri-o", &bundle["annotations"]);
            if own.pod.is_empty() { of_sandbox(own, &bundle["annotations"], bundle_of) } else { own }
        });
        if let Some(found) = found.clone().filter(|f| !f.pod.is_empty()) {
            return Some(found);
        }
        let listed = places().find_map(|place| {
            let all = json(&place.join("containers.json"))?;
            all.as_array()?.iter().find(|c| c["id"] == id).map(|c| text(&c["names"][0]).to_owned())
        });
        listed.map(|name| Container { runtime: "podman".into(), name, ..found.unwrap_or_default() })
    }

    /// What nobody else said of a pod: the kubelet names folders of logs `NAMESPACE_POD_UID`, and links to a container's log
    /// `POD_NAMESPACE_CONTAINER-ID.log`.
    fn ask_kubelet(&self, id: &str, found: &mut Container) {
        if found.pod.is_empty() && !found.pod_uid.is_empty() {
            let end = format!("_{}", found.pod_uid);
            let names = self.names_in("var/log/pods", |name| name.strip_suffix(&end)?.split_once('_').map(owned));
            (found.namespace, found.pod) = names.unwrap_or_default();
        }
        if found.name.is_empty() && !id.is_empty() && !(found.pod.is_empty() && found.pod_uid.is_empty()) {
            let end = format!("-{id}.log");
            let name = self.names_in("var/log/containers", |name| {
                let mut parts = name.strip_suffix(&end)?.splitn(3, '_');
                parts.nth(2).map(str::to_owned)
            });
            found.name = name.unwrap_or_default();
        }
    }

    fn names_in<T>(&self, folder: &str, wanted: impl Fn(&str) -> Option<T>) -> Option<T> {
        let entries = self.root.join(folder).read_dir().ok()?;
        entries.flatten().find_map(|entry| wanted(entry.file_name().to_str()?))
    }
}

fn owned((a, b): (&str, &str)) -> (String, String) {
    (a.to_owned(), b.to_owned())
}

/// What annotations (or labels) that runtimes make for Kubernetes say.
fn described(runtime: &str, annotations: &Value) -> Container {
    let first = |keys: &[&str]| {
        keys.iter().map(|k| text(&annotations[*k])).find(|t| !t.is_empty()).unwrap_or_default().to_owned()
    };
    Container {
        runtime: runtime.into(),
        id: String::new(),
        name: first(NAME),
        image: first(IMAGE),
        pod: first(POD),
        namespace: first(NAMESPACE),
        pod_uid: first(POD_UID),
    }
}

/// What CRI-O keeps of a container that nobody labelled, as the kubelet does: its name, and the container that holds its pod's
/// namespaces, which has the pod's.
fn of_sandbox(own: Container, annotations: &Value, bundle_of: impl Fn(&str) -> Option<Value>) -> Container {
    let sandbox = text(&annotations["io.kubernetes.cri-o.SandboxID"]);
    let is_id = !sandbox.is_empty() && sandbox.bytes().all(|b| b.is_ascii_alphanumeric());
    let Some(bundle) = is_id.then(|| bundle_of(sandbox)).flatten() else { return own };
    let Container { pod, namespace, pod_uid, .. } = described("cri-o", &bundle["annotations"]);
    let said: Value = serde_json::from_str(text(&annotations["io.kubernetes.cri-o.Metadata"])).unwrap_or_default();
    Container { name: text(&said["name"]).to_owned(), pod, namespace, pod_uid, ..own }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn json(path: &Path) -> Option<Value> {
    // a pipe would be waited for
    let is_file = path.metadata().is_ok_and(|m| m.is_file());
    let mut bytes = Vec::new();
    is_file.then(|| File::open(path).ok())??.take(FILE_MAX).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}
