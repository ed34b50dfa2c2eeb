"""Contractions evaluated as matrix multiplications; a second one, of the magnitudes, gives the error bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from cugen.reference.operators import apply_operator
from cugen.reference.storage import FORMATS, Values, working_dtype
from cugen.reference.sums.reductions import Sum
from cugen.reference.tracked import Bound, Tracked, combine, unit
from cugen.spec.expressions import Expr, Op, Reduce, free_indices
from cugen.spec.types import DType

Operands = tuple[tuple[Expr, ...], tuple[Expr, ...]]
# Ratio of terms to matrix elements from which a matmul pays for its transpositions (heuristic).
_MIN_TERMS_PER_ELEMENT = 4
_MAX_FACTORS = 5  # bounds the search over 2**(n - 1) groupings


def factors_of(node: Reduce) -> tuple[Expr, ...]:
    """The factors of the reduction's body."""

    def flatten(expr: Expr) -> tuple[Expr, ...]:
        if isinstance(expr, Op) and expr.name == "mul" and expr.dtype == node.dtype:
            return flatten(expr.args[0]) + flatten(expr.args[1])
        return (expr,)

    return flatten(node.body)


def conjuncts(condition: Expr | None) -> tuple[Expr, ...]:
    """The operands of a conjunction."""
    if condition is None:
        return ()
    if isinstance(condition, Op) and condition.name == "and":
        return conjuncts(condition.args[0]) + conjuncts(condition.args[1])
    return (condition,)


def split(node: Reduce, extents: Mapping[str, int], shared_axis: frozenset[str]) -> Operands | None:
    """Groups the factors into the two operands of a matmul, so that the operands are smallest; None if it doesn't pay.

    `shared_axis` are indices that share one axis."""
    factors = factors_of(node)
    if node.kind != "sum" or not 2 <= len(factors) <= _MAX_FACTORS:
        return None
    bound = frozenset(index.name for index in node.indices)
    uses = [free_indices(factor) for factor in factors]

    def size(names: frozenset[str]) -> int:
        shared = max(extents[name] for name in shared_axis) if names & shared_axis else 1
        return math.prod(extents[name] for name in names - shared_axis) * shared

    all_indices = frozenset().union(*uses) | bound
    best: tuple[int, Operands] | None = None
    for choice in product((0, 1), repeat=len(factors) - 1):
        sides = [[0], list[int]()]
        for number, side in enumerate(choice, start=1):
            sides[side].append(number)
        if not sides[1]:
            continue
        names = [frozenset().union(*(uses[i] for i in side)) | bound for side in sides]
        total = sum(map(size, names)) + size(all_indices - bound)
        if best is None or total < best[0]:
            best = total, (tuple(factors[i] for i in sides[0]), tuple(factors[i] for i in sides[1]))
    if best is None or best[0] * _MIN_TERMS_PER_ELEMENT > size(all_indices):
        return None
    return best[1]


def multiply(factors: Sequence[Tracked], dtype: DType) -> Tracked:
    """The elementwise product of one operand's factors."""
    result = factors[0]
    for factor in factors[1:]:
        result = apply_operator("mul", (result, factor), dtype)
    return result


def contract(a: Tracked, b: Tracked, masks: Sequence[Values], extents: tuple[int, ...], dtype: DType) -> Sum | None:
    """`Σ a·b` over the leading axes, whose extents are given.

    None where a mask depends on free axes of both operands, or where values aren't finite."""
    axes = len(extents)
    rank = max([x.ndim for x in (a.value, b.value, *masks)] + [axes])
    sides = [_padded(x, rank, extents) for x in (a, b)]
    outer: Values | None = None
    for mask in masks:
        mask = mask.reshape((1,) * (rank - mask.ndim) + mask.shape)
        free = {axis for axis in range(axes, rank) if mask.shape[axis] > 1}
        if all(mask.shape[axis] == 1 for axis in range(axes)):
            outer = mask if outer is None else outer & mask
            continue
        for i, side in enumerate(sides):
            if all(side.value.shape[axis] > 1 for axis in free):
                bound = None if side.bound is None else np.where(mask, side.bound, 0.0)
                zero = side.value.dtype.type(0)
                sides[i] = Tracked(np.where(mask, side.value, zero), bound, side.integral)
                break
        else:
            return None
    a, b = sides
    plain = outer is None and not masks and a.bound is None and b.bound is None
    if dtype.is_float and not plain and not (np.all(np.isfinite(a.value)) and np.all(np.isfinite(b.value))):
        return None
    total = _matmul_with_bound(a, b, axes, math.prod(extents), dtype)
    if outer is None:
        return total
    keep = outer.reshape(outer.shape[axes:])
    zero = total.value.dtype.type(0)
    inherited = None if total.inherited is None else np.where(keep, total.inherited, 0.0)
    magnitude = np.where(keep, total.magnitude, 0.0)
    return Sum(np.where(keep, total.value, zero), magnitude, inherited, total.terms, total.integral)


def _matmul_with_bound(a: Tracked, b: Tracked, axes: int, terms: int, dtype: DType) -> Sum:
    if not dtype.is_float:
        value = _integer_matmul(a.value, b.value, axes, dtype)
        uncertain: Bound = None
        if a.bound is not None or b.bound is not None:
            affected = batched_matmul((a.slack > 0) * 1.0 + 0 * a.value, np.ones(b.value.shape), axes)
            affected = affected + batched_matmul(np.ones(a.value.shape), (b.slack > 0) * 1.0 + 0 * b.value, axes)
            uncertain = np.where(affected > 0, np.inf, 0.0)
        return Sum(value, np.zeros(()), uncertain, terms, False)
    size_a, size_b = np.abs(a.value), np.abs(b.value)
    value = batched_matmul(a.value, b.value, axes)
    magnitude = batched_matmul(size_a, size_b, axes)
    integral = a.integral and b.integral
    inherited: Bound = None
    if not integral:
        form = FORMATS[dtype.name]
        inherited = np.where(np.isfinite(value), unit(dtype) * magnitude + terms * form.tiny, 0.0)
        wide_a, wide_b = np.broadcast_to(a.slack, size_a.shape), np.broadcast_to(b.slack, size_b.shape)
        if a.bound is not None:
            inherited = combine(inherited, batched_matmul(wide_a, size_b + wide_b, axes))
        if b.bound is not None:
            inherited = combine(inherited, batched_matmul(size_a, wide_b, axes))
        assert inherited is not None
        inherited = np.where(np.isnan(inherited), np.inf, inherited)
        magnitude = magnitude + inherited
    return Sum(value, magnitude, inherited, terms, integral)


def _integer_matmul(a: Values, b: Values, axes: int, dtype: DType) -> Values:
    """An integer matmul: in float64 (BLAS) where that is exact, else in the type itself, wrapping."""
    terms = math.prod(a.shape[:axes])
    magnitudes = [float(np.max(np.abs(x.astype(np.float64)), initial=0)) for x in (a, b)]
    if magnitudes[0] * magnitudes[1] * terms < 2.0**53:
        return (
            batched_matmul(a.astype(np.float64), b.astype(np.float64), axes)
            .astype(np.int64)
            .astype(working_dtype(dtype))
        )
    return batched_matmul(a, b, axes)


def _padded(x: Tracked, rank: int, extents: tuple[int, ...]) -> Tracked:
    """The value with `rank` axes, the reduced ones broadcast to their extents."""

    def pad(values: Values) -> Values:
        values = values.reshape((1,) * (rank - values.ndim) + values.shape)
        return np.broadcast_to(values, extents + values.shape[len(extents) :])

    bound = None if x.bound is None else np.broadcast_to(pad(x.bound), pad(x.value).shape)
    return Tracked(pad(x.value), bound, x.integral)


def batched_matmul(a: Values, b: Values, axes: int) -> Values:
    """Batched matmul: `Σ a·b` over the first `axes` axes of arrays of the same rank; the other axes broadcast."""
    free = range(axes, a.ndim)
    batch = [i for i in free if a.shape[i] > 1 and b.shape[i] > 1]
    rows = [i for i in free if a.shape[i] > 1 and b.shape[i] == 1]
    columns = [i for i in free if a.shape[i] == 1 and b.shape[i] > 1]
    unit_axes = [i for i in free if a.shape[i] == 1 and b.shape[i] == 1]
    summed = list(range(axes))

    def matrices(x: Values, first: list[int], second: list[int]) -> Values:
        unit_axes = [i for i in range(x.ndim) if i not in (*batch, *first, *second)]
        ordered = x.transpose(*batch, *first, *second, *unit_axes)
        sizes = [math.prod(x.shape[i] for i in group) for group in (batch, first, second)]
        return np.ascontiguousarray(ordered).reshape(sizes)

    result = np.matmul(matrices(a, rows, summed), matrices(b, summed, columns))
    order = [*batch, *rows, *columns, *unit_axes]
    result = result.reshape([max(a.shape[i], b.shape[i]) for i in order])
    reordered: Values = result.transpose([order.index(i) for i in free])
    return reordered
