"""Symbols, params, scalars and arrays that a kernel's body uses; they decide its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sympy

from cugen.plan.memory import Array, Component, Vector
from cugen.plan.nodes import (
    Assign,
    AwaitCopies,
    Condition,
    Copy,
    Declare,
    Define,
    For,
    Guard,
    If,
    Let,
    Load,
    NamedBarrier,
    Node,
    ReturnUnless,
)
from cugen.plan.pipeline_nodes import ArriveBarrier, AwaitBarrier, TensorLoad, Wgmma
from cugen.plan.symbols import Integer, integer, symbol
from cugen.plan.traversal.sections import dissolved
from cugen.plan.traversal.walking import accesses, values_of, walk_nodes
from cugen.spec.expressions import Expr, Local, ParamValue, ScalarValue, walk


def integers(nodes: tuple[Node, ...]) -> Iterator[Integer]:
    """Every integer expression that will be printed."""
    for access in accesses(nodes):
        yield from access.subscripts
        if access.rank is not None:
            yield access.rank
        if (texture := access.array.texture_2d) is not None:
            yield from access.array.shape if texture.is_normalized else ()
        elif access.array.flat:
            yield from (stride for sub, stride in zip(access.subscripts, access.array.strides, strict=True) if sub != 0)
            yield from access.array.printed_shape
    for node in walk_nodes(nodes):
        yield from _of_components(node)
        match node:
            case Define():
                yield node.index.definition
            case For():
                yield from (node.loop.start, node.loop.stop, integer(node.loop.step))
            case Let(local=Vector(count=count, rows=rows)):
                yield from (integer(count), integer(rows))
            case Declare():
                yield from (*node.array.printed_shape, *node.array.shape, integer(node.array.dynamic_offset))
            case AwaitCopies():
                yield integer(node.pending)
            case Load(bounds_checked=True):
                pass
            case Load() | Copy() | ReturnUnless():
                yield from _of_condition(node.guard)
            case If():
                yield from _of_condition(node.condition)
            case NamedBarrier() if not node.is_of_warp:
                yield node.number
            case TensorLoad():
                yield from node.offsets
            case ArriveBarrier():
                yield from (expr for expr in (node.expected_bytes, node.rank) if expr is not None)
            case AwaitBarrier(parity=parity):
                yield parity
            case Wgmma(k=k):
                yield k


def _of_components(node: Node) -> Iterator[Integer]:
    """The numbers of the vectors' elements that a node reads or assigns."""
    targets = (node.local,) if isinstance(node, Assign) else ()
    for component in (leaf for value in (*values_of(node), *targets) for leaf in walk(value)):
        if isinstance(component, Component):
            yield from (n for n in (component.index, component.vector.index, component.vector.row) if n is not None)


def values(nodes: tuple[Node, ...]) -> Iterator[Expr]:
    """Every value expression that will be printed."""
    for node in walk_nodes(nodes):
        yield from values_of(node)
    for access in accesses(nodes):
        yield from access.coordinates


def free_symbols(nodes: tuple[Node, ...]) -> frozenset[sympy.Symbol]:
    return frozenset[sympy.Symbol]().union(*(expr.free_symbols for expr in integers(nodes)))


def constants(nodes: tuple[Node, ...]) -> frozenset[str]:
    """Names of the compile-time constants."""
    defined = (node.index for node in walk_nodes(nodes) if isinstance(node, Define))
    return frozenset(index.name for index in defined if index.constant)


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


def mentions(nodes: Sequence[Node], name: str) -> bool:
    """Whether the nodes use an index or a local."""
    body = dissolved(tuple(nodes))
    leaves = (leaf for value in values(body) for leaf in walk(value))
    return symbol(name) in free_symbols(body) or any(isinstance(n, Local) and n.name == name for n in leaves)


def _of_condition(condition: Condition | None) -> Iterator[Integer]:
    if isinstance(condition, Guard):
        for term in condition.terms:
            yield from (term.left, term.right)
