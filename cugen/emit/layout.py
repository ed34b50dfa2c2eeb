"""The last pass over generated text: no blanks at line ends, single empty lines, and lines that fit a screen."""

from __future__ import annotations

import re

_WIDTH = 112
_LOOKAHEAD = 4  # characters of the longest operator
_OPENING, _CLOSING = "([{", ")]}"
# Where a line may break, the loosest operator first; the break stands before the operator, after a comma.
_BREAKS = ((" ? ", " : "), (" || ",), (" && ",), (", ",), (" + ", " - "), (" * ", " / "))
_QUOTE = re.compile(r'\\"')
_TEMPLATE_ARGUMENT = re.compile(r" \d+>")  # no break before it: an access begins on the line of its statement


def tidy(text: str) -> str:
    return "\n".join(line for line, _ in tidy_lines([(line, "") for line in text.splitlines()])) + "\n"


def tidy_lines(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Lines and what is known of each; pieces of a wrapped line share what was known of it."""
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
    """A long statement over several lines, the later ones indented by one more level. Tables may have a million
    characters in a line, so only what fits the next one is looked at."""
    stripped = line.lstrip()
    indent = margin = " " * (len(line) - len(stripped))
    end = len(_code(line)) - len(indent)
    if stripped.startswith("#"):
        return [line]
    pieces: list[str] = []
    at = 0
    while len(margin) + end - at > _WIDTH:
        window = margin + stripped[at : at + _WIDTH + _LOOKAHEAD]
        place = _break(window, len(margin))
        if place is None:
            break
        pieces.append(window[:place].rstrip())
        at += place - len(margin)
        at += len(stripped[at : at + _WIDTH]) - len(stripped[at : at + _WIDTH].lstrip())
        margin = indent + "    "
    return [*pieces, margin + stripped[at:]]


def _break(line: str, start: int) -> int | None:
    """The last place within the width at the least depth of brackets, among the loosest operators found there; none
    in a comment or a string."""
    best: tuple[int, int, int] | None = None
    depth = 0
    quoted = False
    for position, character in enumerate(_code(line)[: _WIDTH + 1]):
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
    place = line.find("//")
    while place >= 0 and _QUOTE.sub("", line[:place]).count('"') % 2:
        place = line.find("//", place + 2)
    return (line if place < 0 else line[:place]).rstrip()
