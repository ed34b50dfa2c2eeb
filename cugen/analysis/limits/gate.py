"""Gate of `cugen check`: findings where a launch exceeds a limit of the spec's `check`.

These are errors. Without a limit, a cost of twice the ideal or more is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from cugen.analysis.launches.facts import BranchFacts, Facts
from cugen.analysis.limits import codes
from cugen.analysis.limits.advice import ADJACENT, Advisor
from cugen.analysis.limits.anchors import Anchor, kernel_anchor, memory_anchor, statement_anchor
from cugen.analysis.pipelines.proof import prove_pipeline
from cugen.analysis.verdicts.report import AccessReport, KernelReport
from cugen.machine import target as known_target
from cugen.machine.requests.banks import worst_conflict
from cugen.machine.requests.warp import WORD_BYTES
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access
from cugen.spec.diagnostics import Diagnostic, Related
from cugen.spec.expressions import NOWHERE
from cugen.spec.model import Spec

WARNING_RATIO = 2.0  # cost ÷ ideal from which on an access without a limit is a warning
_TOLERANCE = 1e-9  # relative, for the rounding of limits such as 1.1

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
_CONSTANT_SUBSCRIPTS = (
    "index register arrays by constants and unrolled loops only, or use `memory: shared` or `constant` for the array"
)
_ALLOW = "`unknown: allow` under `check` accepts unproved accesses"


class Printed(Protocol):
    """Generated source of the kernel."""

    def locate(self, access: Access, text: str, message: str) -> Related:
        """Location of an access in the .cu, where it is printed as `text`."""

    def condition(self, branch: BranchFacts) -> str:
        """Condition of a guard, branch or loop, in C; of an expression, what may branch in it."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Kernel with its report and facts."""

    kernel: Kernel
    report: KernelReport
    facts: Facts


@dataclass(frozen=True, slots=True)
class Finding:
    """Diagnostic about one launch; `subject` identifies it independently of figures and lines."""

    diagnostic: Diagnostic
    kernel: str
    subject: str


def findings(
    spec: Spec, file: str, launch: Launch, printed: Printed, advisor: Advisor | None = None
) -> tuple[Finding, ...]:
    """Findings of one launch: accesses in source order, then the launch. `advisor`: finds what makes accesses to global
    memory cheaper."""
    return tuple(_Gate(spec, file, launch, printed, advisor).run())


class _Gate:
    def __init__(self, spec: Spec, file: str, launch: Launch, printed: Printed, advisor: Advisor | None) -> None:
        self.advisor = advisor
        self.spec, self.file, self.launch, self.printed = spec, file, launch, printed
        self.kernel, self.facts = launch.kernel, launch.facts
        self.check = spec.check
        self.target = known_target(launch.report.target)
        self.lines = spec.text.splitlines()

    def run(self) -> Iterator[Finding]:
        for report in self.launch.report.accesses:
            yield from self._access(report)
        yield from self._pipeline()
        yield from self._grid()
        yield from self._mixed_warps()
        yield from self._occupancy()
        yield from self._spills()
        yield from self._local_memory()

    # Accesses

    def _access(self, report: AccessReport) -> Iterator[Finding]:
        if report.space == "local":  # held to the limits on the launch
            return
        name = _LIMITS.get(report.space, "")
        limit: float | None = getattr(self.check, name) if name else None
        unproved = limit is not None and not self.check.allow_unknown
        if report.verdict == "unknown":
            if unproved:
                yield self._unproved(report, f"the cost of `{report.text}` is unknown", name)
            return
        if _is_too_costly(report, limit):
            yield self._costly(report, name, limit)
        elif report.verdict == "assumed" and unproved:
            yield self._unproved(report, f"the cost of `{report.text}` relies on an assumption", name)

    def _costly(self, report: AccessReport, name: str, limit: float | None) -> Finding:
        ratio = report.cost / report.ideal
        label = f"{_number(ratio)} × ideal" + ("" if limit is None else f", limit {limit:g}")
        return self._finding(
            _CODES[report.space],
            self._complaint(report),
            self._anchor(report),
            label=label,
            notes=(*report.reason.split("; "), *((self._limit_note(name),) if limit is not None else ())),
            help=self._remedy(report),
            severity="warning" if limit is None else "error",
            subject=f"{report.access.kind} {report.text}",
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
        ways = _number(worst.worst / worst.worst_ideal)
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

    def _unproved(self, report: AccessReport, message: str, name: str) -> Finding:
        return self._finding(
            codes.UNPROVED,
            message,
            self._anchor(report),
            label=f"can't be held to `{name}`",
            notes=(report.doubt, self._limit_note(name)),
            help=_ALLOW,
            subject=f"{report.access.kind} {report.text}",
            shown=self._shown(report, report.claim),
        )

    def _shown(self, report: AccessReport, message: str) -> Related:
        return self.printed.locate(report.access, report.text, message)

    def _anchor(self, report: AccessReport) -> Anchor:
        if report.space == "global":
            return statement_anchor(self.spec, self.kernel, report.access)
        return memory_anchor(self.spec, self.kernel, report.access)

    # The launch

    def _pipeline(self) -> Iterator[Finding]:
        proof = prove_pipeline(self.kernel)
        for claim in proof.claims if proof is not None else ():
            if claim.verdict == "refuted":
                yield self._finding(
                    codes.REFUTED_PIPELINE,
                    f"the synchronisation of {self.kernel.name} is wrong: {claim.name}: {claim.reason}",
                    kernel_anchor(self.spec, self.kernel),
                    label="would give wrong results, or never end",
                    notes=("this is a defect of the generator, not of the spec",),
                    help="take another `family` under `schedule`, and report the spec",
                    subject=f"pipeline {claim.name}",
                )

    def _grid(self) -> Iterator[Finding]:
        launch = self.facts.launch
        if launch.grid is None:
            return
        for axis, blocks, limit in zip("xyz", launch.grid, launch.grid_limits, strict=True):
            if blocks > limit:
                yield self._finding(
                    codes.LARGE_GRID,
                    f"{self.kernel.name} has a grid of {blocks} blocks along {axis}; {self.target.name} allows {limit}",
                    kernel_anchor(self.spec, self.kernel),
                    label="can't be launched with these sizes",
                    notes=("the launcher refuses such sizes with cudaErrorInvalidValue",),
                    help="use a larger `block`, or give each thread more elements with `thread`",
                    subject=f"grid {axis}",
                )

    def _mixed_warps(self) -> Iterator[Finding]:
        limit = self.check.mixed_warps
        if limit is None:
            return
        if self.facts.unknown and not self.facts.branches and not self.check.allow_unknown:
            yield self._mixed("the number of divergent warps is unknown", "", self.facts.unknown)
        for branch in self.facts.branches:
            text, parting = self.printed.condition(branch), branch.parting
            if parting is not None and parting.mixed_warps > limit:
                share = f"{parting.mixed_warps:,} of {parting.warps:,} warps"
                yield self._mixed(f"{share} diverge at `{text}`", text)
            elif parting is None and not self.check.allow_unknown:
                yield self._mixed(f"the number of warps that diverge at `{text}` is unknown", text, branch.reason)

    def _mixed(self, message: str, subject: str, doubt: str = "") -> Finding:
        """Finding about divergence; `doubt` is why it is unknown."""
        return self._finding(
            codes.UNPROVED if doubt else codes.MIXED_WARPS,
            message,
            kernel_anchor(self.spec, self.kernel),
            label="can't be held to `mixed_warps`" if doubt else f"limit {self.check.mixed_warps:g}",
            notes=(*((doubt,) if doubt else ()), self._limit_note("mixed_warps")),
            help=_ALLOW
            if doubt
            else "choose extents that are multiples of the `block`: conditions are then uniform within warps",
            subject=subject,
        )

    def _occupancy(self) -> Iterator[Finding]:
        limit = self.check.occupancy
        facts = self.facts.occupancy
        resident = facts.occupancy
        if limit is None or resident.fraction >= limit * (1 - _TOLERANCE):
            return
        registers = "registers not counted" if facts.registers is None else f"{facts.registers} registers per thread"
        notes = [
            f"{facts.threads} threads per block, {facts.shared_bytes} bytes of shared memory, {registers}: "
            f"{resident.blocks_per_sm} blocks per SM, limited by {' and '.join(resident.limited_by)}"
        ]
        if step := facts.next_step:
            notes.append(
                f"{_number(step.occupancy.fraction)} takes at most {step.registers} registers and "
                f"{step.shared_bytes} bytes of shared memory"
            )
        yield self._finding(
            codes.LOW_OCCUPANCY,
            f"{self.kernel.name} fills {_number(resident.fraction)} of the warps of an SM of {self.target.name}",
            self._limit_anchor("occupancy"),
            label=f"at least {limit:g} is required",
            notes=tuple(notes),
            help="use smaller tiles, fewer elements per thread, or a block whose warps divide those of an SM",
            subject="occupancy",
        )

    def _spills(self) -> Iterator[Finding]:
        limit, compiler = self.check.spills, self.facts.compiler
        if limit is None or compiler is None:
            return
        spilled = compiler.spill_stores + compiler.spill_loads
        low, high = self.facts.local.array_bytes
        registers = f"{compiler.registers} registers per thread for {self.target.name}"
        if spilled + low > limit:
            message = (
                f"each thread of {self.kernel.name} spills {spilled} bytes: {compiler.spill_stores} stored, "
                f"{compiler.spill_loads} loaded"
            )
            if low:
                message += f"; {low} bytes of its register arrays are in local memory"
            yield self._finding(
                codes.SPILLS,
                message,
                self._limit_anchor("spills"),
                label=f"at most {limit} allowed",
                notes=(registers, *self._local_notes()),
                help=_CONSTANT_SUBSCRIPTS
                if low
                else "use a smaller thread tile (`schedule.thread`) or a smaller `block`",
                subject="spills",
            )
        elif spilled + high > limit and not self.check.allow_unknown:
            yield self._unproved_launch("spills", "whether register arrays are in local memory is unknown")

    def _local_memory(self) -> Iterator[Finding]:
        limit, local = self.check.local, self.facts.local
        if limit is None:
            return
        if local.low > limit:
            yield self._finding(
                codes.LOCAL_MEMORY,
                f"each thread of {self.kernel.name} has {local.low} bytes of local memory",
                self._limit_anchor("local"),
                label=f"at most {limit} allowed",
                notes=self._local_notes(),
                help=_CONSTANT_SUBSCRIPTS,
                subject="local",
            )
        elif local.high > limit and not self.check.allow_unknown:
            message = f"each thread of {self.kernel.name} may have {local.high} bytes of local memory"
            yield self._unproved_launch("local", message)

    def _unproved_launch(self, name: str, message: str) -> Finding:
        return self._finding(
            codes.UNPROVED,
            message,
            self._limit_anchor(name),
            label=f"can't be held to `{name}`",
            notes=self._local_notes(),
            help=_ALLOW,
            subject=name,
        )

    def _local_notes(self) -> tuple[str, ...]:
        """What is, or may be, in local memory, with the accesses of arrays."""
        accesses = [report for report in self.launch.report.accesses if report.space == "local"]
        local = self.facts.local
        notes = [f"{name}, {size} bytes, is indexed at run time" for name, size in local.arrays]
        notes += [f"`{report.text}`: {report.claim}" for report in accesses]
        return (*notes, *(f"{name} has an array in local memory" for name in local.functions))

    # Locations

    def _limit_anchor(self, name: str) -> Anchor:
        return Anchor(dict(self.check.spans).get(name, NOWHERE), f"check.{name}")

    def _limit_note(self, name: str) -> str:
        span = self._limit_anchor(name).span
        return f"the limit is `check.{name}: {getattr(self.check, name):g}` in line {span.line}"

    def _finding(
        self,
        code: str,
        message: str,
        anchor: Anchor,
        *,
        label: str,
        notes: tuple[str, ...],
        help: str,
        severity: str = "error",
        subject: str,
        shown: Related | None = None,
    ) -> Finding:
        span = anchor.span
        line = self.lines[span.line - 1] if 0 < span.line <= len(self.lines) else ""
        related = () if shown is None else (shown,)
        diagnostic = Diagnostic(code, message, self.file, span, anchor.key, label, notes, help, line, severity, related)
        return Finding(diagnostic, self.kernel.name, subject)


def _is_too_costly(report: AccessReport, limit: float | None) -> bool:
    if limit is None:
        return report.cost >= WARNING_RATIO * report.ideal > 0
    return report.cost > limit * report.ideal * (1 + _TOLERANCE)


def _number(value: float) -> str:
    """At most three digits, and no more than it takes."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
