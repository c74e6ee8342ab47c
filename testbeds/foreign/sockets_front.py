"""A thread a connection, before a WebSocket server. usage: sockets_front.py PORT LOG BACK_PORT HOW; HOW as in sockets.js"""

import itertools
import json
import sys
import threading

import websockets.frames
from threads import serve
from websockets.sync.client import connect

# what it says is not disguised, so that the score finds ids in it
websockets.frames.secrets = type("Plain", (), {"token_bytes": staticmethod(bytes)})
how, own, numbers = sys.argv[4], threading.local(), itertools.count(1)


def ask(rid):
    """One message and its answer, on this thread's connection."""
    if not hasattr(own, "socket"):
        own.socket = connect(f"ws://127.0.0.1:{sys.argv[3]}", compression=None)
    number = next(numbers)
    said = {"jsonrpc": "2.0", "id": number, "method": "ask", "params": f"rid={rid} "}
    own.socket.send(json.dumps(said) if how == "ids" else f"rid={rid} ")
    while True:
        heard = own.socket.recv()
        if json.loads(heard).get("id") == number if how == "ids" else heard == "done":
            return


def work(path, rid):
    ask(rid)
    return {"/miss": 404, "/fail": 500}.get(path, 200)


serve(int(sys.argv[1]), sys.argv[2], work)
