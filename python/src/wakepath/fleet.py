"""Links each host of a fleet by itself, then joins them: `wakepath reduce`, then `wakepath requests` or `wakepath show`.

    python -m wakepath.fleet [--spark] -o OUT RECORDING...

Needs no package but this one; `wakepath.spark` runs the same functions as tasks of Apache Spark. The recordings and OUT lie on a file
system that every machine sees by the same path, and on which a folder is renamed at once: a local disk, NFS, CephFS, Lustre; no object
store.
"""

import argparse
import concurrent.futures
import contextlib
import ctypes
import dataclasses
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

from wakepath import program

__all__ = ["Answer", "Host", "WakepathError", "ask", "find_hosts", "plan", "reduce", "reduce_host"]

# In OUT: the hosts that it should have, so that one that is missing is named.
PLAN = ".hosts.json"
# In OUT: held by the run that links hosts into it.
LOCK = ".lock"
# In each reduced folder: what its task used, and of which recordings it is.
TASK = "task.json"
# How often the memory of a running process is looked at: most of a short one's life would pass between two looks at the longer pause.
TICK_S, YOUNG_TICK_S, YOUNG_S = 0.01, 0.000_5, 0.2
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


class WakepathError(Exception):
    """`wakepath` failed, or a folder is not what it should be. The message has what it printed."""


class Killed(WakepathError):
    """A signal ended `wakepath`, as it does where memory is short: the same may succeed later, or elsewhere."""


@dataclasses.dataclass(frozen=True)
class Host:
    """A host with all its recordings: what one task links."""

    # its folder in OUT: the name and the first letters of the boot id, as in a recording
    name: str
    # what `wakepath reduce --host` knows it by: its boot id, where one is known
    key: str
    recordings: tuple


@dataclasses.dataclass(frozen=True)
class Answer:
    """What `wakepath` says about a fleet."""

    # the document on standard output, byte for byte: docs/schemas describes it
    json: bytes
    # hosts that should be in OUT and are not; what is damaged is in the document's `losses`
    missing: tuple
    out: str
    # words of the command before and after the folders
    before: tuple
    after: tuple

    @property
    def document(self):
        """The document, parsed."""
        return json.loads(self.json)

    def text(self):
        """The same answer as people read it. Joins the hosts again."""
        return run([*self.before, *hosts_in(self.out), *self.after], self.out).out.decode()


@dataclasses.dataclass(frozen=True)
class Ran:
    """A process that ended well."""

    out: bytes
    # wall clock, and processor time of all its threads
    seconds: float
    cpu_seconds: float
    # most resident memory: looked at every 10 ms (every 0.5 ms in the first 200 ms), so a peak at the very end may be missed where the caller is the larger process
    peak_memory_bytes: int


def resident_peak(pid):
    """The most memory that a process had resident so far, in bytes; 0 where it has ended."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def end_with_parent(number):
    """Asks the kernel for this signal once the thread that started this process has ended."""
    LIBC.prctl(PR_SET_PDEATHSIG, number)


def prepare_child():
    """Runs in a new process, before the program. It shall not outlive a task that is killed; joining keeps a file of each host open."""
    end_with_parent(signal.SIGKILL)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def run(arguments, folder=None):
    """Runs `wakepath` with these arguments to its end. Raises WakepathError with what it printed where it fails."""
    begun, peak = time.monotonic(), 0
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
        line = [program(), *map(str, arguments)]
        # pylint: disable-next=subprocess-popen-preexec-fn
        process = subprocess.Popen(line, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=said, preexec_fn=prepare_child)
        while True:
            peak = max(peak, resident_peak(process.pid))
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            time.sleep(YOUNG_TICK_S if time.monotonic() - begun < YOUNG_S else TICK_S)
        process.returncode = os.waitstatus_to_exitcode(status)
        # the kernel's own figure counts this process's pages too, which the new one had until it became `wakepath`
        if usage.ru_maxrss * 1024 > resident_peak(os.getpid()):
            peak = usage.ru_maxrss * 1024
        out.seek(0)
        said.seek(0)
        words = said.read().decode(errors="replace").strip() or "it printed nothing"
        if process.returncode < 0:
            raise Killed(f"wakepath {arguments[0]} was ended by signal {-process.returncode}: {words}")
        if process.returncode > 0:
            raise WakepathError(f"wakepath {arguments[0]}: {words} (exit code {process.returncode})")
        return Ran(out.read(), time.monotonic() - begun, usage.ru_utime + usage.ru_stime, peak)


# ---------------------------------------------------------------- one task for each host


def find_hosts(recordings):
    """The hosts of some trace folders, each with all folders that have it, in order of their names.

    Raises WakepathError for a folder without a host, and ValueError if none is given.
    """
    found = {}
    for recording in dict.fromkeys(os.path.abspath(path) for path in recordings):
        folders = sorted(path for path in pathlib.Path(recording, "hosts").glob("*") if path.is_dir())
        if not folders:
            raise WakepathError(f"{recording}: no trace folder, or one without a host")
        for folder in folders:
            key = boot_id(folder) or folder.name
            found.setdefault(key, (folder.name, []))[1].append(recording)
    if not found:
        raise ValueError("no recording is given")
    hosts, names = [], set()
    for key, (name, of_host) in sorted(found.items(), key=lambda item: (item[1][0], item[0])):
        # two boot ids may begin alike
        name = name if name not in names else f"{name}-{key}"
        names.add(name)
        hosts.append(Host(name, key, tuple(of_host)))
    return hosts


def boot_id(folder):
    """The boot id of a host in a recording; None where it is not known."""
    try:
        return json.loads((folder / "host.json").read_text(encoding="utf-8")).get("boot_id") or None
    except (OSError, ValueError, AttributeError):
        return None


def plan(recordings, out):
    """The hosts of some trace folders. Notes in OUT which hosts it should have, besides those noted before."""
    hosts = find_hosts(recordings)
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    names = sorted({*planned(out), *(host.name for host in hosts)})
    part = out / f"{PLAN}.{uuid.uuid4().hex}"
    part.write_text(json.dumps(names), encoding="utf-8")
    part.replace(out / PLAN)
    return hosts


@contextlib.contextmanager
def alone(out):
    """Makes OUT, and holds it while one run plans its hosts, links them, and clears what killed tasks left.

    Raises WakepathError if another run holds it.
    """
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    with open(pathlib.Path(out, LOCK), "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WakepathError(f"another run links hosts into {out}; wait until it ends, or choose another folder") from None
        except OSError as problem:
            raise WakepathError(f"{out} cannot be locked ({problem.strerror}); choose a folder on another file system") from problem
        yield


def planned(out):
    """The hosts that OUT should have; none where nothing was noted."""
    try:
        return json.loads(pathlib.Path(out, PLAN).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []


def mark_of(host):
    """Tells whether a host's recordings are those of a reduced folder: a hash of the names and sizes of its files, and of how clocks relate.
    Recordings only grow, and may be moved."""

    def of(recording):
        said = hashlib.sha256()
        for folder in sorted(pathlib.Path(recording, "hosts").iterdir()):
            if (boot_id(folder) or folder.name) == host.key:
                for path in sorted(folder.iterdir()):
                    said.update(f"{path.name} {path.stat().st_size}\n".encode())
        with contextlib.suppress(FileNotFoundError):
            said.update(pathlib.Path(recording, "sync.json").read_bytes())
        return said.digest()

    # in whichever order they are given
    return hashlib.sha256(b"".join(sorted(map(of, host.recordings)))).hexdigest()


def finished(place, mark):
    """What is told of a host that another attempt, or an earlier run, has reduced; None where nobody has.

    Raises WakepathError if it is of other recordings.
    """
    try:
        task = json.loads((place / TASK).read_text(encoding="utf-8"))
    except FileNotFoundError:
        if place.exists():
            raise WakepathError(f"{place} is not of wakepath.fleet; remove it, or choose another folder for the outcome") from None
        return None
    if task.pop("recordings") != mark:
        raise WakepathError(f"{place} was reduced from other recordings; remove it, or choose another folder for the outcome")
    return {"host": place.name, "folder": str(place), **task, "error": None}


def reduce_host(host, out):
    """Links one host, and moves the result into OUT in one rename: the outcome of the task as a dict (columns: `reduce`).

    May run again, or twice at once: only the first result is kept. Raises WakepathError, which names the host.
    """
    place = pathlib.Path(out, host.name)
    part = pathlib.Path(out, f".{host.name}.{uuid.uuid4().hex}")
    try:
        mark = mark_of(host)
        done = finished(place, mark)
        if done:
            return done
        ran = run(["reduce", *host.recordings, "--host", host.key, "-o", part])
        about = json.loads(run(["info", "--json", part]).out)
        task = {
            "rows": sum(table["rows"] for of in about["hosts"] for table in of["tables"]),
            "bytes": sum(of["bytes"] for of in about["hosts"]),
            "seconds": ran.seconds,
            "cpu_seconds": ran.cpu_seconds,
            "peak_memory_bytes": ran.peak_memory_bytes,
            "losses": {loss["id"]: loss["count"] for loss in about["losses"]},
        }
        (part / TASK).write_text(json.dumps({**task, "recordings": mark}), encoding="utf-8")
        try:
            part.rename(place)
        except OSError as problem:
            if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        # what lies there counts, whoever moved it
        return finished(place, mark)
    except WakepathError as problem:
        raise type(problem)(f"{host.name}: {problem}") from problem
    except OSError as problem:
        raise WakepathError(f"{host.name}: {problem}") from problem
    finally:
        shutil.rmtree(part, ignore_errors=True)


def outcome_of(host, out, is_repeated=False):
    """The same, where a host that cannot be linked does not keep the others from it: then `error` says why. Where the caller repeats a task
    that failed, one whose program was killed fails."""
    try:
        return reduce_host(host, out)
    except WakepathError as problem:
        if is_repeated and isinstance(problem, Killed):
            raise
        nothing = {"rows": 0, "bytes": 0, "seconds": 0.0, "cpu_seconds": 0.0, "peak_memory_bytes": 0, "losses": {}}
        return {"host": host.name, "folder": str(pathlib.Path(out, host.name)), **nothing, "error": str(problem)}


def clear(out, hosts):
    """Removes what killed tasks left of these hosts; call it when none runs."""
    for host in hosts:
        for part in pathlib.Path(out).glob(f".{host.name}.*"):
            shutil.rmtree(part, ignore_errors=True)


def reduce(recordings, out, at_once=None):
    """Links every host in a process of its own, `at_once` at a time (without it as many as there are processors).

    Gives a dict for each host, in order of their names: `host`; `folder`; `rows` and `bytes` of the reduced folder (bytes on disk);
    `seconds`, `cpu_seconds`, `peak_memory_bytes` of `wakepath reduce`; `losses`, a count for each defect (docs/defects.md); `error`, what
    `wakepath` printed, or None. Hosts that are in OUT already, of the same recordings, stay. Raises WakepathError for a folder without a
    host, and where another run links hosts into OUT.
    """
    with alone(out):
        hosts = plan(recordings, out)
        with concurrent.futures.ThreadPoolExecutor(at_once or len(os.sched_getaffinity(0))) as pool:
            outcome = list(pool.map(lambda host: outcome_of(host, out), hosts))
        clear(out, hosts)
    return outcome


# ---------------------------------------------------------------- the join


def hosts_in(out):
    """The reduced folders of OUT, by name."""
    return sorted(path.name for path in pathlib.Path(out).iterdir() if path.is_dir() and not path.name.startswith("."))


def ask(out, question, *options, request=None):
    """Joins the hosts of OUT in one process: the Answer of `wakepath QUESTION OPTIONS`.

    `question` is `requests`, or `show` with the `request` to show: an id, or `slowest`. Raises WakepathError with what `wakepath` printed.
    """
    names = hosts_in(out)
    if not names:
        raise WakepathError(f"{out}: no host was reduced into it")
    before, after = (question, *options), () if request is None else (request,)
    # by their names alone, because the words of a command may not be longer than 2 MB
    document = run([*before, "--json", *names, *after], out).out
    return Answer(document, tuple(sorted({*planned(out)} - {*names})), str(out), before, after)


def table(outcome):
    """The outcome as people read it."""
    yield f"{'HOST':<32} {'ROWS':>12} {'MB':>9} {'SECONDS':>8} {'PEAK MB':>8}  DAMAGE"
    for row in outcome:
        damage = row["error"] or ", ".join(f"{name} {count}" for name, count in sorted(row["losses"].items())) or "-"
        size, memory = row["bytes"] / 1e6, row["peak_memory_bytes"] / 1e6
        yield f"{row['host']:<32} {row['rows']:>12,} {size:>9.2f} {row['seconds']:>8.2f} {memory:>8.1f}  {damage}"


def main():
    parser = argparse.ArgumentParser(prog="python -m wakepath.fleet", description="Link each host of some recordings by itself.")
    parser.add_argument("recordings", nargs="+", metavar="RECORDING", help="trace folders; one may have several hosts")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="folder of the reduced hosts")
    parser.add_argument("--spark", action="store_true", help="as tasks of the Spark cluster that spark-defaults.conf names")
    args = parser.parse_args()
    try:
        if args.spark:
            from wakepath.spark import command as on_spark  # needs pyspark, which nothing else here does

            outcome = on_spark(args.recordings, args.output)
        else:
            outcome = reduce(args.recordings, args.output)
    except WakepathError as problem:
        sys.exit(f"wakepath.fleet: {problem}")
    print(*table(outcome), sep="\n")
    return 1 if any(row["error"] for row in outcome) else 0


if __name__ == "__main__":
    sys.exit(main())
