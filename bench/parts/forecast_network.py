"""Cases of `bench/forecast` about the network: a stream over a narrow link, a listen backlog that is too small, and the
delay between two tiers. Hosts are network namespaces; between two of them a relay of the testbed passes packets on late."""

import contextlib
import itertools
import json
import pathlib
import subprocess
import time

from .forecast import SECONDS, WARM_S, Case, Load, Step, Truth, free_ports
from .programs import ROOT, Failed, Namespace, Recording, run
from .tiers import find

TESTBED = ROOT / "testbeds" / "forecast"
SENDER, READER = "10.97.0.1", "10.97.0.2"


def compiled(place, program, *names):
    """A C program of the testbed, under these names; gives where the first is."""
    first = place / names[0]
    run(["cc", "-O2", "-o", first, TESTBED / program], 60)
    for name in names[1:]:
        (place / name).write_bytes(first.read_bytes())
        (place / name).chmod(0o755)
    return first


@contextlib.contextmanager
def started(line, what):
    """A program in the background until the end of the context, once it has said `ready`."""
    process = subprocess.Popen([str(x) for x in line], stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout.readline().strip() != "ready":
            raise Failed(f"{what} did not start")
        yield process
    finally:
        process.terminate()
        process.wait(timeout=10)


class Wire:
    """Two hosts, `a` (10.97.0.1) and `b` (10.97.0.2), and between them a link of a rate (what leaves `a`) and a delay
    each way, as a context."""

    numbers = itertools.count()

    def __init__(self, place, delay_us, rate=None):
        self.number = next(self.numbers)
        self.relay = compiled(place, "relay.c", f"relay{self.number}")
        self.delay_us, self.rate = delay_us, rate
        self.stack = contextlib.ExitStack()

    @property
    def names(self):
        """Of its hosts and what is between them."""
        return [f"wire{self.number}-{host}" for host in ("a", "b", "r")]

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.a, self.b, middle = (stack.enter_context(Namespace(name)) for name in self.names)
            for host, address in ((self.a, SENDER), (self.b, READER), (middle, None)):
                # nobody else speaks
                run([*host.prefix, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"], 10)
                if address is None:
                    continue
                end = "to-" + host.name.split("-")[2]
                line = ["ip", "link", "add", "eth0", "netns", host.name, "type", "veth", "peer", "name", end]
                run([*line, "netns", middle.name], 10)
                run([*host.prefix, "ip", "addr", "add", address + "/24", "dev", "eth0"], 10)
                # packets of 64 kB, which no wire carries, would make a buffer of a few such swing wildly
                run([*host.prefix, "ip", "link", "set", "eth0", "gso_max_size", "8192"], 10)
                run([*host.prefix, "ip", "link", "set", "eth0", "up"], 10)
            for end in ("to-a", "to-b"):
                run([*middle.prefix, "ip", "link", "set", end, "up"], 10)
            if self.rate:
                line = ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", self.rate]
                run([*self.a.prefix, *line, "burst", "32k", "limit", "64m"], 10)
            stack.enter_context(started([*middle.prefix, self.relay, "to-a", "to-b", str(self.delay_us)], "the relay"))
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *problem):
        self.stack.close()


def wait_for_port_of(process, port, seconds=20):
    """Until somebody listens there in the network namespace of a process."""
    wanted = f":{port:04X}"
    limit = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{process.pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[1].endswith(wanted) and fields[3] == "0A":
                    return
        if process.poll() is not None or time.monotonic() > limit:
            raise Failed(f"nobody listens on port {port}")
        time.sleep(0.02)


@contextlib.contextmanager
def gunicorn(place, host, port, *options, **settings):
    """The testbed's service under gunicorn on a host, or where no host is given on this one."""
    line = [*(host.prefix if host else []), "env", *(f"{name}={value}" for name, value in settings.items())]
    line += [find("gunicorn"), "-b", f"0.0.0.0:{port}", "--chdir", TESTBED, "--worker-tmp-dir", "/dev/shm"]
    with open(place / "gunicorn.log", "a", encoding="utf-8") as log:
        process = subprocess.Popen([str(x) for x in (*line, *options, "tier:app")], stdout=log, stderr=log)
    try:
        wait_for_port_of(process, port)
        # the master listens before its worker does
        time.sleep(1.0)
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)


class Stream(Case):
    """One bulk stream: first the link limits it, then the send buffer, then the reader's processor, then the link again."""

    name, number, unit, is_quick = "stream", 1, "bytes", True
    bottleneck = r"link|bulksend-bulkread"
    # `--next` makes each without bound, so there is no link left after the reader
    following = (bottleneck, r"send buffer", r"bulkread comput")
    port = 7000
    delay_us = 20_000
    # of the send buffer; the receive buffer is wide from the begin
    mbit, rounds, buffer, unbounded = 20, 80, 128 << 10, 4 << 20
    receive_buffer = 16 << 20

    def __enter__(self):
        compiled(self.place, "bulk.c", "bulksend", "bulkread")
        return self

    def steps(self):
        wider = "link bulksend-bulkread bandwidth=10x"
        roomy = "queue bulksend send buffer=unbounded"
        faster = "scale */bulkread/cpu=0.25"
        return [
            Step("link 10x", (wider,), r"send buffer"),
            Step("and buffers unbounded", (wider, roomy), r"bulkread comput"),
            Step("and a faster reader", (wider, roomy, faster), r"link|bulksend-bulkread"),
        ]

    @contextlib.contextmanager
    def system(self, step):
        done = len(step.changes) if step else 0
        rate = f"{self.mbit * (10 if done >= 1 else 1)}mbit"
        buffer = self.unbounded if done >= 2 else self.buffer
        rounds = self.rounds // (4 if done >= 3 else 1)
        with Wire(self.place, self.delay_us, rate) as wire:
            reader = [self.place / "bulkread", self.port, rounds, WARM_S, self.receive_buffer]

            def load(seconds, trace=None):
                sender = [self.place / "bulksend", READER, str(self.port), str(seconds + WARM_S), str(buffer)]
                with started([*wire.b.prefix, *reader], "the reader") as process:
                    watch = ("--comm", "bulksend", "--comm", "bulkread")
                    with Recording(trace, *watch) if trace else contextlib.nullcontext():
                        run([*wire.a.prefix, *sender], seconds + 60)
                        said = json.loads(process.communicate(timeout=60)[0])
                        time.sleep(0.2)
                return Truth(said["bytes"], said["seconds"], None)

            yield load


class Backlog(Case):
    """Clients that come all at once to a service whose accept queue has no room for them: they ask again a second later."""

    name, number = "backlog", 10
    # a second worker would keep the accept queue from filling as well as room in it does
    bottleneck = r"accept|queue|workers"
    port, changed = 7010, 7011
    clients, period_ms, room, more = 16, 1500, 8, 16
    # from the first burst's begin to the last one's end: other numbers of bursts would be other throughputs
    turn_s = SECONDS

    def __enter__(self):
        self.burst = compiled(self.place, "burst.c", "burst")
        return self

    def steps(self):
        return [Step("room for all", (f"queue gunicorn:{self.port}=+{self.more}",))]

    @contextlib.contextmanager
    def system(self, step):
        room, port = (self.room + self.more, self.changed) if step else (self.room, self.port)
        with gunicorn(self.place, None, port, "--workers", "1", "--backlog", room, WORK_US=4000):

            def load(seconds, trace=None):
                watch = ("--port", port, "--comm", "burst")
                with Recording(trace, *watch) if trace else contextlib.nullcontext():
                    line = [self.burst, "127.0.0.1", port, self.clients, self.period_ms, seconds]
                    said = json.loads(run([str(x) for x in line], seconds + 60))
                    time.sleep(0.2)
                if said["failed"]:
                    raise Failed(f"{said['failed']} clients were not answered")
                return Truth(said["answered"], said["seconds"], said["mean_ns"])

            yield load


class Delay(Case):
    """Two tiers with a delay between them: for each request one call on a kept connection and one on a new one."""

    name, number = "delay", 11
    bottleneck = r"7021"
    front, back = 7020, 7021
    delay_us, clients = 5_000, 4

    def steps(self):
        return [Step("half the delay", (f"link gunicorn:{self.front}-gunicorn:{self.back} delay=-50%",))]

    @contextlib.contextmanager
    def system(self, step):
        front, back = free_ports(2) if step else (self.front, self.back)
        delay_us = self.delay_us // 2 if step else self.delay_us
        with Wire(self.place, delay_us) as wire, self.tiers(wire, front, back, "kept new") as load:
            yield load

    @contextlib.contextmanager
    def tiers(self, wire, front, back, how):
        """Both, with the calls that the first makes for each request, and the load on it."""
        threads = ("--workers", "1", "--worker-class", "gthread", "--threads", 16, "--keep-alive", 75)
        with contextlib.ExitStack() as stack:
            stack.enter_context(gunicorn(self.place, wire.b, back, *threads))
            calls = {"CALLS": how, "NEXT": f"{READER}:{back}"}
            stack.enter_context(gunicorn(self.place, wire.a, front, *threads, **calls))
            flags = ("--connections", str(self.clients), "--mix", "/x=1")
            watch = ("--port", front, "--port", back)
            yield Load(f"http://127.0.0.1:{front}", self.place, *flags, watch=watch, prefix=wire.a.prefix)


class KeepAlive(Delay):
    """Two tiers with a delay between them, and a new connection for each call; then the calls are made on kept ones."""

    name, number = "keep-alive", 30
    bottleneck = r"7031"
    front, back = 7030, 7031

    def steps(self):
        return [Step("connections kept", (f"drop gunicorn:{self.back} connect",))]

    @contextlib.contextmanager
    def system(self, step):
        front, back = free_ports(2) if step else (self.front, self.back)
        with Wire(self.place, self.delay_us) as wire, self.tiers(wire, front, back, "kept kept" if step else "new new") as load:
            yield load


CASES = [Stream, Backlog, Delay, KeepAlive]
