"""Puts the built program into the wheel: `WAKEPATH_BUILT=DIR` names the folder that cargo wrote it into."""

import os
import pathlib
import platform

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# `wakepath run` looks for them in ../lib/wakepath, beside the folder of the program
LIBRARIES = ("libwakepath_preload.so", "libwakepath_plugin.so")


class BuildHook(BuildHookInterface):
    """A wheel for any Python 3 on one kind of machine, since the program is no extension of Python."""

    def initialize(self, version, build_data):
        if version == "editable":
            return
        built = os.environ.get("WAKEPATH_BUILT")
        if not built:
            raise RuntimeError("WAKEPATH_BUILT is not set: it names the folder with the program; `cargo xtask dist` sets it")
        built = pathlib.Path(built).resolve()
        # only a program that was linked against an old C library may say `manylinux`
        tag = os.environ.get("WAKEPATH_PLATFORM") or f"linux_{platform.machine()}"
        build_data["tag"] = f"py3-none-{tag}"
        build_data["pure_python"] = False
        build_data["shared_scripts"][str(built / "wakepath")] = "wakepath"
        for name in LIBRARIES:
            build_data["shared_data"][str(built / name)] = f"lib/wakepath/{name}"
