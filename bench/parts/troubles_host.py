"""Troubles inside one host: locks, threads, signals, processes beside, errors that an application hides."""

import contextlib
import os
import pathlib
import subprocess

from .forecast import Quota
from .programs import Failed, program, server, vload
from .troubles import RATE, TOOLS, Trouble, ask, is_of


class Held(Trouble):
    """A trouble that a program beside makes for as long as it runs."""

    def line(self):
        """Its command line."""
        raise NotImplementedError

    @contextlib.contextmanager
    def outside(self):
        with server([*self.host.prefix, *self.line()], first_line=True):
            yield

class Interpreter(Trouble):
    """A thread of the worker computes and keeps the interpreter's lock."""

    name, cause = "interpreter", "lock"
    is_steady = True

    def is_slice(self, part):
        # what computes may also keep another of the request's from its processor
        if part["state"] == "preempted" and (part["by"] or "").startswith("gunicorn/"):
            return True
        return "lock" in (part["state"], part["wait"]) and part["task"].startswith("gunicorn/")

    def is_where(self, difference):
        main = difference["parts"][0]
        return is_of("gunicorn", difference) and main["is_own_thread"] and "interpreter lock" in (main["object"] or "")


class SlowReads:
    """A bound on how many reads a second the processes in it may have of the disk under a file (a cgroup's), as a context.
    A virtual disk may be as fast as memory. Needs root; version 1 or 2 of cgroups."""

    V1, V2 = pathlib.Path("/sys/fs/cgroup/blkio"), pathlib.Path("/sys/fs/cgroup")

    def __init__(self, file, reads_per_s, pids):
        self.is_v1 = (self.V1 / "cgroup.procs").exists()
        self.root = self.V1 if self.is_v1 else self.V2
        self.folder = self.root / f"wakepath-reads-{os.getpid()}"
        self.file, self.reads_per_s, self.pids = file, reads_per_s, pids

    def disk(self):
        """The file's disk: of a partition, the whole one."""
        number = os.stat(self.file).st_dev
        about = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
        about = about.parent if (about / "partition").exists() else about
        return (about / "dev").read_text(encoding="ascii").strip()

    def __enter__(self):
        if not self.is_v1:
            with contextlib.suppress(OSError):
                (self.V2 / "cgroup.subtree_control").write_text("+io", encoding="ascii")
        try:
            self.folder.mkdir()
            if self.is_v1:
                line = f"{self.disk()} {self.reads_per_s}"
                (self.folder / "blkio.throttle.read_iops_device").write_text(line, encoding="ascii")
            else:
                (self.folder / "io.max").write_text(f"{self.disk()} riops={self.reads_per_s}", encoding="ascii")
            self.move(self.folder)
        except OSError as problem:
            raise Failed(f"reads cannot be made slow: {problem}") from problem
        return self

    def move(self, folder):
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                (folder / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def __exit__(self, *problem):
        self.move(self.root)
        self.folder.rmdir()


class Paging(Trouble):
    """A thread of the worker reads pages from a slow disk under the interpreter's lock."""

    name, cause = "paging", "page_fault"
    is_steady = True
    # few, so that the thread waits for pages, and does not compute in the kernel to have them read
    FILE_BYTES, READS_PER_S = 1 << 20, 2_500

    @contextlib.contextmanager
    def outside(self):
        file = self.in_app("pages")
        with open(file, "wb") as pages:
            pages.write(os.urandom(self.FILE_BYTES))
            pages.flush()
            os.fsync(pages.fileno())
        workers = [pid for pid in self.stack.processes() if is_in(pid, "gunicorn")]
        try:
            with SlowReads(file, self.READS_PER_S, workers):
                yield
        finally:
            file.unlink()

    def is_slice(self, part):
        return part["state"] == "page fault" and part["wait"] == "lock"

    def is_where(self, difference):
        return is_of("gunicorn", difference) and difference["by"] == "gunicorn"


class DnsSilent(Trouble):
    """The name server never answers, and the application hides that."""

    name, cause = "dns_silent", "dns"
    share, seconds, quick_seconds = 2, 5, 5

    @contextlib.contextmanager
    def outside(self):
        settings = self.host.settings / "resolv.conf"
        before = settings.read_text(encoding="ascii")
        # written in place: the application has this very file laid over /etc/resolv.conf
        settings.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n", encoding="ascii")
        line = [*self.host.prefix, TOOLS / "slow-dns", "127.0.0.1", 53, "--delay-ms", 100_000, "--seconds", 600]
        try:
            with server(line, first_line=True):
                yield
        finally:
            settings.write_text(before, encoding="ascii")

    def is_slice(self, part):
        return part["state"] == "network" and (part["object"] or "").endswith(":53")

    def is_where(self, difference):
        return is_of("gunicorn", difference) and difference["object"] == "127.0.0.1:53"


class Row(Held):
    """Another session, idle in its transaction, holds a row for less than PostgreSQL's deadlock_timeout."""

    name, cause = "row", "lock"

    def line(self):
        return [TOOLS / "hold-row", self.stack.env["PG_PORT"], "--seconds", 600]

    def is_slice(self, part):
        return part["wait"] == "lock" and part["task"].startswith("postgres/")

    def is_where(self, difference):
        return is_of("postgres", difference) and difference["by"] == "postgres"


class RowTimeout(Row):
    """So too, and the statement gives up (lock_timeout): nobody lets go of the row while it waits, so who has it is not
    known."""

    name = "row_timeout"
    may_be_unknown = True

    def is_where(self, difference):
        return is_of("postgres", difference)


class Deadlock(Trouble):
    """Two sessions wait for each other until PostgreSQL ends one, and the application hides it."""

    name, cause = "deadlock", "lock"
    share, seconds, quick_seconds = 2, 5, 5
    may_be_unknown = True

    def is_slice(self, part):
        return "lock" in (part["state"], part["wait"])

    def is_where(self, difference):
        return is_of("postgres", difference) or difference["by"] == "gunicorn"

    def verdicts(self, trace):
        yield from super().verdicts(trace)
        yield listed(trace, "40P01")


class SqlError(Trouble):
    """A statement divides by zero, and the application hides it: no request is slow or fails."""

    name = "sql_error"

    def strength(self, truth):
        return 2.0, any('"/work?' in line for line in truth.read_text().splitlines())

    def verdicts(self, trace):
        yield listed(trace, "22012")


def listed(trace, error):
    """Whether `requests` lists an error that was hidden."""
    errors = ask(trace, "requests")["call_errors"]
    found = any(e["error"] == error and e["hidden"] and e["kind"] == "GET /work" for e in errors)
    return f"`requests` lists {error}", "named" if found else "false", f"it lists {errors}"


class Eval(Trouble):
    """Redis runs a script."""

    name, cause = "eval", "cpu"
    is_steady = True

    def is_slice(self, part):
        return part["state"] == "running" and part["task"].startswith("redis")

    def is_where(self, difference):
        return difference["service"].startswith("redis") and (difference["serving"] or "").startswith("EVAL")


class Stopped(Held):
    """Somebody stops the worker by SIGSTOP."""

    name = cause = "stopped"

    def line(self):
        return [TOOLS / "stopper", self.in_app("stop"), "--seconds", 600]

    def is_slice(self, part):
        return part["state"] == "stopped" and part["task"].startswith("gunicorn/")

    def is_where(self, difference):
        return is_of("gunicorn", difference) and (difference["object"], difference["by"]) == ("SIGSTOP", "stopper")


class FileLock(Held):
    """Another process has locked a file."""

    name, cause = "file_lock", "lock"

    def line(self):
        return [TOOLS / "hold-file", self.in_app("locked"), "--seconds", 600]

    def is_slice(self, part):
        return part["wait"] == "lock"

    def is_where(self, difference):
        return is_of("gunicorn", difference) and (difference["syscall"], difference["by"]) == ("flock", "hold-file")


class Downstream(Held):
    """Another service, which nobody watches, takes its time."""

    name, cause = "downstream", "unwatched"
    PORT = 18099

    def line(self):
        return [TOOLS / "slow-service", self.PORT, "--seconds", 600]

    def is_slice(self, part):
        return (part["object"] or "").endswith(f":{self.PORT}")

    def is_where(self, difference):
        return difference["service"].endswith(f":{self.PORT}")


class Pool(Trouble):
    """The application's pool has one connection, and a thread uses it."""

    # a condition of the pool's: that it is a lock, nothing shows
    name, cause = "pool", "futex"

    def is_slice(self, part):
        return "futex" in (part["state"], part["wait"]) and not part["task"].startswith("redis")

    def is_where(self, difference):
        return is_of("gunicorn", difference) and difference["parts"][0]["is_own_thread"]


class CpuQuota(Trouble):
    """The application's cgroup has used up its share of the processor."""

    name = cause = "quota"
    is_shared = True
    # the load alone stays far below it
    SHARE, PERIOD_US = 0.3, 100_000

    @contextlib.contextmanager
    def outside(self):
        workers = [pid for pid in self.stack.processes() if is_in(pid, "gunicorn")]
        with Quota("waits", self.SHARE, self.PERIOD_US) as quota:
            for pid in workers:
                quota.take(pid)
            try:
                yield
            finally:
                for pid in workers:
                    quota.leave(pid)

    def is_slice(self, part):
        return part["state"] == "preempted" and "quota" in (part["reason"] or "")

    def is_where(self, difference):
        return is_of("gunicorn", difference)


class Isolated(Trouble):
    """A service in one event loop sleeps in some requests, and is recorded by the library, which hands it one input at a
    time: the sleep is the cause, and neither the inputs of others nor what the library does."""

    name, cause = "isolated", "timer"
    PORT = 18098

    def record(self, seconds):
        trace, truth = self.place / "trace", self.place / "truth.jsonl"
        url = f"http://127.0.0.1:{self.PORT}"
        line = [program("wakepath"), "run", "--isolate=process", "--force", "-o", trace]
        line += ["--", TOOLS / "loop-server", self.PORT]
        process = subprocess.Popen([*self.host.prefix, *map(str, line)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            process.stdout.readline()
            load = ["--connections", 6, "--rate", RATE, "--duration", f"{seconds}s", "--mix", self.mix()]
            vload(url, *load, truth=truth, prefix=self.host.prefix)
            vload(url, "--connections", 1, "--requests", 1, "--mix", "/quit=1", prefix=self.host.prefix)
            process.wait(timeout=20)
        finally:
            process.kill()
            process.wait()
        return trace, truth

    def is_slice(self, part):
        return part["state"] == "timer"

    def is_where(self, difference):
        return difference["service"].endswith(f":{self.PORT}")


def is_in(pid, folder):
    """Whether a process works in a folder of this name."""
    try:
        return os.readlink(f"/proc/{pid}/cwd").endswith(f"/{folder}")
    except OSError:
        return False


TROUBLES = (
    CpuQuota,
    Isolated,
    Interpreter,
    Paging,
    DnsSilent,
    Row,
    RowTimeout,
    Deadlock,
    SqlError,
    Eval,
    Stopped,
    FileLock,
    Downstream,
    Pool,
)
