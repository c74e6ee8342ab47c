"""Cases of `bench/forecast`: a web server, workers, an N+1 query, calls made parallel, a faster service."""

import contextlib
import os
import random

from .forecast import Case, Quota, Step, free_ports, loaded, served
from .programs import ROOT, Stack
from .tiers import find, put

APP = ROOT / "testbeds" / "forecast" / "app.py"


# ------------------------------------------------------------------ nginx

NGINX = """
    daemon off; worker_processes @workers@; @user@
    pid "@at@/pid"; error_log "@at@/log";
    events { worker_connections 1024; }
    http {
        access_log off; client_body_temp_path "@at@/body"; proxy_temp_path "@at@/proxy"; uwsgi_temp_path "@at@/uwsgi";
        fastcgi_temp_path "@at@/fastcgi"; scgi_temp_path "@at@/scgi"; keepalive_requests 1000000;
        gzip on; gzip_types text/plain; gzip_comp_level 6;
        server { listen 127.0.0.1:@port@; root "@at@/files"; default_type text/plain; }
    }
    """
# The page that nginx compresses for each request: about a millisecond's work.
PAGE_BYTES = 40_000
# Shares of a processor.
ONE, TWO = 0.25, 0.5


class WebServer(Case):
    """nginx compresses each reply, with a quarter of a processor and one worker; then with half of one and two."""

    number = 2
    bottleneck = "processor|cpu"
    connections = None

    def __init__(self, place):
        super().__init__(place)
        (self.port,) = free_ports(1)
        self.at = self.place / "nginx"
        (self.at / "files").mkdir(parents=True)
        # words, so that it compresses as text does; the same in every run
        dice = random.Random(1)
        words = ["".join(dice.choices("etaoinshrdlu", k=dice.randint(2, 9))) for _ in range(2000)]
        text = " ".join(dice.choices(words, k=PAGE_BYTES // 5))[:PAGE_BYTES]
        (self.at / "files" / "page").write_text(text, encoding="ascii")

    def steps(self):
        changes = (f"cpu nginx:{self.port}=+{TWO - ONE}", f"workers nginx:{self.port}=+1")
        return [Step("a core and a worker more", changes, "processor|cpu")]

    def measure(self, step, seconds, trace=None):
        user = "user root root;" if os.geteuid() == 0 else ""
        workers, share = (2, TWO) if step else (1, ONE)
        conf = put(self.at, "nginx.conf", NGINX, port=self.port, workers=workers, user=user)
        load = ["--connections", self.connections, "--mix", "/page=1", "--header", "Accept-Encoding: gzip"]
        with Quota("nginx", share) as quota:
            line = [*quota.prefix, find("nginx"), "-p", self.at, "-e", self.at / "log", "-c", conf]
            with served(line, self.port, self.place) as pid:
                return loaded(self.url, seconds, self.place, *load, trace=trace, watch=("--pid", pid))

    @property
    def url(self):
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"


class WebServer4(WebServer):
    """Each connection is one of few."""

    name, connections, is_quick = "web-4", 4, True


class WebServer64(WebServer):
    """Many wait at once."""

    name, connections = "web-64", 64


# ------------------------------------------------------------------ the application


def gunicorn(place, port, workers):
    """The command for the application with so many sync workers."""
    line = [find("gunicorn"), "--bind", f"127.0.0.1:{port}", "--workers", workers, "--worker-class", "sync"]
    return [*line, "--graceful-timeout", 3, "--worker-tmp-dir", place, "--chdir", APP.parent, "app:app"]


def tier(place, port, workers, quota=None, **settings):
    """The application as a server, as `served`; settings are its environment."""
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **{name: str(value) for name, value in settings.items()}}
    place.mkdir(exist_ok=True)
    return served([*(quota.prefix if quota else []), *gunicorn(place, port, workers)], port, place, env=env)


class Application(Case):
    """The application of `testbeds/forecast` with the demo stack's PostgreSQL."""

    route = None
    connections = None

    def __init__(self, place):
        super().__init__(place)
        (self.port,) = free_ports(1)
        self.stack = Stack(self.place / "stack", "--workers", 1)
        self.ends = contextlib.ExitStack()

    def __enter__(self):
        self.ends.enter_context(self.stack)
        return self

    def __exit__(self, *problem):
        self.ends.close()

    def run(self, seconds, trace, workers, quota=None, **settings):
        """Starts the application, loads it, and ends it."""
        pg = {"PG_PORT": self.stack.env["PG_PORT"], **settings}
        load = ["--connections", self.connections, "--mix", f"{self.route}=1"]
        with tier(self.place / "app", self.port, workers, quota, **pg) as pid:
            watch = ("--pid", pid, "--pid", self.stack.env["PG_PID"])
            return loaded(f"http://127.0.0.1:{self.port}", seconds, self.place, *load, trace=trace, watch=watch)


class Workers(Application):
    """Eight clients, and workers that mostly wait for the database: 1, 2, 4 of them."""

    name, number = "workers", 4
    bottleneck = "worker"
    route, connections = "/wait", 8

    def steps(self):
        return [Step(f"{count} workers", (f"workers gunicorn:{self.port}=+{count - 1}",), "worker") for count in (2, 4)]

    def measure(self, step, seconds, trace=None):
        workers = int(step.label.split()[0]) if step else 1
        return self.run(seconds, trace, workers)


class NPlusOne(Application):
    """A list of twenty items by twenty-one statements, then by one; the application has half a processor."""

    name, number, is_quick = "n-plus-1", 5, True
    bottleneck = "processor|cpu"
    route, connections = "/list", 4

    def steps(self):
        dropped = f"postgres:{self.stack.env['PG_PORT']} SELECT title, price FROM items WHERE id = ?"
        return [Step("joined", (f"drop {dropped}",), "processor|cpu")]

    def measure(self, step, seconds, trace=None):
        with Quota("app", 0.5) as quota:
            return self.run(seconds, trace, 4, quota, JOINED=1 if step else 0)


class Parallel(Case):
    """Two services asked one after the other, then at once."""

    name, number = "parallel", 6

    def __init__(self, place):
        super().__init__(place)
        self.front, self.a, self.b = free_ports(3)

    def steps(self):
        return [Step("both at once", (f"parallel gunicorn:{self.a} GET /part,gunicorn:{self.b} GET /part",))]

    def measure(self, step, seconds, trace=None):
        with contextlib.ExitStack() as ends:
            started = [
                tier(self.place / "a", self.a, 4, SLEEP_MS=20, LOOPS=10000),
                tier(self.place / "b", self.b, 4, SLEEP_MS=12, LOOPS=10000),
                tier(self.place / "front", self.front, 4, PORT_A=self.a, PORT_B=self.b, PARALLEL=1 if step else 0),
            ]
            pids = [ends.enter_context(server) for server in started]
            watch = [flag for pid in pids for flag in ("--pid", pid)]
            load = ["--connections", 2, "--mix", "/both=1"]
            return loaded(f"http://127.0.0.1:{self.front}", seconds, self.place, *load, trace=trace, watch=watch)


class Downstream(Case):
    """A front with a service behind it that computes on a fifth of a processor; then the service is twice as fast."""

    name, number = "downstream", 9
    bottleneck = "processor|cpu"
    SHARE = 0.2

    def __init__(self, place):
        super().__init__(place)
        self.front, self.behind = free_ports(2)

    def steps(self):
        return [Step("twice as fast", (f"speed gunicorn:{self.behind}=2x",), "processor|cpu")]

    def measure(self, step, seconds, trace=None):
        with contextlib.ExitStack() as ends:
            behind = ends.enter_context(Quota("behind", 2 * self.SHARE if step else self.SHARE))
            front = ends.enter_context(Quota("front", 0.4))
            pids = [
                ends.enter_context(tier(self.place / "behind", self.behind, 4, behind, LOOPS=80000)),
                ends.enter_context(tier(self.place / "front", self.front, 8, front, PORT_A=self.behind)),
            ]
            watch = [flag for pid in pids for flag in ("--pid", pid)]
            load = ["--connections", 8, "--mix", "/order=1"]
            return loaded(f"http://127.0.0.1:{self.front}", seconds, self.place, *load, trace=trace, watch=watch)


CASES = [WebServer4, WebServer64, Workers, NPlusOne, Parallel, Downstream]
