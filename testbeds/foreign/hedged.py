"""Processes that share a port by SO_REUSEPORT, a connection for each request. Each request asks two services at once, takes the
answer that comes first, and closes the other's connection. usage: hedged.py PORT LOG A_PORT B_PORT"""

import os
import select
import signal
import socket
import sys
from urllib.parse import parse_qs, urlsplit

port, behind = int(sys.argv[1]), [int(word) for word in sys.argv[3:5]]
# one write a line: all processes share the file
log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)


def ask(there, rid):
    """A request on a connection of its own."""
    connection = socket.create_connection(("127.0.0.1", there))
    connection.sendall(f"GET /down?rid={rid} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return connection


def serve():
    """One request after the other."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(64)
    while True:
        connection, _ = listener.accept()
        if asked := connection.recv(4000):
            at = urlsplit(asked.split()[1].decode())
            rid = parse_qs(at.query).get("rid", ["none"])[0]
            status = {"/miss": 404, "/fail": 500}.get(at.path, 200)
            calls = [ask(there, rid) for there in behind]
            first = select.select(calls, [], [])[0][0]
            first.recv(4000)
            os.write(log, f"rid={rid} {status}\n".encode())
            head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(rid)}\r\nConnection: close\r\n\r\n"
            connection.sendall((head + rid).encode())
            for call in calls:
                call.close()
        connection.close()


for _ in range(5):
    if os.fork() == 0:
        serve()
signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
signal.pause()
