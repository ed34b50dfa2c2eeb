"""Traversal of nodes in source order: nested nodes, accesses and values."""

from __future__ import annotations

from collections.abc import Iterator

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
from cugen.plan.pipeline_nodes import pipeline_accesses
from cugen.spec.expressions import Expr, walk


def walk_nodes(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """All nodes in source order, parents first."""
    for node in nodes:
        yield node
        match node:
            case For():
                yield from walk_nodes(node.body)
            case If():
                yield from walk_nodes(node.then)
                yield from walk_nodes(node.orelse)


def accesses(nodes: tuple[Node, ...]) -> Iterator[Access]:
    """Every access of the nodes, in source order."""
    for node in walk_nodes(nodes):
        yield from accesses_of(node)


def accesses_of(node: Node) -> Iterator[Access]:
    """The accesses of a node, without those of its children."""
    match node:
        case Load() | Store() | Accumulate() | AtomicAdd() | LoadBlockId() | ReleaseFlag() | AcquireSpinWait():
            yield node.access
        case LoadMatrix() | ConvertFragment():
            yield node.target
            yield node.source
        case StoreMatrix():
            yield node.target
        case Mma():
            yield from (node.acc_upper, node.acc_lower, node.a, node.b)
        case FetchBlockId() | CountArrival():
            yield node.target
            yield node.counter
        case Copy():
            yield node.source
            yield node.target
        case _:
            yield from pipeline_accesses(node)
    for value in values_of(node):
        yield from (leaf.access for leaf in walk(value) if isinstance(leaf, Element))


def values_of(node: Node) -> tuple[Expr, ...]:
    """The value expressions that a node prints, without those of its children."""
    match node:
        case Let(value=value):
            return () if value is None else (value,)
        case Load(access=access, otherwise=value):
            return access.coordinates if value is None else (*access.coordinates, value)
        case Store(value=value) | Assign(value=value) | Accumulate(value=value) | AtomicAdd(value=value):
            return (value,)
        case StoreMatrix():
            return node.vectors
        case ReleaseFlag(value=value) | AcquireSpinWait(value=value):
            return (value,)
        case If(condition=condition) if not isinstance(condition, Guard):
            return (condition,)
    return ()
