"""How long a recording takes to begin, on a host with many processes."""

import contextlib
import os
import subprocess
import time

from .bars import median_interval
from .programs import Recording, Stack, server

# Processes that do nothing, beside the demo stack, which is recorded.
PROCESSES = 300
# Seconds until a recording has begun.
READY_MAX = 0.7


def ready_s(folder, *flags):
    """Seconds from the recorder's start to its ready file, and its processor time until then."""
    begun = time.monotonic()
    with Recording(folder, *flags) as recording:
        # the recorder wrote the time of its ready file itself; a look every 20 ms would add as much
        ready = folder.with_name(folder.name + ".ready").stat().st_mtime
        waited = ready - (time.time() - (time.monotonic() - begun))
        cpu = recording.cpu_at_start
    return waited, cpu


def starts(bars, place, quick):
    """How long it takes until a recording has begun, and what that costs, by ports and of the whole host."""
    rounds = 5 if quick else 20
    with contextlib.ExitStack() as stack:
        for _ in range(PROCESSES):
            stack.enter_context(server(["sleep", 600], stdin=subprocess.DEVNULL, env=os.environ))
        demo = stack.enter_context(Stack(place / "stack"))
        for name, flags in (("four ports", demo.selection()), ("the whole host", ["--all"])):
            found = [ready_s(place / "start", "--payload", "none", *flags) for _ in range(rounds)]
            value, interval = median_interval([waited for waited, _ in found])
            bars.at_most(f"start: ready, {PROCESSES} processes, {name}", value, READY_MAX, "s", interval)
            value, interval = median_interval([cpu for _, cpu in found])
            bars.reported(f"start: the recorder's processor time until then, {name}", value, "s", interval)
