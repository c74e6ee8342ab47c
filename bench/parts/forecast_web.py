"""Cases of `bench/forecast`: a web server, workers, an N+1 query, calls made parallel, a faster service."""

import contextlib
import os
import random

from .forecast import Case, Load, Quota, Step, free_ports, served
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
        server { listen 127.0.0.1:@port@; root "@files@"; default_type text/plain; }
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
        self.port, self.changed = free_ports(2)
        self.files = self.place / "files"
        self.files.mkdir()
        # words, so that it compresses as text does; the same in every run
        dice = random.Random(1)
        words = ["".join(dice.choices("etaoinshrdlu", k=dice.randint(2, 9))) for _ in range(2000)]
        text = " ".join(dice.choices(words, k=PAGE_BYTES // 5))[:PAGE_BYTES]
        (self.files / "page").write_text(text, encoding="ascii")

    def steps(self):
        changes = (f"cpu nginx:{self.port}=+{TWO - ONE}", f"workers nginx:{self.port}=+1")
        return [Step("a core and a worker more", changes, "processor|cpu")]

    @contextlib.contextmanager
    def system(self, step):
        user = "user root root;" if os.geteuid() == 0 else ""
        workers, share, port = (2, TWO, self.changed) if step else (1, ONE, self.port)
        at = self.place / f"nginx-{port}"
        at.mkdir(exist_ok=True)
        conf = put(at, "nginx.conf", NGINX, port=port, workers=workers, user=user, files=self.files)
        load = ["--connections", self.connections, "--mix", "/page=1", "--header", "Accept-Encoding: gzip"]
        with Quota("nginx", share) as quota:
            line = [*quota.prefix, find("nginx"), "-p", at, "-e", at / "log", "-c", conf]
            with served(line, port, self.place) as pid:
                yield Load(f"http://127.0.0.1:{port}", self.place, *load, watch=("--pid", pid))


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
        # so many that its database has connections for what is started here: as it is and changed, side by side
        self.stack = Stack(self.place / "stack", "--workers", 4)
        self.ends = contextlib.ExitStack()

    def __enter__(self):
        self.ends.enter_context(self.stack)
        return self

    def __exit__(self, *problem):
        self.ends.close()

    @contextlib.contextmanager
    def run(self, step, workers, quota=None, **settings):
        """The application under its load."""
        (port,) = free_ports(1) if step else (self.port,)
        pg = {"PG_PORT": self.stack.env["PG_PORT"], **settings}
        load = ["--connections", self.connections, "--mix", f"{self.route}=1"]
        with tier(self.place / f"app-{port}", port, workers, quota, **pg) as pid:
            watch = ("--pid", pid, "--pid", self.stack.env["PG_PID"])
            yield Load(f"http://127.0.0.1:{port}", self.place, *load, watch=watch)


class Workers(Application):
    """Eight clients, and workers that mostly wait for the database: 1, 2, 4 of them."""

    name, number = "workers", 4
    bottleneck = "worker"
    route, connections = "/wait", 8

    def steps(self):
        return [Step(f"{count} workers", (f"workers gunicorn:{self.port}=+{count - 1}",), "worker") for count in (2, 4)]

    def system(self, step):
        return self.run(step, int(step.label.split()[0]) if step else 1)


class NPlusOne(Application):
    """A list of twenty items by twenty-one statements, then by one; the application has half a processor."""

    name, number, is_quick = "n-plus-1", 5, True
    bottleneck = "processor|cpu"
    route, connections = "/list", 4

    def steps(self):
        dropped = f"postgres:{self.stack.env['PG_PORT']} SELECT title, price FROM items WHERE id = ?"
        return [Step("joined", (f"drop {dropped}",), "processor|cpu")]

    @contextlib.contextmanager
    def system(self, step):
        with Quota("app", 0.5) as quota, self.run(step, 4, quota, JOINED=1 if step else 0) as load:
            yield load


class Parallel(Case):
    """Two services asked one after the other, then at once."""

    name, number = "parallel", 6

    def __init__(self, place):
        super().__init__(place)
        self.a, self.b = free_ports(2)
        self.ends, self.pids = contextlib.ExitStack(), []

    def __enter__(self):
        for name, port, ms in (("a", self.a, 20), ("b", self.b, 12)):
            behind = tier(self.place / name, port, 4, SLEEP_MS=ms, LOOPS=10000)
            self.pids.append(self.ends.enter_context(behind))
        return self

    def __exit__(self, *problem):
        self.ends.close()

    def steps(self):
        return [Step("both at once", (f"parallel gunicorn:{self.a} GET /part,gunicorn:{self.b} GET /part",))]

    @contextlib.contextmanager
    def system(self, step):
        (port,) = free_ports(1)
        at, parallel = self.place / f"front-{port}", 1 if step else 0
        with tier(at, port, 4, PORT_A=self.a, PORT_B=self.b, PARALLEL=parallel) as pid:
            watch = [flag for each in (*self.pids, pid) for flag in ("--pid", each)]
            load = ["--connections", 2, "--mix", "/both=1"]
            yield Load(f"http://127.0.0.1:{port}", self.place, *load, watch=watch)


class Downstream(Case):
    """A front with a service behind it that computes on a fifth of a processor; then the service is twice as fast."""

    name, number = "downstream", 9
    bottleneck = "processor|cpu"
    SHARE = 0.2

    def __init__(self, place):
        super().__init__(place)
        (self.behind,) = free_ports(1)

    def steps(self):
        return [Step("twice as fast", (f"speed gunicorn:{self.behind}=2x",), "processor|cpu")]

    @contextlib.contextmanager
    def system(self, step):
        front, behind = free_ports(2)
        behind = behind if step else self.behind
        with contextlib.ExitStack() as ends:
            slow = ends.enter_context(Quota("behind", 2 * self.SHARE if step else self.SHARE))
            fast = ends.enter_context(Quota("front", 0.4))
            pids = [
                ends.enter_context(tier(self.place / f"behind-{behind}", behind, 4, slow, LOOPS=80000)),
                ends.enter_context(tier(self.place / f"front-{front}", front, 8, fast, PORT_A=behind)),
            ]
            watch = [flag for pid in pids for flag in ("--pid", pid)]
            load = ["--connections", 8, "--mix", "/order=1"]
            yield Load(f"http://127.0.0.1:{front}", self.place, *load, watch=watch)


CASES = [WebServer4, WebServer64, Workers, NPlusOne, Parallel, Downstream]
