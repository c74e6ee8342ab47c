"""A web server with a thread for each connection, which hands each request's path and id to `work`, answers with the status that
this gives, and writes a line of it to its own log."""

import http.server
import os
import random
from urllib.parse import parse_qs, urlsplit


# how many in a hundred answers say something that no other does; without it, all say which request they answer
OWN_ANSWERS = os.environ.get("OWN_ANSWERS")


def answer(rid):
    """What a request is answered."""
    if OWN_ANSWERS is None:
        return f"{rid}\n".encode()
    # nothing that a request is known by
    name = random.randbytes(16).hex() if random.randrange(100) < int(OWN_ANSWERS) else "the same for all"
    return f'{{"item": "{name}", "of": "a page that is as long as others, so that all of them begin alike"}}\n'.encode()


def serve(port, log, work):
    # one write a line: all threads share the file
    log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self):
            at = urlsplit(self.path)
            rid = parse_qs(at.query).get("rid", ["none"])[0]
            status = work(at.path, rid)
            body = answer(rid)
            os.write(log, f"rid={rid} {status}\n".encode())
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    Server(("127.0.0.1", port), Handler).serve_forever()
