"""A Spark cluster on this machine for as long as a command runs: a master and two workers, each a process, on 127.0.0.1.

    python -m wakepath.spark.local [--workers N] COMMAND [ARGUMENT...]

The command finds the cluster through its environment, as `SparkSession.builder.getOrCreate()` does. Needs Java 17 or later.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import pyspark

from wakepath.fleet import end_with_parent

HOME = pathlib.Path(pyspark.__file__).parent
ADDRESS = "127.0.0.1"
# a JVM takes seconds to start, on a busy machine many
START_S = 180
END_S = 20


def free_port():
    """A port of loopback that nobody has now."""
    with socket.socket() as s:
        s.bind((ADDRESS, 0))
        return s.getsockname()[1]


def end_by_signal():
    """Runs in a new process, before its program."""
    end_with_parent(signal.SIGTERM)


def end(processes):
    """Ends these processes with all that they started: the last ones first, since workers tell the master."""
    for process in reversed(processes):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    limit = time.monotonic() + END_S
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, limit - time.monotonic()))
        # the group lasts as long as an executor of a worker that has ended
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def cluster(workers=2):
    """A master and workers with one processor and 1 GiB each, while the context lasts: what to add to a command's environment.

    Raises RuntimeError with the end of their log if they do not start.
    """
    with tempfile.TemporaryDirectory(prefix="wakepath-spark-") as place, contextlib.ExitStack() as stack:
        place = pathlib.Path(place)
        log = place / "log"
        master, page = free_port(), free_port()
        url = f"spark://{ADDRESS}:{master}"
        # Spark's own variables may name another cluster
        shell = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        own = {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": ADDRESS, "PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(place)}
        lines = [f"spark.master {url}", f"spark.driver.host {ADDRESS}", f"spark.local.dir {place / 'local'}", "spark.ui.enabled false"]
        (place / "spark-defaults.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
        processes = []
        stack.callback(end, processes)

        def start(name, *arguments):
            line = [HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", "--host", ADDRESS, *arguments]
            with open(log, "ab") as said:
                streams = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": said}
                # a session of its own, so that all that it starts ends with it; and no cluster outlives whoever is killed
                processes.append(subprocess.Popen(line, env=shell | own, start_new_session=True, preexec_fn=end_by_signal, **streams))

        start("master.Master", "--port", str(master), "--webui-port", str(page))
        until_alive(0, page, processes, log)
        for number in range(workers):
            folder = place / f"worker-{number}"
            start("worker.Worker", "--webui-port", "0", "--cores", "1", "--memory", "1g", "--work-dir", str(folder), url)
        until_alive(workers, page, processes, log)
        yield own


def until_alive(workers, page, processes, log):
    """Waits until the master's page knows so many workers."""
    limit = time.monotonic() + START_S
    while True:
        with contextlib.suppress(OSError, ValueError):
            # a proxy of the environment is not for loopback
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"http://{ADDRESS}:{page}/json/", timeout=5) as answer:
                if json.load(answer)["aliveworkers"] >= workers:
                    return
        if any(process.poll() is not None for process in processes) or time.monotonic() > limit:
            raise RuntimeError(f"Spark did not start:\n{log.read_text(encoding='utf-8', errors='replace')[-2000:]}")
        time.sleep(0.1)


def main():
    parser = argparse.ArgumentParser(prog="python -m wakepath.spark.local", description="Run a command with a Spark cluster of its own.")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="workers, with a processor and 1 GiB each (default: 2)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="what to run")
    args = parser.parse_args()
    if not args.command:
        parser.error("no command is given")
    # ended as by Ctrl-C, so that the cluster ends too
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with cluster(args.workers) as environment:
        return subprocess.run(args.command, env=os.environ | environment, check=False, preexec_fn=end_by_signal).returncode


if __name__ == "__main__":
    sys.exit(main())
