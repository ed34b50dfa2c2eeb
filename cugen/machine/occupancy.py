"""Occupancy: resident blocks per SM, the limiting resource, and the next higher step.

The formulas are those of `cuda_occupancy.h` and, for 1.x, of the CUDA programming guide 4.2, 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cugen.machine import Target, known_targets
from cugen.machine import target as known_target
from cugen.machine.requests.warp import WARP_SIZE

REGISTER_WARPS = 2  # 1.x: register allocation granularity in warps (programming guide 4.2, 4.2)
# The most multiprocessors that clusters of a size left idle, of those of an H200 and an H100: a cluster is in one GPC,
# and sizes of GPCs differ from die to die (cudaOccupancyMaxActiveClusters).
_IDLE_MULTIPROCESSORS, _MULTIPROCESSORS = {1: 0, 2: 0, 3: 15, 4: 12, 6: 30, 8: 12}, 132


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Resident blocks and warps per SM; `fraction` is resident warps ÷ maximum warps.

    limits: blocks per SM by resource (`registers`, `shared`, `warps`, `blocks`); 0 if the kernel can't be launched.
    limited_by: the resources with the smallest limit, of those that a block uses.
    """

    blocks_per_sm: int
    warps_per_sm: int
    fraction: float
    limits: Mapping[str, int]
    limited_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NextStep:
    """Next higher occupancy, and the maximum registers per thread and shared bytes per block for it."""

    occupancy: Occupancy
    registers: int
    shared_bytes: int


def clustered_multiprocessors(sms: int, size: int) -> int:
    """The multiprocessors that clusters of so many blocks can run on."""
    return sms - -(-sms * _IDLE_MULTIPROCESSORS[size] // _MULTIPROCESSORS)


def occupancy(target: Target | str, threads: int, registers: int, shared_bytes: int = 0) -> Occupancy:
    """Occupancy of a kernel by threads per block, registers per thread and static plus dynamic shared bytes per block.

    0 blocks if the block exceeds a limit of the target. ValueError for an empty block or a negative figure.
    """
    if threads < 1 or registers < 0 or shared_bytes < 0:
        raise ValueError(f"no kernel has {threads} threads, {registers} registers and {shared_bytes} shared bytes")
    row = known_target(target) if isinstance(target, str) else target
    warps = _up(threads, WARP_SIZE) // WARP_SIZE
    limits = {
        "registers": _register_limit(row, warps, registers),
        "shared": _shared_limit(row, shared_bytes),
        "warps": row.warps_per_sm // warps if threads <= row.threads_per_block else 0,
        "blocks": row.blocks_per_sm,
    }
    blocks = min(limits.values())
    unused = {"registers"} if registers == 0 else set()
    if shared_bytes + row.shared_reserved == 0:
        unused.add("shared")
    return Occupancy(
        blocks,
        blocks * warps,
        blocks * warps / row.warps_per_sm,
        limits,
        tuple(name for name, limit in limits.items() if limit == blocks and name not in unused),
    )


def max_registers(target: Target | str, threads: int, blocks: int = 1) -> int:
    """The most registers per thread with which so many blocks fit a multiprocessor; 0 if they never do.

    It is what a compiler may use under `__launch_bounds__(threads, blocks)`."""
    row = known_target(target) if isinstance(target, str) else target
    warps = _up(threads, WARP_SIZE) // WARP_SIZE
    counts = range(row.registers_per_thread, 0, -1)
    return next((count for count in counts if _register_limit(row, warps, count) >= blocks), 0)


def portable_blocks(target: Target, threads: int) -> int:
    """The most blocks of so many threads that are resident on the target and on every newer one: a newer target's
    compiler takes such a minimum of `__launch_bounds__` too."""
    rows = (known_target(name) for name in known_targets())
    newer = (row for row in rows if row.capability >= target.capability)
    return min(min(row.blocks_per_sm, row.threads_per_sm // threads) for row in newer)


def next_step(target: Target | str, threads: int, registers: int, shared_bytes: int = 0) -> NextStep | None:
    """Smallest reduction of registers and shared bytes that raises the occupancy; None if there is none.

    A resource that is not limiting is returned unchanged.
    """
    row = known_target(target) if isinstance(target, str) else target
    blocks = occupancy(row, threads, registers, shared_bytes).blocks_per_sm
    for fewer in range(min(registers, row.registers_per_thread), 0, -1):
        if occupancy(row, threads, fewer, 0).blocks_per_sm > blocks:
            break
    else:
        return None
    per_block = row.shared_per_sm // (blocks + 1) // row.shared_unit * row.shared_unit - row.shared_reserved
    max_shared = min(shared_bytes, per_block, row.shared_opt_in)
    if max_shared < 0:
        return None
    return NextStep(occupancy(row, threads, fewer, max_shared), fewer, max_shared)


def _register_limit(target: Target, warps: int, registers: int) -> int:
    if registers > target.registers_per_thread:
        return 0
    if registers == 0:
        return target.blocks_per_sm
    if target.register_rule == "block":
        return target.registers_per_sm // _up(_up(warps, REGISTER_WARPS) * WARP_SIZE * registers, target.register_unit)
    unit = target.register_unit * (2 if registers in target.register_doubled else 1)
    per_warp = _up(WARP_SIZE * registers, unit)
    if per_warp * _up(warps, target.sub_partitions) > target.registers_per_block:
        return 0
    return target.sub_partitions * (target.registers_per_sm // target.sub_partitions // per_warp) // warps


def _shared_limit(target: Target, shared_bytes: int) -> int:
    if shared_bytes > target.shared_opt_in:
        return 0
    allocated = _up(shared_bytes + target.shared_reserved, target.shared_unit)
    return target.shared_per_sm // allocated if allocated else target.blocks_per_sm


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
