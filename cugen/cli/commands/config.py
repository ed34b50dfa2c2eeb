"""Print paths and flags for build systems, one per line, in the order of the options."""

from __future__ import annotations

import argparse
from pathlib import Path

from cugen.cli.failures import DONE, wrong_call
from cugen.cli.shell.completion import SHELLS, completion
from cugen.emit.host.cpu import COMPILER_FLAGS, INCLUDES, RUNTIME
from cugen.emit.resources import SCHEMA, data_folder
from cugen.version import __version__

_PACKAGE = Path(__file__).resolve().parents[2]
_FACTS = {
    "cmakedir": (_PACKAGE / "cmake", "folder of cugenConfig.cmake, for -Dcugen_DIR=…"),
    "makefile": (_PACKAGE / "make" / "cugen.mk", "GNU make rules, to be included"),
    "includes": (INCLUDES, "folder of the headers with which a C++ compiler reads a generated .cu"),
    "runtime": (RUNTIME, "C++ source that runs launches on the CPU; link it once per program"),
    "cxxflags": (" ".join((*COMPILER_FLAGS, f"-I{INCLUDES}")), "C++ compiler flags for the CPU"),
    "templates": (data_folder("templates"), "folder of the kernel templates"),
    "schema": (SCHEMA, "JSON Schema of specs, for editors"),
    "version": (__version__, "cugen's version"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name, (_, what) in _FACTS.items():
        parser.add_argument(f"--{name}", dest="facts", action="append_const", const=name, help=what)
    parser.add_argument("--completion", choices=SHELLS, help="print the script with which a shell completes `cugen`")


def execute(args: argparse.Namespace) -> int:
    if args.completion:
        print(completion(args.completion))
        return DONE
    if not args.facts:
        options = ", ".join(f"--{name}" for name in (*_FACTS, "completion"))
        raise wrong_call("no option was given", f"give one of {options}")
    for name in args.facts:
        print(_FACTS[name][0])
    return DONE
