"""FastAPI before PostgreSQL by asyncpg's pool of five, which sends `RESET ALL` when a connection comes back; settings come by
environment."""

import contextlib
import os

import asyncpg
import fastapi

LOG = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)


@contextlib.asynccontextmanager
async def lifespan(app):
    where = {"host": "127.0.0.1", "port": int(os.environ["PG"]), "user": "postgres", "database": "postgres", "ssl": False}
    app.pool = await asyncpg.create_pool(**where, min_size=5, max_size=5)
    yield


app = fastapi.FastAPI(lifespan=lifespan)


@app.get("/x")
async def query(rid: str):
    async with app.pool.acquire() as connection:
        await connection.fetch(f"/* rid={rid} */ SELECT pg_sleep(0.001)")
    os.write(LOG, f"rid={rid} 200\n".encode())
    return fastapi.Response(rid)
