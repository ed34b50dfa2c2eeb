"""Diagnostics in the style of rustc: code, message, location, quoted span, notes and help."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from cugen.spec.expressions import Span

MAX_QUOTED_CHARACTERS = 160  # of a source line; longer ones are cut around the span
# White space that separates nothing in YAML, and characters without a width. They come with text copied from pages.
_INVISIBLE = re.compile(r"[^\S \t]|[\u00ad\u200b-\u200d\u2060]")


@dataclass(frozen=True, slots=True)
class Related:
    """A secondary location of a diagnostic, such as a line of the generated source; quoted below the primary one."""

    file: str
    span: Span
    message: str
    source_line: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One diagnostic. `code` is stable and never reused: 1xxx spec, 2xxx memory, 3xxx launch, 4xxx compile, 5xxx run.

    `severity` is error or warning; warnings don't reject a spec."""

    code: str
    message: str
    file: str
    span: Span
    key: str = ""  # the spec key, such as "arrays.A.memory.pad"
    label: str = ""  # printed after the underline of the span
    notes: tuple[str, ...] = ()
    help: str = ""  # how to fix it
    source_line: str = ""
    severity: str = "error"
    related: tuple[Related, ...] = ()

    def render(self, *, gnu: bool = False) -> str:
        """The diagnostic as text: a head line, the locations with their quoted and underlined spans, notes and help.

        With `gnu` the head line is `file:line:column: error: …`, which build tools and editors parse."""
        gutter = " " * max(len(str(span.line)) for span in (self.span, *(r.span for r in self.related)))
        quoted = _quote("-->", gutter, self.file, self.span, self.source_line, self.label)
        if gnu:
            position = f"{self.span.line}:{self.span.column}" if self.span.line else "1:1"
            lines = [f"{self.file}:{position}: {self.severity}: {self.message} [{self.code}]", *quoted[1:]]
        else:
            lines = [f"{self.severity}[{self.code}]: {self.message}", *quoted]
        for related in self.related:
            lines += _quote(":::", gutter, related.file, related.span, related.source_line, related.message)
        if self.key:
            lines.append(f"{gutter} = key: {self.key}")
        lines += [f"{gutter} = note: {note}" for note in self.notes]
        if self.help:
            lines.append(f"{gutter} = help: {self.help}")
        lines.append(f"{gutter} = explain: cugen explain {self.code}")
        return "\n".join(lines)


def _quote(arrow: str, gutter: str, file: str, span: Span, source_line: str, label: str) -> list[str]:
    """A location with its quoted, underlined line; the file alone for a span without a line."""
    if not span.line:
        return [f"{gutter}{arrow} {file}"]
    lines = [f"{gutter}{arrow} {file}:{span.line}:{span.column}"]
    if source_line:
        line = source_line.replace("\t", " ")
        first = max(0, span.column - MAX_QUOTED_CHARACTERS // 2) if len(line) > MAX_QUOTED_CHARACTERS else 0
        quoted = line[first : first + MAX_QUOTED_CHARACTERS]
        stop = span.end_column if span.end_line == span.line else len(line) + 1
        width = max(1, min(stop - first, len(quoted) + 1) - (span.column - first))
        marks = " " * (span.column - 1 - first) + "^" * width
        number = f"{span.line:>{len(gutter)}}"
        lines += [f"{gutter} |", f"{number} | {quoted}", f"{gutter} | {marks} {label}".rstrip()]
    return lines


class SpecError(Exception):
    """A rejected spec; `diagnostics` holds all diagnostics of the file, sorted by location."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(sorted(diagnostics, key=lambda d: (d.file, d.span.line, d.span.column, d.code)))
        super().__init__("\n\n".join(d.render() for d in self.diagnostics))

    def __reduce__(self) -> tuple[type[SpecError], tuple[tuple[Diagnostic, ...]]]:
        return SpecError, (self.diagnostics,)  # errors of other processes

    @property
    def summary(self) -> str:
        """The first diagnostic in one line."""
        first = self.diagnostics[0]
        return first.message + (f": {'; '.join(first.notes)}" if first.notes else "")


class Reporter:
    """Collects the diagnostics of one file. Checks continue after an error, so that one run reports all of them."""

    def __init__(self, file: str, text: str = "") -> None:
        self.file = file
        self._lines = text.splitlines()
        self.diagnostics: list[Diagnostic] = []

    def error(
        self,
        code: str,
        message: str,
        span: Span,
        *,
        key: str = "",
        label: str = "",
        notes: tuple[str, ...] = (),
        help: str = "",
    ) -> None:
        """Adds an error, quoting the line of `span`; duplicates are dropped. A note names what can't be seen in it."""
        line = self._lines[span.line - 1] if 0 < span.line <= len(self._lines) else ""
        if unseen := _INVISIBLE.search(line.partition(" #")[0]):
            number = f"U+{ord(unseen[0]):04X}"
            notes += (f"column {unseen.start() + 1} has the invisible character {number}, which is no blank of YAML",)
        diagnostic = Diagnostic(code, message, self.file, span, key, label, notes, help, line)
        if diagnostic not in self.diagnostics:
            self.diagnostics.append(diagnostic)

    @property
    def failed(self) -> bool:
        """Whether an error was reported."""
        return bool(self.diagnostics)

    def raise_if_failed(self) -> None:
        """Raises SpecError with all diagnostics, if there are any."""
        if self.diagnostics:
            raise SpecError(self.diagnostics)
