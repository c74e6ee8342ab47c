"""Requests by HTTP/2, several streams at once on each connection: without TLS (prior knowledge), or with it.

usage: h2_load.py PORT CONNECTIONS STREAMS REQUESTS TRUTH [tls]

Writes a line a request to TRUTH, as vload does. Paths are sent without Huffman coding, so that the id can be read in a
recording's heads.
"""

import json
import os
import socket
import ssl
import struct
import sys
import threading
import time

port, connections, streams, requests, truth = (*map(int, sys.argv[1:5]), sys.argv[5])
trusting = None
if sys.argv[6:] == ["tls"]:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    trusting.set_alpn_protocols(["h2"])
DATA, HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
ACK = END = 1
END_HEADERS = 4
lock = threading.Lock()
numbers = iter(range(requests))
lines = []


def frame(kind, flags, stream, body=b""):
    return struct.pack("!I", len(body))[1:] + struct.pack("!BBI", kind, flags, stream) + body


def request(stream, path):
    """`GET http://a` of the static table, then authority and path as literals that go into no table."""
    literal = lambda name, value: bytes([name, len(value)]) + value
    block = b"\x82\x86" + literal(1, b"a") + literal(4, path)
    return frame(HEADERS, END | END_HEADERS, stream, block)


def status_of(block):
    """Its status: by the static table, which has the common ones, or as a literal."""
    first = block[0]
    known = {0x88: 200, 0x89: 204, 0x8A: 206, 0x8B: 304, 0x8C: 400, 0x8D: 404, 0x8E: 500}
    return known.get(first, 599)


class Connection:
    """One connection and what is under way on it."""

    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client = "%s:%d" % self.socket.getsockname()
        if trusting:
            self.socket = trusting.wrap_socket(self.socket)
        self.reader = self.socket.makefile("rb")
        settings = struct.pack("!HI", 3, 100) + struct.pack("!HI", 4, 1 << 24)
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, settings))
        self.open, self.next = {}, 1

    def ask(self):
        """Sends one more request, if any is left."""
        with lock:
            number = next(numbers, None)
        if number is None:
            return
        rid = f"h{os.getpid()}-{number}"
        begin = time.monotonic_ns()
        self.open[self.next] = {"rid": rid, "path": "/x", "status": 0, "start_ns": begin}
        self.socket.sendall(request(self.next, f"/x?rid={rid}&".encode()))
        self.next += 2

    def read(self):
        """Takes a frame."""
        head = self.reader.read(9)
        if len(head) < 9:
            raise ConnectionError("the server closed")
        length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
        body = self.reader.read(length)
        if kind == SETTINGS and not flags & ACK:
            self.socket.sendall(frame(SETTINGS, ACK, 0))
        if kind == PING and not flags & ACK:
            self.socket.sendall(frame(PING, ACK, 0, body))
        if kind in (GOAWAY, RST):
            raise ConnectionError(f"frame {kind}: {body!r}")
        if kind == HEADERS:
            self.open[stream]["status"] = status_of(body)
        if kind in (HEADERS, DATA) and flags & END:
            line = self.open.pop(stream)
            line.update(end_ns=time.monotonic_ns(), server=f"127.0.0.1:{port}", client=self.client)
            with lock:
                lines.append(line)
            self.ask()

    def run(self):
        """All streams, until nothing is left to ask."""
        for _ in range(streams):
            self.ask()
        while self.open:
            self.read()


threads = [threading.Thread(target=Connection().run) for _ in range(connections)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with open(truth, "w", encoding="utf-8") as out:
    out.writelines(json.dumps(line) + "\n" for line in lines)
sys.exit(len(lines) != requests)
