"""Building, starting and stopping what is measured. Everything runs in one temporary folder and ends with the bench."""

import atexit
import contextlib
import functools
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BIN = pathlib.Path(os.environ.get("WAKEPATH_BIN", TARGET / "release")).resolve()
TESTBEDS = ("vapp", "load", "rpc", "score")
PACKAGES = ["wakepath", "wakepath-preload", *(f"wakepath-testbed-{name}" for name in TESTBEDS)]
WAIT_S = 120


class Failed(Exception):
    """A program did not do what it should."""


def others(name):
    """A recording of other people: a path in the folder that WAKEPATH_DATA names, or None where it names none."""
    folder = os.environ.get("WAKEPATH_DATA")
    path = pathlib.Path(folder) / name if folder else None
    return path if path and path.is_file() else None


def build():
    """Builds all in release mode; WAKEPATH_NO_BUILD=1 takes what is there, WAKEPATH_BIN=DIR what is in that folder."""
    if os.environ.get("WAKEPATH_NO_BUILD") != "1" and "WAKEPATH_BIN" not in os.environ:
        line = ["cargo", "build", "--release", "--quiet", "--manifest-path", str(ROOT / "Cargo.toml")]
        for package in PACKAGES:
            line += ["-p", package]
        subprocess.run(line, check=True, stdout=sys.stderr)


def program(name):
    """Where a built program is."""
    return str(BIN / name)


def require_rights():
    """Recording needs root."""
    if os.geteuid() != 0:
        sys.exit("this bench records through the kernel and needs root; remedy: sudo")


def scratch():
    """A folder that goes away with the bench, and so do the servers and recorders that it started, if it is ended as `timeout` does, too.
    PostgreSQL's user must get through it."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    path = pathlib.Path(tempfile.mkdtemp(prefix="wakepath-bench-"))
    path.chmod(0o711)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def wait_for_file(path, process, what):
    """Until a file is there; its maker must live."""
    limit = time.monotonic() + WAIT_S
    while not path.exists():
        if process.poll() is not None or time.monotonic() > limit:
            raise Failed(f"{what} did not start")
        time.sleep(0.02)


def run(line, seconds, **more):
    """Runs a program to its end and gives its standard output."""
    done = subprocess.run(line, timeout=seconds, stdout=subprocess.PIPE, text=True, check=False, **more)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, line[:3]))} ended with {done.returncode}")
    return done.stdout


def cpu_seconds(pid):
    """What a process has used, all threads, ended ones too."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_seconds(pid):
    """What a process has used, by the scheduler's own nanoseconds; threads that ended are not in it."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            total += int(task.read_text().split()[0])
    return total / 1e9


class Recording:
    """`wakepath record` as a context; afterwards its own costs are known."""

    def __init__(self, folder, *flags):
        self.folder = pathlib.Path(folder)
        self.flags = [str(f) for f in flags]
        self.process = None
        self.cpu_s = self.resident_bytes = None
        self.said = ""

    def __enter__(self):
        ready = self.folder.with_name(self.folder.name + ".ready")
        ready.unlink(missing_ok=True)
        log = open(self.folder.with_name(self.folder.name + ".log"), "w+", encoding="utf-8")
        self.log = log
        line = [program("wakepath"), "record", "-o", self.folder, "--force", "--ready-file", ready, *self.flags]
        self.process = subprocess.Popen(line, stdout=log, stderr=log)
        try:
            wait_for_file(ready, self.process, "wakepath record")
        except Failed:
            self.process.kill()
            log.seek(0)
            raise Failed(f"wakepath record: {log.read().strip()}") from None
        self.cpu_at_start = cpu_seconds(self.process.pid)
        return self

    def __exit__(self, *problem):
        self.process.send_signal(signal.SIGINT)
        pid, status, usage = os.wait4(self.process.pid, 0)
        assert pid == self.process.pid
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_s = usage.ru_utime + usage.ru_stime - self.cpu_at_start
        self.resident_bytes = usage.ru_maxrss * 1024
        self.log.seek(0)
        self.said = self.log.read()
        self.log.close()
        if self.process.returncode != 0 and problem[0] is None:
            raise Failed(f"wakepath record: {self.said.strip()}")

    def events(self):
        """Events that the kernel handed over: rows of the tables that are not made from others."""
        about = json.loads(run([program("wakepath"), "info", self.folder, "--json"], 120))
        made = {"operations", "flow_states", "waits", "polls", "tasks", "endpoints"}
        return sum(t["rows"] for h in about["hosts"] for t in h["tables"] if t["table"] in made)

    def lost(self):
        """Losses by defect, as `wakepath info` shows them."""
        about = json.loads(run([program("wakepath"), "info", self.folder, "--json"], 120))
        return {loss["id"]: loss["count"] for loss in about["losses"]}


def score(trace, truth, *flags):
    """`wakepath-score`, whatever it finds."""
    line = [program("wakepath-score"), str(trace), str(truth), "--json", *map(str, flags)]
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600, text=True, check=False)
    if done.returncode not in (0, 1):
        raise Failed(f"wakepath-score: {done.stderr.strip()[-300:]}")
    found = json.loads(done.stdout)
    if done.returncode == 1 or found["paths"]["completeness"] < 1:
        keep(trace, truth)
    return found


def explain(trace, truth, *flags):
    """Says on standard error what is wrong in a trace, and what was lost."""
    line = [program("wakepath-score"), str(trace), str(truth), "--show", "3", "--show-incomplete", "3", *map(str, flags)]
    subprocess.run(line, stdout=sys.stderr, stderr=subprocess.STDOUT, timeout=600, check=False)
    info = run([program("wakepath"), "info", trace, "--json"], 120)
    print("  lost:", json.loads(info)["losses"] or "nothing", file=sys.stderr)


def keep(trace, truth, name=None):
    """WAKEPATH_BENCH_KEEP=DIR keeps the traces in which something was wrong, by this name or the folder's."""
    where = os.environ.get("WAKEPATH_BENCH_KEEP")
    if where:
        place = pathlib.Path(where) / (name or pathlib.Path(trace).parent.name)
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(trace, place / "trace")
        if truth:
            shutil.copy(truth, place / "truth.jsonl")
        print(f"  kept: {place}", file=sys.stderr)


def record_vapp(place, model, *args, flags=(), everything=False, held_s=0):
    """Records one vapp run; gives trace, truth, the recording and the run's summary. `held_s`: after so
    long the recorder does not come to its work for as long."""
    place.mkdir(parents=True)
    up, go, truth = place / "up", place / "go", place / "truth.jsonl"
    line = [program("vapp"), "run", "--json", "--model", model, "--truth", truth]
    line += ["--ready-file", up, "--start-file", go, *map(str, args)]
    vapp = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    try:
        wait_for_file(up, vapp, "vapp")
        only = () if everything else ("--pid", json.loads(up.read_text())["run_pid"])
        with Recording(place / "trace", *only, *flags) as recording:
            go.touch()
            if held_s:
                time.sleep(held_s)
                recording.process.send_signal(signal.SIGSTOP)
                time.sleep(held_s)
                recording.process.send_signal(signal.SIGCONT)
            said, _ = vapp.communicate(timeout=300)
            # what lies in the rings when the last reply is read
            time.sleep(0.1)
    finally:
        if vapp.poll() is None:
            vapp.terminate()
            vapp.wait()
    if vapp.returncode != 0:
        raise Failed(f"vapp {model} ended with {vapp.returncode}")
    return place / "trace", truth, recording, json.loads(said)


class Stack:
    """The demo stack as a context; `host` is the namespace in which it runs."""

    def __init__(self, place, *options, host=None):
        self.place = pathlib.Path(place)
        self.options = options
        self.prefix = host.prefix if host else []
        self.script = str(ROOT / "testbeds" / "demo" / "stack")

    def __enter__(self):
        self.place.mkdir(parents=True, exist_ok=True)
        run([*self.prefix, self.script, "up", self.place, *map(str, self.options)], 120, stderr=subprocess.DEVNULL)
        lines = (self.place / "env").read_text().splitlines()
        self.env = dict(line.split("=", 1) for line in lines if "=" in line)
        return self

    def __exit__(self, *_):
        subprocess.run([self.script, "down", self.place], timeout=60, check=False, stderr=subprocess.DEVNULL)

    @property
    def url(self):
        """Where it answers."""
        return self.env["WEB_URL"]

    def selection(self):
        """Flags that select its processes alone."""
        ports = (self.env[name] for name in ("WEB_PORT", "APP_PORT", "PG_PORT", "REDIS_PORT"))
        return [flag for port in ports for flag in ("--port", port)]

    def processes(self):
        """All its processes: those that run in its folders."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if os.readlink(entry / "cwd").startswith(str(self.place.resolve()) + "/"):
                        found.append(int(entry.name))
        return found

    def favour(self, niceness):
        """Gives all its tasks this niceness; those that they make later have it too."""
        for pid in self.processes():
            for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
                with contextlib.suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, int(task.name), niceness)
            # with autogroups (sched(7)) niceness counts within a session alone; against others, that of the session does
            with contextlib.suppress(OSError):
                pathlib.Path(f"/proc/{pid}/autogroup").write_text(str(niceness), encoding="ascii")

    def cpu_seconds(self):
        """What its processes have used, by the scheduler's own nanoseconds; who ended is not in it."""
        return sum(run_seconds(pid) for pid in self.processes())


def vload(url, *args, truth=None, seconds=300, prefix=()):
    """Runs the load generator and gives its summary."""
    line = [*prefix, program("vload"), "--url", url, "--json", *map(str, args)]
    if truth:
        line += ["--truth", str(truth)]
    return json.loads(run(line, seconds, stderr=subprocess.DEVNULL))


class Namespace:
    """A network namespace of its own as a context: a host as far as addresses, resolver and links go."""

    def __init__(self, name):
        self.name = f"wakepath-{name}-{os.getpid()}"
        self.prefix = ["ip", "netns", "exec", self.name]
        # `ip netns exec` lays it over /etc/resolv.conf for those that it starts
        self.settings = pathlib.Path("/etc/netns") / self.name

    def __enter__(self):
        run(["ip", "netns", "add", self.name], 10)
        atexit.register(self.__exit__)
        run([*self.prefix, "ip", "link", "set", "lo", "up"], 10)
        self.settings.mkdir(parents=True)
        text = "nameserver 127.0.0.1\noptions timeout:5 attempts:1\n"
        (self.settings / "resolv.conf").write_text(text, encoding="ascii")
        return self

    def __exit__(self, *_):
        atexit.unregister(self.__exit__)
        subprocess.run(["ip", "netns", "delete", self.name], timeout=10, check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.settings, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.settings.parent.rmdir()

    def narrow(self, port, bits_per_s):
        """Lets what leaves a port of its loopback through at this rate; everything else is not held up."""
        tc = [*self.prefix, "tc"]
        run([*tc, "qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb"], 10)
        kinds = ["htb", "rate", str(bits_per_s), "burst", "16k", "cburst", "16k", "quantum", "65536"]
        run([*tc, "class", "add", "dev", "lo", "parent", "1:", "classid", "1:2", *kinds], 10)
        match = ["protocol", "ip", "u32", "match", "ip", "sport", str(port), "0xffff", "flowid", "1:2"]
        run([*tc, "filter", "add", "dev", "lo", "parent", "1:", *match], 10)

    def dropped(self):
        """Packets that found no room in the queues of its loopback since `narrow`."""
        said = run([*self.prefix, "tc", "-s", "class", "show", "dev", "lo"], 10)
        said += run([*self.prefix, "tc", "-s", "qdisc", "show", "dev", "lo"], 10)
        return sum(int(count) for count in re.findall(r"dropped (\d+)", said))

    def widen(self):
        """Ends what `narrow` began."""
        run([*self.prefix, "tc", "qdisc", "delete", "dev", "lo", "root"], 10)


def alternate(rounds, *ways):
    """Runs every way once a round, each round in another order; gives the results of each round in the order given."""
    rows = []
    for i in range(rounds):
        order = [(i + k) % len(ways) for k in range(len(ways))]
        found = {k: ways[k]() for k in order}
        rows.append(tuple(found[k] for k in range(len(ways))))
    return rows


@contextlib.contextmanager
def server(line, first_line=False, **more):
    """A server process for a while; with `first_line`, gives the first line that it prints."""
    out = subprocess.PIPE if first_line else subprocess.DEVNULL
    process = subprocess.Popen([str(x) for x in line], stdout=out, text=True, **more)
    try:
        yield process.stdout.readline().split() if first_line else process
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def until_answered(port, process):
    """Waits until somebody listens there."""
    limit = time.monotonic() + WAIT_S
    while True:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        if process.poll() is not None or time.monotonic() > limit:
            raise Failed("a middle tier did not start")
        time.sleep(0.05)


def free_port():
    """A port of loopback that nobody has now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def java_version(java):
    """The major version of a Java, 0 without one."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
        return int(said.split('"')[1].split(".")[0])
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        return 0


def pools(place):
    """Builds testbeds/pools. Gives the service behind, and by name each server, or why it cannot be had."""
    code = ROOT / "testbeds" / "pools"
    place.mkdir()
    line = ["cargo", "build", "--release", "--quiet", "--locked", "--manifest-path", code / "Cargo.toml"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise Failed(f"testbeds/pools cannot be built: {done.stderr.strip()[-200:]}")
    own = TARGET if "CARGO_TARGET_DIR" in os.environ else code / "target"
    built = own / "release" / "pools"
    programs = {"Tokio, hyper": [built, "tokio"]}
    go = shutil.which("go", path=os.environ.get("PATH", "") + ":/usr/local/go/bin")
    if go:
        line = [go, "build", "-o", place / "go-pool", code / "pool.go"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=600, check=False)
        programs["Go, net/http"] = done.stderr.strip()[-200:] if done.returncode else [place / "go-pool"]
    else:
        programs["Go, net/http"] = "no go here"
    java, compiler = os.environ.get("WAKEPATH_BENCH_JAVA", "java"), shutil.which("javac")
    version = java_version(java)
    if not compiler or version < 17:
        programs["Java"] = "java and javac, 17 or later, are needed"
        return [built, "up"], programs
    # what compiles may be older than what runs
    line = [compiler, "--release", "17", "-d", place, code / "Pool.java"]
    subprocess.run(line, timeout=120, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    programs["Java, threads"] = [java, "-cp", place, "Pool", "threads"]
    virtual = [java, "-cp", place, "Pool", "virtual"]
    programs["Java, virtual threads"] = virtual if version > 20 else "Java 21 is needed: WAKEPATH_BENCH_JAVA=PROGRAM"
    return [built, "up"], programs


@functools.cache
def tokio_clients():
    """Builds testbeds/clients."""
    code = ROOT / "testbeds" / "clients"
    line = ["cargo", "build", "--release", "--quiet", "--locked", "--manifest-path", code / "Cargo.toml"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode:
        raise Failed(f"testbeds/clients cannot be built: {done.stderr.strip()[-200:]}")
    own = TARGET if "CARGO_TARGET_DIR" in os.environ else code / "target"
    return own / "release" / "clients"


def many_files():
    """Many sessions need many descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < min(hard, 65536):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
