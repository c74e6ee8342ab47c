"""An event loop that asks by NATS and waits for the answer. usage: nats_web.py PORT LOG BUS_PORT"""

import os
import sys

import nats
from aiohttp import web

log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)


async def start(app):
    app["bus"] = await nats.connect(f"nats://127.0.0.1:{sys.argv[3]}")


async def answer(request):
    rid = request.query["rid"]
    await request.app["bus"].request("work", f"rid={rid} ".encode(), timeout=10)
    status = {"/miss": 404, "/fail": 500}.get(request.path, 200)
    os.write(log, f"rid={rid} {status}\n".encode())
    return web.Response(status=status, text=rid)


app = web.Application()
app.on_startup.append(start)
app.router.add_get("/{any}", answer)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
