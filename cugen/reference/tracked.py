"""Values with running error bounds.

Each value has a bound on its difference from what a device may compute, with any order of summation and any
contraction to fused multiply-adds, in the compute type (running error analysis: Wilkinson; Higham, "Accuracy and
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
HOST_ROUNDING = 2.0**-53


@dataclass(frozen=True, slots=True)
class Tracked:
    """`value` (float64 for floats, else the type's own width) and `bound`, which broadcasts to it.

    A bound of None means an exact value, inf an arbitrary one; for bools, 1 means undecided. `integral`: all values are
    integers, small enough that no order of evaluation rounds. `candidates` masks, along its first axis, the admissible
    results of an argmax that depends on rounding.
    """

    value: Values
    bound: Bound = None
    integral: bool = False
    candidates: Values | None = None

    def taken(self, which: Values) -> Tracked:
        """The elements of one axis at positions."""
        count = int(which.max()) + 1
        candidates = self.candidates
        if candidates is not None:
            candidates = np.broadcast_to(candidates, (len(candidates), count))[:, which]
        bound = None if self.bound is None else np.broadcast_to(self.bound, (count,))[which]
        return Tracked(np.broadcast_to(self.value, (count,))[which], bound, self.integral, candidates)

    @property
    def slack(self) -> Floats:
        """The bound as an array, of value's shape or one that broadcasts to it."""
        return np.zeros(()) if self.bound is None else self.bound


def unit(dtype: DType) -> float:
    """The relative error of one rounding on the device plus one on the host."""
    return format_of(dtype).unit + HOST_ROUNDING


def combine(*bounds: Bound) -> Bound:
    """The sum of bounds."""
    present = [b for b in bounds if b is not None]
    return sum(present[1:], present[0]) if present else None


def scaled(factor: Values, bound: Bound) -> Bound:
    """`|factor| * bound`, and 0 where the bound is 0, even for an infinite factor."""
    if bound is None:
        return None
    result: Floats = np.where(bound == 0, 0.0, np.abs(factor) * bound)
    return result


def deviation(value: Values, actual: Values) -> Floats:
    """The distance |value - actual|: 0 for equal infinities and NaNs, inf where one of them isn't finite."""
    same = (value == actual) | (np.isnan(value) & np.isnan(actual))
    gap = np.where(same, 0.0, np.abs(value - actual))
    return np.where(np.isnan(gap), np.inf, gap)


def integers_are_exact(value: Values, dtype: DType) -> bool:
    """Whether `dtype` represents every integer up to the largest magnitude of the values."""
    return value.size == 0 or bool(np.max(np.abs(value)) <= format_of(dtype).integers)


def apply_overflow(value: Floats, error: Floats, dtype: DType) -> Tracked:
    """A float value with its total error; overflows become infinity, and inf bounds where rounding decides overflow."""
    limit = format_of(dtype).overflow
    error = np.where(np.isnan(error), np.inf, error)
    if np.isfinite(limit):
        magnitude = np.abs(value)
        is_overflow = magnitude >= limit
        may_overflow = ((magnitude + error >= limit) & ~is_overflow) | ((magnitude - error < limit) & is_overflow)
        if may_overflow.any():
            error = np.where(may_overflow & np.isfinite(value), np.inf, error)
        if is_overflow.any():
            value = np.where(is_overflow, np.copysign(np.inf, value), value)
    return Tracked(value, error)


def rounded(value: Floats, propagated: Bound, dtype: DType, *, ulps: float = 0.5, host_ulps: float = 1.0) -> Tracked:
    """The result of an operation whose operands' errors add up to `propagated`.

    `ulps` is the device's error in units in the last place (0.5: correctly rounded), `host_ulps` the error of this
    evaluation in units of 2^-53."""
    form = format_of(dtype)
    relative = 2 * ulps * form.unit + host_ulps * HOST_ROUNDING
    error = np.where(np.isfinite(value), relative * np.abs(value) + 2 * ulps * form.tiny, 0.0)
    if propagated is not None:
        error = error + propagated
    return apply_overflow(value, error, dtype)


def exact_integers(value: Floats, dtype: DType) -> Tracked | None:
    """`value` as exact integers, or None if some are too large."""
    return Tracked(value, None, integral=True) if integers_are_exact(value, dtype) else None


def endpoint_error(
    function: Callable[[Values], Values], x: Tracked, value: Values, lowest: float | None = None
) -> Bound:
    """The propagated error of a monotone function: its largest deviation at the endpoints of the operand's interval.

    No operand is below `lowest` (a square root's argument that is known not to be negative)."""
    if x.bound is None:
        return None
    below, above = x.value - x.bound, x.value + x.bound
    if lowest is not None:
        below = np.maximum(below, lowest)
    error = np.maximum(deviation(value, function(below)), deviation(value, function(above)))
    return np.where(np.isinf(x.bound), np.inf, error)


def after_store(x: Tracked, dtype: DType) -> tuple[Values, Bound]:
    """The stored elements of computed values, with the deviation of the device's.

    Rounding is monotone, so the device's element is between the rounded endpoints, which are mostly equal."""
    stored = store(x.value, dtype)
    if not dtype.is_float or x.bound is None:
        return stored, x.bound
    bound = endpoint_error(lambda v: store(v, dtype).astype(np.float64), x, stored.astype(np.float64))
    return stored, bound


def against_exact(x: Tracked, dtype: DType) -> Bound:
    """The deviation of a stored element from the unrounded value: the error, and the rounding of both endpoints."""
    if x.bound is None:
        return None
    return endpoint_error(lambda v: store(v, dtype).astype(np.float64), x, x.value)
