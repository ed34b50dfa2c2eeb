"""Array contents between two statements: element values, and the error bounds of the device's elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from cugen.reference.storage import Floats, Values, numpy_dtype, working_dtype
from cugen.reference.tracked import Tracked, after_store, against_exact, deviation, integers_are_exact
from cugen.spec.expressions import Boundary
from cugen.spec.types import DType

_CHUNK_ELEMENTS = 1 << 16  # tested together; non-integers mostly show up in the first chunk

Region = tuple[slice | int | Values | None, ...]


class OutsideError(IndexError):
    """An out-of-bounds read of an array without a boundary, at a point that no guard excludes."""


@dataclass(slots=True)
class Contents:
    """An array's elements after some statement, in logical shape.

    `value` is in the storage type (for a temporary: in its compute type, unrounded); `slack` bounds the deviation of
    the device's elements from it. For results, `exact` is the value before rounding and `bound` the deviation from
    that. `missing` marks elements that `compute_missing` has yet to evaluate (lazy evaluation).
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
    compute_missing: Callable[[Values], None] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The logical shape."""
        return self.value.shape

    def copy(self) -> Contents:
        """A deep copy of the elements and their bounds."""
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

    def complete(self, flat_indices: Values) -> None:
        """Evaluates those of the elements at these row-major indices that are still missing."""
        if self.missing is not None and self.compute_missing is not None:
            pending = np.unique(flat_indices[self.missing.reshape(-1)[flat_indices]])
            if pending.size:
                self.compute_missing(pending)

    def copy_elements(self, previous: Contents, flat_indices: Values) -> None:
        """Copies elements, with their bounds, from another version of the array."""
        if not flat_indices.size:
            return
        previous.complete(flat_indices)
        self.value.reshape(-1)[flat_indices] = previous.value.reshape(-1)[flat_indices]
        for name in ("slack", "exact", "bound"):
            source: Floats | None = getattr(previous, name)
            if source is not None:
                target: Floats = np.zeros(self.shape) if getattr(self, name) is None else getattr(self, name)
                target.reshape(-1)[flat_indices] = source.reshape(-1)[flat_indices]
                setattr(self, name, target)
        self.integral = self.integral and previous.integral
        self.candidates.update({n: previous.candidates[n] for n in flat_indices.tolist() if n in previous.candidates})
        if self.missing is not None:
            self.missing.reshape(-1)[flat_indices] = False

    def load_region(self, region: Region) -> Tracked:
        """Loads a region (a NumPy index), converted to the compute type."""
        if self.missing is not None:
            self.complete(np.arange(self.value.size, dtype=np.int64).reshape(self.shape)[region].reshape(-1))
        value = np.asarray(self.value[region]).astype(working_dtype(self.dtype), copy=False)
        slack = None if self.slack is None else np.asarray(self.slack[region])
        return Tracked(value, slack, self.dtype.is_float and self.integral and slack is None)

    def store_region(self, region: Region, x: Tracked) -> None:
        """Stores computed values, whose shape broadcasts to the region's; rounds to the element type."""
        if self.rounds:
            stored, slack = after_store(x, self.dtype)
        else:
            stored, slack = x.value, x.bound
        self.value[region] = stored
        self.integral = (
            self.integral and x.integral and slack is None and integers_are_exact(stored.astype(np.float64), self.dtype)
        )
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
        flat_indices = np.arange(self.value.size, dtype=np.int64).reshape(self.shape)[region]
        candidates = np.broadcast_to(x.candidates, (len(x.candidates), *np.shape(flat_indices)))
        candidates = candidates.reshape(len(candidates), -1)
        for number in np.flatnonzero(candidates.sum(axis=0) > 1):
            self.candidates[int(np.ravel(flat_indices)[number])] = np.flatnonzero(candidates[:, number])


def _assigned(current: Floats | None, region: Region, new: Floats | None, shape: tuple[int, ...]) -> Floats | None:
    """Assigns `new` to a region of an optional bound array; None stands for all zeros."""
    if new is None and current is None:
        return None
    if current is None:
        current = np.zeros(shape)
    current[region] = 0.0 if new is None else new
    return current


def initial(dtype: DType, elements: Values, *, keeps_exact: bool = False) -> Contents:
    """The contents of an input or a baked array; sets `integral` where all float elements are integers."""
    contents = Contents(dtype, elements, keeps_exact)
    if dtype.is_float:
        contents.integral = _all_integers(elements, dtype)
        if keeps_exact:
            contents.exact = elements.astype(np.float64)
    return contents


@dataclass(slots=True)
class RecomputedContents(Contents):
    """A temporary of too many elements to be stored: `values_at` computes those at row-major indices for each read."""

    values_at: Callable[[Values], Tracked] | None = None

    def complete(self, flat_indices: Values) -> None:
        """Nothing is stored."""

    def load_region(self, region: Region) -> Tracked:
        """Computes the elements of a region."""
        assert self.values_at is not None
        flat_indices = _flat_indices(region, self.shape)
        distinct, positions = np.unique(flat_indices, return_inverse=True)
        x = self.values_at(distinct)
        positions = positions.reshape(flat_indices.shape)
        return Tracked(x.value[positions], None if x.bound is None else x.bound[positions], x.integral)


def _flat_indices(region: Region, shape: tuple[int, ...]) -> Values:
    """The row-major indices of a region's elements, in its shape."""
    sliced = [part for part in region if isinstance(part, slice)]
    result: Values = np.zeros((), np.int64)
    for part, extent in zip(region, shape, strict=True):
        position: Values
        if isinstance(part, slice):
            trailing = len(sliced) - 1 - next(n for n, axis in enumerate(sliced) if axis is part)
            position = np.arange(*part.indices(extent), dtype=np.int64).reshape((-1,) + (1,) * trailing)
        else:
            position = np.asarray(part, np.int64)
        result = result * extent + position
    return result


def empty(dtype: DType, shape: tuple[int, ...], *, is_temporary: bool, keeps_exact: bool = False) -> Contents:
    """A zero-filled array that statements write."""
    storage = working_dtype(dtype) if is_temporary else numpy_dtype(dtype)
    contents = Contents(dtype, np.zeros(shape, storage), keeps_exact, rounds=not is_temporary)
    if keeps_exact and dtype.is_float:
        contents.exact = np.zeros(shape)
    return contents


def _all_integers(elements: Values, dtype: DType) -> bool:
    flat = elements.reshape(-1)
    for start in range(0, flat.size, _CHUNK_ELEMENTS):
        values = flat[start : start + _CHUNK_ELEMENTS].astype(np.float64, copy=False)
        if not (np.all(np.rint(values) == values) and integers_are_exact(values, dtype)):
            return False
    return True


def apply_boundary(subscript: Values, extent: int, boundary: Boundary | None) -> tuple[Values, Values | None]:
    """A subscript mapped into the array by its boundary mode, and a mask of out-of-bounds points.

    The mask is None where nothing is out of bounds, or where the mode maps every subscript inside."""
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
        case "symmetric":
            folded = subscript % (2 * extent)
            return np.minimum(folded, 2 * extent - 1 - folded), None
    return np.clip(subscript, 0, extent - 1), outside
