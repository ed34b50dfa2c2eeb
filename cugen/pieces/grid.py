"""One thread per output element: the three fastest indices map to the x, y and z axes of the block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from cugen.pieces.blocks import define_index, make_grid, power_of_two, thread
from cugen.plan.alignment import divisor
from cugen.plan.context import Context
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Array
from cugen.plan.nodes import Comparison, Define, Guard, Node, ReturnUnless
from cugen.plan.request import Request
from cugen.plan.symbols import Integer, ceil_div, integer
from cugen.spec.expressions import Index, free_indices
from cugen.spec.model import Statement

AXES = ("x", "y", "z")
DEFAULT_BLOCK = {1: (256,), 2: (32, 8), 3: (32, 8, 1)}
MAX_BLOCK_Z = 64  # threads of a block along z (CUDA programming guide, all compute capabilities)


@dataclass(frozen=True, slots=True)
class ThreadMapping:
    """One thread per element of a domain; the last node returns from threads outside of it."""

    grid: tuple[Integer, Integer, Integer]
    block: tuple[int, int, int]
    nodes: tuple[Node, ...]


def fastest_first(request: Request) -> tuple[Index, ...]:
    """The group's indices: the one contiguous in the stored array first, then from right to left."""
    statements = request.group.statements
    statement = next(filter(request.is_stored, statements), statements[0])
    return contiguous_first(statement, request.context.arrays[statement.target])


def contiguous_first(statement: Statement, target: Array) -> tuple[Index, ...]:
    """A statement's indices: the one contiguous in its target first, also in a subscript such as `N + i`, then from
    right to left. Of several with a stride of 1 it is the one whose extent isn't 1, else the last."""
    dimensions = zip(statement.subscripts, target.strides, target.shape, strict=True)
    unit = {free_indices(sub): extent for sub, stride, extent in dimensions if stride == 1}
    single = {name: extent for names, extent in unit.items() if len(names) == 1 for name in names}
    contiguous = next((name for name, extent in single.items() if extent != 1), next(reversed(single), None))
    order = list(reversed(statement.indices))
    order.sort(key=lambda index: index.name != contiguous)
    return tuple(order)


def default_block(extents: Sequence[Integer], context: Context) -> tuple[int, ...]:
    """Threads along each index (fastest first) where the schedule has none: `DEFAULT_BLOCK`, with the threads that a
    short extent leaves idle moved to the others."""
    default = DEFAULT_BLOCK[min(max(len(extents), 1), 3)]
    limits: list[int] = []
    for axis, extent in enumerate(extents[: len(default)]):
        size, limit = context.static(extent), MAX_BLOCK_Z if axis == 2 else prod(default)
        limits.append(limit if size is None else min(power_of_two(size), limit))
    block = [min(size, limit) for size, limit in zip(default, limits, strict=False)]
    for axis, limit in enumerate(limits):
        while 2 * block[axis] <= limit and 2 * prod(block) <= prod(default):
            block[axis] *= 2
    return tuple(block) if prod(block) == prod(default) else default


def map_threads(
    request: Request, lowering: Lowering, order: tuple[Index, ...], sizes: Mapping[str, int]
) -> ThreadMapping:
    """Defines every index of `order` (fastest first) per thread, and the grid that covers the domain.

    `sizes`: threads along an index, as the schedule requests."""
    extents = list(map(request.context.extent, order))
    defaults = default_block(extents, request.context)
    block = [sizes.get(index.name, 1 if sizes else size) for index, size in zip(order, defaults, strict=False)]
    block += [1] * (max(len(order), 3) - len(block))
    counts = [ceil_div(extent, size) for extent, size in zip(extents, block, strict=False)]
    blocks = make_grid(counts, lowering, request.target)
    nodes: list[Define] = []
    terms: list[Comparison] = []
    for axis, (index, extent, size) in enumerate(zip(order, extents, block, strict=False)):
        offset = thread(AXES[axis], size, lowering) if axis < len(AXES) else integer(0)
        position = blocks.coordinates[axis] * size + offset
        node = define_index(index.name, position, extent, lowering, below=counts[axis] * size)
        if not divides(size, extent, request.context):
            terms.append(Comparison(node.index.symbol, "<", extent))
        nodes.append(node)
    # Slowest index first, as in the subscripts.
    ends = [ReturnUnless(Guard(tuple(reversed(terms))))] if terms else []
    return ThreadMapping(blocks.grid, (block[0], block[1], block[2]), (*reversed(nodes), *ends))


def divides(size: int, extent: Integer, context: Context) -> bool:
    """Whether `size` provably divides the extent, so that no thread needs a guard."""
    return divisor(extent, context) % size == 0
