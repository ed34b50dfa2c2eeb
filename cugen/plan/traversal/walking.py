"""Traversal of nodes in source order: nested nodes, accesses and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cugen.plan.memory import Access, Element
from cugen.plan.nodes import (
    Accumulate,
    AcquireSpinWait,
    Assign,
    AtomicAdd,
    ConvertFragment,
    Copy,
    CountArrival,
    FetchBlockId,
    For,
    Guard,
    If,
    Let,
    Load,
    LoadBlockId,
    LoadMatrix,
    Mma,
    Node,
    ReleaseFlag,
    Store,
    StoreMatrix,
)
from cugen.plan.pipeline_nodes import ArriveBarrier, AwaitBarrier, InitBarrier, TensorLoad, TensorStore, Wgmma
from cugen.spec.expressions import Expr, walk

# By type, since planning looks at each node many times. Other nodes have no accesses or values of their own.
_ACCESSES: dict[type[Any], Callable[[Any], tuple[Access, ...]]] = {
    **dict.fromkeys(
        (Load, Store, Accumulate, AtomicAdd, LoadBlockId, ReleaseFlag, AcquireSpinWait), lambda node: (node.access,)
    ),
    **dict.fromkeys((LoadMatrix, ConvertFragment), lambda node: (node.target, node.source)),
    StoreMatrix: lambda node: (node.target,),
    **dict.fromkeys((Mma, Wgmma), lambda node: (node.acc_upper, node.acc_lower, node.a, node.b)),
    **dict.fromkeys((FetchBlockId, CountArrival), lambda node: (node.target, node.counter)),
    Copy: lambda node: (node.source, node.target),
    **dict.fromkeys((InitBarrier, ArriveBarrier, AwaitBarrier), lambda node: (node.barrier,)),
    TensorLoad: lambda node: (node.target, node.source, node.barrier),
    TensorStore: lambda node: (node.target, node.source),
}


def _of_load(node: Load) -> tuple[Expr, ...]:
    coordinates = node.access.coordinates
    return coordinates if node.otherwise is None else (*coordinates, node.otherwise)


_VALUES: dict[type[Any], Callable[[Any], tuple[Expr, ...]]] = {
    Let: lambda node: () if node.value is None else (node.value,),
    Load: _of_load,
    **dict.fromkeys((Store, Assign, Accumulate, AtomicAdd, ReleaseFlag, AcquireSpinWait), lambda node: (node.value,)),
    StoreMatrix: lambda node: node.vectors,
    If: lambda node: () if isinstance(node.condition, Guard) else (node.condition,),
}


def walk_nodes(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """All nodes in source order, parents first."""
    pending = [*reversed(nodes)]
    while pending:
        node = pending.pop()
        yield node
        match node:
            case For():
                pending.extend(reversed(node.body))
            case If():
                pending.extend(reversed(node.orelse))
                pending.extend(reversed(node.then))


def accesses(nodes: tuple[Node, ...]) -> Iterator[Access]:
    """Every access of the nodes, in source order."""
    for node in walk_nodes(nodes):
        yield from accesses_of(node)


def accesses_of(node: Node) -> Iterator[Access]:
    """The accesses of a node, without those of its children."""
    if (listed := _ACCESSES.get(type(node))) is not None:
        yield from listed(node)
    for value in values_of(node):
        yield from (leaf.access for leaf in walk(value) if isinstance(leaf, Element))


def values_of(node: Node) -> tuple[Expr, ...]:
    """The value expressions that a node prints, without those of its children."""
    listed = _VALUES.get(type(node))
    return () if listed is None else listed(node)
