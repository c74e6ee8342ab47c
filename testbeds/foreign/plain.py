"""A thread for each connection. usage: plain.py PORT LOG [DOWN_PORT]; with DOWN_PORT, `/x` calls there."""

import http.client
import http.server
import os
import random
import sys
import threading
import time
from urllib.parse import parse_qs, urlsplit

port = int(sys.argv[1])
# one write a line: all threads share the file
log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
down = int(sys.argv[3]) if len(sys.argv) > 3 else None
own = threading.local()


def call(rid):
    """One request to the service behind, on this thread's connection."""
    if not hasattr(own, "connection"):
        own.connection = http.client.HTTPConnection("127.0.0.1", down)
    own.connection.request("GET", f"/down?rid={rid}")
    return own.connection.getresponse().read()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        at = urlsplit(self.path)
        rid = parse_qs(at.query).get("rid", ["none"])[0]
        status = {"/miss": 404, "/fail": 500}.get(at.path, 200)
        if down:
            call(rid)
        else:
            time.sleep(random.uniform(0.001, 0.004))
        body = f"{rid}\n".encode()
        os.write(log, f"rid={rid} {status}\n".encode())
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


Server(("127.0.0.1", port), Handler).serve_forever()
