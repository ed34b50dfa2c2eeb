"""Diagnostics in the manner of rustc: a code, the place, the quoted line, what is wrong and what would be right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cugen.spec.expressions import Span

QUOTED = 160  # characters of a longer line that are quoted around the place


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `code` is stable and never reused: 1xxx spec, 2xxx memory, 3xxx launch, 4xxx compile, 5xxx run."""

    code: str
    message: str
    file: str
    span: Span
    key: str = ""  # the spec key, such as "arrays.A.memory.pad"
    label: str = ""  # printed under the underlined place
    notes: tuple[str, ...] = ()
    help: str = ""  # the cure
    source_line: str = ""

    def render(self) -> str:
        """The finding as text: a head line, the place, the quoted and underlined line, notes, help, what to read."""
        number = str(self.span.line)
        gutter = " " * len(number)
        lines = [f"error[{self.code}]: {self.message}"]
        if self.span.line:
            lines.append(f"{gutter}--> {self.file}:{self.span.line}:{self.span.column}")
            if self.source_line:
                line = self.source_line.replace("\t", " ")
                first = max(0, self.span.column - QUOTED // 2) if len(line) > QUOTED else 0
                quoted = line[first : first + QUOTED]
                stop = self.span.end_column if self.span.end_line == self.span.line else len(line) + 1
                width = max(1, min(stop - first, len(quoted) + 1) - (self.span.column - first))
                marks = " " * (self.span.column - 1 - first) + "^" * width
                lines += [f"{gutter} |", f"{number} | {quoted}", f"{gutter} | {marks} {self.label}".rstrip()]
        else:
            lines.append(f"{gutter}--> {self.file}")
        if self.key:
            lines.append(f"{gutter} = key: {self.key}")
        lines += [f"{gutter} = note: {note}" for note in self.notes]
        if self.help:
            lines.append(f"{gutter} = help: {self.help}")
        lines.append(f"{gutter} = explain: cugen explain {self.code}")
        return "\n".join(lines)


class SpecError(Exception):
    """A spec was refused; `diagnostics` holds every finding of the file, in the order of their places."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(sorted(diagnostics, key=lambda d: (d.file, d.span.line, d.span.column, d.code)))
        super().__init__("\n\n".join(d.render() for d in self.diagnostics))


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
