"""Symbols, params, scalars and arrays that a kernel's body uses; they decide its parameters."""

from __future__ import annotations

from collections.abc import Iterator

import sympy

from cugen.plan.memory import Array
from cugen.plan.nodes import Condition, Copy, Declare, Define, For, Guard, If, Load, NamedBarrier, Node, ReturnUnless
from cugen.plan.symbols import Integer
from cugen.plan.traversal.walking import accesses, values_of, walk_nodes
from cugen.spec.expressions import Expr, ParamValue, ScalarValue, walk


def integers(nodes: tuple[Node, ...]) -> Iterator[Integer]:
    """Every integer expression that will be printed."""
    for access in accesses(nodes):
        yield from access.subscripts
        if access.rank is not None:
            yield access.rank
        if access.array.flat:
            yield from access.array.strides
    for node in walk_nodes(nodes):
        match node:
            case Define():
                yield node.index.definition
            case For():
                yield from (node.loop.start, node.loop.stop)
            case Load() | Copy() | ReturnUnless():
                yield from _of_condition(node.guard)
            case If():
                yield from _of_condition(node.condition)
            case NamedBarrier() if not node.is_of_warp:
                yield node.number


def values(nodes: tuple[Node, ...]) -> Iterator[Expr]:
    """Every value expression that will be printed."""
    for node in walk_nodes(nodes):
        yield from values_of(node)


def free_symbols(nodes: tuple[Node, ...]) -> frozenset[sympy.Symbol]:
    return frozenset[sympy.Symbol]().union(*(expr.free_symbols for expr in integers(nodes)))


def params(nodes: tuple[Node, ...]) -> frozenset[str]:
    """The spec's names of params used as values; those in subscripts are among `free_symbols`."""
    return frozenset(n.name for v in values(nodes) for n in walk(v) if isinstance(n, ParamValue))


def scalars(nodes: tuple[Node, ...]) -> frozenset[str]:
    return frozenset(n.name for v in values(nodes) for n in walk(v) if isinstance(n, ScalarValue))


def arrays(nodes: tuple[Node, ...]) -> tuple[Array, ...]:
    """The arrays that the body accesses or declares, each once."""
    arrays: dict[str, Array] = {}
    for node in walk_nodes(nodes):
        if isinstance(node, Declare):
            arrays.setdefault(node.array.symbol, node.array)
    for access in accesses(nodes):
        arrays.setdefault(access.array.symbol, access.array)
    return tuple(arrays.values())


def _of_condition(condition: Condition | None) -> Iterator[Integer]:
    if isinstance(condition, Guard):
        for term in condition.terms:
            yield from (term.left, term.right)
