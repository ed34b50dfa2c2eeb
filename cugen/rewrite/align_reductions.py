"""Gives the reductions of several statements common index names, and orders them by dependence.

    m[i] = max(x[i, j], j);  s[i] = sum(exp(x[i, k] - m[i]), k)
becomes, over one index,
    m[i] = max(x[i, j], j);  s[i] = sum(exp(x[i, j] - m[i]), j)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from cugen.plan.context import Context
from cugen.plan.symbols import Integer
from cugen.rewrite.fresh_names import fresh
from cugen.spec.expressions import Expr, IndexValue, Reduce, Scan, children, free_indices, walk
from cugen.spec.model import Statement
from cugen.spec.rewriting import rebuild


class NotInStages(ValueError):
    """Reductions that can't be computed in successive stages; the message says why."""


def collected(statements: tuple[Statement, ...]) -> tuple[tuple[Reduce, ...], ...]:
    """The reductions by stage: those of a stage have the same indices and depend on earlier stages only.

    Raises NotInStages for a reduction inside another's loop, and for a scan."""
    for statement in statements:
        output_names = frozenset(index.name for index in statement.indices)
        for node in walk(statement.value):
            if isinstance(node, Scan):
                raise NotInStages("takes reductions, and this is a scan")
            if isinstance(node, Reduce) and free_indices(node) - output_names:
                raise NotInStages(f"takes one {node.kind} per output element, not one inside another")
    levels = nesting_levels(statement.value for statement in statements)
    stages: dict[tuple[int, tuple[object, ...]], list[Reduce]] = {}
    for reduction, level in sorted(levels.items(), key=lambda item: item[1]):
        stages.setdefault((level, reduction.indices), []).append(reduction)
    return tuple(tuple(stage) for stage in stages.values())


def nesting_levels(expressions: Iterable[Expr]) -> dict[Reduce, int]:
    """The reductions, inner ones first, with the depth of the nesting below them, 0 for none."""
    levels: dict[Reduce, int] = {}

    def depth(expr: Expr) -> int:
        if isinstance(expr, Reduce) and expr in levels:
            return levels[expr] + 1
        below = max(map(depth, children(expr)), default=0)
        if isinstance(expr, Reduce):
            levels[expr] = below
            return below + 1
        return below

    for expr in expressions:
        depth(expr)
    return levels


def with_common_indices(statements: tuple[Statement, ...], context: Context) -> tuple[Statement, ...]:
    """The statements with reductions of equal extents over the same index names, others over distinct ones; unchanged
    where a reduction uses the index of an enclosing one."""
    if any(_is_dependent(statement) for statement in statements):
        return statements
    taken = {index.name for statement in statements for index in statement.indices}
    chosen: dict[tuple[Integer, ...], tuple[str, ...]] = {}
    levels = nesting_levels(statement.value for statement in statements)
    for reduction in sorted(levels, key=lambda reduction: levels[reduction]):
        if (extents := tuple(map(context.extent, reduction.indices))) not in chosen:
            chosen[extents] = tuple(fresh(index.name, taken) for index in reduction.indices)
    return tuple(replace(s, value=_renamed(s.value, {}, chosen, context)) for s in statements)


def _is_dependent(statement: Statement) -> bool:
    """Whether a reduction uses the index of an enclosing one."""
    outputs = {index.name for index in statement.indices}
    return any(isinstance(node, Reduce) and free_indices(node) - outputs for node in walk(statement.value))


def _renamed(
    expr: Expr, names: Mapping[str, str], chosen: Mapping[tuple[Integer, ...], tuple[str, ...]], context: Context
) -> Expr:
    """The expression with the indices of every reduction renamed."""
    match expr:
        case IndexValue(name=name):
            return IndexValue(names.get(name, name))
        case Reduce(indices=indices):
            new = chosen[tuple(map(context.extent, indices))]
            names = {index.name: name for index, name in zip(indices, new, strict=True)}
            expr = replace(expr, indices=tuple(replace(index, name=names[index.name]) for index in indices))
    return rebuild(expr, lambda part: _renamed(part, names, chosen, context))
