"""Layout for the width of a terminal. Elsewhere text stays as it is, so that scripts can read it."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Collection, Iterator, Sequence
from typing import TextIO

MIN_COLUMNS = 60  # narrower terminals are laid out as this one
_USUAL_COLUMNS = 80  # of a terminal that doesn't know
_MIN_WRAPPED_COLUMN = 16  # characters of a table's column that wraps; narrower, it has lines of its own
_LINE_WIDTH = 118  # characters
_GAP = "  "  # between columns of a table
_STYLE = re.compile(r"\033\[[\d;]*m")
_QUOTED = re.compile(r" *\d+ [|>] ")  # source: it is not broken
_MARKS = re.compile(r" *\| +\^+ ")  # below a quoted line, before a label
_LABELS = (
    re.compile(r" *= \w+: "),  # of a note or help
    re.compile(r" *\S+(?: \S+)*? {2,}"),  # of a row
)


def columns(stream: TextIO) -> int | None:
    """The width that text is laid out for: that of a terminal, or None."""
    if not stream.isatty():
        return None
    try:
        width = os.get_terminal_size(stream.fileno()).columns
    except OSError:  # also where there is no descriptor
        width = 0
    return max(MIN_COLUMNS, width or _USUAL_COLUMNS)


def fit(text: str, stream: TextIO, *, indent: int | None = None) -> str:
    """Text with its lines wrapped for a terminal, but quoted source. Wrapped lines are indented to the end of their
    label, or by `indent`."""
    width = columns(stream)
    if width is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in _wrapped(line, width, indent))


def filled(text: str, head: str, margin: str) -> list[str]:
    """Lines of a text of the usual width, or that of a narrower terminal: the first with `head`, others with
    `margin`."""
    width = min(_LINE_WIDTH, columns(sys.stdout) or _LINE_WIDTH)
    return textwrap.wrap(
        text, width, initial_indent=head, subsequent_indent=margin, break_on_hyphens=False, break_long_words=False
    )


def paragraphs(text: str, stream: TextIO) -> str:
    """Markdown with its paragraphs and lists filled to the width of a terminal."""
    width = columns(stream)
    if width is None:
        return text
    blocks: list[str] = []
    is_fenced = is_open = False
    for line in text.split("\n"):
        is_fence = line.startswith("```")
        is_prose = bool(line) and not is_fenced and not is_fence and line[0] not in "#|"
        if is_prose and is_open and not line.startswith("- "):
            blocks[-1] += f" {line.strip()}"
        else:
            blocks.append(line)
        is_open = is_prose
        is_fenced ^= is_fence
    is_fenced = False
    lines: list[str] = []
    for block in blocks:
        is_fenced ^= block.startswith("```")
        lines += [block] if is_fenced else _wrapped(block, width, 2 * block.startswith("- "))
    return "\n".join(lines)


def table(
    rows: Sequence[Sequence[str]],
    stream: TextIO,
    *,
    right: Collection[int] = (),
    drop: Sequence[int] = (),
    wrap: int = 0,
    max_wrapped: int | None = None,
) -> list[str]:
    """A text for each row of a table; columns `right` are aligned to the right. On a terminal the columns `drop` are
    left out, in that order, until it fits, and cells of the column `wrap` are wrapped. `max_wrapped` is the greatest
    width of that column; elsewhere than on a terminal, wider cells shift their row."""
    kept = list(range(len(rows[0])))
    widths = [max(len(row[column]) for row in rows) for column in kept]
    widths[wrap] = min(widths[wrap], max_wrapped or widths[wrap])
    width = columns(stream)
    if width is None:
        return [_line(row, kept, widths, right) for row in rows]

    def remaining_width() -> int:
        """Width that the other columns leave to `wrap`."""
        return width - sum(len(_GAP) + widths[column] for column in kept if column != wrap) - len(_GAP)

    for column in drop:
        if remaining_width() < widths[wrap]:
            kept.remove(column)
    if remaining_width() < min(widths[wrap], _MIN_WRAPPED_COLUMN):
        others = [column for column in kept if column != wrap]
        cells = (textwrap.wrap(row[wrap], width - len(_GAP), break_long_words=False) for row in rows)
        heads = ("\n".join(f"{_GAP}{part}" for part in parts) for parts in cells)
        return [f"{head}\n{_GAP}{_line(row, others, widths, right)}" for head, row in zip(heads, rows, strict=True)]
    widths[wrap] = min(widths[wrap], remaining_width())
    return ["\n".join(_wrapped_row(row, kept, widths, right, wrap)) for row in rows]


def _wrapped_row(
    row: Sequence[str], kept: Sequence[int], widths: Sequence[int], right: Collection[int], wrap: int
) -> Iterator[str]:
    parts = textwrap.wrap(row[wrap], widths[wrap], break_long_words=False, break_on_hyphens=False) or [""]
    yield _line([*row[:wrap], parts[0], *row[wrap + 1 :]], kept, widths, right)
    start = sum(len(_GAP) + widths[column] for column in kept if column < wrap) + len(_GAP)
    yield from (" " * start + part for part in parts[1:])


def _line(row: Sequence[str], kept: Sequence[int], widths: Sequence[int], right: Collection[int]) -> str:
    cells = (f"{row[c]:>{widths[c]}}" if c in right else f"{row[c]:<{widths[c]}}" for c in kept)
    return (_GAP + _GAP.join(cells)).rstrip()


def _wrapped(line: str, width: int, indent: int | None) -> list[str]:
    plain = _STYLE.sub("", line)
    if len(plain) <= width or _QUOTED.match(plain):
        return [line]
    first_words, margin = _margin(plain, width) if indent is None else (0, " " * indent)
    lines, current = [], ""
    for word in re.findall(r" *[^ ]+", line):
        before = _STYLE.sub("", current)
        if before.strip() and len(before) >= first_words and len(before + _STYLE.sub("", word)) > width:
            lines.append(current)
            current, first_words = margin + word.lstrip(" "), 0
        else:
            current += word
    return [*lines, current]


def _margin(plain: str, width: int) -> tuple[int, str]:
    """The length of what stays in the first line, and what the others start with."""
    if marks := _MARKS.match(plain):
        gutter = plain[: plain.index("|") + 1]
        start = marks.end() if marks.end() <= width // 2 else len(gutter) + 4
        return len(marks[0].rstrip()), gutter.ljust(start)
    for pattern in _LABELS:
        if (label := pattern.match(plain)) and label.end() <= width // 2:
            return len(label[0].rstrip()), " " * label.end()
    return 0, " " * (len(plain) - len(plain.lstrip()) + 2)
