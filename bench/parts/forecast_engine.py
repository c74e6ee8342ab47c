"""The replay's speed, memory and nearness to closed forms, as bars."""

import json
import os
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _program():
    """Builds the program, unless those that are built are to be taken, and gives its path."""
    build = ["cargo", "build", "-q", "--release", "-p", "wakepath-forecast", "--example", "replay_speed"]
    if os.environ.get("WAKEPATH_NO_BUILD") != "1":
        subprocess.run(build, cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    return os.path.join(target, "release", "examples", "replay_speed")


def _run(program, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program, *arguments], cwd=folder, check=True, capture_output=True, timeout=300)
    return json.loads(done.stdout)


def _bar(bar, value, unit, limit, ok):
    return {"bar": bar, "value": value, "interval": None, "unit": unit, "limit": limit, "ok": ok}


def bars(quick=False):
    """Bars as `bars.Bars` keeps them. A quick run streams 2 million events instead of 10, and 200,000 items."""
    program = _program()
    events = 2_000_000 if quick else 10_000_000
    short, long = (_run(program, "stream", str(n)) for n in (events // 10, events))
    seconds = long["write_s"] + long["forecast_s"]
    grown = long["peak_kib"] / max(short["peak_kib"], 1)
    forms = _run(program, "forms", str(200_000 if quick else 1_000_000))
    what, worst = max(forms["errors"].items(), key=lambda error: error[1])
    per_s = round(long["events_per_s"])
    # what is held whatever the length is most of it in a short run: that decides nothing
    flat = True if grown <= 1.5 else None if quick else False
    # a tenth of the items scatters three times as much
    near = 0.04 if quick else 0.02
    return [
        _bar("replay with its critical path", per_s, "events/s", 1_000_000, per_s >= 1_000_000),
        _bar(f"forecast from {events:,} events on disk", round(seconds, 2), "s", 30, seconds <= 30),
        _bar(f"peak memory of {events:,} events to a tenth of them", round(grown, 3), "ratio", 1.5, flat),
        _bar(f"peak memory of {events:,} events", long["peak_kib"] // 1024, "MiB", None, True),
        _bar(f"worst of {len(forms['errors'])} closed forms ({what})", round(worst, 4), "error", near, worst <= near),
    ]
