"""A thread for each connection. usage: plain.py PORT LOG [DOWN_PORT]; with DOWN_PORT, `/x` calls there."""

import http.client
import random
import sys
import threading
import time

from threads import serve

down = int(sys.argv[3]) if len(sys.argv) > 3 else None
own = threading.local()


def call(rid):
    """One request to the service behind, on this thread's connection."""
    if not hasattr(own, "connection"):
        own.connection = http.client.HTTPConnection("127.0.0.1", down)
    own.connection.request("GET", f"/down?rid={rid}")
    return own.connection.getresponse().read()


def work(path, rid):
    if down:
        call(rid)
    else:
        time.sleep(random.uniform(0.001, 0.004))
    return {"/miss": 404, "/fail": 500}.get(path, 200)


serve(int(sys.argv[1]), sys.argv[2], work)
