"""Limits of `check` on a launch as planned and compiled: pipelines, the grid, divergence, occupancy, spills and local
memory."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.analysis.limits import codes
from cugen.analysis.limits.anchors import kernel_anchor
from cugen.analysis.limits.findings import TOLERANCE, Finding, LaunchLimits, number
from cugen.analysis.pipelines.proof import prove_pipeline

_CONSTANT_SUBSCRIPTS = (
    "index register arrays by constants and unrolled loops only, or use `memory: shared` or `constant` for the array"
)


class LaunchGate(LaunchLimits):
    """Findings about a launch, besides those about its accesses."""

    def run(self) -> Iterator[Finding]:
        yield from self._pipeline()
        yield from self._grid()
        yield from self._mixed_warps()
        yield from self._occupancy()
        yield from self._spills()
        yield from self._local_memory()

    def _pipeline(self) -> Iterator[Finding]:
        proof = prove_pipeline(self.kernel)
        for claim in proof.claims if proof is not None else ():
            if claim.verdict == "refuted":
                yield self.finding(
                    codes.REFUTED_PIPELINE,
                    f"the synchronisation of {self.kernel.name} is wrong: {claim.name}: {claim.reason}",
                    kernel_anchor(self.spec, self.kernel),
                    label="would give wrong results, or never end",
                    notes=("this is a defect of the generator, not of the spec",),
                    help="take another `family` under `schedule`, and report the spec",
                    subject=f"pipeline {claim.name}",
                    kernel=self.kernel.name,
                )

    def _grid(self) -> Iterator[Finding]:
        launch = self.facts.launch
        if launch.grid is None:
            return
        for axis, blocks, limit in zip("xyz", launch.grid, launch.grid_limits, strict=True):
            if blocks > limit:
                yield self.finding(
                    codes.LARGE_GRID,
                    f"{self.kernel.name} has a grid of {blocks} blocks along {axis}; {self.target.name} allows {limit}",
                    kernel_anchor(self.spec, self.kernel),
                    label="can't be launched with these sizes",
                    notes=("the launcher refuses such sizes with cudaErrorInvalidValue",),
                    help="use a larger `block`, or give each thread more elements with `thread`",
                    subject=f"grid {axis}",
                    kernel=self.kernel.name,
                )

    def _mixed_warps(self) -> Iterator[Finding]:
        limit = self.check.mixed_warps
        if limit is None:
            return
        if self.facts.unknown and not self.facts.branches and not self.check.allow_unknown:
            yield self._mixed(limit, "the number of divergent warps is unknown", "", self.facts.unknown)
        for branch in self.facts.branches:
            text, parting = self.printed.condition(branch), branch.parting
            if parting is not None and parting.mixed_warps > limit:
                share = f"{parting.mixed_warps:,} of {parting.warps:,} warps"
                yield self._mixed(limit, f"{share} diverge at `{text}`", text)
            elif parting is None and not self.check.allow_unknown:
                yield self._mixed(
                    limit, f"the number of warps that diverge at `{text}` is unknown", text, branch.reason
                )

    def _mixed(self, limit: float, message: str, subject: str, doubt: str = "") -> Finding:
        """Finding about divergence; `doubt` is why it is unknown."""
        return self.finding(
            codes.UNPROVED if doubt else codes.MIXED_WARPS,
            message,
            kernel_anchor(self.spec, self.kernel),
            label="can't be held to `mixed_warps`" if doubt else f"limit {limit:g}",
            notes=(*((doubt,) if doubt else ()), self.limit_note("mixed_warps", limit)),
            help=self.allow
            if doubt
            else "choose extents that are multiples of the `block`: conditions are then uniform within warps",
            subject=subject,
            kernel=self.kernel.name,
        )

    def _occupancy(self) -> Iterator[Finding]:
        limit = self.check.occupancy
        facts = self.facts.occupancy
        resident = facts.occupancy
        if limit is None or resident.fraction >= limit * (1 - TOLERANCE):
            return
        registers = "registers not counted" if facts.registers is None else f"{facts.registers} registers per thread"
        notes = [
            f"{facts.threads} threads per block, {facts.shared_bytes} bytes of shared memory, {registers}: "
            f"{resident.blocks_per_sm} blocks per SM, limited by {' and '.join(resident.limited_by)}"
        ]
        if step := facts.next_step:
            notes.append(
                f"{number(step.occupancy.fraction)} takes at most {step.registers} registers and "
                f"{step.shared_bytes} bytes of shared memory"
            )
        yield self.finding(
            codes.LOW_OCCUPANCY,
            f"{self.kernel.name} fills {number(resident.fraction)} of the warps of an SM of {self.target.name}",
            self.limit_anchor("occupancy"),
            label=f"at least {limit:g} is required",
            notes=tuple(notes),
            help="use smaller tiles, fewer elements per thread, or a block whose warps divide those of an SM",
            subject="occupancy",
            kernel=self.kernel.name,
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
            yield self.finding(
                codes.SPILLS,
                message,
                self.limit_anchor("spills"),
                label=f"at most {limit} allowed",
                notes=(registers, *self._local_notes()),
                help=_CONSTANT_SUBSCRIPTS
                if low
                else "use a smaller thread tile (`schedule.thread`) or a smaller `block`",
                subject="spills",
                kernel=self.kernel.name,
            )
        elif spilled + high > limit and not self.check.allow_unknown:
            yield self.unproved_launch(
                "spills", "whether register arrays are in local memory is unknown", self._local_notes()
            )

    def _local_memory(self) -> Iterator[Finding]:
        limit, local = self.check.local, self.facts.local
        if limit is None:
            return
        if local.low > limit:
            yield self.finding(
                codes.LOCAL_MEMORY,
                f"each thread of {self.kernel.name} has {local.low} bytes of local memory",
                self.limit_anchor("local"),
                label=f"at most {limit} allowed",
                notes=self._local_notes(),
                help=_CONSTANT_SUBSCRIPTS,
                subject="local",
                kernel=self.kernel.name,
            )
        elif local.high > limit and not self.check.allow_unknown:
            message = f"each thread of {self.kernel.name} may have {local.high} bytes of local memory"
            yield self.unproved_launch("local", message, self._local_notes())

    def _local_notes(self) -> tuple[str, ...]:
        """What is, or may be, in local memory, with the accesses of arrays."""
        accesses = [report for report in self.launch.report.accesses if report.space == "local"]
        local = self.facts.local
        notes = [f"{name}, {size} bytes, is indexed at run time" for name, size in local.arrays]
        notes += [f"`{report.text}`: {report.claim}" for report in accesses]
        return (*notes, *(f"{name} has an array in local memory" for name in local.functions))
