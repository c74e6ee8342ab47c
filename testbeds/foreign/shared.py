"""Requests that share one connection in a protocol of its own: frames of 64 bytes, a number and `rid=ID`.

usage: shared.py back PORT DOWN_PORT              serves frames, each in a thread that calls DOWN, and answers as each is done
       shared.py front PORT BACK_PORT DOWN_PORT LOG [one]
                                                  serves HTTP, a thread for each connection; `/x` asks BACK on the connection that
                                                  all share, and then DOWN; with `one`, only when the one before has its answer
"""

import http.client
import itertools
import socket
import struct
import sys
import threading

from threads import serve

FRAME = struct.Struct(">2sI58s")
ASK, ANSWER = b"\x9f\x80", b"\x9f\x81"


def read_frame(connection):
    """The next frame; None at the end, and for what is no frame."""
    data = connection.recv(FRAME.size, socket.MSG_WAITALL)
    if len(data) < FRAME.size:
        return None
    kind, number, text = FRAME.unpack(data)
    return (number, text.rstrip(b"\0").decode()) if kind in (ASK, ANSWER) else None


def call(port, rid):
    """One request over HTTP, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", f"/down?rid={rid}")
    connection.getresponse().read()
    connection.close()


def serve_frames(connection, down):
    """Serves one connection of the front."""
    sending = threading.Lock()

    def serve(number, rid):
        call(down, rid)
        with sending:
            connection.sendall(FRAME.pack(ANSWER, number, b"done"))

    while frame := read_frame(connection):
        number, text = frame
        threading.Thread(target=serve, args=(number, text.removeprefix("rid=")), daemon=True).start()
    connection.close()


def back(port, down):
    """Serves frames."""
    with socket.create_server(("127.0.0.1", port)) as server:
        while True:
            threading.Thread(target=serve_frames, args=(server.accept()[0], down), daemon=True).start()


class Channel:
    """The connection that all requests share."""

    def __init__(self, port, is_one_by_one):
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.numbers, self.waiting = itertools.count(), {}
        self.sending = threading.Lock()
        self.is_one_by_one = is_one_by_one
        if not is_one_by_one:
            threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        """Gives each answer to who waits for it."""
        while frame := read_frame(self.connection):
            self.waiting.pop(frame[0]).set()

    def ask(self, rid):
        """Asks, and waits for the answer."""
        answered = threading.Event()
        with self.sending:
            number = next(self.numbers)
            self.waiting[number] = answered
            self.connection.sendall(FRAME.pack(ASK, number, f"rid={rid}".encode()))
            if self.is_one_by_one:
                read_frame(self.connection)
        if not self.is_one_by_one:
            answered.wait()


def front(port, asked, down, log, is_one_by_one):
    """Serves HTTP."""
    channel = Channel(asked, is_one_by_one)

    def work(path, rid):
        if path == "/x":
            channel.ask(rid)
            call(down, rid)
        return 200

    serve(port, log, work)


if __name__ == "__main__":
    if sys.argv[1] == "back":
        back(*map(int, sys.argv[2:4]))
    else:
        front(*map(int, sys.argv[2:5]), sys.argv[5], "one" in sys.argv[6:])
