"""The systems of `bench/tls`: services that speak TLS with each other, and the same without.

Each server writes methods and paths of what it is asked into `NAME.asked`, and PostgreSQL its statements into its own log.
"""

import collections
import json
import re
import shutil
import subprocess
import sys

from .coverage import KERNEL, Case, by_script, http1
from .foreign import CODE, HAVE
from .programs import Failed, free_port, program, run
from .tiers import ROOT_USER, find, nginx_line, postgresql, put

# what PostgreSQL is asked, as its log begins it, and as Wakepath shows it
STATEMENTS = {
    "SELECT name FROM items": "SELECT name FROM items WHERE id = ?",
    "INSERT INTO orders": "INSERT INTO orders VALUES ($1, $2)",
}
# how a connection to it begins, of which its log says nothing
CONNECTS = ("SSLREQUEST", "STARTUP")
# of OpenTelemetry's kinds of spans
SERVER = 2
MADE = "CREATE TABLE items AS SELECT 7 AS id, 'x' AS name; CREATE TABLE orders (item int, note text)"


def keys(place):
    """A certificate and its key, as the environment of servers names them."""
    key, cert = place.at / "key.pem", place.at / "cert.pem"
    line = [find("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-subj", "/CN=localhost", "-keyout", key, "-out", cert]
    run(line, 30, stderr=subprocess.DEVNULL)
    return {"KEY": key, "CERT": cert}


class Asked:
    """A system with TLS or without, and what its servers wrote of what they were asked."""

    def __init__(self, begin, with_tls):
        self.begin, self.with_tls = begin, with_tls
        self.servers, self.database = {}, None

    def __call__(self, place):
        self.servers, self.database = {}, None
        self.keys = keys(place) if self.with_tls else {"KEY": "", "CERT": ""}
        return self.begin(self, place)

    def start(self, place, name, line, **env):
        """A server that writes what it is asked."""
        port, asked = free_port(), place.at / f"{name}.asked"
        self.servers[port] = asked
        return place.start(name, line, port, ASKED=asked, MODULES=HAVE / "node", **self.keys, **env)

    def postgres(self, place):
        """PostgreSQL with both tables, which logs its statements."""
        line, port = postgresql(place.at)
        line += ["-c", "log_statement=all", "-c", "log_line_prefix="]
        if self.with_tls:
            line += ["-c", "ssl=on"]
            for what in ("key", "cert"):
                path = place.at / "pg" / f"own.{what}"
                shutil.copy(self.keys[what.upper()], path)
                path.chmod(0o600)
                if ROOT_USER:
                    shutil.chown(path, "postgres", "postgres")
                line += ["-c", f"ssl_{what}_file={path}"]
        place.start("postgres", line, port)
        run([find("psql"), "-q", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "-c", MADE], 30)
        self.database = port, place.at / "postgres.out"
        return port

    def logged(self):
        """How often each server was asked what, by its own log: port, method or the statement's shape, and path."""
        found = collections.Counter()
        for port, log in self.servers.items():
            found.update((port, *line.split(maxsplit=1)) for line in log.read_text(encoding="utf-8").splitlines())
        if self.database:
            port, log = self.database
            statement = re.compile(r"^LOG:  (?:statement|execute [^:]*): /\* rid=\S+ \*/ (.*)")
            for match in filter(None, map(statement.match, log.read_text(encoding="utf-8").splitlines())):
                shape = next(shape for begin, shape in STATEMENTS.items() if match[1].startswith(begin))
                found[port, *shape.split(maxsplit=1)] += 1
        return found


def go(protocol):
    """net/http before net/http (`testbeds/foreign/tls`)."""

    def begin(system, place):
        built = place.at / "go-tls"
        line = ["go", "build", "-o", built, "."]
        done = subprocess.run(line, cwd=CODE / "tls", capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            raise Failed(f"testbeds/foreign/tls cannot be built: {done.stderr.strip()[-200:]}")
        back = system.start(place, "back", [built], PROTOCOL=protocol, BACK="")
        return system.start(place, "front", [built], PROTOCOL=protocol, BACK=back)

    return begin


def helped(place, kind):
    """Node.js with Wakepath's helper."""
    helper = put(place.at, "wakepath.cjs", run([program("wakepath"), "helper", "node"], 60))
    return [find("node"), "--require", helper, CODE / "tls.js", kind]


def node(system, place):
    """Node.js before Node.js, by HTTP/2."""
    back = system.start(place, "back", helped(place, "back"), BACK="")
    return system.start(place, "front", helped(place, "front"), BACK=back)


def nginx(system, place):
    """nginx, by HTTP/2, before Node.js, before PostgreSQL."""
    web = system.start(place, "web", helped(place, "web"), PG=system.postgres(place))
    port, is_tls = free_port(), system.with_tls
    line = nginx_line(place.at, """
        upstream web { server 127.0.0.1:@web@; keepalive 64; }
        log_format asked "$request_method $uri";
        server {
            listen 127.0.0.1:@port@ @how@ http2; @keys@
            access_log @at@/nginx.asked asked;
            location /x { proxy_pass @scheme@://web; proxy_http_version 1.1; proxy_set_header Connection ""; }
        }
        """, port=port, web=web, how="ssl" if is_tls else "", scheme="https" if is_tls else "http",
        keys=f"ssl_certificate {system.keys['CERT']}; ssl_certificate_key {system.keys['KEY']};" if is_tls else "")
    system.servers[port] = place.at / "nginx.asked"
    return place.start("nginx", line, port)


def https(*how):
    """HTTP/1.1 clients by TLS, which keep their connections, or (`new`) open one for each request."""
    return by_script("tls_load.py", *how)


def http2(with_tls):
    """HTTP/2 clients, a stream at a time."""
    load = by_script("h2_load.py", *(["tls"] if with_tls else []))
    return lambda port, clients, requests, truth: load(port, clients, 1, requests, truth=truth)


def held(system, bars, title, trace):
    """Holds the recording's methods, paths and statements against the servers' logs: how often each was asked what, as the server saw it."""
    said = collections.Counter()
    lines = run([program("wakepath"), "export", trace, "--to", "otlp"], 300).splitlines()
    for span in spans(lines):
        said[span] += 1
    logged = system.logged()
    asked = {port for port, *_ in logged}
    said = collections.Counter({key: n for key, n in said.items() if key[0] in asked and key[1] not in CONNECTS})
    wrong = sum(((said - logged) + (logged - said)).values())
    for key in list(((said - logged) + (logged - said)))[:6]:
        print(f"    {title}: {key} said {said[key]} times, {logged[key]} in the log", file=sys.stderr)
    bars.exactly(f"{title}: of {logged.total()} methods, paths and statements wrong or missing", wrong, 0)


def case(begin, load, flags, with_tls, needs):
    """A system by TLS, or without."""
    system = Asked(begin, with_tls)
    flags = (*flags, *(["--tls"] if with_tls else []))
    check = (lambda bars, title, trace: held(system, bars, title, trace)) if with_tls else None
    return Case(system, needs, load=load, clients=(10, 50), vantages=(KERNEL,), flags=flags, grows_recorded=True, check=check)


def spans(lines):
    """Of each server's span of an export: the port, and what was asked."""
    for line in lines:
        for resource in json.loads(line)["resourceSpans"]:
            for span in (span for scope in resource["scopeSpans"] for span in scope["spans"] if span["kind"] == SERVER):
                told = {attribute["key"]: attribute["value"] for attribute in span["attributes"]}
                yield int(told["server.port"]["intValue"]), *span["name"].split(maxsplit=1)


GO, NODE = ["openssl", "go"], ["openssl", "node"]
NGINX = [*NODE, "nginx", "/usr/lib/postgresql/*/bin/initdb", str(HAVE / "node/node_modules/pg")]


def pair(begin, loads, needs, *flags):
    """A system by TLS, and without: `loads` of each."""
    return {with_tls: case(begin, load, flags, with_tls, needs) for with_tls, load in loads.items()}


BY_HTTP2 = {True: http2(True), False: http2(False)}
SYSTEMS = {
    "go-http1": pair(go("http1"), {True: https(), False: http1}, GO, "--runtimes=go"),
    "go-http2": pair(go("http2"), BY_HTTP2, GO, "--runtimes=go"),
    "node-http2": pair(node, BY_HTTP2, NODE),
    "nginx-node-postgres": pair(nginx, BY_HTTP2, NGINX),
}


def file_server(place):
    """nginx, one process, with a file of 10 kB; its OpenSSL is a copy, since a probe is met by all processes that run a file."""
    port, libraries = free_port(), place.at / "lib"
    libraries.mkdir()
    said = run(["ldd", find("nginx")], 30)
    for path in re.findall(r"=> (/\S*/lib(?:ssl|crypto)\.so\S*)", said):
        shutil.copy(path, libraries)
    (place.at / "x").write_bytes(b"x" * 10_000)
    own = keys(place)
    line = nginx_line(place.at, """
        server {
            listen 127.0.0.1:@port@ ssl; root "@at@";
            ssl_certificate @cert@; ssl_certificate_key @key@; ssl_session_tickets off; ssl_session_cache off;
        }
        """, port=port, cert=own["CERT"], key=own["KEY"])
    return place.start("nginx", line, port, LD_LIBRARY_PATH=libraries)


def cost(limit, *how):
    """What a server takes more, a request: recorded, and with `--tls`. The limit is of what reading TLS adds to recording."""
    served = Case(file_server, [], load=https(*how))
    recorded = ["--payload", "attributes"]
    programs = [(served, None), (served, recorded), (served, [*recorded, "--tls"])]
    return programs, [("recording", None), ("recording with --tls", None)], [("--tls", limit, 2, 1)]


COSTS = {
    "cost-kept": cost(5.0),
    "cost-new": cost(8.0, "new"),
}
