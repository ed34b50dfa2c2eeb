"""Register arrays with a subscript that a compiler doesn't know, even after unrolling.

Registers have no addresses: compilers keep such an array in local memory, or select among few elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import sympy

from cugen.plan.kernel import Kernel
from cugen.plan.memory import Array
from cugen.plan.nodes import Define, For, If, Node
from cugen.plan.symbols import Integer, bounds
from cugen.plan.traversal.walking import accesses_of

MAY_SELECT = "compilers keep an array that is indexed at run time in local memory, or select among few elements"


def local_arrays(kernel: Kernel) -> dict[str, Array]:
    """The arrays by their names in C."""
    fixed = {name for name, (low, high) in kernel.ranges if low == high and name.name not in kernel.arguments}
    return {array.symbol: array for array in _indexed_at_run_time(kernel.body, fixed)}


def bytes_of(array: Array, kernel: Kernel) -> int:
    """Bytes of an array in the local memory of a thread."""
    extents = (bounds(extent, dict(kernel.ranges))[1] for extent in array.padded_shape)
    return prod(extents) * array.dtype.bytes


def _indexed_at_run_time(nodes: tuple[Node, ...], known: set[sympy.Symbol]) -> Iterator[Array]:
    """`known`: the indices that a compiler knows here."""
    known = set(known)
    for node in nodes:
        match node:
            case Define(index=index, then=None) if _is_known(index.definition, known):
                known.add(index.symbol)
            case For(loop=loop, body=body):
                is_unrolled = loop.unroll and not (loop.halves or loop.doubles)
                is_fixed = is_unrolled and _is_known(loop.start, known) and _is_known(loop.stop, known)
                counters = {loop.index.symbol, *(counter.index.symbol for counter in node.counted)}
                yield from _indexed_at_run_time(body, known | counters if is_fixed else known - counters)
            case If(then=then, orelse=orelse):
                yield from _indexed_at_run_time(then, known)
                yield from _indexed_at_run_time(orelse, known)
        for access in accesses_of(node):
            if access.array.space == "register" and not all(_is_known(sub, known) for sub in access.subscripts):
                yield access.array


def _is_known(expr: Integer, known: set[sympy.Symbol]) -> bool:
    return bool(expr.free_symbols <= known)
