"""`evaluate`: what a spec's statements mean for given inputs, and how far a device's answers may be from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from cugen.reference.contents import Contents, Region, empty, initial
from cugen.reference.cost import footprint, statement_cost
from cugen.reference.interpreter import MOST_ELEMENTS, Interpreter, as_slices, constant, narrowed
from cugen.reference.operators import apply_operator
from cugen.reference.reductions import gamma
from cugen.reference.result import Result, result_at, whole_result
from cugen.reference.scope import Scope, at_points
from cugen.reference.storage import Values, numpy_dtype, store
from cugen.reference.tracked import Tracked, combine
from cugen.spec.expressions import Cast, Const, Expr, IndexValue, Read, Reduce, Scan, walk
from cugen.spec.model import Array, Scalar, Spec, Statement
from cugen.spec.prove.integers import evaluate as integer

CHEAP = 2e7  # operations below which a statement is evaluated whole even where only points are asked for


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
    scalars without a value. `points` maps outputs to the row-major numbers of the elements that are wanted; others are
    then left out, and costly statements are evaluated only where something needs them.

    ValueError for an input that is missing or of the wrong shape or type, or a param or scalar that has no value;
    OutsideError (an IndexError) for a read outside an array that has no boundary, such as a wild gather.
    """
    with np.errstate(all="ignore"):
        return _Run(spec, inputs, params or {}, scalars or {}, points).results()


class _Run:
    """One evaluation. `versions[name, i]` is array `name` after statement i (-1: as given)."""

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
        self.params = {p.name: int(_known(p.name, p.value, params)) for p in spec.params}
        self.scalars = {s.name: _scalar(s, _known(s.name, s.value, scalars)) for s in spec.scalars}
        self.shapes = {a.name: tuple(integer(n, self.params) for n in a.shape) for a in spec.arrays}
        self.owners: dict[int, Values] = {}
        self.versions = {(array.name, -1): self._given(array, inputs) for array in spec.arrays}

    def _given(self, array: Array, inputs: Mapping[str, Values]) -> Contents:
        shape, is_result = self.shapes[array.name], array.role in ("output", "inout")
        if array.values is not None:
            elements = np.array(
                array.values.data, dtype=np.float64 if array.dtype.is_float else numpy_dtype(array.dtype)
            )
            return initial(array.dtype, store(elements.reshape(shape), array.dtype))
        if array.role not in ("input", "inout"):
            return empty(array.dtype, shape, is_temporary=array.is_temporary, keeps_exact=is_result)
        if array.name not in inputs:
            raise ValueError(f"no values for {array.name}")
        elements = np.asarray(inputs[array.name])
        if elements.shape != shape or elements.dtype != numpy_dtype(array.dtype):
            raise ValueError(
                f"{array.name} must be {array.dtype} of shape {shape}, not {elements.dtype} of shape {elements.shape}"
            )
        return initial(array.dtype, elements, keeps_exact=is_result)

    def results(self) -> dict[str, Result]:
        for number, statement in enumerate(self.spec.statements):
            before = self._before(statement.target, number)
            if self.points is not None and not self._is_cheap(number):
                self.versions[statement.target, number] = self._deferred(number, before)
                continue
            last = self._last(statement.target, number)
            # Without points nobody looks back: only what the caller gave must be left as it is.
            contents = before.copy() if self.points is not None or last == -1 else before
            self._run_whole(number, before, contents)
            if self.points is None:
                del self.versions[statement.target, last]
            self.versions[statement.target, number] = contents
        last = len(self.spec.statements)
        outputs = [a.name for a in self.spec.arrays if a.role in ("output", "inout")]
        if self.points is None:
            return {name: whole_result(self._before(name, last)) for name in outputs}
        wanted = {name: np.asarray(self.points[name], np.int64) for name in outputs if name in self.points}
        return {name: result_at(self._before(name, last), numbers) for name, numbers in wanted.items()}

    def _last(self, name: str, number: int) -> int:
        return next(i for i in range(number - 1, -2, -1) if (name, i) in self.versions)

    def _before(self, name: str, number: int) -> Contents:
        """The array as statement `number` sees it."""
        return self.versions[name, self._last(name, number)]

    def _interpreter(self, number: int, before: Contents) -> Interpreter:
        statement = self.spec.statements[number]

        def contents(name: str) -> Contents:
            return before if name == statement.target else self._before(name, number)

        return Interpreter(self.params, self.scalars, contents, statement.text)

    def _extents(self, statement: Statement) -> dict[str, int]:
        return {index.name: integer(index.extent, self.params) for index in statement.indices}

    def _value(self, number: int, before: Contents, scope: Scope) -> Tracked:
        """What the statement computes for a scope's points, the old contents included where it adds to them."""
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
        # The running sum may start from the old contents: each of its roundings then sees them.
        started = gamma(self._terms(statement.value), dtype) * np.abs(old.value)
        return Tracked(total.value, combine(total.bound, np.where(np.isfinite(total.value), started, 0.0)))

    def _terms(self, value: Expr) -> int:
        while isinstance(value, Cast):
            value = value.arg
        if not isinstance(value, Reduce):
            return 1
        return math.prod(integer(index.extent, self.params) for index in value.indices)

    def _run_whole(self, number: int, before: Contents, contents: Contents) -> None:
        statement = self.spec.statements[number]
        extents = self._extents(statement)
        if 0 in extents.values():
            return
        scope = Scope()
        for name, extent in reversed(extents.items()):
            scope = scope.bind(name, 0, extent)
        for piece in self._pieces(statement, scope):
            x = self._value(number, before, piece)
            here = tuple(len(np.ravel(piece.values[name])) for name in extents)
            quick = as_slices(statement.subscripts, piece, contents.shape)
            if quick is not None and len(quick[1]) == len(here):
                region, axes = quick
                contents.put(region, broadcast(x, here, tuple(len(here) - 1 - axis for axis in axes)))
            else:
                contents.put(self._places(statement, piece, here), broadcast(x, here, tuple(range(len(here)))))

    def _places(self, statement: Statement, scope: Scope, shape: tuple[int, ...]) -> tuple[Values, ...]:
        """The subscripts of the left side at all points of the scope."""
        interpreter = Interpreter(self.params, {}, lambda name: self.versions[name, -1], statement.text)
        return tuple(np.broadcast_to(interpreter.evaluate(s, scope).value, shape) for s in statement.subscripts)

    def _pieces(self, statement: Statement, scope: Scope) -> Iterator[Scope]:
        """The scope, cut along one index so that no intermediate array gets too large.

        That is the first index that is long enough and no scan runs along, since every piece would repeat the scan."""
        extents = self._extents(statement)
        largest = footprint(statement.value, extents, self.params)
        pieces = math.ceil(largest / MOST_ELEMENTS)
        scanned = {node.outer for node in walk(statement.value) if isinstance(node, Scan)}
        free = [name for name in extents if name not in scanned]
        if pieces <= 1 or not free:
            yield scope
            return
        name = next((n for n in free if extents[n] >= pieces), max(free, key=lambda n: extents[n]))
        step = max(1, extents[name] // pieces)
        for start in range(0, extents[name], step):
            yield narrowed(scope, name, start, min(start + step, extents[name]))

    def _deferred(self, number: int, before: Contents) -> Contents:
        """Contents of which elements are computed when something needs them."""
        statement = self.spec.statements[number]
        array = self.spec.array(statement.target)
        is_result = array.role in ("output", "inout")
        contents = empty(array.dtype, before.shape, is_temporary=array.is_temporary, keeps_exact=is_result)
        contents.missing = np.ones(before.shape, np.bool_)
        extents = self._extents(statement)
        most = footprint(statement.value, dict.fromkeys(extents, 1), self.params, frozenset(extents))
        step = max(1, MOST_ELEMENTS // most)

        def supply(numbers: Values) -> None:
            written, positions = self._sources(number, numbers)
            contents.take(before, numbers[~written])
            mine = numbers[written]
            for start in range(0, len(mine), step):
                some = slice(start, start + step)
                scope = at_points(tuple(extents), tuple(p[some] for p in positions))
                x = self._value(number, before, scope)
                region: Region = np.unravel_index(mine[some], before.shape) if before.shape else (None,)
                contents.put(region, broadcast(x, (len(mine[some]),), (0,)))

        contents.supply = supply
        return contents

    def _sources(self, number: int, numbers: Values) -> tuple[Values, tuple[Values, ...]]:
        """Which of the target's elements the statement writes, and for those the values of its indices."""
        statement = self.spec.statements[number]
        extents = self._extents(statement)
        shape = self.shapes[statement.target]
        names = [s.name for s in statement.subscripts if isinstance(s, IndexValue)]
        if len(set(names)) == len(names) and all(isinstance(s, IndexValue | Const) for s in statement.subscripts):
            at = np.unravel_index(numbers, shape) if shape else ()
            written = np.ones(len(numbers), np.bool_)
            for subscript, place in zip(statement.subscripts, at, strict=True):
                match subscript:
                    case Const(value=value):
                        written &= place == value
                    case IndexValue(name=name):
                        written &= place < extents[name]
            found = {s.name: p for s, p in zip(statement.subscripts, at, strict=True) if isinstance(s, IndexValue)}
            return written, tuple(found[name][written] for name in extents)
        if number not in self.owners:
            scope = Scope()
            for name, extent in reversed(extents.items()):
                scope = scope.bind(name, 0, extent)
            space = tuple(extents.values())
            owners = np.full(math.prod(shape), -1, np.int64)
            targets = np.ravel_multi_index(self._places(statement, scope, space), shape)
            owners[targets] = np.arange(math.prod(space)).reshape(space)
            self.owners[number] = owners
        owner = self.owners[number][numbers]
        written = owner >= 0
        return written, np.unravel_index(owner[written], tuple(extents.values())) if extents else ()

    def _is_cheap(self, number: int) -> bool:
        statement = self.spec.statements[number]
        reads = {node.array for node in walk(statement.value) if isinstance(node, Read)}
        whole = all(self._before(name, number).missing is None for name in sorted({*reads, statement.target}))
        return whole and statement_cost(statement, self.params) <= CHEAP


def broadcast(x: Tracked, shape: tuple[int, ...], order: tuple[int, ...]) -> Tracked:
    """The value at full size, its axes in the given order."""
    bound = None if x.bound is None else np.broadcast_to(x.bound, shape).transpose(order)
    candidates = x.candidates
    if candidates is not None:
        candidates = candidates.reshape(
            len(candidates), *(1,) * (len(shape) + 1 - candidates.ndim), *candidates.shape[1:]
        )
        candidates = np.broadcast_to(candidates, (len(candidates), *shape))
        candidates = candidates.transpose(0, *(axis + 1 for axis in order))
    return Tracked(np.broadcast_to(x.value, shape).transpose(order), bound, x.integral, candidates)


def _known(
    name: str, value: int | float | bool | None, given: Mapping[str, int] | Mapping[str, int | float | bool]
) -> int | float | bool:
    if value is None and name not in given:
        raise ValueError(f"no value for {name}")
    return given[name] if value is None else value


def _scalar(scalar: Scalar, value: int | float | bool) -> Tracked:
    """A scalar in its compute type, after it was rounded to its own."""
    if scalar.dtype.is_float:
        value = float(store(np.asarray(float(value)), scalar.dtype))
        return constant(value, scalar.dtype.compute)
    return constant(value, scalar.dtype)
