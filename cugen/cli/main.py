"""Entry point of `cugen`: imports only the requested subcommand, and turns errors into exit statuses."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn, Protocol, TextIO

from cugen.cli.failures import (
    INTERRUPTED,
    PIPE_CLOSED,
    WRONG_INPUT,
    failure_of,
    own_fault,
    wrong_call,
)
from cugen.cli.text.layout import fit
from cugen.cli.text.terminal import note, paint_findings
from cugen.version import __version__

COMMANDS = {
    "new": "write a commented starter spec, or a copy of an example",
    "generate": "write .cu, .h, .hpp and .json for each spec, or check that they are current",
    "check": "check every memory access against the limits of its spec",
    "fix": "find the smallest padding or swizzle that removes bank conflicts, as a patch of the spec",
    "run": "generate, compile and run kernels, and compare the results with NumPy",
    "inspect": "show the plan, cost analysis, source, PTX and SASS of kernels",
    "report": "write a page of HTML for each kernel, with maps of banks and sectors and the roofline",
    "explain": "explain a diagnostic, with a spec that causes it and a corrected one",
    "bench": "time kernels on the GPU, against a device copy, PyTorch and CuPy",
    "tune": "find the fastest schedules on this machine's GPUs, and write them to cugen.lock",
    "cpu": "write C++ sources that build generated kernels for the CPU, without CUDA",
    "setup": "build PyCUDA for this environment",
    "doctor": "show what this machine supports, and how to install what is missing",
    "config": "print paths for build systems",
}
TITLE = "Turns a YAML spec into CUDA C that people can read, verify, run and commit."
STATUSES = """\
exit status:
  0  done
  1  the check failed: files are stale, a limit is exceeded, or a result is wrong
  2  the spec or an argument is invalid
  3  this machine lacks a requirement; the message says how to get it
  4  an internal error of cugen
"""


class Command(Protocol):
    """Module of a subcommand."""

    __doc__: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def execute(self, args: argparse.Namespace) -> int: ...


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status. `argv`: without the program name."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _dispatch(words)
        sys.stdout.flush()
        return status
    except SystemExit as ended:  # raised by argparse after --help or an invalid option
        return ended.code if isinstance(ended.code, int) else WRONG_INPUT
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _discard(sys.stdout)
        return PIPE_CLOSED
    except Exception as error:
        return _report(error, debug="--debug" in words, gnu="--gnu" in words)


def _open_closed_streams() -> None:
    """Streams that the caller has closed (`>&-`) read and write nothing, and no file gets their number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _dispatch(words: list[str]) -> int:
    if not words or words[0].startswith("-"):
        parser = top_parser()
        parser.parse_args(words)
        parser.print_help(sys.stderr)
        return WRONG_INPUT
    name = words[0]
    if name not in COMMANDS:
        raise wrong_call(f"there is no command `{name}`", _command_help(name, words[1:]))
    command = command_module(name)
    parser = _Parser(f"cugen {name}", description=command.__doc__, allow_abbrev=False)
    add_arguments(command, parser)
    args = parser.parse_args(words[1:])
    with _cache_warnings_as_notes(quiet=args.quiet):
        return command.execute(args)


def _command_help(name: str, others: list[str]) -> str:
    """What to write in place of an unknown command."""
    from cugen.spec.nearest import did_you_mean

    if name == "help":
        return f"write `cugen {' '.join([*others[:1], '--help'])}`"
    if name.endswith((".yaml", ".yml")):
        return f"write the command before the file, as in `cugen check {name}`"
    return did_you_mean(name, COMMANDS, what="commands")


def command_module(name: str) -> Command:
    """The module of one of COMMANDS."""
    command: Command = importlib.import_module(f"cugen.cli.commands.{name}")
    return command


def add_arguments(command: Command, parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of a command, and those of all commands."""
    command.add_arguments(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print only results and errors")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an internal error")
    parser.add_argument("--gnu", action="store_true", help="start findings with file:line:column, like compilers")


class _Parser(argparse.ArgumentParser):
    """A parser whose errors fit the terminal, and name the option that was meant."""

    def error(self, message: str) -> NoReturn:
        from cugen.spec.nearest import nearest

        self.print_usage(sys.stderr)
        _, _, unknown = message.partition("unrecognized arguments: ")
        word, _, _ = unknown.partition("=")
        meant = nearest(word.partition(" ")[0], self._option_string_actions) if word.startswith("--") else None
        help = f"  = help: did you mean `{meant}`?\n" if meant else ""
        self.exit(WRONG_INPUT, fit(f"{self.prog}: error: {message}\n{help}", sys.stderr))


@contextmanager
def _cache_warnings_as_notes(*, quiet: bool) -> Iterator[None]:
    """Context in which each CacheWarning is printed once, like a finding; not with `quiet`."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            from cugen.toolchain.errors import CacheWarning

            if issubclass(category, CacheWarning):
                note(paint_findings(f"warning: {message}", sys.stderr), quiet=quiet)
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def top_parser() -> argparse.ArgumentParser:
    """The parser of a call without a command."""
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:<{width}}  {what}" for name, what in COMMANDS.items())
    parser = _Parser(
        "cugen",
        usage="cugen COMMAND …",
        description=fit(f"{TITLE}\n\ncommands:\n{listed}", sys.stdout),
        epilog=fit(f"`cugen COMMAND --help` describes each command.\n\n{STATUSES}", sys.stdout),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"cugen {__version__}")
    return parser


def _report(error: Exception, *, debug: bool, gnu: bool) -> int:
    failure = failure_of(error, gnu=gnu) or own_fault(error, debug=debug)
    try:
        print(paint_findings(failure.text, sys.stderr), file=sys.stderr, flush=True)
    except OSError:  # a closed pipe, a full disk: the status is what is left to say it by
        _discard(sys.stderr)
    return failure.status


def _discard(stream: TextIO) -> None:
    """What is buffered for a stream, and what follows, goes nowhere: it would raise again when Python closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    sys.exit(main())
