"""Substitution in expression trees: indices by expressions, reads by values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cugen.spec.expressions import Cast, Expr, Index, IndexValue, Op, Read, Reduce, Scan, Select, free_indices
from cugen.spec.types import BOOL

ReadRule = Callable[[Read], Expr | None]


def substitute(expr: Expr, indices: Mapping[str, Expr], on_read: ReadRule | None = None) -> Expr:
    """`expr` with its free indices replaced; `on_read` may replace a read, after its subscripts were rewritten.

    Capture-avoiding: a bound index whose name occurs in a replacement is renamed.
    """

    def rewrite(node: Expr) -> Expr:
        return substitute(node, indices, on_read)

    match expr:
        case IndexValue(name=name):
            return indices.get(name, expr)
        case Read():
            read = replace(
                expr,
                subscripts=tuple(map(rewrite, expr.subscripts)),
                exact=tuple((rewrite(dividend), divisor) for dividend, divisor in expr.exact),
            )
            replacement = on_read(read) if on_read else None
            return read if replacement is None else replacement
        case Op():
            return replace(expr, args=tuple(map(rewrite, expr.args)))
        case Select():
            return replace(
                expr, condition=rewrite(expr.condition), then=rewrite(expr.then), orelse=rewrite(expr.orelse)
            )
        case Cast():
            return replace(expr, arg=rewrite(expr.arg))
        case Reduce():
            bound, inner = _rebind(expr.indices, indices)
            return replace(
                expr,
                indices=bound,
                body=substitute(expr.body, inner, on_read),
                where=None if expr.where is None else substitute(expr.where, inner, on_read),
            )
        case Scan():
            outer = indices.get(expr.outer, IndexValue(expr.outer))
            if not isinstance(outer, IndexValue):
                return substitute(as_reduction(expr), indices, on_read)
            (bound_index,), inner = _rebind((expr.inner,), indices)
            return replace(
                expr,
                inner=bound_index,
                outer=outer.name,
                body=substitute(expr.body, inner, on_read),
                where=None if expr.where is None else substitute(expr.where, inner, on_read),
            )
        case _:
            return expr


def rebuilt(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The expression with `change` applied to its operands; leaves and reads are unchanged."""
    match expr:
        case Op():
            return replace(expr, args=tuple(map(change, expr.args)))
        case Select():
            condition, then, orelse = map(change, (expr.condition, expr.then, expr.orelse))
            return replace(expr, condition=condition, then=then, orelse=orelse)
        case Cast():
            return replace(expr, arg=change(expr.arg))
        case Reduce():
            where = None if expr.where is None else change(expr.where)
            return replace(expr, body=change(expr.body), where=where)
    return expr


def as_reduction(scan: Scan) -> Reduce:
    """One value of a scan, as a reduction over the elements before (or after) the outer index."""
    inner, outer = IndexValue(scan.inner.name), IndexValue(scan.outer)
    name = {(False, False): "le", (True, False): "lt", (False, True): "ge", (True, True): "gt"}
    within: Expr = Op(name[scan.exclusive, scan.reverse], (inner, outer), BOOL)
    where = within if scan.where is None else Op("and", (within, scan.where), BOOL)
    return Reduce(scan.kind, scan.body, (scan.inner,), scan.dtype, where, scan.span)


def _rebind(bound: tuple[Index, ...], indices: Mapping[str, Expr]) -> tuple[tuple[Index, ...], dict[str, Expr]]:
    """Bound indices renamed to avoid capture, and the replacements that apply inside."""
    names = [index.name for index in bound]
    inner = {name: value for name, value in indices.items() if name not in names}
    used = frozenset[str]().union(*(free_indices(value) for value in inner.values()))
    renamed = []
    for index in bound:
        name = index.name
        while name in used or (name != index.name and name in names):
            name += "_"
        if name != index.name:
            inner[index.name] = IndexValue(name)
        renamed.append(replace(index, name=name))
    return tuple(renamed), inner
