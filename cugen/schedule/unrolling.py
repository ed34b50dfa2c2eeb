"""`unroll`: unroll factors that a schedule sets for loops of the source, by the names of their variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import sympy

from cugen.plan.kernel import Kernel
from cugen.plan.memory import Component, Vector
from cugen.plan.nodes import (
    Assign,
    AwaitCopies,
    CommitCopies,
    Copy,
    Define,
    For,
    If,
    Let,
    Load,
    Loop,
    Node,
    Section,
)
from cugen.plan.pipeline_nodes import PipelineNode
from cugen.plan.symbols import Integer, bounds
from cugen.plan.traversal.sections import dissolved
from cugen.plan.traversal.walking import accesses_of, values_of, walk_nodes
from cugen.spec.expressions import walk
from cugen.spec.parse.keys import MAX_UNROLL

FULLY = 0  # in place of a factor


@dataclass
class Unrolling:
    """The unrolling of one kernel. `refused` has, by the name of a loop's variable, why a loop can't be so."""

    factors: Mapping[str, int]
    refused: dict[str, str] = field(default_factory=dict)

    def apply(self, kernel: Kernel) -> Kernel:
        """The kernel with its loops unrolled as asked, except those that are refused."""
        fixed = {name for name, (low, high) in kernel.ranges if low == high and name.name not in kernel.arguments}
        parts = tuple((name, self._nodes(nodes, kernel, fixed)) for name, nodes in kernel.parts)
        return replace(kernel, parts=parts)

    def _nodes(self, nodes: tuple[Node, ...], kernel: Kernel, known: set[sympy.Symbol]) -> tuple[Node, ...]:
        """`known`: what a compiler knows here."""
        rewritten: list[Node] = []
        for node in nodes:
            match node:
                case Section(body=body):
                    node = replace(node, body=self._nodes(body, kernel, known))
                case If(then=then, orelse=orelse):
                    branches = (self._nodes(branch, kernel, known) for branch in (then, orelse))
                    node = replace(node, then=next(branches), orelse=next(branches))
                case For():
                    node = self._loop(node, kernel, known)
            rewritten.append(node)
        return tuple(rewritten)

    def _loop(self, node: For, kernel: Kernel, known: set[sympy.Symbol]) -> For:
        loop, name = node.loop, node.loop.index.name
        if name in self.factors:
            factor = self.factors[name]
            if reason := _why_not(node, factor, kernel, known):
                self.refused.setdefault(name, reason)
            else:
                is_partial = factor > 1
                loop = replace(loop, unroll=factor == FULLY, rolled=factor == 1, unroll_by=factor if is_partial else 0)
        inside = known | {loop.index.symbol} if loop.unroll else known
        return replace(node, loop=loop, body=self._nodes(node.body, kernel, inside))


def loops_of(kernel: Kernel) -> tuple[str, ...]:
    """The names of the variables of a kernel's loops, in the order of the source."""
    return tuple(dict.fromkeys(n.loop.index.name for n in walk_nodes(kernel.body) if isinstance(n, For)))


def _why_not(node: For, factor: int, kernel: Kernel, known: set[sympy.Symbol]) -> str:
    """Why a loop can't be unrolled so; empty where it can."""
    loop = node.loop
    if factor == FULLY and not loop.unroll:
        if not (loop.stop - loop.start).free_symbols <= known:
            return "the number of its trips isn't known when the kernel is compiled"
        if (trips := _max_trips(loop, kernel)) > MAX_UNROLL:
            return f"it has {trips} trips, and at most {MAX_UNROLL} copies of its body are made"
        if _is_pipelined(node):
            return "its trips are the steps of a pipeline, which is proved for any number of them"
    if factor != FULLY and loop.unroll:
        if _is_pipelined(node):
            return "its trips are stages of a pipeline, which are proved one by one"
        if arrays := _register_arrays(node):
            return f"its variable selects registers of {', '.join(arrays)}; rolled, they would be in local memory"
    return ""


def _max_trips(loop: Loop, kernel: Kernel) -> int:
    return -(-bounds(loop.stop - loop.start, dict(kernel.ranges))[1] // int(loop.step))


def _is_pipelined(node: For) -> bool:
    """Whether asynchronous copies or multiplications are started or awaited in it."""
    return any(
        isinstance(inner, CommitCopies | AwaitCopies | PipelineNode) or (isinstance(inner, Copy) and inner.asynchronous)
        for inner in walk_nodes(dissolved(node.body))
    )


def _register_arrays(node: For) -> tuple[str, ...]:
    """Names of arrays and vectors in registers whose elements depend on a loop's variable."""
    varying = {node.loop.index.symbol, *(counter.index.symbol for counter in node.counted)}
    found: dict[str, None] = {}
    for inner in walk_nodes(dissolved(node.body)):
        if isinstance(inner, Define) and inner.index.definition.free_symbols & varying:
            varying.add(inner.index.symbol)
        for name, subscripts in _subscripts(inner):
            if any(subscript.free_symbols & varying for subscript in subscripts):
                found.setdefault(name)
    return tuple(found)


def _subscripts(node: Node) -> Iterator[tuple[str, tuple[Integer, ...]]]:
    """Subscripts of arrays and vectors in registers."""
    for access in accesses_of(node):
        if access.array.space == "register":
            yield access.array.symbol, access.subscripts
    leaves = [leaf for value in values_of(node) for leaf in walk(value)]
    if isinstance(node, Let | Load | Assign):
        leaves.append(node.local)
    for leaf in leaves:
        if isinstance(leaf, Component):
            yield leaf.vector.name, (leaf.index, *_indices(leaf.vector))
        elif isinstance(leaf, Vector):
            yield leaf.name, _indices(leaf)


def _indices(vector: Vector) -> tuple[Integer, ...]:
    return tuple(index for index in (vector.row, vector.index) if index is not None)
