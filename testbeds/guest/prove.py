"""Records nginx → an application → Redis in the guest of `scripts/guest-proof --paths`, by the kernel vantage and by the
preload library, and holds the paths against what was sent and what the application wrote down. Its annotations must come, too.

Exit 0 where each path that is called complete has just its messages, no link is wrong, no mark is missing, and all paths are
complete: by the kernel vantage those of one client, and nearly all of several. Of several at once nothing but habit shows which of
them nginx worked on, and a habit must have been seen often enough: of 100 requests too few are, of ten times as many they are.
How long a request lasted is not held against the client's clock: an emulated processor comes back late from sending.
"""

import json
import pathlib
import signal
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path("/tmp/paths")
REQUESTS, SEVERAL = 100, 4
# of several clients, and the least of them that must be complete by the kernel vantage
MANY, MANY_COMPLETE = 1200, 1140
COMMANDS = 2
# an emulated processor is slow
PATIENCE_S = 180


def start(*line, log):
    with open(HERE / log, "wb") as out:
        return subprocess.Popen([str(word) for word in line], stdout=out, stderr=out, stdin=subprocess.DEVNULL)


def wait_for(what, is_there):
    end = time.monotonic() + PATIENCE_S
    while not is_there():
        if time.monotonic() > end:
            sys.exit(f"paths: {what} did not come in {PATIENCE_S} s")
        time.sleep(0.3)


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=20) as reply:
            return reply.status == 200
    except OSError:
        return False


def load(url, clients, requests, truth):
    """Sends; what was sent, a line each."""
    line = ["vload", "--url", url, "--connections", str(clients), "--requests", str(requests)]
    line += ["--mix", "/item=1", "--truth", str(truth)]
    subprocess.run(line, check=True, timeout=PATIENCE_S, stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in truth.read_text().splitlines()]


def of_kernel(url, clients):
    """A recording of everything, while requests come."""
    ready, trace, truth = [HERE / f"{name}-{clients}" for name in ("ready", "kernel", "sent")]
    load(url, clients, 4 * clients, HERE / f"warm-{clients}")
    recorder = start("wakepath", "record", "--payload", "heads", "-o", trace, "--ready-file", ready, log="record")
    wait_for("the recording", lambda: recorder.poll() is not None or (ready.exists() and ready.stat().st_size > 0))
    requests, least = (REQUESTS, REQUESTS) if clients == 1 else (MANY, MANY_COMPLETE)
    sent = load(url, clients, requests, truth)
    time.sleep(1)
    recorder.send_signal(signal.SIGINT)
    if recorder.wait(PATIENCE_S) != 0:
        sys.exit(f"paths: record exited with {recorder.returncode}: {(HERE / 'record').read_text()[-2000:]}")
    return judge(f"kernel vantage, clients: {clients}", trace, truth, sent, 1 + COMMANDS, least)


def of_library(redis_port):
    """The application alone, started under the preload library, without the kernel's help."""
    trace, truth, port = HERE / "library", HERE / "library.jsonl", 8001
    app = start(
        *("wakepath", "run", "--payload", "heads", "-o", trace, "--"),
        *("python3", "/srv/app.py", port, redis_port, HERE / "app.log"),
        log="run",
    )
    url = f"http://127.0.0.1:{port}"
    wait_for("the application under the library", lambda: app.poll() is not None or answers(f"{url}/"))
    if app.poll() is not None:
        sys.exit(f"paths: run exited with {app.returncode}: {(HERE / 'run').read_text()[-2000:]}")
    sent = load(url, SEVERAL, REQUESTS, truth)
    time.sleep(1)
    app.send_signal(signal.SIGINT)
    app.wait(PATIENCE_S)
    print("\n".join((HERE / "run").read_text().splitlines()[-6:]))
    return judge(f"preload library, clients: {SEVERAL}", trace, truth, sent, COMMANDS, REQUESTS)


def judge(name, trace, truth, sent, messages, least):
    """Prints what was found; whether all of it is right."""
    subprocess.run(["wakepath", "info", str(trace)], check=False)
    info = json.loads(subprocess.run(["wakepath", "info", "--json", str(trace)], stdout=subprocess.PIPE, check=True).stdout)
    marks = sum(table["rows"] for table in info["hosts"][0]["tables"] if table["table"] == "marks")
    subprocess.run(["wakepath", "requests", str(trace)], check=False)
    line = ["wakepath-score", str(trace), str(truth), "--rid", "--messages", str(messages)]
    found = json.loads(subprocess.run([*line, "--json"], stdout=subprocess.PIPE, check=False).stdout)
    paths, links = found["paths"], found["links"]
    log = dict(line.split() for line in (HERE / "app.log").read_text().splitlines())
    answered = [line for line in sent if line.get("status") == 200]
    logged = sum(log.get(line["rid"]) == str(COMMANDS) for line in answered)
    rows = [
        ("requests sent", len(sent)),
        ("answered, and in the application's own log", logged),
        ("found exactly once", paths["found_once"]),
        ("paths called complete", paths["reported"]),
        ("of these with just their messages", paths["correct_but_for_duration"]),
        ("links right", links["right"]),
        ("links to a wrong parent", links["wrong_parent"]),
        ("marks of the application's annotations", marks),
    ]
    print(f"guest: {name}")
    for what, number in rows:
        print(f"guest:   {number:>6}  {what}")
    ok = (
        logged == paths["found_once"] == len(sent)
        and paths["reported"] == paths["correct_but_for_duration"]
        and paths["reported"] >= least
        and links["right"] >= paths["reported"] * messages
        and links["wrong_parent"] == 0
        and marks >= 2 * len(sent)
    )
    if not ok:
        subprocess.run([*line, "--show", "3", "--show-incomplete", "3"], check=False)
    return ok


def main():
    HERE.mkdir()
    start("redis-server", *"--port 6379 --bind 127.0.0.1 --appendonly no --save".split(), "", log="redis")
    start("python3", "/srv/app.py", 8000, 6379, HERE / "app.log", log="app")
    start("nginx", "-c", "/srv/nginx.conf", log="nginx")
    url = "http://127.0.0.1:8081"
    wait_for("the servers", lambda: answers(f"{url}/") and answers(f"{url}/item?rid=first"))
    results = [of_kernel(url, 1), of_kernel(url, SEVERAL), of_library(6379)]
    sys.exit(0 if all(results) else 1)


main()
