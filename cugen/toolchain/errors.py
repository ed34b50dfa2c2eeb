"""Errors of the toolchain."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cugen.toolchain.codes import BUILD_FAILED, COMPILE_FAILED, TOOL_MISSING


class ToolMissing(Exception):
    """A tool is not installed, or not as it should be (`problem`); `cure` says how to install it."""

    def __init__(self, tool: str, cure: str, problem: str = "was not found on this machine") -> None:
        self.code = TOOL_MISSING
        self.tool = tool
        self.cure = cure
        self.problem = problem
        super().__init__(f"error[{self.code}]: {tool} {problem}\n  = help: {cure}")

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle: a process may compile for another."""
        return ToolMissing, (self.tool, self.cure, self.problem)


class CompileError(Exception):
    """A failed compilation. `output` is the compiler's, `source_name` the file of its line numbers."""

    def __init__(
        self, command: Sequence[str], output: str, source_name: str, *, code: str = COMPILE_FAILED, reason: str = ""
    ) -> None:
        self.code = code
        self.command = tuple(command)
        self.output = output
        self.source_name = source_name
        self.reason = reason or f"the compiler refused {source_name}"
        super().__init__(
            f"error[{code}]: {self.reason}\n{output.rstrip()}\n  = note: the command was: {' '.join(command)}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle: a process may compile for another."""
        make = partial(CompileError, code=self.code, reason=self.reason)
        return make, (self.command, self.output, self.source_name)


class BuildError(Exception):
    """A package that can't be built; `cure` says what helps, `log` has the output of the build."""

    def __init__(self, package: str, reason: str, cure: str, log: Path) -> None:
        self.code = BUILD_FAILED
        super().__init__(
            f"error[{self.code}]: {package} can't be built: {reason}\n  = help: {cure}\n  = note: the log is {log}\n"
            f"  = explain: cugen explain {self.code}"
        )


class CacheWarning(UserWarning):
    """The cache is damaged or can't be written. Results are the same, and take longer."""
