"""Troubles: each is one cause of slow requests that `bench/waits` puts into some requests of the demo stack, and which
`wakepath why` must name.

A trouble is a class with a name; a module lists its own in `TROUBLES`, and `bench/waits` lists the modules. What the
application must do for one is a function of the same name in `testbeds/demo/inject.py`.
"""

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import time

from .programs import ROOT, Failed, Recording, program, run, server, vload

TOOLS = ROOT / "testbeds" / "cases" / "tools"
KIND = "GET /work"
RATE = 80
# How much slower than the others those must be, that there is something to explain.
SLOWDOWN_MIN = 2.0
# As many of the slowest must be theirs, all but one.
SLOWEST = 3
# As long as the longest, nearly: which of them is the slowest may differ by who looks.
NEARLY = 0.9
# Times as long as the usual one that a trouble of a fixed length may be and still have made most of it.
STEADY_MAX = 1.8


def is_of(program_name, difference):
    """Whether it is in a service of this program: NAME:PORT."""
    return difference["service"].split(":")[0] == program_name


def overlap(a, b):
    """How much two (begin, end) have in common."""
    return max(0, min(a[1], b[1]) - max(a[0], b[0]))


def ask(trace, *question):
    """The answer of `wakepath COMMAND TRACE ...` as JSON."""
    command, *flags = question
    return json.loads(run([program("wakepath"), command, trace, *map(str, flags), "--json"], 60))


class Trouble:
    """One injected cause: how it is made outside, which requests it hits, and what the right answer is."""

    # what the bench and the application call it
    name = None
    # what `why` calls it
    cause = None
    # whether the request asks for it (else a time does)
    by_request = True
    # whether it hits those under way beside one that asks for it, too
    is_shared = False
    # of 100 requests, how many ask for it: more than the slowest hundredth, and far from most
    share = 4
    # whether "not known", with the reason, is as good as its name: where no evidence can carry more
    may_be_unknown = False
    # whether it takes about as long each time
    is_steady = False
    # what `wakepath record` is asked for besides
    record_flags = ()
    # seconds recorded a round: in all, and with --quick
    seconds, quick_seconds = 3, 2.5

    def __init__(self, place, host, stack):
        self.place, self.host, self.stack = place, host, stack
        place.mkdir()

    @contextlib.contextmanager
    def outside(self):
        """What must be so beside the application."""
        yield

    def in_app(self, name):
        """A file in the application's folder."""
        return pathlib.Path(self.stack.env["STACK_DIR"]) / "gunicorn" / name

    def mix(self):
        """The load's."""
        if not self.by_request:
            return "/work=1"
        return f"/work={100 - self.share},/work?cause={self.name}={self.share}"

    def hit(self, line):
        """Whether this request, a line of the load's truth, was meant to be slow."""
        return line["path"] != "/work"

    def record(self, seconds):
        """One recording under the load; gives trace and truth."""
        trace, truth = self.place / "trace", self.place / "truth.jsonl"
        pids = (self.stack.env[f"{part}_PID"] for part in ("NGINX", "GUNICORN", "PG", "REDIS"))
        with Recording(trace, *(flag for pid in pids for flag in ("--pid", pid))):
            load = ["--connections", 6, "--rate", RATE, "--duration", f"{seconds}s", "--mix", self.mix()]
            vload(self.stack.url, *load, truth=truth, prefix=self.host.prefix)
            # what is written after the last reply
            time.sleep(0.2)
        return trace, truth

    def strength(self, truth):
        """How much slower the slowest requests were than those that the trouble did not hit, and whether it made them
        slow, by the load's own clock: on a busy machine others may be as slow, of other reasons."""
        lines = [json.loads(line) for line in truth.read_text().splitlines()]
        spans = [(line["start_ns"], line["end_ns"]) for line in lines]
        asked = [span for span, line in zip(spans, lines) if self.hit(line)]
        near = asked if self.is_shared else ()
        is_hit = [span in asked or any(overlap(span, other) for other in near) for span in spans]
        times = sorted((span[1] - span[0], hit) for span, hit in zip(spans, is_hit))
        rest = [ns for ns, is_hit in times if not is_hit]
        if len(rest) < len(times) // 8:
            return 0.0, False
        slowest = times[-SLOWEST:]
        longest = statistics.median(ns for ns, _ in slowest)
        is_theirs = sum(not is_hit for _, is_hit in slowest) <= 1
        is_theirs = is_theirs and rest[len(rest) * 9 // 10] * SLOWDOWN_MIN <= longest
        # the slowest request is asked about: it, and whoever took nearly as long, must be theirs
        is_theirs = is_theirs and all(hit for ns, hit in times if ns >= times[-1][0] * NEARLY)
        # and where all that it does takes as long, what took another one far longer was something else
        hits = [ns for ns, hit in times if hit]
        is_theirs = is_theirs and not (self.is_steady and times[-1][0] > STEADY_MAX * statistics.median(hits))
        return longest / statistics.median(rest), is_theirs

    def is_slice(self, part):
        """Whether this slice of an active path is the trouble."""
        raise NotImplementedError

    def is_where(self, difference):
        """Whether a difference that `why` gives this cause is also there where the trouble was made."""
        raise NotImplementedError

    def is_first(self, difference):
        """Whether this difference, the first of `why`, is the trouble."""
        return difference["cause"] == self.cause and self.is_where(difference)

    def verdicts(self, trace):
        """What was answered, question by question: (question, "named" | "not known" | "false", in words)."""
        part, (first, sentence) = largest_part(trace), ranked_first(trace)
        in_path = "named" if self.is_slice(part) else "not known" if part["state"] == "unknown" else "false"
        yield "largest part of the slowest request's path", in_path, f"the path's largest is {part}"
        if not first:
            yield "ranked first by `why`", "not known", sentence
            return
        in_why = "named" if self.is_first(first) else "not known" if is_not_known(first) else "false"
        yield "ranked first by `why`", in_why, f"first is {in_words(first)}"


def is_not_known(difference):
    """Whether `why` says that it does not know, and for what reason."""
    return difference["cause"] == "unknown" and any(part["reason"] for part in difference["parts"])


def largest_part(trace):
    """Of the slowest request's critical path: the state that took most, with its longest slice's task and object."""
    sums = {}
    for part in ask(trace, "waits", "--request", "slowest", "--kind", KIND)["slices"]:
        total, longest = sums.get((part["state"], part["wait"]), (0, part))
        longest = max(longest, part, key=lambda p: p["duration_ns"])
        sums[part["state"], part["wait"]] = (total + part["duration_ns"], longest)
    return max(sums.values(), key=lambda s: s[0])[1]


def ranked_first(trace):
    """What `wakepath why` puts first: the whole difference, or nothing where it says that nothing can be said; and what it says."""
    kinds = ask(trace, "why", "--kind", KIND)["kinds"]
    if not kinds:
        raise Failed(f"wakepath why compares no requests of {KIND}")
    return next(iter(kinds[0]["differences"]), None), kinds[0]["sentence"]


def in_words(difference):
    """A difference, for who looks for the reason of a miss."""
    by = [part["by"] for part in difference["parts"] if part["by"]]
    return f"{difference['text']} ({difference['cause']}, {difference['share']:.0%}, by {', '.join(by) or 'nobody'})"


class Lock(Trouble):
    """Another request holds a row that the transaction updates."""

    name = cause = "lock"

    @contextlib.contextmanager
    def outside(self):
        line = [*self.host.prefix, program("vload"), "--url", self.stack.url, "--connections", 1, "--duration", "600s"]
        with server([*line, "--mix", "/hold?ms=250=1"], stderr=subprocess.DEVNULL):
            yield

    def is_slice(self, part):
        return "lock" in (part["state"], part["wait"]) and part["task"].startswith("postgres/")

    def is_where(self, difference):
        return is_of("postgres", difference) and difference["by"] == "postgres"


class Neighbour(Trouble):
    """Others compute on the processor of the application's workers, now and then."""

    name, cause = "neighbour", "preempted"
    by_request = False
    # before the stack, which is before everybody else
    COUNT, NICE, BURST_MS, EVERY_MS = 4, -20, 200, 1500

    @contextlib.contextmanager
    def outside(self):
        cpu = max(os.sched_getaffinity(0))
        line = [TOOLS / "neighbour", cpu, "--count", self.COUNT, "--nice", self.NICE]
        line += ["--burst", self.BURST_MS, "--every", self.EVERY_MS, "--truth", self.bursts]
        self.pin({cpu})
        try:
            with server([*line, "--seconds", 600], first_line=True):
                yield
        finally:
            self.pin(os.sched_getaffinity(0))

    @property
    def bursts(self):
        """When they computed."""
        return self.place / "bursts.jsonl"

    def hit(self, line):
        bursts = [json.loads(burst) for burst in self.bursts.read_text().splitlines()]
        when = (line["start_ns"], line["end_ns"])
        return any(overlap(when, (burst["begin_ns"], burst["end_ns"])) for burst in bursts)

    def pin(self, cpus):
        """Puts the application's workers there."""
        for pid in self.stack.processes():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/cwd").endswith("/gunicorn"):
                    os.sched_setaffinity(pid, cpus)

    def is_slice(self, part):
        return part["state"] == "preempted"

    def is_where(self, difference):
        # of the workers, or of those that answer them: these may be on that processor too
        return difference["by"] == "neighbour"


class Disk(Trouble):
    """Commits wait for the log while others flush files on the same disk."""

    name = cause = "disk"

    @contextlib.contextmanager
    def outside(self):
        line = [TOOLS / "storm", self.place, "--threads", 10, "--bytes", 32 << 20, "--nice", 0, "--seconds", 600]
        with server(line, first_line=True):
            yield

    def is_slice(self, part):
        return "disk" in (part["state"], part["wait"]) and part["task"].startswith("postgres/")

    def is_where(self, difference):
        # in fdatasync, or in a futex behind another backend that is in it
        return is_of("postgres", difference) and any(part in (difference["object"] or "") for part in ("device ", "/pg_wal/"))


class Network(Trouble):
    """A large answer of the database comes through a narrow link."""

    name = cause = "network"
    is_shared = True
    has_dropped = False

    @contextlib.contextmanager
    def outside(self):
        self.host.narrow(int(self.stack.env["PG_PORT"]), 20_000_000)
        try:
            yield
        finally:
            self.host.widen()

    def record(self, seconds):
        before = self.host.dropped()
        recorded = super().record(seconds)
        self.has_dropped = self.host.dropped() > before
        return recorded

    def is_first(self, difference):
        # a packet may be lost in the link's queue: by the kernel's own counters, and only then
        causes = (self.cause, "packet_loss") if self.has_dropped else (self.cause,)
        return difference["cause"] in causes and self.is_where(difference)

    def is_slice(self, part):
        return part["state"] == "network" and (part["object"] or "").endswith(f":{self.stack.env['PG_PORT']}")

    def is_where(self, difference):
        return difference["object"] == f"between gunicorn and postgres:{self.stack.env['PG_PORT']}"


class Dns(Trouble):
    """The resolver takes its time."""

    name = cause = "dns"

    @contextlib.contextmanager
    def outside(self):
        line = [*self.host.prefix, TOOLS / "slow-dns", "127.0.0.1", 53, "--delay-ms", 200, "--seconds", 600]
        with server(line, first_line=True):
            yield

    def is_slice(self, part):
        return part["state"] == "network" and (part["object"] or "").endswith(":53")

    def is_where(self, difference):
        return is_of("gunicorn", difference) and difference["object"] == "127.0.0.1:53"


class Timer(Trouble):
    """The application sleeps."""

    name = cause = "timer"
    is_steady = True

    def is_slice(self, part):
        return part["state"] == "timer" and part["task"].startswith("gunicorn/")

    def is_where(self, difference):
        return is_of("gunicorn", difference) and difference["syscall"] == "clock_nanosleep"


TROUBLES = (Lock, Neighbour, Disk, Network, Dns, Timer)
