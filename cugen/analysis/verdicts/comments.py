"""Comments of the analysis in a generated file: a claim per access, and in the head a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from cugen.analysis.pipelines.proof import prove_pipeline
from cugen.analysis.verdicts.dynamic import analyze_any_size
from cugen.analysis.verdicts.report import AccessReport, KernelReport
from cugen.plan.context import Context
from cugen.plan.kernel import Plan
from cugen.plan.remarks import Remarks

_ORDER = ("ideal", "costly", "assumed", "unknown")


def reports_of(context: Context, plan: Plan, *, space: str | None = None) -> tuple[KernelReport, ...]:
    """The report of each launch for the spec's target; for sizes known at launch only, the worst over all allowed.

    With a `space`, of the accesses in that memory space alone."""
    spec = context.spec
    params = {context.symbols[p.name].name: p.value for p in spec.params if p.value is not None}
    open_ = {context.symbols[p.name].name: p.multiple_of for p in spec.params if p.value is None}
    return tuple(analyze_any_size(kernel, spec.target, params, open_, space=space) for kernel in plan.kernels)


def remarks_on(plan: Plan, reports: Sequence[KernelReport], bounds: str = "", *, lists_ideal: bool = False) -> Remarks:
    """Claims of all launches; the head has the line `bounds`, too. With `lists_ideal`, those of ideal accesses are
    listed in the head."""
    accesses = [access for report in reports for access in report.accesses]
    listed = {access.access.serial: access.claim for access in accesses if lists_ideal and access.verdict == "ideal"}
    claims = {access.access.serial: access.claim for access in accesses if access.access.serial not in listed}
    summary = *_summary(plan.context.spec.target, accesses), *_barriers(accesses)
    return Remarks(claims, summary, listed, _pipelines(plan), bounds)


def _barriers(accesses: list[AccessReport]) -> Iterator[str]:
    """A line on mbarriers, whose accesses aren't reported."""
    if any(access.access.kind == "operand" for access in accesses):
        yield "mbarriers: one address per warp, so without bank conflicts; how often waits poll is not static"


def _pipelines(plan: Plan) -> tuple[str, ...]:
    """What is proved of each kernel's pipeline, with its name if there are several kernels."""
    proofs = [proof for kernel in plan.kernels if (proof := prove_pipeline(kernel)) is not None]
    return tuple(f"{proof.kernel}: {proof.line}" if len(plan.kernels) > 1 else proof.line for proof in proofs)


def _summary(target: str, accesses: list[AccessReport]) -> tuple[str, ...]:
    """Number of accesses by verdict, and the one with the largest ratio."""
    verdicts = Counter(access.verdict for access in accesses)
    counts = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in _ORDER if verdicts[verdict])
    lines = [f"{target}: {len(accesses)} accesses, {counts}"]
    costly = [access for access in accesses if access.ratio is not None and access.ratio > 1]
    if costly:
        worst = max(costly, key=lambda access: access.ratio or 0)
        lines.append(f"worst: {worst.text}, {worst.claim}")
    return tuple(lines)
