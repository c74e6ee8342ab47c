"""A thread a connection, before one child that serves all of them at once, by JSON-RPC on lines of its standard input and output, as
an MCP server does. The child asks the service behind. usage: mcp.py PORT LOG DOWN_PORT"""

import itertools
import json
import subprocess
import sys
import threading

from threads import serve

CHILD = """
import asyncio, json, sys

async def ask(line):
    said = json.loads(line)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    writer.write(f"GET /down?rid={said['params']} HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n".encode())
    await reader.read()
    writer.close()
    print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": "done"}), flush=True)

async def main():
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    at_work = set()
    while line := await lines.readline():
        task = asyncio.create_task(ask(line))
        at_work.add(task)
        task.add_done_callback(at_work.discard)

asyncio.run(main())
"""

child = subprocess.Popen([sys.executable, "-c", CHILD, sys.argv[3]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
numbers, asked, lock = itertools.count(1), {}, threading.Lock()


def hear():
    """Whoever waits for an answer is told of it."""
    for line in child.stdout:
        asked.pop(json.loads(line)["id"]).set()


threading.Thread(target=hear, daemon=True).start()


def work(path, rid):
    number, done = next(numbers), threading.Event()
    asked[number] = done
    said = json.dumps({"jsonrpc": "2.0", "id": number, "method": "ask", "params": rid}) + "\n"
    with lock:
        child.stdin.write(said.encode())
    done.wait()
    return {"/miss": 404, "/fail": 500}.get(path, 200)


serve(int(sys.argv[1]), sys.argv[2], work)
