"""Unary gRPC calls, so many at once on one channel. Writes a line a request to TRUTH, as vload does.

usage: grpc_load.py PORT AT_ONCE REQUESTS TRUTH
"""

import concurrent.futures
import json
import sys
import time

import grpc

port, at_once, requests, truth = (*map(int, sys.argv[1:4]), sys.argv[4])


def call(number):
    """One request; its line."""
    rid, begin = f"g-{number}", time.monotonic_ns()
    up(f" rid={rid} ".encode(), timeout=60)
    times = {"start_ns": begin, "end_ns": time.monotonic_ns()}
    return {"rid": rid, "path": "/s.S/Up", "status": 200, "server": f"127.0.0.1:{port}", "client": None, **times}


with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
    up = channel.unary_unary("/s.S/Up")
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        lines = list(pool.map(call, range(requests)))
with open(truth, "w", encoding="utf-8") as out:
    out.writelines(json.dumps(line) + "\n" for line in lines)
