"""Launch shape, occupancy and waves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Protocol

import sympy

from cugen.machine import Device, Target
from cugen.machine.occupancy import NextStep, Occupancy, next_step, occupancy
from cugen.machine.requests.warp import WARP_SIZE
from cugen.plan.kernel import Kernel
from cugen.plan.symbols import Integer, integer, symbol

_UNLIMITING_REGISTERS = 1  # used for an unknown count: never the limit


class Resources(Protocol):
    """Compiler's resource usage of a kernel, per thread; spills and stack in bytes."""

    @property
    def registers(self) -> int: ...

    @property
    def spill_stores(self) -> int: ...

    @property
    def spill_loads(self) -> int: ...

    @property
    def stack_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """`grid` and `blocks` are None if they depend on a param without a value.

    idle_lanes: inactive lanes of each block's last warp. grid_limits: maximum blocks along x, y and z; grids of 1.x are
    two-dimensional.
    """

    block: tuple[int, int, int]
    threads: int
    warps_per_block: int
    idle_lanes: int
    grid: tuple[int, int, int] | None
    blocks: int | None
    grid_limits: tuple[int, int, int]
    cluster: int = 1  # blocks per cluster

    @property
    def is_within_limits(self) -> bool:
        """Whether the grid is within the target's limits."""
        return self.grid is None or all(size <= limit for size, limit in zip(self.grid, self.grid_limits, strict=True))


@dataclass(frozen=True, slots=True)
class OccupancyFacts:
    """`registers` is None before compilation: then threads, blocks and shared memory limit the occupancy.

    `shared_per_sm` and `l1_bytes` are an SM's shared memory and L1 for the kernel's carve-out; without one, the most
    shared memory. `l1_bytes` is 0 where they aren't one memory."""

    threads: int
    registers: int | None
    shared_bytes: int  # static and dynamic
    occupancy: Occupancy
    next_step: NextStep | None
    shared_per_sm: int
    l1_bytes: int

    @property
    def can_launch(self) -> bool:
        return self.occupancy.blocks_per_sm > 0


@dataclass(frozen=True, slots=True)
class WaveFacts:
    """Waves of a launch on a device with `at_once` resident blocks; `tail_blocks` form the last, partial wave.

    `utilisation` is the fraction of block slots in use over all waves, `idle_sms` are those without any block.
    """

    at_once: int
    waves: float
    full_waves: int
    tail_blocks: int
    utilisation: float
    idle_sms: int


def launch_facts(kernel: Kernel, target: Target, params: Mapping[str, int]) -> LaunchFacts:
    warps = -(-kernel.threads // WARP_SIZE)
    fixed: dict[sympy.Symbol, Integer] = {symbol(name): integer(value) for name, value in params.items()}
    extents = [extent.xreplace(fixed) for extent in kernel.grid]
    grid = None
    if all(extent.is_Integer for extent in extents):
        grid = (int(extents[0]), int(extents[1]), int(extents[2]))
    return LaunchFacts(
        block=kernel.block,
        threads=kernel.threads,
        warps_per_block=warps,
        idle_lanes=warps * WARP_SIZE - kernel.threads,
        grid=grid,
        blocks=None if grid is None else prod(grid),
        grid_limits=target.grid,
        cluster=kernel.cluster,
    )


def occupancy_facts(kernel: Kernel, target: Target, resources: Resources | None) -> OccupancyFacts:
    shared = kernel.shared_bytes + kernel.dynamic_shared_bytes
    registers = None if resources is None else resources.registers
    return occupancy_of(target.with_carveout(kernel.options.carveout, shared), kernel.threads, registers, shared)


def occupancy_of(target: Target, threads: int, registers: int | None, shared: int) -> OccupancyFacts:
    """Occupancy of blocks of so many threads and shared bytes, whose threads have so many registers."""
    counted = _UNLIMITING_REGISTERS if registers is None else registers
    resident = occupancy(target, threads, counted, shared)
    step = next_step(target, threads, counted, shared)
    if registers is None:
        limits = {name: limit for name, limit in resident.limits.items() if name != "registers"}
        limited_by = tuple(name for name in resident.limited_by if name != "registers")
        resident = Occupancy(resident.blocks_per_sm, resident.warps_per_sm, resident.fraction, limits, limited_by)
    l1_bytes = target.l1_bytes - target.shared_per_sm if target.carveouts else 0
    return OccupancyFacts(threads, registers, shared, resident, step, target.shared_per_sm, l1_bytes)


def wave_facts(launch: LaunchFacts, resident: OccupancyFacts, device: Device) -> WaveFacts | None:
    """Waves, or None if the grid is unknown or empty, or no block fits an SM."""
    at_once = resident.occupancy.blocks_per_sm * device.sms
    if not launch.blocks or not at_once:
        return None
    full, tail = divmod(launch.blocks, at_once)
    utilisation = launch.blocks / ((full + (tail > 0)) * at_once)
    return WaveFacts(at_once, launch.blocks / at_once, full, tail, utilisation, max(0, device.sms - launch.blocks))
