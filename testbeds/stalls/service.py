#!/usr/bin/python3
"""A web service in one event loop (asyncio) that some requests block: `service.py` prints its port, `service.py DOWN` calls a
service at that port for each request. GET /hog computes for 50 ms and awaits nothing; everything else is answered at once."""

import asyncio
import sys
import time

HOG_S = 0.05
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
down = int(sys.argv[1]) if len(sys.argv) > 1 else None
idle = []


async def head(reader):
    """The first line of a message; the rest of its head is skipped, and its body where it has one."""
    first, length = await reader.readline(), 0
    while (line := (await reader.readline()).strip()):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    await reader.readexactly(length)
    return first


async def call():
    """Asks the service below on a connection that nobody else uses meanwhile."""
    reader, writer = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", down)
    writer.write(b"GET /down HTTP/1.1\r\nHost: down\r\n\r\n")
    await head(reader)
    idle.append((reader, writer))


def hog():
    """Computes, as a template or a parser does."""
    until = time.thread_time() + HOG_S
    while time.thread_time() < until:
        pass


async def serve(reader, writer):
    """Answers on one connection."""
    while first := await head(reader):
        if b"/hog" in first:
            hog()
        elif down:
            await call()
        writer.write(REPLY)
        await writer.drain()
    writer.close()


async def main():
    """Serves for ever."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
