"""An HTTPS server and clients in one process, by sockets (`socket`) or by memory (`memory`: asyncio). Begins when a line comes on its standard
input, stops early at the next, and says how many requests failed. With `-kept` behind it, a client asks on one connection until then. usage:
tls.py socket[-kept]|memory[-kept] FOLDER ROUNDS"""
import asyncio
import http.client
import http.server
import ssl
import subprocess
import sys
import threading

MODE, KEPT, FOLDER, ROUNDS = sys.argv[1].removesuffix("-kept"), sys.argv[1].endswith("-kept"), sys.argv[2], int(sys.argv[3])
SECRET = "hunter2-QxKvBzJwMp"
# method, path, bytes that are sent, status, bytes of the reply
ASKED = [
    ("GET", "/items", 0, 200, 12),
    ("GET", "/big", 0, 200, 10_000),
    ("POST", "/orders", 40_000, 201, 2),
    ("GET", "/missing", 0, 404, 9),
    ("GET", "/huge", 0, 200, 300_000),
    ("PUT", "/small", 16_384, 200, 16_384),
]
BY_PATH = {path: (status, length) for _, path, _, status, length in ASKED}


def context():
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        + ["-keyout", FOLDER + "/key.pem", "-out", FOLDER + "/cert.pem"],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(FOLDER + "/cert.pem", FOLDER + "/key.pem")
    return made


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        left = int(self.headers.get("Content-Length", 0))
        while left:
            left -= len(self.rfile.read(min(left, 4096)))
        status, length = BY_PATH[self.path.split("?")[0]]
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(b"x" * length)

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *_):
        pass


def by_sockets():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context().wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


async def answer(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            sent = [int(line.split(":")[1]) for line in head if line.lower().startswith("content-length:")]
            await reader.readexactly(sum(sent))
            status, length = BY_PATH[head[0].split()[1].split("?")[0]]
            writer.write(b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\n\r\n" % (status, length))
            writer.write(b"x" * length)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def by_memory():
    port, loop = [], asyncio.new_event_loop()
    begun = threading.Event()

    async def serve():
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context(), limit=1 << 20)
        port.append(server.sockets[0].getsockname()[1])
        begun.set()

    def run():
        asyncio.set_event_loop(loop)
        loop.run_until_complete(serve())
        loop.run_forever()

    threading.Thread(target=run, daemon=True).start()
    begun.wait()
    return port[0]


def ask(port, failed):
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    try:
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=trusting)
        for method, path, sent, status, length in ASKED if not KEPT else until_stopped():
            body = (SECRET * (sent // len(SECRET) + 1))[:sent] if sent else None
            connection.request(method, path + "?key=" + SECRET, body, {"Authorization": "Bearer " + SECRET})
            reply = connection.getresponse()
            if reply.status != status or len(reply.read()) != length:
                failed.append(path)
        connection.close()
    except (OSError, http.client.HTTPException) as e:
        failed.append(repr(e))


def until_stopped():
    while not stop.is_set():
        yield from ASKED


port = by_sockets() if MODE == "socket" else by_memory()
print("ready", flush=True)
sys.stdin.readline()
failed, stop = [], threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
for _ in range(ROUNDS):
    if stop.is_set():
        break
    clients = [threading.Thread(target=ask, args=(port, failed)) for _ in range(2)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
print(len(failed), failed[:3], flush=True)
stop.wait()
