"""Substitution in expression trees: indices by expressions, reads by values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cugen.spec.expressions import Expr, Index, IndexValue, Op, Read, Reduce, Scan, free_indices
from cugen.spec.model import Statement
from cugen.spec.rewriting import rebuild
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
            read = rebuild(expr, rewrite)
            replacement = on_read(read) if on_read and isinstance(read, Read) else None
            return read if replacement is None else replacement
        case Reduce():
            bound, inner = _rebind(expr.indices, indices)
            return rebuild(replace(expr, indices=bound), lambda part: substitute(part, inner, on_read))
        case Scan():
            outer = indices.get(expr.outer, IndexValue(expr.outer))
            if not isinstance(outer, IndexValue):
                return substitute(as_reduction(expr), indices, on_read)
            (bound_index,), inner = _rebind((expr.inner,), indices)
            scan = replace(expr, inner=bound_index, outer=outer.name)
            return rebuild(scan, lambda part: substitute(part, inner, on_read))
    return rebuild(expr, rewrite)


def over_indices(statement: Statement, indices: tuple[Index, ...]) -> Statement:
    """The statement with its indices renamed to others of the same extents."""
    renames: dict[str, Expr] = {
        a.name: IndexValue(b.name) for a, b in zip(statement.indices, indices, strict=True) if a.name != b.name
    }
    if not renames:
        return statement
    return replace(
        statement,
        indices=indices,
        subscripts=tuple(substitute(sub, renames) for sub in statement.subscripts),
        value=substitute(statement.value, renames),
    )


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
