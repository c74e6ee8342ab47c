"""The demonstration application, and routes that make trouble on request: for tests of what a slow request waited for.

`/work` is one kind of request, always with the same statements: a little computing, three SELECTs, a transaction that
does not wait for the disk. `?cause=` puts one trouble before or into it, so that a load with a few such requests has a
slow tail with a known reason. What needs a second party is switched from outside.

| cause       | what the request does besides                                          | what must be so outside        |
| ----------- | ---------------------------------------------------------------------- | ------------------------------ |
| lock        | UPDATEs a row in its transaction                                       | somebody keeps asking for /hold |
| row         | so too                                                                 | `hold-row`                     |
| row_timeout | so too, with a lock_timeout, and hides that it ran out                 | `hold-row`                     |
| deadlock    | locks two rows, a second session of its own the same in reverse order  |                                |
| sql_error   | divides by zero in SQL and hides the error                             |                                |
| disk        | commits, and waits for the disk, row by row                            | an fsync storm on the same disk |
| network     | asks the database for many bytes                                       | a narrow link from its port    |
| dns         | resolves a name first                                                  | a resolver that takes its time |
| dns_silent  | so too, and hides that it failed                                       | a resolver that never answers  |
| timer       | sleeps                                                                 |                                |
| interpreter | starts a thread that computes and keeps the interpreter's lock         |                                |
| paging      | starts a thread that reads a file from the disk under that lock        | the file `pages` in its folder |
| pool        | waits for the one connection of a pool, which a thread uses meanwhile  |                                |
| eval        | runs a Lua script in Redis                                             |                                |
| stopped     | asks to be stopped, and computes meanwhile                             | `stopper`                      |
| file_lock   | locks a file                                                           | `hold-file`                    |
| quota       | computes                                                               | a CPU quota of its cgroup      |
| downstream  | asks another service                                                   | `slow-service`                 |

A busy neighbour needs nothing of the request. `/hold?ms=N` keeps the row locked for so long.
"""

import contextlib
import fcntl
import mmap
import os
import socket
import threading
import time
import urllib.request

import psycopg2
from app import PG_DSN, app, cache, database
from flask import abort, request

TIMER_S = 0.2
NETWORK_BYTES = 600_000
COMMITS = 6
HOLD_MS_MAX = 5_000
LOOPS = 20_000
# Of the script that Redis runs; of the loop that keeps the interpreter's lock.
EVAL_LOOPS = 3_000_000
COMPUTED = 8_000_000
DOWNSTREAM = int(os.environ.get("DOWNSTREAM_PORT", "18099"))
LOCKED = "UPDATE candidates SET votes = votes + 1 WHERE id = 100"
# A pool of one connection, and the thread that uses it too.
free_connections = threading.Semaphore(1)
pool_users = []
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


@cause("inside")
def row(db):
    db.run(LOCKED)


@cause("between")
def row_timeout(db):
    with contextlib.suppress(psycopg2.Error):
        db.run("SET lock_timeout = 150")
        db.run(LOCKED)
    db.run("RESET lock_timeout")


@cause("between")
def sql_error(db):
    with contextlib.suppress(psycopg2.Error):
        db.run("SELECT 1 / (id - id) FROM items WHERE id = 1")


@cause("between")
def deadlock(db):
    """Which of the two sessions PostgreSQL ends is its choice; both hide it."""
    # rows of this worker's own: requests of others are not in it
    row = 2 * (os.getpid() % 40) + 11
    first, second = (f"UPDATE candidates SET votes = votes WHERE id = {row + n}" for n in (0, 1))
    locked = threading.Barrier(2)
    hidden = contextlib.suppress(psycopg2.Error, threading.BrokenBarrierError)

    def other():
        connection = psycopg2.connect(PG_DSN)
        with hidden, connection.cursor() as cursor:
            cursor.execute(second)
            locked.wait(1)
            cursor.execute(first)
        connection.close()

    thread = threading.Thread(target=other)
    thread.start()
    db.run("BEGIN")
    with hidden:
        db.run(first)
        locked.wait(1)
        db.run(second)
    db.run("ROLLBACK")
    thread.join()


@cause("first")
def dns_silent(_db):
    with contextlib.suppress(OSError):
        socket.getaddrinfo("prices.example", 80, socket.AF_INET, socket.SOCK_STREAM)


@cause("first")
def interpreter(_db):
    # in one call of C, which never looks whether somebody asks for the lock
    threading.Thread(target=sum, args=(range(COMPUTED),)).start()


@cause("first")
def paging(_db):
    with open("pages", "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    pages.madvise(mmap.MADV_RANDOM)
    # one copy, under the interpreter's lock, reads it page by page
    threading.Thread(target=pages.read).start()


@cause("first")
def pool(db):
    if not pool_users:
        pool_users.append(threading.Thread(target=use_pool, daemon=True))
        pool_users[0].start()
    with free_connections:
        db.run("SELECT 1")


def use_pool():
    """Another user of the pool, beside all requests."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with free_connections:
            time.sleep(0.2)
        time.sleep(0.005)


@cause("first")
def eval(_db):
    cache().eval("local n = 0 for i = 1, tonumber(ARGV[1]) do n = n + i end return n", 0, EVAL_LOOPS)


@cause("first")
def stopped(_db):
    with open("stop", "a", encoding="ascii") as asked:
        asked.write(f"{os.getpid()}\n")
    end = time.monotonic() + 0.05
    while time.monotonic() < end:
        pass


@cause("first")
def file_lock(_db):
    with open("locked", "a", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.flock(file, fcntl.LOCK_UN)


@cause("first")
def quota(_db):
    end = time.process_time() + 0.06
    while time.process_time() < end:
        pass


@cause("first")
def downstream(_db):
    urllib.request.urlopen(f"http://127.0.0.1:{DOWNSTREAM}/price", timeout=5).read()


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
