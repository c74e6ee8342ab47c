"""A WSGI application that asks memcached; settings come by environment."""

import os
import socket
import threading
from urllib.parse import parse_qs

# one write a line: threads and processes share the file
LOG = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
STATUS = {"/miss": "404 Not Found", "/fail": "500 Internal Server Error"}
own = threading.local()


def application(environ, start_response):
    rid = parse_qs(environ["QUERY_STRING"]).get("rid", ["none"])[0]
    if not hasattr(own, "cache"):
        own.cache = socket.create_connection(("127.0.0.1", int(os.environ["MEMCACHED"])))
    own.cache.sendall(f"get rid:{rid}\r\n".encode())
    own.cache.recv(100)
    status = STATUS.get(environ["PATH_INFO"], "200 OK")
    os.write(LOG, f"rid={rid} {status[:3]}\n".encode())
    body = f"{rid}\n".encode()
    # uWSGI closes behind each reply and does not say so
    closes = [("Connection", "close")] if "uwsgi.version" in environ else []
    start_response(status, [("Content-Length", str(len(body))), *closes])
    return [body]
