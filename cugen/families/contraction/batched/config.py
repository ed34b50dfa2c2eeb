"""Sizes of small products: how many a block has, what of each a thread owns, and how their tiles lie."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from cugen.families.contraction.recognition import Contraction, Operand
from cugen.machine.requests.quick_banks import wavefronts
from cugen.pieces.vectors import WIDEST, widest
from cugen.plan.memory import Array
from cugen.plan.request import Tunable
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import bounds
from cugen.spec import expressions as spec
from cugen.spec.expressions import free_indices

WARP = 32
_LARGE = 32  # rows and columns beyond which a thread has more of them
_OWN = 4
_THREADS = 128  # of a block
_BLOCKS = 2 * 132  # that a large device wants at least
_UNROLLED = 32  # steps of the sum that are written out
_WORDS = 32  # of a line of banks

PRODUCTS = Tunable(
    "products", (1, 2, 4, 8, 16, 32, 64, 128), "as fit", "products of a block; by default as many as give 128 threads"
)


@dataclass(frozen=True, slots=True)
class Side:
    """How the rows or the columns of a product lie over its threads: each has `vectors` of `width` neighbours."""

    index: spec.Index
    extent: int
    threads: int
    vectors: int
    width: int

    @property
    def own(self) -> int:
        return self.vectors * self.width

    @property
    def covered(self) -> int:
        """The rows that threads compute, beyond the last where they don't divide."""
        return self.threads * self.own


@dataclass(frozen=True, slots=True)
class Tile:
    """Where an operand's matrices lie: rows `pitch` elements apart, matrices `span`; `copied` elements come from memory
    at once, `read` are read at once. One that doesn't move with the batch is there once."""

    operand: Operand
    outer: Side
    slow: int
    fast: int
    is_deep: bool  # neighbours in memory are neighbours along the summed index
    is_batched: bool
    copied: int
    read: int
    pitch: int
    span: int

    @property
    def height(self) -> int:
        """The tile's rows: some more than the matrix has where threads read there."""
        return self.outer.covered if self.is_deep else self.slow


@dataclass(frozen=True, slots=True)
class Shape:
    """`step` values of the summed index are read at once where memory has them side by side."""

    products: int
    rows: Side
    columns: Side
    depth: int
    step: int
    tiles: tuple[Tile, ...]

    @property
    def team(self) -> int:
        """The threads of a product."""
        return self.rows.threads * self.columns.threads

    @property
    def threads(self) -> int:
        return self.team * self.products

    @property
    def is_unrolled(self) -> bool:
        return self.depth <= _UNROLLED

    def shared_bytes(self, found: Contraction) -> int:
        return sum(
            tile.span * (self.products if tile.is_batched else 1) * _array(found, tile.operand).dtype.bytes
            for tile in self.tiles
        )


def extent_of(found: Contraction, index: spec.Index) -> tuple[int, int]:
    """The least and the greatest extent that an index can have."""
    context = found.request.context
    return bounds(to_integer(index.extent, context.symbols), dict(context.ranges))


def choose_shape(found: Contraction) -> Shape:
    """The schedule's sizes, completed; of the widths that columns may have, the one with the fewest wavefronts."""
    return min(_candidates(found), key=lambda candidate: candidate[0])[1]


def _candidates(found: Contraction) -> Iterator[tuple[int, Shape]]:
    m, n, k = (extent_of(found, index)[1] for index in (found.m, found.n, found.k))
    own = dict(found.request.schedule.thread)
    large = 2 if min(m, n) > _LARGE else 1
    deep = [operand for operand in found.operands if operand.fast == found.k.name]
    step = math.gcd(k, *(WIDEST // _array(found, operand).dtype.bytes for operand in deep)) if deep else 1
    upright = [operand for operand in found.a_operands if operand not in deep]
    row_width = math.gcd(m, *(WIDEST // _array(found, operand).dtype.bytes for operand in upright)) if upright else 1
    rows = _side(found.m, m, own.get(found.m.name, large * _OWN), row_width)
    width = _column_width(found, n, deep)
    while width:
        columns = _side(found.n, n, own.get(found.n.name, _OWN), width)
        team = rows.threads * columns.threads
        products = _products(found, team)
        while True:
            found_tiles = [_tile(found, operand, rows, columns, k, step, products) for operand in found.operands]
            shape = Shape(products, rows, columns, k, step, tuple(tile for _, tile in found_tiles))
            limit = found.request.target.shared_per_block
            if products == 1 or shape.shared_bytes(found) <= limit or _asked(found):
                break
            products //= 2
        stored = columns.vectors * rows.own
        yield sum(cost for cost, _ in found_tiles) + stored, shape
        width //= 2


def _asked(found: Contraction) -> int:
    return int(dict(found.request.schedule.tunables).get("products", 0))


def _products(found: Contraction, team: int) -> int:
    """The products of a block: as many as give it enough threads, as long as there are blocks for the device."""
    if _asked(found):
        return _asked(found)
    counts = [extent_of(found, index)[1] for index in found.batch]
    products = 1
    while 2 * products * team <= _THREADS and 2 * products <= counts[0]:
        products *= 2
    while products > 1 and math.prod(counts) < _BLOCKS * products:
        products //= 2
    return products


def _side(index: spec.Index, extent: int, own: int, width: int) -> Side:
    """The threads along a side where each has about `own` elements."""
    width = min(width, 1 << (own.bit_length() - 1))
    vectors = -(-extent // width)
    threads = -(-vectors // max(own // width, 1))
    return Side(index, extent, threads, -(-vectors // threads), width)


def _column_width(found: Contraction, n: int, deep: list[Operand]) -> int:
    """The most neighbours along the columns that are read and stored at once."""
    request = found.request
    context = request.context
    width = math.gcd(n, WIDEST)
    for operand in found.b_operands:
        if operand not in deep:
            width = min(width, WIDEST // _array(found, operand).dtype.bytes)
    for statement in request.group.statements:
        if context.spec.array(statement.target).role != "temporary" or statement.target in request.stored:
            array = context.arrays[statement.target]
            width = min(width, widest(array, statement.subscripts, found.n.name, context).count)
    return width


def _tile(
    found: Contraction, operand: Operand, rows: Side, columns: Side, k: int, step: int, products: int
) -> tuple[int, Tile]:
    """The operand's tile with the paddings that cost the fewest wavefronts, and how many a warp needs."""
    array = _array(found, operand)
    outer = rows if operand in found.a_operands else columns
    is_deep = operand.fast == found.k.name
    slow, fast = (outer.extent, k) if is_deep else (k, outer.extent)
    read = step if is_deep else outer.width
    copied = _copied(found, operand, fast)
    unit = max(copied, read)
    is_batched = found.batch[0].name in free_indices(operand.read)
    team = rows.threads * columns.threads
    best: tuple[tuple[int, int], Tile] | None = None
    least = -(-(fast if is_deep else outer.covered) // unit) * unit
    for pitch in _spans(least, unit, array):
        height = outer.covered if is_deep else slow
        apart = products > 1 and is_batched and team < WARP
        for span in _spans(height * pitch, unit, array) if apart else (-(-height * pitch // unit) * unit,):
            tile = Tile(operand, outer, slow, fast, is_deep, is_batched, copied, read, pitch, span)
            cost = _reading(tile, array, columns.threads, team, outer is rows) + _filling(tile, array)
            if best is None or (cost, span) < best[0]:
                best = (cost, span), tile
    assert best is not None
    return best[0][0], best[1]


def _copied(found: Contraction, operand: Operand, fast: int) -> int:
    """The elements that one access moves from memory."""
    array = _array(found, operand)
    if array.space == "readonly":
        return 1
    return math.gcd(widest(array, operand.read.subscripts, operand.fast, found.request.context).count, fast)


def _spans(least: int, unit: int, array: Array) -> range:
    """Distances to try: up to a line of banks more than the least."""
    return range(least, least + _WORDS * 4 // array.dtype.bytes + 1, unit)


def _reading(tile: Tile, array: Array, columns: int, team: int, is_left: bool) -> int:
    """The wavefronts of the loads with which one warp walks along the whole sum."""
    places = []
    for lane in range(WARP):
        product, place = divmod(lane, team)
        number = place // columns if is_left else place % columns
        row = number * tile.outer.width * (tile.pitch if tile.is_deep else 1)
        places.append((product * tile.span if tile.is_batched else 0) + row)
    size = array.dtype.bytes
    one = wavefronts([place * size for place in places], tile.read * size, "load")
    depth = tile.fast if tile.is_deep else tile.slow
    return one * (tile.outer.own * (depth // tile.read) if tile.is_deep else tile.outer.vectors * depth)


def _filling(tile: Tile, array: Array) -> int:
    """The wavefronts of the stores of one warp's share, as if it filled the tile of its first product."""
    size, row = array.dtype.bytes, tile.fast // tile.copied
    places = []
    for lane in range(WARP):
        slow, fast = divmod(lane, row)
        product, slow = divmod(slow, tile.slow)
        places.append((product * tile.span + slow * tile.pitch + fast * tile.copied) * size)
    return wavefronts(places, tile.copied * size, "store") * -(-tile.slow * row // WARP)


def _array(found: Contraction, operand: Operand) -> Array:
    return found.request.context.arrays[operand.read.array]
