"""A thread for each connection; `/x` asks the stores that the environment names, in turn: PG by one transaction, MEMCACHED.
usage: stores.py PORT LOG"""

import http.server
import os
import socket
import sys
import threading
from urllib.parse import parse_qs, urlsplit

import psycopg2

port = int(sys.argv[1])
# one write a line: all threads share the file
log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
database, cache = os.environ.get("PG"), os.environ.get("MEMCACHED")
own = threading.local()


def ask_database(rid):
    """BEGIN, a statement of a millisecond, COMMIT."""
    if not hasattr(own, "database"):
        own.database = psycopg2.connect(
            f"host=127.0.0.1 port={database} user=postgres dbname=postgres sslmode=disable gssencmode=disable")
    with own.database, own.database.cursor() as cursor:
        cursor.execute(f"/* rid={rid} */ select 1, pg_sleep(0.001)")
        cursor.fetchall()


def ask_cache(rid):
    """One key, in one write."""
    if not hasattr(own, "cache"):
        own.cache = socket.create_connection(("127.0.0.1", int(cache)))
    own.cache.sendall(f"get rid:{rid}\r\n".encode())
    own.cache.recv(100)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        at = urlsplit(self.path)
        rid = parse_qs(at.query).get("rid", ["none"])[0]
        if database:
            ask_database(rid)
        if cache:
            ask_cache(rid)
        body = f"{rid}\n".encode()
        os.write(log, f"rid={rid} 200\n".encode())
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


Server(("127.0.0.1", port), Handler).serve_forever()
