"""A thread a connection; a child does the work, and is asked by what bears no message. usage: handed.py PORT LOG DOWN_PORT KIND

KIND: datagrams (UNIX), messages (System V), memory (shared, with semaphores); parent (a pair of sockets, and the child serves and asks
its parent). Requests ask one after the other, under a lock, and each waits for its answer; who does the work asks the service behind."""

import ctypes
import http.client
import http.server
import mmap
import multiprocessing
import os
import socket
import sys
import threading
from urllib.parse import parse_qs, urlsplit

BYTES, PR_SET_PDEATHSIG, SIGKILL = 64, 1, 9
libc = ctypes.CDLL(None, use_errno=True)


class Datagrams:
    """A pair of sockets without a connection, bound to abstract names."""

    def __init__(self):
        self.ends = [socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2)]
        for end in self.ends:
            end.bind("")
        self.names = [end.getsockname() for end in self.ends]

    def put(self, end, text):
        self.ends[end].sendto(text.encode(), self.names[1 - end])

    def get(self, end):
        return self.ends[end].recv(BYTES).decode()


class Messages:
    """Two queues of System V, one each way, which the kernel keeps until they are removed."""

    class Message(ctypes.Structure):
        _fields_ = [("kind", ctypes.c_long), ("text", ctypes.c_char * BYTES)]

    def __init__(self):
        self.queues = [libc.msgget(0, 0o1600) for _ in range(2)]

    def put(self, end, text):
        libc.msgsnd(self.queues[end], ctypes.byref(self.Message(1, text.encode())), BYTES, 0)

    def get(self, end):
        message = self.Message()
        libc.msgrcv(self.queues[1 - end], ctypes.byref(message), BYTES, 0, 0)
        return message.text.decode()


class Memory:
    """One page that both share, and a semaphore each way."""

    def __init__(self):
        self.page, self.filled = mmap.mmap(-1, 4096), [multiprocessing.Semaphore(0) for _ in range(2)]

    def put(self, end, text):
        self.page[:BYTES] = text.encode().ljust(BYTES, b"\0")
        self.filled[end].release()

    def get(self, end):
        self.filled[1 - end].acquire()
        return self.page[:BYTES].rstrip(b"\0").decode()


class Pair:
    """A pair of connected sockets."""

    def __init__(self):
        self.ends = socket.socketpair()

    def put(self, end, text):
        self.ends[end].sendall(text.encode())

    def get(self, end):
        return self.ends[end].recv(BYTES).decode()


KIND = sys.argv[4]
way = {"datagrams": Datagrams, "messages": Messages, "memory": Memory, "parent": Pair}[KIND]()
SERVICE, WORKER = 0, 1
is_child = os.fork() == 0
if is_child:
    libc.prctl(PR_SET_PDEATHSIG, SIGKILL)
if is_child == (KIND != "parent"):
    down = http.client.HTTPConnection("127.0.0.1", int(sys.argv[3]))
    while True:
        down.request("GET", f"/down?rid={way.get(WORKER)}")
        down.getresponse().read()
        way.put(WORKER, "done")

log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
one_at_a_time = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self):
        at = urlsplit(self.path)
        rid = parse_qs(at.query).get("rid", ["none"])[0]
        status = {"/miss": 404, "/fail": 500}.get(at.path, 200)
        with one_at_a_time:
            way.put(SERVICE, rid)
            way.get(SERVICE)
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


Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
