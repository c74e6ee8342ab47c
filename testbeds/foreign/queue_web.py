"""Puts work into a Redis list and answers at once; settings come by environment."""

import os
from urllib.parse import parse_qs

import redis

# one write a line: threads and processes share the file
LOG = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
STATUS = {"/miss": "404 Not Found", "/fail": "500 Internal Server Error"}
CACHE = redis.Redis(host="127.0.0.1", port=int(os.environ["REDIS"]))


def application(environ, start_response):
    rid = parse_qs(environ["QUERY_STRING"]).get("rid", ["none"])[0]
    CACHE.rpush("jobs", f"rid:{rid}")
    status = STATUS.get(environ["PATH_INFO"], "202 Accepted")
    os.write(LOG, f"rid={rid} {status[:3]}\n".encode())
    body = f"{rid}\n".encode()
    start_response(status, [("Content-Length", str(len(body)))])
    return [body]
