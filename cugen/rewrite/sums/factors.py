"""Moves factors that are the same for all terms of a sum out of it.

    y[m, n] = sum(alpha * a[m, k] * b[n, k] / 8, k)
becomes
    y[m, n] = alpha * sum(a[m, k] * b[n, k], k) / 8
so that what is summed is the product of array elements that a GEMM takes, and the factors are a part of its epilogue.
A sum has no more roundings then, and integers wrap alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isfinite

from cugen.spec.expressions import Const, Expr, Op, Reduce, Scan, free_indices, walk


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of a product, or a divisor."""

    expr: Expr
    is_divisor: bool = False

    @property
    def indices(self) -> frozenset[str]:
        return free_indices(self.expr)


def factors_of(expr: Expr) -> Iterator[Factor]:
    """The factors of a product in its own type, in their order; -1 for a negative sign."""
    match expr:
        case Op(name="mul", args=(left, right)):
            yield from factors_of(left)
            yield from factors_of(right)
        case Op(name="div", args=(dividend, divisor)):
            yield from factors_of(dividend)
            yield Factor(divisor, is_divisor=True)
        case Op(name="neg", args=(arg,)):
            yield Factor(Const(-1, expr.dtype))
            yield from factors_of(arg)
        case _:
            yield Factor(expr)


def product_of(factors: list[Factor]) -> Expr:
    """The product of factors, of which some is no divisor; divisors come last."""
    first, *others = sorted(factors, key=lambda factor: factor.is_divisor)
    product = first.expr
    for factor in others:
        product = Op("div" if factor.is_divisor else "mul", (product, factor.expr), product.dtype)
    return product


def with_outer_factors(reduction: Reduce) -> Expr:
    """A sum with the factors that don't depend on its indices outside; the same object if there are none."""
    if reduction.kind != "sum" or reduction.body.dtype != reduction.dtype:
        return reduction
    factors = list(factors_of(reduction.body))
    outer = [factor for factor in factors if _is_movable(factor, reduction)]
    inner = [factor for factor in factors if factor not in outer]
    if not outer or not any(not factor.is_divisor for factor in inner):
        return reduction
    sign = Factor(Const(-1, reduction.dtype))
    total: Expr = replace(reduction, body=product_of(inner))
    if outer.count(sign) % 2:
        total = Op("neg", (total,), reduction.dtype)
    for factor in outer:
        if factor != sign:
            total = Op("div" if factor.is_divisor else "mul", (total, factor.expr), reduction.dtype)
    return total


def _is_movable(factor: Factor, reduction: Reduce) -> bool:
    """Whether a factor is the same for all terms. Under a condition there may be none: then it is a finite number, and
    no read that the condition keeps in bounds."""
    if factor.indices & {index.name for index in reduction.indices}:
        return False
    if any(isinstance(node, Reduce | Scan) for node in walk(factor.expr)):
        return False
    is_number = isinstance(factor.expr, Const) and isfinite(factor.expr.value) and factor.expr.value != 0
    return reduction.where is None or is_number
