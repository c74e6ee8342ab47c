"""The demonstration application, and routes that make trouble on request: for tests of what a slow request waited for.

`/work` is one kind of request, always with the same statements: a little computing, three SELECTs, a transaction that
does not wait for the disk. `?cause=` puts one trouble before or into it, so that a load with a few such requests has a
slow tail with a known reason. What needs a second party is switched from outside.

| cause   | what the request does besides                           | what must be so outside                     |
| ------- | ------------------------------------------------------- | ------------------------------------------- |
| lock    | UPDATEs a row in its transaction                        | somebody keeps asking for /hold             |
| disk    | commits, and waits for the disk, row by row             | an fsync storm on the same disk             |
| network | asks the database for many bytes                        | a narrow link from the database's port      |
| dns     | resolves a name first                                   | a resolver that takes its time              |
| timer   | sleeps                                                  |                                             |

A busy neighbour needs nothing of the request. `/hold?ms=N` keeps the row locked for so long.
"""

import socket
import time

from app import app, database
from flask import abort, request

TIMER_S = 0.2
NETWORK_BYTES = 600_000
COMMITS = 6
HOLD_MS_MAX = 5_000
LOOPS = 20_000
LOCKED = "UPDATE candidates SET votes = votes + 1 WHERE id = 100"
# Of each cause: when in the request (first, between the reads and the transaction, inside it), and what is done then.
CAUSES = {}


def cause(when):
    """Makes a function of the database connection the cause of its name."""

    def register(function):
        CAUSES[function.__name__] = (when, function)
        return function

    return register


@cause("first")
def dns(_db):
    socket.getaddrinfo("prices.example", 80, socket.AF_INET, socket.SOCK_STREAM)


@cause("first")
def timer(_db):
    time.sleep(TIMER_S)


@cause("between")
def network(db):
    db.run("SELECT repeat('x', %s)", NETWORK_BYTES)


@cause("between")
def disk(db):
    for _ in range(COMMITS):
        db.run("INSERT INTO votes (candidate_id, voter) VALUES (2, 'worker')")


@cause("inside")
def lock(db):
    db.run(LOCKED)


@app.get("/work")
def work():
    name = request.args.get("cause", "")
    if name and name not in CAUSES:
        abort(400, "cause: one of " + ", ".join(sorted(CAUSES)))
    asked, trouble = CAUSES.get(name, (None, None))
    db = database()

    def at(when):
        if when == asked:
            trouble(db)

    at("first")
    total = sum(n * n for n in range(LOOPS))
    for number in (1, 2, 3):
        db.run("SELECT title, price FROM items WHERE id = %s", number)
    at("between")
    db.run("BEGIN")
    db.run("SET LOCAL synchronous_commit = off")
    db.run("INSERT INTO votes (candidate_id, voter) VALUES (1, 'worker')")
    at("inside")
    db.run("COMMIT")
    return {"total": total}


@app.get("/hold")
def hold():
    db = database()
    milliseconds = min(max(request.args.get("ms", default=60, type=int), 0), HOLD_MS_MAX)
    db.run("BEGIN")
    db.run("SET LOCAL synchronous_commit = off")
    db.run(LOCKED)
    db.run("SELECT pg_sleep(%s)", milliseconds / 1000)
    db.run("COMMIT")
    return {"held_ms": milliseconds}
