"""A thread for each connection, some of which work for longer than their clients wait, and ask the service behind then; or one that
drops every fourth request unanswered. usage: slow.py PORT LOG DOWN_PORT slow|drops"""

import http.client
import itertools
import sys
import threading
import time

from threads import serve

own, counted = threading.local(), itertools.count()


def call(rid):
    """One request to the service behind, on this thread's connection."""
    if not hasattr(own, "connection"):
        own.connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[3]))
    own.connection.request("GET", f"/down?rid={rid}")
    return own.connection.getresponse().read()


def work(path, rid):
    if sys.argv[4] == "drops":
        call(rid)
        if next(counted) % 4 == 0:
            # whoever asked is to ask another
            return 503
    elif path == "/fail":
        time.sleep(0.08)
        call(rid)
    else:
        call(rid)
    return {"/miss": 404, "/fail": 500}.get(path, 200)


serve(int(sys.argv[1]), sys.argv[2], work)
