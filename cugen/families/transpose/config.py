"""Tile sizes, vector widths and the shared-memory layout of a packed-tile transpose."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import sympy

from cugen.machine.requests.banks import BANK_BYTES, BANKS
from cugen.machine.target import STATIC_SHARED_BYTES
from cugen.pieces.structures.recognition import Structure, loaded_structures, stored_structures
from cugen.pieces.structures.runs import Run, fewest_sectors, run_of
from cugen.pieces.vectors import (
    MAX_ACCESS_BYTES,
    SECTOR_BYTES,
    ElementRef,
    have_equal_alignment,
    offset_of,
    step_along,
    widest_at,
)
from cugen.plan.alignment import divisor
from cugen.plan.memory import ADDRESSED, Array, is_row_major
from cugen.plan.request import Request
from cugen.plan.symbols import Integer, integer, symbol
from cugen.spec.expressions import Index, Read

MIN_VECTOR_LANES = 8  # along a row: with 16 bytes each, one 128-byte line
MAX_SCALAR_LANES = 64  # along a row, with one element each (measured on H200)
MIN_SHIFTED_ACROSS = 64  # of a shifted tile (heuristic)
MAX_TILES_BETWEEN = 160  # adjacent parts of input rows, whose sector is still in L2 then (measured on H200)
MIN_TILES = 512  # about four per multiprocessor of a large GPU; with fewer, tiles are smaller (heuristic)

# By bytes per element: tile elements across, tile elements down, threads. Measured on H200.
VECTOR_TILES = {1: (256, 128, 512), 2: (128, 128, 512), 4: (64, 64, 512), 8: (32, 32, 256)}
SCALAR_TILES = {1: (128, 128, 512), 2: (128, 64, 256), 4: (128, 64, 512), 8: (64, 64, 512)}
SHIFTED_TILES = {2: (128, 64, 512), 4: (64, 64, 512), 8: (64, 64, 512)}  # output rows start inside sectors
UNALIGNED_TILES = {2: (128, 120, 512)}  # input rows start inside vectors, too
LINE_BYTES = 128  # a cache line (CUDA programming guide)
MIN_USED_COLUMNS = 0.75  # of the tiles across those rows (heuristic)
SMALL_TILES = {1: (64, 64, 256), 2: (64, 64, 256), 4: (32, 32, 256), 8: (32, 32, 256)}  # below MIN_TILES


@dataclass(frozen=True, slots=True)
class Transpose:
    """A transposition in canonical form: outputs are contiguous along `across`, or have several elements in a sector,
    and the transposed `reads` along `down`.

    `order` holds all indices, those two first."""

    request: Request
    arrays: Mapping[str, Array]
    across: Index
    down: Index
    order: tuple[Index, ...]
    reads: tuple[Read, ...]

    @property
    def is_placed(self) -> bool:
        """Whether the spec places a tile in shared memory."""
        spec = self.request.context.spec
        return any(spec.array(read.array).memory.space == "shared" for read in self.reads)

    @property
    def outputs(self) -> tuple[ElementRef, ...]:
        return tuple((s.target, s.subscripts) for s in self.request.stored_statements())

    @property
    def loaded(self) -> tuple[Structure, ...]:
        """The structures along `down` of which the transposed reads are fields."""
        transposed = {(read.array, read.subscripts) for read in self.reads}
        structures = loaded_structures(self.request, self.arrays, self.down)
        return tuple(structure for structure in structures if structure.fields.keys() <= transposed)

    @property
    def stored(self) -> tuple[Structure, ...]:
        """The structures along `across` of which the outputs are all fields."""
        return stored_structures(self.request, self.arrays, self.across)

    @property
    def has_dense_columns(self) -> bool:
        """Whether the transposed reads are contiguous, and not every few elements."""
        return all(self._is_dense((read.array, read.subscripts), self.down) for read in self.reads)

    @property
    def has_dense_rows(self) -> bool:
        return all(self._is_dense(output, self.across) for output in self.outputs)

    def _is_dense(self, reference: ElementRef, along: Index) -> bool:
        array, subscripts = reference
        return step_along(self.arrays[array], subscripts, along.name, self.request.context) == 1

    def have_equal_alignment(self, first: ElementRef, second: ElementRef, modulus: int) -> bool:
        return have_equal_alignment(self.arrays, self.order, self.request.context, (first, second), modulus)


@dataclass(frozen=True, slots=True)
class RowMapping:
    """Threads along a row in global memory: `lanes` adjacent threads, each with a vector of `width` elements."""

    width: int
    lanes: int

    @property
    def span(self) -> int:
        """Elements of a row that the threads cover at once."""
        return self.width * self.lanes


@dataclass(frozen=True, slots=True)
class TransposeConfig:
    """A packed tile of `across` × `down` elements in shared memory.

    A word packs `pack` consecutive elements of the output. A tile row holds `pitch` words, an odd number of banks, with
    `gap` padding words after every `period`, so that neither the vectors of a row nor those of a column conflict.
    With a `shift`, the first `shift` tile rows overlap the preceding tile: each output row starts at a sector boundary
    within them. With a `lead`, vectors of an input row start up to so many elements before the tile, which has as many
    more columns at both ends. With `down_first` adjacent blocks read adjacent parts of input rows, not write those of
    output rows."""

    across: int
    down: int
    threads: int
    pack: int
    load: RowMapping
    store: RowMapping
    period: int
    gap: int
    pitch: int
    shift: int = 0
    lead: int = 0
    down_first: bool = False

    @property
    def step(self) -> int:
        """The distance to the next tile across, in elements."""
        return self.across - self.shift

    @property
    def rows(self) -> int:
        return self.across // self.pack


def choose_config(transpose: Transpose) -> TransposeConfig:
    """The tile for the widest accesses that alignment allows, or a smaller one if there would be too few tiles."""
    size = max(transpose.arrays[read.array].dtype.bytes for read in transpose.reads)
    vectors = _Vectors.of(transpose)
    shift = _shift(vectors, size) if size in SHIFTED_TILES and transpose.has_dense_rows else 0
    shifted = _fewest_loads(vectors, shift, size) if shift else None
    # A tile of wide elements has few rows for vectors of narrow outputs, which would leave most lanes idle.
    if shifted is not None and 2 * shifted.step >= shifted.store.span:
        config = shifted
    else:
        extent = transpose.request.context.max_extent(transpose.across)
        config = vectors.tile(_fitted(vectors.largest_tile(size), extent), size)
    across, down, *outer = map(transpose.request.context.max_extent, transpose.order)
    tiles = -(-across // config.step) * -(-down // config.down) * math.prod(outer)
    if tiles < MIN_TILES:
        config = vectors.tile(SMALL_TILES[size], size)
    elif shared_bytes(transpose, config) > STATIC_SHARED_BYTES:
        config = _small(vectors, size)
    else:
        config = _with_unaligned_rows(vectors, config, size)
    # Two blocks read the sector between their parts of an input row: the second one finds it in L2 if it runs soon. It
    # does where few tiles across are between, too, whose parts of output rows are then written together.
    reads = ((read.array, read.subscripts) for read in transpose.reads)
    share_sectors = not all(_starts_sectors(transpose, ref, transpose.down) for ref in reads)
    return replace(config, down_first=share_sectors and -(-across // config.step) > MAX_TILES_BETWEEN)


def _starts_sectors(transpose: Transpose, reference: ElementRef, along: Index) -> bool:
    """Whether the rows of an access along an index start at sector boundaries."""
    context, array = transpose.request.context, transpose.arrays[reference[0]]
    start = _offset(transpose, reference).xreplace({_symbol(along): integer(0)})
    return divisor(start.expand(), context) % (SECTOR_BYTES // array.dtype.bytes) == 0


def _offset(transpose: Transpose, reference: ElementRef) -> Integer:
    """Offset of an access in elements, over a symbol for each index."""
    symbols = {index.name: _symbol(index) for index in transpose.order}
    return offset_of(transpose.arrays, reference, {**transpose.request.context.symbols, **symbols}).expand()


def _symbol(index: Index) -> sympy.Symbol:
    return symbol(f"index {index.name}")


def _fewest_loads(vectors: _Vectors, shift: int, size: int) -> TransposeConfig:
    """The shifted tile, or half of it across, whichever loads fewer elements past the ends of rows."""
    transpose, sizes = vectors.transpose, SHIFTED_TILES[size]
    extent = transpose.request.context.max_extent(transpose.across)
    candidates = [sizes] if sizes[0] < 2 * MIN_SHIFTED_ACROSS else [sizes, (sizes[0] // 2, *sizes[1:])]
    tiles = [_shifted(vectors.tile(candidate, size), transpose, shift) for candidate in candidates]
    return min(tiles, key=lambda tile: tile.across * -(-extent // tile.step))


def _small(vectors: _Vectors, size: int) -> TransposeConfig:
    """The small tile, or twice as many columns of input rows that are shorter than a line, where they fit."""
    across, down, threads = SMALL_TILES[size]
    fields = min((structure.size for structure in vectors.loaded), default=1)
    if down * size * fields < LINE_BYTES:
        config = vectors.tile((across, 2 * down, threads), size)
        if shared_bytes(vectors.transpose, config) <= STATIC_SHARED_BYTES:
            return config
    return vectors.tile((across, down, threads), size)


def _with_unaligned_rows(vectors: _Vectors, config: TransposeConfig, size: int) -> TransposeConfig:
    """A tile of which input rows that begin anywhere are loaded by vectors of 16 bytes, if output rows begin at words;
    itself where it has vectors, the arrays are no whole vectors, or rows don't fill tiles in shared memory.

    Where output rows of odd length leave single elements on both sides, bank conflicts cost more than fewer loads gain,
    and where adjacent ones are stored in narrow vectors, these do (measured on H200)."""
    transpose, context = vectors.transpose, vectors.transpose.request.context
    across, down, threads = UNALIGNED_TILES.get(size, (0, 0, 0))
    extent, length = (max(context.max_extent(index), 1) for index in (transpose.across, transpose.down))
    is_filled = down > 0 and length >= MIN_USED_COLUMNS * down * -(-length // down)
    arrays = [transpose.arrays[read.array] for read in transpose.reads]
    is_dense = transpose.has_dense_columns and all(map(_has_vectors, arrays))
    width = MAX_ACCESS_BYTES // size
    if config.pack == 1 or vectors.load > 1 or config.store.width < width or not is_filled or not is_dense:
        return config
    if any(a.dtype.bytes != size or divisor(context.elements_of(a), context) % width for a in arrays):
        return config
    pitch = _odd_banks(down + 2 * width, config.pack * size)
    load = RowMapping(width, MIN_VECTOR_LANES)
    changed = replace(config, down=down, threads=threads, load=load, period=pitch, gap=0, pitch=pitch, lead=width)
    tiles = [replace(changed, across=rows) for rows in (across, across // 2)]
    busy = [tile for tile in tiles if 2 * tile.step >= tile.store.span] or tiles[:1]
    fewest = min(busy, key=lambda tile: tile.across * -(-extent // tile.step))
    return fewest if shared_bytes(transpose, fewest) <= STATIC_SHARED_BYTES else config


def _has_vectors(array: Array) -> bool:
    """Whether an array has no gaps, and vectors may load any of its elements."""
    return array.space in ADDRESSED and array.flat and is_row_major(array.shape, array.strides)


def _fitted(sizes: tuple[int, int, int], extent: int) -> tuple[int, int, int]:
    """The tile, halved across while that covers the extent."""
    across, down, threads = sizes
    while across >= 2 * max(extent, BANKS):
        across //= 2
    return across, down, threads


def _shifted(config: TransposeConfig, transpose: Transpose, shift: int) -> TransposeConfig:
    """The tile with output rows stored from a sector boundary on, in vectors of 16 bytes."""
    width = MAX_ACCESS_BYTES // transpose.arrays[transpose.outputs[0][0]].dtype.bytes
    store = RowMapping(width, MIN_VECTOR_LANES)
    return replace(config, store=store, shift=shift, threads=min(config.threads, MIN_VECTOR_LANES * config.down))


def _shift(vectors: _Vectors, size: int) -> int:
    """Elements per sector, if output rows start inside sectors and all outputs equally so, and tiles don't hold whole
    adjacent rows, of which only the first and the last begin or end there; else 0."""
    transpose = vectors.transpose
    context, outputs = transpose.request.context, transpose.outputs
    array = transpose.arrays[outputs[0][0]]
    sector = SECTOR_BYTES // array.dtype.bytes
    if any(transpose.arrays[target].dtype.bytes != array.dtype.bytes for target, _ in outputs):
        return 0
    if not all(transpose.have_equal_alignment(output, outputs[0], sector) for output in outputs):
        return 0
    across, _, _ = vectors.largest_tile(size)
    if context.max_extent(transpose.across) <= across and _has_adjacent_rows(transpose):
        return 0
    return 0 if _starts_sectors(transpose, outputs[0], transpose.across) else sector


def _has_adjacent_rows(transpose: Transpose) -> bool:
    """Whether the rows of a tile are adjacent in all outputs."""
    extent = transpose.request.context.extent(transpose.across)
    steps = (_offset(transpose, output).coeff(_symbol(transpose.down)) for output in transpose.outputs)
    return all(0 in ((step - extent).expand(), (step + extent).expand()) for step in steps)


def shared_bytes(transpose: Transpose, config: TransposeConfig) -> int:
    elements = config.rows * config.pitch * config.pack
    return sum(elements * transpose.arrays[read.array].dtype.bytes for read in transpose.reads)


def _tile(sizes: tuple[int, int, int], size: int, load: int, store: int) -> TransposeConfig:
    """The tile without bank conflicts for elements of `size` bytes and vectors of `load` and `store` elements.

    Lanes of a warp store the same component of their vectors: `load` words apart in one tile row, then in the rows
    below. They load `store / pack` rows apart in one column, then in the adjacent columns. Both are free of conflicts
    if the vectors of a row span all banks once and the pitch is an odd number of banks. Vectors that would span the
    banks two or four times keep `MIN_VECTOR_LANES` lanes, with a gap of 4 words after each span."""
    across, down, threads = sizes
    pack = math.gcd(max(BANK_BYTES // size, 1), store, across // BANKS)
    word = pack * size
    bank_words = BANKS * BANK_BYTES // word  # words that span the banks once
    down = max(down, bank_words)
    load, store = min(load, down // MIN_VECTOR_LANES), min(store, 4 * pack)
    load_lanes = min(MAX_SCALAR_LANES, down) if load == 1 else min(bank_words // load, BANKS)
    gap = 0
    if load_lanes < MIN_VECTOR_LANES:
        load_lanes, gap = MIN_VECTOR_LANES, 4 * BANK_BYTES // word
    period = bank_words if gap else down
    pitch = down + (down - 1) // period * gap
    pitch = _odd_banks(pitch, word)
    store_lanes = min(MAX_SCALAR_LANES, across) if store == 1 else min(bank_words, BANKS) * pack // store
    threads = min(threads, load_lanes * across // pack, store_lanes * down)
    rows, columns = RowMapping(load, load_lanes), RowMapping(store, store_lanes)
    return TransposeConfig(across, down, threads, pack, rows, columns, period, gap, pitch)


def _odd_banks(words: int, word_bytes: int) -> int:
    """The words of a row of at least so many that spans an odd number of banks."""
    bank_step = max(BANK_BYTES // word_bytes, 1)
    return words + (bank_step if words // bank_step % 2 == 0 else 0)


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Elements of a thread's vectors: `load` along input rows, `store` along output rows. More than one only where
    vectors move all structures of so many elements."""

    transpose: Transpose
    loaded: tuple[Structure, ...]
    stored: tuple[Structure, ...]
    load: int
    store: int

    @staticmethod
    def of(transpose: Transpose) -> _Vectors:
        """The widest that alignment allows for all accesses, or the most useful ones of structures."""
        loaded, stored = transpose.loaded, transpose.stored
        reads = ((read.array, read.subscripts) for read in transpose.reads)
        load = _width(transpose, transpose.down, reads, loaded)
        return _Vectors(transpose, loaded, stored, load, _width(transpose, transpose.across, transpose.outputs, stored))

    @property
    def are_wide(self) -> bool:
        """Whether both sides have vectors."""
        return (self.load > 1 or bool(self.loaded)) and (self.store > 1 or bool(self.stored))

    def largest_tile(self, size: int) -> tuple[int, int, int]:
        """The tile of elements of `size` bytes: elements across and down, and threads."""
        return (VECTOR_TILES if self.are_wide else SCALAR_TILES)[size]

    def tile(self, sizes: tuple[int, int, int], size: int) -> TransposeConfig:
        """A tile of at most these vectors; of single elements where vectors can't move the structures of fewer."""
        config = _tile(sizes, size, self.load, self.store)
        across, down = self.transpose.across, self.transpose.down
        loads = has_runs(self.transpose, self.loaded, down, config.load.width)
        stores = has_runs(self.transpose, self.stored, across, config.store.width)
        if loads and stores:
            return config
        return replace(self, load=self.load if loads else 1, store=self.store if stores else 1).tile(sizes, size)


def _width(
    transpose: Transpose, along: Index, accesses: Iterable[ElementRef], structures: tuple[Structure, ...]
) -> int:
    """The widest vector along an index that alignment allows for all accesses; of structures that with the fewest
    sectors."""
    context = transpose.request.context
    fields = {reference for structure in structures for reference in structure.fields}
    plain = ((array, subs) for array, subs in accesses if (array, subs) not in fields)
    widths = (widest_at(transpose.arrays[array], subs, along.name, context).count for array, subs in plain)
    widest = math.gcd(divisor(context.extent(along), context) or MAX_ACCESS_BYTES, MAX_ACCESS_BYTES, *widths)
    if not structures:
        return widest
    candidates = (1 << power for power in reversed(range(widest.bit_length())))
    movable = [width for width in candidates if has_runs(transpose, structures, along, width)]
    return fewest_sectors(structures, along.name, movable, context)


def has_runs(transpose: Transpose, structures: tuple[Structure, ...], along: Index, width: int) -> bool:
    """Whether vectors move the structures of so many elements, or there is one, which may be moved by fields."""
    return width == 1 or len(runs(transpose, structures, along, width)) == len(structures)


def runs(transpose: Transpose, structures: tuple[Structure, ...], along: Index, width: int) -> tuple[Run, ...]:
    """The structures of so many elements that consecutive vectors can move."""
    movable = (run_of(structure, along.name, width, transpose.request.context) for structure in structures)
    return tuple(run for run in movable if run is not None and (run.is_whole or len(run.used) == 1))
