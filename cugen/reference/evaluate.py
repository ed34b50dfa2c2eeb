"""`evaluate`: the reference result of a spec for given inputs, with error bounds for a device's result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from cugen.machine import target
from cugen.reference.contents import Contents, RecomputedContents, Region, empty, initial
from cugen.reference.cost import cost_at, footprint, requested_indices, statement_cost
from cugen.reference.fast_math import with_fast_operators
from cugen.reference.interpreter import MAX_ARRAY_ELEMENTS, Interpreter, as_slices, constant, restrict
from cugen.reference.operators import apply_operator
from cugen.reference.result import Result, result_at, whole_result
from cugen.reference.scope import Scope, at_points
from cugen.reference.storage import Values, numpy_dtype, store, working_dtype
from cugen.reference.sums.reductions import gamma
from cugen.reference.sums.tensor_cores import types_of_temporaries
from cugen.reference.tracked import Tracked, combine
from cugen.spec.expressions import (
    Cast,
    Const,
    Expr,
    IndexValue,
    Read,
    Reduce,
    Scan,
    walk,
)
from cugen.spec.model import Array, Scalar, Spec, Statement
from cugen.spec.prove.integers import evaluate as integer
from cugen.spec.winograd.recognition import convolution_of

# Elementary operations up to which a statement is evaluated in full even if only points are requested (about 0.2 s).
MAX_FULL_OPERATIONS = 2e7
MAX_STORED_ELEMENTS = 1 << 26  # of a temporary of which points are requested: half a gigabyte of doubles


def evaluate(
    spec: Spec,
    inputs: Mapping[str, Values],
    *,
    params: Mapping[str, int] | None = None,
    scalars: Mapping[str, int | float | bool] | None = None,
    points: Mapping[str, NDArray[np.int64]] | None = None,
) -> dict[str, Result]:
    """The outputs of `spec`, in file order, inouts included.

    `inputs` holds inputs and inouts in logical shape and storage type; `params` the dynamic params, `scalars` the
    scalars without a value. `points` maps outputs to the row-major indices of the elements to evaluate; other outputs
    are left out, and costly statements are evaluated lazily, only at the elements that are read.

    ValueError for an input that is missing or of the wrong shape or type, or a param or scalar that has no value;
    OutsideError (an IndexError) for an out-of-bounds read of an array without a boundary, such as a gather.
    """
    with np.errstate(all="ignore"):
        return _Run(with_fast_operators(spec), inputs, params or {}, scalars or {}, points).results()


class _Run:
    """One evaluation. `versions[name, i]` is array `name` after statement i (-1: the initial contents)."""

    def __init__(
        self,
        spec: Spec,
        inputs: Mapping[str, Values],
        params: Mapping[str, int],
        scalars: Mapping[str, int | float | bool],
        points: Mapping[str, NDArray[np.int64]] | None,
    ) -> None:
        self.spec = spec
        self.points = points
        self.params = {p.name: int(_value_of(p.name, p.value, params)) for p in spec.params}
        self.scalars = {s.name: _scalar(s, _value_of(s.name, s.value, scalars)) for s in spec.scalars}
        self.shapes = {a.name: tuple(integer(n, self.params) for n in a.shape) for a in spec.arrays}
        self.converted = types_of_temporaries(spec)
        self.writers: dict[int, Values] = {}
        counts = {name: len(np.asarray(numbers)) for name, numbers in (points or {}).items()}
        self.requested = requested_indices(spec, counts, self.params)
        self.versions = {(array.name, -1): self._given(array, inputs) for array in spec.arrays}

    def _given(self, array: Array, inputs: Mapping[str, Values]) -> Contents:
        shape, is_result = self.shapes[array.name], array.role in ("output", "inout")
        if array.values is not None:
            elements = np.array(
                array.values.data, dtype=np.float64 if array.dtype.is_float else numpy_dtype(array.dtype)
            )
            return initial(array.dtype, store(elements.reshape(shape), array.dtype))
        if array.role not in ("input", "inout"):
            if self._is_recomputed(array):
                absent = np.broadcast_to(np.zeros((), working_dtype(array.dtype)), shape)
                return Contents(array.dtype, absent, rounds=False)
            return empty(array.dtype, shape, is_temporary=array.is_temporary, keeps_exact=is_result)
        if array.name not in inputs:
            raise ValueError(f"no values for {array.name}")
        elements = np.asarray(inputs[array.name])
        if elements.shape != shape or elements.dtype != numpy_dtype(array.dtype):
            raise ValueError(
                f"{array.name} must be {array.dtype} of shape {shape}, not {elements.dtype} of shape {elements.shape}"
            )
        return initial(array.dtype, elements, keeps_exact=is_result)

    def _is_recomputed(self, array: Array) -> bool:
        """Whether an undeclared temporary is too large to be stored, and no more than a sample of it is read."""
        writers = [s for s in self.spec.statements if s.target == array.name]
        is_large = math.prod(self.shapes[array.name]) > MAX_STORED_ELEMENTS
        return self.points is not None and array.is_temporary and is_large and len(writers) == 1

    def results(self) -> dict[str, Result]:
        for number, statement in enumerate(self.spec.statements):
            before = self._before(statement.target, number)
            if self.points is not None and not self._is_cheap(number):
                self.versions[statement.target, number] = self._lazy_contents(number, before)
                continue
            last = self._last(statement.target, number)
            # Lazy statements read older versions; without points only the caller's inputs must not be modified.
            contents = before.copy() if self.points is not None or last == -1 else before
            self._evaluate_fully(number, before, contents)
            if self.points is None:
                del self.versions[statement.target, last]
            self.versions[statement.target, number] = contents
        last = len(self.spec.statements)
        outputs = [a.name for a in self.spec.arrays if a.role in ("output", "inout")]
        if self.points is None:
            return {name: whole_result(self._before(name, last)) for name in outputs}
        requested = {name: np.asarray(self.points[name], np.int64) for name in outputs if name in self.points}
        return {name: result_at(self._before(name, last), flat_indices) for name, flat_indices in requested.items()}

    def _last(self, name: str, number: int) -> int:
        return next(i for i in range(number - 1, -2, -1) if (name, i) in self.versions)

    def _before(self, name: str, number: int) -> Contents:
        """The array as statement `number` sees it."""
        return self.versions[name, self._last(name, number)]

    def _interpreter(self, number: int, before: Contents) -> Interpreter:
        statement = self.spec.statements[number]
        convolution = convolution_of(statement, self.spec) if self.spec.precision.winograd else ""

        def contents(name: str) -> Contents:
            return before if name == statement.target else self._before(name, number)

        return Interpreter(
            self.params,
            self.scalars,
            contents,
            statement.text,
            self.spec.precision,
            has_wgmma=target(self.spec.target).has_wgmma,
            converted=self.converted,
            winograd={} if isinstance(convolution, str) else {convolution.reduction: convolution},
        )

    def _extents(self, statement: Statement) -> dict[str, int]:
        return {index.name: integer(index.extent, self.params) for index in statement.indices}

    def _value(self, number: int, before: Contents, scope: Scope) -> Tracked:
        """The statement's right side at the scope's points, added to the old contents for `+=`."""
        statement = self.spec.statements[number]
        interpreter = self._interpreter(number, before)
        x = interpreter.evaluate(statement.value, scope)
        if not statement.accumulate:
            return x
        dtype = statement.value.dtype
        old = interpreter.evaluate(Read(statement.target, statement.subscripts, dtype), scope)
        total = apply_operator("add", (old, x), dtype)
        if total.bound is None or not dtype.is_float:
            return total
        # A device may initialise the accumulator with the old contents: every partial sum then includes them.
        initial_error = gamma(self._terms(statement.value), dtype) * np.abs(old.value)
        return Tracked(total.value, combine(total.bound, np.where(np.isfinite(total.value), initial_error, 0.0)))

    def _terms(self, value: Expr) -> int:
        while isinstance(value, Cast):
            value = value.arg
        if not isinstance(value, Reduce):
            return 1
        return math.prod(integer(index.extent, self.params) for index in value.indices)

    def _evaluate_fully(self, number: int, before: Contents, contents: Contents) -> None:
        statement = self.spec.statements[number]
        extents = self._extents(statement)
        if 0 in extents.values():
            return
        scope = Scope()
        for name, extent in reversed(extents.items()):
            scope = scope.bind(name, 0, extent)
        for chunk in self._chunks(statement, scope):
            x = self._value(number, before, chunk)
            shape = tuple(len(np.ravel(chunk.values[name])) for name in extents)
            slices = as_slices(statement.subscripts, chunk, contents.shape)
            if slices is not None and len(slices[1]) == len(shape):
                region, axes = slices
                contents.store_region(region, broadcast(x, shape, tuple(len(shape) - 1 - axis for axis in axes)))
            else:
                contents.store_region(
                    self._coordinates(statement, chunk, shape), broadcast(x, shape, tuple(range(len(shape))))
                )

    def _coordinates(self, statement: Statement, scope: Scope, shape: tuple[int, ...]) -> tuple[Values, ...]:
        """The target's coordinates: the left side's subscripts at all points of the scope."""
        interpreter = Interpreter(self.params, {}, lambda name: self.versions[name, -1], statement.text)
        return tuple(np.broadcast_to(interpreter.evaluate(s, scope).value, shape) for s in statement.subscripts)

    def _chunks(self, statement: Statement, scope: Scope) -> Iterator[Scope]:
        """Splits the scope along one index, so that intermediate arrays stay below MAX_ARRAY_ELEMENTS.

        Takes the first index that is long enough and isn't scanned: every chunk would repeat the scan."""
        extents = self._extents(statement)
        largest = footprint(statement.value, extents, self.params)
        chunks = math.ceil(largest / MAX_ARRAY_ELEMENTS)
        scanned = {node.outer for node in walk(statement.value) if isinstance(node, Scan)}
        free = [name for name in extents if name not in scanned]
        if chunks <= 1 or not free:
            yield scope
            return
        name = next((n for n in free if extents[n] >= chunks), max(free, key=lambda n: extents[n]))
        step = max(1, extents[name] // chunks)
        for start in range(0, extents[name], step):
            yield restrict(scope, name, start, min(start + step, extents[name]))

    def _lazy_contents(self, number: int, before: Contents) -> Contents:
        """Lazily evaluated contents: elements are computed when they are read."""
        statement = self.spec.statements[number]
        array = self.spec.array(statement.target)
        if self._is_recomputed(array):
            return self._recomputed_contents(number, before)
        is_result = array.role in ("output", "inout")
        contents = empty(array.dtype, before.shape, is_temporary=array.is_temporary, keeps_exact=is_result)
        contents.missing = np.ones(before.shape, np.bool_)
        extents, step = self._extents(statement), self._points_at_once(statement)

        def compute_missing(flat_indices: Values) -> None:
            written, positions = self._sources(number, flat_indices)
            contents.copy_elements(before, flat_indices[~written])
            written_indices = flat_indices[written]
            for start in range(0, len(written_indices), step):
                part = slice(start, start + step)
                scope = at_points(tuple(extents), tuple(p[part] for p in positions))
                x = self._value(number, before, scope)
                region: Region = np.unravel_index(written_indices[part], before.shape) if before.shape else (None,)
                contents.store_region(region, broadcast(x, (len(written_indices[part]),), (0,)))

        contents.compute_missing = compute_missing
        return contents

    def _points_at_once(self, statement: Statement) -> int:
        """The points that are evaluated together, so that intermediate arrays stay below MAX_ARRAY_ELEMENTS, or are no
        larger than for one point: all of them share the scan of a single row."""
        extents = self._extents(statement)

        def elements(points: int) -> int:
            return footprint(statement.value, dict.fromkeys(extents, points), self.params, frozenset(extents))

        limit, points = max(MAX_ARRAY_ELEMENTS, elements(1)), 1
        while points < MAX_ARRAY_ELEMENTS and elements(2 * points) <= limit:
            points *= 2
        return points

    def _recomputed_contents(self, number: int, before: Contents) -> Contents:
        """Contents of which nothing is stored: elements are computed each time that they are read."""
        statement = self.spec.statements[number]
        extents, step = self._extents(statement), self._points_at_once(statement)

        def values_at(flat_indices: Values) -> Tracked:
            _, positions = self._sources(number, flat_indices)
            parts: list[Tracked] = []
            for start in range(0, len(flat_indices), step):
                part = tuple(p[start : start + step] for p in positions)
                x = self._value(number, before, at_points(tuple(extents), part))
                parts.append(broadcast(x, (len(part[0]),), (0,)))
            bounded = any(x.bound is not None for x in parts)
            bound = np.concatenate([np.broadcast_to(x.slack, x.value.shape) for x in parts]) if bounded else None
            return Tracked(np.concatenate([x.value for x in parts]), bound, all(x.integral for x in parts))

        missing = np.broadcast_to(np.ones((), np.bool_), before.shape)
        return RecomputedContents(before.dtype, before.value, rounds=False, missing=missing, values_at=values_at)

    def _sources(self, number: int, flat_indices: Values) -> tuple[Values, tuple[Values, ...]]:
        """A mask of the target's elements that the statement writes, and the index values that write them."""
        statement = self.spec.statements[number]
        extents = self._extents(statement)
        shape = self.shapes[statement.target]
        names = [s.name for s in statement.subscripts if isinstance(s, IndexValue)]
        if len(set(names)) == len(names) and all(isinstance(s, IndexValue | Const) for s in statement.subscripts):
            coordinates = np.unravel_index(flat_indices, shape) if shape else ()
            written = np.ones(len(flat_indices), np.bool_)
            for subscript, coordinate in zip(statement.subscripts, coordinates, strict=True):
                match subscript:
                    case Const(value=value):
                        written &= coordinate == value
                    case IndexValue(name=name):
                        written &= coordinate < extents[name]
            values = {
                s.name: c for s, c in zip(statement.subscripts, coordinates, strict=True) if isinstance(s, IndexValue)
            }
            return written, tuple(values[name][written] for name in extents)
        if number not in self.writers:
            scope = Scope()
            for name, extent in reversed(extents.items()):
                scope = scope.bind(name, 0, extent)
            space = tuple(extents.values())
            writers = np.full(math.prod(shape), -1, np.int64)
            targets = np.ravel_multi_index(self._coordinates(statement, scope, space), shape)
            writers[targets] = np.arange(math.prod(space)).reshape(space)
            self.writers[number] = writers
        writer = self.writers[number][flat_indices]
        written = writer >= 0
        return written, np.unravel_index(writer[written], tuple(extents.values())) if extents else ()

    def _is_cheap(self, number: int) -> bool:
        """Whether all elements take few operations, or fewer than those that are read take one by one."""
        statement = self.spec.statements[number]
        reads = {node.array for node in walk(statement.value) if isinstance(node, Read)}
        if any(self._before(name, number).missing is not None for name in sorted({*reads, statement.target})):
            return False
        whole = statement_cost(statement, self.params)
        is_stored = math.prod(self.shapes[statement.target]) <= MAX_STORED_ELEMENTS
        return whole <= MAX_FULL_OPERATIONS or (
            is_stored and whole <= cost_at(statement, self.requested[number], self.params)
        )


def broadcast(x: Tracked, shape: tuple[int, ...], order: tuple[int, ...]) -> Tracked:
    """The value broadcast to `shape` and transposed to the given order of axes."""
    bound = None if x.bound is None else np.broadcast_to(x.bound, shape).transpose(order)
    candidates = x.candidates
    if candidates is not None:
        candidates = candidates.reshape(
            len(candidates), *(1,) * (len(shape) + 1 - candidates.ndim), *candidates.shape[1:]
        )
        candidates = np.broadcast_to(candidates, (len(candidates), *shape))
        candidates = candidates.transpose(0, *(axis + 1 for axis in order))
    return Tracked(np.broadcast_to(x.value, shape).transpose(order), bound, x.integral, candidates)


def _value_of(
    name: str, value: int | float | bool | None, given: Mapping[str, int] | Mapping[str, int | float | bool]
) -> int | float | bool:
    if value is None and name not in given:
        raise ValueError(f"no value for {name}")
    return given[name] if value is None else value


def _scalar(scalar: Scalar, value: int | float | bool) -> Tracked:
    """A scalar in its compute type, rounded to its declared type first."""
    if scalar.dtype.is_float:
        value = float(store(np.asarray(float(value)), scalar.dtype))
        return constant(value, scalar.dtype.compute)
    return constant(value, scalar.dtype)
