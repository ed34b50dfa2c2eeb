"""Latency hiding: warps per scheduler and bytes in flight against the latency of device memory.

Sources: CUDA programming guide 4.2, 5.2.3 (warps per scheduler); Little's law (bytes in flight).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod

from cugen.analysis.launches.launch import OccupancyFacts
from cugen.analysis.launches.roofline import bytes_in_flight, warps_to_hide
from cugen.analysis.launches.traffic import GLOBAL
from cugen.analysis.totals.executions import ExecutionCounts
from cugen.analysis.totals.sites import Site, Step
from cugen.machine import Device, Target
from cugen.machine.functions import (
    FLOAT64_FUNCTION_FACTOR,
    FLOAT64_FUNCTION_SHARE,
    FUNCTION_INSTRUCTIONS,
    INTEGER_POWER_INSTRUCTIONS,
)
from cugen.machine.latency import Latency, alu_slots, memory_latency
from cugen.plan.lowering.instructions import is_integer_power, issue_slots
from cugen.plan.memory import Access
from cugen.plan.nodes import Accumulate, For, Mma
from cugen.plan.pipeline_nodes import PipelineNode, TensorLoad
from cugen.plan.traversal.walking import accesses_of, values_of
from cugen.spec.expressions import Expr, Op, Select, walk
from cugen.spec.types import BOOL, FLOAT64

_ALU_OPERATIONS = (
    *("eq", "ne", "lt", "le", "gt", "ge", "minimum", "maximum", "fmax"),
    *("shl", "shr", "bitand", "bitor", "bitxor", "invert"),
)


@dataclass(frozen=True, slots=True)
class LatencyHiding:
    """Memory-level parallelism of an SM against the memory latency.

    A thread is assumed to have the loads of one loop iteration outstanding, of the loop that loads most bytes:
    `loads_together` with `bytes_per_thread`. `instructions_between` two such batches excludes address and loop
    instructions, so `warps_needed` (per scheduler, as `warps_held`) is an upper bound. `bytes_in_flight` is per SM.
    `bytes_needed` is bandwidth · latency ÷ SMs by Little's law; unloaded, hence a lower bound.
    """

    latency: Latency
    loads_together: int
    instructions_between: float
    warps_needed: int
    warps_held: float
    bytes_per_thread: int
    bytes_in_flight: int
    bytes_needed: float

    @property
    def bandwidth_share(self) -> float:
        """Fraction of the bandwidth that the bytes in flight can sustain."""
        return min(1.0, self.bytes_in_flight / self.bytes_needed)


def latency_hiding(
    steps: Iterable[Step], sites: Iterable[Site], occupancy: OccupancyFacts, device: Device, executions: ExecutionCounts
) -> LatencyHiding | None:
    """Latency hiding, or None without global loads or resident blocks. Raises Unknown as execution counts do."""
    loads = [site for site in sites if _is_global_load(site.access)]
    load_warps = _warps(loads, executions)
    blocks = occupancy.occupancy.blocks_per_sm
    if not load_warps or not blocks:
        return None
    all_warps = load_warps + _other_instructions(steps, executions, of_mma=lambda mma: mma.multiply_adds)
    latency = memory_latency(device)
    per_thread, load_count = max(_loads_per_iteration(loads).values())
    between = load_count * all_warps / load_warps
    return LatencyHiding(
        latency=latency,
        loads_together=load_count,
        instructions_between=between,
        warps_needed=warps_to_hide(latency.cycles, between, latency.issue_cycles),
        warps_held=occupancy.occupancy.warps_per_sm / latency.schedulers,
        bytes_per_thread=per_thread,
        bytes_in_flight=per_thread * occupancy.threads * blocks,
        bytes_needed=bytes_in_flight(device.bandwidth, latency.seconds) / device.sms,
    )


@dataclass(frozen=True, slots=True)
class CopiesInFlight:
    """Copies by TMA that are outstanding on an SM: at most all stages of the tiles that they fill. Warps hide none of
    their latency. `bytes_needed` as in `LatencyHiding`."""

    latency: Latency
    bytes_in_flight: int
    bytes_needed: float

    @property
    def bandwidth_share(self) -> float:
        """Fraction of the bandwidth that the bytes in flight can sustain."""
        return min(1.0, self.bytes_in_flight / self.bytes_needed)


def copies_in_flight(sites: Iterable[Site], occupancy: OccupancyFacts, device: Device) -> CopiesInFlight | None:
    """Copies in flight, or None without TMA or resident blocks."""
    tiles: dict[str, int] = {}
    for site in sites:
        array = site.access.array
        if isinstance(site.instruction, TensorLoad) and array.space == "shared":
            elements = prod(int(extent.xreplace(site.definitions)) for extent in array.shape)
            tiles[array.symbol] = elements * array.dtype.bytes
    blocks = occupancy.occupancy.blocks_per_sm
    if not tiles or not blocks:
        return None
    latency = memory_latency(device)
    needed = bytes_in_flight(device.bandwidth, latency.seconds) / device.sms
    return CopiesInFlight(latency, sum(tiles.values()) * blocks, needed)


def launch_slots(
    steps: Iterable[Step], sites: Iterable[Site], executions: ExecutionCounts, target: Target, device: Device | None
) -> float:
    """Issue slots of the warp instructions of a launch besides those of addresses and loops, relative to a float32 FMA:
    all of them, with those in which the units of float64 are busy, or those of the ALU where it is busy for longer.
    Raises Unknown as execution counts do."""
    steps = tuple(steps)
    loads = (site for site in sites if _is_global_load(site.access))
    issued = _warps(loads, executions) + _other_instructions(steps, executions, of_mma=lambda mma: 1)
    of_units: Counter[str] = Counter()
    for step in steps:
        if operations := _operations(step):
            warps = executions.of(step.point).warps
            issued += warps * sum(_instructions_of(op) - 1 for op in operations if isinstance(op, Op))
            for unit, instructions in _units(operations).items():
                of_units[unit] += warps * instructions
    if device is None:
        return float(issued)
    waiting = of_units["float64"] * (issue_slots(FLOAT64, device) - 1)
    return max(issued + waiting, of_units["alu"] * alu_slots(target))


def _operations(step: Step) -> list[Op | Select]:
    return [leaf for value in values_of(step.node) for leaf in walk(value) if isinstance(leaf, Op | Select)]


def _instructions_of(op: Op) -> int:
    """The instructions of an operation. Literal powers are multiplications in a plan, and extrema count as one, as on
    recent targets."""
    if is_integer_power(op):
        return INTEGER_POWER_INSTRUCTIONS
    count = FUNCTION_INSTRUCTIONS.get(op.name, 1) if op.dtype.is_float else 1
    return count * FLOAT64_FUNCTION_FACTOR if count > 1 and op.dtype == FLOAT64 else count


def _units(operations: Iterable[Op | Select]) -> Counter[str]:
    """The instructions of the units that take fewer than the schedulers issue: of float64, and the ALU, which compares,
    selects and shifts. Conditions that are combined are operands of comparisons, and additions of integers go to either
    of two units."""
    units: Counter[str] = Counter()
    for op in operations:
        dtype = op.args[0].dtype if isinstance(op, Op) and op.args else op.dtype
        if dtype == FLOAT64 and isinstance(op, Op):
            count = _instructions_of(op)
            units["float64"] += count if count == 1 else round(count * FLOAT64_FUNCTION_SHARE)
        elif isinstance(op, Select):
            units["alu"] += op.dtype != BOOL
        else:
            units["alu"] += op.name in _ALU_OPERATIONS
    return units


def _warps(loads: Iterable[Site], executions: ExecutionCounts) -> int:
    return sum(executions.of(site).warps for site in loads)


def _other_instructions(steps: Iterable[Step], executions: ExecutionCounts, of_mma: Callable[[Mma], int]) -> int:
    """Warp instructions besides global loads; `of_mma` are those that an MMA counts as: while its multiply-adds take
    place, a warp waits for no load."""
    instructions = [(step, _instructions(step, of_mma)) for step in steps]
    return sum(count * executions.of(step.point).warps for step, count in instructions if count)


def _loads_per_iteration(loads: Iterable[Site]) -> dict[object, tuple[int, int]]:
    """(bytes, loads) of a thread per iteration, by enclosing loops and branch; dependent loads are separate batches."""
    passes: dict[object, tuple[int, int]] = {}
    for site in loads:
        key = (site.counters, tuple(p for p in site.predicates if p.negated), site.opaque)
        size, count = passes.get(key, (0, 0))
        passes[key] = size + site.access.width * site.access.array.dtype.bytes, count + 1
    return passes


def _instructions(step: Step, of_mma: Callable[[Mma], int]) -> int:
    """Warp instructions of a node other than global loads; a multiply-add is one. What is asynchronous is issued once,
    and a wait counted once."""
    node = step.node
    if isinstance(node, For):
        return 0
    if isinstance(node, PipelineNode):
        return 1
    if isinstance(node, Mma):
        return of_mma(node)
    operations = [leaf for value in values_of(node) for leaf in walk(value) if isinstance(leaf, Op)]
    fused = sum(op.name in ("add", "sub") and any(_is_product(arg) for arg in op.args) for op in operations)
    touched = [a for a in accesses_of(node) if a.array.space != "register" and not _is_global_load(a)]
    adds = isinstance(node, Accumulate) and not _is_product(node.value)
    return len(operations) - fused + adds + len(touched)


def _is_product(value: Expr) -> bool:
    return isinstance(value, Op) and value.name == "mul"


def _is_global_load(access: Access) -> bool:
    return access.kind == "load" and access.array.space in GLOBAL
