"""Colours and progress on terminals; plain text elsewhere."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import TextIO, TypeVar

from cugen.cli.text.layout import fit

_Item = TypeVar("_Item")

_STYLES = {"bold": "1", "dim": "2", "red": "31;1", "green": "32", "yellow": "33", "blue": "34;1"}
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


def paint_findings(text: str, stream: TextIO) -> str:
    """Findings for a terminal: wrapped, with their heads, locations and helps highlighted."""
    text = fit(text, stream)
    if has_colour(stream):
        for pattern, style in _MARKED:
            text = pattern.sub(f"\033[{_STYLES[style]}m\\1\033[0m", text)
    return text


def note(text: str, *, quiet: bool = False) -> None:
    """Prints a note to standard error."""
    if not quiet:
        print(fit(text, sys.stderr), file=sys.stderr)


def show(text: str) -> None:
    """Prints prose and rows to standard output, where progress and other commands see them at once."""
    print(fit(text, sys.stdout), flush=True)


def progress(items: Iterable[_Item], total: int, what: str, *, quiet: bool = False) -> Iterator[_Item]:
    """Iterates over the items, with a progress bar on standard error if that is a terminal."""
    if quiet or total < 2 or not sys.stderr.isatty():
        yield from items
        return
    try:
        for done, item in enumerate(items, 1):
            filled = _BAR_WIDTH * done // total
            sys.stderr.write(f"\r{what} [{'#' * filled}{' ' * (_BAR_WIDTH - filled)}] {done}/{total}")
            sys.stderr.flush()
            yield item
    finally:
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()
