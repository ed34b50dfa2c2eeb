"""What goes wrong between a source text and something that runs."""

from __future__ import annotations

from collections.abc import Sequence

from cugen.toolchain.codes import COMPILE_FAILED, TOOL_MISSING


class ToolMissing(Exception):
    """This machine lacks a tool; `cure` is the command, or the sentence, that mends it."""

    def __init__(self, tool: str, cure: str) -> None:
        self.code = TOOL_MISSING
        self.tool = tool
        self.cure = cure
        super().__init__(f"error[{self.code}]: {tool} was not found on this machine\n  = help: {cure}")


class CompileError(Exception):
    """A compiler refused a source. `output` is all it said, `source_name` the file that its line numbers refer to."""

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
