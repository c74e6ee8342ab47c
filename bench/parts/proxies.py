"""Proxies and poolers of `bench/foreign coverage`: before a service of threads, or between one and its store."""

import os

from .foreign import CODE, SYSTEM_PYTHON
from .programs import free_port
from .tiers import ROOT_USER, find, nginx_line, put

STREAM = "/usr/lib/nginx/modules/ngx_stream_module.so"


def stores(place, **env):
    """Threads that ask the stores whose ports these are."""
    port = free_port()
    return place.start("stores", [SYSTEM_PYTHON, CODE / "stores.py", port, place.log], port, **env)


def pgbouncer(place):
    """PgBouncer, which gives clients a connection for a transaction; of three."""
    database, port = place.database(), free_port()
    conf = put(place.at, "pgbouncer.ini", """
        [databases]
        postgres = host=127.0.0.1 port=@database@ user=postgres
        [pgbouncer]
        listen_addr = 127.0.0.1
        listen_port = @port@
        unix_socket_dir =
        auth_type = any
        pool_mode = transaction
        default_pool_size = 3
        max_client_conn = 500
        """, port=port, database=database)
    # it does not run as root
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    place.start("pgbouncer", [*user, find("pgbouncer"), "-q", conf], port)
    return stores(place, PG=port)


def twemproxy(place):
    """twemproxy, which sends what all its clients ask on one connection."""
    cache, port = place.memcached(), free_port()
    conf = put(place.at, "twemproxy.yml", """
        all:
          listen: 127.0.0.1:@port@
          hash: fnv1a_64
          distribution: ketama
          server_connections: 1
          servers:
           - 127.0.0.1:@cache@:1
        """, port=port, cache=cache)
    line = [find("nutcracker"), "-c", conf, "-s", free_port(), "-a", "127.0.0.1", "-o", place.at / "twemproxy.log"]
    place.start("twemproxy", line, port)
    return stores(place, MEMCACHED=port)


def auth_request(place):
    """nginx, which asks another service whether a request may pass, and does not read all that this one says."""
    app, door, port = place.plain("plain", place.plain()), place.plain("door"), free_port()
    line = nginx_line(place.at, """
        upstream app { server 127.0.0.1:@app@; keepalive 64; }
        upstream door { server 127.0.0.1:@door@; keepalive 64; }
        proxy_http_version 1.1; proxy_set_header Connection "";
        server {
            listen 127.0.0.1:@port@;
            location /x { auth_request /door; proxy_pass http://app; }
            location = /door { internal; proxy_pass http://door$request_uri; }
        }
        """, port=port, app=app, door=door)
    return place.start("nginx", line, port)


def stream(place):
    """nginx, which passes bytes on: it makes a connection for each that it accepts, before anything is asked there."""
    app, port = place.plain("plain", place.plain()), free_port()
    conf = put(place.at, "stream.conf", """
        load_module "@module@";
        daemon off; master_process off; worker_processes 1; @user@
        pid "@at@/pid"; error_log "@at@/log";
        events { worker_connections 1024; }
        stream { server { listen 127.0.0.1:@port@; proxy_pass 127.0.0.1:@app@; } }
        """, module=STREAM, port=port, app=app, user="user root root;" if ROOT_USER else "")
    return place.start("nginx", [find("nginx"), "-p", place.at, "-e", place.at / "log", "-c", conf], port)
