"""A server of asyncio's streams: a task serves each connection, as long as it is open. Settings come by environment.

usage: streams.py asyncio|uvloop. GET /x?rid=… asks Redis, and a service behind twice at once, on connections that all share.
"""

import asyncio
import os
import sys

import httpx
import redis.asyncio

PORT, REDIS, DOWN = (int(os.environ[name]) for name in ("PORT", "REDIS", "DOWN"))
LOG = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)


async def serve(cache, client, reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            rid = head.split(b" ")[1].rpartition(b"rid=")[2].decode()
            await cache.incr(f"rid:{rid}")
            await asyncio.gather(*(client.get(f"/down?rid={rid}") for _ in range(2)))
            os.write(LOG, f"rid={rid} 200\n".encode())
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(rid)}\r\n\r\n{rid}".encode())
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main():
    cache = redis.asyncio.Redis(host="127.0.0.1", port=REDIS, max_connections=1000)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{DOWN}", timeout=60) as client:
        server = await asyncio.start_server(lambda r, w: serve(cache, client, r, w), "127.0.0.1", PORT)
        await server.serve_forever()


if sys.argv[1] == "uvloop":
    import uvloop

    uvloop.run(main())
else:
    asyncio.run(main())
