"""Facts of a launch: grid, occupancy, divergence, work, traffic, roofline and latency hiding, as numbers.

`cugen.analysis.launches.sentences` formats them as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import sympy

from cugen.analysis.launches.ceilings import Roofline, roofline
from cugen.analysis.launches.conditional_code import (
    FUNCTION,
    ConditionalCode,
    conditional_code,
    selects,
    wide_divisions,
)
from cugen.analysis.launches.host_memory import HostBytes, host_bytes
from cugen.analysis.launches.latency_hiding import (
    CopiesInFlight,
    LatencyHiding,
    copies_in_flight,
    latency_hiding,
    launch_slots,
)
from cugen.analysis.launches.launch import (
    LaunchFacts,
    OccupancyFacts,
    Resources,
    WaveFacts,
    launch_facts,
    occupancy_facts,
    wave_facts,
)
from cugen.analysis.launches.local_memory import LocalFacts, local_facts
from cugen.analysis.launches.operations import Work, work
from cugen.analysis.launches.roofline import intensity
from cugen.analysis.launches.traffic import Traffic, traffic
from cugen.analysis.totals.budget import Unknown
from cugen.analysis.totals.executions import BranchDivergence, ExecutionCounts
from cugen.analysis.totals.partitions import PartitionSpread, Wave, partition_spreads
from cugen.analysis.totals.sites import DATA_DEPENDENT_GUARD, Step, sites, steps
from cugen.analysis.verdicts.constant_reasons import bytes_read
from cugen.analysis.verdicts.report import AccessReport, analyze_kernel
from cugen.machine import Device, Target, default_device, is_known
from cugen.machine import device as known_device
from cugen.machine import target as known_target
from cugen.plan.context import Context
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Array
from cugen.plan.nodes import AcquireSpinWait, For, If, Load, Node, ReturnUnless, StoreMatrix
from cugen.plan.symbols import bounds
from cugen.plan.traversal.usage import values
from cugen.spec.expressions import Expr

_WAIT = "its lanes leave a spin-wait at different times"


@dataclass(frozen=True, slots=True)
class CompilerFacts:
    """Registers and stack bytes per thread, and spilled bytes stored and loaded."""

    registers: int
    spill_stores: int
    spill_loads: int
    stack_bytes: int


@dataclass(frozen=True, slots=True)
class BranchFacts:
    """Guard, condition, loop or expression at which a warp may diverge; `parting` is None if the divergence is unknown.

    expr: the choice (`a ? b : c`, `a && b`) of an expression, assumed to branch: a compiler may select. name: of a
    function or conversion. nodes: all statements with it.
    """

    node: Node
    kind: str  # return, if, load, loop, wait, choice, function, conversion
    parting: BranchDivergence | None
    reason: str = ""
    expr: Expr | None = None
    name: str = ""
    nodes: tuple[Node, ...] = ()

    @property
    def is_assumed(self) -> bool:
        """Whether a compiler decides if there is a branch."""
        return self.kind == "choice"


@dataclass(frozen=True, slots=True)
class ConstantFacts:
    """Constant memory: `bytes_used` of `budget` by the program, in arrays and scalars.

    bytes_read: of arrays by this launch, at most; an SM caches `cache_bytes`, its first level `first_level_bytes`.
    loads: warp-level load instructions. requests: one per distinct address of a warp, or of a half-warp on 1.x;
    uniform_requests: the same if every address were uniform. All are None for data-dependent subscripts and params
    without a value.
    """

    bytes_used: int
    budget: int
    bytes_read: int
    cache_bytes: int
    first_level_bytes: int
    loads: int | None
    requests: int | None
    uniform_requests: int | None

    @property
    def is_uniform(self) -> bool | None:
        return None if self.requests is None else self.requests == self.uniform_requests


@dataclass(frozen=True, slots=True)
class Facts:
    """One launch on a target, and on a device if there is one (`is_default`: the target's default device).

    choices: `a ? b : c` expressions that compile to selects: the others are among the branches. issue_slots: of
    warp instructions besides those of addresses and loops, relative to a float32 FMA. copies: by TMA. host_memory: what
    comes over the link to the host. partitions: of device memory, on 1.x. work, traffic, roofline, hiding, copies and
    issue_slots are None if execution counts are unknown, for the reason in `unknown`.
    """

    kernel: str
    target: str
    device: str
    is_default: bool
    carveout: int | None  # percent
    launch: LaunchFacts
    occupancy: OccupancyFacts
    waves: WaveFacts | None
    compiler: CompilerFacts | None
    local: LocalFacts
    constant: ConstantFacts
    choices: int
    branches: tuple[BranchFacts, ...] = ()
    work: Work | None = None
    traffic: Traffic | None = None
    roofline: Roofline | None = None
    hiding: LatencyHiding | None = None
    copies: CopiesInFlight | None = None
    issue_slots: float | None = None
    host_memory: tuple[HostBytes, ...] = ()
    partitions: tuple[PartitionSpread, ...] = ()
    unknown: str = ""

    @property
    def flop_per_byte_read(self) -> float | None:
        """Arithmetic intensity over the requested read bytes, and constants once, without writes and caches; None if
        nothing is read."""
        if self.work is None or self.traffic is None or not self.traffic.read + self.traffic.constant:
            return None
        return intensity(self.work.all_flop, self.traffic.read + self.traffic.constant)


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
    """Facts of one launch.

    params: values by their names in C; what depends on a missing one is unknown. device: default as the target;
    UnknownDevice for an unknown name, ValueError for a device of another target. resources: the compiler's figures.
    accesses: those of the kernel's report, if already computed.
    """
    row = known_target(target) if isinstance(target, str) else target
    known = _device(device, row)
    launch, resident = launch_facts(kernel, row, params), occupancy_facts(kernel, row, resources)
    missing = _missing(context, params)
    if accesses is None:
        accesses = () if missing else analyze_kernel(kernel, row, params).accesses
    basis = Facts(
        kernel=kernel.name,
        target=row.name,
        device=known.name if known else "",
        is_default=device is None,
        carveout=kernel.options.carveout,
        launch=launch,
        occupancy=resident,
        waves=wave_facts(launch, resident, known) if known else None,
        compiler=None if resources is None else _compiler(resources),
        local=local_facts(kernel, resources),
        constant=_constant(kernel, context, row, accesses),
        choices=sum(map(selects, values(kernel.body))),
    )
    if missing:
        return replace(basis, unknown=f"{' and '.join(missing)} {'has' if len(missing) == 1 else 'have'} no value")
    if launch.grid is not None and basis.waves is not None:
        wave = Wave(launch.grid, kernel.block, min(basis.waves.at_once, launch.blocks or 0))
        basis = replace(basis, partitions=partition_spreads(kernel, row, params, wave))
    counted = _counted(basis, kernel, row, params, known, accesses)
    if counted.traffic is None:
        return counted
    return replace(counted, host_memory=host_bytes(counted.traffic, context, known))


def _counted(
    basis: Facts,
    kernel: Kernel,
    target: Target,
    params: Mapping[str, int],
    device: Device | None,
    accesses: tuple[AccessReport, ...],
) -> Facts:
    walked, all_sites, executions = tuple(steps(kernel, params)), sites(kernel, params), ExecutionCounts(kernel.block)
    branches = (_branch(step, executions) for step in walked if _decides(step))
    basis = replace(basis, branches=(*filter(_is_open, branches), *_in_expressions(kernel, walked, target)))
    try:
        done = work(walked, executions)
        moved = traffic(walked, all_sites, accesses, params, executions, basis.constant.bytes_read)
        hiding = latency_hiding(walked, all_sites, basis.occupancy, device, executions) if device else None
        copies = copies_in_flight(all_sites, basis.occupancy, device) if device else None
        slots = launch_slots(walked, all_sites, executions, target, device)
    except Unknown as why:
        return replace(basis, unknown=str(why))
    roof = roofline(done, moved, device, _shared_wavefronts(accesses), kernel.idle_unit) if device else None
    return replace(basis, work=done, traffic=moved, roofline=roof, hiding=hiding, copies=copies, issue_slots=slots)


def _shared_wavefronts(accesses: tuple[AccessReport, ...]) -> tuple[int | None, ...]:
    """Wavefronts of each access to shared memory over the launch; None if unknown."""
    totals = (report.totals for report in accesses if report.space == "shared")
    return tuple(known.wavefronts if known is not None else None for known in totals)


def _in_expressions(kernel: Kernel, walked: tuple[Step, ...], target: Target) -> Iterator[BranchFacts]:
    """Spin-waits, and what may branch inside expressions: equal code once, with all nodes that have it."""
    nodes: dict[ConditionalCode, list[Node]] = {}
    if divisions := tuple(wide_divisions(kernel)):
        yield BranchFacts(divisions[0], "function", None, FUNCTION, name="64-bit division of indices", nodes=divisions)
    for step in walked:
        if isinstance(step.node, AcquireSpinWait):
            yield BranchFacts(step.node, "wait", None, _WAIT, nodes=(step.node,))
        for code in conditional_code(step, target):
            nodes.setdefault(code, []).append(step.node)
    for code, found in nodes.items():
        yield BranchFacts(found[0], code.kind, None, code.reason, code.expr, code.name, tuple(found))


def _branch(step: Step, executions: ExecutionCounts) -> BranchFacts:
    kinds = {ReturnUnless: "return", If: "if", For: "loop"}
    kind = kinds.get(type(step.node), "load")
    try:
        return BranchFacts(step.node, kind, executions.divergence(step), nodes=(step.node,))
    except Unknown as why:
        reason = "the condition depends on data" if step.inside.opaque == DATA_DEPENDENT_GUARD else str(why)
        return BranchFacts(step.node, kind, None, reason, nodes=(step.node,))


def _decides(step: Step) -> bool:
    """Whether the active lanes may change at a node. A texture fetch tests bounds without predicates, and all lanes
    store matrices, whichever give addresses."""
    if isinstance(step.node, StoreMatrix) or (isinstance(step.node, Load) and step.node.bounds_checked):
        return False
    return (step.inside.predicates, step.inside.opaque) != (step.point.predicates, step.point.opaque)


def _is_open(branch: BranchFacts) -> bool:
    """Whether to report a branch: loops only if some warp diverges."""
    return branch.kind != "loop" or branch.parting is None or branch.parting.mixed_warps > 0


def _constant(kernel: Kernel, context: Context, target: Target, accesses: tuple[AccessReport, ...]) -> ConstantFacts:
    arrays = [array for array in context.constants if array.space == "constant"]
    used = sum(_bytes(array, context) for array in arrays)
    scalars = set(context.scalar_symbols.values())
    used += sum(upload.bytes for upload in context.uploads if upload.symbol in scalars)
    reads = [report for report in accesses if report.space == "constant"]
    totals = [report.totals for report in reads if report.totals is not None]
    all_known = len(totals) == len(reads)
    return ConstantFacts(
        used,
        target.constant_bytes,
        bytes_read(kernel),
        target.constant_cache_bytes,
        target.constant_first_level_bytes,
        sum(total.warps for total in totals) if all_known else None,
        sum(total.requests for total in totals) if all_known else None,
        sum(total.ideal_wavefronts for total in totals) if all_known else None,
    )


def _bytes(array: Array, context: Context) -> int:
    count = bounds(sympy.Mul(*array.shape), dict(context.ranges))[1]
    return count * array.dtype.bytes


def _missing(context: Context, params: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(name for name, symbol in context.symbols.items() if str(symbol) not in params)


def _compiler(resources: Resources) -> CompilerFacts:
    return CompilerFacts(resources.registers, resources.spill_stores, resources.spill_loads, resources.stack_bytes)


def _device(requested: Device | str | None, target: Target) -> Device | None:
    if requested is None:
        return default_device(target.name)
    chosen = known_device(requested) if isinstance(requested, str) else requested
    if is_known(target.name) and not chosen.is_of(target.name):
        raise ValueError(f"{chosen.name} is of {chosen.target}, not of {target.name}")
    return chosen
