"""Blocks over an iteration space: which stretch of each index a block of the grid takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy

from cugen.machine import Target
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Define, Index
from cugen.plan.symbols import FloorDiv, Integer, Minimum, Mod, Ranges, bounds, ceil_div, integer, symbol


@dataclass(frozen=True, slots=True)
class Blocks:
    """`coordinates` holds, for each axis, the number of the block along it."""

    grid: tuple[Integer, Integer, Integer]
    coordinates: tuple[Integer, ...]


def make_grid(counts: Sequence[Integer], lowering: Lowering, target: Target) -> Blocks:
    """A block for every combination of numbers below `counts`, the first axis varying fastest.

    The first two axes go to x and y, all others together to z; where y or z are too short for that, all go to x.
    """
    first, second, rest = (*[*counts, integer(1), integer(1)][:2], sympy.Mul(*counts[2:]))
    if any(bounds(count, lowering.ranges)[1] > target.grid_yz for count in (second, rest)):
        total = sympy.Mul(*counts)
        block = _builtin("blockIdx.x", total, target.grid_x, lowering)
        return Blocks((total, integer(1), integer(1)), digits(block, counts))
    coordinates = [_builtin("blockIdx.x", first, target.grid_x, lowering)]
    if len(counts) > 1:
        coordinates.append(_builtin("blockIdx.y", second, target.grid_yz, lowering))
    if len(counts) > 2:
        coordinates += digits(_builtin("blockIdx.z", rest, target.grid_yz, lowering), counts[2:])
    return Blocks((first, second, rest), tuple(coordinates))


def reaching(extent: Integer, span: int, shift: int, ranges: Ranges) -> Integer:
    """How many blocks of `span` cover an extent though each begins up to `shift - 1` before its place; 0 for none."""
    count = ceil_div(extent + (shift - 1), span)
    return count if bounds(extent, ranges)[0] > 0 else Minimum(extent, count)


def thread(axis: str, size: int, lowering: Lowering) -> Integer:
    """The thread's number along an axis of the block."""
    return _builtin(f"threadIdx.{axis}", integer(size), size, lowering) if size > 1 else integer(0)


def define(wish: str, definition: Integer, lowering: Lowering, *, below: Integer | None = None) -> Define:
    """A named index; its values are known from now on, also where only `below` tells how large they get."""
    low, high = bounds(definition, lowering.ranges)
    if below is not None:
        high = min(high, max(bounds(below, lowering.ranges)[1] - 1, low))
    index = Index(lowering.names.allocate(wish), definition, (low, high))
    lowering.ranges[index.symbol] = index.range
    return Define(index)


def limit(index: Index, extent: Integer, lowering: Lowering) -> None:
    """Records that the index is below `extent` from here on."""
    low, high = index.range
    lowering.limits[index.symbol] = extent
    lowering.ranges[index.symbol] = (low, max(low, min(high, bounds(extent, lowering.ranges)[1] - 1)))


def digits(number: Integer, counts: Sequence[Integer]) -> tuple[Integer, ...]:
    """The number written with a digit for each axis, the fastest first."""
    digits = []
    divisor: Integer = integer(1)
    for position, count in enumerate(counts):
        quotient = FloorDiv(number, divisor)
        digits.append(quotient if position == len(counts) - 1 else Mod(quotient, count))
        divisor = divisor * count
    return tuple(digits)


def _builtin(name: str, count: Integer, most: int, lowering: Lowering) -> Integer:
    """A number below `count`, and below the `most` that a launch may have."""
    builtin = symbol(name)
    lowering.ranges[builtin] = (0, max(min(bounds(count, lowering.ranges)[1], most) - 1, 0))
    return builtin
