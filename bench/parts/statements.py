"""Statements that are easily false, for `bench/waits`: of a wait for a thread of a pool (no lock), for a process that was stopped,
for a connection that nobody accepts or answers, for a handshake, for a client's body, and of a worker that waits for work; of a front
without a descriptor left, of clients that leave, of errors that are 4xx, of a fetch that others wait for, of calls that the program makes by itself, and of paths that end where
nobody watches. The system is testbeds/cases/tools/statements-server. What is said must be right, or say that it is not known."""

import contextlib
import http.server
import json
import shutil
import socket
import struct
import sys
import threading
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


def leave(port):
    """Asks, and closes the connection before the answer; every other time by a reset."""
    for number in range(REQUESTS // EVERY):
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(b"GET /work?slow HTTP/1.1\r\nHost: front\r\n\r\n")
            time.sleep(LATE_S / 3)
            if number % 2:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    time.sleep(2 * LATE_S)


@contextlib.contextmanager
def answering():
    """A back in this process, which nobody watches; its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        """One connection."""

        def do_GET(self):
            """A request."""
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            """Nothing is logged."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as back:
        threading.Thread(target=back.serve_forever, daemon=True).start()
        yield back.server_address[1]
        back.shutdown()


def together(port):
    """Two clients, of which the second asks for what the first one has had fetched, and others in between."""
    for _ in range(REQUESTS // EVERY):
        pair = [threading.Thread(target=load, args=(port, "one")) for _ in range(2)]
        for thread in pair:
            thread.start()
            time.sleep(0.01)
        for thread in pair:
            thread.join()


def beside(port):
    """A client takes the front's last descriptors, as it were, and another one connects meanwhile."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        first = threading.Thread(target=ask, args=(sock, "out_of_files", True))
        first.start()
        time.sleep(LATE_S / 3)
        with socket.create_connection(("127.0.0.1", port)) as second:
            ask(second, "out_of_files", False)
        first.join()


def load(port, name):
    """All requests, over one connection."""
    if name == "out_of_files":
        return beside(port)
    if name == "left":
        return leave(port)
    if name == "fetched":
        return together(port)
    with socket.create_connection(("127.0.0.1", port)) as sock:
        for number in range(EVERY if name == "one" else REQUESTS):
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


def kind_of(trace, port):
    """What `wakepath requests` says of the front's requests."""
    answered = answer(trace, "requests")
    kinds = [k for k in answered["kinds"] if k["service"].endswith(f":{port}")]
    if len(kinds) != 1:
        raise Failed(f"the front has {len(kinds)} kinds of requests")
    return answered, kinds[0]


def verdict_of_left(trace, port):
    """Who leaves has left, however the server's attempt to reply ended."""
    _, kind = kind_of(trace, port)
    words = f"left {kind['left']}, reset {kind['reset']}, cut {kind['cut']} of {kind['count']}"
    is_right = kind["left"] == kind["count"] == REQUESTS // EVERY
    return ("false" if kind["reset"] + kind["cut"] else "named" if is_right else "unknown"), words


def verdict_of_out_of_files(trace, port):
    """A front that could not accept is named with why, and what ends that."""
    said = [f["sentence"] for f in answer(trace, "triage")["findings"] if "limit of open files" in f["sentence"]]
    is_right = len(said) == 1 and f":{port} failed to accept" in said[0] and "ulimit -n" in said[0]
    return ("named" if is_right else "false"), " ".join(said)


def verdict_of_missing(trace, port):
    """A service of which everything is answered with 404 has errors, and triage says so."""
    kind_of(trace, port)
    fails = [f for f in answer(trace, "triage")["findings"] if f["section"] == "fails"]
    return ("named" if any("404" in f["sentence"] for f in fails) else "false"), fails[0]["sentence"]


def verdict_of_fetched(trace, _port):
    """Who looked by a timer whether another's fetch was done did not sleep of its own accord."""
    first = first_difference(trace, "GET /work")
    is_false = "its own timer" in first["text"] and is_front(first, _port)
    return ("false" if is_false else "unknown" if first["cause"] == UNKNOWN else "named"), first["text"]


def verdict_of_alone(trace, port):
    """Where one request is open at a time, no call is one that several could have made."""
    answered, kind = kind_of(trace, port)
    why = [why for why, _ in kind["why_incomplete"]] + [why for o in answered["orphans"] for why, _ in o["why"]]
    return ("false" if any("several requests" in each for each in why) else "named"), "; ".join(why)


def verdict_of_unwatched(trace, port):
    """Paths that end at a service that is not watched are told in the total."""
    answered, kind = kind_of(trace, port)
    is_said = kind["leaving"] == kind["count"] and [u["calls"] for u in answered["unwatched"]] == [kind["count"]]
    return ("named" if is_said else "false"), f"{kind['leaving']} of {kind['count']} leave"


def verdict_of_handshake(trace, port):
    """The back's sleep before its handshake is the back's, in `why` and in `requests`."""
    verdict, words = by("timer", is_elsewhere)(trace, port)
    _, kind = kind_of(trace, port)
    own = next(t["self_ns"] for t in kind["tiers"] if t["service"] == kind["service"])
    handshake = sum(t["handshake_ns"] for t in kind["tiers"])
    if 2 * own > kind["mean_ns"] or 2 * handshake < kind["mean_ns"]:
        return "false", f"{own} ns of {kind['mean_ns']} are the front's own, {handshake} ns handshakes"
    return verdict, words


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
    "syn_dropped": by("unanswered", is_front),
    "queue_full": by("accept_queue", is_elsewhere),
    "handshake": verdict_of_handshake,
    "body": lambda trace, port: by("slow_sender", is_front)(trace, port, "POST /work"),
    "worker": verdict_of_worker,
    "left": verdict_of_left,
    "out_of_files": verdict_of_out_of_files,
    "missing": verdict_of_missing,
    "fetched": verdict_of_fetched,
    "alone": verdict_of_alone,
    "unwatched": verdict_of_unwatched,
}


def one_round(name, trace, *more):
    """One recording, and the verdict on it."""
    with server([SERVER, name, *more], first_line=True, stdin=-1) as (port, *pids):
        watched = [word for pid in pids for word in ("--pid", pid)]
        with Recording(trace, *watched, *(["--port", more[0]] if name == "worker" else [])):
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
            elif name == "unwatched":
                with answering() as port:
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
