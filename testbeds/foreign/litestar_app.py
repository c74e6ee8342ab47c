"""Litestar before PostgreSQL by psycopg's pool, Redis and a service behind. Settings come by environment."""

import os

import httpx
import psycopg_pool
import redis.asyncio
from litestar import Litestar, Response, get

PLACE = f"host=127.0.0.1 port={os.environ['PG']} user=postgres dbname=postgres sslmode=disable gssencmode=disable"
LOG = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
own = {}


async def start():
    own["db"] = psycopg_pool.AsyncConnectionPool(PLACE, min_size=4, max_size=4, open=False)
    await own["db"].open(wait=True)
    own["cache"] = redis.asyncio.Redis(host="127.0.0.1", port=int(os.environ["REDIS"]))
    own["http"] = httpx.AsyncClient()


@get("/{kind:str}")
async def answer(kind: str, rid: str) -> Response:
    status = {"miss": 404, "fail": 500}.get(kind, 200)
    await own["cache"].incr(f"rid:{rid}")
    if status == 200:
        async with own["db"].connection() as db:
            await db.execute(f"/* rid={rid} */ SELECT pg_sleep(0.001)")
        await own["http"].get(f"http://127.0.0.1:{os.environ['DOWN']}/down?rid={rid}")
    os.write(LOG, f"rid={rid} {status}\n".encode())
    return Response(rid, status_code=status, media_type="text/plain")


app = Litestar([answer], on_startup=[start], openapi_config=None)
