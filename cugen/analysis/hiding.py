"""Whether enough is under way at once to hide how long device memory takes to answer.

Sources: CUDA programming guide 4.2, 5.2.3 (warps per scheduler); Little's law (bytes in flight).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cugen.analysis.launch import OccupancyFacts
from cugen.analysis.roofline import bytes_in_flight, warps_to_hide
from cugen.analysis.sites import Site, Step
from cugen.analysis.tally import Tallies
from cugen.analysis.traffic import GLOBAL
from cugen.plan.ir import Access, Accumulate, For, If, accesses, values_of
from cugen.spec.expressions import Expr, Op, walk
from cugen.targets import Device
from cugen.targets.latency import Latency, memory_latency


@dataclass(frozen=True, slots=True)
class Hiding:
    """Latency against what an SM has under way.

    `instructions_per_load` are warp instructions of the plan for each that loads from global memory; what a compiler
    adds for addresses and loops comes on top, so `warps_needed` (per scheduler) is an upper bound. `warps_held` is per
    scheduler. `bytes_in_flight` is per SM: each resident thread has the loads of one pass through the loop body that
    loads most under way. `bytes_needed` is bandwidth · latency ÷ SMs, for an idle memory, so a lower bound.
    """

    latency: Latency
    instructions_per_load: float
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
    steps: Iterable[Step], found: Iterable[Site], held: OccupancyFacts, device: Device, tallies: Tallies
) -> Hiding | None:
    """None where nothing is loaded from global memory, or an SM holds no block. Raises Unknown as tallies do."""
    loads = [site for site in found if _is_global_load(site.access)]
    load_warps = sum(tallies.at(site).warps for site in loads)
    blocks = held.occupancy.blocks_per_sm
    if not load_warps or not blocks:
        return None
    others = [(step, _instructions(step)) for step in steps]
    all_warps = load_warps + sum(count * tallies.at(step.place).warps for step, count in others if count)
    per_load = all_warps / load_warps
    latency = memory_latency(device)
    per_thread = max(_together(loads).values())
    return Hiding(
        latency=latency,
        instructions_per_load=per_load,
        warps_needed=warps_to_hide(latency.cycles, max(1, int(per_load)), latency.issue_cycles),
        warps_held=held.occupancy.warps_per_sm / latency.schedulers,
        bytes_per_thread=per_thread,
        bytes_in_flight=per_thread * held.threads * blocks,
        bytes_needed=bytes_in_flight(device.bandwidth, latency.seconds) / device.sms,
    )


def _together(loads: Iterable[Site]) -> dict[object, int]:
    """Bytes that a thread loads in one pass, by the loops round the loads and the branch they stand in."""
    passes: dict[object, int] = {}
    for site in loads:
        key = (site.counters, tuple(p for p in site.predicates if p.negated))
        passes[key] = passes.get(key, 0) + site.access.width * site.access.array.dtype.bytes
    return passes


def _instructions(step: Step) -> int:
    """Warp instructions that a node needs besides its loads from global memory; products that are added are one."""
    node = step.node
    if isinstance(node, For | If):
        return 0
    operations = [leaf for value in values_of(node) for leaf in walk(value) if isinstance(leaf, Op)]
    fused = sum(op.name == "add" and any(_is_product(arg) for arg in op.args) for op in operations)
    touched = [a for a in accesses((node,)) if a.array.space != "register" and not _is_global_load(a)]
    adds = isinstance(node, Accumulate) and not _is_product(node.value)
    return len(operations) - fused + adds + len(touched)


def _is_product(value: Expr) -> bool:
    return isinstance(value, Op) and value.name == "mul"


def _is_global_load(access: Access) -> bool:
    return access.kind == "load" and access.array.space in GLOBAL
