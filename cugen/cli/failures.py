"""Failures of a command: a text for the user, and an exit status."""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cugen.spec.diagnostics import Diagnostic

DONE = 0
NO = 1  # stale files, an exceeded limit, a wrong result
WRONG_INPUT = 2
CANNOT_HERE = 3  # the machine lacks a requirement
OWN_FAULT = 4
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
PIPE_CLOSED = 141  # 128 + SIGPIPE

# The modules of the packages that cugen depends on.
PACKAGES = {
    "jinja2": "jinja2",
    "sympy": "sympy",
    "numpy": "numpy",
    "yaml": "pyyaml",
    "ml_dtypes": "ml_dtypes",
    "shtab": "shtab",
}

_MACHINE_ERRORS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE)


class Failure(Exception):
    """Ends a command with `text` on standard error and an exit status. `findings`: the errors of rejected specs."""

    def __init__(self, text: str, status: int = WRONG_INPUT, findings: Sequence[Diagnostic] = ()) -> None:
        self.text = text
        self.status = status
        self.findings = tuple(findings)
        super().__init__(text)


def refused(findings: Sequence[Diagnostic], *, gnu: bool = False) -> Failure:
    """Failure for rejected specs, with their findings."""
    texts = [finding.render(gnu=gnu) for finding in findings]
    text = "\n\n".join([*texts, f"{len(texts)} errors"] if len(texts) > 1 else texts)
    return Failure(text, findings=findings)


def wrong_call(message: str, help: str = "") -> Failure:
    """Failure for wrong arguments. `help`: how to correct them."""
    return Failure(f"error: {message}" + (f"\n  = help: {help}" if help else ""))


@contextmanager
def files_of_the_user() -> Iterator[None]:
    """Context in which file errors of the system are reported as wrong input."""
    try:
        yield
    except OSError as error:
        raise Failure(_system_error(error)) from error


def failure_of(error: BaseException, *, gnu: bool = False) -> Failure | None:
    """Failure that corresponds to an exception; None for an internal error. `gnu`: findings in the format of
    compilers."""
    from cugen.abi.codes import DEVICE_FAULT, NO_GPU, OTHER_ARCHITECTURE
    from cugen.abi.errors import RunError
    from cugen.cluster.errors import ClusterError
    from cugen.emit.overrides import TemplateError
    from cugen.spec.diagnostics import SpecError
    from cugen.toolchain.codes import COMPILE_FAILED
    from cugen.toolchain.errors import BuildError, CompileError, ToolMissing

    match error:
        case Failure(findings=findings):
            return refused(findings, gnu=True) if findings and gnu else error
        case SpecError():
            return refused(error.diagnostics, gnu=gnu)
        case TemplateError():
            return Failure(
                f"error: {error}\n"
                "  = help: a template has each section of the plan once, in the plan's order: docs/adding-a-family.md"
            )
        case RunError(code=code):
            statuses = {NO_GPU: CANNOT_HERE, OTHER_ARCHITECTURE: CANNOT_HERE, DEVICE_FAULT: NO}
            return Failure(str(error), statuses.get(code, WRONG_INPUT))
        case ToolMissing() | BuildError() | ClusterError():
            return Failure(str(error), CANNOT_HERE)
        case CompileError(code=code) if code != COMPILE_FAILED:
            return Failure(str(error), CANNOT_HERE)
        case ModuleNotFoundError(name=str(module)) if module in PACKAGES:
            return Failure(
                f"error: the Python package {PACKAGES[module]} is not installed\n"
                f"  = help: {sys.executable} -m pip install {PACKAGES[module]}",
                CANNOT_HERE,
            )
        case MemoryError():
            return Failure(
                f"error: out of memory{f': {error}' if str(error) else ''}\n"
                "  = help: `--set` gives params smaller values",
                CANNOT_HERE,
            )
        case OSError(errno=number) if number in _MACHINE_ERRORS:
            return Failure(_system_error(error), CANNOT_HERE)
    return None


def own_fault(error: BaseException, *, debug: bool, location: str = "") -> Failure:
    """Failure for an internal error, at a location in the user's files. `debug`: with its traceback."""
    lines = [*traceback.format_exception(error)] if debug else []
    lines.append(f"error: internal error of cugen: {type(error).__name__}: {error}\n")
    lines += [f"  --> {location}\n"] if location else []
    lines.append("  = help: please report it with the spec and the command")
    return Failure("".join(lines) + ("" if debug else ", and the output of `--debug`"), OWN_FAULT)


def _system_error(error: OSError) -> str:
    location = f"{error.filename}: " if error.filename else ""
    reason = "it is a file, not a folder" if isinstance(error, FileExistsError) else error.strerror or error
    return f"error: {location}{reason}"
