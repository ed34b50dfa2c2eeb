"""The command `cugen`: finds the subcommand, imports only that, and turns what goes wrong into an exit status."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Protocol

from cugen.cli.failures import (
    INTERRUPTED,
    OWN_FAULT,
    PIPE_CLOSED,
    WRONG_INPUT,
    Failure,
    failure_of,
    refused,
    wrong_call,
)
from cugen.cli.text.terminal import paint_findings
from cugen.version import __version__

COMMANDS = {
    "new": "write a commented starter spec",
    "generate": "write .cu, .h and .json for each spec, or check that they are current",
    "check": "hold every memory access to the limits of its spec",
    "fix": "find the smallest padding or swizzle that clears bank conflicts, as a patch of the spec",
    "run": "generate, compile, run, and compare with the NumPy reference",
    "inspect": "show everything known about one kernel",
    "explain": "say what a diagnostic means, with a spec that shows it and one that cures it",
    "bench": "time kernels on the GPU beside a device copy, and beside PyTorch and CuPy",
    "tune": "find the fastest schedules on this machine's GPUs, and keep them in cugen.lock",
    "cpu": "write what lets a C++ compiler build generated kernels where there is no CUDA",
    "doctor": "say what this machine can do, and what mends each lack",
    "config": "print paths for build systems",
}
_TITLE = "Turns a YAML spec into CUDA C that people can read, verify, run and commit."
_STATUSES = """\
exit status:
  0  done
  1  the answer is no: files are stale, a limit is passed, the result differs
  2  the spec or the call is wrong
  3  this machine can't do it; the message says what mends that
  4  a fault of cugen's own
"""


class Command(Protocol):
    """A module of this package with the name of a command."""

    __doc__: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def execute(self, args: argparse.Namespace) -> int: ...


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; the exit status. `argv` is without the program's name."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _dispatch(words)
        sys.stdout.flush()
        return status
    except SystemExit as ended:  # argparse, after --help or a wrong option
        return ended.code if isinstance(ended.code, int) else WRONG_INPUT
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # What is still buffered would raise again when Python closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except Exception as error:
        return _report(error, debug="--debug" in words, gnu="--gnu" in words)


def _dispatch(words: list[str]) -> int:
    if not words or words[0].startswith("-"):
        parser = _top_parser()
        parser.parse_args(words)
        parser.print_help(sys.stderr)
        return WRONG_INPUT
    name = words[0]
    if name not in COMMANDS:
        from cugen.spec.nearest import did_you_mean

        raise wrong_call(f"there is no command `{name}`", did_you_mean(name, COMMANDS, what="commands"))
    command: Command = importlib.import_module(f"cugen.cli.commands.{name}")
    parser = argparse.ArgumentParser(f"cugen {name}", description=command.__doc__, allow_abbrev=False)
    command.add_arguments(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but the answer and errors")
    parser.add_argument("--debug", action="store_true", help="show the traceback of a fault of cugen's own")
    parser.add_argument("--gnu", action="store_true", help="begin findings with file:line:column, as compilers do")
    return command.execute(parser.parse_args(words[1:]))


def _top_parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:<{width}}  {what}" for name, what in COMMANDS.items())
    parser = argparse.ArgumentParser(
        "cugen",
        usage="cugen COMMAND …",
        description=f"{_TITLE}\n\ncommands:\n{listed}",
        epilog=f"`cugen COMMAND --help` says more about each.\n\n{_STATUSES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"cugen {__version__}")
    return parser


def _report(error: Exception, *, debug: bool, gnu: bool) -> int:
    failure = failure_of(error)
    if failure is not None and failure.findings and gnu:
        failure = refused(failure.findings, gnu=True)
    if failure is None:
        failure = Failure(
            f"error: a fault of cugen's own: {type(error).__name__}: {error}\n"
            "  = help: please report it with the spec and the command"
            + ("" if debug else ", and with what `--debug` adds here"),
            OWN_FAULT,
        )
        if debug:
            traceback.print_exception(error)
    print(paint_findings(failure.text, sys.stderr), file=sys.stderr)
    return failure.status


if __name__ == "__main__":
    sys.exit(main())
