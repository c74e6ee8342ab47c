"""A thread a connection, before children that are asked by lines on standard input and answer by lines on standard output, as
language servers and MCP servers are. A child asks the service behind. usage: child.py PORT LOG DOWN_PORT"""

import http.server
import os
import queue
import socketserver
import subprocess
import sys
from urllib.parse import parse_qs, urlsplit

CHILDREN = 3
CHILD = """
import http.client, sys
down = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
for line in sys.stdin:
    down.request("GET", f"/down?rid={line.strip()}")
    down.getresponse().read()
    print("done", flush=True)
"""

log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
idle = queue.Queue()
for _ in range(CHILDREN):
    line = [sys.executable, "-c", CHILD, sys.argv[3]]
    idle.put(subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1))


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self):
        """Asks whichever child is idle."""
        at = urlsplit(self.path)
        rid = parse_qs(at.query).get("rid", ["none"])[0]
        status = {"/miss": 404, "/fail": 500}.get(at.path, 200)
        child = idle.get()
        child.stdin.write(rid + "\n")
        child.stdin.flush()
        child.stdout.readline()
        idle.put(child)
        os.write(log, f"rid={rid} {status}\n".encode())
        self.send_response(status)
        self.send_header("Content-Length", str(len(rid)))
        self.end_headers()
        self.wfile.write(rid.encode())

    def log_message(self, *_):
        """It has its own log."""


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """A thread a connection."""

    daemon_threads = True
    request_queue_size = 128


Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
