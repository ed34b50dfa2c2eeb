"""An index that counts backwards, so that reads which run backwards along it run forwards.

    y[i, j] = x[j, N - 1 - i]               consecutive i read an input row from its end
becomes
    y[N - 1 - i, j] = x[j, i]
over the same elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cugen.plan.context import Context
from cugen.plan.memory import Array
from cugen.plan.symbols import Integer
from cugen.rewrite.indices.subscripts import canonical_subscript
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Read
from cugen.spec.model import Statement
from cugen.spec.rewriting import rebuild
from cugen.spec.types import INT64


def with_reversed_index(
    statements: tuple[Statement, ...], arrays: Mapping[str, Array], index: Index, context: Context
) -> tuple[Statement, ...]:
    """The statements of a group with `extent - 1 - index` for an output index."""
    value, indices = IndexValue(index.name), {known.name: known for known in statements[0].indices}
    reversed_value = Op("sub", (Op("sub", (index.extent, Const(1, INT64)), INT64), value), INT64)

    def subscripts(array: str, old: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(subscript(sub, length) for sub, length in zip(old, arrays[array].shape, strict=True))

    def subscript(old: Expr, length: Integer) -> Expr:
        new = change(old)
        return new if old in (new, value) else canonical_subscript(new, length, indices, context)

    def change(expr: Expr) -> Expr:
        if expr == value:
            return reversed_value
        if isinstance(expr, Read):
            return replace(expr, subscripts=subscripts(expr.array, expr.subscripts))
        return rebuild(expr, change)

    return tuple(replace(s, subscripts=subscripts(s.target, s.subscripts), value=change(s.value)) for s in statements)
