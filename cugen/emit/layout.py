"""Formatting of generated text: no trailing spaces, single empty lines, wrapped statements."""

from __future__ import annotations

import re

_LINE_WIDTH = 112
_LOOKAHEAD = 4  # characters of the longest operator
_OPENING, _CLOSING = "([{", ")]}"
# Line breaks in order of preference: before these operators, and after a comma.
_BREAKS = ((" ? ", " : "), (" || ",), (" && ",), (", ",), (" + ", " - "), (" * ", " / "))
_QUOTE = re.compile(r'\\"')
_TEMPLATE_ARGUMENT = re.compile(r" \d+>")  # not broken: an access must begin on the line of its statement


def tidy(text: str) -> str:
    return "\n".join(line for line, _ in tidy_lines([(line, "") for line in text.splitlines()])) + "\n"


def tidy_lines(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """`tidy` for pairs of a line and a note; pieces of a wrapped line share its note."""
    pieces = [(piece, note) for line, note in lines for piece in _wrapped(line.rstrip())]
    single = [piece for n, piece in enumerate(pieces) if piece[0] or (n and pieces[n - 1][0])]
    while single and not single[0][0]:
        del single[0]
    while single and not single[-1][0]:
        del single[-1]
    return [
        piece
        for n, piece in enumerate(single)
        if piece[0] or (single[n - 1][0] != "{" and single[n + 1][0].strip() != "}")
    ]


def _wrapped(line: str) -> list[str]:
    """A statement wrapped at `_LINE_WIDTH`, continuation lines indented by one level.

    Linear time: lines of tables may have a million characters."""
    stripped = line.lstrip()
    indent = margin = " " * (len(line) - len(stripped))
    end = len(_code(line)) - len(indent)
    if stripped.startswith("#"):
        return [line]
    pieces: list[str] = []
    start = 0
    while len(margin) + end - start > _LINE_WIDTH:
        window = margin + stripped[start : start + _LINE_WIDTH + _LOOKAHEAD]
        column = _break(window, len(margin))
        if column is None:
            break
        pieces.append(window[:column].rstrip())
        start += column - len(margin)
        start += len(stripped[start : start + _LINE_WIDTH]) - len(stripped[start : start + _LINE_WIDTH].lstrip())
        margin = indent + "    "
    return [*pieces, margin + stripped[start:]]


def _break(line: str, start: int) -> int | None:
    """Column of the best break: lowest bracket depth, then lowest operator precedence, then rightmost. None where only
    comments and strings are left."""
    best: tuple[int, int, int] | None = None
    depth = 0
    quoted = False
    for position, character in enumerate(_code(line)[: _LINE_WIDTH + 1]):
        if character == '"' and line[position - 1] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character == " " and position > start + 8:
            for rank, operators in enumerate(_BREAKS):
                comma = line[position - 1] == "," and not _TEMPLATE_ARGUMENT.match(line, position)
                if (comma and rank == 3) or line.startswith(operators, position):
                    candidate = (-depth, -rank, position)
                    if best is None or candidate > best:
                        best = candidate
                    break
    return None if best is None else best[2] + 1


def _code(line: str) -> str:
    """The line without its comment."""
    column = line.find("//")
    while column >= 0 and _QUOTE.sub("", line[:column]).count('"') % 2:
        column = line.find("//", column + 2)
    return (line if column < 0 else line[:column]).rstrip()
