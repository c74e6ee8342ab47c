"""The systems of `bench/clear`: proxies that share connections among clients, and what clients hand them.

The truth is in each request's target, which the servers log. Wakepath does not read that: it links by the header.
"""

from .coverage import KERNEL, Case
from .foreign import find, free_port, put, squid
from .programs import vload
from .tiers import nginx_line

PROXIES = {}
# what clients send beside the target: an identifier each, one for a whole session, none
OWN, SESSION, NONE = ("--id-header",), ("--header", "x-request-id: 7d1f0e52-17a4-4c11-9a70-3f0c5b1de001"), ()


def load(*more):
    """Clients that keep their connections."""

    def run(port, clients, requests, truth):
        vload(f"http://127.0.0.1:{port}", "--connections", clients, "--requests", requests, "--mix", "/x=100", *more, truth=truth)

    return run


def proxy(name, *needs):
    """Names how a proxy is started."""

    def add(start):
        PROXIES[name] = (start, list(needs))
        return start

    return add


def haproxy(threads):
    """HAProxy, which gives any client's request any free connection."""

    def start(place):
        app, port = place.plain("plain", place.plain()), free_port()
        conf = put(place.at, "ha.cfg", """
            global
              nbthread @threads@
            defaults
              mode http
              http-reuse always
              timeout connect 5s
              timeout client 60s
              timeout server 60s
            frontend f
              bind 127.0.0.1:@port@
              default_backend b
            backend b
              server s 127.0.0.1:@app@
            """, port=port, app=app, threads=threads)
        return place.start("haproxy", [find("haproxy"), "-db", "-f", conf], port)

    return start


proxy("haproxy-1", "haproxy")(haproxy(1))
proxy("haproxy-4", "haproxy")(haproxy(4))
proxy("squid", "squid")(squid)


@proxy("varnish", "varnishd")
def varnish(place):
    """Varnish, which passes everything on."""
    app, port = place.plain("plain", place.plain()), free_port()
    vcl = put(place.at, "pass.vcl", """
        vcl 4.1;
        backend b { .host = "127.0.0.1"; .port = "@app@"; }
        sub vcl_recv { return (pass); }
        """, app=app)
    line = [find("varnishd"), "-F", "-a", f"127.0.0.1:{port}", "-T", "none", "-f", vcl, "-n", place.at / "varnish",
            "-s", "malloc,16m", "-p", "thread_pools=1"]
    return place.start("varnish", line, port)


@proxy("nginx-pool", "nginx")
def nginx_pool(place):
    """nginx with two connections for all."""
    app, port = place.plain("plain", place.plain()), free_port()
    line = nginx_line(place.at, """
        upstream app { server 127.0.0.1:@app@; keepalive 2; }
        server {
            listen 127.0.0.1:@port@;
            location / { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }
        }
        """, port=port, app=app)
    return place.start("nginx", line, port)


def case(name, header, least):
    """A proxy whose clients send this header."""
    start, needs = PROXIES[name]
    whole = {(KERNEL, clients): least for clients in (10, 50)} if least else {}
    return Case(start, needs, load=load(*header), clients=(10, 50), vantages=(KERNEL,), whole=whole, scored=("--witness",))
