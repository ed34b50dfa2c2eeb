"""The terms of sums that may be summed apart: `sum(a[i, k] * b[k, j] + c[j], k)` is a sum of products, which is a GEMM,
and one of the elements of c."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from cugen.spec.expressions import Expr, Op, Reduce, free_indices, walk


@dataclass(frozen=True, slots=True)
class Term:
    """An addend of what is summed, or one that is subtracted."""

    expr: Expr
    is_negative: bool = False


def separate_terms(node: Reduce) -> tuple[Term, ...]:
    """The terms of a sum with a product among them, which a GEMM might sum; none if it has not, or no other term."""
    if node.kind != "sum" or node.body.dtype != node.dtype:
        return ()
    terms = tuple(_terms(node.body, node, is_negative=False))
    names = frozenset(index.name for index in node.indices)
    return terms if len(terms) > 1 and any(is_product(term.expr, names) for term in terms) else ()


def is_product(expr: Expr, summed: frozenset[str]) -> bool:
    """Whether operands are multiplied in an expression that depend on `summed` indices, and on one each that the other
    doesn't depend on, as those of a GEMM."""
    for node in walk(expr):
        operands = [names for factor in _factors(node) if (names := free_indices(factor)) & summed]
        if any(a - b and b - a for a, b in combinations(operands, 2)):
            return True
    return False


def _factors(expr: Expr) -> Iterator[Expr]:
    match expr:
        case Op(name="mul", args=(left, right)):
            yield from _factors(left)
            yield from _factors(right)
        case _:
            yield expr


def _terms(expr: Expr, node: Reduce, *, is_negative: bool) -> Iterator[Term]:
    match expr:
        case Op(name="add" | "sub" as name, args=(left, right), dtype=dtype) if dtype == node.dtype:
            yield from _terms(left, node, is_negative=is_negative)
            yield from _terms(right, node, is_negative=is_negative != (name == "sub"))
        case Op(name="neg", args=(arg,), dtype=dtype) if dtype == node.dtype:
            yield from _terms(arg, node, is_negative=not is_negative)
        case _:
            yield Term(expr, is_negative)
