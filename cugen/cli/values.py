"""Numbers of a run, and where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SET, DEFAULT = "--set", "default"


@dataclass(frozen=True, slots=True)
class Value:
    """A number of a run. `origin`: `--set`, `default`, the array whose shape has it, or how it was chosen."""

    name: str
    value: int | float | bool
    origin: str

    def __str__(self) -> str:
        return f"{self.name} = {self.value} ({self.origin})"


def plain(values: Sequence[Value]) -> dict[str, int]:
    """The values of params by name."""
    return {value.name: int(value.value) for value in values}
