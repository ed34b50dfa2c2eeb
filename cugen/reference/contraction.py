"""Sums of products as matrix products: the bound takes a second product, of the factors' magnitudes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from cugen.reference.operators import apply_operator
from cugen.reference.reductions import Sum
from cugen.reference.storage import FORMATS, Values, working_dtype
from cugen.reference.tracked import Bound, Tracked, combine, unit
from cugen.spec.expressions import Expr, Op, Reduce, free_indices
from cugen.spec.types import DType

Parts = tuple[tuple[Expr, ...], tuple[Expr, ...]]
_GAIN = 4  # the least ratio of terms to elements for which a matrix product is worth its transpositions
_MOST_FACTORS = 5


def factors_of(node: Reduce) -> tuple[Expr, ...]:
    """The factors of the summed product."""

    def flatten(expr: Expr) -> tuple[Expr, ...]:
        if isinstance(expr, Op) and expr.name == "mul" and expr.dtype == node.dtype:
            return flatten(expr.args[0]) + flatten(expr.args[1])
        return (expr,)

    return flatten(node.body)


def conjuncts(condition: Expr | None) -> tuple[Expr, ...]:
    """The conditions that `and` joins."""
    if condition is None:
        return ()
    if isinstance(condition, Op) and condition.name == "and":
        return conjuncts(condition.args[0]) + conjuncts(condition.args[1])
    return (condition,)


def split(node: Reduce, extents: Mapping[str, int], joined: frozenset[str]) -> Parts | None:
    """The summed product's factors in the two groups that make the smallest matrices; None where that doesn't pay.

    `joined` are indices that share one axis."""
    factors = factors_of(node)
    if node.kind != "sum" or not 2 <= len(factors) <= _MOST_FACTORS:
        return None
    bound = frozenset(index.name for index in node.indices)
    uses = [free_indices(factor) for factor in factors]

    def size(names: frozenset[str]) -> int:
        shared = max(extents[name] for name in joined) if names & joined else 1
        return math.prod(extents[name] for name in names - joined) * shared

    everything = frozenset().union(*uses) | bound
    best: tuple[int, Parts] | None = None
    for choice in product((0, 1), repeat=len(factors) - 1):
        sides = [[0], list[int]()]
        for number, side in enumerate(choice, start=1):
            sides[side].append(number)
        if not sides[1]:
            continue
        names = [frozenset().union(*(uses[i] for i in side)) | bound for side in sides]
        total = sum(map(size, names)) + size(everything - bound)
        if best is None or total < best[0]:
            best = total, (tuple(factors[i] for i in sides[0]), tuple(factors[i] for i in sides[1]))
    if best is None or best[0] * _GAIN > size(everything):
        return None
    return best[1]


def multiply(factors: Sequence[Tracked], dtype: DType) -> Tracked:
    """The product of one group's factors."""
    result = factors[0]
    for factor in factors[1:]:
        result = apply_operator("mul", (result, factor), dtype)
    return result


def contracted(a: Tracked, b: Tracked, masks: Sequence[Values], extents: tuple[int, ...], dtype: DType) -> Sum | None:
    """`Σ a·b` over the leading axes, whose extents are given.

    None where a mask depends, besides the summed axes, on axes of both factors, or where values aren't finite."""
    axes = len(extents)
    depth = max([x.ndim for x in (a.value, b.value, *masks)] + [axes])
    sides = [_padded(x, depth, extents) for x in (a, b)]
    outer: Values | None = None
    for mask in masks:
        mask = mask.reshape((1,) * (depth - mask.ndim) + mask.shape)
        free = {axis for axis in range(axes, depth) if mask.shape[axis] > 1}
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
    total = _summed_products(a, b, axes, math.prod(extents), dtype)
    if outer is None:
        return total
    keep = outer.reshape(outer.shape[axes:])
    zero = total.value.dtype.type(0)
    inherited = None if total.inherited is None else np.where(keep, total.inherited, 0.0)
    magnitude = np.where(keep, total.magnitude, 0.0)
    return Sum(np.where(keep, total.value, zero), magnitude, inherited, total.terms, total.integral)


def _summed_products(a: Tracked, b: Tracked, axes: int, terms: int, dtype: DType) -> Sum:
    if not dtype.is_float:
        value = _integer_product(a.value, b.value, axes, dtype)
        uncertain: Bound = None
        if a.bound is not None or b.bound is not None:
            touched = matrix_product((a.slack > 0) * 1.0 + 0 * a.value, np.ones(b.value.shape), axes)
            touched = touched + matrix_product(np.ones(a.value.shape), (b.slack > 0) * 1.0 + 0 * b.value, axes)
            uncertain = np.where(touched > 0, np.inf, 0.0)
        return Sum(value, np.zeros(()), uncertain, terms, False)
    size_a, size_b = np.abs(a.value), np.abs(b.value)
    value = matrix_product(a.value, b.value, axes)
    magnitude = matrix_product(size_a, size_b, axes)
    integral = a.integral and b.integral
    inherited: Bound = None
    if not integral:
        form = FORMATS[dtype.name]
        inherited = np.where(np.isfinite(value), unit(dtype) * magnitude + terms * form.tiny, 0.0)
        wide_a, wide_b = np.broadcast_to(a.slack, size_a.shape), np.broadcast_to(b.slack, size_b.shape)
        if a.bound is not None:
            inherited = combine(inherited, matrix_product(wide_a, size_b + wide_b, axes))
        if b.bound is not None:
            inherited = combine(inherited, matrix_product(size_a, wide_b, axes))
        assert inherited is not None
        inherited = np.where(np.isnan(inherited), np.inf, inherited)
        magnitude = magnitude + inherited
    return Sum(value, magnitude, inherited, terms, integral)


def _integer_product(a: Values, b: Values, axes: int, dtype: DType) -> Values:
    """Through float64 where that is exact, for the sake of speed; else in the type itself, wrapping."""
    terms = math.prod(a.shape[:axes])
    reach = [float(np.max(np.abs(x.astype(np.float64)), initial=0)) for x in (a, b)]
    if reach[0] * reach[1] * terms < 2.0**53:
        return (
            matrix_product(a.astype(np.float64), b.astype(np.float64), axes)
            .astype(np.int64)
            .astype(working_dtype(dtype))
        )
    return matrix_product(a, b, axes)


def _padded(x: Tracked, depth: int, extents: tuple[int, ...]) -> Tracked:
    """The value with all axes there are, the summed ones at full length."""

    def pad(values: Values) -> Values:
        values = values.reshape((1,) * (depth - values.ndim) + values.shape)
        return np.broadcast_to(values, extents + values.shape[len(extents) :])

    bound = None if x.bound is None else np.broadcast_to(pad(x.bound), pad(x.value).shape)
    return Tracked(pad(x.value), bound, x.integral)


def matrix_product(a: Values, b: Values, axes: int) -> Values:
    """`Σ a·b` over the first `axes` axes of equally many-dimensional arrays, the others broadcast."""
    free = range(axes, a.ndim)
    batch = [i for i in free if a.shape[i] > 1 and b.shape[i] > 1]
    rows = [i for i in free if a.shape[i] > 1 and b.shape[i] == 1]
    columns = [i for i in free if a.shape[i] == 1 and b.shape[i] > 1]
    ones = [i for i in free if a.shape[i] == 1 and b.shape[i] == 1]
    summed = list(range(axes))

    def matrices(x: Values, first: list[int], second: list[int]) -> Values:
        rest = [i for i in range(x.ndim) if i not in (*batch, *first, *second)]
        ordered = x.transpose(*batch, *first, *second, *rest)
        sizes = [math.prod(x.shape[i] for i in group) for group in (batch, first, second)]
        return np.ascontiguousarray(ordered).reshape(sizes)

    result = np.matmul(matrices(a, rows, summed), matrices(b, summed, columns))
    order = [*batch, *rows, *columns, *ones]
    result = result.reshape([max(a.shape[i], b.shape[i]) for i in order])
    back: Values = result.transpose([order.index(i) for i in free])
    return back
