"""Troubles of the network for `bench/waits`: a full accept queue, delayed acknowledgement, a lost packet, a slow link, a client
that reads slowly, a full pipe. Each hits some requests of a small server (testbeds/cases/tools/network-troubles); `wakepath
why` must rank it first, or say that it is not known, and never name another cause."""

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import threading
import time

from parts.programs import ROOT, Failed, Namespace, Recording, keep, program, run, server

SERVER = ROOT / "testbeds" / "cases" / "tools" / "network-troubles"
KIND = "GET /work"
CLIENTS, REQUESTS = 3, 24
# Of the first client one request in so many asks for the trouble, so that no two have it at a time.
EVERY = 4
# How long a slow client sleeps before it reads, and how much it has room for.
SLEEP_S, ROOM = 0.25, 32 << 10
# How much slower the requests with it must be, that there is something to explain.
SLOWDOWN_MIN = 2.0
UNKNOWN = "unknown"


class Trouble:
    """One cause, and how `why` must name it."""

    def __init__(self, cause, where, outside=None):
        self.cause, self.where, self.outside = cause, where, outside


@contextlib.contextmanager
def lossy(host, _port):
    """Loses every other packet with bytes that bears the mark 7: the first time that one is sent, not the second."""
    nft = [*host.prefix, "nft"]
    run([*nft, "add", "table", "inet", "loss"], 10)
    run([*nft, "add", "chain", "inet", "loss", "in", "{ type filter hook input priority 0; }"], 10)
    rule = ["meta", "mark", "7", "meta", "length", "gt", "60", "numgen", "inc", "mod", "2", "0", "drop"]
    run([*nft, "add", "rule", "inet", "loss", "in", *rule], 10)
    try:
        yield
    finally:
        run([*nft, "delete", "table", "inet", "loss"], 10)


@contextlib.contextmanager
def narrow(host, port):
    """What back answers passes a narrow link."""
    host.narrow(port, 2_000_000)
    try:
        yield
    finally:
        host.widen()


def between_front_and_back(difference):
    return difference["service"].startswith("back:") or (difference["object"] or "").startswith("between front and back")


TROUBLES = {
    "accept_queue": Trouble("accept_queue", lambda d: d["service"].startswith("back:")),
    "delayed_ack": Trouble("delayed_ack", between_front_and_back),
    "loss": Trouble("packet_loss", between_front_and_back, lossy),
    "slow_link": Trouble("network", between_front_and_back, narrow),
    "slow_reader": Trouble("slow_reader", lambda d: d["service"].startswith("front")),
    "blocked_pipe": Trouble("slow_reader", lambda d: d["service"].startswith("front") and d["by"] == "logger"),
}


def ask(sock, name, is_slow):
    """One request; how long it took."""
    path = f"/work?cause={name}" if is_slow else "/work"
    began = time.monotonic()
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: front\r\n\r\n".encode())
    if is_slow and name == "slow_reader":
        time.sleep(SLEEP_S)
    got = b""
    while b"\r\n\r\n" not in got:
        got += sock.recv(4096)
    head, _, body = got.partition(b"\r\n\r\n")
    left = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]) - len(body)
    while left > 0:
        left -= len(sock.recv(min(left, 1 << 20)))
    return time.monotonic() - began


def client(first, port, name, count, times):
    """Asks `count` times over one connection; the first client for the trouble now and then."""
    with socket.socket() as sock:
        if name == "slow_reader":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM)
        sock.connect(("127.0.0.1", port))
        for number in range(count):
            is_slow = first and number % EVERY == EVERY - 1
            times.append((is_slow, ask(sock, name, is_slow)))
            time.sleep(0.01)


def load(host, port, name, requests=REQUESTS):
    """All clients, in the server's namespace; the times that requests took."""
    code = "from parts.troubles_network import main; main()"
    line = [*host.prefix, sys.executable, "-c", code, port, name, requests]
    out = subprocess.run(
        [str(x) for x in line], cwd=ROOT / "bench", check=True, timeout=120, stdout=subprocess.PIPE, text=True
    )
    return [tuple(pair) for pair in json.loads(out.stdout)]


def main():
    """The load's own process."""
    port, name, requests = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    times = []
    threads = [threading.Thread(target=client, args=(i == 0, port, name, requests, times)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    json.dump(times, sys.stdout)


def first_difference(trace):
    """What `wakepath why` puts first."""
    kinds = json.loads(run([program("wakepath"), "why", trace, "--kind", KIND, "--json"], 60))["kinds"]
    if not kinds or not kinds[0]["differences"]:
        raise Failed(f"wakepath why compares no requests of {KIND}")
    return kinds[0]["differences"][0]


def one_round(host, port, pid, name, place):
    """One recording: how much slower those with the trouble were, and what `why` says first."""
    trace = place / "trace"
    with Recording(trace, "--pid", pid):
        times = load(host, port, name)
        time.sleep(0.2)
    slow = sorted(t for is_slow, t in times if is_slow)
    usual = sorted(t for is_slow, t in times if not is_slow)
    # a narrow link holds up those beside it, too
    ratio = slow[len(slow) // 2] / usual[len(usual) // 2]
    return trace, ratio, first_difference(trace)


def injected(name):
    """The case of one cause."""

    def case(bars, rig, rounds):
        trouble = TROUBLES[name]
        place = rig.place / name
        place.mkdir()
        named, unknown, wrong = 0, 0, 0
        if name == "loss" and not shutil.which("nft"):
            raise Failed("nft is not there; remedy: apt-get install nftables")
        with Namespace("net") as host, server([*host.prefix, SERVER], first_line=True) as (port, pid, back):
            load(host, port, "none", EVERY)
            with trouble.outside(host, int(back)) if trouble.outside else contextlib.nullcontext():
                for number in range(rounds):
                    trace, ratio, first = one_round(host, port, pid, name, place)
                    if ratio < SLOWDOWN_MIN:
                        print(f"  {name} {number}: it slowed nothing down ({ratio:.1f} times)", file=sys.stderr)
                        continue
                    if first["cause"] == trouble.cause and trouble.where(first):
                        named += 1
                    elif first["cause"] == UNKNOWN:
                        unknown += 1
                    else:
                        wrong += 1
                    if first["cause"] != trouble.cause or not trouble.where(first):
                        print(f"  {name} {number}: first is {first['text']} ({first['cause']})", file=sys.stderr)
                        keep(trace, None, f"{name}-{number}")
        bars.at_least(f"{name}: rounds in which it slowed requests down", named + unknown + wrong, rounds, f"of {rounds}")
        bars.at_most(f"{name}: another cause ranked first", wrong, 0, f"of {rounds}")
        bars.at_least(f"{name}: ranked first, or not known with the reason", named + unknown, rounds, f"of {rounds}")
        bars.reported(f"{name}: ranked first", named, f"of {rounds}")

    return case


CASES = {name: injected(name) for name in TROUBLES}
