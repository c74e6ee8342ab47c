"""A WebSocket server by `websockets`, a thread a connection, which asks the service behind for each message.
usage: sockets.py PORT DOWN_PORT HOW; HOW as in sockets.js"""

import http.client
import json
import re
import sys

from websockets.sync.server import serve

down, how = int(sys.argv[2]), sys.argv[3]
NEWS = json.dumps({"jsonrpc": "2.0", "method": "news"}) if how == "ids" else "news"


def answers(socket):
    """One connection."""
    rid = re.compile('rid=[^ "]*')
    behind = http.client.HTTPConnection("127.0.0.1", down)
    for said in socket:
        if how != "turns":
            socket.send(NEWS)
        behind.request("GET", "/down?" + rid.search(said)[0])
        behind.getresponse().read()
        done = {"jsonrpc": "2.0", "result": "done", "id": json.loads(said)["id"]} if how == "ids" else "done"
        socket.send(json.dumps(done) if how == "ids" else done)


with serve(answers, "127.0.0.1", int(sys.argv[1]), compression=None) as server:
    server.serve_forever()
