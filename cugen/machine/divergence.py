"""Which lanes of a warp go which way at a branch.

This is the branch as written: a compiler turns a short `if` into predicated instructions, and then a hardware counter
of divergent branches stays at 0 though the warp is mixed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from cugen.machine.requests.warp import WARP


@dataclass(frozen=True, slots=True)
class Path:
    """One way through the branch: the value that leads there and the lanes that take it."""

    value: Hashable
    lanes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Divergence:
    """Warps with an active lane, those among them whose lanes part, and the most paths that one warp takes."""

    warps: int
    mixed_warps: int
    most_paths: int


def paths(values: Sequence[Hashable | None]) -> tuple[Path, ...]:
    """The paths of one warp, in the order of their first lanes.

    `values` holds what each lane branches on (a truth value, a case of a switch); None for an inactive lane.
    """
    if len(values) > WARP:
        raise ValueError(f"a warp has {WARP} lanes, not {len(values)}")
    lanes: dict[Hashable, list[int]] = {}
    for lane, value in enumerate(values):
        if value is not None:
            lanes.setdefault(value, []).append(lane)
    return tuple(Path(value, tuple(taken)) for value, taken in lanes.items())


def divergence(values: Sequence[Hashable | None]) -> Divergence:
    """The warps of one block or more, whose threads follow each other in `values`, x fastest.

    A last warp may be short, so each block whose size is no multiple of 32 is asked for by itself.
    """
    counts = [len(paths(values[start : start + WARP])) for start in range(0, len(values), WARP)]
    return Divergence(
        warps=sum(count > 0 for count in counts),
        mixed_warps=sum(count > 1 for count in counts),
        most_paths=max(counts, default=0),
    )
