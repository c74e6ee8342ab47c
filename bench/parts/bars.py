"""Bars: figures held against their limits, as a table on standard error and JSON on standard output."""

import json
import random
import statistics
import sys

# Every bench takes it: what is not installed is left out, instead of failing the bench.
AVAILABLE = "--available"


def taken(flag):
    """Whether a flag was given that all benches share; their own parsers do not see it."""
    is_given = flag in sys.argv[1:]
    sys.argv[1:] = [word for word in sys.argv[1:] if word != flag]
    return is_given


IS_AVAILABLE = taken(AVAILABLE)


def interval_of(figure, values, rounds=4000):
    """A figure of these values and its bootstrap 95 % interval. The seed is fixed: the same values give the same
    interval."""
    dice = random.Random(1)
    again = sorted(figure(dice.choices(values, k=len(values))) for _ in range(rounds))
    return figure(values), [again[int(rounds * 0.025)], again[int(rounds * 0.975)]]


def median_interval(values, rounds=4000):
    """The median and its bootstrap 95 % interval."""
    return interval_of(statistics.median, values, rounds)


class Bars:
    """Gathers bars; `finish` prints them and gives the exit status."""

    def __init__(self, name):
        self.name = name
        self.all = []
        self.takes_available = IS_AVAILABLE
        print(f"{name}: {'bar':<62} {'value':>12} {'limit':>10}  ok", file=sys.stderr)

    def _add(self, bar, value, unit, limit, ok, interval=None, reason=None):
        row = {"bar": bar, "value": value, "interval": interval, "unit": unit, "limit": limit, "ok": ok}
        if reason:
            row["reason"] = reason
        self.all.append(row)
        shown = "-" if value is None else f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"
        mark = {True: "yes", False: "NO", None: "undecided"}[ok]
        span = f" [{interval[0]:.3g} .. {interval[1]:.3g}]" if interval else ""
        edge = "" if limit is None else limit
        why = f" ({reason})" if reason else ""
        print(f"  {bar:<72} {shown:>12} {unit:<9} {edge!s:>10}  {mark}{span}{why}", file=sys.stderr, flush=True)

    def at_least(self, bar, value, limit, unit="", interval=None):
        """Missed only if the whole interval is below."""
        self._add(bar, value, unit, limit, *self._verdict(value >= limit, interval, lambda v: v >= limit, limit))

    def at_most(self, bar, value, limit, unit="", interval=None):
        """Missed only if the whole interval is above."""
        self._add(bar, value, unit, limit, *self._verdict(value <= limit, interval, lambda v: v <= limit, limit))

    @staticmethod
    def _verdict(ok, interval, holds, limit):
        if interval is None:
            return ok, None, None
        low, high = (holds(v) for v in interval)
        if low and high:
            return True, interval, None
        if not low and not high:
            return False, interval, None
        return None, interval, f"{limit} lies in the interval"

    def exactly(self, bar, value, limit, unit=""):
        """No more and no less; gives whether it is so."""
        self._add(bar, value, unit, limit, value == limit)
        return value == limit

    def reported(self, bar, value, unit="", interval=None):
        """A figure without a limit."""
        self._add(bar, value, unit, None, True, interval)

    def given(self, row):
        """A bar that was judged elsewhere, as `finish` prints it."""
        self._add(row["bar"], row["value"], row["unit"], row["limit"], row["ok"], row["interval"], row.get("reason"))

    def undecided(self, bar, unit, limit, reason):
        """It could not be measured here."""
        self._add(bar, None, unit, limit, None, None, reason)

    def missing(self, bar, unit, limit, reason):
        """What it needs is not installed: a miss, unless what is available was asked for."""
        self._add(bar, None, unit, limit, None if self.takes_available else False, None, reason)

    def failed(self, bar, reason):
        """It could not be measured, and should have been."""
        self._add(bar, None, "", None, False, None, reason)

    def finish(self):
        """Prints the document; 1 where a bar is missed."""
        json.dump(self.all, sys.stdout, indent=1)
        print()
        missed = [row["bar"] for row in self.all if row["ok"] is False]
        undecided = sum(row["ok"] is None for row in self.all)
        verdict = f"{len(missed)} missed, {undecided} undecided, of {len(self.all)}"
        print(f"{self.name}: {verdict}", *missed, sep="\n  missed: ", file=sys.stderr)
        return 1 if missed else 0
