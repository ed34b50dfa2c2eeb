"""Whether enough is under way at once to hide how long device memory takes to answer.

Sources: CUDA programming guide 4.2, 5.2.3 (warps per scheduler); Little's law (bytes in flight).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cugen.analysis.launches.launch import OccupancyFacts
from cugen.analysis.launches.roofline import bytes_in_flight, warps_to_hide
from cugen.analysis.launches.traffic import GLOBAL
from cugen.analysis.totals.executions import ExecutionCounts
from cugen.analysis.totals.sites import Site, Step
from cugen.machine import Device
from cugen.machine.latency import Latency, memory_latency
from cugen.plan.memory import Access
from cugen.plan.nodes import Accumulate, For, If, Mma
from cugen.plan.walking import accesses, values_of
from cugen.spec.expressions import Expr, Op, walk


@dataclass(frozen=True, slots=True)
class Hiding:
    """Latency against what an SM has under way.

    A thread is taken to have the loads of one pass through the loop body that loads most under way together:
    `loads_together` of them, `bytes_per_thread`. `instructions_between` are the plan's warp instructions from one such
    batch to the next; what a compiler adds for addresses and loops comes on top, so `warps_needed` (per scheduler, as
    `warps_held`) is an upper bound. `bytes_in_flight` is per SM. `bytes_needed` is bandwidth · latency ÷ SMs, for an
    idle memory, so a lower bound.
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
        """The most of the device's bandwidth that so many bytes in flight can draw."""
        return min(1.0, self.bytes_in_flight / self.bytes_needed)


def hiding(
    steps: Iterable[Step], found: Iterable[Site], held: OccupancyFacts, device: Device, executions: ExecutionCounts
) -> Hiding | None:
    """None where nothing is loaded from global memory, or an SM holds no block. Raises Unknown as tallies do."""
    loads = [site for site in found if _is_global_load(site.access)]
    load_warps = sum(executions.of(site).warps for site in loads)
    blocks = held.occupancy.blocks_per_sm
    if not load_warps or not blocks:
        return None
    others = [(step, _instructions(step)) for step in steps]
    all_warps = load_warps + sum(count * executions.of(step.point).warps for step, count in others if count)
    latency = memory_latency(device)
    per_thread, together = max(_together(loads).values())
    between = together * all_warps / load_warps
    return Hiding(
        latency=latency,
        loads_together=together,
        instructions_between=between,
        warps_needed=warps_to_hide(latency.cycles, between, latency.issue_cycles),
        warps_held=held.occupancy.warps_per_sm / latency.schedulers,
        bytes_per_thread=per_thread,
        bytes_in_flight=per_thread * held.threads * blocks,
        bytes_needed=bytes_in_flight(device.bandwidth, latency.seconds) / device.sms,
    )


def _together(loads: Iterable[Site]) -> dict[object, tuple[int, int]]:
    """Bytes and loads of a thread in one pass, by the loops round the loads and the branch they stand in; loads from
    addresses that were read from memory themselves wait for that."""
    passes: dict[object, tuple[int, int]] = {}
    for site in loads:
        key = (site.counters, tuple(p for p in site.predicates if p.negated), site.opaque)
        size, count = passes.get(key, (0, 0))
        passes[key] = size + site.access.width * site.access.array.dtype.bytes, count + 1
    return passes


def _instructions(step: Step) -> int:
    """Warp instructions that a node needs besides its loads from global memory; products that are added are one, also
    on a tensor core, which is busy for so long."""
    node = step.node
    if isinstance(node, For | If):
        return 0
    if isinstance(node, Mma):
        return node.multiply_adds
    operations = [leaf for value in values_of(node) for leaf in walk(value) if isinstance(leaf, Op)]
    fused = sum(op.name == "add" and any(_is_product(arg) for arg in op.args) for op in operations)
    touched = [a for a in accesses((node,)) if a.array.space != "register" and not _is_global_load(a)]
    adds = isinstance(node, Accumulate) and not _is_product(node.value)
    return len(operations) - fused + adds + len(touched)


def _is_product(value: Expr) -> bool:
    return isinstance(value, Op) and value.name == "mul"


def _is_global_load(access: Access) -> bool:
    return access.kind == "load" and access.array.space in GLOBAL
