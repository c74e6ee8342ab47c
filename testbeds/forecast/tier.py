"""A service that may call another, as a WSGI application: WORK_US of computing, then the calls of CALLS, a list of words:
`kept` on a connection that the thread keeps, `new` on one of its own. NEXT is where to (ADDRESS:PORT)."""

import http.client
import os
import threading
import time

WORK_S = int(os.environ.get("WORK_US", "500")) / 1e6
CALLS = os.environ.get("CALLS", "").split()
NEXT = os.environ.get("NEXT", "")
own = threading.local()


def call(kind):
    """Asks the next service once."""
    connection = getattr(own, "connection", None) if kind == "kept" else None
    if connection is None:
        connection = http.client.HTTPConnection(NEXT, timeout=10)
    connection.request("GET", "/" + kind)
    reply = connection.getresponse()
    reply.read()
    if kind == "kept":
        own.connection = connection
    else:
        connection.close()


def app(environ, start_response):
    """Computes, calls, answers."""
    until = time.thread_time() + WORK_S
    while time.thread_time() < until:
        pass
    for kind in CALLS:
        call(kind)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\n"]
