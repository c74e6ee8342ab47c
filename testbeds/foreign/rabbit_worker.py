"""Takes work from a queue of RabbitMQ and calls a service for each. usage: rabbit_worker.py AMQP_PORT DOWN_PORT LOG"""

import http.client
import sys

import pika

down = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]))
log = open(sys.argv[3], "a", buffering=1, encoding="utf-8")
channel = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(sys.argv[1]), heartbeat=0)).channel()
channel.queue_declare("jobs")


def work(channel, method, _properties, body):
    rid = body.decode().removeprefix("rid:")
    down.request("GET", f"/work?job={rid}")
    down.getresponse().read()
    log.write(f"job={rid}\n")
    channel.basic_ack(method.delivery_tag)


log.write("ready\n")
channel.basic_qos(prefetch_count=4)
channel.basic_consume("jobs", work)
channel.start_consuming()
