"""Search for a point where a subscript leaves its array: exhaustive for small spaces, else at corners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from cugen.spec.expressions import Expr, Index, IndexValue, ParamValue, walk
from cugen.spec.model import Param
from cugen.spec.prove.closures import Condition, condition_function, integer_function
from cugen.spec.prove.integers import evaluate

MAX_POINTS = 1 << 18
_MAX_SAMPLES = 20_000


@dataclass(frozen=True, slots=True)
class Point:
    """A point that is outside, as text: `where` is `m = 999, n = 0`, `element` the subscripts there, `limits` the
    range that one of them leaves. Not sure where only data, or a proof that wasn't found, can say."""

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
    """A point where some subscript is outside `0 .. extent - 1` or some exact division has a remainder.

    `subscripts` are pairs of a subscript (None: depends on data) and its extent. None: every point was tried, and
    none is outside. Where not every point could be tried and none was found, an unsure Point with empty texts."""
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
        # An index that nothing mentions matters only by being empty.
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
        doubtful: Point | None = None
        names = [index.name for index in self._indices]
        for chosen in product(*map(_param_samples, self._dynamic)):
            params = {**self._static, **{p.name: v for p, v in zip(self._dynamic, chosen, strict=True)}}
            if any(evaluate(index.extent, params) < 1 for index in self._all):
                continue
            extents = [evaluate(index.extent, params) for index in self._indices]
            is_outside = self._test(params, {name: place for place, name in enumerate(names)})
            for at in product(*(_samples(extent) if samples else range(extent) for extent in extents)):
                tried += 1
                if samples and tried > _MAX_SAMPLES:
                    return doubtful
                sure = is_outside(at)
                if sure or (sure is None and doubtful is None):
                    point = self._described({**params, **dict(zip(names, at, strict=True))}, bool(sure))
                    if sure:
                        return point
                    doubtful = point
        return doubtful

    def _test(self, params: Mapping[str, int], places: Mapping[str, int]) -> Condition:
        """Whether a point is outside; None where only data says whether its guards let it through."""
        guards = [(condition_function(guard, params, places), holds) for guard, holds in self._guards]
        ranges = [
            (integer_function(subscript, params, places), evaluate(extent, params))
            for subscript, extent in self._subscripts
            if subscript is not None
        ]
        divisions = [(integer_function(dividend, params, places), divisor) for dividend, divisor in self._exact]

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

    def _described(self, values: Mapping[str, int], sure: bool) -> Point:
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
    wanted = (first, first + unit, first + 2 * unit, first + 7 * unit, first + 100 * unit, last)
    return sorted({value for value in wanted if first <= value <= last})


def _samples(extent: int) -> list[int]:
    wanted = (0, extent - 1, 1, extent - 2, extent // 2, 2, 3)
    return list(dict.fromkeys(value for value in wanted if 0 <= value < extent))
