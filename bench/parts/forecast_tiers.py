"""Cases of `bench/forecast` in which requests wait for something of which there is a number: connections of a pool, a
lock, a database's log on a slow disk."""

import contextlib
import os
import shutil
import subprocess
import sys

from .forecast import Case, Load, Step, free_ports, served
from .programs import ROOT, Failed, run
from .tiers import find

TESTBED = ROOT / "testbeds" / "forecast"
ROOT_USER = os.geteuid() == 0


def as_postgres():
    """What a command is put behind to run as PostgreSQL's own user, since it refuses root."""
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if ROOT_USER else []


@contextlib.contextmanager
def postgres(place, port, wal=None):
    """PostgreSQL in a folder, its log in another one where given, until the end of the context. Gives how to connect."""
    data = place / "pg"
    shutil.rmtree(data, ignore_errors=True)
    for folder in (data, *([wal] if wal else [])):
        folder.mkdir(mode=0o700, exist_ok=True)
        if ROOT_USER:
            shutil.chown(folder, "postgres", "postgres")
    initdb = find("/usr/lib/postgresql/*/bin/initdb")
    if initdb is None:
        raise Failed("PostgreSQL is missing; remedy: scripts/install demo")
    line = [*as_postgres(), initdb, "-D", data, "-A", "trust", "-U", "postgres", "--no-sync"]
    run([*line, *(["--waldir", wal] if wal else [])], 60, stderr=subprocess.DEVNULL, cwd=data)
    # nothing of its own may run beside what is measured
    settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": 100, "jit": "off",
                "fsync": "on" if wal else "off", "autovacuum": "off", "checkpoint_timeout": "1h"}
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    line = [*as_postgres(), initdb.replace("initdb", "postgres"), "-D", data, "-p", str(port), *options]
    with served(line, port, place):
        yield f"host=127.0.0.1 port={port} user=postgres dbname=postgres sslmode=disable gssencmode=disable"


def gunicorn(application, port, threads):
    """One worker with threads, which keep connections."""
    return [find("gunicorn"), "-b", f"127.0.0.1:{port}", "--chdir", TESTBED, "--worker-tmp-dir", "/dev/shm",
            "--worker-class", "gthread", "--workers", "1", "--threads", str(threads), "--keep-alive", "75",
            f"{application}:app"]


class Pool(Case):
    """Twelve threads that share two connections: first the pool limits, then the threads do."""

    name, number = "pool", 3
    bottleneck = r"->.*postgres|pool"
    threads = 12
    clients = 32

    def __enter__(self):
        self.port, self.database = free_ports(2)
        self.stack = contextlib.ExitStack()
        self.dsn = self.stack.enter_context(postgres(self.place, self.database))
        return self

    def __exit__(self, *problem):
        self.stack.close()

    def steps(self):
        pool = f"pool gunicorn:{self.port}->postgres:{self.database}"
        return [
            Step("pool of 8", (f"{pool}=+6",), r"->.*postgres|pool"),
            Step("pool of 32", (f"{pool}=+30",), r"workers|threads"),
        ]

    @contextlib.contextmanager
    def system(self, step):
        (port,) = free_ports(1) if step else (self.port,)
        size = {None: 2, "pool of 8": 8, "pool of 32": 32}[step and step.label]
        env = {**os.environ, "PG": self.dsn, "POOL": str(size)}
        with served(gunicorn("pool", port, self.threads), port, self.place, env=env):
            load = ("--connections", str(self.clients), "--mix", "/list=1")
            watch = ("--port", port, "--port", self.database)
            yield Load(f"http://127.0.0.1:{port}", self.place, *load, watch=watch)


class Lock(Case):
    """A server of threads whose requests need one lock."""

    name, number = "lock", 7
    bottleneck = r"lock"
    hold_us, outside_us = 4000, 8000
    clients = 6

    def __enter__(self):
        self.server = self.place / "lockserver"
        run(["cc", "-O2", "-pthread", "-o", self.server, TESTBED / "lock.c"], 60)
        return self

    def steps(self):
        return [Step("held half as long", ("scale */lockserver/lock=0.5",))]

    @contextlib.contextmanager
    def system(self, step):
        (port,) = free_ports(1)
        hold_us = self.hold_us if step is None else self.hold_us // 2
        line = [self.server, str(port), str(hold_us), str(self.outside_us)]
        with served(line, port, self.place):
            load = ("--connections", str(self.clients), "--mix", "/x=1")
            yield Load(f"http://127.0.0.1:{port}", self.place, *load, watch=("--port", port))


@contextlib.contextmanager
def slow_disk(place, flush_us):
    """A file system on a disk each of whose flushes takes so long, until the end of the context; gives its folder."""
    image, folder = place / "disk.img", place / "disk"
    folder.mkdir(exist_ok=True)
    with open(image, "wb") as f:
        f.truncate(256 << 20)
    run([find("mkfs.ext4"), "-q", "-E", "nodiscard", image], 60)
    line = [sys.executable, TESTBED / "commit-disk", image, "--flush-us", str(flush_us)]
    with contextlib.ExitStack() as stack:
        # pylint: disable-next=consider-using-with
        daemon = subprocess.Popen([str(x) for x in line], stdout=subprocess.PIPE, text=True, start_new_session=True)
        stack.callback(daemon.wait, 10)
        stack.callback(daemon.terminate)
        if daemon.stdout.readline().strip() != "ready":
            raise Failed("no slow disk can be made; remedy: root, /dev/fuse and loop devices")
        loop = run(["losetup", "--show", "-f", image], 10).strip()
        stack.callback(subprocess.run, ["losetup", "-d", loop], timeout=10, check=False)
        run(["mount", "-o", "nodiscard", loop, folder], 30)
        stack.callback(subprocess.run, ["umount", folder], timeout=30, check=False)
        folder.chmod(0o755)
        yield folder


class Commit(Case):
    """Requests that wait for PostgreSQL's log to reach a slow disk, several for one flush."""

    name, number = "commit", 8
    bottleneck = r"disk|lock"
    flush_us = 4000
    clients = 4

    def __enter__(self):
        (self.database,) = free_ports(1)
        self.stack = contextlib.ExitStack()
        try:
            disk = self.stack.enter_context(slow_disk(self.place, self.flush_us))
            self.dsn = self.stack.enter_context(postgres(self.place, self.database, wal=disk / "wal"))
            make = "CREATE TABLE votes (id bigserial PRIMARY KEY, voter text, choice int)"
            run(["psql", "-q", "-d", self.dsn, "-c", make], 30)
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *problem):
        self.stack.close()

    def steps(self):
        return [Step("synchronous_commit off", ("scale */postgres/disk=0",))]

    @contextlib.contextmanager
    def system(self, step):
        (port,) = free_ports(1)
        dsn = self.dsn if step is None else f"{self.dsn} options='-c synchronous_commit=off'"
        env = {**os.environ, "PG": dsn}
        with served(gunicorn("commit", port, 8), port, self.place, env=env):
            load = ("--connections", str(self.clients), "--mix", "/vote=1")
            watch = ("--port", port, "--port", self.database)
            yield Load(f"http://127.0.0.1:{port}", self.place, *load, watch=watch)


CASES = (Pool, Lock, Commit)
