"""What an array holds between two statements, and what the device's may differ by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from cugen.reference.storage import Floats, Values, numpy_dtype, working_dtype
from cugen.reference.tracked import Tracked, after_store, against_exact, deviation, fits
from cugen.spec.expressions import Boundary
from cugen.spec.types import DType

_SOME = 1 << 16  # elements looked at together; most arrays of fractions show one among the first

Region = tuple[slice | int | Values | None, ...]


class OutsideError(IndexError):
    """A read without a boundary left its array where it counts."""


@dataclass(slots=True)
class Contents:
    """An array's elements after some statement, in logical shape.

    `value` is in the storage type (a temporary's in the type it was computed in, never rounded), `slack` how far the
    device's elements may be from it. For results, `exact` and `bound` say the same about the value before it was
    rounded. `missing` marks elements that `supply` has yet to compute.
    """

    dtype: DType
    value: Values
    keeps_exact: bool = False
    rounds: bool = True
    slack: Floats | None = None
    exact: Floats | None = None
    bound: Floats | None = None
    integral: bool = True
    candidates: dict[int, Values] = field(default_factory=dict)
    missing: Values | None = None
    supply: Callable[[Values], None] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def copy(self) -> Contents:
        """The same contents, to be written to."""
        return Contents(
            self.dtype,
            self.value.copy(),
            self.keeps_exact,
            self.rounds,
            None if self.slack is None else self.slack.copy(),
            None if self.exact is None else self.exact.copy(),
            None if self.bound is None else self.bound.copy(),
            self.integral,
            dict(self.candidates),
        )

    def complete(self, numbers: Values) -> None:
        """Has the elements with these row-major numbers computed, if they weren't yet."""
        if self.missing is not None and self.supply is not None:
            wanted = np.unique(numbers[self.missing.reshape(-1)[numbers]])
            if wanted.size:
                self.supply(wanted)

    def take(self, other: Contents, numbers: Values) -> None:
        """The elements with these numbers as another version of the array has them."""
        if not numbers.size:
            return
        other.complete(numbers)
        self.value.reshape(-1)[numbers] = other.value.reshape(-1)[numbers]
        for name in ("slack", "exact", "bound"):
            theirs: Floats | None = getattr(other, name)
            if theirs is not None:
                mine: Floats = np.zeros(self.shape) if getattr(self, name) is None else getattr(self, name)
                mine.reshape(-1)[numbers] = theirs.reshape(-1)[numbers]
                setattr(self, name, mine)
        self.integral = self.integral and other.integral
        self.candidates.update({n: other.candidates[n] for n in numbers.tolist() if n in other.candidates})
        if self.missing is not None:
            self.missing.reshape(-1)[numbers] = False

    def gather(self, region: Region) -> Tracked:
        """The elements of a NumPy index, in their compute type."""
        if self.missing is not None:
            self.complete(np.arange(self.value.size, dtype=np.int64).reshape(self.shape)[region].reshape(-1))
        value = np.asarray(self.value[region]).astype(working_dtype(self.dtype), copy=False)
        slack = None if self.slack is None else np.asarray(self.slack[region])
        return Tracked(value, slack, self.dtype.is_float and self.integral and slack is None)

    def put(self, region: Region, x: Tracked) -> None:
        """Stores computed values, of a shape that broadcasts to the region's."""
        if self.rounds:
            stored, slack = after_store(x, self.dtype)
        else:
            stored, slack = x.value, x.bound
        self.value[region] = stored
        self.integral = self.integral and x.integral and slack is None and fits(stored.astype(np.float64), self.dtype)
        self.slack = _assigned(self.slack, region, slack, self.shape)
        if self.keeps_exact:
            if self.exact is not None:
                self.exact[region] = x.value
            bound = against_exact(x, self.dtype)
            if bound is None and self.exact is not None and self.exact.dtype != self.value.dtype:
                bound = deviation(x.value, stored.astype(np.float64))
            self.bound = _assigned(self.bound, region, bound, self.shape)
        if x.candidates is not None and self.keeps_exact:
            self._keep_candidates(region, x)
        if self.missing is not None:
            self.missing[region] = False

    def _keep_candidates(self, region: Region, x: Tracked) -> None:
        assert x.candidates is not None
        numbers = np.arange(self.value.size, dtype=np.int64).reshape(self.shape)[region]
        candidates = np.broadcast_to(x.candidates, (len(x.candidates), *numbers.shape))
        for place in zip(*np.nonzero(candidates.sum(axis=0) > 1), strict=True):
            self.candidates[int(numbers[place])] = np.nonzero(candidates[(slice(None), *place)])[0]


def _assigned(held: Floats | None, region: Region, new: Floats | None, shape: tuple[int, ...]) -> Floats | None:
    if new is None and held is None:
        return None
    if held is None:
        held = np.zeros(shape)
    held[region] = 0.0 if new is None else new
    return held


def initial(dtype: DType, elements: Values, *, keeps_exact: bool = False) -> Contents:
    """The contents of an array that was given; float elements that are all integers are known to be."""
    contents = Contents(dtype, elements, keeps_exact)
    if dtype.is_float:
        contents.integral = _all_integers(elements, dtype)
        if keeps_exact:
            contents.exact = elements.astype(np.float64)
    return contents


def empty(dtype: DType, shape: tuple[int, ...], *, is_temporary: bool, keeps_exact: bool = False) -> Contents:
    """An array that statements are to fill."""
    held = working_dtype(dtype) if is_temporary else numpy_dtype(dtype)
    contents = Contents(dtype, np.zeros(shape, held), keeps_exact, rounds=not is_temporary)
    if keeps_exact and dtype.is_float:
        contents.exact = np.zeros(shape)
    return contents


def _all_integers(elements: Values, dtype: DType) -> bool:
    flat = elements.reshape(-1)
    for start in range(0, flat.size, _SOME):
        values = flat[start : start + _SOME].astype(np.float64, copy=False)
        if not (np.all(np.rint(values) == values) and fits(values, dtype)):
            return False
    return True


def inside_or_not(subscript: Values, extent: int, boundary: Boundary | None) -> tuple[Values, Values | None]:
    """A subscript brought inside by its boundary, and where it was outside (None: nowhere, or it doesn't matter)."""
    outside = (subscript < 0) | (subscript >= extent)
    if extent == 0 or not outside.any():
        return subscript, outside if extent == 0 else None
    mode = "none" if boundary is None else boundary.mode
    match mode:
        case "clamp":
            return np.clip(subscript, 0, extent - 1), None
        case "wrap":
            return subscript % extent, None
        case "reflect":
            period = max(2 * (extent - 1), 1)
            folded = subscript % period
            return np.minimum(folded, period - folded) if extent > 1 else np.zeros_like(subscript), None
    return np.clip(subscript, 0, extent - 1), outside
