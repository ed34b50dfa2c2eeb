"""Statements of C++ as a tree, and their text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Controlled:
    """A statement such as `for (…)`, and what it controls."""

    head: str
    body: list[Code] = field(default_factory=list)


Code = str | Controlled


def text_of(code: Sequence[Code], indent: str = "    ") -> Iterator[str]:
    """Lines of code, with braces where more than one statement is controlled."""
    for statement in code:
        if isinstance(statement, str):
            yield indent + statement
            continue
        has_braces = len(statement.body) > 1
        yield f"{indent}{statement.head}{' {' if has_braces else ''}"
        yield from text_of(statement.body, indent + "    ")
        if has_braces:
            yield f"{indent}}}"
