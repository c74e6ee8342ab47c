"""What every case of `bench/forecast` is: a real system that runs as it is and with changes really made, under a load.

A case starts what all need in `__enter__` and ends it in `__exit__`; `system` starts what is as it is or changed, and
both are there at the same time. A `Load` loads one of them once and gives what came
of it by the load's own clock; with a folder, it records meanwhile. The bench records the system as it is, asks for
forecasts from that recording alone, and then measures each of the case's steps.
"""

import concurrent.futures
import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import signal
import subprocess
import time

from .programs import Failed, Recording, free_port, program, run, vload

# Length of a recording, and of each turn in which a system is measured (s).
SECONDS, TURN_S = 6.0, 2.0
# What is started anew is warmed up, and what was idle a little (s).
WARM_S, AGAIN_S = 1.0, 0.2
# Of the cgroups' CPU quotas (us): short, so that who has used up its share waits milliseconds, not a tenth of a second.
PERIOD_US = 10_000


class Refused(Failed):
    """`wakepath forecast` gave a reason instead of an answer."""


@dataclasses.dataclass(frozen=True)
class Step:
    """A change really made, or several: always told from the system as recorded on."""

    # for the table: `4 workers`
    label: str
    # `--change` arguments, all of them
    changes: tuple
    # what must be named as limiting the system after the change: a regular expression that is looked for, in any case,
    # in the words of the next bottleneck; None = not asked for
    next_bottleneck: str | None = None


@dataclasses.dataclass(frozen=True)
class Truth:
    """What came of a load: requests (or bytes) in a time, and the mean latency, by the load's own clock."""

    count: int
    elapsed_s: float
    # mean latency, None where there is none (streams)
    mean_ns: float | None

    @property
    def throughput(self):
        """Per second."""
        return self.count / self.elapsed_s

    def __add__(self, other):
        """Both, one after the other."""
        count = self.count + other.count
        mean_ns = None
        if self.mean_ns is not None and other.mean_ns is not None:
            mean_ns = (self.count * self.mean_ns + other.count * other.mean_ns) / count
        return Truth(count, self.elapsed_s + other.elapsed_s, mean_ns)

    def shown(self):
        """For people and for truth.json."""
        mean_ms = None if self.mean_ns is None else round(self.mean_ns / 1e6, 4)
        return {"throughput": round(self.throughput, 3), "mean_ms": mean_ms, "count": self.count}


class Case:
    """A system, its load and its changes. One is made for a whole bench."""

    # what `bench/forecast NAME` runs; the number is only for the table's order
    name = None
    number = 0
    # what throughput counts: `requests` or `bytes`
    unit = "requests"
    # whether `--quick` has it
    is_quick = False
    # whether it may be refused, with a reason; what is answered must be inside the printed bar
    may_be_refused = False
    # further flags of `wakepath forecast`, such as ("--request", "GET /work")
    flags = ()
    # what must be named as limiting the system as it is, as `Step.next_bottleneck`
    bottleneck = None
    # what must be named by `--next`, one after the other from the system as it is
    following = ()
    # length of a turn (s), where other than the bench's
    turn_s = None

    def __init__(self, place):
        # a folder of its own
        self.place = pathlib.Path(place)
        self.place.mkdir(parents=True, exist_ok=True)

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        pass

    def steps(self):
        """The changes, in order; known once the case is entered (ports are in names)."""
        raise NotImplementedError

    def system(self, step):
        """A context: the system as it is (`step` None) or with the step's changes really made, ready to be loaded.
        Gives a function of seconds and, to record meanwhile, a folder, that loads it and gives a `Truth`. It raises
        `Failed` where something did not do what it should."""
        raise NotImplementedError

    def measure(self, step, seconds, trace=None):
        """Loads the system once."""
        with self.system(step) as load:
            return load(seconds, trace)


class Quota:
    """A share of one processor for the processes in it (a cgroup's CPU quota), as a context. `prefix` starts a program
    in it. They stay on the last processor: on several, each may overdraw the quota until its next tick, and a fifth of
    a processor was a quarter. Needs root; version 1 or 2 of cgroups."""

    V1 = pathlib.Path("/sys/fs/cgroup/cpu")
    V2 = pathlib.Path("/sys/fs/cgroup")
    numbers = itertools.count()

    def __init__(self, name, share, period_us=PERIOD_US):
        self.period_us = period_us
        self.is_v1 = (self.V1 / "cpu.cfs_quota_us").exists() or (self.V1 / "cgroup.procs").exists()
        self.folder = (self.V1 if self.is_v1 else self.V2) / f"wakepath-{name}-{os.getpid()}-{next(self.numbers)}"
        self.share = share

    def __enter__(self):
        if not self.is_v1:
            with contextlib.suppress(OSError):
                (self.V2 / "cgroup.subtree_control").write_text("+cpu", encoding="ascii")
        try:
            self.folder.mkdir()
            self.set(self.share)
        except OSError as problem:
            raise Failed(f"no CPU quota can be set: {problem}") from problem
        return self

    def __exit__(self, *problem):
        # processes in it may need a moment to be gone
        for _ in range(100):
            try:
                self.folder.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.05)

    def set(self, share):
        """Changes the share, also under way."""
        self.share = share
        quota = str(int(share * self.period_us))
        if self.is_v1:
            (self.folder / "cpu.cfs_period_us").write_text(str(self.period_us), encoding="ascii")
            (self.folder / "cpu.cfs_quota_us").write_text(quota, encoding="ascii")
        else:
            (self.folder / "cpu.max").write_text(f"{quota} {self.period_us}", encoding="ascii")

    def take(self, pid):
        """Puts a process that runs into the group."""
        (self.folder / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def leave(self, pid):
        """Puts it into the group above; one that has ended needs that no more."""
        with contextlib.suppress(OSError):
            (self.folder.parent / "cgroup.procs").write_text(str(pid), encoding="ascii")

    @property
    def prefix(self):
        """Put before a command line: the program starts in the group, and so do all its children."""
        processor = str(max(os.sched_getaffinity(0)))
        enter = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.folder / "cgroup.procs")]
        return ["taskset", "--cpu-list", processor, *enter]


@contextlib.contextmanager
def served(line, port, place, **more):
    """A server process in a session of its own until the end of the context; gives its pid once the port answers. All
    that it started ends with it."""
    with open(place / "server.log", "a", encoding="utf-8") as log:
        process = subprocess.Popen([str(x) for x in line], stdout=log, stderr=log, start_new_session=True, **more)
    try:
        wait_for_port(port, process)
        yield process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for_port(port, process, seconds=20):
    """Until somebody listens there."""
    wanted = f":{port:04X}"
    limit = time.monotonic() + seconds
    while True:
        for line in pathlib.Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[1].endswith(wanted) and fields[3] == "0A":
                return
        if process.poll() is not None or time.monotonic() > limit:
            raise Failed(f"nobody listens on port {port}")
        time.sleep(0.02)


class Load:
    """`vload` at an address with these flags; what `watch` (flags of `wakepath record`) selects is recorded. Warms up
    the system at once."""

    def __init__(self, url, place, *flags, watch=(), prefix=()):
        self.url, self.place, self.flags, self.watch, self.prefix = url, place, flags, watch, prefix
        self.go(WARM_S)

    def go(self, seconds, **more):
        """The load alone, for so long."""
        return vload(self.url, *self.flags, "--duration", f"{seconds}s", prefix=self.prefix, **more)

    def __call__(self, seconds, trace=None):
        """Loads it for so long, and records into a folder where one is given."""
        truth = self.place / "truth.jsonl"
        self.go(AGAIN_S)
        with Recording(trace, *self.watch) if trace else contextlib.nullcontext():
            said = self.go(seconds, truth=truth)
            # what is written after the last reply
            time.sleep(0.2)
        spans = []
        with open(truth, encoding="ascii") as lines:
            for line in lines:
                told_of = json.loads(line)
                spans.append((told_of["start_ns"], told_of["end_ns"]))
        if said["unexpected"] or len(spans) != said["answered"]:
            raise Failed(f"the load was not answered as it should: {said['errors'] or said['statuses']}")
        elapsed_ns = max(end for _, end in spans) - min(start for start, _ in spans)
        return Truth(len(spans), elapsed_ns / 1e9, sum(end - start for start, end in spans) / len(spans))


class Loads(Load):
    """Several loads at an address at the same time, each with its own flags: groups of clients."""

    def go(self, seconds, truth=None, **more):
        """All of them, for so long; what they said together."""

        def one(at_and_flags):
            at, flags = at_and_flags
            own = {"truth": f"{truth}.{at}"} if truth else {}
            return vload(self.url, *flags, "--duration", f"{seconds}s", prefix=self.prefix, **own, **more)

        with concurrent.futures.ThreadPoolExecutor(len(self.flags)) as pool:
            said = list(pool.map(one, enumerate(self.flags)))
        if truth:
            parts = [pathlib.Path(f"{truth}.{at}").read_text(encoding="ascii") for at in range(len(self.flags))]
            pathlib.Path(truth).write_text("".join(parts), encoding="ascii")
        both = {key: sum(of[key] for of in said) for key in ("unexpected", "answered")}
        return {**both, "errors": [of["errors"] for of in said], "statuses": [of["statuses"] for of in said]}


def free_ports(count):
    """So many different ports that nobody has now."""
    found = []
    while len(found) < count:
        port = free_port()
        if port not in found:
            found.append(port)
    return found


def told(trace, changes, flags=()):
    """`wakepath forecast` of these changes, as its JSON; None where this program has no such command."""
    line = [program("wakepath"), "forecast", str(trace), "--json", *flags]
    for change in changes:
        line += ["--change", change]
    if "forecast" not in run([program("wakepath"), "--help"], 10):
        return None
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, text=True, check=False)
    if done.returncode == 1:
        raise Refused(f"wakepath forecast: {done.stderr.strip()[:400]}")
    if done.returncode != 0:
        raise Failed(f"wakepath forecast: {done.stderr.strip()[-400:]}")
    return json.loads(done.stdout)
