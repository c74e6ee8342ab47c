"""Takes work from NATS, asks the service behind, and answers where the message says. usage: nats_worker.py BUS_PORT DOWN_PORT LOG"""

import asyncio
import pathlib
import sys

import httpx
import nats


async def main():
    bus = await nats.connect(f"nats://127.0.0.1:{sys.argv[1]}")
    async with httpx.AsyncClient() as down:

        async def work(message):
            await down.get(f"http://127.0.0.1:{sys.argv[2]}/down?{message.data.decode().strip()}")
            await message.respond(b"done")

        await bus.subscribe("work", cb=work)
        await bus.flush()
        pathlib.Path(sys.argv[3]).write_text("ready", encoding="utf-8")
        await asyncio.Event().wait()


asyncio.run(main())
