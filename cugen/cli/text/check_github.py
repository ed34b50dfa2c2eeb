"""Findings as workflow commands of GitHub Actions, which show them beside the lines of a change.

The form and its escapes: https://docs.github.com/actions/reference/workflow-commands-for-github-actions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from cugen.spec.diagnostics import Diagnostic


def github_text(diagnostics: Iterable[Diagnostic]) -> str:
    """One line for each finding; empty without any."""
    return "\n".join(map(_annotation, diagnostics))


def relative_path(file: str) -> str:
    """A file as a repository names it, where the current folder is in one: from here, with slashes."""
    return os.path.relpath(file).replace(os.sep, "/")


def details(found: Diagnostic) -> str:
    """The message with all that is said below it."""
    places = [f"{other.file}:{other.span.line}: {other.source_line.strip()}" for other in found.related]
    said = [f"{place} ({other.message})" for place, other in zip(places, found.related, strict=True)]
    helps = [f"help: {found.help}"] if found.help else []
    return "\n".join([found.message, *said, *(f"note: {note}" for note in found.notes), *helps])


def _annotation(found: Diagnostic) -> str:
    properties = {"file": relative_path(found.file)}
    span = found.span
    if span.line:
        properties |= {"line": str(span.line), "endLine": str(span.end_line)}
    if span.line and span.end_line == span.line:  # columns are only read for a single line
        properties |= {"col": str(span.column), "endColumn": str(span.end_column)}
    properties["title"] = f"{found.code} {found.key}".strip()
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{found.severity} {listed}::{_data(details(found))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
