"""The demonstration web application: small routes with known shapes of database and cache use.

Nothing in here knows that it may be watched. A request may carry `?rid=<id>`; then every SQL
statement sent for it ends in the comment `/* rid=<id> */`, and routes that use the database or the
cache also send `GET rid:<id>` to Redis. That is the ground truth by which tests check a recorded
path; whatever reconstructs the paths must not look at it.

| route            | what it does                                                           |
| ---------------- | ---------------------------------------------------------------------- |
| /vote/<n>        | BEGIN, 2 to 4 statements by n % 3, COMMIT (which flushes the log)      |
| /results         | GET results; on a hit no SQL, on a miss 2 SELECTs and SETEX            |
| /item/<n>        | N+1: one list query, then 2 + n % 5 single ones                        |
| /slow            | SELECT pg_sleep(0.2)                                                   |
| /error           | raises, the answer is a 500                                            |
| /login (POST)    | form fields `user` and `password`, both literals in the SQL            |
| /health          | neither database nor cache                                             |
| /static-ish      | 40,000 bytes (`?bytes=N` for another size), neither database nor cache |
"""

import json
import os
import re
import threading

import psycopg2
import redis
from flask import Flask, Response, abort, g, request

PG_DSN = "host=127.0.0.1 port={} dbname=demo user=demo".format(os.environ["PG_PORT"])
REDIS_PORT = int(os.environ["REDIS_PORT"])
RESULTS_TTL_S = int(os.environ.get("RESULTS_TTL_S", "1"))
RID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
STATIC_BYTES_MAX = 10_000_000

app = Flask(__name__)
per_thread = threading.local()


class Database:
    """One connection per thread, opened at the first use and kept.

    Autocommit is on, so that BEGIN and COMMIT are statements of ours and carry the comment too;
    the driver's own BEGIN would not.
    """

    def __init__(self):
        self.connection = psycopg2.connect(PG_DSN)
        self.connection.autocommit = True

    def run(self, statement, *values):
        """Sends one statement, its values written into the text as literals."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement + g.rid_comment, values or None)
            return cursor.fetchall() if cursor.description else []


def database():
    held = getattr(per_thread, "database", None)
    if held is None or held.connection.closed:
        held = per_thread.database = Database()
    return held


def cache():
    held = getattr(per_thread, "cache", None)
    if held is None:
        # A client per thread over a pool of one: always the same connection.
        held = per_thread.cache = redis.Redis(host="127.0.0.1", port=REDIS_PORT, max_connections=1)
    return held


@app.before_request
def read_rid():
    rid = request.args.get("rid")
    # The id ends up inside an SQL comment: nothing but plain characters.
    if rid is not None and not RID.fullmatch(rid):
        abort(400, "rid: letters, digits, '_', '.' and '-' only, at most 64")
    g.rid_comment = " /* rid={} */".format(rid) if rid else ""
    g.rid = rid


def mark_cache():
    """The ground truth's one extra Redis command."""
    if g.rid:
        cache().get("rid:" + g.rid)


@app.get("/vote/<int:number>")
def vote(number):
    mark_cache()
    db = database()
    candidate = number % 100 + 1
    db.run("BEGIN")
    try:
        rows = db.run("SELECT name FROM candidates WHERE id = %s AND active = true", candidate)
        if number % 3 != 0:
            db.run("UPDATE candidates SET votes = votes + 1 WHERE id = %s", candidate)
        db.run("INSERT INTO votes (candidate_id, voter) VALUES (%s, %s)", candidate, "voter-%d" % number)
        if number % 3 == 2:
            db.run("SELECT votes FROM candidates WHERE id = %s", candidate)
    except psycopg2.Error:
        if not db.connection.closed:
            db.run("ROLLBACK")
        raise
    db.run("COMMIT")
    return {"voted": rows[0][0]}


@app.get("/results")
def results():
    mark_cache()
    kept = cache().get("results")
    if kept is None:
        db = database()
        total = db.run("SELECT sum(votes) FROM candidates")
        best = db.run("SELECT name, votes FROM candidates ORDER BY votes DESC, id LIMIT 10")
        kept = json.dumps({"total": int(total[0][0]), "best": best})
        cache().setex("results", RESULTS_TTL_S, kept)
    return Response(kept, mimetype="application/json")


@app.get("/item/<int:number>")
def item(number):
    mark_cache()
    db = database()
    first = number % 100 * 10
    ids = db.run("SELECT id FROM items WHERE id > %s ORDER BY id LIMIT %s", first, 2 + number % 5)
    rows = [db.run("SELECT title, price FROM items WHERE id = %s", row[0])[0] for row in ids]
    return {"items": [{"title": title, "price": price} for title, price in rows]}


@app.get("/slow")
def slow():
    mark_cache()
    database().run("SELECT pg_sleep(0.2)")
    return {"slow": True}


@app.get("/error")
def error():
    mark_cache()
    raise RuntimeError("this route always fails")


@app.post("/login")
def login():
    mark_cache()
    rows = database().run(
        "SELECT id FROM users WHERE name = %s AND password = %s",
        request.form.get("user", ""),
        request.form.get("password", ""),
    )
    return {"known": bool(rows)}


@app.get("/health")
def health():
    return {"ok": True}


@app.get("/static-ish")
def static_ish():
    size = min(max(request.args.get("bytes", default=40_000, type=int), 0), STATIC_BYTES_MAX)
    return Response("x" * size, mimetype="text/plain")
