"""The test suites of Redis and of nginx, run unit by unit: without the library, isolating and observing.

`scripts/install suites` puts the sources of Redis into `target/suites/redis`, from the distribution; its tests are run on the
installed programs. nginx's tests are in no distribution: where `target/suites/nginx-tests` has them, they are run too
(`TEST_NGINX_BINARY` and `TEST_NGINX_MODULES`, as its README says, name the programs; by default the installed ones).
"""

import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from parts.programs import ROOT, program
from parts.tiers import find

SUITES = ROOT / "target" / "suites"
MODES = ("--isolate", "--observe")
WORKERS = 4
UNIT_S = 240

# What Redis's suite itself calls slow is left out, and latencies are not judged: with two suites at once they are not ours.
REDIS_FLAGS = ["--clients", "1", "--tags", "-slow", "--durable", "--no-latency"]
REDIS_QUICK = ["unit/protocol", "unit/multi"]
REDIS_TOLD = re.compile(r"^\[(ok|err|exception|skip|ignore|timeout)\]: (.*?)(?: \(\d+ ms\))?$")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
NOT_BEGUN = "Can't start nginx"
FAILED = ("err", "exception", "timeout", "not ok")
TAP_TOLD = re.compile(r"^(ok|not ok) \d+(?: - (.*))?$")


def under(mode, trace):
    """What a command begins with, to run as `mode` says."""
    if not mode:
        return []
    shutil.rmtree(trace, ignore_errors=True)
    return [program("wakepath"), "run", mode, "-o", trace, "--"]


def told_by(line, pattern, clean, cwd, env=None):
    """How often each test of a suite went how, by its own report; nothing where it did not begin or come to its end."""
    with subprocess.Popen([str(x) for x in line], cwd=cwd, env=env, start_new_session=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            told = process.communicate(timeout=UNIT_S)[0]
        except subprocess.TimeoutExpired:
            return collections.Counter()
        finally:
            end_session(process.pid)
    text = clean.sub("", told.decode("utf-8", "replace"))
    if NOT_BEGUN in text:
        return collections.Counter()
    found = (pattern.match(line) for line in text.splitlines())
    return collections.Counter((m[2] or "", m[1]) for m in found if m)


def end_session(session):
    """Ends all of a session that are left: servers of a part that took too long would hold the next one's ports."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            # behind the name: state, parent, group, session
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(fields[3]) == session:
                os.kill(int(entry.name), signal.SIGKILL)
        except (OSError, ValueError, IndexError):
            continue


class Redis:
    """A copy of Redis's tests for each worker, with ports of its own: they tidy up what lies in their folder."""

    name = "Redis's own suite"
    # asks that replies to all that came in one write overflow together: isolation hands each request over by itself
    OVERFLOW = "No response for multi commands in pipeline if client output buffer limit is enforced"
    sees_isolation = frozenset({("unit/obuf-limits", OVERFLOW),
                                ("unit/obuf-limits", f"{OVERFLOW} in tests/unit/obuf-limits.tcl")})

    def __init__(self, place):
        self.places = []
        for i in range(WORKERS):
            at = place / f"redis-{i}"
            shutil.copytree(SUITES / "redis", at, ignore=shutil.ignore_patterns("deps"), dirs_exist_ok=True)
            for one in ("server", "cli", "benchmark", "sentinel", "check-aof", "check-rdb"):
                link = at / "src" / f"redis-{one}"
                link.unlink(missing_ok=True)
                link.symlink_to(find(f"redis-{one}") or "/nowhere")
            (at / "tests" / "tmp").mkdir(exist_ok=True)
            self.places.append(at)

    @staticmethod
    def missing():
        """Why it cannot run here, or nothing."""
        if not (SUITES / "redis" / "runtest").exists():
            return "its sources are not there; remedy: scripts/install suites"
        lacking = [name for name in ("tclsh", "redis-server", "redis-cli") if not find(name)]
        return f"not installed: {', '.join(lacking)}; remedy: scripts/install suites" if lacking else ""

    def units(self, quick):
        """Names of its parts."""
        if quick:
            return REDIS_QUICK
        text = (self.places[0] / "tests" / "test_helper.tcl").read_text(encoding="utf-8")
        return re.search(r"set ::all_tests \{(.*?)\}", text, re.S)[1].split()

    def run(self, unit, mode, worker):
        """How the tests of one part went."""
        at = self.places[worker]
        line = [*under(mode, at / "trace"), "./runtest", *REDIS_FLAGS, "--baseport", 21000 + 2000 * worker,
                "--portcount", 1900, "--single", unit]
        return told_by(line, REDIS_TOLD, COLOUR, at)


class Nginx:
    """nginx's tests, which want no root: one that others may be is looked for."""

    name = "nginx's own suite"
    # nginx's variable `pipe` says whether another request lay in the same read: isolation hands it over by itself
    sees_isolation = frozenset({("access_log_variables.t", "pipe")})

    def __init__(self, place):
        self.at = pathlib.Path(tempfile.mkdtemp(prefix="nginx-tests-", dir=place))
        self.user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []
        self.at.chmod(0o777)
        self.env = {"TEST_NGINX_BINARY": find("nginx"), "TEST_NGINX_MODULES": "/usr/lib/nginx/modules", **os.environ}

    @staticmethod
    def missing():
        """Why it cannot run here, or nothing."""
        if not (SUITES / "nginx-tests" / "lib" / "Test" / "Nginx.pm").exists():
            return "it is in no distribution; remedy: its repository nginx/nginx-tests as target/suites/nginx-tests"
        return "" if find("nginx") and find("perl") else "nginx or perl is not installed"

    def units(self, quick):
        """Names of its parts."""
        return ["h2.t", "proxy_keepalive.t"] if quick else sorted(p.name for p in (SUITES / "nginx-tests").glob("*.t"))

    def run(self, unit, mode, worker):
        """How the tests of one part went."""
        temporary = self.at / f"{worker}"
        temporary.mkdir(exist_ok=True)
        temporary.chmod(0o777)
        line = [*self.user, *under(mode, temporary / "trace"), "perl", "-I", SUITES / "nginx-tests" / "lib",
                SUITES / "nginx-tests" / unit]
        env = {**self.env, "TMPDIR": str(temporary), "HOME": str(temporary)}
        return told_by(line, TAP_TOLD, COLOUR, SUITES / "nginx-tests", env)


def differing(some, others):
    """Names of tests that went otherwise. How often one is told of may depend on the time that it is given."""
    return {name for name, _ in some.keys() ^ others.keys()}


def compared(suite, unit, worker):
    """Of one part: how many tests it has, how many fail without the library, and which went otherwise with it, by mode.
    Some depend on the time that they are given, or have names by chance: what differs three times from a run without counts."""
    plain = suite.run(unit, "", worker)
    count, failed = sum(plain.values()), sum(n for (_, how), n in plain.items() if how in FAILED)
    other = {}
    if not plain:
        return 0, 0, {mode: [] for mode in MODES}
    for mode in MODES:
        differs = differing(suite.run(unit, mode, worker), plain)
        for _ in range(2):
            if differs:
                plain = suite.run(unit, "", worker)
                differs &= differing(suite.run(unit, mode, worker), plain)
        other[mode] = sorted(differs)
    return count, failed, other


def server_suite(bars, place, quick, kind):
    """One suite, its parts on several workers."""
    lacking = kind.missing()
    if lacking:
        bars.missing(f"{kind.name}: tests that went otherwise", "", 0, lacking)
        return
    suite = kind(place)
    only = os.environ.get("WAKEPATH_SUITE_UNITS", "").split()
    units = [u for u in suite.units(quick) if not only or any(o in u for o in only)]
    free = collections.deque(range(WORKERS))

    def one(unit):
        worker = free.popleft()
        try:
            return unit, compared(suite, unit, worker)
        finally:
            free.append(worker)

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        told = list(pool.map(one, units))
    count, failed = sum(t[0] for _, t in told), sum(t[1] for _, t in told)
    silent = [unit for unit, t in told if not t[0]]
    bars.reported(f"{kind.name}: parts that tell of no test without the library, and say nothing", len(silent))
    print("   ", *silent, file=sys.stderr)
    for mode in MODES:
        seen = kind.sees_isolation if mode == "--isolate" else frozenset()
        all_other = {(unit, name) for unit, t in told for name in t[2][mode]}
        bars.reported(f"{kind.name}, {mode}: tests of what isolation is meant to change", len(all_other & seen))
        other = sorted(f"{unit}: {name}" for unit, name in all_other - seen)
        bars.exactly(f"{kind.name}, {mode}: of {count} tests ({failed} fail without) went otherwise", len(other), 0)
        for name in other:
            print(f"    {name}", file=sys.stderr)
