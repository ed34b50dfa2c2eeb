"""The terms of sums that may be summed apart: `sum(a[i, k] * b[k, j] + c[j], k)` is a sum of products, which is a GEMM,
and one of the elements of c."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cugen.spec.expressions import Expr, Op, Reduce, free_indices, walk


@dataclass(frozen=True, slots=True)
class Term:
    """An addend of what is summed, or one that is subtracted."""

    expr: Expr
    is_negative: bool = False


def separate_terms(node: Reduce) -> tuple[Term, ...]:
    """The terms of a sum that has a product of two operands with different indices among them; none if it has not, or
    no other term: no GEMM would be left then."""
    if node.kind != "sum" or node.body.dtype != node.dtype:
        return ()
    terms = tuple(_terms(node.body, node, is_negative=False))
    names = frozenset(index.name for index in node.indices)
    return terms if len(terms) > 1 and any(is_product(term.expr, names) for term in terms) else ()


def is_product(expr: Expr, summed: frozenset[str]) -> bool:
    """Whether operands that depend on `summed` indices, and on different others, are multiplied in an expression."""
    products = (node.args for node in walk(expr) if isinstance(node, Op) and node.name == "mul")
    pairs = ((free_indices(a), free_indices(b)) for a, b in products)
    return any(a & summed and b & summed and a != b for a, b in pairs)


def _terms(expr: Expr, node: Reduce, *, is_negative: bool) -> Iterator[Term]:
    match expr:
        case Op(name="add" | "sub" as name, args=(left, right), dtype=dtype) if dtype == node.dtype:
            yield from _terms(left, node, is_negative=is_negative)
            yield from _terms(right, node, is_negative=is_negative != (name == "sub"))
        case Op(name="neg", args=(arg,), dtype=dtype) if dtype == node.dtype:
            yield from _terms(arg, node, is_negative=not is_negative)
        case _:
            yield Term(expr, is_negative)
