"""Where the statements of a block begin and end."""

from __future__ import annotations


def logical_lines(source: str) -> list[tuple[int, int]]:
    """Offsets of statements: lines, joined while a bracket is open. A bracket that nothing closes ends with its line
    where a line below looks like a statement, so that it spoils one statement and not all that follow."""
    lines: list[tuple[int, int]] = []
    start = 0
    for part in source.split("\n"):
        lines.append((start, start + len(part)))
        start += len(part) + 1
    joined: list[tuple[int, int]] = []
    at = 0
    while at < len(lines):
        stop = at
        depth = _open_brackets(source[slice(*lines[at])])
        while depth > 0 and stop + 1 < len(lines):
            stop += 1
            depth += _open_brackets(source[slice(*lines[stop])])
        if depth > 0:
            later = (line for line in range(at + 1, len(lines)) if _begins_statement(source[slice(*lines[line])]))
            stop = next(later, len(lines)) - 1
        joined.append((lines[at][0], lines[stop][1]))
        at = stop + 1
    return joined


def _open_brackets(line: str) -> int:
    code = line.split("#", 1)[0]
    return sum(code.count(c) for c in "([") - sum(code.count(c) for c in ")]")


def _begins_statement(line: str) -> bool:
    """Whether a line begins with a name, perhaps subscripted, and then `=` or `+=`."""
    code = line.split("#", 1)[0].replace("==", "  ")
    target = code.split("=", 1)[0].rstrip().removesuffix("+").strip()
    name = target.split("[", 1)[0].strip()
    closed = "[" in target and target.endswith("]")
    return "=" in code and name.isidentifier() and _open_brackets(target) == 0 and (closed or name == target)
