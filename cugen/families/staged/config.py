"""Launch configurations of staged kernels: the outputs of a block, and of each of its threads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cugen.families.staged.thread_tile import MAX_SHARED_BYTES, is_nested_faster, thread_tiles
from cugen.families.staged.tile import Tile, find_tiles, memory_order
from cugen.families.staged.walk import UNROLL, Walk, walks
from cugen.machine.devices import PLANNING_DEVICE
from cugen.machine.latency import BLOCK_START_CYCLES, memory_latency
from cugen.machine.requests.warp import SECTOR_BYTES, WARP_SIZE
from cugen.pieces.elementwise import IN_MEMORY
from cugen.pieces.grid import AXES, default_block
from cugen.pieces.kernels import swizzle_of
from cugen.plan.request import Refusal, Request
from cugen.spec import expressions as spec
from cugen.spec.expressions import Reduce, free_indices, walk

MAX_OUTPUTS = 8  # per thread, unasked (heuristic)
MIN_UNASKED_TERMS = 128  # of a reduction, unasked (heuristic)
MIN_UNASKED_REUSE = 64  # of an element by a block, unasked (heuristic)
MIN_WINDOW_REUSE = 2  # of an element by a block, unasked (heuristic)
MAX_STAGED_PER_OUTPUT = 5  # elements of windows, unasked: more, and most of a tile is halo (measured on H200)
HIGH_REUSE = 10  # of an element by a block: then larger halos pay, too (measured on H200)
MIN_BLOCKS = 2 * PLANNING_DEVICE.sms  # unasked (heuristic)
STEPS = (256, 128, 64, 32, 16, 8, 4, 2, 1)  # of a walk, unasked; longer ones save no barriers to speak of (heuristic)
MIN_SLICED_TILES = 16  # of a walk whose tiles have slices of more than MIN_SLICE values, unasked (heuristic)
MIN_SLICE = 32
DEFAULT_THREADS = 256  # of a block
WORTHWHILE = 0.9  # of the elements that a block stages per output: less isn't worth more outputs per thread (heuristic)


@dataclass(frozen=True, slots=True)
class StagedConfig:
    """Indices of the output, the contiguous one first; threads of a block and outputs of a thread along each, one block
    width apart, or consecutive along the first with `is_consecutive`; the tiles that are staged, with a `walk` one
    after the other, of which each of the `slices`, further rows of threads, takes a part."""

    order: tuple[spec.Index, ...]
    threads: Mapping[str, int]
    outputs: Mapping[str, int]
    tiles: tuple[Tile, ...]
    walk: Walk | None = None
    slices: int = 1
    is_consecutive: bool = False

    def span(self, index: str) -> int:
        """Outputs of a block along an index."""
        return self.threads.get(index, 1) * self.outputs.get(index, 1)

    @property
    def block(self) -> tuple[int, int, int]:
        sizes = [self.threads.get(index.name, 1) for index in self.order[: len(AXES)]]
        sizes += [1] * (len(AXES) - len(sizes))
        if self.slices > 1:
            sizes[self.slice_axis] = self.slices
        x, y, z = sizes
        return x, y, z

    @property
    def slice_axis(self) -> int:
        """The axis of the slices: the first without an index, else the last, where no index has threads."""
        return min(len(self.order), len(AXES) - 1)


def has_slices_in_warps(config: StagedConfig) -> bool:
    """Whether warps have threads of several slices."""
    return config.slices > 1 and math.prod(config.block) // config.slices % WARP_SIZE > 0


def choose_config(request: Request, order: tuple[spec.Index, ...], staged: tuple[str, ...]) -> StagedConfig | Refusal:
    """The config that stages the fewest bytes per output within what a block may have, or why there is none."""
    best: StagedConfig | None = None
    bytes_of_best = math.inf
    reason: Refusal | None = None
    for threads, outputs in _sizes(request, order):
        config = _config(request, StagedConfig(order, threads, outputs, ()), staged)
        if isinstance(config, Refusal):
            reason = reason or config
            continue
        per_output = _bytes_per_output(request, config)
        if best is None or (per_output < WORTHWHILE * bytes_of_best and _is_modest(request, config)):
            best, bytes_of_best = config, per_output
    if best is not None and not request.schedule.step and shared_bytes(request, best) <= MAX_SHARED_BYTES:
        return best
    if walked := choose_walk(request, order, staged):
        return walked
    if request.schedule.step:
        return Refusal("has no walk over tiles in such steps", "schedule.step")
    return best or reason or Refusal("has no tile that fits")


def choose_walk(request: Request, order: tuple[spec.Index, ...], staged: tuple[str, ...]) -> StagedConfig | None:
    """The walk with the fewest instructions that keeps the device busy, with the longest tiles along an index of the
    reductions; where a thread has one output, of several blocks the one that loads the fewest bytes per output."""
    threads, outputs = next(_sizes(request, order))
    size = math.prod(threads.values())
    if request.schedule.block or request.schedule.thread:
        return _longest_walk(request, StagedConfig(order, threads, outputs, ()), staged)
    for tile in thread_tiles(request, order, size):
        if tile.outputs == tile.slices == 1:
            break
        name = order[0].name
        config = StagedConfig(order, {name: tile.threads}, {name: tile.outputs}, (), slices=tile.slices)
        walked = _longest_walk(request, config, staged)
        if walked is not None and _is_reused(walked):
            return walked
    shapes = (threads, {order[0].name: size})
    single = (StagedConfig(order, shape, {}, ()) for shape in shapes)
    configs = [walked for config in single if (walked := _longest_walk(request, config, staged)) is not None]
    return min(configs, key=lambda config: _bytes_per_term(request, config), default=None)


def _moving(config: StagedConfig) -> tuple[Tile, ...]:
    """The tiles that move along the walk."""
    assert config.walk is not None
    name = config.walk.index.name
    return tuple(tile for tile in config.tiles if any(name in dict(side.steps) for side in tile.sides))


def _is_reused(config: StagedConfig) -> bool:
    """Whether the outputs of a block read all elements that move along the walk; with slices a block has fewer."""
    return bool(_moving(config)) and all(tile.reuse * config.slices >= MIN_UNASKED_REUSE for tile in _moving(config))


def _bytes_per_term(request: Request, config: StagedConfig) -> float:
    assert config.walk is not None
    outputs = math.prod(config.span(index.name) for index in config.order)
    return _loaded_bytes(request, config) / (outputs * config.walk.step)


def _longest_walk(request: Request, config: StagedConfig, staged: tuple[str, ...]) -> StagedConfig | None:
    steps = dict(request.schedule.step)
    for index, reductions in walks(request):
        nested = (node for reduction in reductions for node in walk(reduction.body) if isinstance(node, Reduce))
        if any(index.name not in free_indices(node) for node in nested):
            continue  # a result that each term needs
        extent = request.context.planned_extent(index)
        longest = extent - 1
        if config.slices > 1:  # the last tile may leave slices idle
            longest = min(longest, max(extent // MIN_SLICED_TILES, MIN_SLICE * config.slices))
        shorter = tuple(length for step in STEPS if (length := step * config.slices) <= longest)
        sizes = (steps[index.name],) if index.name in steps else () if steps else shorter
        for step in sizes:
            if step % config.slices:
                continue
            walked = _config(request, replace(config, walk=Walk(index, step, reductions)), staged)
            if isinstance(walked, Refusal):
                continue
            if steps or shared_bytes(request, walked) <= _max_shared_bytes(request, walked):
                return walked if steps else _with_even_tiles(request, walked, staged)
    return None


def _max_shared_bytes(request: Request, config: StagedConfig) -> int:
    """Of a block, unasked: more for more threads."""
    threads = max(math.prod(config.block), DEFAULT_THREADS)
    return min(MAX_SHARED_BYTES * threads // DEFAULT_THREADS, request.target.shared_per_block)


def _with_even_tiles(request: Request, config: StagedConfig, staged: tuple[str, ...]) -> StagedConfig:
    """The config with the tiles of its walk shortened so that slices are idle in the last as little as possible,
    whatever the extent."""
    assert config.walk is not None
    extent, multiple, longest = (
        request.context.planned_extent(config.walk.index),
        config.slices * UNROLL,
        config.walk.step,
    )
    is_even = config.slices == 1 or has_slices_in_warps(config)
    if is_even or longest % multiple or extent % longest == 0:
        return config

    def steps_of_slice(step: int) -> int:
        whole = (extent - 1) // step
        return whole * step // config.slices + min(step // config.slices, extent - whole * step)

    step = min(range(longest, longest // 2, -multiple), key=steps_of_slice)
    even = _config(request, replace(config, walk=replace(config.walk, step=step)), staged)
    return config if isinstance(even, Refusal) else even


def walk_unasked(request: Request, order: tuple[spec.Index, ...]) -> StagedConfig | Refusal:
    """The config for a long reduction whose inputs every output of a block reads, as all pairs of bodies do."""
    arrays = request.context.arrays
    walked = {index.name for index, _ in walks(request)}
    names = dict.fromkeys(read.array for read in request.reads() if free_indices(read) & walked)
    candidates = tuple(name for name in names if arrays[name].space in IN_MEMORY)
    terms = max((_terms(request, reduction) for _, reductions in walks(request) for reduction in reductions), default=0)
    if terms < MIN_UNASKED_TERMS:
        return Refusal("stages what the spec places in shared memory, or what a long reduction reads for every output")
    reused = tuple(name for name in candidates if not isinstance(_walked(request, order, (name,)), Refusal))
    return _walked(request, order, reused) if reused else Refusal("has no input that all outputs of a block read")


def _terms(request: Request, reduction: Reduce) -> int:
    """The terms of a reduction, with those of the longest in it."""
    extents = math.prod(map(request.context.max_extent, reduction.indices))
    nested = (node for node in walk(reduction.body) if isinstance(node, Reduce))
    return extents * max((_terms(request, node) for node in nested), default=1)


def keeps_nested(request: Request, order: tuple[spec.Index, ...]) -> bool:
    """Whether a walk has nested reductions in place, and in less time than through memory."""
    threads, _ = next(_sizes(request, order))
    if not is_nested_faster(request, order, math.prod(threads.values())):
        return False
    return not isinstance(walk_unasked(request, order), Refusal)


def windows_unasked(request: Request, order: tuple[spec.Index, ...]) -> StagedConfig | Refusal:
    """The config for windows that adjacent outputs share, where a block stages few elements that none shares."""
    arrays = request.context.arrays
    # Lanes read different elements of a window at a time, which constant memory serialises.
    spaces = (*IN_MEMORY, "constant")
    names = dict.fromkeys(read.array for read in request.reads() if arrays[read.array].space in spaces)
    shared = tuple(name for name in names if _is_window(request, order, name))
    if not shared:
        return Refusal(
            "stages what the spec places in shared memory, what a long reduction reads for every output, and "
            "windows that adjacent outputs share"
        )
    config = choose_config(request, order, shared)
    if isinstance(config, Refusal):
        return config
    staged = sum(tile.elements for tile in config.tiles) / math.prod(config.span(index.name) for index in order)
    is_mostly_halo = staged > MAX_STAGED_PER_OUTPUT and any(tile.reuse < HIGH_REUSE for tile in config.tiles)
    if config.walk is not None or shared_bytes(request, config) > MAX_SHARED_BYTES or is_mostly_halo:
        return Refusal(f"a block would stage {staged:.1f} elements of {', '.join(shared)} per output")
    return config


def _is_window(request: Request, order: tuple[spec.Index, ...], array: str) -> bool:
    """Whether the tiles of adjacent blocks overlap, and each of their elements is read repeatedly."""
    config = choose_config(request, order, (array,))
    return not isinstance(config, Refusal) and all(
        tile.reuse >= MIN_WINDOW_REUSE and tile.has_halo and not tile.folded for tile in config.tiles
    )


def _walked(request: Request, order: tuple[spec.Index, ...], staged: tuple[str, ...]) -> StagedConfig | Refusal:
    """The walk along which each tile moves and is read by all outputs of a block, or why there is none."""
    config = choose_walk(request, order, staged)
    if config is None or config.walk is None:
        return Refusal(f"can't walk along {', '.join(staged)}")
    if not _is_reused(config):
        return Refusal(f"a block doesn't read all of {', '.join(staged)} for each output")
    return replace(config, tiles=_moving(config))


def _config(request: Request, config: StagedConfig, staged: tuple[str, ...]) -> StagedConfig | Refusal:
    """The config with its tiles, or why an array has none."""
    tiles: list[Tile] = []
    spans = {index.name: config.span(index.name) for index in config.order}
    walk = None if config.walk is None else (config.walk.index.name, config.walk.step)
    for array in staged:
        key = f"arrays.{array}.memory"
        found = find_tiles(request, array, spans, walk)
        if isinstance(found, str):
            return Refusal(found, key)
        reused = [tile for tile in found if tile.pays]
        if not reused and request.context.spec.array(array).memory.space == "shared":  # requested, whatever it saves
            reused = [tile for tile in found if tile.reuse >= 1]
        if not reused:
            reuse = max(tile.reuse for tile in found)
            reason = f"a block reads {reuse:.2g} times what it would stage of {array}: leave it in global memory"
            return Refusal(reason, key)
        tiles += reused
    return replace(config, tiles=tuple(tiles))


def shared_bytes(request: Request, config: StagedConfig) -> int:
    """The bytes of all tiles, with the padding of their rows, and of the partial results of slices."""
    total = 0
    if config.slices > 1 and config.walk is not None:
        outputs = math.prod(config.span(index.name) for index in config.order)
        total += config.slices * outputs * sum(reduction.dtype.bytes for reduction in config.walk.reductions)
    for tile in config.tiles:
        source = request.context.arrays[tile.array]
        counts = [tile.sides[d].count for d in memory_order(tile, source, request.context.ranges)]
        memory = request.context.spec.array(tile.array).memory
        padding = swizzle_of(counts)[1] if memory.swizzle else memory.pad
        total += math.prod(counts[:-1]) * (counts[-1] + padding) * source.dtype.bytes
    return total


def _loaded_bytes(request: Request, config: StagedConfig) -> float:
    """The bytes of the sectors of all tiles, whose rows begin anywhere in one."""
    total = 0.0
    for tile in config.tiles:
        source = request.context.arrays[tile.array]
        contiguous = next((d for d, stride in enumerate(source.strides) if stride == 1), len(source.strides) - 1)
        row = tile.sides[contiguous].count * source.dtype.bytes
        total += tile.elements / tile.sides[contiguous].count * (row + SECTOR_BYTES)
    return total


def _bytes_per_output(request: Request, config: StagedConfig) -> float:
    """The bytes that a block stages per output; at least those which the device moves while the block starts, less
    those which it stores."""
    device = PLANNING_DEVICE
    outputs = math.prod(config.span(index.name) for index in config.order)
    starting = BLOCK_START_CYCLES / memory_latency(device).clock * device.bandwidth
    stored = sum(request.context.arrays[s.target].dtype.bytes for s in request.stored_statements())
    return max(_loaded_bytes(request, config) / outputs, starting / outputs - stored)


def _is_modest(request: Request, config: StagedConfig) -> bool:
    """Whether a larger block leaves enough blocks for the device, and room for several on a multiprocessor."""
    extents = {index.name: request.context.planned_extent(index) for index in config.order}
    blocks = math.prod(-(-extent // config.span(name)) for name, extent in extents.items())
    return blocks >= MIN_BLOCKS and shared_bytes(request, config) <= MAX_SHARED_BYTES


def _sizes(request: Request, order: tuple[spec.Index, ...]) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    """Threads of a block and outputs of a thread along each index; the fewest outputs first."""
    names = [index.name for index in order]
    extents = [request.context.extent(index) for index in order]
    block, outputs = dict(request.schedule.block), dict(request.schedule.thread)
    if block:
        yield {name: max(size // outputs.get(name, 1), 1) for name, size in block.items()}, outputs
        return
    threads = dict(zip(names, default_block(extents, request.context), strict=False))
    if outputs:
        yield threads, outputs
        return
    along = names[: len(AXES)]
    limits = [-(-request.context.planned_extent(index) // threads.get(index.name, 1)) for index in order[: len(AXES)]]
    choices = [[n for n in (1, 2, 4, 8) if n == 1 or n <= limit] for limit in limits]
    for counts in sorted(itertools.product(*choices), key=lambda counts: (math.prod(counts), counts)):
        if math.prod(counts) <= MAX_OUTPUTS:
            yield threads, {name: count for name, count in zip(along, counts, strict=True) if count > 1}
