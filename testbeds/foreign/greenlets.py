"""A service on greenlets: Redis by redis-py, PostgreSQL by psycopg2, HTTP by requests. Settings come by environment.

usage: greenlets.py pywsgi|eventlet, or as an application of gunicorn's gevent workers. KIND says who asks the service behind, twice for
each request: `own`, the request's greenlet; `fan-out`, two greenlets that it makes; `pool`, those of a pool that all requests share;
`queue`, workers that take requests' items from a queue.
"""

import os
import sys

SERVER = sys.argv[1] if sys.argv[0].endswith("greenlets.py") else "gunicorn"
if SERVER == "eventlet":
    import eventlet

    eventlet.monkey_patch()
else:
    from gevent import monkey

    monkey.patch_all()

import queue
from urllib.parse import parse_qs

import psycopg2
import psycopg2.extensions
import redis
import requests

KIND = os.environ["KIND"]
PG, REDIS, DOWN = (int(os.environ[name]) for name in ("PG", "REDIS", "DOWN"))
# one write a line: processes share the file
LOG = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)


def wait(connection):
    """Has another greenlet run while PostgreSQL works."""
    ways = {psycopg2.extensions.POLL_READ: "read", psycopg2.extensions.POLL_WRITE: "write"}
    while (state := connection.poll()) != psycopg2.extensions.POLL_OK:
        if SERVER == "eventlet":
            from eventlet.hubs import trampoline

            trampoline(connection.fileno(), **{ways[state]: True})
        else:
            from gevent import socket

            getattr(socket, f"wait_{ways[state]}")(connection.fileno())


psycopg2.extensions.set_wait_callback(wait)
cache = redis.Redis(host="127.0.0.1", port=REDIS)
http = requests.Session()
idle = queue.LifoQueue()
for _ in range(5):
    idle.put(None)


def query(rid):
    """Asks PostgreSQL on one of five connections."""
    connection = idle.get() or psycopg2.connect(host="127.0.0.1", port=PG, user="postgres", dbname="postgres", sslmode="disable")
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"/* rid={rid} */ SELECT pg_sleep(0.001)")
    idle.put(connection)


def get(rid):
    return http.get(f"http://127.0.0.1:{DOWN}/down?rid={rid}").text


def own(rid):
    return [get(rid), get(rid)]


def fan_out(rid):
    if SERVER == "eventlet":
        return list(eventlet.GreenPool().imap(get, [rid, rid]))
    import gevent

    return [job.value for job in gevent.joinall([gevent.spawn(get, rid), gevent.spawn(get, rid)])]


def by_pool():
    if SERVER == "eventlet":
        pool = eventlet.GreenPool(16)
        return lambda rid: list(pool.imap(get, [rid, rid]))
    import gevent.pool

    pool = gevent.pool.Pool(16)
    return lambda rid: pool.map(get, [rid, rid])


def by_queue():
    import threading

    items = queue.Queue()

    def work():
        while True:
            rid, done = items.get()
            done.put(get(rid))

    for _ in range(4):
        threading.Thread(target=work, daemon=True).start()

    def ask(rid):
        done = queue.Queue()
        items.put((rid, done))
        items.put((rid, done))
        return [done.get(), done.get()]

    return ask


ask = {"own": lambda: own, "fan-out": lambda: fan_out, "pool": by_pool, "queue": by_queue}[KIND]()


def application(environ, start_response):
    rid = parse_qs(environ["QUERY_STRING"]).get("rid", ["none"])[0]
    cache.incr(f"rid:{rid}")
    query(rid)
    ask(rid)
    os.write(LOG, f"rid={rid} 200\n".encode())
    start_response("200 OK", [("Content-Length", str(len(rid)))])
    return [rid.encode()]


if SERVER == "pywsgi":
    from gevent.pywsgi import WSGIServer

    WSGIServer(("127.0.0.1", int(os.environ["PORT"])), application, log=None).serve_forever()
elif SERVER == "eventlet":
    from eventlet import wsgi

    wsgi.server(eventlet.listen(("127.0.0.1", int(os.environ["PORT"]))), application, log_output=False)
