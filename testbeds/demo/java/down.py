"""The downstream service of Exec.java: answers `/down?rid=N` after a small random delay.

Run: python3 down.py PORT [DELAY_MS_MIN DELAY_MS_MAX] (default 1 to 10 ms). A thread per connection,
so that replies overtake each other. Listens on loopback; PORT 0 takes a free one.
"""

import random
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class Downstream(BaseHTTPRequestHandler):
    delay_ms = (1.0, 10.0)

    def do_GET(self):
        time.sleep(random.uniform(*self.delay_ms) / 1000)
        rid = parse_qs(urlsplit(self.path).query).get("rid", ["none"])[0]
        body = "down {}\n".format(rid).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main():
    if len(sys.argv) not in (2, 4):
        sys.exit("usage: down.py PORT [DELAY_MS_MIN DELAY_MS_MAX]")
    if len(sys.argv) == 4:
        Downstream.delay_ms = (float(sys.argv[2]), float(sys.argv[3]))
    server = Server(("127.0.0.1", int(sys.argv[1])), Downstream)
    print("ready {}".format(server.server_address[1]), flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
