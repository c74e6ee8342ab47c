//! Real-world paths of cgroups, and who runs there.

use wakepath_model::cgroup::{Placement, deployment_of, telling_path};

const ID: &str = "4f5e1e7f54a8d0bb2c6f83a9e4b0cf0e5d9b1c7a8f3e2d1c0b9a8f7e6d5c4b3a";
const ID2: &str = "0000000000000000000000000000000000000000000000000000000000000002";
const UID: &str = "0c9f1f6e-3c1b-4f4e-9d39-0f2a2b1c3d4e";

fn written_out(text: &str) -> String {
    let short = &ID[..63];
    let of = [("ID63", short.to_owned()), ("IDUP", ID.to_uppercase()), ("ID2", ID2.into())];
    let text = of.into_iter().fold(text.to_owned(), |t, (name, value)| t.replace(name, &value));
    text.replace("UID_", &UID.replace('-', "_")).replace("UID", UID).replace("ID", ID)
}

#[test]
fn paths_of_cgroups_say_who_runs_there() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for line in include_str!("cgroups.tsv").lines().filter(|l| !l.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [what, path, expected @ ..] = &columns[..] else { panic!("{line}") };
        let expected: Vec<String> = expected.iter().map(|e| written_out(e.trim_matches('-'))).collect();
        let path = written_out(path);
        let p = Placement::of(&path);
        let found = [p.runtime.to_owned(), p.container.into(), p.pod_uid.into(), p.unit.to_owned()];
        if found[..] != expected[..] {
            wrong.push(format!("{what}: {path}\n  expected {expected:?}\n  found    {found:?}"));
        }
        seen += 1;
    }
    assert!(wrong.is_empty() && seen > 50, "{seen} paths\n{}", wrong.join("\n"));
}

#[test]
fn goes_by_the_hierarchy_that_says_most() {
    let told = |text: &str| telling_path(&written_out(text)).to_owned();
    let is = |text: &str, expected: &str| assert_eq!(told(text), written_out(expected), "{text}");
    is("12:cpu:/x\n0::/system.slice/a.service\n", "/system.slice/a.service");
    is("12:cpu:/docker/abc\n0::/\n", "/docker/abc");
    // hybrid, as older runtimes leave it: the containers are in version 1 alone
    is("11:memory:/docker/ID\n1:name=systemd:/docker/ID\n0::/system.slice/containerd.service\n", "/docker/ID");
    is("4:pids:/kubepods/burstable/podUID/ID\n0::/../kubelet.service", "/kubepods/burstable/podUID/ID");
    is("1:name=systemd:/user.slice/user-0.slice/session-1.scope\n0::/", "/user.slice/user-0.slice/session-1.scope");
    is("8:a:/lxc/web\n3:b:/lxc/web/system.slice/nginx.service\n", "/lxc/web/system.slice/nginx.service");
    // a colon in a path belongs to it
    is(
        "5:cpu:/system.slice/containerd.service/kubepods-podUID_.slice:cri-containerd:ID\n0::/",
        "/system.slice/containerd.service/kubepods-podUID_.slice:cri-containerd:ID",
    );
    for nothing in ["", "\n", "a\nb:c\n"] {
        is(nothing, "");
    }
}

#[test]
fn a_deployment_is_told_by_the_form_of_its_pods_names() {
    for (pod, expected) in [
        ("web-6d5f7c9b8d-x2x4z", Some("web")),
        ("my-shop-api-5c79f65f4-abcde", None), // a and e are in no hash
        ("my-shop-api-5c79f65f4-bcdfg", Some("my-shop-api")),
        ("coredns-787d4945fb-xk8s9", Some("coredns")),
        ("db-0", None),
        ("kube-proxy-x7k2p", None),
        ("backup-28524675-bcdfg", None),
        ("etcd-node1", None),
        ("-6d5f7c9b8d-x2x4z", None),
        ("", None),
    ] {
        assert_eq!(deployment_of(pod), expected, "{pod}");
    }
}
