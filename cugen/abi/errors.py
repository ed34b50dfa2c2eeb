"""The error of a refused call."""

from __future__ import annotations

from typing import Any


class RunError(Exception):
    """A refused call. `code` is one of cugen.abi.codes; `help` says how to fix it, where that is known."""

    def __init__(self, code: str, message: str, help: str = "") -> None:
        self.code = code
        self.message = message
        self.help = help
        lines = [f"error[{code}]: {message}"]
        if help:
            lines.append(f"  = help: {help}")
        super().__init__("\n".join([*lines, f"  = explain: cugen explain {code}"]))

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle: a process may run kernels for another."""
        return RunError, (self.code, self.message, self.help)
