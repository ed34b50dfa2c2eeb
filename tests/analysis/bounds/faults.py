"""Faults that are planted in a kernel: a guard is dropped, an index is off by one, a loop runs once more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Element
from cugen.plan.nodes import (
    Accumulate,
    Assign,
    Copy,
    For,
    Guard,
    If,
    Let,
    Load,
    LoadMatrix,
    Mma,
    Node,
    ReturnUnless,
    Store,
    StoreMatrix,
)
from cugen.plan.pipeline_nodes import ArriveBarrier, AwaitBarrier, InitBarrier, TensorLoad, TensorStore, Wgmma
from cugen.spec.expressions import Expr, walk
from cugen.spec.rewriting import replaced

_FIELDS = {
    Load: ("access",),
    Store: ("access",),
    Accumulate: ("access",),
    Copy: ("source", "target"),
    LoadMatrix: ("source", "target"),
    StoreMatrix: ("target",),
    Mma: ("acc_upper", "acc_lower", "a", "b"),
    Wgmma: ("acc_upper", "acc_lower", "a", "b"),
    TensorLoad: ("target", "barrier"),
    TensorStore: ("source",),
    InitBarrier: ("barrier",),
    ArriveBarrier: ("barrier",),
    AwaitBarrier: ("barrier",),
}


def planted(kernel: Kernel) -> Iterator[tuple[str, Kernel]]:
    """The kernel with one fault at a time, and its name."""
    for name, body in _bodies(kernel.body):
        yield name, replace(kernel, parts=(("body", body),))


def _bodies(nodes: tuple[Node, ...]) -> Iterator[tuple[str, tuple[Node, ...]]]:
    for position, node in enumerate(nodes):
        for name, others in _changed(node):
            yield name, (*nodes[:position], *others, *nodes[position + 1 :])


def _changed(node: Node) -> Iterator[tuple[str, tuple[Node, ...]]]:
    match node:
        case ReturnUnless():
            yield "return dropped", ()
        case For(loop=loop):
            yield "loop longer", (replace(node, loop=replace(loop, stop=loop.stop + loop.step)),)
            if not loop.start.is_Integer or loop.start > 0:
                yield "loop earlier", (replace(node, loop=replace(loop, start=loop.start - loop.step)),)
            for name, body in _bodies(node.body):
                yield name, (replace(node, body=body),)
        case If(condition=condition):
            if isinstance(condition, Guard):
                yield "guard dropped", (*node.then, *node.orelse)
            for name, body in _bodies(node.then):
                yield name, (replace(node, then=body),)
            for name, body in _bodies(node.orelse):
                yield name, (replace(node, orelse=body),)
        case Load(guard=guard) | Copy(guard=guard) if guard is not None and guard.terms:
            yield "guard dropped", (replace(node, guard=None),)
            for position in range(len(guard.terms)):
                terms = guard.terms[:position] + guard.terms[position + 1 :]
                yield "term dropped", (replace(node, guard=Guard(terms)),)
    for field in _FIELDS.get(type(node), ()):
        for name, access in _shifted(getattr(node, field)):
            yield name, (replace(node, **{field: access}),)
    if isinstance(node, Store | Assign | Accumulate | Let) and node.value is not None:
        for expr, name, access in _operands(node.value):
            changed = replaced(node.value, lambda part, e=expr, a=access: Element.of(a) if part is e else None)
            yield name, (replace(node, value=changed),)


def _operands(value: Expr) -> Iterator[tuple[Element, str, Access]]:
    for part in walk(value):
        if isinstance(part, Element):
            for name, access in _shifted(part.access):
                yield part, name, access


def _shifted(access: Access) -> Iterator[tuple[str, Access]]:
    for position, subscript in enumerate(access.subscripts):
        for step in (1, -1):
            moved = (*access.subscripts[:position], subscript + step, *access.subscripts[position + 1 :])
            yield f"{access.array.symbol} shifted by {step}", replace(access, subscripts=moved, start=None)
