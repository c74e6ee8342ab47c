"""Takes work from a Redis list and calls a service for each. usage: queue_worker.py REDIS_PORT DOWN_PORT LOG"""

import http.client
import sys

import redis

cache = redis.Redis(host="127.0.0.1", port=int(sys.argv[1]))
down = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]))
with open(sys.argv[3], "a", buffering=1, encoding="utf-8") as log:
    log.write("ready\n")
    while True:
        _, job = cache.blpop("jobs")
        rid = job.decode().removeprefix("rid:")
        down.request("GET", f"/work?job={rid}")
        down.getresponse().read()
        log.write(f"job={rid}\n")
