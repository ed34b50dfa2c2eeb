"""Dimensions of transposed convolutions: the positions that outputs read, and the phases that choose their taps.

    y[i] = sum(x[(i + 1) // 2 - r] * w[(i + 1) % 2 + 2 * r], r, where=(i + 1) % 2 + 2 * r < 3)            w: [3]
The first tap of output i is at position (i + 1) // 2 of x, in phase (i + 1) % 2 of w. Outputs of a phase have the taps
phase, phase + 2, …: two in phase 0, one in phase 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from cugen.plan.context import Context
from cugen.plan.traversal.substitution import substitute
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Read, Reduce, conjuncts, free_indices, walk
from cugen.spec.model import Param
from cugen.spec.prove.affine import AffineForm, Variable, affine_form, atom_form, expression_of
from cugen.spec.types import BOOL, INT64

_MAX_PERIOD = 4096  # whose positions are computed one by one


@dataclass(frozen=True, slots=True)
class Phases:
    """Adjacent phases from `first` on that have as many `taps`, at least one."""

    first: int
    count: int
    taps: int


@dataclass(frozen=True, slots=True)
class Dimension:
    """Dimension `of_inputs` of the inputs and `of_weights` of the weights: an output of `index` reads input
    `position + lowest + reach * tap` and weight `phase + step * tap`.

    `position` is below `positions`, and `phase` below `phase_count`. Outputs of phases that no one of `groups` has read
    nothing. Without a tap there is a single one."""

    index: str
    of_inputs: int
    of_weights: int
    tap: str
    position: Expr
    lowest: int
    positions: int
    reach: int
    phase: Expr
    phase_count: int
    step: int
    groups: tuple[Phases, ...]

    def split(self) -> Dimension:
        """The dimension with each phase in a group of its own."""
        alone = (Phases(g.first + n, 1, g.taps) for g in self.groups for n in range(g.count))
        return replace(self, groups=tuple(alone))


@dataclass(frozen=True, slots=True)
class Convolution:
    """The dimensions of a transposed convolution, and the conditions without which an output reads nothing."""

    dimensions: tuple[Dimension, ...]
    conditions: tuple[Expr, ...]

    @property
    def count(self) -> int:
        """Combinations of groups of phases."""
        return prod(len(dimension.groups) for dimension in self.dimensions)

    def split(self) -> Convolution:
        """The convolution with each phase in a group of its own."""
        return replace(self, dimensions=tuple(dimension.split() for dimension in self.dimensions))


def convolution_of(
    reduction: Reduce, inputs: Read, weights: Read, outputs: Sequence[Index], context: Context
) -> Convolution | None:
    """The dimensions of a sum of products whose taps are in one subscript of the inputs and one of the weights; None
    where some subscript is of another form, or an extent isn't fixed."""
    analysis = _Analysis({i.name: i for i in outputs}, {i.name: i for i in reduction.indices}, context)
    moving = [d for d, sub in enumerate(inputs.subscripts) if not isinstance(sub, IndexValue | Const)]
    taps = {name for d in moving for name in free_indices(inputs.subscripts[d]) if name in analysis.summed}
    moved = {name for d in moving for name in free_indices(inputs.subscripts[d]) if name in analysis.outputs}
    dimensions, of_weights = list[Dimension](), set[int]()
    for d in moving:
        names = free_indices(inputs.subscripts[d])
        candidates = [n for n, sub in enumerate(weights.subscripts) if names & free_indices(sub)]
        if len(candidates) != 1 or candidates[0] in of_weights:
            return None
        dimension = analysis.dimension(inputs, weights, d, candidates[0])
        if dimension is None:
            return None
        of_weights.add(candidates[0])
        dimensions.append(dimension)
    plain = [*(s for d, s in enumerate(inputs.subscripts) if d not in moving)]
    plain += [s for d, s in enumerate(weights.subscripts) if d not in of_weights]
    if any(not isinstance(sub, IndexValue | Const) or free_indices(sub) & (taps | moved) for sub in plain):
        return None
    if len({dimension.index for dimension in dimensions}) < len(dimensions):
        return None
    known = [analysis.weight_bound(dimension, weights) for dimension in dimensions]
    conditions = tuple(c for c in conjuncts(reduction.where) if not any(analysis.is_same(c, bound) for bound in known))
    if any(free_indices(condition) & analysis.summed.keys() for condition in conditions):
        return None
    return Convolution(tuple(dimensions), conditions)


@dataclass(frozen=True, slots=True)
class _Analysis:
    outputs: Mapping[str, Index]
    summed: Mapping[str, Index]
    context: Context

    @property
    def _params(self) -> dict[str, Param]:
        return {param.name: param for param in self.context.spec.params}

    def dimension(self, inputs: Read, weights: Read, of_inputs: int, of_weights: int) -> Dimension | None:
        of_input, of_weight = inputs.subscripts[of_inputs], weights.subscripts[of_weights]
        names = free_indices(of_input) | free_indices(of_weight)
        taps, indices = sorted(names & self.summed.keys()), sorted(names & self.outputs.keys())
        if len(taps) > 1 or len(indices) != 1 or len(names) != len(taps) + 1:
            return None
        tap, index = "".join(taps), indices[0]
        first, reach = self._separated(of_input, tap)
        phase, step = self._separated(of_weight, tap)
        extent = self.context.spec.array(weights.array).shape[of_weights]
        weight_count = self.context.static_extent(Index("", extent))
        tap_count = self.context.static_extent(self.summed[tap]) if tap else 1
        position_range, phase_range = self._range(first, index), self._range(phase, index)
        if reach is None or step is None or weight_count is None or tap_count is None:
            return None
        if position_range is None or phase_range is None:
            return None
        lowest, highest = position_range
        if phase_range[0] < 0 or (tap and step < 1):
            return None
        position = expression_of(self._form(first) + -lowest, self._params)
        count = phase_range[1] + 1
        taps_of = [
            min(-(-(weight_count - n) // step) if tap else int(n < weight_count), tap_count) for n in range(count)
        ]
        groups = _groups(taps_of)
        return Dimension(
            index, of_inputs, of_weights, tap, position, lowest, highest - lowest + 1, reach, phase, count, step, groups
        )

    def weight_bound(self, dimension: Dimension, weights: Read) -> Expr:
        """The condition that a tap is one of the weights."""
        extent = self.context.spec.array(weights.array).shape[dimension.of_weights]
        return Op("lt", (weights.subscripts[dimension.of_weights], extent), BOOL)

    def is_same(self, a: Expr, b: Expr) -> bool:
        """Whether two comparisons are the same up to the order of terms."""
        match a, b:
            case Op(args=(a_left, a_right)), Op(args=(b_left, b_right)) if a.name == b.name:
                return self._form(a_left) - self._form(a_right) == self._form(b_left) - self._form(b_right)
        return False

    def _separated(self, sub: Expr, tap: str) -> tuple[Expr, int | None]:
        """A subscript of the first tap, and how much further the next one is; None where that isn't fixed."""
        if not tap or tap not in free_indices(sub):
            return sub, 0
        first = self._first(sub, tap)
        difference = self._form(sub) - self._form(first)
        if difference.is_constant and not difference.constant:
            return first, 0
        reach = dict(difference.terms).get(Variable(tap))
        return first, reach if reach is not None and difference == atom_form(Variable(tap), reach) else None

    def _range(self, expr: Expr, index: str) -> tuple[int, int] | None:
        """The least and the largest value for all values of an index. A period of the divisions later all have changed
        by the same number: they are in the first period, or in the last."""
        extent = self.context.static_extent(self.outputs[index])
        divisors = [node.args[1] for node in walk(expr) if isinstance(node, Op) and node.name in ("floordiv", "mod")]
        if extent is None or extent < 1 or not all(isinstance(divisor, Const) for divisor in divisors):
            return None
        period = prod(int(divisor.value) for divisor in divisors if isinstance(divisor, Const))
        if period > _MAX_PERIOD:
            return None
        outputs = {*range(min(period, extent)), *range(max(extent - period, 0), extent)}
        forms = [self._form(substitute(expr, {index: Const(value, INT64)})) for value in outputs]
        if not all(form.is_constant for form in forms):
            return None
        return min(form.constant for form in forms), max(form.constant for form in forms)

    def _form(self, expr: Expr) -> AffineForm:
        return affine_form(expr, self._params)

    def _first(self, sub: Expr, tap: str) -> Expr:
        """A subscript where the tap is 0, without its term."""
        zero: dict[str, Expr] = {tap: Const(0, INT64)}
        match sub:
            case Op(name="add" | "sub", args=(first, term)) if free_indices(term) == {tap}:
                if self._form(substitute(term, zero)) == AffineForm():
                    return first
        return expression_of(self._form(substitute(sub, zero)), self._params)


def _groups(taps: Sequence[int]) -> tuple[Phases, ...]:
    """Runs of phases with the same number of taps, of phases that have taps."""
    groups: list[Phases] = []
    for phase, count in enumerate(taps):
        if count < 1:
            continue
        if groups and groups[-1].taps == count and groups[-1].first + groups[-1].count == phase:
            groups[-1] = Phases(groups[-1].first, groups[-1].count + 1, count)
        else:
            groups.append(Phases(phase, 1, count))
    return tuple(groups)
