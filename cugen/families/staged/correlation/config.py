"""Launch configurations of correlations: outputs and terms of a register window, and the tiles that it slides along."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cugen.families.staged.config import StagedConfig, shared_bytes
from cugen.families.staged.correlation.cost_model import cycles, term_operations, words_of
from cugen.families.staged.correlation.recognition import Correlation, SlidingRead, linear_factors
from cugen.families.staged.correlation.tile import Windows, row_padding, sliding_side, windows_of
from cugen.families.staged.thread_tile import MAX_SHARED_BYTES
from cugen.families.staged.tile import Tile, find_tiles
from cugen.families.staged.tile_walk import MAX_PLAIN_TERMS
from cugen.families.staged.walk import Walk
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.blocks import power_of_two
from cugen.pieces.elementwise import IN_MEMORY
from cugen.pieces.grid import MAX_BLOCK_Z
from cugen.pieces.vectors import MAX_ACCESS_BYTES
from cugen.plan.request import Refusal, Request
from cugen.spec import expressions as spec
from cugen.spec.expressions import free_indices

OUTPUTS = (16, 8, 4, 2, 1)  # per thread
MAX_TAPS = 64  # terms of a window (heuristic)
MIN_TAPS = 8  # of windows that slide: fewer load most elements again (heuristic)
MAX_UNROLLED = 1024  # multiply-adds: more exceed the instruction caches (heuristic)
MAX_REGISTERS = 128  # of windows and accumulators; others hold addresses (heuristic)
MAX_THREADS = 256  # of a block
ROW_THREADS = 128  # of a block along rows, where that has no other rows (heuristic)


@dataclass(frozen=True, slots=True)
class CorrelationConfig:
    """The staged config, whose threads have consecutive outputs, and the terms of a window.

    `dimensions`: of the arrays with windows, that along which they slide, in tiles whose rows are split into
    `thread_stride` elements."""

    staged: StagedConfig
    taps: int
    windows: tuple[Windows, ...]
    dimensions: Mapping[str, int]

    @property
    def outputs(self) -> int:
        """The outputs of a thread along rows."""
        return self.staged.outputs.get(self.staged.order[0].name, 1)

    @property
    def walk(self) -> Walk:
        assert self.staged.walk is not None
        return self.staged.walk

    def slides_along(self, tile: Tile) -> bool:
        """Whether windows slide along a tile."""
        return any(read.read in tile.reads for window in self.windows for read in window.reads)

    def thread_stride(self, array: str) -> int:
        """Elements between the windows of adjacent threads."""
        return self.outputs * next(w.first.scale for w in self.windows if w.array == array)


def choose_configs(
    request: Request, correlation: Correlation, order: tuple[spec.Index, ...]
) -> tuple[CorrelationConfig, ...] | Refusal:
    """The configs that fit, those with the fewest cycles by a model first, or why there are none."""
    configs: list[tuple[float, CorrelationConfig]] = []
    reason = Refusal("its windows don't fit registers")
    for outputs, taps in _window_sizes(request, correlation):
        threads = threads_of(request, correlation, order, outputs)
        for slices in _slices(request, correlation, threads, taps):
            config = _config(request, correlation, order, (outputs, taps), threads, slices)
            if isinstance(config, Refusal):
                reason = config
                continue
            configs.append((cycles(request, correlation, config), config))
    return tuple(config for _, config in sorted(configs, key=lambda pair: pair[0])) or reason


def _window_sizes(request: Request, correlation: Correlation) -> Iterator[tuple[int, int]]:
    """Outputs of a thread and terms of a window whose elements fit registers."""
    extent = request.context.max_extent(correlation.term)
    operations = term_operations(request, correlation)
    for outputs in OUTPUTS:
        strides = ((outputs * read.scale, read.step) for read in correlation.reads)
        period = math.lcm(*(stride // math.gcd(stride, step) for stride, step in strides))
        doubled = (period << n for n in range(MAX_TAPS.bit_length()))
        sizes = {taps for taps in doubled if MIN_TAPS <= taps <= min(MAX_TAPS, extent - 1)}
        sizes |= {extent} if extent <= MAX_TAPS else set()
        for taps in sorted(sizes):
            windows = windows_of(correlation.reads, outputs, taps)
            words = sum(window.count * words_of(window.first.read.dtype.compute) for window in windows)
            words += outputs * sum(2 * words_of(reduction.dtype) for reduction in correlation.reductions)
            if words <= MAX_REGISTERS and outputs * taps * operations <= MAX_UNROLLED:
                yield outputs, taps


def _config(
    request: Request,
    correlation: Correlation,
    order: tuple[spec.Index, ...],
    window: tuple[int, int],
    threads: Mapping[str, int],
    slices: int,
) -> CorrelationConfig | Refusal:
    """The config with the longest tiles that fit; `window`: its outputs and its terms."""
    outputs, taps = window
    windows = windows_of(correlation.reads, outputs, taps)
    dimensions = {window.array: window.first.dimension for window in windows}
    scales = {window.array: window.first.scale for window in windows}
    if any((w.first.dimension, w.first.scale) != (dimensions[w.array], scales[w.array]) for w in windows):
        return Refusal("takes arrays whose windows slide along one dimension, at one distance")
    staged = StagedConfig(order, threads, {correlation.along: outputs}, (), slices=slices, is_consecutive=True)
    base = CorrelationConfig(staged, taps, windows, dimensions)
    limit = min(MAX_SHARED_BYTES * max(math.prod(staged.block) // 256, 1), request.target.shared_per_block)
    reason = Refusal("has no tile that fits")
    for walk in _walks(request, correlation, taps, slices):
        config = replace(base, staged=replace(staged, walk=walk))
        tiles = _tiles(request, correlation, config)
        if isinstance(tiles, Refusal):
            return tiles
        config = replace(config, staged=replace(config.staged, tiles=tiles))
        if _shared_bytes(request, config) <= limit:
            return config
    return reason


def threads_of(
    request: Request, correlation: Correlation, order: tuple[spec.Index, ...], outputs: int
) -> dict[str, int]:
    """Threads along the rows, and of windows of several rows along these."""
    extents = list(map(request.context.planned_extent, order))
    columns = power_of_two(-(-extents[0] // outputs))
    if len(order) == 1 or not any(_overlaps(request, correlation, read, order[1].name) for read in correlation.reads):
        return {order[0].name: min(columns, ROW_THREADS)}
    columns = min(columns, WARP_SIZE)
    return {order[0].name: columns, order[1].name: min(MAX_THREADS // columns, power_of_two(extents[1]))}


def _overlaps(request: Request, correlation: Correlation, read: SlidingRead, index: str) -> bool:
    """Whether windows of adjacent values of an index of the output share rows."""
    if any(name == index for name, _ in read.origin):
        return False
    for sub in read.others:
        factors = linear_factors(sub, request.context)
        if factors is not None and index in factors:
            extents = {term.name: request.context.planned_extent(term) for term in correlation.indices}
            span = sum(abs(factor) * (extents[name] - 1) for name, factor in factors.items() if name in extents)
            return span >= abs(factors[index])
    return False


def _slices(request: Request, correlation: Correlation, threads: Mapping[str, int], taps: int) -> Iterator[int]:
    """Numbers of slices of a block: rows of threads that share the windows of a tile."""
    max_slices = min(MAX_THREADS // math.prod(threads.values()), MAX_BLOCK_Z)
    max_slices = min(max_slices, request.context.max_extent(correlation.term) // taps) if len(threads) == 1 else 1
    slices = 1
    while slices == 1 or slices <= max_slices:
        yield slices
        slices *= 2


def _walks(request: Request, correlation: Correlation, taps: int, slices: int) -> Iterator[Walk]:
    """The parts of the reductions that are in shared memory at a time, the longest first: all, several windows, or
    values of another index."""
    extents = [request.context.max_extent(index) for index in correlation.indices]
    windows = power_of_two(-(-extents[-1] // (taps * slices)))
    others = math.prod(extents[:-1])
    while windows:
        step = windows * slices * taps
        if step * others <= max(MAX_PLAIN_TERMS, slices * taps):
            is_whole = slices == 1 and step >= extents[-1]
            yield Walk(correlation.term, extents[-1] if is_whole else step, correlation.reductions)
        windows //= 2
    for index, extent in zip(correlation.indices[:-1], extents[:-1], strict=True) if slices == 1 else ():
        step = power_of_two(extent) // 2
        while step:
            yield Walk(index, step, correlation.reductions)
            step //= 2


def _tiles(request: Request, correlation: Correlation, config: CorrelationConfig) -> tuple[Tile, ...] | Refusal:
    """The tiles of the arrays with windows, of those that all outputs of a row of threads read, and of those that the
    spec places in shared memory."""
    staged, walk = config.staged, config.walk
    spans = {index.name: staged.span(index.name) for index in staged.order}
    terms = {index.name for index in correlation.indices}
    windowed = {read.read for read in correlation.reads}
    tiles: list[Tile] = []
    reads = [n for r in correlation.reductions for n in spec.walk(r) if isinstance(n, spec.Read)]
    arrays = request.context.arrays
    names = dict.fromkeys(r.array for r in reads if free_indices(r) & terms and arrays[r.array].space in IN_MEMORY)
    placed = [array.name for array in request.touched() if array.memory.space == "shared"]
    if untiled := [name for name in placed if name not in names]:
        return Refusal(f"has no tile of {untiled[0]}: no term reads it", f"arrays.{untiled[0]}.memory")
    for name in names:
        candidates = find_tiles(request, name, spans, (walk.index.name, walk.step))
        if isinstance(candidates, str):
            return Refusal(candidates)
        for tile in candidates:
            sliding = windowed.intersection(tile.reads)
            if sliding and tile.folded:
                return Refusal(f"reads {name} in windows and at subscripts that no tile has")
            if sliding:
                tiles.append(_with_sliding_side(request, correlation, config, tile))
            elif tile.reuse > 1 or name in placed:
                tiles.append(tile)
    return tuple(tiles)


def _with_sliding_side(request: Request, correlation: Correlation, config: CorrelationConfig, tile: Tile) -> Tile:
    dimension, walk = config.dimensions[tile.array], config.walk
    windows = [w for w in config.windows if w.first.read in tile.reads]
    terms = walk.step if walk.index == correlation.term else request.context.max_extent(correlation.term)
    terms = -(-terms // config.taps) * config.taps
    width = MAX_ACCESS_BYTES // request.context.arrays[tile.array].dtype.bytes
    side = sliding_side(windows, tile.sides[dimension], config.staged.span(correlation.along), terms, width)
    return replace(tile, sides=(*tile.sides[:dimension], side, *tile.sides[dimension + 1 :]))


def _shared_bytes(request: Request, config: CorrelationConfig) -> int:
    """The bytes of all tiles with the padding of split rows, and of the partial results of slices."""
    total = shared_bytes(request, config.staged)
    for tile in config.staged.tiles:
        if config.slides_along(tile):
            thread_stride, size = config.thread_stride(tile.array), request.context.arrays[tile.array].dtype.bytes
            total += -(-tile.elements // thread_stride) * row_padding(thread_stride, size) * size
    return total
