"""Reductions of several statements brought together: equal indices under equal names, in the order of their needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cugen.plan.context import Context
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer
from cugen.spec.expressions import Cast, Expr, IndexValue, Op, Read, Reduce, Scan, Select, children, free_indices, walk
from cugen.spec.model import Statement

Change = Callable[[Expr], Expr | None]


class NotInStages(ValueError):
    """Reductions that can't be computed one stage after another; the message says why."""


def rebuilt(expr: Expr, change: Change) -> Expr:
    """The tree with every node replaced for which `change` has something else, parents first."""
    found = change(expr)
    if found is not None:
        return found

    def inner(node: Expr) -> Expr:
        return rebuilt(node, change)

    match expr:
        case Read():
            exact = tuple((inner(dividend), divisor) for dividend, divisor in expr.exact)
            return replace(expr, subscripts=tuple(map(inner, expr.subscripts)), exact=exact)
        case Op():
            return replace(expr, args=tuple(map(inner, expr.args)))
        case Select():
            return replace(expr, condition=inner(expr.condition), then=inner(expr.then), orelse=inner(expr.orelse))
        case Cast():
            return replace(expr, arg=inner(expr.arg))
        case Reduce():
            where = None if expr.where is None else inner(expr.where)
            return replace(expr, body=inner(expr.body), where=where)
    return expr


def collected(statements: tuple[Statement, ...]) -> tuple[tuple[Reduce, ...], ...]:
    """The reductions by stages: those of a stage are over the same indices, and their terms need only stages before.

    Raises NotInStages where a reduction needs another at every step, or where there is a scan."""
    levels: dict[Reduce, int] = {}
    for statement in statements:
        kept = frozenset(index.name for index in statement.indices)
        for node in walk(statement.value):
            if isinstance(node, Scan):
                raise NotInStages("takes reductions, and this is a scan")
            if isinstance(node, Reduce):
                if free_indices(node) - kept:
                    raise NotInStages(f"takes one {node.kind} for each result, not one inside another")
                levels[node] = _level(node)
    stages: dict[tuple[int, tuple[object, ...]], list[Reduce]] = {}
    for reduction, level in sorted(levels.items(), key=lambda item: item[1]):
        stages.setdefault((level, reduction.indices), []).append(reduction)
    return tuple(tuple(stage) for stage in stages.values())


def _level(reduction: Reduce) -> int:
    inside = [node for child in children(reduction) for node in walk(child) if isinstance(node, Reduce)]
    return 1 + max(map(_level, inside), default=-1)


def reductions(statements: tuple[Statement, ...]) -> tuple[Reduce, ...]:
    return tuple(node for statement in statements for node in walk(statement.value) if isinstance(node, Reduce))


def with_common_indices(statements: tuple[Statement, ...], context: Context) -> tuple[Statement, ...]:
    """The statements with reductions of equal extents over the same names, and all others over names of their own."""
    taken = {index.name for statement in statements for index in statement.indices}
    chosen: dict[tuple[Integer, ...], tuple[str, ...]] = {}
    for reduction in sorted(reductions(statements), key=_level):
        if (key := _extents(reduction, context)) not in chosen:
            names: list[str] = []
            for index in reduction.indices:
                name = index.name
                while name in taken:
                    name += "_"
                taken.add(name)
                names.append(name)
            chosen[key] = tuple(names)
    return tuple(replace(s, value=_renamed(s.value, {}, chosen, context)) for s in statements)


def _extents(reduction: Reduce, context: Context) -> tuple[Integer, ...]:
    return tuple(to_integer(index.extent, context.symbols) for index in reduction.indices)


def _renamed(
    expr: Expr, names: Mapping[str, str], chosen: Mapping[tuple[Integer, ...], tuple[str, ...]], context: Context
) -> Expr:
    """The expression with the indices of every reduction renamed; no reduction uses those of one round it."""

    def change(node: Expr) -> Expr | None:
        match node:
            case IndexValue(name=name):
                return IndexValue(names.get(name, name))
            case Reduce():
                new = chosen[_extents(node, context)]
                own = {index.name: name for index, name in zip(node.indices, new, strict=True)}
                return replace(
                    node,
                    indices=tuple(replace(index, name=own[index.name]) for index in node.indices),
                    body=_renamed(node.body, own, chosen, context),
                    where=None if node.where is None else _renamed(node.where, own, chosen, context),
                )
        return None

    return rebuilt(expr, change)
