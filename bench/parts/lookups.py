"""Name lookups as a load, and who answers them.

`lookups.py serve ADDRESS PORT` says `ready PORT` and answers each query after 1 to 10 ms, several at once; `lookups.py ask PORT
CLIENTS COUNT TRUTH` asks for names that carry a request's id, and writes down what it did as `vload` does.
"""

import json
import os
import random
import socket
import sys
import threading
import time

from talk import answer, question_for


def serve(address, port):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((address, port))
    print("ready", sock.getsockname()[1], flush=True)

    def later(query, sender):
        time.sleep(random.uniform(0.001, 0.01))
        # without what follows the question (EDNS)
        sock.sendto(answer(query[: query.index(b"\0", 12) + 5]), sender)

    while True:
        threading.Thread(target=later, args=sock.recvfrom(512), daemon=True).start()


def client(port, ids, done):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(10)
        sock.connect(("127.0.0.1", port))
        own = "%s:%d" % sock.getsockname()
        for rid in ids:
            query = question_for(random.randrange(1, 65536), b"rid:%s" % rid.encode())
            begin = time.monotonic_ns()
            sock.send(query)
            reply = sock.recv(512)
            ok = reply[:2] == query[:2] and reply[3] & 15 == 0
            done.append({
                "rid": rid, "path": "/", "status": 200 if ok else 500, "start_ns": begin, "end_ns": time.monotonic_ns(),
                "server": f"127.0.0.1:{port}", "client": own,
            })


def ask(port, clients, count, truth):
    done = []
    each = [[f"{os.getpid():x}-{c}-{i}" for i in range(count // clients)] for c in range(clients)]
    threads = [threading.Thread(target=client, args=(port, ids, done)) for ids in each]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open(truth, "w", encoding="ascii") as out:
        out.writelines(json.dumps(line) + "\n" for line in done)
    answered = sum(line["status"] == 200 for line in done)
    print(json.dumps({"answered": answered}))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        ask(*map(int, sys.argv[2:5]), sys.argv[5])
