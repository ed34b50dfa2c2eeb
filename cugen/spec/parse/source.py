"""The text of a spec's file, and where each character of a YAML scalar stands in it."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field

from cugen.spec.expressions import Span
from cugen.spec.parse.syntax import Text

_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_BLANK = " \t\r\n"
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|\r\n|.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Source:
    """A file's text with the offsets at which its lines start."""

    text: str
    line_starts: tuple[int, ...] = field(default=(), compare=False)

    @staticmethod
    def of(text: str) -> Source:
        return Source(text, (0, *(match.end() for match in _LINE_BREAK.finditer(text))))

    def position(self, offset: int) -> tuple[int, int]:
        """The 1-based line and column of a character."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def span(self, start: int, end: int) -> Span:
        return Span(*self.position(start), *self.position(end))


def scalar_text(source: Source, value: str, style: str, start: int, end: int) -> Text:
    """The text of the scalar that stands at `start .. end` of the source, each character with its position.

    `style` is YAML's: empty for plain, or one of ' " | >. Characters other than blanks stand in the source in the
    order of the value, so both are walked side by side; blanks that folding made take the place of the break.
    """
    at = _content_start(source.text, style, start, end)
    offsets: list[int] = []
    for character in value:
        at = _skip(source.text, character, style, at, end)
        offsets.append(min(at, end))
        at += _width(source.text, character, style, at)
    last = min(at, end)
    return Text(value, tuple(map(source.position, [*offsets, last])))


def _content_start(text: str, style: str, start: int, end: int) -> int:
    if not style:
        return start
    if style in "|>":
        match = _LINE_BREAK.search(text, start, end)
        return match.end() if match else end
    return start + 1


def _skip(text: str, character: str, style: str, at: int, end: int) -> int:
    """Step over blanks and escaped line breaks that stand before `character` and aren't part of the value."""
    if character in _BLANK and not (style == '"' and text[at : at + 1] == "\\"):
        return at
    while at < end and (text[at] in _BLANK or (style == '"' and text[at] == "\\" and text[at + 1 : at + 2] in _BLANK)):
        if text[at] == "\\":
            if character == text[at + 1 : at + 2] and character in " \t":
                return at
            at += 1
        elif text[at] == character:
            return at
        at += 1
    return at


def _width(text: str, character: str, style: str, at: int) -> int:
    if style == "'" and character == "'":
        return 2
    if style == '"' and text[at : at + 1] == "\\":
        match = _ESCAPE.match(text, at)
        return len(match[0]) if match else 1
    if character in _BLANK and text[at : at + 1] not in (*_BLANK,):
        return 0
    if character == "\n" and text[at : at + 2] == "\r\n":
        return 2
    return 1
