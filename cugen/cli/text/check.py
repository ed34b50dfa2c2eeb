"""Text of `cugen check`: a table of all accesses, then the findings with their source lines."""

from __future__ import annotations

import sys

from cugen.analysis.bounds.claims import bounds_summary
from cugen.analysis.limits.findings import Launch
from cugen.analysis.verdicts.report import AccessReport
from cugen.cli.checked import Checked, Outcome
from cugen.cli.text.layout import fit, table
from cugen.cli.text.terminal import paint, paint_findings

_COLOURS = {"ideal": "green", "costly": "yellow"}
_COLUMNS = ("", "access", "memory", "cost", "ideal", "ratio", "verdict")


def check_text(outcome: Outcome, *, quiet: bool, gnu: bool = False) -> str:
    """Tables, findings (`gnu`: in the format of compilers) and a summary line; with `quiet` only the findings."""
    parts: list[str] = []
    for checked in outcome.kernels:
        if not quiet:
            parts += [_table(launch, checked) for launch in checked.launches]
        parts += [paint_findings(finding.diagnostic.render(gnu=gnu), sys.stdout) for finding in checked.findings]
    if not quiet:
        parts.append(fit(_summary(outcome), sys.stdout))
    return "\n\n".join(parts)


def _table(launch: Launch, checked: Checked) -> str:
    given = ", ".join(
        f"{p.name} = {checked.params[p.name]}"
        for p in checked.kernel.spec.params
        if p.name in checked.params and p.is_dynamic
    )
    title = f"{launch.kernel.name} on {launch.report.target}" + (f", {given}" if given else "")
    rows = [_COLUMNS, *(_row(report) for report in launch.report.accesses)]
    head, *texts = table(rows, sys.stdout, right=(3, 4, 5), drop=(2, 4, 5), wrap=1)
    lines = [paint(fit(title, sys.stdout), "bold", sys.stdout), head]
    lines += map(paint_verdict, texts, (report.verdict for report in launch.report.accesses))
    claims = [claim for claim in checked.kernel.bounds if claim.kernel == launch.kernel.name]
    if any(claim.verdict != "proved" for claim in claims):
        lines.append(fit(f"bounds: {bounds_summary(claims)}", sys.stdout))
    return "\n".join(lines)


def paint_verdict(row: str, verdict: str) -> str:
    """A row of a table with its verdict coloured."""
    before, _, after = row.rpartition(verdict)
    return f"{before}{paint(verdict, _COLOURS.get(verdict, 'blue'), sys.stdout)}{after}"


def _row(report: AccessReport) -> tuple[str, ...]:
    known = report.totals is not None
    return (
        report.access.kind,
        report.text,
        "local" if report.space == "local" else report.access.array.space,
        f"{report.cost:,} {report.unit}" if known else "?",
        f"{report.ideal:,}" if known else "?",
        f"{report.ratio:.2f}" if report.ratio is not None else "?",
        report.verdict,
    )


def _summary(outcome: Outcome) -> str:
    kernels = len(outcome.kernels)
    counts = {kind: sum(finding.severity == kind for finding in outcome.diagnostics) for kind in ("error", "warning")}
    said = [f"{count} {kind}{'s' * (count > 1)}" for kind, count in counts.items() if count]
    limited = sum(checked.kernel.spec.check.spans != () for checked in outcome.kernels)
    limits = "no limits are set" if not limited else "all limits kept" if outcome.passed else "limits exceeded"
    return f"{kernels} kernel{'s' * (kernels > 1)} checked: " + ", ".join([limits, *said])
