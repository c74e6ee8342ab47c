"""FastAPI whose handlers have threads ask Redis and a service behind. Settings come by environment.

KIND says in which way: `to-thread`, by asyncio.to_thread, twice at once; `executor`, by the loop's run_in_executor, which takes no context
along; `sync`, as handlers that are plain functions, which FastAPI runs in threads.
"""

import asyncio
import os
import threading

import fastapi
import redis
import requests

REDIS, DOWN = (int(os.environ[name]) for name in ("REDIS", "DOWN"))
# one write a line: threads share the file
LOG = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)

app = fastapi.FastAPI()
cache = redis.Redis(host="127.0.0.1", port=REDIS)
own = threading.local()


def get(rid):
    """Asks the service behind on the thread's own connection."""
    if not hasattr(own, "http"):
        own.http = requests.Session()
    return own.http.get(f"http://127.0.0.1:{DOWN}/down?rid={rid}").text


def incr(rid):
    return cache.incr(f"rid:{rid}")


def done(rid):
    os.write(LOG, f"rid={rid} 200\n".encode())
    return fastapi.Response(rid)


async def to_thread(rid: str):
    await asyncio.to_thread(incr, rid)
    await asyncio.gather(asyncio.to_thread(get, rid), asyncio.to_thread(get, rid))
    return done(rid)


async def executor(rid: str):
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, incr, rid)
    await asyncio.gather(loop.run_in_executor(None, get, rid), loop.run_in_executor(None, get, rid))
    return done(rid)


def sync(rid: str):
    incr(rid)
    get(rid)
    get(rid)
    return done(rid)


app.add_api_route("/x", {"to-thread": to_thread, "executor": executor, "sync": sync}[os.environ["KIND"]])
