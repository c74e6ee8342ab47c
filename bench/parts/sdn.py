"""The SDN paper's test application as a context, its load, and the programs that watch it."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from parts.programs import ROOT, Failed, WAIT_S, program, run

PORT = 8080
ANALYSIS_DEVICES = ("eth0", "mirror0")


class Sdn:
    """`testbeds/sdn/stack` as a context: it ends with the bench, however that ends."""

    def __init__(self, place):
        self.place = pathlib.Path(place)
        self.env = {}

    def __enter__(self):
        self.place.mkdir(parents=True, exist_ok=True)
        with open(self.place / "stack.log", "wb") as log:
            line = [ROOT / "testbeds" / "sdn" / "stack", "hold", self.place / "stack"]
            self.holder = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=log, stderr=log)
        limit, env = time.monotonic() + 3 * WAIT_S, self.place / "stack" / "env"
        while not env.exists():
            if self.holder.poll() is not None or time.monotonic() > limit:
                self.holder.stdin.close()
                self.holder.wait(WAIT_S)
                raise Failed(f"testbeds/sdn did not start: {(self.place / 'stack.log').read_text()[-600:]}")
            time.sleep(0.05)
        self.env = dict(line.split("=", 1) for line in env.read_text(encoding="utf-8").splitlines())
        os.environ["OVS_RUNDIR"] = self.env["OVS_RUNDIR"]
        return self

    def __exit__(self, *_):
        self.holder.stdin.close()
        self.holder.wait(WAIT_S)

    def on(self, host):
        """What a command is to begin with to run on a host, on that host's processors."""
        cpus = self.env["CPUS_WEB" if host == "web" else "CPUS_OTHER"]
        return ["ip", "netns", "exec", self.env[f"HOST_{host.upper()}"], "taskset", "-c", cpus]

    def load(self, *args, path="/bare", truth=None, seconds=300):
        """Scans of ten records by Zipf's law; gives the summary."""
        line = [*self.on("client"), program("vload"), "--url", self.env["URL"], "--json", "--id-header"]
        line += ["--mix", path + "/scan/{key}", *map(str, args)]
        if truth:
            line += ["--truth", str(truth)]
        return json.loads(run(line, seconds, stderr=subprocess.DEVNULL))

    def received(self):
        """Packets and bytes that the analysis host has received so far."""
        files = [f"/sys/class/net/{d}/statistics/rx_{what}" for what in ("packets", "bytes") for d in ANALYSIS_DEVICES]
        words = [int(w) for w in run([*self.on("analysis"), "cat", *files], 10).split()]
        half = len(ANALYSIS_DEVICES)
        return sum(words[:half]), sum(words[half:])

    def access_log(self, wanted):
        """Microseconds by request id; waits until Tomcat has written these."""
        path, limit = pathlib.Path(self.env["ACCESS_LOG"]), time.monotonic() + WAIT_S
        while True:
            words = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
            found = {w[0]: int(w[1]) for w in words if len(w) == 5}
            # Tomcat's own thread writes its buffer every ten seconds
            if wanted <= found.keys() or time.monotonic() > limit:
                return found
            time.sleep(0.2)

    def switch_cpu(self):
        """Processor seconds of the switch so far."""
        return tree_cpu(int(self.env["PID_OVS_VSWITCHD"]))


def tree_cpu(pid):
    """Processor seconds of a process and its descendants, by the scheduler's own nanoseconds."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            total += int((task / "schedstat").read_text().split()[0]) / 1e9
        with contextlib.suppress(OSError):
            total += sum(tree_cpu(int(child)) for child in (task / "children").read_text().split())
    return total


class Watcher:
    """A program that watches until it is told to end. It captures once it has said `ready`, or without that once it has
    written the file that its flag --ready-file names."""

    def __init__(self, prefix, line, log, ready=None):
        self.log, self.said_ready = pathlib.Path(log), ready
        self.ready_file = self.log.with_suffix(".ready")
        self.line = [*map(str, prefix), *map(str, line), *([] if ready else ["--ready-file", str(self.ready_file)])]

    def is_ready(self):
        """Whether it captures by now."""
        return self.said_ready in self.said() if self.said_ready else self.ready_file.exists()

    def __enter__(self):
        self.ready_file.unlink(missing_ok=True)
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.line, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        limit = time.monotonic() + WAIT_S
        try:
            while not self.is_ready():
                if self.process.poll() is not None or time.monotonic() > limit:
                    raise Failed(f"{self.name()} did not start: {self.said()[-300:]}")
                time.sleep(0.02)
            # what says that it listens may still be a moment from the first packet
            time.sleep(0.2)
        except BaseException:
            self.end(signal.SIGKILL)
            raise
        return self

    def name(self):
        """The program and its command, for people."""
        words = [w for w in self.line if "/" in w or w in ("tshark", "tcpdump")] or self.line
        return os.path.basename(words[-1] if len(words) == 1 else words[0])

    def said(self):
        """All that it has printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def cpu(self):
        """Processor seconds so far, with its children."""
        return tree_cpu(self.process.pid)

    def end(self, number=signal.SIGINT):
        """Ends it; gives its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode

    def __exit__(self, kind, *_):
        status = self.end()
        if status != 0 and kind is None and self.said():
            raise Failed(f"{self.name()} ended with {status}: {self.said()[-300:]}")


def measured(line, seconds=600):
    """Runs a program to its end: standard output, processor seconds, most bytes resident."""
    words = ["timeout", "--kill-after=5", str(seconds), *map(str, line)]
    with tempfile.TemporaryFile() as problems:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=problems)
        out = process.stdout.read()
        process.stdout.close()
        # of `timeout` and of what it waited for, which is the program
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            problems.seek(0)
            said = problems.read()[-300:].decode(errors="replace")
            raise Failed(f"{' '.join(words[3:6])} ended with {process.returncode}: {said}")
    return out.decode(errors="replace"), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


READ_TABLE = """import json, sys, pyarrow.parquet as p
json.dump(p.read_table(sys.argv[1], columns=sys.argv[2].split(",")).to_pylist(), sys.stdout, default=str)
"""


def rows(folder, table, columns):
    """Columns of a table of a trace folder, a dictionary for each row."""
    python = ROOT / "target" / "venv" / "bin" / "python"
    if not python.exists():
        raise Failed("pyarrow is missing; remedy: scripts/install test")
    out = pathlib.Path(f"{folder}.tables")
    run([program("wakepath"), "tables", folder, "-o", out], 120, stderr=subprocess.DEVNULL)
    [found] = out.rglob(f"{table}.parquet")
    return json.loads(run([python, "-c", READ_TABLE, found, ",".join(columns)], 120))
