"""Cases of `bench/forecast` on stacks whose threads, pools and locks are not Python's: the JVM with HikariCP, Puma, uWSGI,
PHP-FPM, Go's database/sql, HAProxy."""

import contextlib
import os
import pathlib
import shutil

from .forecast import Case, Load, Loads, Quota, Step, free_ports, served
from .forecast_tiers import TESTBED, gunicorn, postgres
from .programs import Failed, run
from .tiers import find, put

JARS = ("HikariCP", "postgresql", "slf4j-api", "slf4j-nop")


class Foreign(Case):
    """A stack of which nothing is known beforehand."""

    may_be_refused = True


class WithDatabase(Foreign):
    """With a PostgreSQL of its own."""

    def __enter__(self):
        self.port, self.database = free_ports(2)
        self.stack = contextlib.ExitStack()
        self.dsn = self.stack.enter_context(postgres(self.place, self.database))
        return self

    def __exit__(self, *problem):
        self.stack.close()

    def load(self, port, clients, *watched):
        """Its load, with the database and these ports watched."""
        watch = [flag for each in (port, self.database, *watched) for flag in ("--port", each)]
        load = ("--connections", str(clients), "--mix", "/list=1")
        return Load(f"http://127.0.0.1:{port}", self.place, *load, watch=watch)


class Hikari(WithDatabase):
    """The JDK's HTTP server, twelve threads that share two connections of a HikariCP pool."""

    name, number = "hikari", 20
    bottleneck = r"pool .*->postgres"
    threads, clients = 12, 16
    sizes = {None: 2, "pool of 4": 4, "pool of 8": 8}

    def __enter__(self):
        self.jars = ":".join(f"/usr/share/java/{name}.jar" for name in JARS)
        missing = [jar for jar in self.jars.split(":") if not os.path.exists(jar)]
        if missing or not find("javac"):
            raise Failed(f"{', '.join(missing) or 'javac'} is missing; remedy: scripts/install bench")
        run(["javac", "-cp", self.jars, "-d", self.place, TESTBED / "Hikari.java"], 120)
        return super().__enter__()

    def steps(self):
        pool = f"pool java:{self.port}->postgres:{self.database}"
        return [
            Step("pool of 4", (f"{pool}=+2",), r"pool .*->postgres"),
            Step("pool of 8", (f"{pool}=+6",)),
        ]

    @contextlib.contextmanager
    def system(self, step):
        (port,) = free_ports(1) if step else (self.port,)
        size = self.sizes[step and step.label]
        url = f"jdbc:postgresql://127.0.0.1:{self.database}/postgres?sslmode=disable&gssEncMode=disable"
        line = ["java", "-Xmx128m", "-Djava.net.preferIPv4Stack=true", "-Dsun.net.httpserver.nodelay=true", "-cp", f"{self.jars}:{self.place}", "Hikari", port, self.threads, size, url]
        with served(line, port, self.place):
            yield self.load(port, self.clients)


class GoPool(WithDatabase):
    """Go's net/http and database/sql: as many goroutines as there are requests, and two connections for them."""

    name, number = "go", 21
    bottleneck = r"pool .*->postgres"
    clients = 12
    sizes = {None: 2, "pool of 4": 4, "pool of 8": 8}

    def __enter__(self):
        source = pathlib.Path("/usr/share/gocode/src/github.com/lib/pq")
        if not find("go") or not source.is_dir():
            raise Failed("Go or its PostgreSQL driver is missing; remedy: scripts/install bench")
        build = self.place / "src" / "pool"
        shutil.copytree(source, build / "vendor" / "github.com" / "lib" / "pq")
        shutil.copy(TESTBED / "pool.go", build / "main.go")
        env = {**os.environ, "GO111MODULE": "off", "GOPATH": str(self.place), "GOFLAGS": ""}
        run(["go", "build", "-o", self.place / "poolserver", "pool"], 300, env=env, cwd=build)
        return super().__enter__()

    def steps(self):
        pool = f"pool poolserver:{self.port}->postgres:{self.database}"
        return [Step("pool of 4", (f"{pool}=+2",)), Step("pool of 8", (f"{pool}=+6",))]

    @contextlib.contextmanager
    def system(self, step):
        (port,) = free_ports(1) if step else (self.port,)
        size = self.sizes[step and step.label]
        with served([self.place / "poolserver", port, size, self.dsn.replace(" gssencmode=disable", "")], port, self.place):
            yield self.load(port, self.clients)


class InGo(Foreign):
    """`semaphore.go`, built once."""

    def __enter__(self):
        if not find("go"):
            raise Failed("Go is missing; remedy: scripts/install bench")
        (self.port,) = free_ports(1)
        env = {**os.environ, "GO111MODULE": "off"}
        self.program = self.place / "goserver"
        run(["go", "build", "-o", self.program, TESTBED / "semaphore.go"], 300, env=env)
        return self


class Semaphore(InGo):
    """Twelve clients at a Go server with three places inside: who waits for one is seen by nobody. Then six places."""

    name, number = "semaphore", 26

    def steps(self):
        return [Step("6 places", (f"pool goserver:{self.port}/places=+3",))]

    @contextlib.contextmanager
    def system(self, step):
        (port,) = free_ports(1) if step else (self.port,)
        with served([self.program, port, 6 if step else 3], port, self.place):
            load = ("--connections", "12", "--mix", "/held=1")
            yield Load(f"http://127.0.0.1:{port}", self.place, *load, watch=("--port", port))


class Groups(InGo):
    """Two groups of clients that ask for different things of a server on part of a processor; then it has twice as much."""

    name, number = "groups", 27
    bottleneck = r"processor|cpu"
    groups = (("--connections", "3", "--mix", "/slow=1"), ("--connections", "2", "--rate", "40", "--mix", "/fast=1"))

    def steps(self):
        return [Step("twice as fast", (f"speed goserver:{self.port}=2x",))]

    @contextlib.contextmanager
    def system(self, step):
        (port,) = free_ports(1) if step else (self.port,)
        with Quota("groups", 0.8 if step else 0.4) as quota:
            with served([*quota.prefix, self.program, port, 0], port, self.place):
                yield Loads(f"http://127.0.0.1:{port}", self.place, *self.groups, watch=("--port", port))


class Nat(WithDatabase):
    """Four clients of an application whose pool of two, then four, reaches its database by a translated address: the ends
    of those connections, older than the recording, share no address."""

    name, number = "nat", 28
    clients = 4

    def __enter__(self):
        super().__enter__()
        if not find("nft"):
            raise Failed("nft is missing; remedy: scripts/install test")
        (self.translated,) = free_ports(1)
        self.table = f"wakepath-bench-{os.getpid()}"
        rule = (f"add table ip {self.table}\n"
                f"add chain ip {self.table} out {{ type nat hook output priority -100; }}\n"
                f"add rule ip {self.table} out ip daddr 127.0.0.1 tcp dport {self.translated} redirect to :{self.database}\n")
        run(["nft", "-f", "-"], 10, input=rule)
        self.stack.callback(run, ["nft", "delete", "table", "ip", self.table], 10)
        self.dsn = self.dsn.replace(f"port={self.database}", f"port={self.translated}")
        return self

    def steps(self):
        return [Step("pool of 4", (f"pool gunicorn:{self.port}->postgres:{self.database}=+2",))]

    @contextlib.contextmanager
    def system(self, step):
        (port,) = free_ports(1) if step else (self.port,)
        env = {**os.environ, "PG": self.dsn, "POOL": "4" if step else "2"}
        with served(gunicorn("pool", port, 8), port, self.place, env=env):
            yield self.load(port, self.clients)


class Puma(WithDatabase):
    """Puma, whose threads share Ruby's lock and each have a connection: more threads, then another process."""

    name, number = "puma", 22
    clients = 8

    def steps(self):
        return [
            Step("6 threads", (f"threads puma:{self.port}=6",)),
            Step("2 processes", (f"processes puma:{self.port}=+1",)),
        ]

    @contextlib.contextmanager
    def system(self, step):
        (port,) = free_ports(1) if step else (self.port,)
        threads, processes = {None: (2, 1), "6 threads": (6, 1), "2 processes": (2, 2)}[step and step.label]
        line = ["puma", "--workers", processes, "--threads", f"{threads}:{threads}", "--bind", f"tcp://127.0.0.1:{port}",
                "--quiet", TESTBED / "puma.ru"]
        env = {**os.environ, "PG": self.dsn}
        with served(line, port, self.place, env=env):
            yield self.load(port, self.clients)


class Fpm(Foreign):
    """PHP-FPM behind nginx: two children, then four; they sleep and compute."""

    name, number = "php-fpm", 23
    bottleneck = r"worker"
    clients = 8

    def steps(self):
        return [Step(f"{n} children", (f"workers {self.process}:{self.fpm}=+{n - 2}",)) for n in (3, 4)]

    def __enter__(self):
        self.port, self.fpm = free_ports(2)
        server = find("/usr/sbin/php-fpm[0-9]*")
        if not server:
            raise Failed("php-fpm is missing; remedy: scripts/install bench")
        self.server, self.process = server, os.path.basename(server)
        return self

    @contextlib.contextmanager
    def system(self, step):
        port, fpm = free_ports(2) if step else (self.port, self.fpm)
        children = int(step.label.split()[0]) if step else 2
        at = self.place / f"fpm-{fpm}"
        at.mkdir(exist_ok=True)
        user = ("user = root", "group = root") if os.geteuid() == 0 else ()
        pool = ("[global]", f"error_log = {at}/log", "daemonize = no", "[www]", *user, f"listen = 127.0.0.1:{fpm}",
                "pm = static", f"pm.max_children = {children}")
        (at / "fpm.conf").write_text("\n".join(pool) + "\n", encoding="utf-8")
        root = "user root root;" if os.geteuid() == 0 else ""
        conf = put(at, "nginx.conf", NGINX_FPM, port=port, fpm=fpm, user=root, script=TESTBED / "sleep.php")
        line = [self.server, "--fpm-config", at / "fpm.conf", *(["--allow-to-run-as-root"] if user else [])]
        with contextlib.ExitStack() as stack:
            stack.enter_context(served(line, fpm, self.place))
            stack.enter_context(served([find("nginx"), "-p", at, "-e", at / "log", "-c", conf], port, self.place))
            load = ("--connections", str(self.clients), "--mix", "/list=1")
            yield Load(f"http://127.0.0.1:{port}", self.place, *load, watch=("--port", port, "--port", fpm))


NGINX_FPM = """
    daemon off; worker_processes 1; @user@
    pid "@at@/pid"; error_log "@at@/log";
    events { worker_connections 1024; }
    http {
        access_log off; client_body_temp_path "@at@/body"; proxy_temp_path "@at@/proxy"; uwsgi_temp_path "@at@/uwsgi";
        fastcgi_temp_path "@at@/fastcgi"; scgi_temp_path "@at@/scgi"; keepalive_requests 1000000;
        server {
            listen 127.0.0.1:@port@;
            location / {
                fastcgi_pass 127.0.0.1:@fpm@;
                fastcgi_param SCRIPT_FILENAME @script@;
                fastcgi_param REQUEST_METHOD $request_method;
                fastcgi_param REQUEST_URI $request_uri;
                fastcgi_param QUERY_STRING $query_string;
            }
        }
    }
    """


class Uwsgi(Foreign):
    """uWSGI's threads, which share a lock of their process: more threads gain nothing, a second process has its own lock."""

    name, number = "uwsgi", 24
    bottleneck = r"lock"
    clients = 8

    def __enter__(self):
        (self.port,) = free_ports(1)
        if not find("uwsgi-core") and not find("uwsgi"):
            raise Failed("uWSGI is missing; remedy: scripts/install bench")
        return self

    def steps(self):
        return [
            Step("8 threads", (f"threads {self.process}:{self.port}=8",)),
            Step("2 processes", (f"processes {self.process}:{self.port}=+1",)),
        ]

    process = "uwsgi-core"

    @contextlib.contextmanager
    def system(self, step):
        (port,) = free_ports(1) if step else (self.port,)
        threads, processes = {None: (4, 1), "8 threads": (8, 1), "2 processes": (4, 2)}[step and step.label]
        line = [find("uwsgi-core") or find("uwsgi"), "--plugin", "python3", "--http-socket", f"127.0.0.1:{port}", "--master",
                "--processes", processes, "--threads", threads, "--wsgi-file", TESTBED / "held.py", "--need-app",
                "--disable-logging", "--die-on-term"]
        with served(line, port, self.place):
            load = ("--connections", str(self.clients), "--mix", "/list=1")
            # each request has a connection of its own: how long its client waits for it, only the client shows
            watch = ("--port", port, "--comm", "vload")
            yield Load(f"http://127.0.0.1:{port}", self.place, *load, watch=watch)


class HaProxy(Foreign):
    """HAProxy lets two requests at a time through to a server of threads; the others wait in its queue."""

    name, number = "haproxy", 25
    clients = 8

    def __enter__(self):
        self.port, self.behind = free_ports(2)
        self.stack = contextlib.ExitStack()
        self.stack.enter_context(served(gunicorn("held", self.behind, 8), self.behind, self.place))
        return self

    def __exit__(self, *problem):
        self.stack.close()

    def steps(self):
        return [Step("maxconn 4", (f"pool haproxy:{self.port}->gunicorn:{self.behind}=+2",))]

    @contextlib.contextmanager
    def system(self, step):
        (port,) = free_ports(1) if step else (self.port,)
        conf = self.place / f"haproxy-{port}.cfg"
        most = 4 if step else 2
        conf.write_text(
            "global\n nbthread 1\ndefaults\n mode http\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n"
            f" timeout queue 60s\nlisten x\n bind 127.0.0.1:{port}\n server s 127.0.0.1:{self.behind} maxconn {most}\n",
            encoding="ascii")
        with served([find("haproxy"), "-db", "-f", conf], port, self.place):
            load = ("--connections", str(self.clients), "--mix", "/sleep=1")
            watch = ("--port", port, "--port", self.behind)
            yield Load(f"http://127.0.0.1:{port}", self.place, *load, watch=watch)


CASES = (Hikari, GoPool, Puma, Fpm, Uwsgi, HaProxy, Semaphore, Groups, Nat)
