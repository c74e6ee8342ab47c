"""What the tests share: simulated fleets, and what one process says of them. `wakepath`, `wakepath-fleet` and this package must be there."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Questions that reduced hosts answer: the command, and what comes after the folders.
QUESTIONS = [(("requests",), ()), (("requests", "--limit", "0"), ()), (("show",), ("slowest",))]


def run(*line, cwd=None, seconds=120):
    """Runs a program that must end well; its standard output."""
    done = subprocess.run([str(word) for word in line], cwd=cwd, capture_output=True, timeout=seconds, check=False)
    assert done.returncode == 0, f"{line}: {done.stderr.decode()}"
    return done.stdout


def simulate(place, hosts, requests, recordings=1):
    """The recordings of so many hosts."""
    run("wakepath-fleet", place, "--hosts", hosts, "--requests", requests, "--workers", 2, "--recordings", recordings)
    return sorted(path.parent for path in place.rglob("wakepath.json"))


def answers(folders):
    """What one process says of these folders, as text and as JSON."""
    return [run("wakepath", *before, *form, *folders, *after) for before, after in QUESTIONS for form in ((), ("--json",))]


def blocks(document, language):
    """The blocks of a document that are written in a language."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


class InFolder(unittest.TestCase):
    """Each test has a folder of its own."""

    def setUp(self):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="wakepath-test-"))
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.out = self.place / "reduced"
        os.environ.pop("WAKEPATH_PAGER", None)

    def left_over(self):
        """What attempts left in the outcome's folder."""
        return [path.name for path in self.out.iterdir() if path.name.startswith(".") and path.name not in (".hosts.json", ".lock")]
