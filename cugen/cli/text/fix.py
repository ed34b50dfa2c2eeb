"""Output of `cugen fix`: costs before and after, the reason, and the patch; as text or as one JSON object."""

from __future__ import annotations

import difflib
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cugen.analysis.limits.codes import BANK_CONFLICTS
from cugen.analysis.limits.fixes import Fix, LaunchCost
from cugen.analysis.verdicts.report import AccessReport
from cugen.cli.fixed import Fixed, Outcome
from cugen.cli.text.layout import fit
from cugen.cli.text.terminal import paint

if TYPE_CHECKING:
    from cugen.analysis.limits.layouts import LayoutProposal
    from cugen.cli.values import Value
    from cugen.runtime.verify import Run

_LABEL_WIDTH = 14  # characters
_COLOURS = (("---", "bold"), ("+++", "bold"), ("@@", "blue"), ("-", "red"), ("+", "green"))


def fix_text(outcome: Outcome, *, quiet: bool) -> str:
    """Text of the fixes; with `quiet` only the patch."""
    patch = _patch(outcome)
    if quiet:
        return _painted(patch).rstrip("\n")
    lines = [fit(line, sys.stdout) for fixed in outcome.documents for line in _document(fixed, outcome)]
    if patch:
        lines += ["", _painted(patch).rstrip("\n"), ""]
        lines.append(f"wrote {outcome.file}" if outcome.written else "use `--write` to apply the patch")
    return "\n".join(lines)


def json_text(outcome: Outcome) -> str:
    content = {
        "file": outcome.file,
        "cured": outcome.cured,
        "written": outcome.written,
        "device": outcome.device or None,
        "patch": _patch(outcome),
        "documents": [
            {
                "kernels": [spec.kernel for spec in fixed.fixes.specs],
                "target": fixed.fixes.specs[0].target,
                "fixes": [_fix_content(fix) for fix in fixed.fixes.fixes],
                "incurable": [
                    {"array": incurable.array, "reason": incurable.reason, "accesses": _accesses(incurable.accesses)}
                    for incurable in fixed.fixes.incurable
                ],
                "proposals": [asdict(proposal) for proposal in fixed.proposals],
                "unknown": _accesses(fixed.fixes.unknown),
                "runs": [_run_content(name, run, values) for name, (run, values) in fixed.runs.items()],
                "left": [
                    {"code": d.code, "severity": d.severity, "message": d.message, "line": d.span.line}
                    for d in fixed.left
                ],
            }
            for fixed in outcome.documents
        ],
    }
    return json.dumps(content, indent=2)


def _document(fixed: Fixed, outcome: Outcome) -> Iterator[str]:
    specs = fixed.fixes.specs
    head = f"{', '.join(spec.kernel for spec in specs)} on {specs[0].target}"
    if not fixed.fixes.fixes and not fixed.fixes.incurable:
        yield f"{head}: nothing to fix: no access to a shared tile is known to cost more than its ideal"
    for fix in fixed.fixes.fixes:
        yield f"{head}: {paint(f'{fix.rows}', 'green', sys.stdout)} for {fix.array}"
        yield from _fix(fix)
    for name, (run, values) in fixed.runs.items():
        yield _row("verified", _run(name, run, outcome.device, values))
    for incurable in fixed.fixes.incurable:
        yield f"{head}: {paint('no cure', 'yellow', sys.stdout)} for {incurable.array}: {incurable.reason}"
        yield from (_row("costs", _access(report)) for report in incurable.accesses)
    for proposal in fixed.proposals:
        yield f"{head}: proposal: {paint(f'{proposal.change}', 'green', sys.stdout)} for {proposal.array}"
        yield from _proposal(proposal)
    for report in fixed.fixes.unknown:
        yield f"{head}: not fixed: {_access(report)}"
    for finding in fixed.left:
        yield f"{head}: remaining {finding.severity}[{finding.code}]: {finding.message}"
        if finding.code != BANK_CONFLICTS:
            yield _row("cure", finding.help or "none by padding or swizzling a tile")


def _fix(fix: Fix) -> Iterator[str]:
    several = len(fix.costs) > 1
    for before, after in fix.costs:
        if several:
            yield f"  {after.kernel}"
        what = "at the worst request of each access" if after.per_request else "over the launch"
        yield _row("wavefronts", f"{before.wavefronts:,} → {after.wavefronts:,} {what}, ideal {after.ideal:,}")
        yield _row("shared bytes", f"{before.shared_bytes:,} → {after.shared_bytes:,} per block")
        yield _row("occupancy", f"{_occupancy(before)} → {_occupancy(after)}, registers not counted")
    if fix.why:
        yield _row("why", "wavefronts of the worst request by pad:")
        yield from (_row("", law) for law in fix.why)
    yield from (_row("remains", _access(report)) for report in fix.remains)


def _proposal(proposal: LayoutProposal) -> Iterator[str]:
    before, after = proposal.before, proposal.after
    sizes = ", ".join(f"{name} = {size}" for name, size in proposal.sizes.items())
    given = f" at {sizes}" if sizes else ""
    gain = f", {before.moved / after.moved:.3g} times fewer" if after.moved else ""
    yield _row("sectors", f"{before.moved:,} → {after.moved:,}{given}{gain}, ideal {after.ideal:,}")
    yield _row("not patched", f"callers have to store {proposal.array} so")


def _occupancy(cost: LaunchCost) -> str:
    return f"{cost.occupancy.blocks_per_sm} blocks per SM ({cost.occupancy.fraction:.3g})"


def _access(report: AccessReport) -> str:
    return f"{report.access.kind} {report.text}: {report.claim}"


def _run(name: str, run: Run, device: str, values: Sequence[Value]) -> str:
    values_text = "".join(f", {value}" for value in values)
    checked = run.verification
    return (
        f"{name} ran on the {device}{values_text}: {checked.checked} of the outputs' elements right, largest error "
        f"{checked.max_abs_error:.3g}, allowed {checked.tolerance:.3g}"
    )


def _row(label: str, text: str) -> str:
    return f"  {label:<{_LABEL_WIDTH}}{text}"


def _patch(outcome: Outcome) -> str:
    """Unified diff, with the line endings of the file; empty without changes."""
    lines = difflib.unified_diff(
        _lines(outcome.before), _lines(outcome.after), fromfile=outcome.file, tofile=outcome.file
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str) -> list[str]:
    """Lines as counted by patch tools: form feeds and single carriage returns don't end a line."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _painted(patch: str) -> str:
    return "\n".join(map(_painted_line, patch.split("\n")))


def _painted_line(line: str) -> str:
    style = next((style for start, style in _COLOURS if line.startswith(start)), None)
    return paint(line, style, sys.stdout) if style else line


def _fix_content(fix: Fix) -> dict[str, Any]:
    key, value = fix.rows.entry
    return {
        "array": fix.array,
        "set": {key: value if fix.rows.swizzle else fix.rows.pad},
        "launches": [
            {"kernel": after.kernel, "before": _cost(before), "after": _cost(after)} for before, after in fix.costs
        ],
        "why": list(fix.why),
        "remains": _accesses(fix.remains),
    }


def _cost(cost: LaunchCost) -> dict[str, Any]:
    return {
        "wavefronts": cost.wavefronts,
        "ideal": cost.ideal,
        "per_request": cost.per_request,
        "shared_bytes": cost.shared_bytes,
        "blocks_per_sm": cost.occupancy.blocks_per_sm,
        "occupancy": cost.occupancy.fraction,
    }


def _accesses(reports: tuple[AccessReport, ...]) -> list[dict[str, Any]]:
    return [
        {"text": r.text, "kind": r.access.kind, "cost": r.cost, "ideal": r.ideal, "claim": r.claim} for r in reports
    ]


def _run_content(name: str, run: Run, values: Sequence[Value]) -> dict[str, Any]:
    verification = run.verification
    return {
        "kernel": name,
        "dynamic_params": [asdict(value) for value in values],
        "passed": verification.passed,
        "checked": verification.checked,
        "max_abs_error": verification.max_abs_error if math.isfinite(verification.max_abs_error) else None,
        "tolerance": verification.tolerance if math.isfinite(verification.tolerance) else None,
    }
