"""Logical lines: splits a block of text into statements."""

from __future__ import annotations


def logical_lines(source: str) -> list[tuple[int, int]]:
    """The offsets of statements: lines, joined while a bracket is open.

    Error recovery: an unclosed bracket ends before the next line that looks like a statement."""
    lines: list[tuple[int, int]] = []
    start = 0
    for part in source.split("\n"):
        lines.append((start, start + len(part)))
        start += len(part) + 1
    statements: list[tuple[int, int]] = []
    first = 0
    while first < len(lines):
        last = first
        depth = _open_brackets(source[slice(*lines[first])])
        while depth > 0 and last + 1 < len(lines):
            last += 1
            depth += _open_brackets(source[slice(*lines[last])])
        if depth > 0:
            later = (line for line in range(first + 1, len(lines)) if _begins_statement(source[slice(*lines[line])]))
            last = next(later, len(lines)) - 1
        statements.append((lines[first][0], lines[last][1]))
        first = last + 1
    return statements


def _open_brackets(line: str) -> int:
    code = line.split("#", 1)[0]
    return sum(code.count(c) for c in "([") - sum(code.count(c) for c in ")]")


def _begins_statement(line: str) -> bool:
    """Whether a line starts with a name, optionally subscripted, followed by `=` or `+=`."""
    code = line.split("#", 1)[0].replace("==", "  ")
    target = code.split("=", 1)[0].rstrip().removesuffix("+").strip()
    name = target.split("[", 1)[0].strip()
    closed = "[" in target and target.endswith("]")
    return "=" in code and name.isidentifier() and _open_brackets(target) == 0 and (closed or name == target)
