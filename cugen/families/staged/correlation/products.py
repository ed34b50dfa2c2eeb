"""Terms that are sums of products: each product is a multiply-add onto the accumulator."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.spec.expressions import Const, Expr, Op, Reduce


def products(reduction: Reduce) -> tuple[tuple[str, Expr], ...]:
    """The addends of a float sum's term, each with `add` or `sub`, if all are products, else none: for `a * b - c * d`
    as one value a multiplication, a multiply-add and an addition are needed."""
    addends = tuple(_addends(reduction.body, "add"))
    is_split = reduction.kind == "sum" and reduction.dtype.is_float and len(addends) > 1
    return addends if is_split and all(_is_product(addend) for _, addend in addends) else ()


def _addends(expr: Expr, operation: str) -> Iterator[tuple[str, Expr]]:
    match expr:
        case Op(name="add", args=(left, right)):
            yield from _addends(left, operation)
            yield from _addends(right, operation)
        case Op(name="sub", args=(left, right)):
            yield from _addends(left, operation)
            yield from _addends(right, "sub" if operation == "add" else "add")
        case _:
            yield operation, expr


def _is_product(expr: Expr) -> bool:
    match expr:
        case Op(name="pow", args=(_, Const(value=2))):
            return True
        case Op(name="mul"):
            return True
    return False
