"""How many blocks of a kernel an SM holds at once, and what would let it hold one more.

The formulas are those of `cuda_occupancy.h` and, for 1.x, of the CUDA programming guide 4.2, 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cugen.machine import Target
from cugen.machine import target as known_target
from cugen.machine.requests.warp import WARP

WARPS_TOGETHER = 2  # 1.x hands registers to pairs of warps


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Blocks and warps that one SM holds; `fraction` is of the warps it could hold.

    `limits` gives the blocks that each resource allows (`registers`, `shared`, `warps`, `blocks`); 0 means that the
    kernel can't be launched. `limited_by` names those that allow the fewest.
    """

    blocks_per_sm: int
    warps_per_sm: int
    fraction: float
    limits: Mapping[str, int]
    limited_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NextStep:
    """What the next higher occupancy takes: at most this many registers per thread and bytes of shared memory."""

    occupancy: Occupancy
    registers: int
    shared_bytes: int


def occupancy(target: Target | str, threads: int, registers: int, shared_bytes: int = 0) -> Occupancy:
    """The occupancy of a kernel with `threads` per block, `registers` per thread and static plus dynamic shared bytes.

    ValueError if the block is empty or a figure negative. A block that is too large for the target has 0 blocks.
    """
    if threads < 1 or registers < 0 or shared_bytes < 0:
        raise ValueError(f"no kernel has {threads} threads, {registers} registers and {shared_bytes} shared bytes")
    row = known_target(target) if isinstance(target, str) else target
    warps = _up(threads, WARP) // WARP
    limits = {
        "registers": _register_limit(row, warps, registers),
        "shared": _shared_limit(row, shared_bytes),
        "warps": row.warps_per_sm // warps if threads <= row.threads_per_block else 0,
        "blocks": row.blocks_per_sm,
    }
    blocks = min(limits.values())
    return Occupancy(
        blocks,
        blocks * warps,
        blocks * warps / row.warps_per_sm,
        limits,
        tuple(name for name, limit in limits.items() if limit == blocks),
    )


def next_step(target: Target | str, threads: int, registers: int, shared_bytes: int = 0) -> NextStep | None:
    """The cheapest change of registers and shared bytes that lets an SM hold more blocks; None where none does.

    Figures that don't stand in the way come back as they are.
    """
    row = known_target(target) if isinstance(target, str) else target
    blocks = occupancy(row, threads, registers, shared_bytes).blocks_per_sm
    for fewer in range(min(registers, row.registers_per_thread), 0, -1):
        if occupancy(row, threads, fewer, 0).blocks_per_sm > blocks:
            break
    else:
        return None
    share = row.shared_per_sm // (blocks + 1) // row.shared_unit * row.shared_unit - row.shared_reserved
    smaller = min(shared_bytes, share, row.shared_opt_in)
    if smaller < 0:
        return None
    return NextStep(occupancy(row, threads, fewer, smaller), fewer, smaller)


def _register_limit(target: Target, warps: int, registers: int) -> int:
    if registers > target.registers_per_thread:
        return 0
    if registers == 0:
        return target.blocks_per_sm
    if target.register_rule == "block":
        return target.registers_per_sm // _up(_up(warps, WARPS_TOGETHER) * WARP * registers, target.register_unit)
    unit = target.register_unit * (2 if registers in target.register_doubled else 1)
    per_warp = _up(WARP * registers, unit)
    if per_warp * _up(warps, target.sub_partitions) > target.registers_per_block:
        return 0
    return target.sub_partitions * (target.registers_per_sm // target.sub_partitions // per_warp) // warps


def _shared_limit(target: Target, shared_bytes: int) -> int:
    if shared_bytes > target.shared_opt_in:
        return 0
    taken = _up(shared_bytes + target.shared_reserved, target.shared_unit)
    return target.shared_per_sm // taken if taken else target.blocks_per_sm


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
