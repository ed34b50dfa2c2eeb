"""What a device allows one launch, and what a launch asks for, compared before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol, TypeVar

from cugen.abi import wording
from cugen.abi.codes import OVER_A_LIMIT
from cugen.abi.demand import WORDS, demand
from cugen.abi.errors import RunError
from cugen.abi.manifest import LaunchEntry, Manifest
from cugen.abi.sizes import evaluate_all

PLAIN_SHARED_BYTES = 48 * 1024  # beyond it a function's own limit must be raised first


class Variant(Protocol):
    """A kernel with its manifest."""

    @property
    def name(self) -> str: ...
    @property
    def manifest(self) -> Manifest: ...


AnyVariant = TypeVar("AnyVariant", bound=Variant)


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one device. `shared_bytes` is what a block may ask for, static and dynamic together, once opted in."""

    device: str
    threads: int
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    shared_bytes: int
    registers: int  # per block


def check_launch(
    launch: LaunchEntry, params: Mapping[str, int], limits: Limits, registers: int = 0
) -> tuple[int, int, int]:
    """The grid of `launch`, for which everything fits; RunError (CG5010) with the numbers where it does not.

    `registers` is what one thread of the kernel takes, 0 where unknown."""
    grid = evaluate_all(launch.grid, params)
    threads = prod(launch.block)
    shared = launch.shared_bytes + launch.dynamic_shared_bytes
    asked = [
        ("threads per block", threads, limits.threads),
        *(
            (f"threads in block.{axis}", n, most)
            for axis, n, most in zip("xyz", launch.block, limits.block, strict=True)
        ),
        *((f"blocks in grid.{axis}", n, most) for axis, n, most in zip("xyz", grid, limits.grid, strict=True)),
        ("bytes of shared memory per block", shared, limits.shared_bytes),
        ("registers per block", registers * threads, limits.registers),
    ]
    over = [f"{n} {what}, of which {limits.device} has {most}" for what, n, most in asked if n > most]
    if over:
        raise RunError(
            OVER_A_LIMIT,
            f"kernel `{launch.kernel}` asks for {'; '.join(over)}",
            "choose smaller block or step sizes or fewer stages in the spec's schedule",
        )
    x, y, z = grid
    return x, y, z


def largest_that_fits(kernels: Sequence[AnyVariant], limits: Limits) -> AnyVariant:
    """Of variants for the same sizes, the one with the most shared memory, then threads, per block that a device
    allows: the choice of the launcher in their `<name>.h`. RunError (CG5010) with what the smallest needs and what
    the device allows; ValueError where there are no kernels."""
    if not kernels:
        raise ValueError("no kernels to choose from")
    ordered = sorted(kernels, key=lambda kernel: demand(kernel.manifest).size, reverse=True)
    allowed = {
        "threads": limits.threads,
        "static": min(limits.shared_bytes, PLAIN_SHARED_BYTES),
        "dynamic": limits.shared_bytes,
    }
    for kernel in ordered:
        if demand(kernel.manifest).fits(allowed):
            return kernel
    smallest = ordered[-1]
    needed = demand(smallest.manifest)
    has = " and ".join(f"{allowed[key]} {WORDS[key]}" for key in needed.parts())
    raise RunError(
        OVER_A_LIMIT,
        wording.OVER_A_LIMIT.format(name=smallest.name, needed=needed, device=limits.device, has=has),
        "add a variant with smaller tiles",
    )


def dynamic_limits(manifest: Manifest) -> dict[str, int]:
    """The dynamic shared memory to allow each kernel that takes more than every device gives unasked, in bytes."""
    allowed: dict[str, int] = {}
    for launch in manifest.launches:
        if launch.dynamic_shared_bytes and launch.shared_bytes + launch.dynamic_shared_bytes > PLAIN_SHARED_BYTES:
            allowed[launch.kernel] = max(allowed.get(launch.kernel, 0), launch.dynamic_shared_bytes)
    return allowed
