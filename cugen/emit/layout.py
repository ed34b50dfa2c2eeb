"""Formatting of generated text: no trailing spaces, single empty lines, wrapped statements and comments."""

from __future__ import annotations

import re
import textwrap

LINE_WIDTH = 120
_LAST_LINE_WIDTH = 30  # of a comment, at least
_DEEPEST = 2  # further levels of indentation of a line in more brackets than the first that goes on
_LOOKAHEAD = 4  # characters of the longest operator
_OPENING, _CLOSING = "([{", ")]}"
# Line breaks in order of preference, the loosest first: after a semicolon, a comma, and before these operators.
_BREAKS = ((" ? ",), (" : ",), (" || ",), (" && ",), (" | ", " ^ ", " & "), (" + ", " - "), (" * ", " / "))
_ASSIGNMENT = re.compile(r"[^=!<>]=")
_COMMENT = re.compile(r" *// *")
_CONTINUATION = re.compile(r"(?<!\n//)\n// (?=\S)")
_QUOTE = re.compile(r'\\"')
_REASON = re.compile(r"(?<= )\([^()]{1,60}\)$")
_NO_BREAK = "\u00a0"
_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
_TEMPLATE_ARGUMENT = re.compile(
    r" (?:\d+|true|false)>"
)  # not broken: an access must begin on the line of its statement


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


def unwrapped(text: str) -> str:
    """A text whose comments have each paragraph in one line, for searches."""
    return _CONTINUATION.sub(" ", text)


def _wrapped(line: str) -> list[str]:
    """A statement wrapped at `LINE_WIDTH`, or a comment. Continuation lines are indented by one level, and by one more
    for each bracket, of at most `_DEEPEST`, that they are in and the first one isn't.

    Linear time: lines of tables may have a million characters."""
    stripped = line.lstrip()
    indent = margin = " " * (len(line) - len(stripped))
    end = len(_code(line)) - len(indent)
    if stripped.startswith("#"):
        return [line]
    if stripped.startswith("//"):
        return _wrapped_comment(line)
    pieces: list[str] = []
    start = depth = 0
    first_depth: int | None = None
    while len(margin) + end - start > LINE_WIDTH:
        window = margin + stripped[start : start + LINE_WIDTH + _LOOKAHEAD]
        column = _break(window, len(margin), len(margin) + end - start)
        if column is None:
            break
        pieces.append(window[:column].rstrip())
        depth += _depth(window[len(margin) : column])
        first_depth = depth if first_depth is None else first_depth
        start += column - len(margin)
        start += len(stripped[start : start + LINE_WIDTH]) - len(stripped[start : start + LINE_WIDTH].lstrip())
        margin = indent + "    " * (1 + min(max(0, depth - first_depth), _DEEPEST))
    return [*pieces, margin + stripped[start:]]


def _wrapped_comment(line: str) -> list[str]:
    """Lines of a comment, aligned under its text. None ends in a backslash, which would join it with the next."""
    mark = _COMMENT.match(line)
    if len(line) <= LINE_WIDTH or mark is None:
        return [line]
    text, width = line[mark.end() :], max(LINE_WIDTH - mark.end(), 1)
    pieces = narrower = _paragraph(text, width)
    # A last line with a word or two is filled from those above, as long as that needs no further line.
    while len(narrower) == len(pieces):
        pieces = narrower
        if len(pieces[-1]) >= _LAST_LINE_WIDTH or width < _LAST_LINE_WIDTH:
            break
        width -= 1
        narrower = _paragraph(text, width)
    return [f"{mark[0]}{piece}".rstrip("\\ ") for piece in pieces]


def _paragraph(text: str, width: int) -> list[str]:
    return filled(text, width, break_long_words=False, break_on_hyphens=False)


def filled(text: str, width: int, *, break_long_words: bool = True, break_on_hyphens: bool = True) -> list[str]:
    """Lines of a text, of which none ends within brackets at the end of the text, such as those of a reason."""
    whole = _REASON.sub(lambda reason: reason[0].replace(" ", _NO_BREAK), text)
    lines = textwrap.wrap(whole, width, break_long_words=break_long_words, break_on_hyphens=break_on_hyphens)
    return [line.replace(_NO_BREAK, " ") for line in lines]


def _break(line: str, start: int, width: int) -> int | None:
    """Column of the best break of a text of `width` columns: outside of subscripts, lowest bracket depth, then loosest
    operator, then rightmost. None where only comments and strings are left.

    A break after an assignment is the best of its depth only if the value fits into the next line."""
    best: tuple[bool, bool, int, int, int] | None = None
    depth = subscripts = 0
    quoted = False
    for position, character in enumerate(_code(line)[: LINE_WIDTH + 1]):
        if character == '"' and line[position - 1] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif character in _OPENING:
            depth += 1
            subscripts += character == "["
        elif character in _CLOSING:
            depth -= 1
            subscripts -= character == "]"
        elif character == " " and position > start + 8:
            rank = _looseness(line, position, depth)
            if rank is not None:
                fits = rank > 0 or width - position - 1 <= LINE_WIDTH - start - 4
                candidate = (subscripts == 0, fits, -depth, rank, position)
                best = candidate if best is None else max(best, candidate)
    return None if best is None else best[-1] + 1


def _depth(text: str) -> int:
    """Brackets that the text opens and doesn't close, those of its strings left out."""
    code = _STRING.sub("", text)
    return sum(code.count(bracket) for bracket in _OPENING) - sum(code.count(bracket) for bracket in _CLOSING)


def _looseness(line: str, position: int, depth: int) -> int | None:
    """Rank of a break at a space, the loosest operator highest; 0 after an assignment, None where nothing can end."""
    before = line[position - 1]
    if before in ";,":
        return None if _TEMPLATE_ARGUMENT.match(line, position) else len(_BREAKS) + 1 + (before == ";")
    for rank, operators in enumerate(_BREAKS):
        if line.startswith(operators, position):
            return len(_BREAKS) - rank
    return 0 if depth == 0 and _ASSIGNMENT.match(line, position - 2) else None


def _code(line: str) -> str:
    """The line without its comment."""
    column = line.find("//")
    while column >= 0 and _QUOTE.sub("", line[:column]).count('"') % 2:
        column = line.find("//", column + 2)
    return (line if column < 0 else line[:column]).rstrip()
