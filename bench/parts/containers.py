"""Servers in containers of real runtimes (`scripts/install dist`): each is called by the name that its user gave it, also when it
is gone before the recording is read."""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
import uuid

from parts.programs import Failed, free_port, run, wait_for_file

CRI = pathlib.Path(__file__).with_name("cri.py")
IMAGE = "localhost/wakepath-names:1"
# containerd keeps the bundles of its containers there, whatever its root is
SOCKET = "/run/containerd/containerd.sock"
WAIT_S = 60


def command(port):
    """What each container runs: a server on the host's network."""
    return ["/bin/busybox", "httpd", "-f", "-p", f"127.0.0.1:{port}", "-h", "/www"]


def make_root(place):
    """A root of one static program and one page."""
    busybox = shutil.which("busybox")
    if not busybox:
        raise Failed("no busybox here; remedy: scripts/install dist")
    root = place / "root"
    for name in ("bin", "www", "proc", "sys", "dev", "etc", "run", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(busybox, root / "bin")
    (root / "www" / "index.html").write_text("hello\n", encoding="ascii")
    if subprocess.run(["chroot", root, "/bin/busybox", "true"], capture_output=True, check=False).returncode:
        raise Failed("busybox is not static here; remedy: apt-get install busybox-static")
    return root


def make_image(root, path):
    """An archive as `docker save` makes it. Without a command of its own, the container only waits."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(root, arcname=".")
    # the first process of a container ignores other signals, and runtimes wait for half a minute
    own = {"Cmd": ["/bin/busybox", "sleep", "1000000"], "StopSignal": "SIGKILL"}
    config = {
        "architecture": "amd64", "os": "linux", "config": own,
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer.getvalue()).hexdigest()]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    files = {"config.json": json.dumps(config).encode(), "manifest.json": json.dumps(manifest).encode(), "layer.tar": layer.getvalue()}
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


class Podman:
    """As root, by runc, which runs under either version of cgroups."""

    name = "podman"
    needs = ("podman", "runc")
    # this storage driver and this cgroup manager work on any host
    LINE = ["podman", "--storage-driver=vfs", "--cgroup-manager=cgroupfs", "--runtime=runc"]
    # podman's own are more than a host within a host may set
    LIMITS = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"]

    def __init__(self, bed):
        self.called = f"wakepath-bench-{os.getpid()}"
        run([*self.LINE, "load", "--quiet", "--input", bed.image], WAIT_S, stderr=subprocess.DEVNULL)
        self.port = free_port()
        run([*self.LINE, "run", "--detach", "--network=host", *self.LIMITS, f"--name={self.called}", IMAGE, *command(self.port)], WAIT_S)

    def close(self):
        for line in (["rm", "--force", "--time=0", self.called], ["rmi", "--force", IMAGE]):
            subprocess.run([*self.LINE, *line], timeout=WAIT_S, capture_output=True, check=False)


class Docker:
    """By a daemon that is started for it, beside the containerd of the bench."""

    name = "docker"
    needs = ("dockerd", "docker", "containerd")

    def __init__(self, bed):
        self.called = f"wakepath-bench-{os.getpid()}"
        bed.containerd()
        line = ["dockerd", "--containerd", SOCKET, "--storage-driver=vfs", "--iptables=false", "--ip6tables=false", "--bridge=none"]
        self.daemon = bed.daemon(line, ["docker", "version"])
        run(["docker", "load", "--quiet", "--input", bed.image], WAIT_S)
        self.port = free_port()
        run(["docker", "run", "--detach", "--network=host", f"--name={self.called}", IMAGE, *command(self.port)], WAIT_S)

    def close(self):
        for line in (["rm", "--force", self.called], ["rmi", "--force", IMAGE]):
            subprocess.run(["docker", *line], timeout=WAIT_S, capture_output=True, check=False)


class Ctr:
    """containerd's own client: the container's id is its name."""

    name = "containerd by ctr"
    needs = ("containerd", "ctr")

    def __init__(self, bed):
        bed.containerd()
        self.called, self.port = f"wakepath-bench-{os.getpid()}", free_port()
        run(["ctr", "run", "--detach", "--net-host", "--rootfs", bed.root, self.called, *command(self.port)], WAIT_S)

    def close(self):
        for line in (["task", "kill", "--signal", "SIGKILL", self.called], ["container", "rm", self.called]):
            subprocess.run(["ctr", *line], timeout=WAIT_S, capture_output=True, check=False)
            time.sleep(0.5)


class Pod:
    """A pod of a deployment, as a kubelet has containerd run it, by its CRI socket."""

    name = "containerd by CRI, a pod"
    needs = ("containerd", "ctr")
    called = "prod/shop"

    def __init__(self, bed):
        bed.containerd()
        run(["ctr", "--namespace", "k8s.io", "images", "import", "--snapshotter", "native", bed.image], WAIT_S)
        self.port, self.uid = free_port(), str(uuid.uuid4())
        pod = ["prod", "shop-6d5f7c9b8d-x2x4z", self.uid, "web"]
        run(["/usr/bin/python3", CRI, "start", SOCKET, IMAGE, *pod, "--", *command(self.port)], WAIT_S)

    def close(self):
        subprocess.run(["/usr/bin/python3", CRI, "stop", SOCKET], timeout=WAIT_S, capture_output=True, check=False)


class CriO:
    """A pod of a deployment, by CRI-O, which Debian does not have: any `crio` and `pinns` in the PATH are tried. Its image comes from
    the storage that podman shares with it."""

    name = "cri-o by CRI, a pod"
    needs = ("crio", "pinns", "conmon", "runc", "podman")
    called = "prod/till"

    def __init__(self, bed):
        run([*Podman.LINE, "load", "--quiet", "--input", bed.image], WAIT_S, stderr=subprocess.DEVNULL)
        folder = bed.place / "crio"
        folder.mkdir()
        self.socket, file = folder / "crio.sock", folder / "crio.conf"
        (folder / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}', encoding="ascii")
        # CRI-O has no setting that leaves these alone, and a host within a host may not lower them
        wrapper = folder / "runc.sh"
        edit = """for word; do [ ! -f "$word/config.json" ] || sed -i 's/"oomScoreAdj": *-[0-9]*/"oomScoreAdj": 0/' "$word/config.json"; done"""
        wrapper.write_text(f'#!/bin/sh\n{edit}\nexec {shutil.which("runc")} "$@"\n', encoding="ascii")
        wrapper.chmod(0o755)
        runc = {
            "runtime_path": wrapper, "runtime_root": folder / "runc", "monitor_path": shutil.which("conmon"),
            "monitor_cgroup": "pod",
        }
        settings = {
            "crio": {"storage_driver": "vfs", "log_dir": folder / "logs", "version_file": folder / "version",
                     "clean_shutdown_file": folder / "clean", "version_file_persist": ""},
            "crio.api": {"listen": self.socket},
            "crio.runtime": {"cgroup_manager": "cgroupfs", "default_runtime": "runc", "namespaces_dir": folder / "namespaces",
                             "container_exits_dir": folder / "exits", "container_attach_socket_dir": folder / "attach",
                             "pinns_path": shutil.which("pinns"), "apparmor_profile": "unconfined"},
            "crio.runtime.runtimes.runc": runc,
            "crio.image": {"pause_image": IMAGE, "pause_command": "", "signature_policy": folder / "policy.json"},
            "crio.network": {"network_dir": folder / "nets", "plugin_dirs": [str(folder)]},
            "crio.nri": {"enable_nri": False},
        }
        table = lambda rows: "".join(f"{key} = {json.dumps(value, default=str)}\n" for key, value in rows.items())  # noqa: E731
        file.write_text("".join(f"[{name}]\n{table(rows)}" for name, rows in settings.items()), encoding="ascii")
        bed.daemon(["crio", "--config", file, "--config-dir", folder / "more"], ["/usr/bin/python3", CRI, "version", self.socket])
        self.port = free_port()
        pod = ["prod", "till-6d5f7c9b8d-x2x4z", str(uuid.uuid4()), "web"]
        try:
            run(["/usr/bin/python3", CRI, "start", self.socket, IMAGE, *pod, "--", *command(self.port)], WAIT_S)
        except (Failed, subprocess.SubprocessError):
            # half a pod has mounts
            self.close()
            raise

    def close(self):
        subprocess.run(["/usr/bin/python3", CRI, "stop", self.socket], timeout=WAIT_S, capture_output=True, check=False)
        subprocess.run([*Podman.LINE, "rmi", "--force", IMAGE], timeout=WAIT_S, capture_output=True, check=False)


class Lxc:
    """An application container of lxc."""

    name = "lxc"
    needs = ("lxc-execute", "lxc-stop")

    def __init__(self, bed):
        self.called, self.port = f"wakepath-bench-{os.getpid()}", free_port()
        settings = {
            "lxc.rootfs.path": f"dir:{bed.root}", "lxc.net.0.type": "none",
            "lxc.mount.auto": "proc sys", "lxc.apparmor.profile": "unconfined",
        }
        file = bed.place / "lxc.conf"
        file.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()), encoding="ascii")
        run(["lxc-execute", "--name", self.called, "--daemon", "--rcfile", file, "--", *command(self.port)], WAIT_S)

    def close(self):
        subprocess.run(["lxc-stop", "--kill", "--name", self.called], timeout=WAIT_S, capture_output=True, check=False)


RUNTIMES = (Podman, Ctr, Pod, Docker, Lxc, CriO)


class Bed:
    """What containers are made of, and daemons that end with the bench."""

    def __init__(self, place):
        self.place, self.daemons, self.has_containerd = place / "names", [], False
        self.place.mkdir()
        self.root, self.image = make_root(self.place), self.place / "image.tar"
        make_image(self.root, self.image)

    def daemon(self, line, asked):
        """Starts a daemon, and waits until a client of it is answered."""
        log = self.place / f"{line[0]}.log"
        with open(log, "wb") as out:
            self.daemons.append(subprocess.Popen(line, stdout=out, stderr=out))
        limit = time.monotonic() + WAIT_S
        while subprocess.run(asked, capture_output=True, timeout=WAIT_S, check=False).returncode:
            if self.daemons[-1].poll() is not None or time.monotonic() > limit:
                raise Failed(f"{line[0]} did not start: {log.read_text(errors='replace')[-200:]}")
            time.sleep(0.2)

    def containerd(self):
        """A containerd of the bench's own, with its CRI plugin; once."""
        if self.has_containerd:
            return
        file = self.place / "containerd.toml"
        cri = '[plugins."io.containerd.grpc.v1.cri"]'
        text = f'version = 2\nroot = "{self.place}/containerd"\n{cri}\nsandbox_image = "{IMAGE}"\ndisable_apparmor = true\n'
        # a host within a host may not lower it
        text += "restrict_oom_score_adj = true\n"
        native = '[plugins."io.containerd.grpc.v1.cri".containerd]\nsnapshotter = "native"\n'
        file.write_text(text + native, encoding="ascii")
        self.daemon(["containerd", "--config", file], ["ctr", "version"])
        self.has_containerd = True

    def close(self):
        """Ends the daemons, the last one first."""
        for process in reversed(self.daemons):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=WAIT_S)


def ask(port):
    """A request; the server may still be starting."""
    limit = time.monotonic() + WAIT_S
    while True:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/index.html", timeout=10).read()
        if time.monotonic() > limit:
            raise Failed(f"no server in a container answered at port {port}")
        time.sleep(0.1)


def why_not(runtime):
    """Why there is nothing to try of a runtime here; None where there is."""
    lacking = [what for what in runtime.needs if not shutil.which(what)]
    if lacking:
        return f"not installed: {', '.join(lacking)}; remedy: scripts/install dist"
    return "a containerd runs here, and is left alone" if "containerd" in runtime.needs and os.path.exists(SOCKET) else None


def image_in_podman(bars, archive):
    """The image of the packages, as `docs/install.md` has it loaded."""
    bar = "image under podman: loads, and says its version"
    if reason := why_not(Podman):
        bars.undecided(bar, "", 1, reason)
        return
    said = run([*Podman.LINE, "load", "--quiet", "--input", archive], WAIT_S, stderr=subprocess.DEVNULL)
    name = said.strip().rsplit(maxsplit=1)[-1]
    try:
        said = run([*Podman.LINE, "run", "--rm", "--network=none", *Podman.LIMITS, name, "--version"], WAIT_S)
        bars.exactly(bar, int(said.startswith("wakepath ")), 1)
    finally:
        subprocess.run([*Podman.LINE, "rmi", "--force", name], timeout=WAIT_S, capture_output=True, check=False)


def record(wakepath, folder, containers):
    """Records the containers' servers while each is asked; then removes the containers, and ends the recording."""
    ready = folder.with_suffix(".ready")
    line = [wakepath, "record", "-o", folder, "--ready-file", ready, *(f"--port={c.port}" for c in containers)]
    with open(folder.with_suffix(".log"), "wb") as log:
        process = subprocess.Popen(line, stdout=log, stderr=log)
    try:
        wait_for_file(ready, process, "wakepath record")
        for container in containers:
            ask(container.port)
        time.sleep(0.5)
        for container in containers:
            container.close()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=WAIT_S)


def names(bars, place, wakepath):
    """Containers that ran before the recording, and were removed before it was read."""
    reasons = {runtime.name: why_not(runtime) for runtime in RUNTIMES}
    try:
        bed, started = Bed(place), []
    except Failed as failure:
        bars.undecided("containers: called by their names", "", 1, str(failure))
        return
    try:
        for runtime in RUNTIMES:
            if reasons[runtime.name]:
                bars.undecided(f"{runtime.name}: called by its name", "", 1, reasons[runtime.name])
                continue
            try:
                started.append(runtime(bed))
            except (Failed, OSError, subprocess.SubprocessError) as failure:
                bars.undecided(f"{runtime.name}: called by its name", "", 1, f"it starts no container here: {failure}")
        for container in started:
            ask(container.port)
        folder = bed.place / "trace"
        record(wakepath, folder, started)
        services = {kind["service"] for kind in json.loads(run([wakepath, "requests", folder, "--json"], 60))["kinds"]}
        for container in started:
            wanted = f"{container.called}/busybox:{container.port}"
            bars.exactly(f"{container.name}: called by its name, after it is gone", int(wanted in services), 1)
        print(f"  services: {', '.join(sorted(services))}", file=sys.stderr)
    finally:
        for container in started:
            container.close()
        bed.close()
