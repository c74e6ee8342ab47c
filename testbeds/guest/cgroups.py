"""Servers in containers of `crun` and `runc`, in a pod and in a systemd unit's cgroup, under each version of cgroups, in the guest of
`scripts/guest-proof --paths`: whether each is called by its name, after it is gone.

Exit 0 where all are, under version 1, version 2, and both at once as systemd mounts them ("hybrid").
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = pathlib.Path("/tmp/cgroups")
TREE = pathlib.Path("/sys/fs/cgroup")
VERSIONS = ("v1", "hybrid", "v2")
# an emulated processor is slow
PATIENCE_S = 120
POD_UID = "1f0c0c3a-7b1d-4b52-9a1e-0d2f8a3b4c5d"


def call(*line, **more):
    return subprocess.run([str(word) for word in line], check=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL, **more)


def until(what, is_there):
    end = time.monotonic() + PATIENCE_S
    while not is_there():
        if time.monotonic() > end:
            sys.exit(f"cgroups: {what} did not come in {PATIENCE_S} s")
        time.sleep(0.2)


def mount(version):
    """The trees of a version of cgroups; what was mounted, the last one first."""
    made = []
    if version == "v2":
        call("mount", "-t", "cgroup2", "none", TREE)
        return [TREE]
    call("mount", "-t", "tmpfs", "none", TREE)
    made.append(TREE)
    # all that the kernel has: crun bears none that the second version has as well
    known = [line.split()[0] for line in pathlib.Path("/proc/cgroups").read_text().splitlines()[1:]]
    trees = [(name, ["-t", "cgroup", "-o", name]) for name in known]
    trees.append(("systemd", ["-t", "cgroup", "-o", "none,name=systemd"]))
    if version == "hybrid":
        trees.append(("unified", ["-t", "cgroup2"]))
    for name, options in trees:
        (TREE / name).mkdir()
        # newer kernels may have the first version of some controllers no more
        done = subprocess.run(["mount", *options, "none", TREE / name], capture_output=True, check=False)
        if done.returncode == 0:
            made.insert(0, TREE / name)
    return made


def serve(port):
    return ["/bin/busybox", "httpd", "-f", "-p", f"127.0.0.1:{port}", "-h", "/www"]


class Container:
    """By a runtime that is called by hand, its cgroup where it puts it or where it is told to."""

    def __init__(self, runtime, name, port, cgroup=""):
        self.line, self.name, self.port = [runtime], name, port
        bundle = HERE / f"bundle-{name}"
        root = bundle / "rootfs"
        for folder in ("bin", "www", "proc", "dev", "sys"):
            (root / folder).mkdir(parents=True)
        shutil.copy("/bin/busybox", root / "bin")
        (root / "www/index.html").write_text("hello\n")
        spec = {
            "ociVersion": "1.0.2",
            "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "env": ["PATH=/bin"], "args": serve(port), "noNewPrivileges": True},
            "root": {"path": "rootfs"},
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
            "linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}], **({"cgroupsPath": cgroup} if cgroup else {})},
        }
        (bundle / "config.json").write_text(json.dumps(spec))
        log = HERE / f"{name}.log"
        # the guest's root is the kernel's first one, in which no other can be put
        line = [*self.line, "run", "--no-pivot", "--detach", "--bundle", bundle, name]
        with open(log, "wb") as out:
            done = subprocess.run(line, timeout=PATIENCE_S, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False)
        if done.returncode != 0:
            sys.exit(f"cgroups: {runtime} starts no {name}: {log.read_text()}")

    def close(self):
        call(*self.line, "delete", "--force", self.name)
        # what was put below a folder of its own leaves that
        for folder in sorted(TREE.glob("**/kubepods"), reverse=True):
            for below, _, _ in sorted(os.walk(folder), reverse=True):
                with contextlib.suppress(OSError):
                    os.rmdir(below)


class Unit:
    """A server in the cgroup that systemd makes of a service."""

    def __init__(self, version, unit, port):
        self.port = port
        tree = {"v1": TREE / "systemd", "hybrid": TREE / "unified", "v2": TREE}[version]
        self.folder = tree / "system.slice" / unit
        self.folder.mkdir(parents=True)
        enter = f'echo $$ > {self.folder}/cgroup.procs && exec "$0" "$@"'
        self.process = subprocess.Popen(["sh", "-c", enter, *serve(port)[:-1], "/srv"])

    def close(self):
        self.process.kill()
        self.process.wait()
        until("the end of a unit's processes", lambda: not (self.folder / "cgroup.procs").read_text())
        self.folder.rmdir()
        self.folder.parent.rmdir()


def pod(version, runtime, port):
    """A container of a pod of a deployment, where the kubelet's driver for plain cgroups puts it."""
    container = (version.encode().hex() + "0" * 64)[:64]
    name = "shop-6d5f7c9b8d-x2x4z"
    pathlib.Path(f"/var/log/pods/prod_{name}_{POD_UID}/web").mkdir(parents=True, exist_ok=True)
    return Container(runtime, container, port, f"/kubepods/burstable/pod{POD_UID}/{container}")


def asked(port):
    """Whether a server answers at all; what it answers does not matter."""
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/index.html", timeout=20).read()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def of_version(version, first):
    """Whether all are called by their names; `first`: the first of the ports."""
    trees = mount(version)
    runtimes = ["crun", "runc"]
    if version == "hybrid" and (TREE / "unified/cgroup.controllers").read_text().strip():
        # newer kernels may have the first version of some controllers no more
        print("guest: cgroups hybrid: crun is left out, since it bears no controller of the second version there")
        runtimes.remove("crun")
    started = {f"{r}-{version}": Container(r, f"{r}-{version}", first + i) for i, r in enumerate(runtimes)}
    started |= {
        "prod/shop": pod(version, runtimes[0], first + 2),
        "cart": Unit(version, "cart.service", first + 3),
    }
    for name, one in started.items():
        until(name, lambda one=one: asked(one.port))
    trace, ready = HERE / f"trace-{version}", HERE / f"ready-{version}"
    with open(HERE / f"record-{version}", "wb") as log:
        recorder = subprocess.Popen(["wakepath", "record", "-o", trace, "--ready-file", ready], stdout=log, stderr=log)
    until("the recording", lambda: recorder.poll() is not None or (ready.exists() and ready.stat().st_size > 0))
    for one in started.values():
        asked(one.port)
    time.sleep(1)
    for one in started.values():
        one.close()
    recorder.send_signal(signal.SIGINT)
    recorder.wait(PATIENCE_S)
    for tree in trees:
        call("umount", tree)
    answer = json.loads(call("wakepath", "requests", "--json", trace, stdout=subprocess.PIPE).stdout)
    services = {kind["service"] for kind in answer["kinds"]}
    found = {name: f"{name}/busybox:{one.port}" in services for name, one in started.items()}
    print(f"guest: cgroups {version} ({len(trees)} trees): {', '.join(sorted(services))}")
    for name, is_right in found.items():
        print(f"guest:   {'right' if is_right else 'WRONG'}  {name}")
    return all(found.values())


def main():
    HERE.mkdir()
    results = [of_version(version, 9000 + 10 * number) for number, version in enumerate(VERSIONS)]
    sys.exit(0 if all(results) else 1)


main()
