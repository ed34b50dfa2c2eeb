"""Output of `cugen check --format json`: one object with all accesses and findings."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from cugen.analysis.launches.facts import BranchFacts
from cugen.analysis.limits.findings import Launch
from cugen.analysis.verdicts.report import AccessReport
from cugen.cli.checked import Checked, Outcome
from cugen.cli.text.quoted_source import PrintedLaunch
from cugen.kernel_report import bounds_content
from cugen.spec.diagnostics import Diagnostic
from cugen.spec.expressions import Span
from cugen.spec.model import Check
from cugen.spec.parse.keys import CHECK_KEYS

Content = dict[str, Any]


def json_text(outcome: Outcome) -> str:
    """JSON object with `passed`, `kernels`, and `refused`: the findings of specs that couldn't be analysed."""
    content = {
        "passed": outcome.passed,
        "kernels": [_kernel(checked) for checked in outcome.kernels],
        "refused": [_finding(diagnostic) for diagnostic in outcome.refused],
    }
    return json.dumps(content, indent=2)


def _kernel(checked: Checked) -> Content:
    spec = checked.kernel.spec
    return {
        "kernel": spec.kernel,
        "file": checked.file,
        "target": spec.target,
        "params": {param.name: checked.params.get(param.name) for param in spec.params},
        "passed": checked.passed,
        "limits": _limits(spec.check),
        "compiler": checked.resources.compiler or None,
        "launches": [
            {**_launch(launch, printed), "bounds": _bounds(launch, checked)}
            for launch, printed in zip(checked.launches, checked.printed, strict=True)
        ],
        "findings": [{**_finding(finding.diagnostic), "launch": finding.kernel} for finding in checked.findings],
    }


def _limits(check: Check) -> Content:
    limits: Content = {name: getattr(check, name) for name in CHECK_KEYS if name != "unknown"}
    for name, array, value in check.by_array:
        limits[name] = {**(limits[name] or {}), array: value}
    return {**limits, "allow_unknown": check.allow_unknown}


def _launch(launch: Launch, printed: PrintedLaunch) -> Content:
    facts = launch.facts
    residency, compiled = facts.occupancy, facts.compiler
    return {
        "kernel": launch.kernel.name,
        "family": launch.kernel.family,
        "grid": facts.launch.grid,
        "block": facts.launch.block,
        "shared_bytes": residency.shared_bytes,
        "registers": residency.registers,
        "spill_bytes": None if compiled is None else compiled.spill_stores + compiled.spill_loads,
        "local_bytes": {"low": facts.local.low, "high": facts.local.high},
        "occupancy": residency.occupancy.fraction,
        "blocks_per_sm": residency.occupancy.blocks_per_sm,
        "limited_by": residency.occupancy.limited_by,
        "branches": [_branch(branch, printed) for branch in facts.branches],
        "accesses": [_access(report, printed) for report in launch.report.accesses],
    }


def _bounds(launch: Launch, checked: Checked) -> list[Content]:
    return bounds_content([claim for claim in checked.kernel.bounds if claim.kernel == launch.kernel.name])


def _branch(branch: BranchFacts, printed: PrintedLaunch) -> Content:
    parting = branch.parting
    return {
        "kind": branch.kind,
        "condition": printed.condition(branch),
        "warps": None if parting is None else parting.warps,
        "mixed_warps": None if parting is None else parting.mixed_warps,
        "reason": branch.reason,
    }


def _access(report: AccessReport, printed: PrintedLaunch) -> Content:
    access, known = report.access, report.totals is not None
    return {
        "text": report.text,
        "line": printed.line_of[access.serial],
        "array": access.array.name,
        "kind": access.kind,
        "space": report.space,
        "bytes_per_lane": access.array.dtype.bytes * access.width,
        "unit": report.unit,
        "cost": report.cost if known else None,
        "ideal": report.ideal if known else None,
        "ratio": report.ratio,
        "per_request": None if report.per_request is None else asdict(report.per_request),
        "verdict": report.verdict,
        "claim": report.claim,
        "reason": report.reason,
        "doubt": report.doubt,
    }


def _finding(finding: Diagnostic) -> Content:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.message,
        "file": finding.file,
        **_span(finding.span),
        "key": finding.key,
        "label": finding.label,
        "notes": finding.notes,
        "help": finding.help,
        "related": [
            {"file": related.file, **_span(related.span), "message": related.message, "source": related.source_line}
            for related in finding.related
        ],
    }


def _span(span: Span) -> Content:
    return {"line": span.line, "column": span.column, "end_line": span.end_line, "end_column": span.end_column}
