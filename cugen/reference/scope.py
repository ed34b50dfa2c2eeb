"""The iteration space over which an expression is evaluated: each index is an axis of the value arrays.

Axes are counted from the last one. Binding an index prepends its axis, so that values that don't depend on it keep
their shape and broadcast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from cugen.reference.storage import Values

_SHARED = 2  # points that must have the same indices, on average, to be evaluated once (heuristic)


@dataclass(frozen=True, slots=True)
class Scope:
    """`values` gives each index's values, `ranges` the start, stop and axis of those that run over a range.

    `depth` is the number of axes. The conjunction of `masks` selects the active points; values at the others are never
    used.
    """

    values: Mapping[str, Values] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    depth: int = 0
    masks: tuple[Values, ...] = ()

    def bind(self, name: str, start: int, stop: int) -> Scope:
        """The scope with another index over start .. stop - 1, as its leading axis."""
        column = np.arange(start, stop, dtype=np.int64).reshape((-1,) + (1,) * self.depth)
        return Scope(
            {**self.values, name: column},
            {**self.ranges, name: (start, stop, self.depth)},
            self.depth + 1,
            self.masks,
        )

    def where(self, mask: Values) -> Scope:
        """The scope with its points restricted to those where `mask` holds."""
        return replace(self, masks=(*self.masks, mask))

    def distinct(self, names: frozenset[str]) -> tuple[Scope, Values] | None:
        """Of scattered points a scope of those that differ in the named indices, and which of them each point is; None
        where masks select points, or where few have the same."""
        if self.depth != 1 or self.ranges or self.masks or not self.values:
            return None
        positions = {name: values for name, values in self.values.items() if name in names}
        points = max(map(np.size, self.values.values()))
        key = np.zeros(points, np.int64)
        for values in positions.values():
            key = key * (int(np.max(values, initial=0)) + 1) + values
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
        if not points or _SHARED * len(first) > points:
            return None
        return at_points(tuple(self.values), tuple(values[first] for values in self.values.values())), which

    def active(self, suspects: Values) -> Values:
        """The points of `suspects` that are active; axes of masks that these don't have are reduced by `any`."""
        for mask in self.masks:
            suspects = suspects & _projected(mask, suspects.shape)
            if not suspects.any():
                return suspects
        if len(self.masks) < 2:
            return suspects
        # Each mask may hold somewhere along an axis, and all of them nowhere.
        together = suspects
        for mask in self.masks:
            together = together & mask
        return _projected(together, suspects.shape)


def _projected(mask: Values, shape: tuple[int, ...]) -> Values:
    """The mask reduced by `any` over the axes that `shape` doesn't have."""
    extra = mask.ndim - len(shape)
    if extra > 0:
        mask = np.any(mask, axis=tuple(range(extra)))
    leading = len(shape) - mask.ndim
    reduced = tuple(axis for axis in range(mask.ndim) if mask.shape[axis] > 1 and shape[leading + axis] == 1)
    return np.any(mask, axis=reduced, keepdims=True) if reduced else mask


def at_points(names: tuple[str, ...], positions: tuple[Values, ...]) -> Scope:
    """A scope of scattered points along one axis: `positions[i][p]` is the value of index i at point p."""
    return Scope(dict(zip(names, positions, strict=True)), {}, 1)
