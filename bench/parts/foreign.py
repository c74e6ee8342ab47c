"""Systems of other people's making, for `bench/foreign`: how each is started.

Each system is a function of a `Place` that starts servers in order and gives the port where requests go in. Programs come
from the distribution and, where it has none, from `target/foreign` (`scripts/install foreign`).
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from .programs import ROOT, TARGET, WAIT_S, Failed, free_port, program, run, server, until_answered, wait_for_file
from .tiers import find, nginx_line, postgresql, put

CODE = ROOT / "testbeds" / "foreign"
HAVE = ROOT / "target" / "foreign"
# `bench/pythons` names that of another CPython
VENV = pathlib.Path(os.environ.get("WAKEPATH_BENCH_VENV", HAVE / "venv"))
PYTHON = VENV / "bin" / "python"
SYSTEM_PYTHON = "/usr/bin/python3"


OWN_LINE = re.compile(r"^rid=(\S+) (\d+)$")


def own_log(path):
    """What the server itself wrote: status by request."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := OWN_LINE.match(line):
            found[match[1]] = int(match[2])
    return found


class Place:
    """A folder and what was started for it; everything ends when the context does."""

    def __init__(self, at, stack, env=os.environ):
        self.at, self.stack, self.env = pathlib.Path(at), stack, env
        self.log = self.at / "own.log"
        self.log.touch(mode=0o666)
        self.log.chmod(0o666)
        self.ports, self.pids = {}, []
        # how the recorder is asked, and what happens between the two halves of the load
        self.flags, self.meanwhile = [], None

    def start(self, name, line, port, socket=None, **env):
        """Starts a server and waits until it answers, or its socket is there; its words go to a file of its name."""
        if port:
            self.ports[name] = port
        words = self.stack.enter_context(open(self.at / f"{name}.out", "w", encoding="utf-8"))
        env = {**self.env, "LOG": str(self.log), "PORT": str(port), **{k: str(v) for k, v in env.items()}}
        more = {"env": env, "stderr": words, "start_new_session": True, "cwd": self.at}
        process = self.stack.enter_context(server(line, **more))
        self.pids.append(process.pid)
        try:
            until_answered(port, process) if port else wait_for_file(socket, process, name)
        except Failed:
            raise Failed(f"{name} did not start: {(self.at / f'{name}.out').read_text()[-300:]}") from None
        return port

    def end(self, pid):
        """Ends a server that was started here."""
        os.kill(pid, signal.SIGTERM)
        limit = time.monotonic() + WAIT_S
        # it stays a zombie until the context ends
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            if time.monotonic() > limit:
                raise Failed(f"process {pid} does not end")
            time.sleep(0.02)

    def wait_for(self, path, text):
        """Until a program without a port says that it is ready."""
        limit = time.monotonic() + WAIT_S
        while not (path.exists() and text in path.read_text(encoding="utf-8")):
            if time.monotonic() > limit:
                raise Failed(f"nothing wrote {text!r} to {path.name}")
            time.sleep(0.05)

    def database(self):
        """PostgreSQL."""
        line, port = postgresql(self.at)
        return self.start("postgres", line, port)

    def redis(self):
        """Redis, of one thread."""
        port = free_port()
        line = [find("redis-server"), "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", self.at]
        return self.start("redis", line, port)

    def plain(self, name="down", down=None):
        """A thread for each connection; the log of who is not the entry is a file of its own."""
        port = free_port()
        log = self.log if down else self.at / f"{name}.log"
        return self.start(name, [SYSTEM_PYTHON, CODE / "plain.py", port, log, *([down] if down else [])], port)

    def memcached(self):
        """memcached, of four threads."""
        port, user = free_port(), ["-u", "nobody"] if os.geteuid() == 0 else []
        return self.start("memcached", [find("memcached"), "-l", "127.0.0.1", "-p", port, "-U", 0, *user], port)

    def stores(self):
        """What most of the services call."""
        return {"PG": self.database(), "REDIS": self.redis(), "DOWN": self.plain()}


def restart(place):
    """nginx before an application that is started anew amid the recording, which selects by ports."""
    down, app, port = place.plain(), free_port(), free_port()

    def start():
        place.start("app", [SYSTEM_PYTHON, CODE / "plain.py", app, place.log, down], app)
        return place.pids[-1]

    first = start()

    def again():
        place.end(first)
        start()

    place.flags = ["--port", f"{port},{app},{down}"]
    place.meanwhile = again
    line = nginx_line(place.at, """
        server {
            listen 127.0.0.1:@port@;
            location / { proxy_pass http://127.0.0.1:@app@; }
        }
        """, port=port, app=app)
    return place.start("nginx", line, port)


def puma(place):
    """Puma, five threads: workers read kept connections and take requests from a reactor."""
    port, env = free_port(), place.stores()
    line = [find("puma"), "-q", "-b", f"tcp://127.0.0.1:{port}", "-t", "5:5", CODE / "config.ru"]
    return place.start("puma", line, port, RACK_ENV="production", **env)


def uvicorn(place, port, app, loop, **env):
    """An application in FastAPI, on asyncio's own loop or on uvloop."""
    line = [PYTHON, "-m", "uvicorn", "--port", port, "--app-dir", CODE, "--log-level", "warning", "--loop", loop, app]
    return place.start("uvicorn", line, port, **env)


def fastapi(loop):
    """Three pools in one task for each request, two calls at once."""
    return lambda place: uvicorn(place, free_port(), "service:app", loop, **place.stores())


def express(place):
    """One event loop: a pool, a connection that all requests share, a timer, two calls at once."""
    port, env = free_port(), place.stores()
    return place.start("express", [find("node"), CODE / "service.js"], port, MODULES=HAVE / "node", **env)


def node_helper(place):
    """Node with Wakepath's helper: pools that are always taken, a connection that all requests share, calls at once."""
    port, env = free_port(), place.stores()
    helper = put(place.at, "wakepath.cjs", run([program("wakepath"), "helper", "node"], WAIT_S))
    line = [find("node"), "--require", helper, CODE / "contexts.js"]
    return place.start("node-helper", line, port, MODULES=HAVE / "node", **env)


def node_attached(place):
    """The same, with the helper put into it when it runs and has connections to all that it calls."""
    port, env = free_port(), place.stores()
    line = [find("node"), "--inspect-port=0", CODE / "contexts.js"]
    place.start("node-attached", line, port, MODULES=HAVE / "node", **env)
    warm = [program("vload"), "--url", f"http://127.0.0.1:{port}", "--connections", "4", "--requests", "40", "--mix", "/x=1"]
    run([*warm, "--truth", place.at / "warm.jsonl"], WAIT_S)
    run([program("wakepath"), "attach", str(place.pids[-1]), "--yes"], WAIT_S)
    return port


def go(place):
    """Goroutines on few threads; a pool of five."""
    port, env = free_port(), place.stores()
    return place.start("go", [HAVE / "go-service"], port, **env)


def uwsgi(place):
    """Two processes with two threads each, a connection for each request, before memcached."""
    port, cache = free_port(), place.memcached()
    line = [find("uwsgi-core"), "--plugin", "python3,http", "--http-socket", f"127.0.0.1:{port}"]
    line += ["--wsgi-file", CODE / "wsgi.py", "--processes", 2, "--threads", 2, "--die-on-term", "--master"]
    return place.start("uwsgi", line, port, MEMCACHED=cache)


def varnish_with(place, vcl):
    """Varnish with this configuration."""
    port = free_port()
    line = [find("varnishd"), "-F", "-a", f"127.0.0.1:{port}", "-T", "none", "-f", vcl, "-n", place.at / "varnish",
            "-s", "malloc,16m", "-p", "thread_pools=1"]
    return place.start("varnish", line, port)


def passing_varnish(place, backend):
    """Varnish passes everything on."""
    return varnish_with(place, put(place.at, "pass.vcl", """
        vcl 4.1;
        backend b { .host = "127.0.0.1"; .port = "@backend@"; }
        sub vcl_recv { return (pass); }
        """, backend=backend))


def varnish(place):
    """Varnish before uWSGI."""
    return passing_varnish(place, uwsgi(place))


def django(place):
    """gunicorn's threads run Django, whose ORM keeps a connection for each."""
    port, database = free_port(), place.database()
    line = [find("/usr/bin/gunicorn"), "-b", f"127.0.0.1:{port}", "--chdir", CODE, "-w", 2, "-k", "gthread", "--threads", 4,
            "--worker-tmp-dir", place.at, "shop:application"]
    return place.start("django", line, port, PG=database)


def caddy(place):
    """Caddy, in Go, before Django."""
    backend, port = django(place), free_port()
    conf = put(place.at, "Caddyfile", """
        {
            admin off
            auto_https off
        }
        :@port@ {
            bind 127.0.0.1
            reverse_proxy 127.0.0.1:@backend@
        }
        """, port=port, backend=backend)
    line = [find("caddy"), "run", "--adapter", "caddyfile", "--config", conf]
    return place.start("caddy", line, port, HOME=place.at)


def envoy(place):
    """Envoy, one worker, before threads."""
    backend, port = place.plain("plain", place.plain()), free_port()
    conf = put(place.at, "envoy.yaml", """
        static_resources:
          listeners:
          - address: {socket_address: {address: 127.0.0.1, port_value: @port@}}
            filter_chains:
            - filters:
              - name: envoy.filters.network.http_connection_manager
                typed_config:
                  "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                  stat_prefix: s
                  route_config: {virtual_hosts: [{name: a, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: b}}]}]}
                  http_filters:
                  - name: envoy.filters.http.router
                    typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
          clusters:
          - name: b
            type: STATIC
            load_assignment:
              cluster_name: b
              endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: @backend@}}}}]}]
        """, port=port, backend=backend)
    return place.start("envoy", [HAVE / "venv/bin/envoy", "-c", conf, "--concurrency", 1, "--disable-hot-restart"], port)


def squid(place):
    """Squid as accelerator, nothing cached, before threads."""
    backend, port = place.plain("plain", place.plain()), free_port()
    if os.geteuid() == 0:
        place.at.chmod(0o777)
    conf = put(place.at, "squid.conf", """
        http_port 127.0.0.1:@port@ accel defaultsite=localhost
        cache_peer 127.0.0.1 parent @backend@ 0 no-query originserver name=b
        http_access allow all
        cache deny all
        pid_filename none
        cache_log @at@/cache.log
        access_log none
        netdb_filename none
        pinger_enable off
        shutdown_lifetime 0 seconds
        coredump_dir @at@
        """, port=port, backend=backend)
    return place.start("squid", [find("squid"), "-N", "-n", f"w{port}", "-f", conf], port)


def redis_queue(place):
    """A list of Redis between who answers and who works."""
    port, cache, down = free_port(), place.redis(), place.plain()
    log = place.at / "worker.log"
    line = [PYTHON, CODE / "queue_worker.py", cache, down, log]
    place.stack.enter_context(server(line, stderr=subprocess.DEVNULL))
    place.wait_for(log, "ready")
    line = [find("uwsgi-core"), "--plugin", "python3,http", "--http-socket", f"127.0.0.1:{port}", "--http-keepalive"]
    line += ["--wsgi-file", CODE / "queue_web.py", "--processes", 4, "--die-on-term", "--master", "-H", HAVE / "venv", "--lazy-apps"]
    return place.start("uwsgi", line, port, REDIS=cache)


def rabbit(place):
    """RabbitMQ between who answers and who works."""
    port, amqp, spread = free_port(), free_port(), free_port()
    down = place.plain()
    conf = put(place.at, "rabbitmq.conf", "listeners.tcp.1 = 127.0.0.1:@amqp@\n", amqp=amqp)
    plugins = put(place.at, "plugins", "[].\n")
    names = free_port()
    place.start("epmd", [find("epmd"), "-port", names, "-address", "127.0.0.1"], names)
    env = {"RABBITMQ_CONFIG_FILE": conf, "RABBITMQ_ENABLED_PLUGINS_FILE": plugins, "RABBITMQ_BASE": place.at,
           "RABBITMQ_MNESIA_BASE": place.at / "mnesia", "RABBITMQ_LOG_BASE": place.at, "RABBITMQ_LOGS": "-",
           "RABBITMQ_NODENAME": f"w{amqp}@localhost", "RABBITMQ_DIST_PORT": spread, "ERL_EPMD_PORT": names,
           "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 2:2",
           "HOME": place.at}
    place.start("rabbitmq", ["/usr/lib/rabbitmq/bin/rabbitmq-server"], amqp, **env)
    log = place.at / "worker.log"
    worker = [PYTHON, CODE / "rabbit_worker.py", amqp, down, log]
    place.stack.enter_context(server(worker, stderr=subprocess.DEVNULL))
    place.wait_for(log, "ready")
    line = [find("uwsgi-core"), "--plugin", "python3,http", "--http-socket", f"127.0.0.1:{port}", "--http-keepalive"]
    line += ["--wsgi-file", CODE / "rabbit_web.py", "--processes", 4, "--die-on-term", "--master", "-H", HAVE / "venv", "--lazy-apps"]
    return place.start("uwsgi", line, port, AMQP=amqp)


def before_memcached(name, *line):
    """A server whose command line this is, `@PORT@` replaced; it runs one of the applications that ask memcached."""

    def start(place):
        port, cache = free_port(), place.memcached()
        words = [str(word).replace("@PORT@", str(port)) for word in line]
        return place.start(name, [find(words[0]), *words[1:]], port, MEMCACHED=cache, PYTHONPATH=CODE)

    return start


def module(name, *words):
    """A Python server with the WSGI application."""
    return before_memcached(name, PYTHON, "-m", *words)


def loops(name):
    """A Python server with an event loop, before memcached and a service behind."""

    def start(place):
        port, env = free_port(), {"MEMCACHED": place.memcached(), "DOWN": place.plain()}
        return place.start(name, [PYTHON, CODE / "loops.py", name], port, **env)

    return start


def mod_wsgi(place):
    """Apache with threads, the application inside it."""
    port, cache = free_port(), place.memcached()
    user = "User nobody\nGroup nogroup" if os.geteuid() == 0 else ""
    conf = put(place.at, "apache.conf", """
        ServerRoot @at@
        ServerName localhost
        Listen 127.0.0.1:@port@
        PidFile @at@/pid
        ErrorLog @at@/apache.out
        DefaultRuntimeDir @at@
        Mutex posixsem
        LoadModule mpm_worker_module @modules@/mod_mpm_worker.so
        LoadModule authz_core_module @modules@/mod_authz_core.so
        LoadModule wsgi_module @modules@/mod_wsgi.so
        @user@
        MaxKeepAliveRequests 0
        StartServers 1
        WSGISocketPrefix @at@/wsgi
        WSGIScriptAlias / @code@/wsgi.py
        <Directory @code@>
        Require all granted
        </Directory>
        """, port=port, modules="/usr/lib/apache2/modules", code=CODE, user=user)
    return place.start("apache", [find("apache2"), "-DFOREGROUND", "-f", conf], port, MEMCACHED=cache)


def passing(place):
    """A process that accepts and passes connections on, before a store of several processes at a UNIX socket."""
    port = free_port()
    return place.start("passing", [SYSTEM_PYTHON, CODE / "passing.py", port, place.log, place.at / "store"], port)


def hedged(place):
    """Processes that share a port; each request asks two services at once, and takes the first answer."""
    behind, port = [place.plain("a"), place.plain("b")], free_port()
    return place.start("hedged", [SYSTEM_PYTHON, CODE / "hedged.py", port, place.log, *behind], port)


def child(how):
    """A service that asks its children by pipes or by pairs of sockets, or starts one for each request."""

    def start(place):
        port = free_port()
        return place.start("child", [SYSTEM_PYTHON, CODE / "child.py", port, place.log, place.plain("down"), how], port)

    return start


def sockets(server, how):
    """Threads before a WebSocket server by `ws` or `websockets`, which answers by identifiers or by turns, and may speak unasked."""

    def start(place):
        back, port = free_port(), free_port()
        behind = place.plain()
        if server == "ws":
            place.start("ws", [find("node"), CODE / "sockets.js"], back, MODULES=HAVE / "node", DOWN=behind, HOW=how)
        else:
            place.start("websockets", [PYTHON, CODE / "sockets.py", back, behind, how], back)
        return place.start("front", [PYTHON, CODE / "sockets_front.py", port, place.log, back, how], port)

    return start


def mcp(place):
    """A service whose only child answers several at once, by lines with identifiers."""
    port = free_port()
    place.flags = ASYNCIO
    return place.start("mcp", [SYSTEM_PYTHON, CODE / "mcp.py", port, place.log, place.plain()], port)


def proxied(place, how, backends, settings):
    """nginx, whose own log is the truth, before services of which some work for too long, or drop what they are asked."""
    down, port = place.plain(), free_port()
    servers = []
    for i in range(backends):
        app = free_port()
        place.start(f"app{i}", [SYSTEM_PYTHON, CODE / "slow.py", app, place.at / f"app{i}.log", down, how], app)
        servers.append(f"server 127.0.0.1:{app} max_fails=0;")
    line = nginx_line(place.at, """
        log_format own 'rid=$arg_rid $status';
        upstream app { @servers@ keepalive 16; }
        server {
            listen 127.0.0.1:@port@;
            access_log @log@ own;
            location / {
                proxy_pass http://app;
                proxy_http_version 1.1;
                proxy_set_header Connection "";
                @settings@
            }
        }
        """, port=port, servers=" ".join(servers), log=place.log, settings=settings)
    return place.start("nginx", line, port)


def leaving(place):
    """A proxy that leaves after 30 ms a service that goes on with the request."""
    return proxied(place, "slow", 1, "proxy_read_timeout 30ms;")


def retried(place):
    """A proxy that asks another one where a service says no, which it does once in four times."""
    return proxied(place, "drops", 2, "proxy_next_upstream error timeout http_503; proxy_next_upstream_tries 20;")


def bun(place):
    """Bun, whose own client for HTTP works in a thread of its own."""
    port = free_port()
    env = {"REDIS": place.redis(), "DOWN": place.plain(), "MODULES": HAVE / "node"}
    return place.start("bun", [BUN, CODE / "bun.js"], port, **env)


def nats(place):
    """A service that asks a worker by NATS, with an inbox for the answer."""
    bus, port, down = free_port(), free_port(), place.plain()
    place.start("nats", [find("nats-server"), "-a", "127.0.0.1", "-p", bus], bus)
    log = place.at / "worker.log"
    place.stack.enter_context(server([PYTHON, CODE / "nats_worker.py", bus, down, log], stderr=subprocess.DEVNULL))
    place.wait_for(log, "ready")
    return place.start("web", [PYTHON, CODE / "nats_web.py", port, place.log, bus], port)


def celery(place):
    """Django, whose requests wait for a task of Celery's, by Redis."""
    port, env = free_port(), {"REDIS": place.redis(), "DOWN": place.plain()}
    line = [PYTHON, "-m", "celery", "--workdir", CODE, "-A", "chores", "worker", "-c", 2, "--without-gossip", "--without-mingle",
            "--loglevel", "info"]
    words = place.stack.enter_context(open(place.at / "worker.log", "w", encoding="utf-8"))
    more = {"env": {**place.env, **{k: str(v) for k, v in env.items()}}, "stderr": words, "cwd": place.at}
    place.stack.enter_context(server(line, **more))
    place.wait_for(place.at / "worker.log", "ready.")
    line = [PYTHON, "-m", "gunicorn", "-b", f"127.0.0.1:{port}", "--chdir", CODE, "--threads", 8, "chores:application"]
    return place.start("django", line, port, **env)


BUN = HAVE / "node/node_modules/bun/bin/bun.exe"
UVLOOP = next(VENV.glob("lib/*/site-packages/uvloop"), VENV / "uvloop")
DATABASE = "/usr/lib/postgresql/*/bin/initdb"
# What a system is called, what it needs, how it is started.
SYSTEMS = {
    "puma": (["puma", "redis-server", DATABASE, "/usr/share/rubygems-integration/all/specifications/redis-*"], puma),
    "fastapi": ([str(PYTHON), "redis-server", DATABASE], fastapi("asyncio")),
    "fastapi-uvloop": ([str(PYTHON), str(UVLOOP), "redis-server", DATABASE], fastapi("uvloop")),
    "express": (["node", str(HAVE / "node/node_modules/express"), "redis-server", DATABASE], express),
    "node-helper": (["node", str(HAVE / "node/node_modules/undici"), "redis-server", DATABASE], node_helper),
    "node-attached": (["node", str(HAVE / "node/node_modules/undici"), "redis-server", DATABASE], node_attached),
    "go": ([str(HAVE / "go-service"), "redis-server", DATABASE], go),
    "varnish": (["varnishd", "uwsgi-core", "memcached"], varnish),
    "caddy": (["caddy", "/usr/bin/gunicorn", DATABASE, "/usr/lib/python3/dist-packages/django"], caddy),
    "envoy": ([str(HAVE / "venv/bin/envoy")], envoy),
    "squid": (["squid"], squid),
    "redis-queue": (["uwsgi-core", "redis-server", str(PYTHON)], redis_queue),
    "restart": (["nginx"], restart),
    "rabbitmq": (["uwsgi-core", "/usr/lib/rabbitmq/bin/rabbitmq-server", str(PYTHON)], rabbit),
}
# How the recorder is asked where the probes of asyncio are measured by themselves.
ASYNCIO = ["--runtimes=python"]
# How much of these is to be complete, in percent. Of calls from an event loop's first moments nothing tells whose they are.
COMPLETE = {"mcp": 95, "go": 95, "go-throttled": 95, "fastapi": 90, "fastapi-uvloop": 90}
BIND = ["-b", "127.0.0.1:@PORT@"]
RACK = CODE / "memcached.ru"
# A second look, with those of `strangers`: `bench/foreign more`.
MORE = {
    "waitress": module("waitress", "waitress", "--listen", "127.0.0.1:@PORT@", "wsgi:application"),
    "gevent": module("gevent", "gunicorn", *BIND, "-k", "gevent", "-w", 2, "wsgi:application"),
    "cheroot": module("cheroot", "cheroot", "--bind", "127.0.0.1:@PORT@", "--threads", 8, "wsgi:application"),
    "gthread": module("gthread", "gunicorn", *BIND, "--threads", 8, "wsgi:application"),
    "tornado": loops("tornado"),
    "aiohttp": loops("aiohttp"),
    "twisted": loops("twisted"),
    "unicorn": before_memcached("unicorn", "unicorn", "-l", "127.0.0.1:@PORT@", RACK),
    "thin": before_memcached("thin", "thin", "-a", "127.0.0.1", "-p", "@PORT@", "-R", RACK, "start"),
    "starman": before_memcached("starman", "starman", "--listen", "127.0.0.1:@PORT@", "--workers", 4, CODE / "app.psgi"),
    "mod_wsgi": mod_wsgi,
    "passing": passing,
    "hedged": hedged,
    "child": child("pipes"),
    "child-pairs": child("pairs"),
    "child-cgi": child("cgi"),
    "mcp": mcp,
    "leaving": leaving,
    "retried": retried,
    "bun": bun,
    "nats": nats,
    "celery": celery,
    "ws-ids": sockets("ws", "ids"),
    "ws-turns": sockets("ws", "turns"),
    "ws-pushed": sockets("ws", "pushed"),
    "websockets-ids": sockets("websockets", "ids"),
    "websockets-pushed": sockets("websockets", "pushed"),
}
# What they need besides memcached.
NEEDS = {
    "leaving": ["nginx"],
    "retried": ["nginx"],
    "bun": [str(BUN), "redis-server"],
    "nats": ["nats-server", str(PYTHON)],
    "celery": ["redis-server", str(VENV / "bin/celery")],
    **{name: ["node", str(HAVE / "node/node_modules/ws"), str(PYTHON)] for name in MORE if name.startswith("ws-")},
    **{name: [str(VENV / "bin/websockets")] for name in MORE if name.startswith("websockets-")},
}
for _name, _start in MORE.items():
    SYSTEMS[_name] = (NEEDS.get(_name, ["memcached"]), _start)
