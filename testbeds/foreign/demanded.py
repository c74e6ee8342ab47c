"""FastAPI whose requests start workers when there is work: each takes one job that any request left, the last one first, and ends."""

import asyncio
import os

import fastapi
import service

app = fastapi.FastAPI(lifespan=service.lifespan)
jobs = []


async def work():
    rid, done = jobs.pop()
    await app.http.get(f"/down?rid={rid}")
    done.set_result(None)
    app.state.workers -= 1
    start()


def start():
    if jobs and app.state.workers < 2:
        app.state.workers += 1
        asyncio.create_task(work())


app.state.workers = 0


@app.get("/x")
async def everything(rid: str):
    await app.redis.incr(f"rid:{rid}")
    done = asyncio.get_running_loop().create_future()
    jobs.append((rid, done))
    start()
    await done
    os.write(service.LOG, f"rid={rid} 200\n".encode())
    return fastapi.Response(rid)
