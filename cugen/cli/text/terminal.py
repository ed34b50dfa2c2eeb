"""Colours and progress on terminals; plain text elsewhere."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import TextIO, TypeVar

from cugen.cli.text.layout import filled, fit

_Item = TypeVar("_Item")

_STYLES = {"bold": "1", "dim": "2", "red": "31;1", "green": "32", "yellow": "33", "blue": "34;1"}
_KINDS = {"comment": "dim", "directive": "yellow", "text": "green", "keyword": "blue"}  # of tokens of code
_LABEL_WIDTH = 11  # characters
_BAR_WIDTH = 24  # characters
_MARKED = (
    (re.compile(r"^(error(?:\[\w+\])?)(?=:)", re.MULTILINE), "red"),
    (re.compile(r"^(warning(?:\[\w+\])?)(?=:)", re.MULTILINE), "yellow"),
    (re.compile(r"(?<=\| )( *\^+.*)$", re.MULTILINE), "red"),
    (re.compile(r"^( *(?:-->|:::))(?= )", re.MULTILINE), "blue"),
    (re.compile(r"(?<= = )(help|note|key|explain)(?=:)", re.MULTILINE), "bold"),
)


def has_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal without NO_COLOR (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, stream: TextIO) -> str:
    return f"\033[{_STYLES[style]}m{text}\033[0m" if has_colour(stream) else text


def row(label: str, text: str) -> list[str]:
    """Lines of a labelled text; without a label it continues the row above."""
    first, *others = filled(text, f"  {label:<{_LABEL_WIDTH}}", " " * (_LABEL_WIDTH + 2)) or [""]
    return [first.replace(label, paint(label, "blue", sys.stdout), 1) if label else first, *others]


def paint_findings(text: str, stream: TextIO) -> str:
    """Findings for a terminal: wrapped, with their heads, locations and helps highlighted."""
    text = fit(text, stream)
    if has_colour(stream):
        for pattern, style in _MARKED:
            text = pattern.sub(f"\033[{_STYLES[style]}m\\1\033[0m", text)
    return text


def paint_code(source: str, stream: TextIO) -> str:
    """CUDA C, PTX or machine code with its comments, keywords and directives highlighted."""
    if not has_colour(stream):
        return source
    from cugen.html.highlight import tokens

    return "\n".join(
        "".join(paint(text, _KINDS[kind], stream) if text and kind else text for kind, text in line)
        for line in tokens(source)
    )


class _Bar:
    """The progress bar on standard error. What is printed meanwhile takes its place."""

    _is_drawn = False

    def draw(self, text: str) -> None:
        sys.stderr.write(f"\r{text}")
        sys.stderr.flush()
        self._is_drawn = True

    def clear(self) -> None:
        if self._is_drawn:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
        self._is_drawn = False


_BAR = _Bar()


def note(text: str, *, quiet: bool = False) -> None:
    """Prints a note to standard error, unless it is empty."""
    if text and not quiet:
        _BAR.clear()
        print(fit(text, sys.stderr), file=sys.stderr)


def show(text: str) -> None:
    """Prints text to standard output at once, and on a terminal within its width."""
    _BAR.clear()
    print(fit(text, sys.stdout), flush=True)


def progress(items: Iterable[_Item], total: int, what: str, *, quiet: bool = False) -> Iterator[_Item]:
    """Iterates over the items, with a progress bar on standard error if that is a terminal."""
    if quiet or total < 2 or not sys.stderr.isatty():
        yield from items
        return
    try:
        for done, item in enumerate(items, 1):
            bar = "#" * (_BAR_WIDTH * done // total)
            _BAR.draw(f"{what} [{bar:<{_BAR_WIDTH}}] {done}/{total}")
            yield item
    finally:
        _BAR.clear()
