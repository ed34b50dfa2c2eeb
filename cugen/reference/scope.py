"""The points at which an expression is evaluated together: each index is an axis of the arrays of values.

Axes are counted from the last one. Binding an index puts its axis in front of all others, so that values which don't
depend on it stay small and NumPy's broadcasting repeats them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from cugen.reference.storage import Values


@dataclass(frozen=True, slots=True)
class Scope:
    """`values` gives each index's values, `ranges` the start, stop and axis of those that run over a range.

    `depth` is the number of axes in use. `masks` (to be combined with `and`) say which points count: what reads yield
    elsewhere is never used.
    """

    values: Mapping[str, Values] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    depth: int = 0
    masks: tuple[Values, ...] = ()

    def bind(self, name: str, start: int, stop: int) -> Scope:
        """The scope with one index more, whose axis leads."""
        column = np.arange(start, stop, dtype=np.int64).reshape((-1,) + (1,) * self.depth)
        return Scope(
            {**self.values, name: column},
            {**self.ranges, name: (start, stop, self.depth)},
            self.depth + 1,
            self.masks,
        )

    def where(self, mask: Values) -> Scope:
        """The scope for what is only evaluated where `mask` holds."""
        return replace(self, masks=(*self.masks, mask))

    def counts(self, suspects: Values) -> Values:
        """Those of `suspects` that no mask excludes; masks that vary along further axes count where any is true."""
        for mask in self.masks:
            extra = mask.ndim - suspects.ndim
            if extra > 0:
                mask = np.any(mask, axis=tuple(range(extra)))
            ahead = suspects.ndim - mask.ndim
            over = tuple(
                axis for axis in range(mask.ndim) if mask.shape[axis] > 1 and suspects.shape[ahead + axis] == 1
            )
            suspects = suspects & (np.any(mask, axis=over, keepdims=True) if over else mask)
            if not suspects.any():
                break
        return suspects


def at_points(names: tuple[str, ...], positions: tuple[Values, ...]) -> Scope:
    """A scope whose indices run along one axis together: `positions[i][p]` is index i's value at point p."""
    return Scope(dict(zip(names, positions, strict=True)), {}, 1)
