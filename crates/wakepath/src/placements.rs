//! Who runs in a cgroup: the one place that decides it, from the cgroup's path and the files of runtimes and the kubelet.

use wakepath_capture::containers::{Container, ContainerFiles};
use wakepath_capture::procfs;
use wakepath_model::cgroup::{Placement, deployment_of, telling_path};
use wakepath_model::ids::StrId;
use wakepath_model::rows::PlacementRow;

/// Where placements are looked up.
pub struct Placements {
    files: ContainerFiles,
    /// The recorder's own cgroup.
    own: String,
}

impl Placements {
    /// Of this host.
    pub fn of_host() -> Placements {
        let cgroups = procfs::cgroups(std::process::id()).unwrap_or_default();
        let own = telling_path(&String::from_utf8_lossy(&cgroups)).to_owned();
        Placements { files: ContainerFiles::of_host(), own }
    }

    /// Of a host whose files lie below a folder.
    #[cfg(test)]
    fn below(root: &std::path::Path, own: &str) -> Placements {
        Placements { files: ContainerFiles::below(root), own: own.to_owned() }
    }

    /// Who runs in the cgroup with this path; `None` where nothing is known. Its time and its cgroup are the caller's.
    pub fn find(&self, path: &[u8], mut intern: impl FnMut(&str) -> StrId) -> Option<PlacementRow> {
        let path = std::str::from_utf8(path).ok()?;
        let said = Placement::of(path);
        let mut found = if said.container.is_empty() && said.pod_uid.is_empty() {
            self.files.started_by_hand(path).unwrap_or_default()
        } else if is_file_name(&said.container) {
            self.files.find(&said.container, &said.pod_uid)
        } else {
            Container::default()
        };
        if said.is_empty() && found.id.is_empty() {
            return None;
        }
        if found.id.is_empty() {
            found.id = said.container.clone().into_owned();
        }
        // lxc's and nspawn's ids are names, which nobody wants cut
        if found.name.is_empty() && !is_digest(&found.id) {
            found.name = found.id.clone();
        }
        // the path says it of itself; a file may be left of another
        if !said.runtime.is_empty() {
            found.runtime = said.runtime.to_owned();
        }
        let mut row = PlacementRow {
            runtime: intern(&found.runtime),
            container: intern(&found.id),
            name: intern(&found.name),
            image: intern(&found.image),
            pod: intern(&found.pod),
            namespace: intern(&found.namespace),
            pod_uid: intern(&found.pod_uid),
            deployment: intern(deployment_of(&found.pod).unwrap_or_default()),
            unit: intern(said.unit),
            ..PlacementRow::default()
        };
        row.is_own = self.is_own(path, &said).into();
        Some(row)
    }

    /// Whether the recorder runs in the same container and unit.
    fn is_own(&self, path: &str, said: &Placement<'_>) -> bool {
        let own = Placement::of(&self.own);
        path == self.own
            || !own.is_empty()
                && own.container == said.container
                && own.pod_uid == said.pod_uid
                && own.unit == said.unit
    }
}

/// Whether it is an id as runtimes make them, and no name.
fn is_digest(id: &str) -> bool {
    id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Whether a container's id, which others chose, may be part of a path.
fn is_file_name(id: &str) -> bool {
    id != ".." && id != "." && !id.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_model::intern::Interner;

    const ID: &str = "4f5e1e7f54a8d0bb2c6f83a9e4b0cf0e5d9b1c7a8f3e2d1c0b9a8f7e6d5c4b3a";
    const UID: &str = "0c9f1f6e-3c1b-4f4e-9d39-0f2a2b1c3d4e";

    fn written_out(text: &str) -> String {
        text.replace("UID", UID).replace("ID", ID)
    }

    /// A host with these files; what `path` is there, as `FIELD=TEXT` of what is known.
    fn found(files: &[(&str, &str)], own: &str, path: &str) -> Option<String> {
        let root = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let file = root.path().join(written_out(name));
            std::fs::create_dir_all(file.parent().expect("a folder above")).expect("made");
            std::fs::write(file, text).expect("written");
        }
        let mut strings = Interner::default();
        let (own, path) = (written_out(own), written_out(path));
        let row = Placements::below(root.path(), &own).find(path.as_bytes(), |text| strings.intern(text.as_bytes()))?;
        let text = |id| String::from_utf8_lossy(strings.get(id).unwrap_or_default()).into_owned();
        let fields = [
            ("runtime", row.runtime),
            ("container", row.container),
            ("name", row.name),
            ("image", row.image),
            ("pod", row.pod),
            ("namespace", row.namespace),
            ("uid", row.pod_uid),
            ("deployment", row.deployment),
            ("unit", row.unit),
        ];
        let known = fields.into_iter().map(|(name, id)| (name, text(id))).filter(|(_, t)| !t.is_empty());
        let mut out: Vec<String> =
            known.map(|(name, t)| format!("{name}={}", t.replace(ID, "ID").replace(UID, "UID"))).collect();
        out.extend((row.is_own == 1).then(|| "own".to_owned()));
        Some(out.join(" "))
    }

    const KUBE: &str = "/kubepods.slice/kubepods-pod0c9f1f6e_3c1b_4f4e_9d39_0f2a2b1c3d4e.slice";

    #[test]
    fn names_a_pod_by_what_containerd_keeps() {
        let config = r#"{"annotations":{"io.kubernetes.cri.container-name":"web","io.kubernetes.cri.sandbox-name":"shop-6d5f7c9b8d-x2x4z",
            "io.kubernetes.cri.sandbox-namespace":"prod","io.kubernetes.cri.image-name":"shop:3"}}"#;
        let files = [("run/containerd/io.containerd.runtime.v2.task/k8s.io/ID/config.json", config)];
        assert_eq!(
            found(&files, "/", &format!("{KUBE}/cri-containerd-ID.scope")).as_deref(),
            Some(
                "runtime=containerd container=ID name=web image=shop:3 pod=shop-6d5f7c9b8d-x2x4z namespace=prod uid=UID deployment=shop"
            )
        );
    }

    #[test]
    fn names_a_pod_by_the_folders_of_its_logs() {
        let files = [
            ("var/log/pods/prod_db-0_UID/pg/0.log", ""),
            ("var/log/pods/prod_db-1_11111111-3c1b-4f4e-9d39-0f2a2b1c3d4e/pg/0.log", ""),
            ("var/log/containers/db-0_prod_pg-ID.log", ""),
        ];
        assert_eq!(
            found(&files, "/", "/kubepods/burstable/podUID/ID").as_deref(),
            Some("container=ID name=pg pod=db-0 namespace=prod uid=UID")
        );
        // nobody knows it any more
        assert_eq!(found(&[], "/", "/kubepods/burstable/podUID/ID").as_deref(), Some("container=ID uid=UID"));
    }

    #[test]
    fn names_containers_by_the_files_of_docker_podman_and_cri_o() {
        let docker = r#"{"Name":"/shop-db-1","Config":{"Image":"postgres:17","Labels":{"a":"b"}}}"#;
        let docker = [("var/lib/docker/containers/ID/config.v2.json", docker)];
        let expected = Some("runtime=docker container=ID name=shop-db-1 image=postgres:17");
        for path in ["/system.slice/docker-ID.scope", "/docker/ID"] {
            assert_eq!(found(&docker, "/", path).as_deref(), expected);
        }
        let podman = format!(r#"[{{"id":"0","names":["other"]}},{{"id":"{ID}","names":["cache"]}}]"#);
        let podman = [("var/lib/containers/storage/overlay-containers/containers.json", podman.as_str())];
        let path = "/machine.slice/libpod-ID.scope/container";
        assert_eq!(found(&podman, "/", path).as_deref(), Some("runtime=podman container=ID name=cache"));
        let crio = r#"{"annotations":{"io.kubernetes.container.name":"app","io.kubernetes.pod.name":"p","io.kubernetes.pod.namespace":"n"}}"#;
        let crio = [("run/containers/storage/overlay-containers/ID/userdata/config.json", crio)];
        assert_eq!(
            found(&crio, "/", &format!("{KUBE}/crio-ID.scope")).as_deref(),
            Some("runtime=cri-o container=ID name=app pod=p namespace=n uid=UID")
        );
    }

    #[test]
    fn names_a_pod_of_cri_o_that_no_kubelet_labelled() {
        let own = r#"{"annotations":{"io.kubernetes.cri-o.Metadata":"{\"name\":\"web\"}","io.kubernetes.cri-o.SandboxID":"5a4d"}}"#;
        let pods = r#"{"annotations":{"io.kubernetes.container.name":"POD","io.kubernetes.pod.name":"p","io.kubernetes.pod.namespace":"n","io.kubernetes.pod.uid":"UID"}}"#;
        let files = [
            ("run/containers/storage/vfs-containers/ID/userdata/config.json", own),
            ("run/containers/storage/vfs-containers/5a4d/userdata/config.json", pods),
        ];
        let path = "/kubepods/burstable/podUID/crio-ID";
        assert_eq!(
            found(&files, "/", path).as_deref(),
            Some("runtime=cri-o container=ID name=web pod=p namespace=n uid=UID")
        );
        // one that leads elsewhere leads nowhere
        let own = own.replace("5a4d", "../5a4d");
        let files = [("run/containers/storage/vfs-containers/ID/userdata/config.json", own.as_str()), files[1]];
        assert_eq!(found(&files, "/", path).as_deref(), Some("runtime=cri-o container=ID uid=UID"));
    }

    #[test]
    fn knows_what_was_started_by_hand_and_what_is_its_own() {
        let files = [("run/runc/shop/state.json", "{}"), ("run/crun/cache/status", "{}")];
        assert_eq!(found(&files, "/", "/shop").as_deref(), Some("runtime=runc container=shop name=shop"));
        assert_eq!(
            found(&files, "/", "/system.slice/crun-cache.scope").as_deref(),
            Some("runtime=crun container=cache name=cache unit=crun-cache.scope")
        );
        assert_eq!(found(&files, "/", "/elsewhere"), None);
        let ctr = [("run/containerd/io.containerd.runtime.v2.task/default/shop/config.json", "{}")];
        for path in ["/default/shop", "/default/shop/workers"] {
            assert_eq!(
                found(&ctr, "/", path).as_deref(),
                Some("runtime=containerd container=shop name=shop"),
                "{path}"
            );
        }
        assert_eq!(found(&ctr, "/", "/other/shop"), None);
        let lxc = Some("runtime=lxc container=a-long-name-of-a-shop name=a-long-name-of-a-shop");
        assert_eq!(found(&[], "/", "/lxc.payload.a-long-name-of-a-shop").as_deref(), lxc);
        let unit = "/system.slice/shop.service";
        assert_eq!(found(&[], "/", unit).as_deref(), Some("unit=shop.service"));
        assert_eq!(found(&[], unit, unit).as_deref(), Some("unit=shop.service own"));
        let inside = "/docker/ID/system.slice/a.service";
        assert_eq!(found(&[], inside, inside).as_deref(), Some("runtime=docker container=ID unit=a.service own"));
        assert_eq!(found(&[], "/docker/ID", inside).as_deref(), Some("runtime=docker container=ID unit=a.service"));
    }

    #[test]
    fn bears_files_that_are_damaged() {
        let files = [
            ("run/containerd/io.containerd.runtime.v2.task/k8s.io/ID/config.json", "{\"annotations\":[1"),
            ("var/lib/containers/storage/overlay-containers/containers.json", "{}"),
            ("var/log/pods/x", ""),
        ];
        let path = format!("{KUBE}/cri-containerd-ID.scope");
        assert_eq!(found(&files, "/", &path).as_deref(), Some("runtime=containerd container=ID uid=UID"));
    }
}
