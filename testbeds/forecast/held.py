"""A WSGI application: `/list` sleeps outside of a lock and within it, any other path only sleeps."""

import threading
import time

LOCK = threading.Lock()


def application(environ, start_response):
    """Answers a request."""
    time.sleep(0.006)
    if environ["PATH_INFO"] == "/list":
        with LOCK:
            time.sleep(0.004)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\n"]


app = application
