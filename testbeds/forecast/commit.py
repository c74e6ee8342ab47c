"""A web application that commits one row a request, for gunicorn's gthread workers; each thread keeps its connection.

Environment: `PG` (how to connect). Before the row is written something is looked up, which waits in the server.
"""

import os
import threading

import psycopg2

own = threading.local()


def cursor():
    """The thread's own."""
    if not hasattr(own, "cursor"):
        connection = psycopg2.connect(os.environ["PG"])
        connection.autocommit = True
        own.cursor = connection.cursor()
    return own.cursor


def app(environ, start_response):
    """Writes a row and says so."""
    del environ
    c = cursor()
    c.execute("SELECT pg_sleep(0.004)")
    c.fetchall()
    c.execute("INSERT INTO votes (voter, choice) VALUES ('somebody', 3)")
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "6")])
    return [b"voted\n"]
