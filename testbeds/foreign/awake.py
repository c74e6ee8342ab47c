"""A loop of its own that gives threads what takes long. Settings come by environment.

GET /x?rid=…: a thread takes 1 ms, then the loop asks a service twice, on connections that all share. A thread leaves what came of its job
in memory and writes to the loop's pipe only where the loop sleeps, as the loops of Netty, Asio and Tokio do: one that is awake for another
request goes on with it in the same turn.
"""

import collections
import os
import queue
import selectors
import socket
import threading
import time

PORT, DOWN = (int(os.environ[name]) for name in ("PORT", "DOWN"))
LOG = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"


class Loop:
    def __init__(self):
        self.selector, self.jobs = selectors.DefaultSelector(), queue.SimpleQueue()
        self.ready, self.spare, self.is_asleep = collections.deque(), [], False
        woken, self.wake = os.pipe()
        os.set_blocking(woken, False)
        self.selector.register(woken, selectors.EVENT_READ, lambda: os.read(woken, 99))

    def work(self):
        while True:
            then = self.jobs.get()
            time.sleep(0.001)
            self.ready.append(then)
            if self.is_asleep:
                os.write(self.wake, b"x")

    def ask(self, path, then):
        if self.spare:
            connection = self.spare.pop()
            self.selector.unregister(connection)
        else:
            connection = socket.create_connection(("127.0.0.1", DOWN))
            connection.setblocking(False)
        connection.send(f"GET {path} HTTP/1.1\r\nHost: down\r\n\r\n".encode())
        answer = bytearray()

        def read():
            answer.extend(connection.recv(9999))
            head, border, body = bytes(answer).lower().partition(b"\r\n\r\n")
            if border and len(body) >= int(head.split(b"content-length: ")[1].split(b"\r\n")[0]):
                self.spare.append(connection)
                then()

        self.selector.register(connection, selectors.EVENT_READ, read)

    def serve(self, client):
        def read():
            head = client.recv(9999)
            if not head:
                self.selector.unregister(client)
                client.close()
                return
            rid = head.split(b" ")[1].rpartition(b"rid=")[2].decode()

            def reply():
                os.write(LOG, f"rid={rid} 200\n".encode())
                client.send(REPLY)

            second = lambda: self.ask(f"/two?rid={rid}", reply)
            self.jobs.put(lambda: self.ask(f"/one?rid={rid}", second))

        self.selector.register(client, selectors.EVENT_READ, read)

    def run(self):
        while True:
            self.is_asleep = True
            events = self.selector.select(0 if self.ready else None)
            self.is_asleep = False
            for key, _ in events:
                key.data()
            while self.ready:
                self.ready.popleft()()


loop = Loop()
for _ in range(2):
    threading.Thread(target=loop.work, daemon=True).start()
listener = socket.create_server(("127.0.0.1", PORT), backlog=200)
loop.selector.register(listener, selectors.EVENT_READ, lambda: loop.serve(listener.accept()[0]))
loop.run()
