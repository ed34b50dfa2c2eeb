"""One thread per output element: the three fastest indices map to the x, y and z axes of the block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cugen.pieces.blocks import define, limit, make_grid, thread
from cugen.pieces.vectors import divisor
from cugen.plan.context import Context
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Comparison, Define, Guard, Node, ReturnUnless
from cugen.plan.request import Request
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, ceil_div, integer
from cugen.spec import expressions as spec
from cugen.spec.expressions import IndexValue

AXES = ("x", "y", "z")
DEFAULT_BLOCK = {1: (256,), 2: (32, 8), 3: (32, 8, 1)}


@dataclass(frozen=True, slots=True)
class ThreadMapping:
    """One thread per element of a domain; the last node returns from threads outside of it."""

    grid: tuple[Integer, Integer, Integer]
    block: tuple[int, int, int]
    nodes: tuple[Node, ...]


def fastest_first(request: Request) -> tuple[spec.Index, ...]:
    """The group's indices: the one contiguous in the stored array first, then from right to left."""
    statements, context = request.group.statements, request.context
    temporary = {array.name for array in context.spec.arrays if array.role == "temporary"} - set(request.stored)
    statement = next((s for s in statements if s.target not in temporary), statements[0])
    target = context.arrays[statement.target]
    order = list(reversed(statement.indices))
    for dimension, subscript in enumerate(statement.subscripts):
        if target.strides[dimension] == 1 and isinstance(subscript, IndexValue):
            chosen = next(index for index in order if index.name == subscript.name)
            order.remove(chosen)
            order.insert(0, chosen)
            break
    return tuple(order)


def map_threads(
    request: Request, lowering: Lowering, order: tuple[spec.Index, ...], sizes: Mapping[str, int]
) -> ThreadMapping:
    """Defines every index of `order` (fastest first) per thread, and the grid that covers the domain.

    `sizes`: threads along an index, as the schedule requests.
    """
    extents = [to_integer(index.extent, lowering.symbols) for index in order]
    defaults = DEFAULT_BLOCK[min(max(len(order), 1), 3)]
    block = [sizes.get(index.name, 1 if sizes else size) for index, size in zip(order, defaults, strict=False)]
    block += [1] * (max(len(order), 3) - len(block))
    counts = [ceil_div(extent, size) for extent, size in zip(extents, block, strict=False)]
    blocks = make_grid(counts, lowering, request.target)
    nodes: list[Define] = []
    terms: list[Comparison] = []
    for axis, (index, extent, size) in enumerate(zip(order, extents, block, strict=False)):
        offset = thread(AXES[axis], size, lowering) if axis < len(AXES) else integer(0)
        node = define(index.name, blocks.coordinates[axis] * size + offset, lowering, below=counts[axis] * size)
        lowering.symbols[index.name] = node.index.symbol
        if not divides(size, extent, request.context):
            terms.append(Comparison(node.index.symbol, "<", extent))
        limit(node.index, extent, lowering)
        nodes.append(node)
    # Slowest index first, as in the subscripts.
    ends = [ReturnUnless(Guard(tuple(reversed(terms))))] if terms else []
    return ThreadMapping(blocks.grid, (block[0], block[1], block[2]), (*reversed(nodes), *ends))


def divides(size: int, extent: Integer, context: Context) -> bool:
    """Whether `size` provably divides the extent, so that no thread needs a guard."""
    return divisor(extent, context) % size == 0
