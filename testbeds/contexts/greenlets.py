"""A service on gevent whose handlers call another one: `greenlets.py down`, or `greenlets.py own|joined|queue DOWN`. Prints its port.

GET /x/NAME leads to two calls of GET /down/NAME, on connections that the handlers share: by the greenlet that serves the connection
(`own`), by two that it makes for the request (`joined`), or by workers that take what is to be asked from a queue (`queue`).
"""

import sys

import gevent
from gevent import queue, server, socket

POOL = 4


class Connections:
    """Kept connections to the other service, handed to whoever asks next."""

    def __init__(self, port):
        self.port = port
        self.idle = queue.Queue()
        for _ in range(POOL):
            self.idle.put(None)

    def get(self, name):
        """The reply to GET /down/NAME."""
        kept = self.idle.get() or socket.create_connection(("127.0.0.1", self.port)).makefile("rwb")
        kept.write(f"GET /down/{name} HTTP/1.1\r\nHost: down\r\n\r\n".encode())
        kept.flush()
        while kept.readline() != b"\r\n":
            pass
        reply = kept.read(len(name))
        self.idle.put(kept)
        return reply.decode()


def own(connections, name):
    connections.get(name)
    return connections.get(name)


def joined(connections, name):
    both = [gevent.spawn(connections.get, name) for _ in range(2)]
    gevent.joinall(both)
    return both[1].get()


class Workers:
    """They take what is to be asked, of any request."""

    def __init__(self):
        self.items = queue.Queue()

    def begin(self, connections):
        for _ in range(POOL):
            gevent.spawn(self.work, connections)

    def work(self, connections):
        while True:
            name, done = self.items.get()
            done.put(connections.get(name))

    def ask(self, _connections, name):
        done = queue.Queue()
        for _ in range(2):
            self.items.put((name, done))
        done.get()
        return done.get()


def serve(work, connections, client):
    """Serves one connection."""
    client = client.makefile("rwb")
    while head := client.readline():
        while client.readline() != b"\r\n":
            pass
        name = head.split(b" ")[1].rsplit(b"/", 1)[1].decode()
        gevent.sleep(0.001)
        text = work(connections, name) if connections else name
        client.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
        client.flush()


kind, *down = sys.argv[1:]
connections = Connections(int(down[0])) if down else None
workers = Workers()
if kind == "queue":
    workers.begin(connections)
work = {"joined": joined, "queue": workers.ask}.get(kind, own)
listening = server.StreamServer(("127.0.0.1", 0), lambda client, _: serve(work, connections, client))
listening.start()
print(listening.server_port, flush=True)
listening.serve_forever()
