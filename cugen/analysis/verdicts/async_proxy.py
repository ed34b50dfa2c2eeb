"""Cost of what TMA and wgmma access: boxes of arrays in global memory, tiles in shared memory, and operands.

Of shared memory the cost follows from alignments, which are proved here: TMA moves a box to or from consecutive bytes,
and wgmma reads the matrices of a swizzled tile without bank conflicts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product

import sympy

from cugen.analysis.totals.boxes import Boxes, boxes
from cugen.analysis.totals.budget import Budget, Unknown
from cugen.analysis.totals.exact import WARP_SIZE, Cost, Pattern, Totals
from cugen.analysis.totals.executions import ExecutionCounts
from cugen.analysis.totals.sites import THREAD, Site
from cugen.machine.requests.boxes import LINE_BYTES, PARTS_OF_SECTORS, BoxExtents, Extent, box_bytes, box_sectors
from cugen.machine.requests.warp import SECTOR_BYTES
from cugen.machine.wgmma import (
    K_BYTES,
    SWIZZLE_PERIOD_BYTES,
    SWIZZLE_PERIOD_ROWS,
    SWIZZLED_ROW_BYTES,
    WARPGROUP,
    WARPS_OF_WARPGROUP,
    WGMMA_M,
    operand_wavefronts,
)
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Array
from cugen.plan.pipeline_nodes import TensorLoad, TensorStore, Wgmma
from cugen.plan.symbols import Integer, Mod, bounds

_UNPROVED = "the bank conflicts of this operand aren't modelled"
_NO_MULTIPLES: Mapping[sympy.Symbol, int] = {}


def is_synchronisation(site: Site) -> bool:
    """Whether an access is of an mbarrier, at one address per warp: it has no bank conflicts."""
    return site.access.kind == "barrier" and not site.offset.free_symbols & set(THREAD)


def instruction_totals(
    kernel: Kernel, site: Site, start: int = 0, budget: Budget | None = None
) -> tuple[Totals, tuple[str, ...]]:
    """Totals of an access of TMA, or of an operand of wgmma, over the launch, with the assumptions made. A warpgroup's
    instruction is one request. Unknown if they can't be computed.

    start: first byte of the array in global memory, modulo 256."""
    if site.access.array.space != "tensor":
        count = executions(kernel, site, budget)
        return _of_patterns([(_shared_cost(site), count)]), ()
    launch = boxes_of(kernel, site, start, budget)
    return _of_patterns([(_box_cost(each.extents), each.count) for each in launch]), _assumptions(launch)


def any_size(site: Site, multiples: Mapping[sympy.Symbol, int], start: int = 0) -> tuple[Totals, tuple[str, ...]]:
    """One execution with the worst alignment that sizes allow, which are known as multiples of numbers only."""
    if site.opaque:
        raise Unknown(site.opaque)
    if site.access.array.space != "tensor":
        return _of_patterns([(_shared_cost(site, multiples), 1)]), ()
    worst = max(_alignments(site, multiples, start), key=lambda each: box_sectors(each.extents)[0])
    return _of_patterns([(_box_cost(worst.extents), 1)]), _assumptions((worst,))


def boxes_of(kernel: Kernel, site: Site, start: int = 0, budget: Budget | None = None) -> tuple[Boxes, ...]:
    """The boxes of an array with a tensor map that a launch copies. Raises Unknown as `boxes` does."""
    return boxes(site, site.access, kernel.block, start, budget)


def executions(kernel: Kernel, site: Site, budget: Budget | None = None) -> int:
    """Executions of the instruction over the launch, by one thread or by a warpgroup."""
    if not isinstance(site.instruction, Wgmma):
        return sum(each.count for each in boxes(site, mapped(site), kernel.block, 0, budget))
    if site.opaque:
        raise Unknown(site.opaque)
    count = ExecutionCounts(kernel.block).of(site)
    if count.lanes % WARPGROUP or count.warps * WARP_SIZE != count.lanes:
        raise Unknown("its warps aren't whole warpgroups")
    return count.warps // WARPS_OF_WARPGROUP


def mapped(site: Site) -> Access:
    """The access of a copy's array with a tensor map."""
    match site.instruction:
        case TensorLoad(source=access) | TensorStore(target=access):
            return access
    raise TypeError(f"no copy: {site.instruction}")


def blocks_of(site: Site) -> int:
    """Blocks whose shared memory a copy accesses: those of a multicast, or one."""
    return site.instruction.blocks if isinstance(site.instruction, TensorLoad) else 1


def cause(site: Site) -> str:
    """What is accessed, as a clause of a claim."""
    if isinstance(site.instruction, Wgmma):
        return "swizzled rows of 128 bytes"
    rows, row_bytes = _box_of(mapped(site).array)
    return f"{rows} x {row_bytes} bytes" if site.access.array.space == "tensor" else "consecutive bytes"


def reason(site: Site, totals: Totals) -> str:
    """Derivation of the cost of one request."""
    worst = totals.worst_pattern
    if worst is None:
        return "the launch never executes it"
    _, wavefronts, _, sectors, ideal = worst.cost
    if isinstance(site.instruction, Wgmma):
        rows = _rows(site, site.instruction)
        return (
            f"{rows} rows or columns of {K_BYTES} bytes, which wgmma reads {LINE_BYTES} bytes at a time, one word of "
            f"each bank: {wavefronts} wavefronts. The tile begins at a multiple of {SWIZZLE_PERIOD_BYTES:,} bytes and "
            f"has swizzled rows of {SWIZZLED_ROW_BYTES} bytes, the matrix begins at a multiple of 8 rows"
        )
    rows, row_bytes = _box_of(mapped(site).array)
    if site.access.array.space != "tensor":
        blocks = blocks_of(site)
        where = f" in each of {blocks} blocks of the cluster" if blocks > 1 else ""
        return (
            f"TMA moves a box of {rows} x {row_bytes} bytes to or from consecutive bytes{where}, each word once: "
            f"{wavefronts} times {LINE_BYTES} bytes, one word of each bank"
        )
    begin = (
        "at sector boundaries" if sectors == ideal else f"between sector boundaries: {sectors} sectors, ideal {ideal}"
    )
    return (
        f"a box has {rows} rows of {row_bytes} bytes, which begin and end {begin}; parts outside the array aren't moved"
    )


def divisor_of(expr: Integer, multiples: Mapping[sympy.Symbol, int] = _NO_MULTIPLES) -> int:
    """A number that divides all values of an expression, by the coefficients of its terms and the numbers of which its
    symbols are `multiples`; 0 for 0."""
    divisors = []
    for term in sympy.Add.make_args(sympy.expand(expr)):
        coefficient, factor = term.as_coeff_Mul()
        factors = (_divisor_of_factor(part, multiples) for part in sympy.Mul.make_args(factor))
        divisors.append(abs(int(coefficient)) * math.prod(factors))
    return math.gcd(*divisors)


def _divisor_of_factor(factor: Integer, multiples: Mapping[sympy.Symbol, int]) -> int:
    if isinstance(factor, Mod):
        return math.gcd(*(divisor_of(arg, multiples) for arg in factor.args))
    return multiples.get(factor, 1)


def _of_patterns(costs: list[tuple[Cost, int]]) -> Totals:
    totals = Totals()
    for cost, count in costs:
        requests, wavefronts, ideal, sectors, ideal_sectors = cost
        totals.warps += count
        totals.lanes += count
        totals.requests += count * requests
        totals.wavefronts += count * wavefronts
        totals.ideal_wavefronts += count * ideal
        totals.sectors += count * sectors
        totals.ideal_sectors += count * ideal_sectors
        if count:
            totals.patterns.append(Pattern((0, *[None] * (WARP_SIZE - 1)), cost, 0, count))
    return totals


# Global memory


def _box_cost(extents: BoxExtents) -> Cost:
    sectors, ideal = box_sectors(extents)
    return 1, 0, 0, sectors, ideal


def _assumptions(launch: tuple[Boxes, ...]) -> tuple[str, ...]:
    """None where all rows are whole sectors."""
    whole = all(box_sectors(each.extents)[0] * SECTOR_BYTES == box_bytes(each.extents) for each in launch)
    return () if whole else (PARTS_OF_SECTORS,)


def _alignments(site: Site, multiples: Mapping[sympy.Symbol, int], start: int) -> Iterator[Boxes]:
    """Boxes with each distance of rows and each first byte the sizes allow, modulo a sector. They are whole, unless
    the array is known to be smaller."""
    array, size = site.access.array, site.access.array.dtype.bytes
    assert array.tensor_map is not None
    known = (extent.xreplace(site.definitions) for extent in array.shape)
    counts = [min(n, int(e)) if e.is_Integer else n for n, e in zip(array.tensor_map.box, known, strict=True)]
    if array.tensor_map.pixels is not None:
        counts[:-1] = array.tensor_map.box[:-1]  # pixels of several rows and images
    strides = [stride.xreplace(site.definitions) for stride in array.strides[:-1]]
    inner = site.access.subscripts[-1].xreplace(site.definitions)
    if array.tensor_map.pixels is not None and any(divisor_of(s, multiples) * size % SECTOR_BYTES for s in strides):
        raise Unknown("how many pixels of a box begin between sector boundaries isn't counted for every size")
    steps = [
        {int(stride) * size % SECTOR_BYTES}
        if stride.is_Integer
        else _multiples_of(divisor_of(stride, multiples) * size)
        for stride in strides
    ]
    starts = _multiples_of(math.gcd(divisor_of(inner, multiples) * size, start, *(s for each in steps for s in each)))
    for first, *distances in product(starts, *steps):
        outer = [Extent(0, count, step) for count, step in zip(counts[:-1], distances, strict=True)]
        yield Boxes((*outer, Extent(first, counts[-1], size)), 1)


def _multiples_of(number: int) -> set[int]:
    """The multiples of a number, modulo a sector."""
    return set(range(0, SECTOR_BYTES, math.gcd(number, SECTOR_BYTES)))


def _box_of(array: Array) -> tuple[int, int]:
    """(rows, bytes of a row) of a box."""
    assert array.tensor_map is not None
    *outer, inner = array.tensor_map.box
    return math.prod(outer), inner * array.dtype.bytes


# Shared memory


def _shared_cost(site: Site, multiples: Mapping[sympy.Symbol, int] = _NO_MULTIPLES) -> Cost:
    if isinstance(site.instruction, Wgmma):
        _check_operand(site, site.instruction, multiples)
        wavefronts = operand_wavefronts(_rows(site, site.instruction))
    else:
        rows, row_bytes = _box_of(mapped(site).array)
        _check_tile(site, multiples)
        wavefronts = rows * row_bytes // LINE_BYTES * blocks_of(site)
    return 1, wavefronts, wavefronts, 0, 0


def _rows(site: Site, instruction: Wgmma) -> int:
    """Rows of A or columns of B."""
    return WGMMA_M if site.access is instruction.a else instruction.n


def _check_tile(site: Site, multiples: Mapping[sympy.Symbol, int]) -> None:
    """Raises Unknown unless a box of whole lines begins at a line, and at a multiple of the swizzle's period."""
    tensor_map = mapped(site).array.tensor_map
    assert tensor_map is not None
    rows, row_bytes = _box_of(mapped(site).array)
    period = max(SWIZZLE_PERIOD_ROWS * tensor_map.swizzle_bytes, LINE_BYTES)
    array = site.access.array
    offset = site.offset * array.dtype.bytes + array.dynamic_offset
    if not array.dynamic or divisor_of(offset, multiples) % period or rows * row_bytes % LINE_BYTES:
        raise Unknown(f"the tile isn't proved to begin at a multiple of {period:,} bytes")


def _check_operand(site: Site, instruction: Wgmma, multiples: Mapping[sympy.Symbol, int]) -> None:
    """Raises Unknown unless the operand is in a canonical layout: swizzled rows of 128 bytes from a multiple of 1,024
    bytes on."""
    array, size = site.access.array, site.access.array.dtype.bytes
    block_bytes = instruction.a_block_bytes if site.access is instruction.a else instruction.b_block_bytes
    subscripts = [sub.xreplace(site.definitions) for sub in site.access.subscripts]
    steps = [int(stride.xreplace(site.definitions)) * size for stride in array.strides]
    *outer, row, column = (divisor_of(sub, multiples) * step for sub, step in zip(subscripts, steps, strict=True))
    is_swizzled = array.dynamic and array.dynamic_offset % SWIZZLE_PERIOD_BYTES == 0
    is_swizzled = is_swizzled and steps[-2] == SWIZZLED_ROW_BYTES and int(array.pad) == 0
    begins = math.gcd(*outer, row) % SWIZZLE_PERIOD_BYTES == 0
    if block_bytes:
        # Along k the rows of a block, along the other dimension blocks.
        fits = steps[-3] == block_bytes and block_bytes % SWIZZLE_PERIOD_BYTES == 0 and subscripts[-1] == 0
    else:
        # Part of a row: the swizzle permutes chunks of whole rows.
        last = bounds(subscripts[-1], {counter.symbol: (0, counter.count - 1) for counter in site.counters})[1] * size
        fits = column % K_BYTES == 0 and last + K_BYTES <= SWIZZLED_ROW_BYTES
    if not (is_swizzled and begins and fits):
        raise Unknown(_UNPROVED)
