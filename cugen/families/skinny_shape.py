"""How a product of few rows is spread: columns of a thread or a warp, warps of a block, and parts of the sum."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cugen.families.base import Tunable
from cugen.families.skinny_form import LEAST, Skinny

WARP = 32
_MULTIPROCESSORS = 132  # of a large device
_WARPS = 16  # of each, which keep its memory busy
_VALUES = 64  # running values of a thread along columns; half of that where whole warps share each
_MANY = 4  # rows from which a block is better wide: more of its columns share what is read of the rows

_SIZES = (1, 2, 4, 8)
COLUMNS = Tunable(
    "columns", _SIZES, "4", "columns of a warp where the sum runs along memory, of a thread where columns do"
)
WARPS = Tunable("warps", (1, 2, 4, 8, 16), "by rows", "warps of a block: along the columns, or along the sum")
PARTS = Tunable("parts", tuple(range(1, 65)), "as fill the device", "parts of the sum, which a second launch adds up")
TUNABLES = (COLUMNS, WARPS, PARTS)


@dataclass(frozen=True, slots=True)
class Shape:
    """A warp has `columns` where the sum runs along memory, of which each lane adds up a part; else each lane has so
    many neighbours. `width` terms are read at once of a column, or of a row."""

    columns: int
    warps: int
    width: int

    def per_block(self, found: Skinny) -> int:
        return self.columns * (self.warps if found.is_deep else WARP)


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
    return Shape(columns, int(asked.get("warps", 8)), min(found.width(found.rows, found.depth), 4))


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
    others = math.prod(found.most(index) for index in found.batch)
    blocks = -(-found.most(found.many) // shape.per_block(found)) * max(others, 1)
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
