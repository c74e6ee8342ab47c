"""A service whose handlers call another one: `service.py down`, or `service.py [uvloop-]task|layers|connection|threads DOWN [PORT]`. Prints its port.

GET /x/NAME leads to two calls at once of GET /down/NAME, on connections that the handlers share. `task`: each request has an
asyncio task of its own, as under uvicorn; `layers`: that one waits for a task in a task, as for a time-out; `connection`: each
connection has one, as `asyncio.start_server` gives it; `threads`: the loop only accepts, and a thread serves each connection.
"""

import asyncio
import socket
import sys
import threading

POOL = 4


class Connections:
    """Kept connections to the other service, handed to whoever asks next."""

    def __init__(self, port):
        self.port = port
        self.idle = asyncio.Queue()
        for _ in range(POOL):
            self.idle.put_nowait(None)

    async def get(self, name):
        """The reply to GET /down/NAME."""
        kept = await self.idle.get()
        reader, writer = kept or await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"GET /down/{name} HTTP/1.1\r\nHost: down\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        reply = await reader.readexactly(len(name))
        self.idle.put_nowait((reader, writer))
        return reply.decode()


def reply(text):
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()


def name_in(head):
    return head.split(b" ")[1].rsplit(b"/", 1)[1].decode()


async def work(connections, name):
    """What a request asks for."""
    await asyncio.sleep(0.001)
    if connections is None:
        return name
    both = await asyncio.gather(connections.get(name), connections.get(name))
    return both[0]


async def layers(connections, name):
    """The same, by tasks that do nothing else."""
    inner = work(connections, name)
    return await asyncio.create_task(asyncio.wait_for(asyncio.create_task(inner), 10))


class OfRequests(asyncio.Protocol):
    """Makes a task for each request."""

    def __init__(self, connections, work):
        self.connections = connections
        self.work = work
        self.tasks = set()
        self.head = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        # clients wait for a reply before they ask again
        self.head += data
        if not self.head.endswith(b"\r\n\r\n"):
            return
        task = asyncio.get_running_loop().create_task(self.answer(name_in(self.head)))
        self.head = b""
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def answer(self, name):
        self.transport.write(reply(await self.work(self.connections, name)))


async def of_connection(connections, reader, writer):
    """Serves one connection."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(reply(await work(connections, name_in(head))))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def by_thread(connection, down):
    """Serves one connection without a loop."""
    behind = socket.create_connection(("127.0.0.1", down)).makefile("rwb")
    client = connection.makefile("rwb")
    while head := client.readline():
        while client.readline() != b"\r\n":
            pass
        name = name_in(head)
        for _ in range(2):
            behind.write(f"GET /down/{name} HTTP/1.1\r\nHost: down\r\n\r\n".encode())
            behind.flush()
            while behind.readline() != b"\r\n":
                pass
            behind.read(len(name))
        client.write(reply(name))
        client.flush()


async def threads(down):
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    print(listening.getsockname()[1], flush=True)
    while True:
        connection, _ = await asyncio.get_running_loop().sock_accept(listening)
        connection.setblocking(True)
        threading.Thread(target=by_thread, args=(connection, down), daemon=True).start()


async def main(kind, down=None, port=0):
    if kind == "threads":
        return await threads(int(down))
    connections = Connections(int(down)) if down else None
    of_requests = {"task": work, "layers": layers}.get(kind)
    if of_requests:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: OfRequests(connections, of_requests), "127.0.0.1", int(port))
    else:
        server = await asyncio.start_server(lambda r, w: of_connection(connections, r, w), "127.0.0.1", int(port))
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


kind, *down = sys.argv[1:]
if kind.startswith("uvloop-"):
    import uvloop

    uvloop.run(main(kind.removeprefix("uvloop-"), *down))
else:
    asyncio.run(main(kind, *down))
