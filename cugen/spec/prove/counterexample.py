"""Search for a counterexample, a point with an out-of-bounds subscript: exhaustive for small spaces, else sampled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from cugen.spec.expressions import Expr, Index, IndexValue, ParamValue, walk
from cugen.spec.model import Param
from cugen.spec.prove.closures import Condition, condition_function, integer_function
from cugen.spec.prove.integers import evaluate

MAX_POINTS = 1 << 18  # of an exhaustive search, about a second
_MAX_SAMPLES = 20_000  # points of a sampled search


@dataclass(frozen=True, slots=True)
class Point:
    """A counterexample as text: `where` is `m = 999, n = 0`, `element` the subscripts there, `limits` the valid range
    of the violated one. Not sure where it depends on array data, or where the search was incomplete."""

    where: str
    element: str
    limits: str
    is_sure: bool


def find_outside(
    subscripts: Sequence[tuple[Expr | None, Expr]],
    exact: Sequence[tuple[Expr, int]],
    indices: Sequence[Index],
    guards: Sequence[tuple[Expr, bool]],
    params: Mapping[str, Param],
) -> Point | None:
    """A point where a subscript is outside `0 .. extent - 1` or an exact division has a remainder.

    `subscripts` are pairs of a subscript (None: depends on data) and its extent. None if all points were tried and are
    in bounds. An unsure Point with empty texts if the search was incomplete and found none."""
    search = _Search(subscripts, exact, indices, guards, params)
    sampled = search.run(samples=True)
    if sampled is not None and sampled.is_sure:
        return sampled
    if not search.is_complete:
        return sampled or Point("", "", "", False)
    return search.run(samples=False)


class _Search:
    def __init__(
        self,
        subscripts: Sequence[tuple[Expr | None, Expr]],
        exact: Sequence[tuple[Expr, int]],
        indices: Sequence[Index],
        guards: Sequence[tuple[Expr, bool]],
        params: Mapping[str, Param],
    ) -> None:
        self._subscripts = subscripts
        self._exact = exact
        self._guards = guards
        self._params = params
        trees = [s for s, _ in subscripts if s is not None]
        trees += [dividend for dividend, _ in exact] + [guard for guard, _ in guards]
        used = {part.name: None for tree in trees for part in walk(tree) if isinstance(part, IndexValue)}
        # An index that no subscript or guard uses matters only if its range is empty.
        self._indices = [index for index in indices if index.name in used]
        self._all = indices
        extents = [index.extent for index in indices] + [extent for _, extent in subscripts]
        names = {p.name: None for tree in (*trees, *extents) for p in walk(tree) if isinstance(p, ParamValue)}
        self._dynamic = [params[name] for name in names if params[name].is_dynamic]
        self._static = {name: param.value for name, param in params.items() if param.value is not None}
        if self._dynamic:
            self.is_complete = False
        else:
            self.is_complete = prod(evaluate(i.extent, self._static) for i in self._indices) <= MAX_POINTS

    def run(self, *, samples: bool) -> Point | None:
        tried = 0
        unsure: Point | None = None
        names = [index.name for index in self._indices]
        for chosen in product(*map(_param_samples, self._dynamic)):
            params = {**self._static, **{p.name: v for p, v in zip(self._dynamic, chosen, strict=True)}}
            tried += 1
            if samples and tried > _MAX_SAMPLES:
                return unsure
            if any(evaluate(index.extent, params) < 1 for index in self._all):
                continue
            extents = [evaluate(index.extent, params) for index in self._indices]
            is_outside = self._compile(params, {name: position for position, name in enumerate(names)})
            for values in product(*(_samples(extent) if samples else range(extent) for extent in extents)):
                tried += 1
                if samples and tried > _MAX_SAMPLES:
                    return unsure
                sure = is_outside(values)
                if sure or (sure is None and unsure is None):
                    point = self._describe({**params, **dict(zip(names, values, strict=True))}, bool(sure))
                    if sure:
                        return point
                    unsure = point
        return unsure

    def _compile(self, params: Mapping[str, int], positions: Mapping[str, int]) -> Condition:
        """Compiles the test for an out-of-bounds point; None where its guards depend on array data."""
        guards = [(condition_function(guard, params, positions), holds) for guard, holds in self._guards]
        ranges = [
            (integer_function(subscript, params, positions), evaluate(extent, params))
            for subscript, extent in self._subscripts
            if subscript is not None
        ]
        divisions = [(integer_function(dividend, params, positions), divisor) for dividend, divisor in self._exact]

        def is_outside(point: Sequence[int]) -> bool | None:
            sure = True
            for guard, holds in guards:
                value = guard(point)
                if value is None:
                    sure = False
                elif value != holds:
                    return False
            for subscript, size in ranges:
                if not 0 <= subscript(point) < size:
                    return sure or None
            for dividend, divisor in divisions:
                if dividend(point) % divisor:
                    return sure or None
            return False

        return is_outside

    def _describe(self, values: Mapping[str, int], sure: bool) -> Point:
        names = [param.name for param in self._dynamic] + [index.name for index in self._indices]
        where = ", ".join(f"{name} = {values[name]}" for name in names)
        element = ", ".join("..." if s is None else str(evaluate(s, values)) for s, _ in self._subscripts)
        for subscript, extent in self._subscripts:
            size = evaluate(extent, values)
            if subscript is not None and not 0 <= evaluate(subscript, values) < size:
                return Point(where, element, f"0..{size - 1}" if size > 0 else "an empty dimension", sure)
        for dividend, divisor in self._exact:
            value = evaluate(dividend, values)
            if value % divisor:
                limits = f"the multiples of {divisor} ({value} / {divisor} has a remainder)"
                return Point(where, element, limits, sure)
        return Point(where, element, "", sure)


def _param_samples(param: Param) -> list[int]:
    unit = param.multiple_of
    first = -(-param.minimum // unit) * unit
    last = param.maximum // unit * unit
    candidates = (first, first + unit, first + 2 * unit, first + 7 * unit, first + 100 * unit, last)
    return sorted({value for value in candidates if first <= value <= last})


def _samples(extent: int) -> list[int]:
    candidates = (0, extent - 1, 1, extent - 2, extent // 2, 2, 3)
    return list(dict.fromkeys(value for value in candidates if 0 <= value < extent))
