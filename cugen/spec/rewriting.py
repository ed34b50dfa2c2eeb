"""Transformations of expression trees: mapping children, renaming indices, and naming bound indices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from operator import is_

from cugen.spec.expressions import (
    Cast,
    Const,
    Expr,
    Index,
    IndexValue,
    Op,
    Read,
    Reduce,
    Sample,
    Scan,
    Select,
    children,
    free_indices,
)
from cugen.spec.types import DType

# Separates the source name of a bound index from a unique number, until extents are known and `FinalNames` chooses
# printable names.
SEPARATOR = "'"


def rebuild(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The node with `change` applied to each direct child; the same node where that changes none."""
    before = children(expr)
    after = tuple(map(change, before))
    if all(map(is_, before, after)):
        return expr
    match expr:
        case Read(subscripts=subscripts, exact=exact):
            dividends = after[len(subscripts) :]
            divisions = tuple((dividend, divisor) for dividend, (_, divisor) in zip(dividends, exact, strict=True))
            return replace(expr, subscripts=after[: len(subscripts)], exact=divisions)
        case Sample():
            return replace(expr, coordinates=after)
        case Op(name=name, dtype=dtype, span=span):
            return Op(name, after, dtype, span)
        case Select():
            condition, then, orelse = after
            return replace(expr, condition=condition, then=then, orelse=orelse)
        case Cast():
            return replace(expr, arg=after[0])
        case Reduce(where=where) | Scan(where=where):
            return replace(expr, where=None if where is None else after[0], body=after[-1])
        case _:
            return expr


def replaced(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """The tree with each node replaced for which `change` returns one, parents first."""
    replacement = change(expr)
    return rebuild(expr, lambda child: replaced(child, change)) if replacement is None else replacement


def without_quotients(expr: Expr) -> Expr:
    """The tree with 0 for the numbers of groups, `k // 128`, by which scales are read."""

    def change(node: Expr) -> Expr | None:
        match node:
            case Op(name="floordiv", args=(IndexValue(), divisor)) if not free_indices(divisor):
                return Const(0, node.dtype)
        return None

    return replaced(expr, change)


def converted(expr: Expr, dtype: DType) -> Expr:
    """The expression in another type; itself if it has that type."""
    return expr if expr.dtype == dtype else Cast(expr, dtype)


def rename(expr: Expr, names: Mapping[str, str]) -> Expr:
    """The tree with free indices renamed; bound indices must have distinct names (no capture)."""
    if isinstance(expr, IndexValue):
        return replace(expr, name=names[expr.name]) if expr.name in names else expr
    if isinstance(expr, Scan) and expr.outer in names:
        expr = replace(expr, outer=names[expr.outer])
    return rebuild(expr, lambda child: rename(child, names))


class FinalNames:
    """Chooses the names of one statement's bound indices.

    Keeps the source name unless it is in `taken`, is bound in the same subtree, or names an index of another extent.
    Names are chosen bottom-up, so that equal subtrees get equal names.
    """

    def __init__(self, taken: Collection[str]) -> None:
        self._taken = taken
        self._extents: dict[str, Expr] = {}

    def apply(self, expr: Expr) -> Expr:
        """The tree with its bound indices named."""
        return self._named(expr)[0]

    def _named(self, expr: Expr) -> tuple[Expr, frozenset[str]]:
        """The renamed tree, and the names of the indices that it binds."""
        below: list[frozenset[str]] = []

        def change(child: Expr) -> Expr:
            tree, names = self._named(child)
            below.append(names)
            return tree

        expr = rebuild(expr, change)
        bound = frozenset[str]().union(*below)
        match expr:
            case Reduce(indices=indices):
                names: dict[str, str] = {}
                for index in indices:
                    names[index.name] = self._choose(index, bound | frozenset(names.values()))
                chosen = tuple(Index(names[index.name], index.extent) for index in indices)
                body, where = rename(expr.body, names), expr.where and rename(expr.where, names)
                return replace(expr, indices=chosen, body=body, where=where), bound | frozenset(names.values())
            case Scan(inner=inner):
                name = self._choose(inner, bound)
                names = {inner.name: name}
                body, where = rename(expr.body, names), expr.where and rename(expr.where, names)
                return replace(expr, inner=Index(name, inner.extent), body=body, where=where), bound | {name}
            case _:
                return expr, bound

    def _choose(self, index: Index, avoid: frozenset[str]) -> str:
        base = index.name.split(SEPARATOR)[0]
        name, number = base, 0
        while name in self._taken or name in avoid or self._extents.get(name, index.extent) != index.extent:
            number += 1
            name = f"{base}_{number}"
        self._extents[name] = index.extent
        return name
