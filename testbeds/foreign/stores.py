"""A thread for each connection; `/x` asks the stores that the environment names, in turn: PG by one transaction, MEMCACHED.
usage: stores.py PORT LOG"""

import os
import socket
import sys
import threading

import psycopg2
from threads import serve

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


def work(_, rid):
    if database:
        ask_database(rid)
    if cache:
        ask_cache(rid)
    return 200


serve(int(sys.argv[1]), sys.argv[2], work)
