"""Source text with line offsets, and the source position of each character of a YAML scalar."""

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
    """A file's text with the offsets of its lines."""

    text: str
    line_starts: tuple[int, ...] = field(default=(), compare=False)

    @staticmethod
    def of(text: str) -> Source:
        """Indexes the lines of a text."""
        return Source(text, (0, *(match.end() for match in _LINE_BREAK.finditer(text))))

    def position(self, offset: int) -> tuple[int, int]:
        """The 1-based line and column of a character."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def span(self, start: int, end: int) -> Span:
        """The span of a range of offsets."""
        return Span(*self.position(start), *self.position(end))


def scalar_text(source: Source, value: str, style: str, start: int, end: int) -> Text:
    """The text of the scalar at `start .. end` of the source, with the position of each character.

    `style` is YAML's: empty for plain, or one of ' " | >. Nonblank characters have the same order in the source and in
    the value, so both are traversed in lockstep; a blank from line folding has the position of the line break.
    """
    offset = _content_start(source.text, style, start, end)
    offsets: list[int] = []
    for character in value:
        offset = _skip(source.text, character, style, offset, end)
        offsets.append(min(offset, end))
        offset += _width(source.text, character, style, offset)
    last = min(offset, end)
    return Text(value, tuple(map(source.position, [*offsets, last])))


def _content_start(text: str, style: str, start: int, end: int) -> int:
    if not style:
        return start
    if style in "|>":
        match = _LINE_BREAK.search(text, start, end)
        return match.end() if match else end
    return start + 1


def _skip(text: str, character: str, style: str, offset: int, end: int) -> int:
    """Skips blanks and escaped line breaks before `character` that aren't part of the value."""
    if character in _BLANK and not (style == '"' and text[offset : offset + 1] == "\\"):
        return offset
    while offset < end and (
        text[offset] in _BLANK or (style == '"' and text[offset] == "\\" and text[offset + 1 : offset + 2] in _BLANK)
    ):
        if text[offset] == "\\":
            if character == text[offset + 1 : offset + 2] and character in " \t":
                return offset
            offset += 1
        elif text[offset] == character:
            return offset
        offset += 1
    return offset


def _width(text: str, character: str, style: str, offset: int) -> int:
    if style == "'" and character == "'":
        return 2
    if style == '"' and text[offset : offset + 1] == "\\":
        match = _ESCAPE.match(text, offset)
        return len(match[0]) if match else 1
    if character in _BLANK and text[offset : offset + 1] not in (*_BLANK,):
        return 0
    if character == "\n" and text[offset : offset + 2] == "\r\n":
        return 2
    return 1
