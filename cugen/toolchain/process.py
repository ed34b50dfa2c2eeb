"""Execution of compilers as child processes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cugen.toolchain.codes import COMPILER_STUCK
from cugen.toolchain.errors import CompileError, ToolMissing

TIMEOUT_SECONDS = 600

_CURE = "install a compiler that works, and name it in the variable CXX if it is one of C++ that isn't on PATH"


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished command; `output` is its standard output and error combined."""

    status: int
    output: str


def run(command: Sequence[str], source_name: str, folder: Path | None = None) -> Finished:
    """Runs `command` in `folder`. ToolMissing if it can't be started, CompileError (CG4004) after `TIMEOUT_SECONDS`."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_SECONDS,
            env={**os.environ, "LC_ALL": "C"},  # messages are parsed and quoted
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        output = (error.output or b"").decode(errors="replace")
        reason = f"{command[0]} did not finish within {TIMEOUT_SECONDS} s"
        raise CompileError(command, output, source_name, code=COMPILER_STUCK, reason=reason) from None
    except OSError as error:
        raise ToolMissing(f"`{command[0]}`", _CURE, f"can't be started: {error.strerror}") from error
    return Finished(done.returncode, done.stdout.decode(errors="replace"))


def compile_with(command: Sequence[str], source_name: str, folder: Path, result: str = "") -> str:
    """Output of a successful compilation, which makes the file `result` if one is named. CompileError for a failed one,
    ToolMissing where the compiler doesn't say what is wrong."""
    finished = run(command, source_name, folder)
    if finished.status and finished.output.strip():
        raise CompileError(command, finished.output, source_name)
    if finished.status or (result and not (folder / result).exists()):
        how = f"exit status {finished.status}" if finished.status >= 0 else f"signal {-finished.status}"
        problem = f"doesn't compile {source_name}: it ended with {how}, without a message and without a result"
        raise ToolMissing(f"`{command[0]}`", _CURE, problem)
    return finished.output
