"""The library vantage: programs are started with the library, and recorded for a while."""

import os
import subprocess
import time

from .programs import Failed, program, run


def wakepath(*args, env=None):
    """Runs a command of Wakepath."""
    run([program("wakepath"), *map(str, args)], 60, stderr=subprocess.DEVNULL, env=env)


class Library:
    """What programs are started with, and switched on and off by."""

    def __init__(self, folder, *flags):
        self.folder, self.flags = folder, flags
        lines = run([program("wakepath"), "attach-env", "-o", folder], 30).splitlines()
        words = dict(line.removeprefix("export ").split("=", 1) for line in lines)
        self.env = {
            **os.environ,
            "LD_PRELOAD": words["LD_PRELOAD"].split("'")[1],
            "WAKEPATH_ARENA": words["WAKEPATH_ARENA"],
        }

    def __enter__(self):
        # what `wakepath on` starts goes on without us: this one ends as we do, however that is
        line = ["setpriv", "--pdeathsig", "TERM", program("wakepath"), "recorder", "-o", self.folder, *self.flags]
        self.recorder = subprocess.Popen([*map(str, line)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if self.recorder.stdout.readline() != b"ready\n":
            raise Failed("the recorder did not start")
        return self

    def __exit__(self, *_):
        time.sleep(0.1)
        wakepath("off", self.folder)
        self.recorder.wait(20)
        self.recorder.stdout.close()

    def let_others_in(self):
        """A server that changes its user before it starts (PostgreSQL) must be able to write there too."""
        if os.geteuid() == 0:
            os.chmod(self.env["WAKEPATH_ARENA"], 0o666)

    def forget(self):
        """Removes what was made for it."""
        wakepath("off", self.folder, "--forget")
