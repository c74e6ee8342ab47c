//! Where tasks run, for people: what cgroups' paths and the files of container runtimes say.

use crate::ids::{MonoNs, StrId};
use crate::table;

table! {
    /// Who runs in a cgroup, as it was known when the first task of it was met: names stay, also when the pod has gone. What is not
    /// known is empty. Cgroups of which nothing is known have no row.
    PlacementRow {
        /// When it was looked up.
        at: MonoNs,
        /// The cgroup: `tasks.cgroup`.
        cgroup: StrId,
        /// What runs the container: `docker`, `containerd`, `cri-o`, `podman`, `lxc`, `systemd-nspawn` …
        runtime: StrId,
        /// The container's id; of `lxc` and `systemd-nspawn` its name.
        container: StrId,
        /// The container's name; of a pod's container, the name that the pod gives it.
        name: StrId,
        /// The image that it was made of.
        image: StrId,
        /// The pod.
        pod: StrId,
        /// The pod's namespace.
        namespace: StrId,
        /// The pod's UID.
        pod_uid: StrId,
        /// The deployment, by the form of the pod's name (`DEPLOYMENT-HASH-FIVE`).
        deployment: StrId,
        /// The systemd unit; of a container that runs systemd, the unit inside.
        unit: StrId,
        /// The recorder runs there too: in the same container, else in the same unit of the host.
        is_own: u8 => flag(),
        /// Zero.
        pad: [u8; 7],
    }
}
