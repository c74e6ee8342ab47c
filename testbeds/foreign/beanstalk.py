"""A thread a connection, and jobs by beanstalkd. usage: beanstalk.py PORT LOG DOWN_PORT QUEUE_PORT [worker]

Each request puts a job and waits in a tube of its own for the answer. The worker's three threads take jobs and ask the service behind."""

import http.client
import http.server
import os
import socket
import sys
import threading
from urllib.parse import parse_qs, urlsplit


class Queue:
    """A connection to beanstalkd."""

    def __init__(self):
        self.file = socket.create_connection(("127.0.0.1", int(sys.argv[4]))).makefile("rwb")

    def say(self, text, body=None):
        """A command, with its job where it has one; gives the words of the answer."""
        job = "" if body is None else f" {len(body)}\r\n{body}"
        self.file.write(f"{text}{job}\r\n".encode())
        self.file.flush()
        return self.file.readline().decode().split()

    def put(self, tube, body):
        self.say(f"use {tube}")
        self.say("put 0 0 60", body)

    def reserve(self):
        """The next job of the tubes that are watched."""
        _, job, size = self.say("reserve")
        body = self.file.read(int(size) + 2)[:-2].decode()
        self.say(f"delete {job}")
        return body


def work():
    queue, down = Queue(), http.client.HTTPConnection("127.0.0.1", int(sys.argv[3]))
    queue.say("watch jobs")
    while True:
        rid = queue.reserve()
        down.request("GET", f"/down?rid={rid}")
        down.getresponse().read()
        queue.put(f"done-{rid}", "done")


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self):
        at = urlsplit(self.path)
        rid = parse_qs(at.query).get("rid", ["none"])[0]
        status = {"/miss": 404, "/fail": 500}.get(at.path, 200)
        queue = Queue()
        queue.say(f"watch done-{rid}")
        queue.put("jobs", rid)
        queue.reserve()
        queue.file.close()
        os.write(log, f"rid={rid} {status}\n".encode())
        self.send_response(status)
        self.send_header("Content-Length", str(len(rid)))
        self.end_headers()
        self.wfile.write(rid.encode())

    def log_message(self, *_):
        """It has its own log."""


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


if sys.argv[5:] == ["worker"]:
    for _ in range(3):
        threading.Thread(target=work, daemon=True).start()
log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
