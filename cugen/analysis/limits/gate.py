"""Gate of `cugen check`: findings where a launch exceeds a limit of the spec's `check`.

These are errors. Without a limit, a cost of twice the ideal or more is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cugen.analysis.limits import codes
from cugen.analysis.limits.advice import ADJACENT, Advisor
from cugen.analysis.limits.anchors import Anchor, memory_anchor, statement_anchor
from cugen.analysis.limits.device_limits import DeviceGate
from cugen.analysis.limits.findings import TOLERANCE, Finding, Launch, LaunchLimits, Printed, number
from cugen.analysis.limits.launch_limits import LaunchGate
from cugen.analysis.limits.partition_limits import PartitionGate
from cugen.analysis.verdicts.report import AccessReport
from cugen.machine.requests.banks import worst_conflict
from cugen.machine.requests.warp import WARP_SIZE, WORD_BYTES
from cugen.spec.diagnostics import Related
from cugen.spec.model import Spec

WARNING_RATIO = 2.0  # cost ÷ ideal from which on an access without a limit is a warning

_LIMITS = {"shared": "bank_conflicts", "global": "sectors"}
_CODES = {
    "shared": codes.BANK_CONFLICTS,
    "global": codes.UNCOALESCED,
    "constant": codes.SERIALISED_CONSTANTS,
}
_REMEDIES: Mapping[str, str] = {
    "shared": "`cugen fix` finds a `pad` or `swizzle: xor` without the conflicts",
    "global": ADJACENT,
    "constant": "constant memory serves one address per request: use `memory: readonly` for divergent addresses",
}
_COPIED = (
    "a pad of the tile removes conflicts of the writes; conflicts of the reads need rows of the array that begin in"
    " different banks"
)
_BY_ONE_THREAD = ("tensor_load", "tensor_store", "operand", "barrier")  # of a warp or a block; not `lanes`


def findings(
    spec: Spec, file: str, launch: Launch, printed: Printed, advisor: Advisor | None = None
) -> tuple[Finding, ...]:
    """Findings of one launch: accesses in source order, then the launch. `advisor`: finds what makes accesses to global
    memory cheaper."""
    accesses = _AccessGate(spec, file, launch, printed, advisor)
    return (
        *accesses.run(),
        *LaunchGate(spec, file, launch, printed).run(),
        *DeviceGate(spec, file, launch, printed).run(),
        *PartitionGate(spec, file, launch, printed).run(),
    )


class _AccessGate(LaunchLimits):
    def __init__(self, spec: Spec, file: str, launch: Launch, printed: Printed, advisor: Advisor | None) -> None:
        super().__init__(spec, file, launch, printed)
        self.advisor = advisor

    def run(self) -> Iterator[Finding]:
        for report in self.launch.report.accesses:
            yield from self._access(report)
            yield from self._lanes(report)

    def _access(self, report: AccessReport) -> Iterator[Finding]:
        if report.space == "local":  # held to the limits on the launch
            return
        name = _LIMITS.get(report.space, "")
        limit = self.check.of_array(name, report.access.array.name) if name else None
        if report.verdict != "unknown" and _is_too_costly(report, limit):
            yield self._costly(report, name, limit)
        elif report.doubt and limit is not None and not self.check.allow_unknown:
            doubt = "is unknown" if report.verdict == "unknown" else "relies on an assumption"
            yield self._unproved(report, f"the cost of `{report.text}` {doubt}", name, limit)

    def _lanes(self, report: AccessReport) -> Iterator[Finding]:
        limit = self.check.of_array("lanes", report.access.array.name)
        if limit is None or report.access.kind in _BY_ONE_THREAD:
            return
        totals = report.totals
        if totals is None:
            if not self.check.allow_unknown:
                yield self._unproved(report, f"the active lanes of `{report.text}` are unknown", "lanes", limit)
        elif totals.lanes < limit * WARP_SIZE * totals.warps * (1 - TOLERANCE):
            share = number(totals.lanes / (WARP_SIZE * totals.warps))
            yield self.finding(
                codes.IDLE_LANES,
                f"{share} of the lanes of `{report.text}` are active",
                self._anchor(report),
                label=f"at least {limit:g} is required",
                notes=(
                    f"{totals.lanes:,} of the {WARP_SIZE * totals.warps:,} lanes of {totals.warps:,} warp executions",
                    self.limit_note("lanes", limit),
                ),
                help="choose a `block` of full warps, and extents that are multiples of it",
                subject=f"lanes of {report.access.kind} {report.text}",
                shown=self._shown(report, f"{share} of the lanes are active"),
                kernel=self.kernel.name,
            )

    def _costly(self, report: AccessReport, name: str, limit: float | None) -> Finding:
        ratio = report.cost / report.ideal
        label = f"{number(ratio)} × ideal" + ("" if limit is None else f", limit {limit:g}")
        return self.finding(
            _CODES[report.space],
            self._complaint(report),
            self._anchor(report),
            label=label,
            notes=(*report.reason.split("; "), *((self.limit_note(name, limit),) if limit is not None else ())),
            help=self._remedy(report),
            severity="warning" if limit is None else "error",
            subject=f"{report.access.kind} {report.text}",
            kernel=self.kernel.name,
            shown=self._shown(report, self._bank_conflict(report) or report.claim),
        )

    def _remedy(self, report: AccessReport) -> str:
        if report.space == "global" and self.advisor is not None:
            return self.advisor.advise(report.access.array.name)
        return _COPIED if report.access.kind == "async_copy" else _REMEDIES[report.space]

    def _complaint(self, report: AccessReport) -> str:
        """Message, by the worst request."""
        worst = report.per_request
        assert worst is not None, "an access whose cost is known has figures"
        ways = number(worst.worst / worst.worst_ideal)
        copied = report.access.kind == "async_copy"
        complaint = {
            "shared": f"is copied in {worst.worst} wavefronts" if copied else f"has {ways}-way bank conflicts",
            "constant": f"takes {worst.worst} requests per warp",
            "global": f"moves {worst.worst} sectors per warp",
        }[report.space]
        figures = f", ideal {worst.worst_ideal}"
        if report.totals is not None:  # else sizes are dynamic
            figures = f": {report.cost:,} {report.unit} over the launch, ideal {report.ideal:,}"
        return f"`{report.text}` {complaint} on {self.target.name}{figures}"

    def _bank_conflict(self, report: AccessReport) -> str:
        """Two conflicting lanes of the worst warp; empty for other memory spaces."""
        if report.totals is None or report.space != "shared" or report.access.kind == "async_copy":
            return ""
        array = report.access.array
        width = array.dtype.bytes * report.access.width
        bank_bytes = self.kernel.options.bank_bytes or self.target.bank_modes[0]
        conflict = worst_conflict(report.totals.worst, width, self.target, bank_bytes)
        if conflict is None:
            return ""
        (a, b), (first, second) = conflict.lanes, (WORD_BYTES * word for word in conflict.words)
        return f"lanes {a} and {b}: bytes {first} and {second} of {array.symbol}, both in bank {conflict.bank}"

    def _unproved(self, report: AccessReport, message: str, name: str, limit: float) -> Finding:
        return self.finding(
            codes.UNPROVED,
            message,
            self._anchor(report),
            label=f"can't be held to `{name}`",
            notes=(report.doubt or self.facts.unknown, self.limit_note(name, limit)),
            help=self.allow,
            subject=f"{report.access.kind} {report.text}",
            kernel=self.kernel.name,
            shown=self._shown(report, report.claim),
        )

    def _shown(self, report: AccessReport, message: str) -> Related:
        return self.printed.locate(report.access, report.text, message)

    def _anchor(self, report: AccessReport) -> Anchor:
        if report.space == "global":
            return statement_anchor(self.spec, self.kernel, report.access)
        return memory_anchor(self.spec, self.kernel, report.access)


def _is_too_costly(report: AccessReport, limit: float | None) -> bool:
    if limit is None:
        return report.cost >= WARNING_RATIO * report.ideal > 0
    return report.cost > limit * report.ideal * (1 + TOLERANCE)
