"""A small application whose ways of being slow can be mended for real: for tests of forecasts.

Run by gunicorn with sync workers. What is mended is said by the environment, so that the same program is measured as it
is and with the change made.

| route     | what it does                                                                        | mended by        |
| --------- | ----------------------------------------------------------------------------------- | ---------------- |
| /wait     | computes a little, one SELECT, and a statement that waits 30 ms                     | more workers     |
| /list     | N+1: one list query, then one query an item, then it computes ("rendering")         | JOINED=1         |
| /both     | calls the services at PORT_A and PORT_B                                             | PARALLEL=1       |
| /order    | computes, then calls the service at PORT_A                                          | a faster service |
| /part     | a service that sleeps SLEEP_MS and computes                                         |                  |
"""

import http.client
import os
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg2
from flask import Flask, request

PG_DSN = "host=127.0.0.1 port={} dbname=demo user=demo".format(os.environ.get("PG_PORT", 0))
IS_JOINED = os.environ.get("JOINED") == "1"
IS_PARALLEL = os.environ.get("PARALLEL") == "1"
SLEEP_S = float(os.environ.get("SLEEP_MS", "0")) / 1000
# Rounds of computing: 10,000 are about half a millisecond.
LOOPS = int(os.environ.get("LOOPS", "20000"))
ITEMS = 20

app = Flask(__name__)
held = {}


def run(statement, *values):
    """A statement on the worker's one connection."""
    if "database" not in held:
        held["database"] = psycopg2.connect(PG_DSN)
        held["database"].autocommit = True
    with held["database"].cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall()


def compute():
    """Takes a processor for a while."""
    return sum(n * n for n in range(LOOPS))


def call(port, path):
    """Asks another service."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    if reply.status != 200:
        raise RuntimeError("{} answered {}".format(path, reply.status))
    return body.decode()


@app.get("/wait")
def wait():
    rows = run("SELECT title FROM items WHERE id = %s", 7)
    run("SELECT 1 FROM pg_sleep(0.03)")
    return {"title": rows[0][0], "sum": compute()}


@app.get("/list")
def items():
    if IS_JOINED:
        rows = run("SELECT id, title, price FROM items WHERE id > %s ORDER BY id LIMIT %s", 100, ITEMS)
        found = [row[1:] for row in rows]
    else:
        rows = run("SELECT id FROM items WHERE id > %s ORDER BY id LIMIT %s", 100, ITEMS)
        found = [run("SELECT title, price FROM items WHERE id = %s", row[0])[0] for row in rows]
    return {"items": found, "sum": compute()}


@app.get("/both")
def both():
    wanted = ((int(os.environ["PORT_A"]), "/part?name=stock"), (int(os.environ["PORT_B"]), "/part?name=price"))
    if IS_PARALLEL:
        if "pool" not in held:
            held["pool"] = ThreadPoolExecutor(2)
        parts = list(held["pool"].map(lambda w: call(*w), wanted))
    else:
        parts = [call(*w) for w in wanted]
    return {"parts": parts, "sum": compute()}


@app.get("/order")
def order():
    total = compute()
    return {"part": call(int(os.environ["PORT_A"]), "/part?name=stock"), "sum": total}


@app.get("/part")
def part():
    time.sleep(SLEEP_S)
    return {"name": request.args.get("name"), "sum": compute()}
