"""More systems of other people's making, for `bench/foreign more`: frameworks that come with a queue, a pool or a loop of their own.

As in `foreign`, each is a function of a `Place` that starts servers in order and gives the port where requests go in.
"""

import glob
import os

from .forecast import Quota
from .foreign import ASYNCIO, CODE, DATABASE, HAVE, PYTHON, SYSTEM_PYTHON, go
from .programs import free_port, run, server
from .tiers import find, nginx_line, put

PLUGINS = "/usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins"
MODULES = "/usr/lib/nginx/modules"
DENO = HAVE / "node/node_modules/deno/deno"
GEMS = "/usr/share/rubygems-integration/all/specifications"


def awake(place):
    """A loop that takes what its threads leave for it while it is awake, without a word."""
    port, env = free_port(), {"DOWN": place.plain()}
    return place.start("awake", [PYTHON, CODE / "awake.py"], port, **env)


def handed(how):
    """A service whose child, or parent, does the work, and is asked by what bears no message."""

    def start(place):
        port = free_port()
        return place.start("handed", [SYSTEM_PYTHON, CODE / "handed.py", port, place.log, place.plain("down"), how], port)

    return start


def beanstalk(place):
    """A service whose requests put jobs into beanstalkd, whose protocol nobody reads, and wait for the answers of a worker."""
    queue, port, worker, down = free_port(), free_port(), free_port(), place.plain("down")
    place.start("beanstalkd", [find("beanstalkd"), "-l", "127.0.0.1", "-p", queue], queue)
    line = [SYSTEM_PYTHON, CODE / "beanstalk.py"]
    place.start("worker", [*line, worker, place.at / "worker.log", down, queue, "worker"], worker)
    return place.start("web", [*line, port, place.log, down, queue], port)


def beside(place, name, line, ready, **env):
    """Starts a program without a port, such as a worker of a queue, and waits until it says that it is ready."""
    said = place.at / f"{name}.log"
    words = place.stack.enter_context(open(said, "w", encoding="utf-8"))
    env = {**place.env, **{k: str(v) for k, v in env.items()}}
    line = ["/bin/sh", "-c", 'exec "$@" >&2', "sh", *line]
    place.stack.enter_context(server(line, env=env, stderr=words, cwd=place.at))
    place.wait_for(said, ready)


def rails(place):
    """Rails on Puma, five threads with a pool of connections, and Sidekiq, whose worker takes jobs from Redis."""
    port, env = free_port(), {**place.stores(), "LOG": place.log, "RAILS_ENV": "production", "RACK_ENV": "production"}
    app = CODE / "rails.ru"
    place.start("puma", [find("puma"), "-q", "-b", f"tcp://127.0.0.1:{port}", "-t", "5:5", app], port, **env)
    boot = put(place.at, "boot.rb", 'load "@app@"\n', app=app)
    beside(place, "sidekiq", [find("sidekiq"), "-r", boot, "-c", 3], "Booted Rails", **env)
    return port


def lua(place):
    """nginx whose requests are Lua: cosockets from a pool to Redis, then two subrequests at once."""
    port, cache, down = free_port(), place.redis(), place.plain()
    line = nginx_line(place.at, """
        log_format own 'rid=$arg_rid $status';
        lua_package_path "/usr/share/lua/5.1/?.lua;;";
        upstream down { server 127.0.0.1:@down@; keepalive 16; }
        server {
            listen 127.0.0.1:@port@;
            access_log @log@ own;
            location /inner/ {
                internal; log_subrequest off;
                proxy_pass http://down/;
                proxy_http_version 1.1;
                proxy_set_header Connection "";
            }
            location / {
                content_by_lua_block {
                    local status = ({["/miss"] = 404, ["/fail"] = 500})[ngx.var.uri] or 200
                    local redis = require("nginx.redis"):new()
                    assert(redis:connect("127.0.0.1", @cache@))
                    redis:incr("rid:" .. ngx.var.arg_rid)
                    redis:set_keepalive(10000, 3)
                    if status == 200 then
                        local what = {args = "rid=" .. ngx.var.arg_rid}
                        ngx.location.capture_multi({{"/inner/down", what}, {"/inner/down", what}})
                    end
                    ngx.status = status
                    ngx.say(ngx.var.arg_rid)
                }
            }
        }
        """, port=port, cache=cache, down=down, log=place.log)
    conf = place.at / "nginx.conf"
    modules = "".join(f'load_module "{MODULES}/{name}.so";\n' for name in ("ndk_http_module", "ngx_http_lua_module"))
    conf.write_text(modules + conf.read_text(encoding="utf-8"), encoding="utf-8")
    return place.start("nginx", line, port)


def balanced(place):
    """Apache's event MPM with mod_proxy_balancer, before two services with threads."""
    down, port = place.plain(), free_port()
    apps = [place.plain(f"app{i}", down) for i in range(2)]
    user = "User nobody\nGroup nogroup" if os.geteuid() == 0 else ""
    names = ("mpm_event", "authz_core", "proxy", "proxy_http", "proxy_balancer", "lbmethod_byrequests", "slotmem_shm")
    load = "\n".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in names)
    members = "\n".join(f"BalancerMember http://127.0.0.1:{app}" for app in apps)
    conf = put(place.at, "apache.conf", """
        ServerRoot @at@
        ServerName localhost
        Listen 127.0.0.1:@port@
        PidFile @at@/pid
        ErrorLog @at@/apache.out
        DefaultRuntimeDir @at@
        Mutex posixsem
        @load@
        @user@
        MaxKeepAliveRequests 0
        StartServers 2
        <Proxy balancer://apps>
        @members@
        </Proxy>
        ProxyPass / balancer://apps/
        """, port=port, load=load, members=members, user=user)
    return place.start("apache", [find("apache2"), "-DFOREGROUND", "-f", conf], port)


def redispatched(place):
    """HAProxy with two threads, which asks another server where one says no; its own log is the truth."""
    down, port = place.plain(), free_port()
    servers = []
    for i in range(2):
        app = free_port()
        place.start(f"app{i}", [SYSTEM_PYTHON, CODE / "slow.py", app, place.at / f"app{i}.log", down, "drops"], app)
        servers.append(f"server s{i} 127.0.0.1:{app}")
    conf = put(place.at, "ha.cfg", """
        global
          nbthread 2
          log stderr format raw local0
        defaults
          mode http
          log global
          retries 20
          retry-on all-retryable-errors
          option redispatch 1
          timeout connect 5s
          timeout client 60s
          timeout server 60s
        frontend f
          bind 127.0.0.1:@port@
          http-request set-var(txn.rid) url_param(rid)
          log-format "rid=%[var(txn.rid)] %ST"
          default_backend b
        backend b
          @servers@
        """, port=port, servers="\n          ".join(servers))
    place.log = place.at / "haproxy.out"
    return place.start("haproxy", [find("haproxy"), "-db", "-f", conf], port)


def cluster(place):
    """Fastify in two processes of Node.js's cluster; pipelines, a pool of PostgreSQL's and undici's."""
    port, env = free_port(), place.stores()
    return place.start("node", [find("node"), CODE / "cluster.js"], port, MODULES=HAVE / "node", **env)


def deno(place):
    """Deno with pg and its own fetch."""
    port, env = free_port(), {"PG": place.database(), "DOWN": place.plain()}
    line = [DENO, "run", "--allow-all", "--no-lock", "--node-modules-dir=manual", CODE / "deno.ts"]
    return place.start("deno", line, port, MODULES=HAVE / "node", DENO_NO_UPDATE_CHECK=1, **env)


def daphne(place):
    """Django by ASGI on Daphne, which gives the blocking part of each request to a thread."""
    port, env = free_port(), place.stores()
    place.flags = ASYNCIO
    line = [PYTHON, "-m", "daphne", "-b", "127.0.0.1", "-p", port, "asgi:application"]
    return place.start("daphne", line, port, PYTHONPATH=CODE, **env)


def litestar(place):
    """Litestar on Granian, whose sockets are Rust's; psycopg's pool of four connections."""
    port, env = free_port(), place.stores()
    place.flags = ASYNCIO
    line = [PYTHON, "-m", "granian", "--interface", "asgi", "--host", "127.0.0.1", "--port", port, "litestar_app:app"]
    return place.start("granian", line, port, PYTHONPATH=CODE, **env)


def mojolicious(place):
    """Mojolicious, two processes with a loop each; PostgreSQL and HTTP at once."""
    port, env = free_port(), {"PG": place.database(), "DOWN": place.plain()}
    line = [find("perl"), CODE / "mojo.pl", "prefork", "-m", "production", "-w", 2, "-l", f"http://127.0.0.1:{port}", "-P", place.at / "pid"]
    return place.start("mojo", line, port, **env)


def cowboy(place):
    """Erlang's Cowboy: one process owns the connection to Redis, others those of httpc."""
    port, env = free_port(), {"REDIS": place.redis(), "DOWN": place.plain()}
    run([find("erlc"), "-o", place.at, CODE / "web.erl"], 60)
    line = [find("erl"), "-noshell", "-noinput", "+S", "2:2", "-pa", place.at, *glob.glob(f"{PLUGINS}/*/ebin"), "-s", "web", "main"]
    return place.start("cowboy", line, port, HOME=place.at, **env)


def throttled(place):
    """The Go service and what it asks on a twelfth of a processor: as slow as a host that many share, or an emulated one."""
    port = go(place)
    quota = place.stack.enter_context(Quota("foreign", 0.08, 100_000))
    for pid in place.pids:
        quota.take(pid)
    return port


MORE = {
    "go-throttled": ([str(HAVE / "go-service"), "redis-server", DATABASE], throttled),
    **{f"handed-{how}": ([str(SYSTEM_PYTHON)], handed(how)) for how in ("datagrams", "messages", "memory", "parent")},
    "beanstalkd": (["beanstalkd"], beanstalk),
    "rails": (["puma", "sidekiq", "redis-server", DATABASE, f"{GEMS}/rails-*"], rails),
    "lua": (["/usr/share/lua/5.1/nginx/redis.lua", f"{MODULES}/ngx_http_lua_module.so", "redis-server"], lua),
    "balanced": (["apache2"], balanced),
    "redispatched": (["haproxy"], redispatched),
    "cluster": (["node", str(HAVE / "node/node_modules/fastify"), "redis-server", DATABASE], cluster),
    "deno": ([str(DENO), DATABASE], deno),
    "daphne": (["redis-server", DATABASE, f"{PYTHON.parent}/daphne"], daphne),
    "litestar": (["redis-server", DATABASE, f"{PYTHON.parent}/granian"], litestar),
    "mojolicious": ([DATABASE, "/usr/share/perl5/Mojo/Pg.pm"], mojolicious),
    "cowboy": (["erl", f"{PLUGINS}/cowboy-*", "redis-server"], cowboy),
}
