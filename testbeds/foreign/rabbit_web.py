"""Publishes to a queue of RabbitMQ and answers at once; settings come by environment. A process a request at a time."""

import os
from urllib.parse import parse_qs

import pika

# one write a line: threads and processes share the file
LOG = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
STATUS = {"/miss": "404 Not Found", "/fail": "500 Internal Server Error"}
where = pika.ConnectionParameters("127.0.0.1", int(os.environ["AMQP"]), heartbeat=0)
channel = None


def connected():
    global channel
    if channel is None:
        channel = pika.BlockingConnection(where).channel()
        channel.queue_declare("jobs")
        channel.confirm_delivery()
    return channel


def application(environ, start_response):
    rid = parse_qs(environ["QUERY_STRING"]).get("rid", ["none"])[0]
    if environ["PATH_INFO"] == "/miss":
        # many applications make a connection for each message
        with pika.BlockingConnection(where) as once:
            once.channel().basic_publish("", "jobs", f"rid:{rid}".encode())
    else:
        connected().basic_publish("", "jobs", f"rid:{rid}".encode())
    status = STATUS.get(environ["PATH_INFO"], "202 Accepted")
    os.write(LOG, f"rid={rid} {status[:3]}\n".encode())
    body = f"{rid}\n".encode()
    start_response(status, [("Content-Length", str(len(body)))])
    return [body]
