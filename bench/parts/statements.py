"""Statements that are easily false, for `bench/waits`: of a wait for a thread of a pool (no lock), for a process that was stopped,
for a connection that nobody accepts, for a handshake, for a client's body, and of a worker that waits for work. The system is
testbeds/cases/tools/statements-server. What `wakepath why` puts first must be right, or say that it is not known."""

import json
import shutil
import socket
import sys
import time

from parts.programs import ROOT, Failed, Recording, free_port, keep, program, run, server, until_answered

SERVER = ROOT / "testbeds" / "cases" / "tools" / "statements-server"
REQUESTS, EVERY = 40, 5
# How late a slow body's second half comes.
LATE_S = 0.1
UNKNOWN = "unknown"


def ask(sock, name, is_slow):
    """One request, and its answer."""
    path = "/work?slow" if is_slow and name not in ("body", "handshake") else "/work"
    if name == "body":
        sock.sendall(b"POST /work HTTP/1.1\r\nHost: front\r\nContent-Length: 4\r\n\r\nhe")
        if is_slow:
            time.sleep(LATE_S)
        sock.sendall(b"re")
    else:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: front\r\n\r\n".encode())
    got = b""
    while not got.endswith(b"\r\n\r\nok"):
        piece = sock.recv(4096)
        if not piece:
            raise Failed("the front closed the connection")
        got += piece


def load(port, name):
    """All requests, over one connection."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        for number in range(REQUESTS):
            ask(sock, name, number % EVERY == EVERY - 1)


def answer(trace, *words):
    """What a command says, as JSON."""
    return json.loads(run([program("wakepath"), words[0], trace, *words[1:], "--json"], 120))


def first_difference(trace, kind):
    """What `wakepath why` puts first."""
    kinds = answer(trace, "why", "--kind", kind)["kinds"]
    if not kinds or not kinds[0]["differences"]:
        raise Failed(f"wakepath why compares no requests of {kind}")
    return kinds[0]["differences"][0]


def verdict_of_worker(trace, _port):
    """A worker's wait for work leads no answer: it is no kind of request, and hangs nowhere."""
    requests, unended = answer(trace, "requests"), answer(trace, "open")
    false = [k["asked"] for k in requests["kinds"] if "BRPOP" in k["asked"]]
    false += [r["kind"] for r in unended["requests"] if "BRPOP" in r["kind"]]
    if false:
        return "false", f"{', '.join(false)} among the requests"
    return ("named" if requests["awaited"] else "unknown"), "no word of BRPOP"


def by(cause, is_where=lambda difference, port: True):
    """The verdict on what `why` puts first."""

    def verdict(trace, port, kind="GET /work"):
        first = first_difference(trace, kind)
        if first["cause"] == cause and is_where(first, port):
            return "named", first["text"]
        return ("unknown" if first["cause"] == UNKNOWN else "false"), first["text"]

    return verdict


def is_front(difference, port):
    """Whether a difference is at the front."""
    return difference["service"].endswith(f":{port}")


def is_elsewhere(difference, port):
    """Whether it is not."""
    return not is_front(difference, port)


VERDICTS = {
    "handed_over": by("futex", is_front),
    "held_mutex": by("lock", is_front),
    "stopped_before": by("not_taken", is_elsewhere),
    "unaccepted": by("not_taken", is_elsewhere),
    "handshake": by("timer", is_elsewhere),
    "body": lambda trace, port: by("slow_sender", is_front)(trace, port, "POST /work"),
    "worker": verdict_of_worker,
}


def one_round(name, trace, *more):
    """One recording, and the verdict on it."""
    with server([SERVER, name, *more], first_line=True, stdin=-1) as (port, *pids):
        watched = [word for pid in pids for word in ("--pid", pid)]
        with Recording(trace, *watched, *([] if not more else ["--port", more[0]])):
            load(int(port), name)
            time.sleep(0.2)
        return VERDICTS[name](trace, port)


def stated(name):
    """The case of one statement."""

    def case(bars, rig, rounds):
        place = rig.place / f"statement-{name}"
        place.mkdir()
        verdicts = []
        for number in range(rounds):
            trace = place / "trace"
            if name == "worker":
                if not shutil.which("redis-server"):
                    raise Failed("redis-server is not there; remedy: apt-get install redis-server")
                port = free_port()
                with server(["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", ""]) as redis:
                    until_answered(port, redis)
                    verdict, words = one_round(name, trace, port)
            else:
                verdict, words = one_round(name, trace)
            verdicts.append(verdict)
            if verdict != "named":
                print(f"  {name} {number}: {verdict}: {words}", file=sys.stderr)
                keep(trace, None, f"{name}-{number}")
        bars.exactly(f"{name}: a false statement", verdicts.count("false"), 0, f"of {rounds}")
        bars.reported(f"{name}: right", verdicts.count("named"), f"of {rounds}")

    return case


CASES = {name: stated(name) for name in VERDICTS}
