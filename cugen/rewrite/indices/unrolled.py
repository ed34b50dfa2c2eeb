"""Elements computed together: a statement for each value of a short index, or of a short part of an index.

    y[c, i] = x[i, c]                       c from 0 to 2
becomes
    y[0, i] = x[i, 0];  y[1, i] = x[i, 1];  y[2, i] = x[i, 2]
and
    y[i] = x[i // 2]                        i from 0 to 2 * N - 1
becomes
    y[2 * i] = x[i];  y[2 * i + 1] = x[i]
so that one thread computes them: each element that several read is loaded once, and those of one array are structures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cugen.plan.context import Context
from cugen.plan.memory import Array
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.indices.decided import Decisions
from cugen.rewrite.indices.subscripts import canonical_subscript
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Read, bound_indices
from cugen.spec.model import Statement
from cugen.spec.rewriting import rebuild
from cugen.spec.types import INT64


@dataclass(frozen=True, slots=True)
class Unrolling:
    """An index with each of its `values`, over what is left of it: `remaining`, of the same name."""

    index: Index
    values: tuple[Expr, ...]
    remaining: Index | None = None


def unrolling(index: Index, count: int) -> Unrolling:
    """All values of an index of extent `count`."""
    return Unrolling(index, tuple(Const(number, INT64) for number in range(count)))


def adjacent_elements(index: Index, extent: int, count: int) -> Unrolling:
    """`count` consecutive values of an index: a divisor of its extent."""
    first = Op("mul", (Const(count, INT64), IndexValue(index.name)), INT64)
    values = (Op("add", (first, Const(number, INT64)), INT64) for number in range(count))
    return Unrolling(index, tuple(values), replace(index, extent=Const(extent // count, INT64)))


def equal_parts(index: Index, extent: int, count: int) -> Unrolling:
    """The values at the same position of `count` equal parts of an index."""
    length = extent // count
    values = (Op("add", (IndexValue(index.name), Const(number * length, INT64)), INT64) for number in range(count))
    return Unrolling(index, tuple(values), replace(index, extent=Const(length, INT64)))


def unrolled(
    statements: tuple[Statement, ...], arrays: Mapping[str, Array], unrolling: Unrolling, context: Context
) -> tuple[Statement, ...]:
    """The statements of a group for each of the values of an output index."""
    index = unrolling.index
    changed = (unrolling.remaining if old == index else old for old in statements[0].indices)
    remaining = tuple(new for new in changed if new is not None)
    indices = {left.name: left for left in remaining}
    decisions = Decisions(context, indices)
    known = indices | {bound.name: bound for statement in statements for bound in bound_indices(statement.value)}

    def substituted(expr: Expr, value: Expr) -> Expr:
        return decisions.decided(substitute(expr, {index.name: value}))

    def subscripts(array: str, subs: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(
            sub if isinstance(sub, IndexValue) else canonical_subscript(change(sub), length, known, context)
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
            subscripts=subscripts(statement.target, tuple(substituted(sub, value) for sub in statement.subscripts)),
            value=change(substituted(statement.value, value)),
        )
        for value in unrolling.values
        for statement in statements
    )
