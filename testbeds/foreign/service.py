"""FastAPI; settings come by environment."""

import asyncio
import contextlib
import os

import asyncpg
import fastapi
import httpx
import redis.asyncio

PG, REDIS, DOWN = (int(os.environ[name]) for name in ("PG", "REDIS", "DOWN"))
# one write a line: threads and processes share the file
LOG = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)


@contextlib.asynccontextmanager
async def lifespan(app):
    app.pool = await asyncpg.create_pool(
        host="127.0.0.1", port=PG, user="postgres", database="postgres", ssl=False, min_size=5, max_size=5
    )
    # by default redis-py 8 fails a request that finds 100 connections in use, and httpx one that waits 5 s for one of 100
    app.redis = redis.asyncio.Redis(host="127.0.0.1", port=REDIS, max_connections=1000)
    app.http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{DOWN}", timeout=60)
    yield
    await app.http.aclose()


app = fastapi.FastAPI(lifespan=lifespan)


@app.get("/x")
async def everything(rid: str):
    await app.redis.incr(f"rid:{rid}")
    async with app.pool.acquire() as connection:
        await connection.fetch(f"/* rid={rid} */ SELECT pg_sleep(0.001)")
    await asyncio.gather(*(app.http.get(f"/down?rid={rid}") for _ in range(2)))
    os.write(LOG, f"rid={rid} 200\n".encode())
    return fastapi.Response(rid)


@app.get("/miss")
async def miss(rid: str):
    await app.redis.incr(f"rid:{rid}")
    os.write(LOG, f"rid={rid} 404\n".encode())
    return fastapi.Response(rid, status_code=404)


@app.get("/fail")
async def fail(rid: str):
    await app.redis.incr(f"rid:{rid}")
    os.write(LOG, f"rid={rid} 500\n".encode())
    return fastapi.Response(rid, status_code=500)
