"""How a product of few rows is spread: columns of a thread or a warp, warps and lanes of a block, parts of the sum."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cugen.families.contraction.skinny.recognition import LEAST, Skinny
from cugen.pieces.vectors import divisor
from cugen.plan.request import Tunable

WARP = 32
_MULTIPROCESSORS = 132  # of a large device
_WARPS = 16  # of each, which keep its memory busy
_RESIDENT = 1024  # threads of each that fit it with all loads of a single row in flight
_LEAST_WARPS = 4  # of a block
_EVEN = 0.8  # of the work of the busiest multiprocessor, which leaves memory busy to the end
_VALUES = 64  # running values of a thread along columns; half of that where whole warps share each
_FLIGHT = 128  # bytes of the matrix that a thread of a single row has in flight
_SEGMENT = 64  # bytes side by side in memory, below which reading is slower
_MANY = 4  # rows from which a block is better wide: more of its columns share what is read of the rows

_SIZES = (1, 2, 4, 8)
COLUMNS = Tunable(
    "columns", _SIZES, "4", "columns of a warp where the sum runs along memory, of a thread where columns do"
)
_LANES = (4, 8, 16, WARP)
LANES = Tunable("lanes", _LANES, "as fill the device", "threads side by side along columns that lie in memory")
WARPS = Tunable("warps", (1, 2, 4, 8, 16, 32), "by rows", "warps of a block: along the columns, or along the sum")
PARTS = Tunable("parts", tuple(range(1, 65)), "as fill the device", "parts of the sum, which a second launch adds up")
TUNABLES = (COLUMNS, LANES, WARPS, PARTS)


@dataclass(frozen=True, slots=True)
class Shape:
    """A warp has `columns` where the sum runs along memory, of which each lane adds up a part; else each of `lanes` has
    so many neighbours, and groups of lanes share out the sum. `width` terms are read at once of a column, or of a row;
    `loads` of the matrix are in flight, for which a multiprocessor needs registers in `resident` blocks, if not 0."""

    columns: int
    warps: int
    width: int
    lanes: int = WARP
    loads: int = 8
    resident: int = 0

    @property
    def groups(self) -> int:
        return self.warps * WARP // self.lanes

    def per_block(self, found: Skinny) -> int:
        return self.columns * (self.warps if found.is_deep else self.lanes)


def choose_shape(found: Skinny) -> Shape:
    asked = dict(found.request.schedule.tunables)
    if found.is_deep:
        columns = int(asked.get("columns", _columns(found)))
        warps = int(asked.get("warps", 16 if found.count > _MANY else 8))
        return Shape(columns, warps, found.width(found.matrix, found.depth))
    widest = found.width(found.matrix, found.many)
    while widest * found.count > _VALUES:
        widest //= 2
    columns = int(asked.get("columns", widest))
    alone = _filling(found, columns)
    if alone is None or asked.get("parts", 1) != 1:
        warps, lanes = int(asked.get("warps", 8)), int(asked.get("lanes", WARP))
        return Shape(columns, warps, min(found.width(found.rows, found.depth), 4), lanes)
    lanes = int(asked.get("lanes", alone))
    loads = min(max(_FLIGHT // (columns * found.array(found.matrix).dtype.bytes), 8), 16)
    width = math.gcd(divisor(found.extent(found.depth), found.request.context), 8)
    threads = _MULTIPROCESSORS * _RESIDENT // _blocks(found, columns * lanes)
    most = min(threads, lanes * found.most(found.depth) // width, found.request.target.threads_per_block)
    warps = max(1 << max(most // WARP, 1).bit_length() - 1, _LEAST_WARPS)
    warps = int(asked.get("warps", warps))
    return Shape(columns, warps, width, lanes, loads, max(_RESIDENT // (warps * WARP), 1))


def _filling(found: Skinny, columns: int) -> int | None:
    """The lanes side by side with which the columns of a single row fill the device, without parts of the sum: as many
    as leave its multiprocessors about equally many blocks."""
    if found.count > 1 or found.request.context.static(found.extent(found.many)) is None:
        return None
    least = _SEGMENT // (columns * found.array(found.matrix).dtype.bytes)
    wide = [lanes for lanes in reversed(_LANES) if lanes >= min(least, WARP)]
    blocks = {lanes: _blocks(found, columns * lanes) for lanes in wide}
    filling = {lanes: _evenness(count) for lanes, count in blocks.items() if 4 * count >= 3 * _MULTIPROCESSORS}
    even = [lanes for lanes, evenness in filling.items() if evenness >= _EVEN]
    return max(even) if even else max(filling, key=filling.__getitem__, default=None)


def _evenness(blocks: int) -> float:
    """The mean of the multiprocessors' blocks over the most that one of them has."""
    return blocks / (-(-blocks // _MULTIPROCESSORS) * _MULTIPROCESSORS)


def _blocks(found: Skinny, span: int) -> int:
    return -(-found.most(found.many) // span) * max(math.prod(found.most(index) for index in found.batch), 1)


def _columns(found: Skinny) -> int:
    columns = 4
    while columns > 1 and columns * found.count > _VALUES // 2:
        columns //= 2
    return columns


def wanted_parts(found: Skinny, shape: Shape) -> int:
    """Parts of the sum that fill the device, of those that divide it into stretches of whole rounds; 1 for none."""
    asked = dict(found.request.schedule.tunables).get("parts")
    depth = found.request.context.static(found.extent(found.depth))
    if depth is None:
        return 1
    blocks = _blocks(found, shape.per_block(found))
    least = _MULTIPROCESSORS * _WARPS
    best = 1
    unit = max(shape.width * (2 * WARP if found.is_deep else 4 * shape.warps), LEAST)
    for parts in PARTS.values:
        number = int(parts)
        if asked is not None:
            if number == int(asked) and depth % number == 0:
                return number
        elif depth % number == 0 and depth // number >= unit and best * blocks * shape.warps < least:
            best = number
    return best
