"""Findings as GitHub Actions workflow commands, which annotate the lines of a change.

Format and escapes: https://docs.github.com/actions/reference/workflow-commands-for-github-actions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from cugen.spec.diagnostics import Diagnostic


def github_text(diagnostics: Iterable[Diagnostic]) -> str:
    """One line per finding."""
    return "\n".join(map(_annotation, diagnostics))


def relative_path(file: str) -> str:
    """Path relative to the current folder, with forward slashes, as in a repository."""
    return os.path.relpath(file).replace(os.sep, "/")


def details(finding: Diagnostic) -> str:
    """Message of a finding with its notes and helps."""
    locations = [f"{related.file}:{related.span.line}: {related.source_line.strip()}" for related in finding.related]
    said = [f"{location} ({related.message})" for location, related in zip(locations, finding.related, strict=True)]
    helps = [f"help: {finding.help}"] if finding.help else []
    return "\n".join([finding.message, *said, *(f"note: {note}" for note in finding.notes), *helps])


def _annotation(finding: Diagnostic) -> str:
    properties = {"file": relative_path(finding.file)}
    span = finding.span
    if span.line:
        properties |= {"line": str(span.line), "endLine": str(span.end_line)}
    if span.line and span.end_line == span.line:  # GitHub reads columns only for single-line spans
        properties |= {"col": str(span.column), "endColumn": str(span.end_column)}
    properties["title"] = f"{finding.code} {finding.key}".strip()
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{finding.severity} {listed}::{_data(details(finding))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
