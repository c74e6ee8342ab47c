"""Two ends that talk in both of the ways by which hosts are synchronised: requests on a TCP connection, and name lookups
in datagrams. `talk.py serve PORT` says `ready PID` and answers until it is ended; `talk.py ask ADDRESS PORT ROUNDS [names]`
asks, with `names` in datagrams alone.
"""

import os
import socket
import struct
import sys
import threading
import time

DNS = 53


def question_for(identity, label):
    """A query for the address of <label>.example."""
    name = b"".join(bytes([len(label)]) + label for label in (label, b"example"))
    return struct.pack(">6H", identity, 0x0100, 1, 0, 0, 0) + name + b"\0" + struct.pack(">2H", 1, 1)


def question(number):
    """A query for the address of h<number>.example."""
    return question_for(1 + number % 65535, b"h%d" % (number % 50))


def answer(query):
    """Its answer: 192.0.2.1."""
    record = struct.pack(">3HIH4B", 0xC00C, 1, 1, 60, 4, 192, 0, 2, 1)
    return query[:2] + struct.pack(">5H", 0x8180, 1, 1, 0, 0) + query[12:] + record


def serve_names(sock):
    while True:
        query, sender = sock.recvfrom(512)
        sock.sendto(answer(query), sender)


def serve_connection(connection):
    with connection:
        while request := connection.recv(4096):
            connection.sendall(request * 3)


def serve(port):
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind(("0.0.0.0", DNS))
    listener = socket.create_server(("0.0.0.0", port))
    threading.Thread(target=serve_names, args=(names,), daemon=True).start()
    print("ready", os.getpid(), flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve_connection, args=(connection,), daemon=True).start()


def ask(address, port, rounds, only_names):
    connection = None if only_names else socket.create_connection((address, port))
    for i in range(rounds):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as names:
            names.settimeout(5)
            names.connect((address, DNS))
            names.send(question(i))
            names.recv(512)
        if connection is not None:
            connection.sendall(b"x" * (100 + i % 900))
            left = 3 * (100 + i % 900)
            while left > 0:
                left -= len(connection.recv(4096))
        time.sleep(0.002)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        ask(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), "names" in sys.argv[5:])
