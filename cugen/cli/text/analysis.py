"""Text of a kernel's analysis: a table of its accesses, the reason of each verdict, then facts of the launch."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from cugen.analysis.verdicts.report import AccessReport
from cugen.cli.resources import Resources
from cugen.cli.text.check import paint_verdict
from cugen.cli.text.layout import filled, fit, table
from cugen.cli.text.terminal import paint, row
from cugen.kernel_report import LaunchReport, Report

_MAX_ACCESS_WIDTH = 40  # characters; longer accesses shift the columns of their row
_HEADINGS = ("access", "warps", "cost", "ideal", "ratio", "verdict")


def analysis_text(report: Report, resources: Resources) -> str:
    """Text of all launches. `resources`: the compiler that reported the registers, or why they are unknown."""
    title = f"{report.kernel}: what each access costs over the whole launch, and what the launch takes"
    lines = [paint(fit(title, sys.stdout), "bold", sys.stdout)]
    lines += row("compiler", resources.compiler or f"none: {resources.reason}")
    for number, launch in enumerate(report.kernels, 1):
        title = f"launch {number} of {len(report.kernels)}: {launch.kernel} on {launch.facts.target}"
        lines += ["", paint(title, "bold", sys.stdout)]
        if launch.accesses:
            lines += ["", *_table(launch), *_reasons(launch)]
        lines.append("")
        topic = ""
        for label, sentence in launch.sentences:
            lines += row("" if label == topic else label, sentence)
            topic = label
    return "\n".join(lines)


def _table(launch: LaunchReport) -> Iterator[str]:
    """Table with a row for each access, followed by its claim."""
    rows = [_HEADINGS, *map(_cells, launch.accesses)]
    head, *texts = table(rows, sys.stdout, right=(1, 2, 3, 4), drop=(1, 3, 4), max_wrapped=_MAX_ACCESS_WIDTH)
    yield head
    for report, text in zip(launch.accesses, texts, strict=True):
        yield paint_verdict(text, report.verdict)
        if report.claim:
            yield fit(f"        {report.claim}", sys.stdout, indent=10)


def _cells(report: AccessReport) -> Sequence[str]:
    """Cells of an access: totals over the launch, or the cost of the worst warp request if a size is unknown."""
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
    """Reasons of the verdicts, once for accesses with the same reason."""
    texts_of_reason: dict[str, list[str]] = {}
    for report in launch.accesses:
        if report.verdict != "unknown":  # its claim contains the reason
            texts_of_reason.setdefault(report.reason, []).append(report.text)
    if texts_of_reason:
        yield ""
    for reason, texts in texts_of_reason.items():
        line = f"{', '.join(dict.fromkeys(texts))}: {reason}"
        yield from filled(line, "  ", "    ")
