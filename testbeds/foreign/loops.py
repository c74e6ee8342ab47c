"""The same three requests on servers that run an event loop: tornado, aiohttp or twisted. usage: loops.py SERVER

Each asks memcached over one connection for each request, and a service behind by HTTP. Settings come by environment.
"""

import asyncio
import os
import sys

LOG = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
PORT, MEMCACHED, DOWN = (int(os.environ[name]) for name in ("PORT", "MEMCACHED", "DOWN"))
STATUS = {"/miss": 404, "/fail": 500}


async def ask(port, text):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text.encode())
    got = await reader.readuntil(b"\r\n")
    writer.close()
    return got


async def serve(path, rid):
    """The work of a request; gives its status."""
    await ask(MEMCACHED, f"get rid:{rid}\r\n")
    status = STATUS.get(path, 200)
    if status == 200:
        await asyncio.sleep(0.002)
        await ask(DOWN, f"GET /down?rid={rid} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    os.write(LOG, f"rid={rid} {status}\n".encode())
    return status


def tornado():
    from tornado import web

    class All(web.RequestHandler):
        async def get(self):
            rid = self.get_argument("rid")
            self.set_status(await serve(self.request.path, rid))
            self.finish(f"{rid}\n")

    async def main():
        web.Application([("/.*", All)]).listen(PORT, "127.0.0.1")
        await asyncio.Event().wait()

    asyncio.run(main())


def aiohttp():
    from aiohttp import web

    async def everything(request):
        rid = request.query["rid"]
        return web.Response(status=await serve(request.path, rid), text=f"{rid}\n")

    app = web.Application()
    app.router.add_get("/{path:.*}", everything)
    web.run_app(app, host="127.0.0.1", port=PORT, print=None)


def twisted():
    from twisted.internet import asyncioreactor

    asyncioreactor.install(asyncio.new_event_loop())
    from twisted.internet import defer, reactor
    from twisted.web import resource
    from twisted.web import server as web

    tasks = set()

    class All(resource.Resource):
        isLeaf = True

        def render_GET(self, request):
            rid = request.args[b"rid"][0].decode()

            def done(status):
                request.setResponseCode(status)
                request.setHeader(b"Content-Length", str(len(rid)).encode())
                request.write(rid.encode())
                request.finish()

            task = asyncio.ensure_future(serve(request.path.decode(), rid))
            tasks.add(task)  # the loop itself does not keep it alive
            work = defer.Deferred.fromFuture(task)
            work.addBoth(lambda result: tasks.discard(task) or result)
            work.addCallbacks(done, lambda failure: failure.printTraceback())
            return web.NOT_DONE_YET

    reactor.listenTCP(PORT, web.Site(All()), interface="127.0.0.1")
    reactor.run()


{"tornado": tornado, "aiohttp": aiohttp, "twisted": twisted}[sys.argv[1]]()
