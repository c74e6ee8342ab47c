"""FastAPI that goes on behind its replies, for nobody: a background task each, with a connection of each pool."""

import os

import fastapi
import service

app = fastapi.FastAPI(lifespan=service.lifespan)


async def later(to):
    await to.redis.incr("replies")
    async with to.pool.acquire() as connection:
        await connection.fetch("SELECT pg_sleep(0.001)")
    await to.redis.get("replies")


@app.get("/x")
async def everything(rid: str, tasks: fastapi.BackgroundTasks):
    await app.redis.incr(f"rid:{rid}")
    await app.http.get(f"/down?rid={rid}")
    tasks.add_task(later, app)
    os.write(service.LOG, f"rid={rid} 200\n".encode())
    return fastapi.Response(rid)
