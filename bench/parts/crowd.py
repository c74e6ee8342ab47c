"""A crowd beside what is recorded: processes that compute, that write to a disk, and pairs that wake each other."""

import os
import pathlib
import signal
import tempfile
import time


def _compute():
    while True:
        pass


def _write(place):
    block = os.urandom(1 << 16)
    while True:
        with tempfile.TemporaryFile(dir=place) as f:
            for _ in range(16):
                f.write(block)
            f.flush()
            os.fdatasync(f.fileno())


def _switch(pause_s):
    """Two processes that wake each other by pipes, some times, and then a while not."""
    (a, b), (c, d) = os.pipe(), os.pipe()
    if os.fork() == 0:
        while os.read(a, 1):
            os.write(d, b"x")
        os._exit(0)
    while True:
        for _ in range(64):
            os.write(b, b"x")
            os.read(c, 1)
        if pause_s:
            time.sleep(pause_s)


class Crowd:
    """Some processes of each sort, until the block ends."""

    def __init__(self, place, computing=20, writing=4, pairs=6, pause_s=0.0):
        self.place = pathlib.Path(place)
        self.parts = [(_compute, ())] * computing + [(_write, (place,))] * writing + [(_switch, (pause_s,))] * pairs
        self.groups = []

    def __enter__(self):
        for part, arguments in self.parts:
            pid = os.fork()
            if pid == 0:
                os.setsid()
                try:
                    part(*arguments)
                finally:
                    os._exit(1)
            self.groups.append(pid)
        return self

    def __exit__(self, *_):
        for pid in self.groups:
            for send in (lambda: os.killpg(pid, signal.SIGKILL), lambda: os.kill(pid, signal.SIGKILL)):
                try:
                    send()
                    break
                except ProcessLookupError:
                    continue
        for pid in self.groups:
            os.waitpid(pid, 0)


def switches():
    """How often this host switched from one task to another since it started."""
    for line in pathlib.Path("/proc/stat").read_text().splitlines():
        if line.startswith("ctxt "):
            return int(line.split()[1])
    return 0
