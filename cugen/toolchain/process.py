"""Execution of compilers as child processes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cugen.toolchain.codes import COMPILER_STUCK
from cugen.toolchain.errors import CompileError

TIMEOUT_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished command; `output` is its standard output and error combined."""

    status: int
    output: str


def run(command: Sequence[str], source_name: str, folder: Path | None = None) -> Finished:
    """Runs `command` in `folder`. CompileError (CG4004) after `TIMEOUT_SECONDS`."""
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
    return Finished(done.returncode, done.stdout.decode(errors="replace"))


def compile_with(command: Sequence[str], source_name: str, folder: Path) -> str:
    """Output of a successful compilation. CompileError for a failed one."""
    finished = run(command, source_name, folder)
    if finished.status:
        raise CompileError(command, finished.output, source_name)
    return finished.output
