"""A WSGI application that asks memcached; settings come by environment."""

import os
import socket
import threading
from urllib.parse import parse_qs

LOG = open(os.environ["LOG"], "a", buffering=1, encoding="utf-8")
STATUS = {"/miss": "404 Not Found", "/fail": "500 Internal Server Error"}
own = threading.local()


def application(environ, start_response):
    rid = parse_qs(environ["QUERY_STRING"]).get("rid", ["none"])[0]
    if not hasattr(own, "cache"):
        own.cache = socket.create_connection(("127.0.0.1", int(os.environ["MEMCACHED"])))
    own.cache.sendall(f"get rid:{rid}\r\n".encode())
    own.cache.recv(100)
    status = STATUS.get(environ["PATH_INFO"], "200 OK")
    LOG.write(f"rid={rid} {status[:3]}\n")
    body = f"{rid}\n".encode()
    start_response(status, [("Content-Length", str(len(body)))])
    return [body]
