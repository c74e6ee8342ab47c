"""Wakepath for Python: where the command is. `wakepath.fleet` links many hosts; `wakepath.spark` does so on Apache Spark."""

import os
import shutil
import sysconfig

__all__ = ["program"]

# Where pip puts commands, for all users and for one. Asked once, since `sysconfig` cannot be asked by several threads at first.
FOLDERS = os.pathsep.join([sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")])


def program():
    """The path of the command `wakepath`: what the environment variable WAKEPATH_PROGRAM says, else the one that this package installed, else
    the first on the PATH.

    Raises FileNotFoundError where there is none.
    """
    if "WAKEPATH_PROGRAM" in os.environ:
        return os.environ["WAKEPATH_PROGRAM"]
    found = shutil.which("wakepath", path=FOLDERS) or shutil.which("wakepath")
    if found is None:
        raise FileNotFoundError("the command wakepath is not installed here; remedy: pip install the wheel of wakepath")
    return found
