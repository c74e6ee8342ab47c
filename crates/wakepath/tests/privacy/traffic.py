"""Servers and clients of many protocols in one process, on loopback, with secrets where a parser may take them for names.

Of each protocol: three clients (addresses) say `shared` words; a fourth says one secret once and another five times. Secrets
are made of the protocol's name, so that neither this file's arguments nor its path hold one: `once<protocol>zq`,
`five<protocol>zq`. What has the form of a value is said by all clients. `alone` is a service with one client on one connection.
"""

import socket
import struct
import threading

FORMS = [
    "ann.lee@corp.example", "ann.lee%40corp.example", "0049-170-5551234", "+491705551234", "d41d8cd98f00b204e9800998ecf8427e",
    "deadbeefcafedeadbeef", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl", "QxKvBzJwMpFhTrGdQlSn",
]


def http(word, n):
    return b"GET /user/%s HTTP/1.1\r\nHost: h\r\n\r\n" % word


def http2(word, n):
    path = b"/user/" + word
    block = b"\x82\x86\x04" + bytes([len(path)]) + path
    return struct.pack(">I", len(block))[1:] + b"\x01\x05" + struct.pack(">I", 2 * n + 1) + block


def http2_answer(n):
    return b"\0\0\x01\x01\x05" + struct.pack(">I", 2 * n + 1) + b"\x88"


def fastcgi(word, n):
    def record(kind, content):
        return struct.pack(">BBHHBB", 1, kind, 1, len(content), 0, 0) + content

    def pair(name, value):
        return bytes([len(name), len(value)]) + name + value

    params = pair(b"REQUEST_METHOD", b"GET") + pair(b"REQUEST_URI", b"/user/" + word)
    return record(1, b"\0\1\1\0\0\0\0\0") + record(4, params) + record(4, b"") + record(5, b"")


def fastcgi_answer(n):
    text = b"Status: 200 OK\r\n\r\nok"
    return struct.pack(">BBHHBB", 1, 6, 1, len(text), 0, 0) + text + struct.pack(">BBHHBB", 1, 3, 1, 8, 0, 0) + bytes(8)


def postgres(word, n):
    text = b"SET ROLE " + word + b"\0"
    return b"Q" + struct.pack(">I", len(text) + 4) + text


def mysql(word, n):
    text = b"\x03USE " + word
    return struct.pack("<I", len(text))[:3] + b"\0" + text


def redis(word, n):
    return b"*2\r\n$%d\r\n%s\r\n$1\r\nx\r\n" % (len(word), word)


def document(*fields):
    body = b"".join(fields) + b"\0"
    return struct.pack("<I", len(body) + 4) + body


def message(number, to, content):
    body = b"\0\0\0\0\0" + content
    return struct.pack("<IIII", 16 + len(body), number, to, 2013) + body


def mongo(word, n):
    text = b"\x02" + word + b"\0" + struct.pack("<I", len(word) + 1) + word + b"\0"
    return message(n + 1, 0, document(text, b"\x02$db\0\x02\0\0\0x\0"))


def mongo_answer(n):
    return message(n + 9000, n + 1, document(b"\x01ok\0" + struct.pack("<d", 1.0)))


def kafka(word, n):
    body = struct.pack(">HHI", 0, 7, n + 1) + b"\0\6client\xff\xff" + struct.pack(">hI", 1, 1000) + struct.pack(">I", 1)
    body += struct.pack(">H", len(word)) + word + struct.pack(">III", 1, 0, 0)
    return struct.pack(">I", len(body)) + body


def kafka_answer(n):
    return struct.pack(">II", 8, n + 1) + bytes(4)


def method(channel, of, number, arguments):
    body = struct.pack(">HH", of, number) + arguments
    return b"\x01" + struct.pack(">HI", channel, len(body)) + body + b"\xce"


def amqp(word, n):
    return method(1, 50, 10, b"\0\0" + bytes([len(word)]) + word + b"\0" + bytes(4))


# name: what a connection begins with (who, bytes), a request, its answer
PROTOCOLS = {
    "http": ([], http, lambda n: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    "httptwo": ([("client", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"), ("server", b"\0\0\0\4\0\0\0\0\0")], http2, http2_answer),
    "fastcgi": ([], fastcgi, fastcgi_answer),
    "postgres": (
        [("client", b"\0\0\0\x10\0\3\0\0user\0m\0\0"), ("server", b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I")],
        postgres,
        lambda n: b"C\0\0\0\x08SET\0Z\0\0\0\x05I",
    ),
    "mysql": (
        [
            ("server", b"\x2f\0\0\0\x0a8.0.0\0" + bytes(4) + b"saltsalt\0\xff\xf7\x08\2\0\0\0\0" + bytes(19)),
            ("client", b"\x22\0\0\1\x85\xa2\0\0\0\0\0\1\x08" + bytes(23) + b"m\0"),
            ("server", b"\7\0\0\2\0\0\0\2\0\0\0"),
        ],
        mysql,
        lambda n: b"\7\0\0\1\0\0\0\2\0\0\0",
    ),
    "redis": ([], redis, lambda n: b"-ERR unknown command\r\n"),
    "mongo": ([], mongo, mongo_answer),
    "kafka": ([], kafka, kafka_answer),
    "amqp": (
        [("client", b"AMQP\0\0\x09\x01"), ("server", method(0, 10, 10, b"\0\x09" + bytes(4) + b"\0\0\0\5PLAIN\0\0\0\5en_US"))],
        amqp,
        lambda n: method(1, 50, 11, b"\1q" + bytes(8)),
    ),
}


def serve(connection, hello, answer):
    for who, what in hello:
        if who == "server":
            connection.sendall(what)
        else:
            connection.recv(65536)
    n = 0
    while connection.recv(65536):
        connection.sendall(answer(n))
        n += 1
    connection.close()


def listen(hello, answer):
    server = socket.create_server(("127.0.0.1", 0), backlog=64)

    def accept():
        while True:
            connection, _ = server.accept()
            threading.Thread(target=serve, args=(connection, hello, answer), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return server.getsockname()[1]


def talk(port, client, hello, ask, words):
    connection = socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.%d" % client, 0))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for who, what in hello:
        if who == "client":
            connection.sendall(what)
        else:
            connection.recv(65536)
    for n, word in enumerate(words):
        connection.sendall(ask(word.encode(), n))
        connection.recv(65536)
    connection.close()


def main():
    for name, (hello, ask, answer) in PROTOCOLS.items():
        port = listen(hello, answer)
        for client in (2, 3, 4):
            talk(port, client, hello, ask, ["shared" + name] * 4)
            # an address in percent encoding is none in SQL
            talk(port, client, hello, ask, [form for form in FORMS if "%" not in form or ask not in (postgres, mysql)])
        talk(port, 5, hello, ask, ["once" + name + "zq"])
        for _ in range(5):
            talk(port, 5, hello, ask, ["five" + name + "zq"])
        for client in (2, 3, 4):
            talk(port, client, hello, ask, ["shared" + name] * 2)
    hello, _, answer = PROTOCOLS["http"]
    port = listen(hello, answer)

    def alone(target, n):
        return b"GET /%s HTTP/1.1\r\nHost: h\r\n\r\n" % target

    talk(port, 9, hello, alone, ["ballot/17", "standings", "healthy"] * 20 + ["oncealonezq"])


main()
