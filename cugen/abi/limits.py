"""Device limits of a launch, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol, TypeVar

from cugen.abi import wording
from cugen.abi.codes import OVER_A_LIMIT
from cugen.abi.demand import UNITS, demand
from cugen.abi.errors import RunError
from cugen.abi.manifest import LaunchEntry, Manifest
from cugen.abi.sizes import evaluate_all
from cugen.machine.target import STATIC_SHARED_BYTES


class Variant(Protocol):
    """A kernel with its manifest."""

    @property
    def name(self) -> str: ...
    @property
    def manifest(self) -> Manifest: ...


AnyVariant = TypeVar("AnyVariant", bound=Variant)


@dataclass(frozen=True, slots=True)
class Limits:
    """Launch limits of a device. `shared_bytes` is the opt-in limit of a block, static and dynamic together."""

    device: str
    threads: int
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    shared_bytes: int
    registers: int  # per block


def check_launch(
    launch: LaunchEntry, params: Mapping[str, int], limits: Limits, registers: int = 0
) -> tuple[int, int, int]:
    """The grid of `launch`. RunError (CG5010) where the launch exceeds a limit.

    `registers` are those of one thread, 0 where unknown."""
    grid = evaluate_all(launch.grid, params)
    threads = prod(launch.block)
    shared = launch.shared_bytes + launch.dynamic_shared_bytes
    requested = [
        ("threads per block", threads, limits.threads),
        *(
            (f"threads in block.{axis}", n, limit)
            for axis, n, limit in zip("xyz", launch.block, limits.block, strict=True)
        ),
        *((f"blocks in grid.{axis}", n, limit) for axis, n, limit in zip("xyz", grid, limits.grid, strict=True)),
        ("bytes of shared memory per block", shared, limits.shared_bytes),
        ("registers per block", registers * threads, limits.registers),
    ]
    exceeded = [f"{n} {resource}; {limits.device} allows {limit}" for resource, n, limit in requested if n > limit]
    if exceeded:
        raise RunError(
            OVER_A_LIMIT,
            f"kernel `{launch.kernel}` needs {', and '.join(exceeded)}",
            "choose smaller blocks or steps, or fewer stages, in the spec's schedule",
        )
    x, y, z = grid
    return x, y, z


def largest_that_fits(kernels: Sequence[AnyVariant], limits: Limits) -> AnyVariant:
    """The variant with the most shared memory, then the most threads, per block that fits the device.

    The launcher of the variants' `<name>.h` makes the same choice where the cost of one is unknown. RunError (CG5010)
    where none fits, ValueError for an empty sequence."""
    return those_that_fit(kernels, limits)[0]


def those_that_fit(kernels: Sequence[AnyVariant], limits: Limits) -> list[AnyVariant]:
    """The variants that fit the device, at least one, those with the most shared memory and threads per block first.
    Errors as of `largest_that_fits`."""
    if not kernels:
        raise ValueError("no kernels to choose from")
    ordered = sorted(kernels, key=lambda kernel: demand(kernel.manifest).size, reverse=True)
    amounts = _allowed(limits)
    fitting = [kernel for kernel in ordered if demand(kernel.manifest).fits(amounts)]
    if fitting:
        return fitting
    smallest = ordered[-1]
    needed = demand(smallest.manifest)
    texts = [f"{amounts[key]} {UNITS[key]}" for key in needed.amounts()]
    raise RunError(
        OVER_A_LIMIT,
        wording.OVER_A_LIMIT.format(
            name=smallest.name, needed=needed, device=limits.device, allowed=" and ".join(texts)
        ),
        "add a variant with smaller tiles",
    )


def _allowed(limits: Limits) -> dict[str, int]:
    """What a block may have on a device, by the keys of UNITS."""
    return {
        "threads": limits.threads,
        "static": min(limits.shared_bytes, STATIC_SHARED_BYTES),
        "dynamic": limits.shared_bytes,
    }


def dynamic_limits(manifest: Manifest) -> dict[str, int]:
    """Dynamic shared memory, in bytes, of each kernel that needs the opt-in beyond STATIC_SHARED_BYTES."""
    sizes: dict[str, int] = {}
    for launch in manifest.launches:
        if launch.dynamic_shared_bytes and launch.shared_bytes + launch.dynamic_shared_bytes > STATIC_SHARED_BYTES:
            sizes[launch.kernel] = max(sizes.get(launch.kernel, 0), launch.dynamic_shared_bytes)
    return sizes
