"""A thread a connection, before children that ask the service behind. usage: child.py PORT LOG DOWN_PORT pipes|pairs|cgi

pipes: children are asked by lines on standard input and answer by lines on standard output, as language servers and MCP servers are.
pairs: the same, where both are one pair of sockets. cgi: one child for each request, which is asked by its arguments."""

import http.server
import os
import queue
import socket
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

ONCE = """
import http.client, sys
down = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
down.request("GET", f"/down?rid={sys.argv[2]}")
down.getresponse().read()
print("done")
"""

log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
idle = queue.Queue()
how = sys.argv[4]


def child():
    """The files by which it is asked, and answers."""
    line = [sys.executable, "-c", CHILD, sys.argv[3]]
    if how == "pipes":
        process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        return process.stdin, process.stdout
    mine, its = socket.socketpair()
    subprocess.Popen(line, stdin=its, stdout=its)
    its.close()
    return mine.makefile("w", buffering=1), mine.makefile("r")


def ask(rid):
    """Asks whichever child is idle, or a new one."""
    if how == "cgi":
        subprocess.run([sys.executable, "-S", "-c", ONCE, sys.argv[3], rid], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
        return
    asked, answers = idle.get()
    asked.write(rid + "\n")
    asked.flush()
    answers.readline()
    idle.put((asked, answers))


for _ in range(CHILDREN if how != "cgi" else 0):
    idle.put(child())


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self):
        at = urlsplit(self.path)
        rid = parse_qs(at.query).get("rid", ["none"])[0]
        status = {"/miss": 404, "/fail": 500}.get(at.path, 200)
        ask(rid)
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
