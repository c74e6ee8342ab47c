"""A web application whose threads share a pool of PostgreSQL connections, for gunicorn's gthread workers.

Environment: `PG` (how to connect), `POOL` (connections). Each request takes a connection, asks twice, computes a little in
between, and gives it back. Both queries wait in the server and compute next to nothing.
"""

import contextlib
import json
import os
import queue

import psycopg2

# newest first, as most pools do
free = queue.LifoQueue()
for _ in range(int(os.environ["POOL"])):
    connection = psycopg2.connect(os.environ["PG"])
    connection.autocommit = True
    free.put(connection)


@contextlib.contextmanager
def cursor():
    """One of a pooled connection; waits until there is one."""
    taken = free.get()
    try:
        with taken.cursor() as found:
            yield found
    finally:
        free.put(taken)


def app(environ, start_response):
    """Answers with what the database says."""
    del environ
    with cursor() as c:
        c.execute("SELECT generate_series(1, 20) AS id, pg_sleep(0.007)::text AS waited LIMIT 1")
        first = c.fetchall()
        shown = json.dumps([{"id": i, "title": f"item {i}", "first": first[0][0]} for i in range(40)])
        c.execute("SELECT count(*), pg_sleep(0.005)::text FROM generate_series(1, 20)")
        c.fetchall()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(shown)))])
    return [shown.encode()]
