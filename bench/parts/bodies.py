"""Asks for files by HTTP/1.1 and compares each body with the file, byte by byte.

`bodies.py PORT ROOT CONNECTIONS REQUESTS PIPELINED` says, as JSON, how many bodies were the file's and how many were not;
a connection asks for PIPELINED files at once, in one segment; with 0 each file has a connection of its own.
"""

import json
import pathlib
import socket
import sys
import threading


class Connection:
    """One that is kept."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), 20)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.have = b""

    def more(self):
        part = self.sock.recv(1 << 18)
        if not part:
            raise OSError("closed in mid-reply")
        return part

    def body(self):
        """The next reply's, or None where it is no 200."""
        while (end := self.have.find(b"\r\n\r\n")) < 0:
            self.have += self.more()
        head = self.have[:end].lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        parts, missing = [self.have[end + 4 :]], length - (len(self.have) - end - 4)
        while missing > 0:
            parts.append(self.more())
            missing -= len(parts[-1])
        data = b"".join(parts)
        self.have = data[length:]
        return data[:length] if head.startswith(b"http/1.1 200") else None


def client(port, files, requests, pipelined, result):
    names, at_once, connection = sorted(files), max(pipelined, 1), None
    end = b"Host: a\r\n\r\n" if pipelined else b"Host: a\r\nConnection: close\r\n\r\n"
    try:
        for first in range(0, requests, at_once):
            connection = connection or Connection(port)
            wanted = [names[(first + i) % len(names)] for i in range(min(at_once, requests - first))]
            connection.sock.sendall(b"".join(b"GET /%s HTTP/1.1\r\n%s" % (n.encode(), end) for n in wanted))
            for name in wanted:
                result[connection.body() == files[name]] += 1
            if connection.have or not pipelined and connection.sock.recv(1):
                result[False] += 1
            if not pipelined:
                connection.sock.close()
                connection = None
    except (OSError, ValueError, IndexError) as e:
        print(f"bodies: {e}", file=sys.stderr)
        result[False] += 1


def main():
    port, connections, requests, pipelined = (int(sys.argv[i]) for i in (1, 3, 4, 5))
    files = {p.name: p.read_bytes() for p in pathlib.Path(sys.argv[2]).iterdir()}
    results = [{True: 0, False: 0} for _ in range(connections)]
    each = requests // connections
    threads = [threading.Thread(target=client, args=(port, files, each, pipelined, r)) for r in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"same": sum(r[True] for r in results), "other": sum(r[False] for r in results)}))


if __name__ == "__main__":
    main()
