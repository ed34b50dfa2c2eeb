"""Search for a point where a subscript leaves its array: exhaustive for small spaces, else at corners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from cugen.spec.expressions import Expr, Index, IndexValue, ParamValue, walk
from cugen.spec.guards import decide
from cugen.spec.integers import evaluate
from cugen.spec.model import Param

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
        for chosen in product(*map(_param_samples, self._dynamic)):
            values = {**self._static, **{p.name: v for p, v in zip(self._dynamic, chosen, strict=True)}}
            extents = {index.name: evaluate(index.extent, values) for index in self._all}
            if any(extent < 1 for extent in extents.values()):
                continue
            ranges = [_samples(extents[i.name]) if samples else range(extents[i.name]) for i in self._indices]
            for at in product(*ranges):
                tried += 1
                if samples and tried > _MAX_SAMPLES:
                    return doubtful
                values.update(zip((index.name for index in self._indices), at, strict=True))
                point = self._outside(values)
                if point is not None and point.is_sure:
                    return point
                doubtful = doubtful or point
        return doubtful

    def _outside(self, values: Mapping[str, int]) -> Point | None:
        decided = [decide(guard, values) for guard, _ in self._guards]
        if any(known is not None and known != holds for known, (_, holds) in zip(decided, self._guards, strict=True)):
            return None
        sure = None not in decided
        for subscript, extent in self._subscripts:
            if subscript is None:
                continue
            size = evaluate(extent, values)
            if not 0 <= evaluate(subscript, values) < size:
                return self._point(values, f"0..{size - 1}" if size > 0 else "an empty dimension", sure)
        for dividend, divisor in self._exact:
            value = evaluate(dividend, values)
            if value % divisor:
                return self._point(values, f"the multiples of {divisor} ({value} / {divisor} has a remainder)", sure)
        return None

    def _point(self, values: Mapping[str, int], limits: str, sure: bool) -> Point:
        names = [param.name for param in self._dynamic] + [index.name for index in self._indices]
        where = ", ".join(f"{name} = {values[name]}" for name in names)
        element = ", ".join("..." if s is None else str(evaluate(s, values)) for s, _ in self._subscripts)
        return Point(where, element, limits, sure)


def _param_samples(param: Param) -> list[int]:
    unit = param.multiple_of
    first = -(-param.minimum // unit) * unit
    last = param.maximum // unit * unit
    wanted = (first, first + unit, first + 2 * unit, first + 7 * unit, first + 100 * unit, last)
    return sorted({value for value in wanted if first <= value <= last})


def _samples(extent: int) -> list[int]:
    wanted = (0, extent - 1, 1, extent - 2, extent // 2, 2, 3)
    return list(dict.fromkeys(value for value in wanted if 0 <= value < extent))
