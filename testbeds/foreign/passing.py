"""One process accepts, and passes each connection to one of three others (SCM_RIGHTS); who gets it has a thread for it,
and asks a store behind a UNIX socket, of four processes that share the listener. usage: passing.py PORT LOG SOCKET"""

import http.server
import os
import signal
import socket
import sys
import threading
from urllib.parse import parse_qs, urlsplit

port, store = int(sys.argv[1]), sys.argv[3]
# one write a line: all processes share the file
log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        at = urlsplit(self.path)
        rid = parse_qs(at.query).get("rid", ["none"])[0]
        status = {"/miss": 404, "/fail": 500}.get(at.path, 200)
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(store)
            asked.sendall(f"LOOK rid={rid}\n".encode())
            asked.recv(300)
        body = f"{rid}\n".encode()
        os.write(log, f"rid={rid} {status}\n".encode())
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def keep(listener):
    """The store: one connection after the other."""
    while True:
        connection, _ = listener.accept()
        while asked := connection.recv(300):
            connection.sendall(b"VALUE " + asked)
        connection.close()


def serve(channel):
    """Takes connections that others accepted."""
    while True:
        _, passed, _, _ = socket.recv_fds(channel, 1, 1)
        if not passed:
            os._exit(0)
        connection = socket.socket(fileno=passed[0])
        threading.Thread(target=Handler, args=(connection, ("", 0), None), daemon=True).start()


def forked(work, *args):
    """A process of its own for this."""
    if os.fork() == 0:
        work(*args)
        os._exit(0)


listener = socket.socket(socket.AF_UNIX)
listener.bind(store)
listener.listen(64)
for _ in range(4):
    forked(keep, listener)
channels = []
for _ in range(3):
    here, there = socket.socketpair()
    forked(serve, there)
    channels.append(here)
signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
front = socket.create_server(("127.0.0.1", port), backlog=128)
turn = 0
while True:
    accepted, _ = front.accept()
    socket.send_fds(channels[turn % 3], [b"x"], [accepted.fileno()])
    accepted.close()
    turn += 1
