"""Sectors that a warp requests for the reads of an expression, if its lanes evaluate it for consecutive indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from cugen.machine.requests.warp import SECTOR_BYTES, WARP_SIZE
from cugen.plan.context import Context
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import bounds, integer, symbol
from cugen.spec.expressions import Expr, Index, Read, free_indices, walk


def requested_sectors(value: Expr, indices: Sequence[Index], context: Context) -> int:
    """Sectors of a warp that evaluates `value` for the first points of `indices`, the last of which is the fastest; all
    others are 0. A read whose address is unknown has a sector for each lane."""
    lanes = tuple(_lanes(indices, context))
    reads = dict.fromkeys(node for node in walk(value) if isinstance(node, Read))
    return sum(_sectors(read, lanes, context) for read in reads)


def _lanes(indices: Sequence[Index], context: Context) -> Iterator[dict[str, int]]:
    """The values of the indices in each lane."""
    extents = {index.name: context.max_extent(index) for index in reversed(indices)}
    for lane in range(min(WARP_SIZE, prod(extents.values()))):
        values, slower = dict[str, int](), lane
        for name, extent in extents.items():
            slower, values[name] = divmod(slower, extent)
        yield values


def _sectors(read: Read, lanes: Sequence[dict[str, int]], context: Context) -> int:
    array, names = context.arrays[read.array], frozenset[str]().union(*map(free_indices, read.subscripts))
    symbols = {**context.symbols, **{name: symbol(name) for name in names}}
    try:
        subscripts = [to_integer(sub, symbols) for sub in read.subscripts]
    except NotAnInteger:
        return len(lanes)
    address = sum((sub * stride for sub, stride in zip(subscripts, array.strides, strict=True)), integer(0))
    elements = set[int]()
    for values in lanes:
        ranges = {symbol(name): (values.get(name, 0),) * 2 for name in names}
        low, high = bounds(address, {**context.ranges, **ranges})
        if low != high:
            return len(lanes)
        elements.add(low)
    return len({element * array.dtype.bytes // SECTOR_BYTES for element in elements})
