"""Print paths and facts for build systems, one to a line, in the order asked for."""

from __future__ import annotations

import argparse
from pathlib import Path

from cugen.cli.failures import DONE, wrong_call
from cugen.emit.host.cpu import COMPILER_FLAGS, INCLUDES, RUNTIME
from cugen.emit.resources import data_folder
from cugen.version import __version__

_PACKAGE = Path(__file__).resolve().parents[2]
_FACTS = {
    "cmakedir": (_PACKAGE / "cmake", "the folder of cugenConfig.cmake, for -Dcugen_DIR=…"),
    "makefile": (_PACKAGE / "make" / "cugen.mk", "rules for GNU make, to be included"),
    "includes": (INCLUDES, "the headers that let a C++ compiler read a generated .cu"),
    "runtime": (RUNTIME, "the C++ source that plays launches on the CPU; one for a program"),
    "cxxflags": (" ".join((*COMPILER_FLAGS, f"-I{INCLUDES}")), "how a C++ compiler is called for the CPU"),
    "templates": (data_folder("templates"), "the templates of the kernels"),
    "schema": (_PACKAGE / "spec" / "schema" / "cugen-spec-1.json", "the JSON Schema of specs, for editors"),
    "version": (__version__, "cugen's version"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name, (_, what) in _FACTS.items():
        parser.add_argument(f"--{name}", dest="facts", action="append_const", const=name, help=what)


def execute(args: argparse.Namespace) -> int:
    if not args.facts:
        raise wrong_call("nothing was asked for", f"give one of {', '.join(f'--{name}' for name in _FACTS)}")
    for name in args.facts:
        print(_FACTS[name][0])
    return DONE
