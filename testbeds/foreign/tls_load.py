"""Requests by HTTP/1.1 and TLS, each client on a connection of its own, or (`new`) on one for each request.

usage: tls_load.py PORT CONNECTIONS REQUESTS TRUTH [new]

Writes a line a request to TRUTH, as vload does.
"""

import http.client
import json
import os
import ssl
import sys
import threading
import time

port, connections, requests, truth = (*map(int, sys.argv[1:4]), sys.argv[4])
is_kept = sys.argv[5:] != ["new"]
trusting = ssl.create_default_context()
trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
lock = threading.Lock()
numbers = iter(range(requests))
lines = []


def connected():
    """A connection, and its end here."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=trusting)
    connection.connect()
    return connection, "%s:%d" % connection.sock.getsockname()


def run():
    """One client."""
    connection = None
    while True:
        with lock:
            number = next(numbers, None)
        if number is None:
            return
        if not connection:
            connection, client = connected()
        rid, begin = f"h{os.getpid()}-{number}", time.monotonic_ns()
        connection.request("GET", f"/x?rid={rid}")
        reply = connection.getresponse()
        reply.read()
        line = {"rid": rid, "path": "/x", "status": reply.status, "start_ns": begin, "end_ns": time.monotonic_ns()}
        with lock:
            lines.append({**line, "server": f"127.0.0.1:{port}", "client": client})
        if not is_kept:
            connection.close()
            connection = None


threads = [threading.Thread(target=run) for _ in range(connections)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with open(truth, "w", encoding="utf-8") as out:
    out.writelines(json.dumps(line) + "\n" for line in lines)
sys.exit(len(lines) != requests)
