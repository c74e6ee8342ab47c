"""Tasks of trio, or of anyio on asyncio: Redis on kept connections, HTTP by httpx from tasks of a group, and by a thread. Settings come
by environment.

usage: nursery.py, or `app` for Hypercorn. By itself it is a server of trio's own streams, with a task for each connection.
"""

import contextlib
import http.client
import os
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
import httpx

REDIS, DOWN = (int(os.environ[name]) for name in ("REDIS", "DOWN"))
# one write a line: threads share the file
LOG = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
idle = []


async def redis(rid):
    """INCR on a connection that is free, or a new one."""
    stream = idle.pop() if idle else await anyio.connect_tcp("127.0.0.1", REDIS)
    key = f"rid:{rid}"
    await stream.send(f"*2\r\n$4\r\nINCR\r\n${len(key)}\r\n{key}\r\n".encode())
    await stream.receive()
    idle.append(stream)


async def get(client, rid):
    await client.get(f"/down?rid={rid}")


def blocking(rid):
    connection = http.client.HTTPConnection("127.0.0.1", DOWN)
    connection.request("GET", f"/down?rid={rid}")
    connection.getresponse().read()
    connection.close()


async def work(client, rid):
    """What a request asks for."""
    await redis(rid)
    async with anyio.create_task_group() as group:
        group.start_soon(get, client, rid)
        group.start_soon(get, client, rid)
    await anyio.to_thread.run_sync(blocking, rid)
    os.write(LOG, f"rid={rid} 200\n".encode())


def opened():
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{DOWN}")


if __name__ == "__main__":
    import trio

    async def serve(client, stream):
        head = b""
        async for part in stream:
            head += part
            if not head.endswith(b"\r\n\r\n"):
                continue
            rid = parse_qs(urlsplit(head.split(b" ")[1]).query).get(b"rid", [b"none"])[0]
            head = b""
            await work(client, rid.decode())
            await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(rid), rid))

    async def main():
        async with opened() as client:
            await trio.serve_tcp(lambda stream: serve(client, stream), int(os.environ["PORT"]), host="127.0.0.1")

    trio.run(main)
else:
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    @contextlib.asynccontextmanager
    async def lifespan(app):
        async with opened() as client:
            yield {"client": client}

    async def everything(request):
        rid = request.query_params["rid"]
        await work(request.state.client, rid)
        return PlainTextResponse(rid)

    app = Starlette(routes=[Route("/x", everything)], lifespan=lifespan)
