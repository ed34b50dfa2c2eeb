"""Warp divergence at a branch as written in the source.

The compiler may predicate a short `if`; hardware counters of divergent branches then stay at 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from cugen.machine.requests.warp import WARP_SIZE


@dataclass(frozen=True, slots=True)
class Path:
    """Lanes that take the same path at a branch, and the branch value."""

    value: Hashable
    lanes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Divergence:
    """Warps with an active lane, those of them that diverge, and the maximum number of paths in one warp."""

    warps: int
    mixed_warps: int
    max_paths: int


def paths(values: Sequence[Hashable | None]) -> tuple[Path, ...]:
    """Paths of one warp, ordered by their first lane.

    values: the branch value of each lane (a bool, a switch case); None for an inactive lane.
    """
    if len(values) > WARP_SIZE:
        raise ValueError(f"a warp has {WARP_SIZE} lanes, not {len(values)}")
    lanes: dict[Hashable, list[int]] = {}
    for lane, value in enumerate(values):
        if value is not None:
            lanes.setdefault(value, []).append(lane)
    return tuple(Path(value, tuple(taken)) for value, taken in lanes.items())


def divergence(values: Sequence[Hashable | None]) -> Divergence:
    """Divergence over the warps of consecutive threads, x fastest.

    The last warp may be partial, so blocks whose size is no multiple of 32 need a call each.
    """
    counts = [len(paths(values[start : start + WARP_SIZE])) for start in range(0, len(values), WARP_SIZE)]
    return Divergence(
        warps=sum(count > 0 for count in counts),
        mixed_warps=sum(count > 1 for count in counts),
        max_paths=max(counts, default=0),
    )
