"""Everything about one launch beyond its single accesses: each fact a number first, exact where it can be.

`cugen.analysis.launches.sentences` puts the same facts in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import sympy

from cugen.analysis.launches.ceilings import Roofline, roofline
from cugen.analysis.launches.latency_hiding import Hiding, hiding
from cugen.analysis.launches.launch import (
    LaunchFacts,
    OccupancyFacts,
    Resources,
    WaveFacts,
    launch_facts,
    occupancy_facts,
    wave_facts,
)
from cugen.analysis.launches.operations import Work, work
from cugen.analysis.launches.roofline import intensity
from cugen.analysis.launches.traffic import Traffic, traffic
from cugen.analysis.totals.exact import Unknown
from cugen.analysis.totals.executions import BranchDivergence, ExecutionCounts
from cugen.analysis.totals.sites import DATA_DEPENDENT_GUARD, Step, sites, steps
from cugen.analysis.verdicts.report import AccessReport, analyze_kernel
from cugen.machine import Device, Target, default_device, is_known
from cugen.machine import device as known_device
from cugen.machine import target as known_target
from cugen.plan.context import Context
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Array
from cugen.plan.nodes import For, If, Node, ReturnUnless
from cugen.plan.symbols import bounds
from cugen.plan.usage import values
from cugen.spec.expressions import Select, walk


@dataclass(frozen=True, slots=True)
class CompilerFacts:
    """Registers and stack of a thread, and the bytes it stores to and loads from local memory for want of registers."""

    registers: int
    spill_stores: int
    spill_loads: int
    stack_bytes: int


@dataclass(frozen=True, slots=True)
class BranchFacts:
    """A guard, condition or loop that lanes of a warp may answer differently; `parting` is None where it is unknown,
    for the reason given. At most two paths: lanes that go on and lanes that don't."""

    node: Node
    kind: str  # return, if, load, loop
    parting: BranchDivergence | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ConstantFacts:
    """`bytes_used` of all that the file keeps in constant memory, of `budget` bytes.

    `loads` are warp instructions that read it; `requests` those that they take, one for each distinct address of a
    warp, so equal if all are uniform. Both are None where a subscript depends on data, or a param has no value.
    """

    bytes_used: int
    budget: int
    loads: int | None
    requests: int | None

    @property
    def is_uniform(self) -> bool | None:
        return None if self.loads is None else self.loads == self.requests


@dataclass(frozen=True, slots=True)
class Facts:
    """One launch on a target, and on a device where there is one (`is_default`: the one the target stands for).

    `choices` are those inside expressions (`a ? b : c`): compilers select there, without a branch. What depends on how
    often something runs is None where that can't be said; `unknown` then says why.
    """

    kernel: str
    target: str
    device: str
    is_default: bool
    launch: LaunchFacts
    occupancy: OccupancyFacts
    waves: WaveFacts | None
    compiler: CompilerFacts | None
    constant: ConstantFacts
    choices: int
    branches: tuple[BranchFacts, ...] = ()
    work: Work | None = None
    traffic: Traffic | None = None
    roofline: Roofline | None = None
    hiding: Hiding | None = None
    unknown: str = ""

    @property
    def flop_per_byte_read(self) -> float | None:
        """The intensity over what reads ask for, as textbooks count it: without writes and caches."""
        if self.work is None or self.traffic is None:
            return None
        return intensity(self.work.all_flop, self.traffic.read)


def facts(
    kernel: Kernel,
    context: Context,
    target: Target | str,
    params: Mapping[str, int],
    *,
    device: Device | str | None = None,
    resources: Resources | None = None,
    accesses: tuple[AccessReport, ...] | None = None,
) -> Facts:
    """The facts of one launch.

    `params` gives params by their names in C; what depends on one that is missing is unknown. `device` is the target's
    default one unless given; UnknownDevice for a name that isn't in the table, ValueError for a device of another
    target. `resources` are a compiler's figures. `accesses` are those of the kernel's report, where it is at hand.
    """
    row = known_target(target) if isinstance(target, str) else target
    place = _device(device, row)
    launch, held = launch_facts(kernel, row, params), occupancy_facts(kernel, row, resources)
    missing = _missing(context, params)
    if accesses is None:
        accesses = () if missing else analyze_kernel(kernel, row, params).accesses
    basis = Facts(
        kernel=kernel.name,
        target=row.name,
        device=place.name if place else "",
        is_default=device is None,
        launch=launch,
        occupancy=held,
        waves=wave_facts(launch, held, place) if place else None,
        compiler=None if resources is None else _compiler(resources),
        constant=_constant(context, row, accesses),
        choices=sum(isinstance(leaf, Select) for value in values(kernel.body) for leaf in walk(value)),
    )
    if missing:
        return replace(basis, unknown=f"{' and '.join(missing)} {'has' if len(missing) == 1 else 'have'} no value")
    return _counted(basis, kernel, params, place, accesses)


def _counted(
    basis: Facts, kernel: Kernel, params: Mapping[str, int], device: Device | None, accesses: tuple[AccessReport, ...]
) -> Facts:
    walked, found, executions = tuple(steps(kernel, params)), sites(kernel, params), ExecutionCounts(kernel.block)
    branches = (_branch(step, executions) for step in walked if _decides(step))
    basis = replace(basis, branches=tuple(filter(_is_open, branches)))
    try:
        done = work(walked, executions)
        moved = traffic(walked, found, accesses, params, executions)
        hidden = hiding(walked, found, basis.occupancy, device, executions) if device else None
    except Unknown as why:
        return replace(basis, unknown=str(why))
    roof = roofline(done, moved, device) if device else None
    return replace(basis, work=done, traffic=moved, roofline=roof, hiding=hidden)


def _branch(step: Step, executions: ExecutionCounts) -> BranchFacts:
    kinds = {ReturnUnless: "return", If: "if", For: "loop"}
    kind = kinds.get(type(step.node), "load")
    try:
        return BranchFacts(step.node, kind, executions.divergence(step))
    except Unknown as why:
        reason = "which lanes go on depends on data" if step.inside.opaque == DATA_DEPENDENT_GUARD else str(why)
        return BranchFacts(step.node, kind, None, reason)


def _decides(step: Step) -> bool:
    """Whether a node lets some lanes go on and may hold back others."""
    return (step.inside.predicates, step.inside.opaque) != (step.point.predicates, step.point.opaque)


def _is_open(branch: BranchFacts) -> bool:
    """A loop counts as a branch only where some warp's lanes leave it apart."""
    return branch.kind != "loop" or branch.parting is None or branch.parting.mixed_warps > 0


def _constant(context: Context, target: Target, accesses: tuple[AccessReport, ...]) -> ConstantFacts:
    arrays = [array for array in context.constants if array.space == "constant"]
    used = sum(_bytes(array, context) for array in arrays)
    scalars = set(context.scalar_symbols.values())
    used += sum(upload.bytes for upload in context.uploads if upload.symbol in scalars)
    reads = [report for report in accesses if report.space == "constant"]
    totals = [report.totals for report in reads if report.totals is not None]
    known = len(totals) == len(reads)
    return ConstantFacts(
        used,
        target.constant_bytes,
        sum(total.warps for total in totals) if known else None,
        sum(total.requests for total in totals) if known else None,
    )


def _bytes(array: Array, context: Context) -> int:
    count = bounds(sympy.Mul(*array.shape), dict(context.ranges))[1]
    return count * array.dtype.bytes


def _missing(context: Context, params: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(name for name, symbol in context.symbols.items() if str(symbol) not in params)


def _compiler(found: Resources) -> CompilerFacts:
    return CompilerFacts(found.registers, found.spill_stores, found.spill_loads, found.stack_bytes)


def _device(wish: Device | str | None, target: Target) -> Device | None:
    if wish is None:
        return default_device(target.name)
    found = known_device(wish) if isinstance(wish, str) else wish
    if is_known(target.name) and found.target != target.name:
        raise ValueError(f"{found.name} is of {found.target}, not of {target.name}")
    return found
