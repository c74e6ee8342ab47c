"""What reading a runtime costs the program that is read, by processor time.

Nothing is compared with what ran a minute ago: a shared machine's processors are now and then half as fast. All ways of a program run side by
side, and each is asked in short turns, in an order of chance. A program keeps the shape that it took when it was compiled (JIT) or laid out, so all
are started anew a few times, and the interval is over these starts and their turns.
"""

import contextlib
import dataclasses
import itertools
import os
import pathlib
import random
import shutil
import statistics

from .bars import interval_of
from .foreign import HAVE, VENV, Place
from .programs import ROOT, Recording, run_seconds

NOTHING_READ = "--runtimes=none"
# Requests of a turn, with ten clients.
REQUESTS, CLIENTS = 100, 10


@dataclasses.dataclass(frozen=True)
class Effort:
    """How often a program is started, and how many turns each start has: first unmeasured ones, in which code is compiled."""

    starts: int
    warm: int
    turns: int
    requests: int = REQUESTS


QUICK, WHOLE = Effort(3, 12, 12), Effort(8, 25, 25)
# Of a server that compiles nothing, and whose clients first open their connections in each turn.
QUICK_TLS, TLS = Effort(3, 1, 8, 1000), Effort(8, 2, 15, 1000)
# Of one that compiles nothing while it runs, and takes ten times as long.
INTERPRETED = Effort(8, 5, 15)


class OwnFiles(Place):
    """Starts programs from files of its own, in the folder `files`: a probe is met by all processes that run a file."""

    def __init__(self, at, stack, files):
        super().__init__(at, stack)
        self.files = files

    def start(self, name, line, port, socket=None, **env):
        file = pathlib.Path(line[0])
        if VENV in file.parents:
            line = [interpreter(self.files / "venv", file), *line[1:]]
        elif HAVE in file.parents or ROOT / "testbeds" in file.parents:
            own = self.files / f"own-{name}"
            line = [own if own.exists() else shutil.copy(file, own), *line[1:]]
        return super().start(name, line, port, socket, **env)


def interpreter(folder, python):
    """A virtual environment like the benches' own, but for the files in which probes are placed."""
    own = folder / "bin" / "python"
    if not own.exists():
        own.parent.mkdir(parents=True)
        shutil.copy(python.resolve(), own)
        shutil.copy(VENV / "pyvenv.cfg", folder)
        packages = next((VENV / "lib").glob("python3*/site-packages"))
        here = folder / packages.relative_to(VENV)
        here.mkdir(parents=True)
        for package in packages.iterdir():
            if package.name == "uvloop":
                shutil.copytree(package, here / package.name)
            else:
                (here / package.name).symlink_to(package)
    return own


def pin(pid, processor):
    """Keeps a process on a processor."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(task.name), {processor})


@dataclasses.dataclass(frozen=True)
class Twin:
    """Recorded so is not the program, but another process that runs its file: the program meets probes that find nothing to do."""

    flag: str


class Way:
    """A program that runs, as it is read in one way."""

    def __init__(self, case, flags, at, stack):
        self.at, self.stack, self.case = at, stack, case
        self.port, self.pid = self.started("asked")
        if isinstance(flags, Twin):
            self.record("other", self.started("twin")[1], flags.flag)
            flags = [NOTHING_READ]
        if flags is not None:
            self.record("trace", self.pid, *flags)

    def started(self, name):
        """Its port, and the process that serves."""
        here = self.at / name
        here.mkdir(mode=0o711, parents=True)
        place = OwnFiles(here, self.stack, self.at)
        return self.case.start(place), place.pids[-1]

    def record(self, name, pid, *flags):
        payload = () if "--payload" in flags else ("--payload", "none")
        self.stack.enter_context(Recording(self.at / name, *payload, "--pid", pid, *flags))

    def asked(self, requests):
        """Microseconds of processor time that a request took in one turn of so many."""
        before = run_seconds(self.pid)
        self.case.load(self.port, CLIENTS, requests, truth=self.at / "load.jsonl")
        return (run_seconds(self.pid) - before) / requests * 1e6


def turns(ways, count, dice, requests):
    """So many turns of each way; gives a row a round, in the order given."""
    rows = []
    for _ in range(count):
        order = dice.sample(range(len(ways)), len(ways))
        found = {k: ways[k].asked(requests) for k in order}
        rows.append([found[k] for k in range(len(ways))])
    return rows


def one_start(programs, effort, at, dice):
    """All ways of a program, started once: rows of microseconds."""
    processors = sorted(os.sched_getaffinity(0))
    try:
        with contextlib.ExitStack() as stack:
            # the program has a processor of its own: the load, what it calls and the recorders share the others
            if len(processors) > 1:
                os.sched_setaffinity(0, processors[1:])
            made = {k: Way(*programs[k], at / f"way-{k}", stack) for k in dice.sample(range(len(programs)), len(programs))}
            ways = [made[k] for k in range(len(programs))]
            if len(processors) > 1:
                for way in ways:
                    pin(way.pid, processors[0])
            turns(ways, effort.warm, dice, effort.requests)
            return turns(ways, effort.turns, dice, effort.requests)
    finally:
        os.sched_setaffinity(0, processors)
        for way in at.glob("way-*"):
            shutil.rmtree(way, ignore_errors=True)


def compare(bars, title, programs, limits, at, effort, also=()):
    """The first program's processor time a request against that of each other one. `programs`: each a system, and with which flags it is recorded,
    or None for not at all, or a twin. `limits`: for each but the first, what it adds, and the most percent or None; `also`: such that a program adds
    to another than the first: which, and to which."""
    dice = random.Random(1)
    starts = [one_start(programs, effort, at, dice) for _ in range(effort.starts)]

    def reported(value):
        """The median over all turns, and its interval over starts and over turns within each."""
        def again(chosen):
            return statistics.median(value(row) for rows in chosen for row in dice.choices(rows, k=len(rows)))

        return statistics.median(value(row) for row in itertools.chain(*starts)), interval_of(again, starts, rounds=1000)[1]

    base, interval = reported(lambda row: row[0])
    bars.reported(f"{title}: processor time a request, without", base, "us", interval)
    for what, limit, i, base in [*((*limit, i, 0) for i, limit in enumerate(limits, 1)), *also]:
        added, interval = reported(lambda row, i=i, base=base: 100 * (row[i] / row[base] - 1))
        told = f"{title}: processor time that {what} add"
        if limit is None:
            bars.reported(told, added, "%", interval)
        else:
            bars.at_most(told, added, limit, "%", interval)
