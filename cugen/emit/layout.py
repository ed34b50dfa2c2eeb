"""The last pass over generated text: no blanks at line ends, single empty lines, and lines that fit a screen."""

from __future__ import annotations

_WIDTH = 112
_OPENING, _CLOSING = "([{", ")]}"
# Where a line may break, the loosest operator first; the break stands before the operator, after a comma.
_BREAKS = ((" ? ", " : "), (" || ",), (" && ",), (", ",), (" + ", " - "), (" * ", " / "))


def tidy(text: str) -> str:
    lines = [piece for line in text.splitlines() for piece in _wrapped(line.rstrip())]
    kept = [line for n, line in enumerate(lines) if line or (n and lines[n - 1])]
    kept = [
        line
        for n, line in enumerate(kept)
        if line or (kept[n - 1] != "{" and n + 1 < len(kept) and kept[n + 1].strip() != "}")
    ]
    return "\n".join(kept).strip("\n") + "\n"


def _wrapped(line: str) -> list[str]:
    """A long statement over several lines, the later ones indented by one more level."""
    stripped = line.lstrip()
    if len(line) <= _WIDTH or stripped.startswith(("//", "#")):
        return [line]
    indent = " " * (len(line) - len(stripped))
    place = _break(line, len(indent))
    if place is None:
        return [line]
    first, rest = line[:place].rstrip(), line[place:].lstrip()
    return [first, *_continued(indent + "    " + rest)]


def _continued(line: str) -> list[str]:
    """The rest of a statement: every further line keeps the indent of the first continuation."""
    if len(line) <= _WIDTH:
        return [line]
    indent = len(line) - len(line.lstrip())
    place = _break(line, indent)
    if place is None:
        return [line]
    return [line[:place].rstrip(), *_continued(" " * indent + line[place:].lstrip())]


def _break(line: str, start: int) -> int | None:
    """The last place within the width at the least depth of brackets, among the loosest operators found there."""
    best: tuple[int, int, int] | None = None
    depth = 0
    for position, character in enumerate(line[: _WIDTH + 1]):
        if character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character == " " and position > start + 8:
            for rank, operators in enumerate(_BREAKS):
                comma = line[position - 1] == ","
                if (comma and rank == 3) or line.startswith(operators, position):
                    candidate = (-depth, -rank, position)
                    if best is None or candidate > best:
                        best = candidate
                    break
    return None if best is None else best[2] + 1
