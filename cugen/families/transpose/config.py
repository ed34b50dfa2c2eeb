"""How a transposing kernel cuts its work into tiles, and its tiles into vectors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cugen.pieces.vectors import SECTOR, WIDEST, Place, divisor, run_alike, widest
from cugen.plan.memory import Array
from cugen.plan.request import Request
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import bounds
from cugen.spec import expressions as spec
from cugen.spec.expressions import IndexValue, Read

STATIC = 48 * 1024  # bytes of shared memory that a block has without asking
_WORD = 4  # bytes of a bank
_LANES = 32
_RUN = 8  # vectors side by side, 128 bytes where they are as wide as can be
_ROW = 64  # elements side by side, where they come one by one
_MANY = 512  # tiles that keep a large device busy

# Elements across, elements down, threads: what an H200 likes best, by the bytes of an element; the shares are of a
# copy's speed at 32768 x 32768.
_VECTORS = {1: (256, 128, 512), 2: (128, 128, 512), 4: (64, 64, 512), 8: (32, 32, 256)}  # 0.93, 0.95, 0.95, 0.95
_ELEMENTS = {1: (128, 128, 512), 2: (128, 64, 256), 4: (128, 64, 512), 8: (64, 64, 512)}
_SHIFTED = {2: (128, 64, 512), 4: (64, 64, 512), 8: (64, 64, 512)}  # where rows of the output begin anywhere
_FEW = {1: (64, 64, 256), 2: (64, 64, 256), 4: (32, 32, 256), 8: (32, 32, 256)}  # where larger tiles would be too few


@dataclass(frozen=True, slots=True)
class Turn:
    """`across` is the index along the output's rows, `down` the one along the rows of the reads that are turned;
    `order` has both in front. The request's statements and the arrays are in their canonical form."""

    request: Request
    arrays: Mapping[str, Array]
    across: spec.Index
    down: spec.Index
    order: tuple[spec.Index, ...]
    reads: tuple[Read, ...]

    def run_alike(self, one: Place, other: Place, modulus: int) -> bool:
        return run_alike(self.arrays, self.order, self.request.context, (one, other), modulus)

    def stored(self) -> tuple[str, ...]:
        """The arrays that are written to memory."""
        context, names = self.request.context, {s.target: None for s in self.request.group.statements}
        kept = {array.name for array in context.spec.arrays if array.role == "temporary"} - set(self.request.stored)
        return tuple(name for name in names if name not in kept)


@dataclass(frozen=True, slots=True)
class Side:
    """How threads lie along the rows that they read or write: `lanes` side by side, each with `width` neighbours."""

    width: int
    lanes: int

    @property
    def run(self) -> int:
        return self.width * self.lanes


@dataclass(frozen=True, slots=True)
class Brick:
    """A tile of `across` x `down` elements in shared memory.

    What lies side by side in a row of it are words of `pack` elements, neighbours in the output. After every `period`
    of them come `gap` unused ones, and a row is an odd number of banks long, so that neither the vectors of a row nor
    those of a column meet in a bank. With a `shift`, so many rows of the tile belong to the tile before: each row of
    the output begins in one of them, where a sector of memory begins."""

    across: int
    down: int
    threads: int
    pack: int
    load: Side
    store: Side
    period: int
    gap: int
    columns: int  # words in a row
    shift: int = 0

    @property
    def own(self) -> int:
        """How far it is to the next tile across."""
        return self.across - self.shift

    @property
    def rows(self) -> int:
        return self.across // self.pack

    @property
    def elements(self) -> int:
        return self.rows * self.columns * self.pack


def choose_brick(turn: Turn) -> Brick:
    """The tile for the widest accesses that alignment proves, smaller where that leaves too few tiles."""
    size = max(turn.arrays[read.array].dtype.bytes for read in turn.reads)
    load, store = _load_width(turn), _store_width(turn)
    shift = _shift(turn) if size in _SHIFTED else 0
    shifted = _shifted(_brick(_SHIFTED[size], size, load, store), turn, shift) if shift else None
    # A tile of wide elements has few rows for vectors of narrow ones: most lanes would have none.
    if shifted is not None and 2 * shifted.own >= shifted.store.run:
        brick = shifted
    else:
        brick = _brick((_VECTORS if load > 1 and store > 1 else _ELEMENTS)[size], size, load, store)
    if _tiles(turn, brick) < _MANY or shared_bytes(turn, brick) > STATIC:
        brick = _brick(_FEW[size], size, load, store)
    return brick


def _shifted(brick: Brick, turn: Turn, shift: int) -> Brick:
    """The tile for rows that are written from where a sector begins, 16 bytes at once."""
    width = WIDEST // turn.arrays[turn.stored()[0]].dtype.bytes
    return replace(brick, store=Side(width, _RUN), shift=shift, threads=min(brick.threads, _RUN * brick.down))


def _shift(turn: Turn) -> int:
    """The elements of a sector, where rows of the outputs begin inside of sectors, all of them alike; else 0."""
    context = turn.request.context
    stored = [s for s in turn.request.group.statements if s.target in turn.stored()]
    first = stored[0]
    sector = SECTOR // turn.arrays[first.target].dtype.bytes
    if any(turn.arrays[s.target].dtype.bytes != turn.arrays[first.target].dtype.bytes for s in stored):
        return 0
    if not all(turn.run_alike((s.target, s.subscripts), (first.target, first.subscripts), sector) for s in stored):
        return 0
    strides = turn.arrays[first.target].strides
    rest = [
        stride for sub, stride in zip(first.subscripts, strides, strict=True) if sub != IndexValue(turn.across.name)
    ]
    return 0 if all(divisor(stride, context) % sector == 0 for stride in rest) else sector


def shared_bytes(turn: Turn, brick: Brick) -> int:
    return sum(brick.elements * turn.arrays[read.array].dtype.bytes for read in turn.reads)


def _brick(sizes: tuple[int, int, int], size: int, load: int, store: int) -> Brick:
    """The tile without bank conflicts.

    Threads of a warp write the same word of their vectors: `load` words apart in one row, and again in the rows below.
    They read the same word of theirs: `store / pack` rows apart in one column, and again in the columns beside it. Both
    hit all banks where vectors side by side fill the banks once, and rows are an odd number of words; vectors that
    would fill them twice or four times stand side by side all the same, with a gap of 4 words after each filling."""
    across, down, threads = sizes
    pack = math.gcd(max(_WORD // size, 1), store, across // _LANES)
    word = pack * size
    filling = _LANES * _WORD // word  # words of the tile that lie in different banks, or share one
    down = max(down, filling)
    load, store = min(load, down // _RUN), min(store, 4 * pack)
    beside = min(_ROW, down) if load == 1 else min(filling // load, _LANES)
    gap = 0
    if beside < _RUN:
        beside, gap = _RUN, 4 * _WORD // word
    period = filling if gap else down
    columns = down + (down - 1) // period * gap
    odd = max(_WORD // word, 1)
    columns += odd if columns // odd % 2 == 0 else 0
    behind = min(_ROW, across) if store == 1 else min(filling, _LANES) * pack // store
    threads = min(threads, beside * across // pack, behind * down)
    return Brick(across, down, threads, pack, Side(load, beside), Side(store, behind), period, gap, columns)


def _load_width(turn: Turn) -> int:
    """Neighbours that one access reads of every input that is turned."""
    context = turn.request.context
    found = divisor(to_integer(turn.down.extent, context.symbols), context) or WIDEST
    for read in turn.reads:
        found = math.gcd(found, widest(turn.arrays[read.array], read.subscripts, turn.down.name, context).count)
    return found


def _store_width(turn: Turn) -> int:
    """Neighbours that one access writes of every output."""
    context, stored = turn.request.context, turn.stored()
    found = divisor(to_integer(turn.across.extent, context.symbols), context) or WIDEST
    for statement in turn.request.group.statements:
        if statement.target in stored:
            array = turn.arrays[statement.target]
            found = math.gcd(found, widest(array, statement.subscripts, turn.across.name, context).count)
    return found


def _tiles(turn: Turn, brick: Brick) -> int:
    """How many tiles there are, at the largest extents."""
    context = turn.request.context
    counts = [bounds(to_integer(index.extent, context.symbols), context.ranges)[1] for index in turn.order]
    return -(-counts[0] // brick.own) * -(-counts[1] // brick.down) * math.prod(counts[2:])
