"""FastAPI that streams its replies: a middleware asks Redis, a dependency in a thread asks the service behind, and so does what makes the
reply, which asks Redis when a part of it is sent."""

import os

import fastapi
import requests
import service
from starlette.middleware.base import BaseHTTPMiddleware

app = fastapi.FastAPI(lifespan=service.lifespan)


class Counts(BaseHTTPMiddleware):
    async def dispatch(self, request, call_next):
        await app.redis.incr(f"rid:{request.query_params['rid']}")
        return await call_next(request)


app.add_middleware(Counts)


def allowed(rid: str):
    return requests.get(f"http://127.0.0.1:{service.DOWN}/down?rid={rid}", timeout=60).status_code


@app.get("/x")
async def streamed(rid: str, _: int = fastapi.Depends(allowed)):
    async def parts():
        await app.http.get(f"/down?rid={rid}")
        yield rid.encode()
        await app.redis.incr(f"rid:{rid}")

    os.write(service.LOG, f"rid={rid} 200\n".encode())
    return fastapi.responses.StreamingResponse(parts())
