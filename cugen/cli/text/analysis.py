"""The analysis of a kernel for reading: a table of its accesses, what stands behind each verdict, then the facts."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from cugen.analysis.verdicts.report import AccessReport
from cugen.cli.resources import Resources
from cugen.kernel_report import LaunchReport, Report

_WIDTH = 118
_LABEL = 11
_TEXT = 40  # a longer access pushes its own row's columns to the right
_HEADINGS = ("access", "warps", "cost", "ideal", "ratio", "verdict")


def analysis_text(report: Report, resources: Resources) -> str:
    """All launches in order. `resources` say which compiler the registers come from, or why they aren't known."""
    lines = [f"{report.kernel}: what each access costs over the whole launch, and what the launch takes"]
    lines += _row("compiler", resources.compiler or f"none: {resources.reason}")
    for number, launch in enumerate(report.kernels, 1):
        lines += ["", f"launch {number} of {len(report.kernels)}: {launch.kernel} on {launch.facts.target}"]
        if launch.accesses:
            lines += ["", *_table(launch), *_reasons(launch)]
        lines.append("")
        topic = ""
        for label, sentence in launch.sentences:
            lines += _row("" if label == topic else label, sentence)
            topic = label
    return "\n".join(lines)


def _table(launch: LaunchReport) -> Iterator[str]:
    """A row for each access, and its claim below it."""
    rows = [_HEADINGS, *map(_cells, launch.accesses)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    widths[0] = min(widths[0], _TEXT)
    claims = ["", *(report.claim for report in launch.accesses)]
    for row, claim in zip(rows, claims, strict=True):
        numbers = (f"{cell:>{width}}" for cell, width in zip(row[1:-1], widths[1:-1], strict=True))
        yield f"  {row[0]:<{widths[0]}}  {'  '.join(numbers)}  {row[-1]}"
        if claim:
            yield f"        {claim}"


def _cells(report: AccessReport) -> Sequence[str]:
    """Totals over the launch; where a size isn't known, what the worst request of a warp costs."""
    access = f"{report.access.kind:<5} {report.text}"
    ratio = "?" if report.ratio is None else f"{report.ratio:.2f}"
    if report.totals is not None:
        warps, cost, ideal = f"{report.totals.warps:,}", f"{report.cost:,} {report.unit}", f"{report.ideal:,}"
    elif report.per_request is not None:
        each = report.per_request
        warps, cost, ideal = "each", f"{each.worst:,} {report.unit}", f"{each.worst_ideal:,}"
    else:
        warps = cost = ideal = "?"
    return access, warps, cost, ideal, ratio, report.verdict


def _reasons(launch: LaunchReport) -> Iterator[str]:
    """What stands behind each verdict, once for all accesses that share it."""
    texts_of_reason: dict[str, list[str]] = {}
    for report in launch.accesses:
        if report.verdict != "unknown":  # its claim has said it all
            texts_of_reason.setdefault(report.reason, []).append(report.text)
    if texts_of_reason:
        yield ""
    for reason, texts in texts_of_reason.items():
        line = f"{', '.join(dict.fromkeys(texts))}: {reason}"
        yield from textwrap.wrap(line, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _row(label: str, text: str) -> list[str]:
    head, indent = f"  {label:<{_LABEL}}", " " * (_LABEL + 2)
    return textwrap.wrap(text, _WIDTH, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False)
