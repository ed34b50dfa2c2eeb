"""Gives the reductions of several statements common index names, and orders them by dependence.

    m[i] = max(x[i, j], j);  s[i] = sum(exp(x[i, k] - m[i]), k)
becomes, over one index,
    m[i] = max(x[i, j], j);  s[i] = sum(exp(x[i, j] - m[i]), j)
"""

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
    """Reductions that can't be computed in successive stages; the message says why."""


def rebuilt(expr: Expr, change: Change) -> Expr:
    """The tree with each node replaced for which `change` returns one, parents first."""
    replacement = change(expr)
    if replacement is not None:
        return replacement

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
    """The reductions by stage: those of a stage have the same indices and depend on earlier stages only.

    Raises NotInStages for a reduction inside another's loop, and for a scan."""
    levels: dict[Reduce, int] = {}
    for statement in statements:
        output_names = frozenset(index.name for index in statement.indices)
        for node in walk(statement.value):
            if isinstance(node, Scan):
                raise NotInStages("takes reductions, and this is a scan")
            if isinstance(node, Reduce):
                if free_indices(node) - output_names:
                    raise NotInStages(f"takes one {node.kind} per output element, not one inside another")
                levels[node] = _level(node)
    stages: dict[tuple[int, tuple[object, ...]], list[Reduce]] = {}
    for reduction, level in sorted(levels.items(), key=lambda item: item[1]):
        stages.setdefault((level, reduction.indices), []).append(reduction)
    return tuple(tuple(stage) for stage in stages.values())


def _level(reduction: Reduce) -> int:
    """The depth of the nesting below a reduction, 0 for none."""
    nested = [node for child in children(reduction) for node in walk(child) if isinstance(node, Reduce)]
    return 1 + max(map(_level, nested), default=-1)


def reductions(statements: tuple[Statement, ...]) -> tuple[Reduce, ...]:
    return tuple(node for statement in statements for node in walk(statement.value) if isinstance(node, Reduce))


def with_common_indices(statements: tuple[Statement, ...], context: Context) -> tuple[Statement, ...]:
    """The statements with reductions of equal extents over the same index names, others over distinct ones."""
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
    """The expression with the indices of every reduction renamed; none uses the indices of an enclosing one."""

    def change(node: Expr) -> Expr | None:
        match node:
            case IndexValue(name=name):
                return IndexValue(names.get(name, name))
            case Reduce():
                new = chosen[_extents(node, context)]
                renames = {index.name: name for index, name in zip(node.indices, new, strict=True)}
                return replace(
                    node,
                    indices=tuple(replace(index, name=renames[index.name]) for index in node.indices),
                    body=_renamed(node.body, renames, chosen, context),
                    where=None if node.where is None else _renamed(node.where, renames, chosen, context),
                )
        return None

    return rebuilt(expr, change)
