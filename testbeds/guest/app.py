"""The application of `scripts/guest-proof --paths`: behind nginx, before Redis, with nothing but Python's own library.

A thread serves each connection and has a connection to Redis of its own. A request `/item?rid=ID` asks Redis twice, by a
key that has the id, and the log gets a line of what was asked for it: the truth about its path. Annotations say when it
begins to ask, and when it has what it asked for.
"""

import http.server
import socket
import sys
import threading

import wakepath

PORT, REDIS_PORT, LOG = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
COMMANDS = 2

per_thread = threading.local()


def ask(key):
    """One GET: the reply's first line."""
    redis = getattr(per_thread, "redis", None)
    if redis is None:
        redis = per_thread.redis = socket.create_connection(("127.0.0.1", REDIS_PORT))
    redis.sendall(b"*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n" % (len(key), key))
    reply = b""
    while not reply.endswith(b"\r\n"):
        got = redis.recv(512)
        if not got:
            raise ConnectionError("Redis ended the connection")
        reply += got
    return reply


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers `ok`."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        rid = self.path.partition("rid=")[2].partition("&")[0]
        handler = wakepath.Machine("handler", threading.get_native_id())
        handler.state("asks")
        replies = [ask(b"rid:" + rid.encode()) for _ in range(COMMANDS if rid else 0)]
        handler.state("answers")
        body = b"ok\n"
        self.send_response(200 if all(r == b"$-1\r\n" for r in replies) else 500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if rid:
            log.write(f"{rid} {len(replies)}\n")
            log.flush()

    def log_message(self, *_):
        """The line above is the log."""


with open(LOG, "a", encoding="ascii") as log:
    http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
