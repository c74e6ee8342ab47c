"""The systems of `bench/clear`: proxies that share connections among clients, and what clients and servers hand them.

The truth is in each request's target, which the servers log. Wakepath does not read that: it links by the header of a request, or by the
body of a reply, in which the target is not.
"""

from .coverage import KERNEL, Case, haproxy
from .foreign import passing_varnish, squid, varnish_with
from .programs import free_port, vload
from .tiers import nginx_line, put

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


def nginx_pool(rewrite=""):
    """nginx with two connections for all. `rewrite`: what it does to targets."""

    def start(place):
        app, port = place.plain("plain", place.plain()), free_port()
        line = nginx_line(place.at, """
            upstream app { server 127.0.0.1:@app@; keepalive 2; }
            split_clients $arg_rid $half { 50% /x; * /other; }
            server {
                listen 127.0.0.1:@port@;
                location / { @rewrite@ proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }
            }
            """, port=port, app=app, rewrite=rewrite)
        return place.start("nginx", line, port)

    return start


def varnish_cache(place):
    """Varnish with a cache that answers about half of the requests, for a twentieth of a second, whatever their query.

    It serves nothing stale: what it would fetch after such a reply is in no path, and no fault of the rules under test.
    """
    app = place.plain("plain", place.plain())
    vcl = put(place.at, "cache.vcl", """
        vcl 4.1;
        import std;
        backend b { .host = "127.0.0.1"; .port = "@app@"; }
        sub vcl_recv { if (std.random(0, 2) < 1) { return (pass); } return (hash); }
        sub vcl_hash { hash_data(regsub(req.url, "rid=.*", "")); return (lookup); }
        sub vcl_backend_response { set beresp.ttl = 50ms; set beresp.grace = 0s; }
        """, app=app)
    return varnish_with(place, vcl)


# how each is started, and what must be installed for it
PROXIES = {
    "haproxy-1": (haproxy("always", 1), ["haproxy"]),
    "haproxy-4": (haproxy("always", 4), ["haproxy"]),
    "varnish": (varnish, ["varnishd"]),
    "squid": (squid, ["squid"]),
    "nginx-pool": (nginx_pool(), ["nginx"]),
    "nginx-rewrites": (nginx_pool("rewrite ^ $half break;"), ["nginx"]),
    "varnish-cache": (varnish_cache, ["varnishd"]),
}
# of these, some requests are answered out of a cache, whose calls are no one request's
CACHES = {"varnish-cache"}


def case(name, header, own_answers, least):
    """A proxy whose clients send this header, and whose servers answer so many of a hundred requests with something of their own."""
    begin, needs = PROXIES[name]

    def start(place):
        place.env = {**place.env, "OWN_ANSWERS": str(own_answers)}
        return begin(place)

    whole = {(KERNEL, clients): least for clients in (10, 50)} if least and name not in CACHES else {}
    return Case(start, needs, load=load(*header), clients=(10, 50), vantages=(KERNEL,), whole=whole, scored=("--witness",),
                has_cache=name in CACHES)
