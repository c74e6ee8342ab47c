"""The systems of `bench/clear`: proxies that share connections among clients, and what clients hand them.

The truth is in each request's target, which the servers log. Wakepath does not read that: it links by the header.
"""

from .coverage import KERNEL, Case, haproxy
from .foreign import passing_varnish, squid
from .programs import free_port, vload
from .tiers import nginx_line

# what clients send beside the target: an identifier each, one for a whole session, none
OWN, SESSION, NONE = ("--id-header",), ("--header", "x-request-id: 7d1f0e52-17a4-4c11-9a70-3f0c5b1de001"), ()


def load(*more):
    """Clients that keep their connections."""

    def run(port, clients, requests, truth):
        vload(f"http://127.0.0.1:{port}", "--connections", clients, "--requests", requests, "--mix", "/x=100", *more, truth=truth)

    return run


def varnish(place):
    """Varnish before threads."""
    return passing_varnish(place, place.plain("plain", place.plain()))


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


# how each is started, and what must be installed for it
PROXIES = {
    "haproxy-1": (haproxy("always", 1), ["haproxy"]),
    "haproxy-4": (haproxy("always", 4), ["haproxy"]),
    "varnish": (varnish, ["varnishd"]),
    "squid": (squid, ["squid"]),
    "nginx-pool": (nginx_pool, ["nginx"]),
}


def case(name, header, least):
    """A proxy whose clients send this header."""
    start, needs = PROXIES[name]
    whole = {(KERNEL, clients): least for clients in (10, 50)} if least else {}
    return Case(start, needs, load=load(*header), clients=(10, 50), vantages=(KERNEL,), whole=whole, scored=("--witness",))
