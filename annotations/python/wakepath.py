# SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause
"""Wakepath's annotations for Python: what a program knows of its own queues and states, told to whoever listens.

    import wakepath

    parser = wakepath.Machine("parser", 0)   # a part of the program that does one thing at a time, and which one
    jobs = wakepath.Queue("jobs")            # of the process; of the host where its name begins with "/"
    parser.state("parse")
    parser.enqueue(jobs, 1)                  # before the call that makes the item available

    writer = wakepath.Machine("writer", 0)
    writer.wait_empty(jobs, 1)               # it waits from now on; a wait ends with the machine's next mark
    writer.dequeue(jobs, 1)                  # behind the call that took it

Names are at most 62 bytes long; longer ones are cut, and counted.

Under `wakepath run` marks work as they are. For `wakepath record` Python needs a small shared object with the probes, since
the interpreter has none that a module could use. `python3 wakepath.py build` makes it with the C compiler (`cc`, or what
CC says) in `$XDG_CACHE_HOME/wakepath` (`~/.cache/wakepath`), or in the folder that is given; it is looked for there and beside
this file, or is named by WAKEPATH_ANNOTATE. Without it and outside of `wakepath run` marks are silent: `CHANNEL` says
which it is. While nobody listens a mark costs a method call and a comparison.
"""

import ctypes
import os
import platform
import sys

__all__ = ["CHANNEL", "Machine", "Queue", "listens"]

_STATE, _ENQUEUE, _DEQUEUE, _WAIT_EMPTY, _WAIT_FULL, _BEGIN, _END = range(1, 8)
_OBJECT = "wakepath-annotate-%s.so" % platform.machine()

_SOURCE = """
#include "wakepath.h"
unsigned short *wakepath_listeners(void) { return &wakepath_semaphore; }
void wakepath_tell(unsigned long kind, const char *machine, unsigned long key, const char *name, unsigned long name_key,
                   unsigned long count) {
    switch (kind) {
    case WAKEPATH_KIND_STATE: WAKEPATH_MARK_(state, machine, key, name, name_key, count); break;
    case WAKEPATH_KIND_ENQUEUE: WAKEPATH_MARK_(enqueue, machine, key, name, name_key, count); break;
    case WAKEPATH_KIND_DEQUEUE: WAKEPATH_MARK_(dequeue, machine, key, name, name_key, count); break;
    case WAKEPATH_KIND_WAIT_EMPTY: WAKEPATH_MARK_(wait_empty, machine, key, name, name_key, count); break;
    case WAKEPATH_KIND_WAIT_FULL: WAKEPATH_MARK_(wait_full, machine, key, name, name_key, count); break;
    case WAKEPATH_KIND_BEGIN: WAKEPATH_MARK_(begin, machine, key, name, name_key, count); break;
    case WAKEPATH_KIND_END: WAKEPATH_MARK_(end, machine, key, name, name_key, count); break;
    }
}
"""


def _cache():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "wakepath")


class _Always:
    """Stands for the count of listeners where the library itself looks whether anybody does."""

    value = 1


class _Never:
    value = 0


def _typed(function):
    number, name = ctypes.c_ulong, ctypes.c_char_p
    function.argtypes = [number, name, number, name, number, number]
    function.restype = None
    return function


def _channel():
    """Who is told: in words, the count of listeners, the function."""
    here = os.path.dirname(os.path.abspath(__file__))
    given = os.environ.get("WAKEPATH_ANNOTATE")
    for path in [given] if given else [os.path.join(d, _OBJECT) for d in (here, _cache())]:
        # loading it keeps the interpreter's lock in a call: a mark is shorter than letting go of it
        if os.path.isfile(path):
            try:
                probes = ctypes.PyDLL(path)
                probes.wakepath_listeners.restype = ctypes.c_void_p
                count = ctypes.c_ushort.from_address(probes.wakepath_listeners())
                return "probes", count, _typed(probes.wakepath_tell)
            except (OSError, AttributeError):
                continue
    if "WAKEPATH_ARENA" in os.environ:
        try:
            return "library", _Always, _typed(ctypes.PyDLL(None).wakepath_mark)
        except (OSError, AttributeError):
            pass
    return "none", _Never, None


CHANNEL, _listeners, _tell = _channel()


def listens():
    """Whether anybody may listen now."""
    return _listeners.value != 0


class Queue:
    """A queue: its name, and which of that name."""

    __slots__ = ("_name", "_key")

    def __init__(self, name, key=0):
        self._name = name.encode()
        self._key = key


class Machine:
    """A machine: its name, and which of that name."""

    __slots__ = ("_name", "_key")

    def __init__(self, name, key=0):
        self._name = name.encode()
        self._key = key

    def state(self, name):
        """It is in this state from now on."""
        if _listeners.value:
            _tell(_STATE, self._name, self._key, name.encode(), 0, 1)

    def enqueue(self, queue, count=1):
        """It put `count` items (or bytes) into the queue."""
        if _listeners.value:
            _tell(_ENQUEUE, self._name, self._key, queue._name, queue._key, count)

    def dequeue(self, queue, count=1):
        """It took `count` items out of the queue."""
        if _listeners.value:
            _tell(_DEQUEUE, self._name, self._key, queue._name, queue._key, count)

    def wait_empty(self, queue, count=1):
        """It waits from now on, since the queue has fewer than `count` items."""
        if _listeners.value:
            _tell(_WAIT_EMPTY, self._name, self._key, queue._name, queue._key, count)

    def wait_full(self, queue, count=1):
        """It waits from now on, since the queue has no room for `count` items."""
        if _listeners.value:
            _tell(_WAIT_FULL, self._name, self._key, queue._name, queue._key, count)

    def begin(self, kind):
        """It begins a transaction of this kind: what throughput and latency are of."""
        if _listeners.value:
            _tell(_BEGIN, self._name, self._key, kind.encode(), 0, 1)

    def end(self, kind):
        """Its transaction of this kind is over."""
        if _listeners.value:
            _tell(_END, self._name, self._key, kind.encode(), 0, 1)


def _build(folder):
    """Makes the shared object in a folder; its path."""
    import subprocess

    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, _OBJECT)
    part = "%s.%d" % (path, os.getpid())
    header = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "c")
    command = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-I", header, "-x", "c", "-", "-o", part]
    subprocess.run(command, input=_SOURCE.encode(), check=True)
    os.rename(part, path)
    return path


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] != "build":
        sys.exit("usage: wakepath.py build [FOLDER]")
    print(_build(sys.argv[2] if len(sys.argv) == 3 else _cache()))
