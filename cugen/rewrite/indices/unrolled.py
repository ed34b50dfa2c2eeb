"""A short index unrolled: a statement for each of its values.

    y[c, i] = x[i, c]                       c from 0 to 2
becomes
    y[0, i] = x[i, 0];  y[1, i] = x[i, 1];  y[2, i] = x[i, 2]
so that one thread computes them together: each element that several read is loaded once, and the elements of x are
structures of three fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cugen.plan.context import Context
from cugen.plan.memory import Array
from cugen.rewrite.indices.decided import Decisions
from cugen.rewrite.indices.subscripts import canonical_subscript
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Read
from cugen.spec.model import Statement
from cugen.spec.rewriting import rebuild, replaced
from cugen.spec.types import INT64


def with_unrolled_index(
    statements: tuple[Statement, ...], arrays: Mapping[str, Array], index: Index, count: int, context: Context
) -> tuple[Statement, ...]:
    """The statements of a group without loops for each of the `count` values of an output index."""
    remaining = tuple(other for other in statements[0].indices if other != index)
    indices = {other.name: other for other in remaining}
    decisions = Decisions(context, indices)

    def at(expr: Expr, number: int) -> Expr:
        value = IndexValue(index.name)
        return decisions.decided(replaced(expr, lambda node: Const(number, INT64) if node == value else None))

    def subscripts(array: str, subs: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(
            sub if isinstance(sub, IndexValue) else canonical_subscript(change(sub), length, indices, context)
            for sub, length in zip(subs, arrays[array].shape, strict=True)
        )

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Read):
            return replace(expr, subscripts=subscripts(expr.array, expr.subscripts))
        return rebuild(expr, change)

    return tuple(
        replace(
            statement,
            indices=remaining,
            subscripts=subscripts(statement.target, tuple(at(sub, number) for sub in statement.subscripts)),
            value=change(at(statement.value, number)),
        )
        for number in range(count)
        for statement in statements
    )
