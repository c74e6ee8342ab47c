"""A gRPC service: a pool of threads, one unary method, and a call to the next such service.

usage: grpc_echo.py PORT LOG [DOWN_PORT]
"""

import concurrent.futures
import os
import sys
import time

import grpc

port = sys.argv[1]
# one write a line: all threads share the file
log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
down = None
if len(sys.argv) > 3:
    down = grpc.insecure_channel(f"127.0.0.1:{sys.argv[3]}").unary_unary("/s.S/Down")


def answer(request, context):
    """Messages are bytes: ` rid=ID `."""
    if down:
        down(request, timeout=30)
    else:
        time.sleep(0.001)
    os.write(log, request.strip() + b" 200\n")
    return b"ok"


handlers = {name: grpc.unary_unary_rpc_method_handler(answer) for name in ("Up", "Down")}
server = grpc.server(concurrent.futures.ThreadPoolExecutor(10))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("s.S", handlers),))
server.add_insecure_port(f"127.0.0.1:{port}")
server.start()
server.wait_for_termination()
