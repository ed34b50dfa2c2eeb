"""Two fused stencils with overlapped tiling: the intermediate array stays in a tile of shared memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from cugen.families.base import Family, Match, Refusal, Refusals, Request, Tunable, refuse_tunables
from cugen.families.stencil.config import StencilConfig, output_order, outputs_per_load
from cugen.families.stencil.family import footprint_refusals, form_refusals, window_refusals
from cugen.families.stencil.footprint import MAX_UNROLLED_TAPS, Footprints, find_channel_reductions, find_footprints
from cugen.families.stencil.fused.kernel import FusedStencil, FusedStencilBuilder, Parts
from cugen.machine.bandwidth import L2_TO_DRAM_BANDWIDTH
from cugen.machine.devices import modelled_device
from cugen.machine.target import STATIC_SHARED_BYTES
from cugen.pieces.grid import fastest_first
from cugen.pieces.placement import placement_refusals
from cugen.pieces.vectors import MAX_ACCESS_BYTES, widest
from cugen.plan.request import Group
from cugen.rewrite.temporaries import storing_seconds
from cugen.spec.expressions import IndexValue, Read, free_indices, walk

ROWS = Tunable("rows", (1, 2, 4, 8), "by footprint", "rows of outputs per thread")
# Threads of a block by the height of the halo: taller for tall footprints, for less redundant computation (heuristic).
BLOCKS_BY_HALO_ROWS = ((24, (8, 32)), (12, (16, 16)), (0, (32, 8)))
MIN_ACTIVE = 0.25  # of a block's threads along rows, unless the spec requests the fusion (heuristic)
# Terms of an intermediate element that no window shares, unless the spec requests the fusion: the threads of a tile add
# them one by one, and other families share them out (heuristic).
MAX_CHANNELS = 8
MAX_REDUNDANCY = 2.5  # intermediate elements computed per output, unless the spec requests the fusion (heuristic)


def match(request: Request) -> Match | Refusals:
    """The two stencils with the sizes of their tile, or why they aren't fused with this schedule."""
    parts = _parts(request)
    if isinstance(parts, Refusal):
        return Refusals((parts,))
    if reasons := tuple(_form_refusals(request, parts)):
        return Refusals(reasons)
    refused = [*_block_refusals(request, parts)]
    if (reason := _why_no_tile(parts)) is not None:
        return Refusals((*refused, reason))
    first_footprints = find_footprints(parts.first, parts.first_along)
    fused = _choose(request, parts, first_footprints)
    refused += _footprint_refusals(request, parts, first_footprints)
    refused += _tile_refusals(request, fused)
    return Refusals(tuple(refused)) if refused else Match(lambda: FusedStencilBuilder(request, fused).kernel())


def _form_refusals(request: Request, parts: Parts) -> Iterator[Refusal]:
    yield from form_refusals(parts.first)
    yield from form_refusals(parts.second)
    yield from refuse_tunables(request, (ROWS,))
    for key in ("thread", "step"):
        if getattr(request.schedule, key):
            yield Refusal("takes the tunable `rows`, no thread or step", f"schedule.{key}")


def _block_refusals(request: Request, parts: Parts) -> Iterator[Refusal]:
    sides = [index.name for index in output_order(parts.second, parts.footprints.by_array)[:2]]
    for name, _ in request.schedule.block:
        if name not in sides:
            yield Refusal(f"block sizes are for {' and '.join(sides)}, not {name}", f"schedule.block.{name}")


def _parts(request: Request) -> Parts | Refusal:
    """The two statements, where the second has a footprint in a temporary that the first computes."""
    statements = request.group.statements
    if not request.group.mixed or len(statements) != 2:
        return Refusal("takes two stencils, the second of which reads the output of the first")
    producer = statements[0]
    array = request.context.spec.array(producer.target)
    if request.is_stored(producer) or array.memory.space not in (None, "shared"):
        return Refusal(f"keeps {producer.target} in shared memory, but it must be stored")
    if not statements[1].indices or not producer.indices:
        return Refusal(f"{producer.target} and {statements[1].target} must be arrays")
    if producer.accumulate or not all(isinstance(sub, IndexValue) for sub in producer.subscripts):
        return Refusal(f"{producer.target} is accumulated, or written at other than plain indices")
    if array.memory.pad or array.memory.swizzle or array.memory.dynamic or array.memory.stages > 1:
        return Refusal(
            f"chooses the layout of the tile of {producer.target} itself", f"arrays.{producer.target}.memory"
        )
    first, second = (replace(request, group=Group((statement,))) for statement in statements)
    along = fastest_first(second)[0].name
    footprints = find_footprints(second, along)
    if producer.target not in footprints.by_array:
        return Refusal(f"{statements[1].target} has no footprint in {producer.target} along its rows")
    footprint = footprints.by_array[producer.target]
    first_along = producer.subscripts[footprint.axis_along(along)]
    assert isinstance(first_along, IndexValue)
    return Parts(first, second, footprint, footprints, along, first_along.name)


def _why_no_tile(parts: Parts) -> Refusal | None:
    """Why the footprint in the intermediate array has no tile."""
    temporary = parts.footprint.array
    if any(axis.index is None or axis.scale != 1 for axis in parts.footprint.axes):
        return Refusal(f"{temporary} must be read at unit scale along every dimension")
    if len(parts.footprint.axes) != len(parts.second.group.statements[0].indices):
        return Refusal(f"{temporary} and the output must have the same number of dimensions")
    return None


def _footprint_refusals(request: Request, parts: Parts, first_footprints: Footprints) -> Iterator[Refusal]:
    temporary = parts.footprint.array
    yield from footprint_refusals(parts.along, parts.footprints)
    yield from map(Refusal, first_footprints.reasons)
    if first_footprints.channel_reductions or parts.footprints.channel_reductions:
        yield Refusal("takes no reduction over channels")
    if any(len(footprint.points) > MAX_UNROLLED_TAPS for footprint in first_footprints.by_array.values()):
        yield Refusal(f"footprints of more than {MAX_UNROLLED_TAPS} points aren't unrolled")
    moved = {*first_footprints.by_array, *parts.footprints.by_array} - {temporary}
    names = (array.name for array in request.touched() if array.name in moved)
    yield from window_refusals(request, names, ("shared", "register"))  # elements at the edges have no window
    yield from (refusal for refusal in placement_refusals(request) if refusal.key != f"arrays.{temporary}.memory")


def _tile_refusals(request: Request, fused: FusedStencil) -> Iterator[Refusal]:
    temporary, along = fused.footprint.array, fused.config.along
    is_requested = request.context.spec.array(temporary).memory.space == "shared"
    extending = [a.index for a in fused.footprint.axes if a.index not in fused.config.threads and a.high > a.low]
    if extending:
        yield Refusal(f"a tile of {temporary} has no halo along {extending[0]}")
    elif 2 * fused.config.idle >= fused.config.threads[along]:
        yield Refusal(f"most of a row of the tile of {temporary} would be halo")
    elif fused.tile_bytes > STATIC_SHARED_BYTES:
        yield Refusal(f"the tile of {temporary} would take {fused.tile_bytes} bytes of shared memory")
    elif request.schedule.family is None and not is_requested:
        if (channels := _channels(fused.parts)) is None or channels > MAX_CHANNELS:
            count = "any number of" if channels is None else channels
            yield Refusal(f"an element of {temporary} would be a sum over {count} channels")
        if fused.redundancy > MAX_REDUNDANCY:
            yield Refusal(f"a block would compute {fused.redundancy:.1f} elements of {temporary} per output")
        if _is_faster_stored(request, fused):
            yield Refusal(f"blocks would read inputs of {temporary} again, which takes longer than storing it")
        row = request.context.max_extent(fused.config.order[0])
        if MIN_ACTIVE * fused.config.per_block(along) > max(row, 1):
            yield Refusal(f"most threads of a block would be beyond rows of {row}")


def _channels(parts: Parts) -> int | None:
    """The most channels that a reduction of the intermediate array is over; None where their number isn't static."""
    longest = 1
    for reduction in find_channel_reductions(parts.first, parts.first_along, longer_than=MAX_CHANNELS):
        extents = [parts.first.context.static_extent(index) for index in reduction.channels]
        if None in extents:
            return None
        longest = max(longest, math.prod(extent for extent in extents if extent is not None))
    return longest


def _is_faster_stored(request: Request, fused: FusedStencil) -> bool:
    """Whether the intermediate array is written and read in less time than its inputs take that blocks share: along
    indices that an input lacks, such as the features of a product, each block reads it again, from the L2."""
    context, device = request.context, modelled_device(request.target.name)
    first, arrays = request.group.statements[0], request.context.arrays
    extents = {index.name: context.planned_extent(index) for index in first.indices}
    for subscript, axis in zip(first.subscripts, fused.footprint.axes, strict=True):
        if axis.index in fused.config.threads and isinstance(subscript, IndexValue):
            extents[subscript.name] = 1  # of a block's tile

    def bytes_of(array: str) -> int:
        return math.prod(map(context.planned, arrays[array].shape)) * arrays[array].dtype.bytes

    again = 0.0
    for read in {node.array: node for node in walk(first.value) if isinstance(node, Read)}.values():
        times = math.prod(extent for name, extent in extents.items() if name not in free_indices(read))
        again += bytes_of(read.array) * (times - 1)
    l2_bandwidth = device.l2_bandwidth or device.bandwidth * L2_TO_DRAM_BANDWIDTH
    return again * fused.redundancy / l2_bandwidth > storing_seconds(bytes_of(first.target), device)


def _choose(request: Request, parts: Parts, first_footprints: Footprints) -> FusedStencil:
    """The schedule's block, or 256 threads: taller for tall footprints, wider where much of a row is halo, lower where
    the output is low or the tile too large."""
    second, along = parts.second, parts.along
    order = output_order(second, parts.footprints.by_array)
    width = _width(parts, first_footprints)
    height = max((axis.high - axis.low for axis in parts.footprint.axes if axis.index != along), default=0)
    tunables, block = dict(request.schedule.tunables), dict(request.schedule.block)
    rows = int(tunables.get("rows", 4 if height <= 8 else 8)) if len(order) > 1 else 1
    x, y = 256, 1
    if len(order) > 1:
        x, y = next(block for halo_rows, block in BLOCKS_BY_HALO_ROWS if height >= halo_rows)
    axis = parts.footprint.axes[parts.footprint.axis_along(along)]
    idle = -(axis.low // width) - (-axis.high // width)
    while x < 4 * idle and x < 256:
        x, y = x * 2, max(y // 2, 1)
    if block:
        x = max(1, block.get(along, 1) // width) + idle
        y = max(1, block.get(order[1].name, 1) // rows) if len(order) > 1 else 1
    last = request.context.max_extent(order[-1 if len(order) < 2 else 1])
    while y > 1 and y * rows >= 2 * max(last, 1) and not block:
        y, rows = (y, rows // 2) if rows > 1 and "rows" not in tunables else (y // 2, rows)

    def with_rows(rows: int) -> FusedStencil:
        outputs, threads = {order[0].name: width}, {order[0].name: x}
        if len(order) > 1:
            outputs[order[1].name], threads[order[1].name] = rows, y
        return FusedStencil(parts, first_footprints.by_array, StencilConfig(order, outputs, threads, "", idle))

    while with_rows(rows).tile_bytes > STATIC_SHARED_BYTES and rows > 1 and "rows" not in tunables:
        rows //= 2
    return with_rows(rows)


def _width(parts: Parts, first_footprints: Footprints) -> int:
    """The vector width of a thread's outputs: stored to the tile and the output, with footprints loaded in vectors."""
    arrays = parts.second.context.arrays
    statement = parts.second.group.statements[0]
    stored = widest(arrays[statement.target], statement.subscripts, parts.along, parts.second.context)
    footprints = first_footprints.by_array.values()
    loaded = (outputs_per_load(parts.first, arrays[f.array], f, parts.first_along) for f in footprints)
    return min(MAX_ACCESS_BYTES // arrays[parts.footprint.array].dtype.bytes, stored.count, *loaded)


FAMILY = Family(
    "fused_stencil",
    rank=26,
    doc="two fused stencils, the intermediate array in a tile of shared memory",
    match=match,
    tunables=(ROWS,),
    mixes=True,
)
