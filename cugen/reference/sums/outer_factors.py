"""Factors that all terms of a sum have, or a group of them, which a device may multiply once, after the sum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cugen.spec.expressions import Const, Expr, Op, Reduce, free_indices
from cugen.spec.rewriting import without_quotients


@dataclass(frozen=True, slots=True)
class FactoredSum:
    """`total`, a sum without the factors that its terms have in common, and their product."""

    total: Reduce
    factor: Expr

    @property
    def product(self) -> Expr:
        return Op("mul", (self.total, self.factor), self.total.dtype)


def factored(node: Reduce) -> FactoredSum | None:
    """The sum of floats with its common factors outside; None if it has none, or only divisors besides.

    Under a condition only numbers are such factors: it may guard the reads in others."""
    if node.kind != "sum" or not node.dtype.is_float or node.body.dtype != node.dtype:
        return None
    names = {index.name for index in node.indices}
    inner: list[tuple[str, Expr]] = []
    outer: list[tuple[str, Expr]] = []
    for operator, factor in _factors(node.body):
        is_common = not free_indices(factor) & names and (node.where is None or isinstance(factor, Const))
        (outer if is_common else inner).append((operator, factor))
    if not outer or all(operator == "div" for operator, _ in inner):
        return None
    return FactoredSum(replace(node, body=_product(inner, node)), _product(outer, node))


def without_scales(node: Reduce) -> FactoredSum | None:
    """The sum of floats without the factors of groups of terms, such as `s[k // 128]`, and their product; None if it
    has none."""
    if node.kind != "sum" or not node.dtype.is_float or node.body.dtype != node.dtype or node.where is not None:
        return None
    names = {index.name for index in node.indices}
    factors = list(_factors(node.body))
    of_terms = [(operator, f) for operator, f in factors if names <= free_indices(without_quotients(f))]
    others = [(operator, f) for operator, f in factors if (operator, f) not in of_terms]
    has_groups = any(names & free_indices(f) for _, f in others)
    if not has_groups or all(operator == "div" for operator, _ in of_terms):
        return None
    return FactoredSum(replace(node, body=_product(of_terms, node)), _product(others, node))


def _factors(expr: Expr) -> Iterator[tuple[str, Expr]]:
    """The factors of a product, each with the operator that applies it."""
    match expr:
        case Op(name="mul", args=(left, right)):
            yield from _factors(left)
            yield from _factors(right)
        case Op(name="div", args=(dividend, divisor)):
            yield from _factors(dividend)
            yield "div", divisor
        case Op(name="neg", args=(arg,)):
            yield "mul", Const(-1.0, expr.dtype)
            yield from _factors(arg)
        case _:
            yield "mul", expr


def _product(factors: list[tuple[str, Expr]], node: Reduce) -> Expr:
    (first, product), *others = sorted(factors, key=lambda factor: factor[0] == "div")
    if first == "div":
        product = Op("div", (Const(1.0, node.dtype), product), node.dtype)
    for operator, factor in others:
        product = Op(operator, (product, factor), node.dtype)
    return product
