"""What a kernel's body mentions: that decides its parameters, and nothing is declared that isn't used."""

from __future__ import annotations

from collections.abc import Iterator

import sympy

from cugen.plan.ir import (
    Access,
    Array,
    Assign,
    Condition,
    Copy,
    Declare,
    Define,
    For,
    Guard,
    If,
    Let,
    Load,
    Node,
    ReturnUnless,
    Store,
    walk_nodes,
)
from cugen.plan.symbols import Integer
from cugen.spec.expressions import Expr, ParamValue, ScalarValue, walk


def integers(nodes: tuple[Node, ...]) -> Iterator[Integer]:
    """Every integer expression that the source will show."""
    for node in walk_nodes(nodes):
        match node:
            case Define():
                yield node.index.definition
            case For():
                yield from (node.loop.start, node.loop.stop)
            case Load():
                yield from _of_access(node.access)
                yield from _of_condition(node.guard)
            case Store():
                yield from _of_access(node.access)
            case Copy():
                yield from _of_access(node.source)
                yield from _of_access(node.target)
                yield from _of_condition(node.guard)
            case If():
                yield from _of_condition(node.condition)
            case ReturnUnless():
                yield from _of_condition(node.guard)


def values(nodes: tuple[Node, ...]) -> Iterator[Expr]:
    """Every value expression that the source will show."""
    for node in walk_nodes(nodes):
        match node:
            case Let() if node.value is not None:
                yield node.value
            case Load() if node.otherwise is not None:
                yield node.otherwise
            case Store() | Assign():
                yield node.value
            case If() if not isinstance(node.condition, Guard):
                yield node.condition


def free_symbols(nodes: tuple[Node, ...]) -> frozenset[sympy.Symbol]:
    return frozenset[sympy.Symbol]().union(*(expr.free_symbols for expr in integers(nodes)))


def params(nodes: tuple[Node, ...]) -> frozenset[str]:
    """Names (of the spec) of params that values mention; those in subscripts are among `free_symbols`."""
    return frozenset(n.name for v in values(nodes) for n in walk(v) if isinstance(n, ParamValue))


def scalars(nodes: tuple[Node, ...]) -> frozenset[str]:
    return frozenset(n.name for v in values(nodes) for n in walk(v) if isinstance(n, ScalarValue))


def arrays(nodes: tuple[Node, ...]) -> tuple[Array, ...]:
    """The arrays that the body accesses or declares, each once, in order of first mention."""
    found: dict[str, Array] = {}
    for node in walk_nodes(nodes):
        match node:
            case Load() | Store():
                found.setdefault(node.access.array.symbol, node.access.array)
            case Copy():
                found.setdefault(node.source.array.symbol, node.source.array)
                found.setdefault(node.target.array.symbol, node.target.array)
            case Declare():
                found.setdefault(node.array.symbol, node.array)
    return tuple(found.values())


def _of_access(access: Access) -> Iterator[Integer]:
    yield from access.subscripts
    if access.array.flat:
        yield from access.array.strides


def _of_condition(condition: Condition | None) -> Iterator[Integer]:
    if isinstance(condition, Guard):
        for term in condition.terms:
            yield from (term.left, term.right)
