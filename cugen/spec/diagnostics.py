"""Diagnostics in the manner of rustc: a code, the place, the quoted line, what is wrong and what would be right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cugen.spec.expressions import Span

QUOTED = 160  # characters of a longer line that are quoted around the place


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that a finding speaks of, such as a line of the generated source; quoted below its own."""

    file: str
    span: Span
    message: str
    source_line: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `code` is stable and never reused: 1xxx spec, 2xxx memory, 3xxx launch, 4xxx compile, 5xxx run.

    `severity` is error, or warning for what refuses nothing."""

    code: str
    message: str
    file: str
    span: Span
    key: str = ""  # the spec key, such as "arrays.A.memory.pad"
    label: str = ""  # printed under the underlined place
    notes: tuple[str, ...] = ()
    help: str = ""  # the cure
    source_line: str = ""
    severity: str = "error"
    related: tuple[Related, ...] = ()

    def render(self, *, gnu: bool = False) -> str:
        """The finding as text: a head line, the places with their quoted and underlined lines, notes, help, what to
        read. With `gnu` the head is `file:line:column: error: …`, which build tools and editors know from compilers."""
        gutter = " " * max(len(str(place.line)) for place in (self.span, *(r.span for r in self.related)))
        place = _place("-->", gutter, self.file, self.span, self.source_line, self.label)
        if gnu:
            at = f"{self.span.line}:{self.span.column}" if self.span.line else "1:1"
            lines = [f"{self.file}:{at}: {self.severity}: {self.message} [{self.code}]", *place[1:]]
        else:
            lines = [f"{self.severity}[{self.code}]: {self.message}", *place]
        for other in self.related:
            lines += _place(":::", gutter, other.file, other.span, other.source_line, other.message)
        if self.key:
            lines.append(f"{gutter} = key: {self.key}")
        lines += [f"{gutter} = note: {note}" for note in self.notes]
        if self.help:
            lines.append(f"{gutter} = help: {self.help}")
        lines.append(f"{gutter} = explain: cugen explain {self.code}")
        return "\n".join(lines)


def _place(arrow: str, gutter: str, file: str, span: Span, source_line: str, label: str) -> list[str]:
    """Where something stands, with its line quoted and underlined; the file alone where there is no line."""
    if not span.line:
        return [f"{gutter}{arrow} {file}"]
    lines = [f"{gutter}{arrow} {file}:{span.line}:{span.column}"]
    if source_line:
        line = source_line.replace("\t", " ")
        first = max(0, span.column - QUOTED // 2) if len(line) > QUOTED else 0
        quoted = line[first : first + QUOTED]
        stop = span.end_column if span.end_line == span.line else len(line) + 1
        width = max(1, min(stop - first, len(quoted) + 1) - (span.column - first))
        marks = " " * (span.column - 1 - first) + "^" * width
        number = f"{span.line:>{len(gutter)}}"
        lines += [f"{gutter} |", f"{number} | {quoted}", f"{gutter} | {marks} {label}".rstrip()]
    return lines


class SpecError(Exception):
    """A spec was refused; `diagnostics` holds every finding of the file, in the order of their places."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(sorted(diagnostics, key=lambda d: (d.file, d.span.line, d.span.column, d.code)))
        super().__init__("\n\n".join(d.render() for d in self.diagnostics))

    @property
    def summary(self) -> str:
        """The first finding in one line."""
        first = self.diagnostics[0]
        return first.message + (f": {'; '.join(first.notes)}" if first.notes else "")


class Reporter:
    """Collects the findings of one file; every check goes on after an error, so that all of them are seen at once."""

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
        line = self._lines[span.line - 1] if 0 < span.line <= len(self._lines) else ""
        finding = Diagnostic(code, message, self.file, span, key, label, notes, help, line)
        if finding not in self.diagnostics:
            self.diagnostics.append(finding)

    @property
    def failed(self) -> bool:
        return bool(self.diagnostics)

    def raise_if_failed(self) -> None:
        if self.diagnostics:
            raise SpecError(self.diagnostics)
