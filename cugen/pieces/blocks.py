"""Grids over an iteration space: block coordinates, thread coordinates and named indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sympy

from cugen.machine import Target
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Define, Index, Node
from cugen.plan.symbols import FloorDiv, Integer, Minimum, Mod, Range, Ranges, bounds, ceil_div, integer, symbol
from cugen.spec import expressions as spec

MIN_BLOCK_BYTES = 1 << 12  # of a block of short rows: fewer take less time than its start (measured on H200)
MAX_SHORT_ROW_THREADS = 512  # of such a block
MIN_SHORT_ROW_BLOCKS = 1 << 12  # that larger blocks leave (heuristic)


@dataclass(frozen=True, slots=True)
class Blocks:
    """A grid, and the block's coordinate along each axis of the iteration space."""

    grid: tuple[Integer, Integer, Integer]
    coordinates: tuple[Integer, ...]


def make_grid(counts: Sequence[Integer], lowering: Lowering, target: Target) -> Blocks:
    """A grid of `counts` blocks per axis, the first axis fastest.

    The first two axes map to x and y, the others to z; where these exceed limits, all to x, before 3.0 to x and y."""
    first, second, others = (*[*counts, integer(1), integer(1)][:2], sympy.Mul(*counts[2:]))
    exceeded = [bounds(n, lowering.ranges)[1] > top for n, top in zip((second, others), target.grid[1:], strict=True)]
    if any(exceeded) and target.grid_x > target.grid_yz:
        total = sympy.Mul(*counts)
        block = _builtin("blockIdx.x", total, target.grid_x, lowering)
        return Blocks((total, integer(1), integer(1)), digits(block, counts))
    coordinates = [_builtin("blockIdx.x", first, target.grid_x, lowering)]
    if exceeded[1]:
        block = _builtin("blockIdx.y", second * others, target.grid_yz, lowering)
        return Blocks((first, second * others, integer(1)), (coordinates[0], *digits(block, counts[1:])))
    if len(counts) > 1:
        coordinates.append(_builtin("blockIdx.y", second, target.grid_yz, lowering))
    if len(counts) > 2:
        coordinates += digits(_builtin("blockIdx.z", others, target.grid_yz, lowering), counts[2:])
    return Blocks((first, second, others), tuple(coordinates))


def block_of_short_rows(threads: int, per_row: int, row_bytes: int, rows: int) -> int:
    """The threads of a block of short rows with `per_row` threads each: `threads`, or more where its rows have so few
    bytes, loaded and stored, that it would end before another one starts."""
    while (
        threads < MAX_SHORT_ROW_THREADS
        and threads // per_row * row_bytes < MIN_BLOCK_BYTES
        and rows * per_row >= 2 * threads * MIN_SHORT_ROW_BLOCKS
    ):
        threads *= 2
    return threads


def blocks_to_cover(extent: Integer, span: int, shift: int, ranges: Ranges) -> Integer:
    """Blocks of `span` that cover an extent if each starts up to `shift - 1` elements early; 0 for an empty extent."""
    count = ceil_div(extent + (shift - 1), span)
    return count if bounds(extent, ranges)[0] > 0 else Minimum(extent, count)


def thread(axis: str, size: int, lowering: Lowering) -> Integer:
    """The thread's coordinate along an axis of the block."""
    return _builtin(f"threadIdx.{axis}", integer(size), size, lowering) if size > 1 else integer(0)


def define(name_hint: str, definition: Integer, lowering: Lowering, *, below: Integer | None = None) -> Define:
    """Defines a named index and records its range; `below` is a tighter exclusive upper bound, where one is known."""
    low, high = bounds(definition, lowering.ranges)
    if below is not None:
        high = min(high, max(bounds(below, lowering.ranges)[1] - 1, low))
    index = Index(lowering.names.allocate(name_hint), definition, (low, high))
    lowering.ranges[index.symbol] = index.range
    return Define(index)


def append_definition(
    name_hint: str, definition: Integer, nodes: list[Node], lowering: Lowering, within: Range | None = None
) -> Integer:
    """A named index, `within` a range that may be narrower than its definition shows; appends it to `nodes`."""
    node = define(name_hint, definition, lowering)
    index = replace(node.index, range=within or node.index.range)
    lowering.ranges[index.symbol] = index.range
    nodes.append(Define(index))
    return index.symbol


def define_constant(name_hint: str, value: int, lowering: Lowering) -> Define:
    node = define(name_hint, integer(int(value)), lowering)
    return Define(replace(node.index, constant=True))


def define_size(name_hint: str, value: int, indices: Sequence[spec.Index], lowering: Lowering) -> Define:
    """A constant of the kernel; the indices of the spec keep their names."""
    is_index = name_hint in {index.name for index in indices}
    return define_constant(f"{name_hint}_" if is_index else name_hint, value, lowering)


def limit(index: Index, extent: Integer, lowering: Lowering) -> None:
    """Records that the index is below `extent` from here on."""
    low, high = index.range
    lowering.limits[index.symbol] = extent
    lowering.ranges[index.symbol] = (low, max(low, min(high, bounds(extent, lowering.ranges)[1] - 1)))


def define_index(
    name: str, value: Integer, extent: Integer, lowering: Lowering, *, below: Integer | None = None, name_hint: str = ""
) -> Define:
    """Defines an index of the statements, which is below its `extent` from here on."""
    node = define(name_hint or name, value, lowering, below=below)
    lowering.symbols[name] = node.index.symbol
    limit(node.index, extent, lowering)
    return node


def define_indices(
    indices: Sequence[spec.Index], extents: Sequence[Integer], coordinates: Sequence[Integer], lowering: Lowering
) -> list[Node]:
    """Defines indices, the fastest given first, by coordinates below their extents. The slowest is defined first."""
    nodes: list[Node] = []
    for index, extent, coordinate in zip(indices, extents, coordinates, strict=True):
        nodes.insert(0, define_index(index.name, coordinate, extent, lowering, below=extent))
    return nodes


def power_of_two(count: int) -> int:
    """The smallest power of two that is at least `count`."""
    return 1 << max(count - 1, 0).bit_length()


def digits(number: Integer, counts: Sequence[Integer]) -> tuple[Integer, ...]:
    """Unflattens a linear index into coordinates, the fastest axis first."""
    coordinates = []
    divisor: Integer = integer(1)
    for position, count in enumerate(counts):
        quotient = FloorDiv(number, divisor)
        coordinates.append(quotient if position == len(counts) - 1 else Mod(quotient, count))
        divisor = divisor * count
    return tuple(coordinates)


def _builtin(name: str, count: Integer, maximum: int, lowering: Lowering) -> Integer:
    """A built-in variable below `count` and below the launch limit `maximum`."""
    builtin = symbol(name)
    lowering.ranges[builtin] = (0, max(min(bounds(count, lowering.ranges)[1], maximum) - 1, 0))
    return builtin
