"""Other people's test suites and load generators, without the library and with it: the same results."""

import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

from parts import server_suites
from parts.programs import Failed, free_port, program, run, server, until_answered
from parts.tiers import find, nginx_line, postgresql

# CPython's own. Those of VSOCK wait forever on a machine that cannot reach itself by it, with the library or without.
LONG = ["test_socket", "test_asyncio", "test_ssl", "test_subprocess", "test_httpservers"]
SHORT = ["test_select", "test_epoll", "test_poll", "test_socketserver"]
LEFT_OUT = ["-i", "*VSOCK*"]
SUITE_S = 300
MODES = ("--isolate", "--observe")

FILES = """
    server { listen 127.0.0.1:@port@; root "@at@/files"; }
    """


def under(mode, place):
    """What a command begins with, to run as `mode` says."""
    if not mode:
        return []
    trace = f"{place}.trace{mode}"
    shutil.rmtree(trace, ignore_errors=True)
    return [program("wakepath"), "run", mode, "-o", trace, "--"]


def outcomes(place, suite, mode):
    """How each test of a suite went, by its name; nothing where the suite could not run to its end."""
    told = place / f"{suite}{mode}.xml"
    told.unlink(missing_ok=True)
    line = [*under(mode, place / suite), sys.executable, "-m", "test", "-u", "network", *LEFT_OUT, "--junit-xml", str(told)]
    try:
        subprocess.run([*line, suite], cwd=place, timeout=SUITE_S, check=False, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        tests = xml.etree.ElementTree.parse(told).iter("testcase")
    except (subprocess.TimeoutExpired, OSError, xml.etree.ElementTree.ParseError):
        return {}
    return {test.get("name"): next((part.tag for part in test if part.tag in ("error", "failure", "skipped")), "ok")
            for test in tests}


def cpython(bars, place, quick):
    """CPython's tests of sockets, waiting, processes and servers."""
    for suite in SHORT if quick else [*SHORT, *LONG]:
        plain = outcomes(place, suite, "")
        if not plain:
            bars.undecided(f"CPython's {suite}: tests that went otherwise", "", 0, "it does not run here without us")
            continue
        for mode in MODES:
            # some depend on the time that they are given: what differs twice, each time from a run without, counts
            first = outcomes(place, suite, mode)
            other = [name for name, how in plain.items() if first.get(name) != how]
            if other:
                plain, again = outcomes(place, suite, ""), outcomes(place, suite, mode)
                other = [name for name in other if plain.get(name) != again.get(name)]
            bars.exactly(f"CPython's {suite}, {mode}: of {len(plain)} tests went otherwise", len(other), 0)


def wrk(bars, place, quick):
    """wrk against nginx: no answer but 200, no connection that failed."""
    if not find("wrk") or not find("nginx"):
        bars.missing("wrk against nginx: requests that failed", "", 0, "wrk or nginx is not installed")
        return
    (place / "files").mkdir()
    (place / "files" / "page").write_bytes(bytes(4096))
    for mode in MODES:
        port = free_port()
        line = [*under(mode, place / "wrk"), *map(str, nginx_line(place, FILES, port=port))]
        with server(line, stderr=subprocess.DEVNULL) as process:
            until_answered(port, process)
            told = run(["wrk", "-t2", "-c64", "-d2s" if quick else "-d10s", f"http://127.0.0.1:{port}/page"], 60)
        sent = int(re.search(r"(\d+) requests in", told)[1])
        failed = re.search(r"Non-2xx or 3xx responses: (\d+)", told)
        broken = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", told)
        count = sum(map(int, [*(failed.groups() if failed else ()), *(broken.groups() if broken else ())]))
        bars.exactly(f"wrk against nginx, {mode}: of {sent} requests failed", count, 0)


def pgbench(bars, place, quick, library_of):
    """pgbench against PostgreSQL, both under the library: no transaction that failed."""
    if not find("pgbench") or not find("/usr/lib/postgresql/*/bin/initdb"):
        bars.missing("pgbench: transactions that failed", "", 0, "PostgreSQL is not installed")
        return
    for mode in MODES:
        here = place / f"pgbench{mode}"
        here.mkdir(mode=0o711)
        library = library_of(here / "trace", mode)
        library.let_others_in()
        line, port = postgresql(here)
        with server(line, env=library.env, stderr=subprocess.DEVNULL) as process, library:
            until_answered(port, process)
            asks = [find("pgbench"), "-h", "127.0.0.1", "-p", str(port), "-U", "postgres"]
            run([*asks, "-i", "-q", "-s", "1", "postgres"], 60, stderr=subprocess.DEVNULL)
            for how in ("simple", "extended", "prepared"):
                load = ["-n", "-M", how, "-c", "8", "-j", "2", "-T", "2" if quick else "10", "postgres"]
                told = run([*asks, *load], 60, env=library.env, stderr=subprocess.DEVNULL)
                done = int(re.search(r"transactions actually processed: (\d+)", told)[1])
                failed = int(re.search(r"number of failed transactions: (\d+)", told)[1])
                bars.exactly(f"pgbench, {how}, {mode}: of {done} transactions failed", failed, 0)
        library.forget()


def suites(bars, place, quick, library_of):
    """All of them; `library_of` makes the library's environment for a folder and a mode."""
    kinds = (server_suites.Redis, server_suites.Nginx)
    servers = [lambda *given, kind=kind: server_suites.server_suite(*given, kind) for kind in kinds]
    for one in (wrk, lambda *given: pgbench(*given, library_of), *servers, cpython):
        try:
            one(bars, place, quick)
        except (Failed, TypeError, OSError, subprocess.SubprocessError) as e:
            bars.failed("other people's suites", f"a report was not understood, or one failed: {e}")
