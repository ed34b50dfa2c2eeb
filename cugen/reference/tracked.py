"""Values with running error bounds.

Next to each value goes a bound on the difference between it and what a device may compute: any order of summation and
any contraction to fused multiply-adds, in the compute type (running error analysis: Wilkinson; Higham, "Accuracy and
Stability of Numerical Algorithms", chapter 3). The values themselves are float64; their own rounding, 2^-53 for each
operation, is part of the bound, which therefore also holds where the compute type is float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cugen.reference.storage import Floats, Values, format_of, store
from cugen.spec.types import DType

Bound = Floats | None
OWN_ROUNDING = 2.0**-53


@dataclass(frozen=True, slots=True)
class Tracked:
    """`value` (float64 for floats, else the type's own width) and `bound`, which broadcasts to it.

    A bound of None leaves the device no freedom; inf admits anything at all. For bools, 1 means either. `integral`:
    floats that are all integers, small enough that no order of evaluation ever rounded. `candidates` holds, for an
    argmax whose answer depends on rounding, the admissible positions along its first axis.
    """

    value: Values
    bound: Bound = None
    integral: bool = False
    candidates: Values | None = None

    @property
    def slack(self) -> Floats:
        """The bound as an array, of value's shape or one that broadcasts to it."""
        return np.zeros(()) if self.bound is None else self.bound


def unit(dtype: DType) -> float:
    """The relative error of one rounding on the device, and of one here."""
    return format_of(dtype).unit + OWN_ROUNDING


def combine(*bounds: Bound) -> Bound:
    """The sum of bounds."""
    present = [b for b in bounds if b is not None]
    return sum(present[1:], present[0]) if present else None


def scaled(factor: Values, bound: Bound) -> Bound:
    """`|factor| * bound`, 0 where the bound is: an infinite factor times nothing is nothing."""
    if bound is None:
        return None
    result: Floats = np.where(bound == 0, 0.0, np.abs(factor) * bound)
    return result


def deviation(value: Values, other: Values) -> Floats:
    """How far `other` is from `value`: 0 for equal infinities and NaNs, inf for different kinds."""
    same = (value == other) | (np.isnan(value) & np.isnan(other))
    gap = np.where(same, 0.0, np.abs(value - other))
    return np.where(np.isnan(gap), np.inf, gap)


def fits(value: Values, dtype: DType) -> bool:
    """Whether all values are small enough for `dtype` to hold every integer of their magnitude."""
    return value.size == 0 or bool(np.max(np.abs(value)) <= format_of(dtype).integers)


def settle(value: Floats, error: Floats, dtype: DType) -> Tracked:
    """A value of a float `dtype` with its whole error: overflows to infinity, of whose edge a bound makes either."""
    limit = format_of(dtype).overflow
    error = np.where(np.isnan(error), np.inf, error)
    if np.isfinite(limit):
        magnitude = np.abs(value)
        over = magnitude >= limit
        near = ((magnitude + error >= limit) & ~over) | ((magnitude - error < limit) & over)
        if near.any():
            error = np.where(near & np.isfinite(value), np.inf, error)
        if over.any():
            value = np.where(over, np.copysign(np.inf, value), value)
    return Tracked(value, error)


def rounded(value: Floats, propagated: Bound, dtype: DType, *, ulps: float = 0.5, own: float = 1.0) -> Tracked:
    """The result of an operation whose operands' errors add up to `propagated`.

    `ulps` is the device's own error in units in the last place (0.5: correctly rounded), `own` this evaluation's in
    units of 2^-53."""
    form = format_of(dtype)
    relative = 2 * ulps * form.unit + own * OWN_ROUNDING
    error = np.where(np.isfinite(value), relative * np.abs(value) + 2 * ulps * form.tiny, 0.0)
    if propagated is not None:
        error = error + propagated
    return settle(value, error, dtype)


def exactly(value: Floats, dtype: DType) -> Tracked | None:
    """`value` as integers that nothing rounded, or None if some are too large for that."""
    return Tracked(value, None, integral=True) if fits(value, dtype) else None


def by_ends(function: Callable[[Values], Values], x: Tracked, value: Values, lowest: float | None = None) -> Bound:
    """The error that a monotone function inherits: how far its values at both ends of the operand's interval are.

    No operand is below `lowest` (a square root's argument that is known not to be negative)."""
    if x.bound is None:
        return None
    below, above = x.value - x.bound, x.value + x.bound
    if lowest is not None:
        below = np.maximum(below, lowest)
    error = np.maximum(deviation(value, function(below)), deviation(value, function(above)))
    return np.where(np.isinf(x.bound), np.inf, error)


def after_store(x: Tracked, dtype: DType) -> tuple[Values, Bound]:
    """The stored elements of computed values, and how far from them the device's may be.

    Rounding is monotone, so the device's element lies between those of the interval's ends; mostly they agree."""
    stored = store(x.value, dtype)
    if not dtype.is_float or x.bound is None:
        return stored, x.bound
    bound = by_ends(lambda v: store(v, dtype).astype(np.float64), x, stored.astype(np.float64))
    return stored, bound


def against_exact(x: Tracked, dtype: DType) -> Bound:
    """How far from the unrounded value a stored element may be: its error, and the rounding of both ends."""
    if x.bound is None:
        return None
    return by_ends(lambda v: store(v, dtype).astype(np.float64), x, x.value)
