"""Assembles a family's parts into a `Kernel`: parameters, shared memory and symbol ranges."""

from __future__ import annotations

from collections.abc import Sequence

from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Array
from cugen.plan.names import Names
from cugen.plan.nodes import Node
from cugen.plan.request import Request
from cugen.plan.symbols import Integer, Ranges, bounds, integer
from cugen.plan.traversal import usage
from cugen.plan.traversal.sections import dissolved


def new_lowering(request: Request) -> Lowering:
    """A lowering with the spec's params and arrays and a new scope of names."""
    context = request.context
    return Lowering(Names(context.names), context.arrays, dict(context.symbols), dict(context.ranges))


def assemble(
    request: Request,
    lowering: Lowering,
    family: str,
    parts: Sequence[tuple[str, tuple[Node, ...]]],
    grid: tuple[Integer, Integer, Integer],
    block: tuple[int, int, int],
    *,
    minimum_blocks: int = 0,
    alignments: tuple[tuple[str, int], ...] = (),
    workspace: tuple[Array, ...] = (),
) -> Kernel:
    """The kernel with the parameters that its body mentions, in the order of the spec; workspace arrays follow the
    spec's arrays."""
    context = request.context
    body = dissolved(tuple(node for _, nodes in parts for node in nodes))
    touched = {array.symbol: array for array in usage.arrays(body)}
    params = {s.name for s in usage.free_symbols(body)}
    params |= {context.symbols[name].name for name in usage.params(body)}
    scalars = usage.scalars(body)
    arguments = [a.name for a in context.arrays.values() if a.symbol in touched and a.space in ("global", "readonly")]
    arguments += [array.name for array in workspace]
    arguments += [s.name for s in context.spec.scalars if s.name in scalars and s.value is None and not s.constant]
    arguments += [p.name for p in context.spec.params if p.is_dynamic and context.symbols[p.name].name in params]
    shared = [array for array in touched.values() if array.space == "shared"]
    return Kernel(
        request.name,
        family,
        (*(a for a in context.arrays.values() if a.symbol in touched), *workspace),
        tuple(arguments),
        tuple(parts),
        grid,
        block,
        tuple(lowering.ranges.items()),
        tuple(statement.text for statement in request.group.statements),
        minimum_blocks,
        _static_shared_bytes([a for a in shared if not a.dynamic], lowering.ranges),
        max((a.dynamic_offset + tile_bytes(a, lowering.ranges) for a in shared if a.dynamic), default=0),
        alignments,
        workspace=workspace,
    )


def _static_shared_bytes(tiles: Sequence[Array], ranges: Ranges) -> int:
    """The bytes of consecutive tiles, each aligned to its requirement."""
    end = 0
    for tile in tiles:
        start = max(tile.align, tile.dtype.bytes)
        end = -(-end // start) * start + tile_bytes(tile, ranges)
    return end


def tile_bytes(array: Array, ranges: Ranges) -> int:
    """The bytes of a tile, including padding."""
    count: Integer = integer(1)
    for extent in array.padded_shape:
        count = count * extent
    return bounds(count, ranges)[1] * array.dtype.bytes
