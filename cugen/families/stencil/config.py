"""Launch configurations of stencils: outputs per thread and threads per block."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cugen.families.stencil.footprint import ChannelReduction, Footprint
from cugen.families.stencil.register_window import make_window, read_columns
from cugen.machine.devices import PLANNING_DEVICE
from cugen.machine.requests.warp import SECTOR_BYTES
from cugen.pieces.block_reduce import WARP
from cugen.pieces.blocks import power_of_two
from cugen.pieces.grid import MAX_BLOCK_Z, fastest_first
from cugen.pieces.vectors import MAX_ACCESS_BYTES, widest_at
from cugen.plan.alignment import divisor
from cugen.plan.memory import Array
from cugen.plan.request import Refusal, Request, Tunable
from cugen.spec import expressions as spec
from cugen.spec.expressions import Reduce

_SIZES = (1, 2, 4, 8, 16)
VECTOR = Tunable("vector", _SIZES, "by alignment", "consecutive outputs of a row per thread")
ROWS = Tunable("rows", _SIZES, "by footprint", "rows of outputs per thread")
_TUNABLES = {VECTOR.name, ROWS.name}
MAX_DEFAULT_VECTOR = 8  # outputs; each takes a register, and a vector of bytes has 16 (heuristic)
MAX_DEFAULT_ROWS = 8  # of single columns
MAX_NARROW_BYTES = 2  # of elements: of wider ones a warp's single accesses are lines (heuristic)
CHANNELS_PER_THREAD = 4  # output channels that share a register window (heuristic)
MAX_UNSHARED_POINTS = 32  # of a window; a loop over its elements needs no registers (measured on H200)
BLOCK_THREADS = 128
MIN_BYTES_IN_FLIGHT = 32  # per thread: 2048 threads have as many as saturate the memory bandwidth (heuristic)
MAX_WINDOW_REGISTERS = 128  # per thread (heuristic)
MAX_ELEMENTS_PER_OUTPUT = 48  # of windows without a stride, unasked: a tile in shared memory is faster (measured)
MAX_THREAD_REGISTERS = 224  # of windows and accumulators; the other 31 of a thread hold indices and addresses
# The same of narrow elements that are loaded in vectors: with more, a warp waits for each vector before it converts it
# (measured on H200: 5 x 5 depthwise convolutions of float16 took 2.5 to 5 times as long).
MAX_CONVERTED_REGISTERS = 128
MIN_THREADS = PLANNING_DEVICE.sms * 1024  # enough to hide latencies (heuristic)
MAX_SECTORS_RATIO = 1.1  # of windows, to a load for each point: stores and weights add to both (heuristic)
MAX_COUNTED_POINTS = 1 << 14  # of a footprint that is no box, over all outputs of a thread; else its box is counted
MAX_UNROLLED_ITERATIONS = 4096  # of all loops over taps and outputs of a thread (heuristic)


@dataclass(frozen=True, slots=True)
class StencilConfig:
    """`order` are the output's indices, the contiguous one first. `outputs` per thread and `threads` per block are by
    index, 1 where absent, and whole periods of indices with `periods`. The last `idle` threads of a row have no output.
    Without `is_vector`, each output of a row is stored by itself."""

    order: tuple[spec.Index, ...]
    outputs: dict[str, int]
    threads: dict[str, int]
    reason: str
    idle: int = 0
    is_vector: bool = True
    periods: Mapping[str, int] = field(default_factory=dict)

    @property
    def along(self) -> str:
        return self.order[0].name

    @property
    def width(self) -> int:
        return self.outputs.get(self.along, 1)

    def per_block(self, name: str) -> int:
        """Outputs per block along an index."""
        active = self.threads.get(name, 1) - (self.idle if name == self.along else 0)
        return self.outputs.get(name, 1) * active


def choose_config(
    request: Request, footprints: Mapping[str, Footprint], channel_reductions: tuple[ChannelReduction, ...] = ()
) -> StencilConfig | tuple[Refusal, ...]:
    """The outputs of a thread and the threads of a block, or why register windows don't compute the statements. Sizes
    of the schedule are kept; others are halved until windows fit into registers, and share sectors."""
    order = output_order(request, footprints)
    refusals = tuple(schedule_refusals(request, order))
    if refusals:
        return refusals
    windows = _Windows(request, footprints, channel_reductions, order)
    max_width, reason = _max_width(request, footprints, order)
    outputs = _requested_outputs(windows, max_width)
    if outputs[windows.along] > max_width:
        text = f"a vector of {outputs[windows.along]} along {windows.along} is too wide: {reason}"
        return (Refusal(text, "schedule.vector"),)
    sizes, has_tunables = dict(request.schedule.thread), not _TUNABLES.isdisjoint(dict(request.schedule.tunables))
    free = [name for name in outputs if name not in sizes and not has_tunables]
    outputs = _fitted(windows, outputs, free)
    refusal = _window_refusal(windows, outputs, max_width, is_free=len(free) == len(outputs))
    if refusal is not None:
        return (refusal,)
    threads = threads_of(request, order, outputs)
    others = math.prod(map(request.context.max_extent, order[2:]))
    in_plane = math.prod(threads.get(index.name, 1) for index in order[:2])
    is_unasked = request.schedule.family is None and len(free) == len(outputs) and not channel_reductions
    if is_unasked and in_plane < WARP < others and Reduce not in request.node_kinds():
        return (Refusal(f"blocks along {' and '.join(threads)} alone would have less than a warp"),)
    return StencilConfig(order, outputs, threads, reason)


@dataclass(frozen=True, slots=True)
class _Windows:
    """The windows of a statement, by what they cost for a number of outputs per thread."""

    request: Request
    footprints: Mapping[str, Footprint]
    channel_reductions: tuple[ChannelReduction, ...]
    order: tuple[spec.Index, ...]  # of the output's indices, the contiguous one first

    @property
    def along(self) -> str:
        return self.order[0].name

    @property
    def strided(self) -> set[str | None]:
        """The indices along which windows of adjacent outputs are more than an element apart."""
        return {axis.index for footprint in self.footprints.values() for axis in footprint.axes if axis.scale > 1}

    def shares(self, name: str, outputs: Mapping[str, int]) -> bool:
        """Whether outputs along an index have elements in common."""
        disjoint = outputs[name] * elements_of(self.footprints, {**outputs, name: 1})
        return elements_of(self.footprints, outputs) < disjoint

    def shares_rows(self, outputs: Mapping[str, int]) -> bool:
        """Whether outputs in other rows have elements in common, as many as a thread may have."""
        return any(self.shares(index.name, {**outputs, index.name: MAX_DEFAULT_ROWS}) for index in self.order[1:])

    def registers(self, outputs: Mapping[str, int]) -> int:
        return thread_registers(self.request, self.footprints, self.channel_reductions, dict(outputs))

    def fit(self, outputs: Mapping[str, int]) -> bool:
        return self.registers(outputs) <= self.max_registers(outputs)

    def max_registers(self, outputs: Mapping[str, int]) -> int:
        """Registers of windows and accumulators that a thread may have."""
        types = (self.request.context.arrays[footprint.array].dtype for footprint in self.footprints.values())
        is_converted = outputs[self.along] > 1 and any(dtype.is_float and dtype.compute != dtype for dtype in types)
        return MAX_CONVERTED_REGISTERS if is_converted else MAX_THREAD_REGISTERS

    def sectors(self, outputs: Mapping[str, int]) -> float:
        return _sectors(self.request, self.footprints, self.along, outputs)


def _requested_outputs(windows: _Windows, max_width: int) -> dict[str, int]:
    """The outputs of a thread by index: those of the schedule, else as many as usually pay."""
    request, footprints, order = windows.request, windows.footprints, windows.order
    sizes, tunables = dict(request.schedule.thread), dict(request.schedule.tunables)
    width = tunables.get("vector", sizes.get(windows.along, min(max_width, MAX_DEFAULT_VECTOR)))
    outputs = {windows.along: int(width)}
    if outputs[windows.along] > max_width:  # is refused
        return outputs
    if len(order) > 1:
        second = order[1].name
        rows = _rows(request, footprints, order, outputs, has_channels=bool(windows.channel_reductions))
        outputs[second] = int(tunables.get("rows", sizes.get(second, rows)))
    outer = [index.name for index in order[2:] if _halo(footprints, index.name)]
    for name in outer[:1]:
        outputs[name] = sizes.get(name, 4)
    if windows.channel_reductions:
        moved = {axis.index for footprint in footprints.values() for axis in footprint.axes}
        channels = [index for index in order[1:] if index.name not in moved][:1]
        outputs |= {c.name: min(CHANNELS_PER_THREAD, power_of_two(request.context.max_extent(c))) for c in channels}
    return outputs


def _fitted(windows: _Windows, outputs: Mapping[str, int], free: Sequence[str]) -> dict[str, int]:
    """The outputs with the `free` ones halved until windows fit into registers, first along indices whose outputs share
    no elements, then the slowest index first; then along indices with a stride where windows share too few sectors, or
    threads would be too few to hide latencies."""
    fitted, extents = dict(outputs), math.prod(map(windows.request.context.max_extent, windows.order))

    def needs_fewer(name: str) -> bool:
        if name == windows.along:
            return windows.sectors(fitted) > 1
        halved = {**fitted, name: fitted[name] // 2}
        if extents < MIN_THREADS * math.prod(fitted.values()):
            return True
        sectors, of_fewer = windows.sectors(fitted), windows.sectors(halved)
        is_wide = _window_bytes(windows.request, windows.footprints, halved) >= MIN_BYTES_IN_FLIGHT
        return sectors > of_fewer or (is_wide and sectors == of_fewer)  # equal without overlap

    slowest_first = [name for name in reversed(fitted) if name in free]
    for name in sorted(slowest_first, key=lambda name: windows.shares(name, outputs)):
        while fitted[name] > 1 and not windows.fit(fitted):
            fitted[name] //= 2
    for name in (name for name in slowest_first if name in windows.strided):
        while fitted[name] > 1 and needs_fewer(name):
            fitted[name] //= 2
    return fitted


def _window_refusal(windows: _Windows, outputs: Mapping[str, int], max_width: int, *, is_free: bool) -> Refusal | None:
    """Why windows of these outputs are no faster than a load for each point, or don't fit; `is_free` where the schedule
    sets none of them."""
    request, footprints, along = windows.request, windows.footprints, windows.along
    is_requested, strided = request.schedule.family is not None, windows.strided
    if not is_requested and along in strided and windows.sectors(outputs) > MAX_SECTORS_RATIO:
        return Refusal("its register windows load more sectors than a load for each point")
    if is_free and not windows.fit(outputs):
        registers, maximum = windows.registers(outputs), windows.max_registers(outputs)
        return Refusal(f"its windows need {registers} registers, at most {maximum} fit in a thread")
    points = sum(len(footprint.points) for footprint in footprints.values())
    elements, count = elements_of(footprints, outputs), math.prod(outputs.values())
    is_unasked = not is_requested and is_free and not windows.channel_reductions
    if is_unasked and elements >= points * count and points > MAX_UNSHARED_POINTS:
        return Refusal(f"no two outputs of a thread share one of the {points} elements that each reads")
    if is_unasked and not strided and elements > MAX_ELEMENTS_PER_OUTPUT * count:
        return Refusal(f"its windows have {elements} elements for {count} outputs of a thread")
    if not is_requested and max_width == 1 and _is_row_stencil(request, windows.order, footprints):
        return Refusal(f"a thread computes one output along {along}, and outputs in other rows share no elements")
    has_far_rows = any(footprint.has_far_rows(along) for footprint in footprints.values())
    # Narrow elements are loaded in vectors, wherever a row begins.
    sizes = (request.context.arrays[footprint.array].dtype.bytes for footprint in footprints.values())
    is_wide = any(size > MAX_NARROW_BYTES for size in sizes)
    has_far_rows |= is_wide and not strided and not windows.shares_rows(outputs)
    if not is_requested and max_width == 1 and has_far_rows and Reduce not in request.node_kinds():
        return Refusal(f"a thread loads single elements along {along}, of rows that are too far apart to share any")
    return None


def _is_row_stencil(request: Request, order: tuple[spec.Index, ...], footprints: Mapping[str, Footprint]) -> bool:
    """Whether footprints are dense windows along rows alone, which tiles in shared memory stage with little halo."""
    along = order[0].name
    axes = [axis for footprint in footprints.values() for axis in footprint.axes if axis.low < axis.high]
    return all(axis.index == along and axis.scale == 1 and axis.high - axis.low <= WARP for axis in axes)


def _sectors(request: Request, footprints: Mapping[str, Footprint], along: str, outputs: Mapping[str, int]) -> float:
    """Sectors that a thread's windows request, relative to a load for each point of each output. A lane requests a
    sector per load, less where lanes are less than a sector apart."""
    windows = points = 0
    for footprint in footprints.values():
        array, width = request.context.arrays[footprint.array], outputs[along]
        access = access_width(request, array, footprint, along, width)
        window = make_window(footprint, array, along, outputs, access, "window")
        step, distance = max(access, window.column_step), footprint.distance_along(along, 1) * array.dtype.bytes
        loads = sum(high // step - low // step + 1 for low, high in read_columns(window).values())
        windows += loads * min(distance * width, SECTOR_BYTES)
        points += len(footprint.points) * math.prod(outputs.values()) * min(distance, SECTOR_BYTES)
    return windows / points


def smaller_config(request: Request, config: StencilConfig) -> StencilConfig | None:
    """Half the outputs per thread along the slowest index with several; None for two outputs or fewer, as a window for
    one output saves nothing."""
    if math.prod(config.outputs.values()) <= 2:
        return None
    doubled = {name: 2 * config.periods.get(name, 1) for name in config.outputs}
    slowest = next((name for name, count in reversed(config.outputs.items()) if count % doubled[name] == 0), None)
    if slowest is None:
        return None
    outputs = {**config.outputs, slowest: config.outputs[slowest] // 2}
    return replace(config, outputs=outputs, threads=threads_of(request, config.order, outputs), idle=0)


def output_order(request: Request, footprints: Mapping[str, Footprint]) -> tuple[spec.Index, ...]:
    """The output's indices: the contiguous one, then the fastest along which footprints extend, then all others."""
    first, *slower = fastest_first(request)
    extending = [index for index in slower if _halo(footprints, index.name)][:1]
    return (first, *extending, *(index for index in slower if index not in extending))


def _halo(footprints: Mapping[str, Footprint], name: str) -> int:
    """The extent of the halo along an index: both sides together, 0 for one point."""
    return max((a.high - a.low for w in footprints.values() for a in w.axes if a.index == name), default=0)


def schedule_refusals(request: Request, order: tuple[spec.Index, ...]) -> Iterator[Refusal]:
    names = [index.name for index in order]
    for key, sizes in (("block", request.schedule.block), ("thread", request.schedule.thread)):
        for name, size in sizes:
            if name not in names or (names.index(name) > 1 and size != 1):
                reason = f"{key} sizes are for {' and '.join(names[:2])}, not {name}"
                yield Refusal(reason, f"schedule.{key}.{name}")
    for name, size in request.schedule.thread:
        if size not in _SIZES:
            allowed = ", ".join(map(str, _SIZES))
            yield Refusal(f"outputs per thread along {name} may be {allowed}, not {size}", f"schedule.thread.{name}")
    if request.schedule.step:
        yield Refusal("has no tiles to step through", "schedule.step")


def stored_outputs(request: Request, along: str) -> tuple[int, str]:
    """The widest vector of outputs that one access stores, and what limits it."""
    width, reason = max(_SIZES), "the limit of a thread"
    for statement in request.stored_statements():
        array = request.context.arrays[statement.target]
        count = widest_at(array, statement.subscripts, along, request.context).count
        if count < width:
            width, reason = count, f"a store to {array.name} moves at most {count} elements"
    return width, reason


def _max_width(request: Request, footprints: Mapping[str, Footprint], order: tuple[spec.Index, ...]) -> tuple[int, str]:
    """The widest vector of outputs that one access stores and whose footprints 16-byte accesses load."""
    context, along = request.context, order[0].name
    width, reason = stored_outputs(request, along)
    for footprint in footprints.values():
        array = context.arrays[footprint.array]
        count = outputs_per_load(request, array, footprint, along)
        if count < width:
            width, reason = count, f"a load from {array.name} covers at most {count} outputs"
    return width, reason


def outputs_per_load(request: Request, array: Array, footprint: Footprint, along: str) -> int:
    """The outputs, a power of two of periods, whose elements of a row one load covers; a period where rows aren't
    aligned."""
    if load_width(request, array, footprint, along) == 1:
        return footprint.axes[footprint.axis_along(along)].period
    axis = footprint.axes[footprint.axis_along(along)]
    periods = max(1, MAX_ACCESS_BYTES // (array.dtype.bytes * axis.scale))
    return axis.period << (periods.bit_length() - 1)


def access_width(request: Request, array: Array, footprint: Footprint, along: str, outputs: int) -> int:
    """The width of loads, in elements: it divides the distance of the rows, and that of the threads in a row."""
    return math.gcd(load_width(request, array, footprint, along), footprint.distance_along(along, outputs))


def load_width(request: Request, array: Array, footprint: Footprint, along: str) -> int:
    """The widest load along an index from any row of the footprint, in elements."""
    if array.space == "texture":
        return 1
    context = request.context
    dimensions = zip(footprint.axes, array.strides, array.shape, strict=True)
    steps = (s for axis, s, extent in dimensions if axis.index != along and context.static(extent) != 1)
    return math.gcd(MAX_ACCESS_BYTES // array.dtype.bytes, *(divisor(step, context) for step in steps))


def _rows(
    request: Request,
    footprints: Mapping[str, Footprint],
    order: tuple[spec.Index, ...],
    outputs: dict[str, int],
    *,
    has_channels: bool,
) -> int:
    """4 rows per thread, or 2 in three dimensions (measured on H200); more for tall footprints or scalar loads, fewer
    where windows fill the registers, or threads would be few. Of rows that share no elements one, or as many as have
    enough bytes in flight, as of windows that share none; a loop over channels has the loads of several in flight."""
    along, second = order[0].name, order[1].name
    context = request.context
    extents = list(map(context.max_extent, order))
    height, is_deep = _halo(footprints, second), any(_halo(footprints, index.name) for index in order[2:])
    points = sum(len(footprint.points) for footprint in footprints.values())
    limit = MAX_WINDOW_REGISTERS if _halo(footprints, along) else math.inf
    if not height:
        rows = 1 if has_channels or is_deep else _rows_in_flight(request, footprints, order, outputs)
    elif _halo(footprints, along) or is_deep:
        is_bytes = all(context.arrays[footprint.array].dtype.bits == 8 for footprint in footprints.values())
        rows = 2 if is_deep else MAX_DEFAULT_ROWS if outputs[along] == 1 or is_bytes else 4
    else:
        rows = 16 if height >= 24 else 8 if height >= 8 else 4
    if height and elements_of(footprints, {**outputs, second: rows}) == rows * elements_of(
        footprints, {**outputs, second: 1}
    ):
        is_strided = any(axis.index == second and axis.scale > 1 for f in footprints.values() for axis in f.axes)
        rows = _rows_of_bytes(_window_bytes(request, footprints, outputs)) if is_strided else 1
    while rows > 1 and (
        thread_registers(request, footprints, (), {**outputs, second: rows}) > limit
        or rows >= 2 * max(extents[1], 1)
        or math.prod(extents) < MIN_THREADS * rows * outputs[along]
        or points * rows * outputs[along] > MAX_UNROLLED_ITERATIONS
    ):
        rows //= 2
    return rows


def _rows_in_flight(
    request: Request, footprints: Mapping[str, Footprint], order: tuple[spec.Index, ...], outputs: dict[str, int]
) -> int:
    """Rows that share no elements, of a thread whose loads of one row are so few bytes that the threads of a
    multiprocessor have too few in flight."""
    row_bytes = 0
    for footprint in footprints.values():
        if any(axis.index == order[1].name for axis in footprint.axes):
            array = request.context.arrays[footprint.array]
            row_bytes += footprint.distance_along(order[0].name, outputs[order[0].name]) * array.dtype.bytes
    return _rows_of_bytes(row_bytes)


def _rows_of_bytes(row_bytes: int) -> int:
    return power_of_two(MIN_BYTES_IN_FLIGHT // row_bytes + 1) // 2 if 0 < row_bytes <= MIN_BYTES_IN_FLIGHT else 1


def _window_bytes(request: Request, footprints: Mapping[str, Footprint], outputs: Mapping[str, int]) -> int:
    """Bytes of the windows that a thread's outputs read."""
    arrays = request.context.arrays
    return sum(elements_of({name: f}, outputs) * arrays[f.array].dtype.bytes for name, f in footprints.items())


def thread_registers(
    request: Request,
    footprints: Mapping[str, Footprint],
    channel_reductions: tuple[ChannelReduction, ...],
    outputs: Mapping[str, int],
) -> int:
    """Registers of the window elements that are read, and of the accumulators over channels."""
    registers = sum(max(1, c.reduction.dtype.bytes // 4) * math.prod(outputs.values()) for c in channel_reductions)
    for name, footprint in footprints.items():
        compute_type = request.context.arrays[footprint.array].dtype.compute
        registers += elements_of({name: footprint}, outputs) * max(1, compute_type.bytes // 4)
    return registers


def elements_of(footprints: Mapping[str, Footprint], outputs: Mapping[str, int]) -> int:
    """Elements of the windows that a thread's outputs read."""
    return sum(_elements(footprint, outputs) for footprint in footprints.values())


def _elements(footprint: Footprint, outputs: Mapping[str, int]) -> int:
    """Elements of a window that are read: of a box the products of its extents, of a cross fewer."""
    offsets = list(map(set, zip(*footprint.points, strict=True)))
    moved = [{axis.scale * n for n in range(axis.periods(outputs))} for axis in footprint.axes]
    is_box = math.prod(map(len, offsets)) == len(footprint.points)
    if is_box or len(footprint.points) * math.prod(map(len, moved)) > MAX_COUNTED_POINTS:
        return math.prod(len({n + m for n in ns for m in ms}) for ns, ms in zip(offsets, moved, strict=True))
    by_output = itertools.product(*moved)
    return len({tuple(map(sum, zip(point, by, strict=True))) for by in by_output for point in footprint.points})


def threads_of(request: Request, order: tuple[spec.Index, ...], outputs: dict[str, int]) -> dict[str, int]:
    """The schedule's block, or a warp along the rows and as many rows as make BLOCK_THREADS, along a third index where
    both are short."""
    sizes = dict(request.schedule.block)
    names = [index.name for index in order[:2]]
    if sizes:
        return {name: max(1, sizes.get(name, 1) // outputs.get(name, 1)) for name in names}
    extents = map(request.context.max_extent, order[:2])
    threads = [-(-extent // outputs.get(name, 1)) for name, extent in zip(names, extents, strict=True)]
    if len(names) == 1:
        return {names[0]: BLOCK_THREADS}
    columns = min(WARP, power_of_two(threads[0]))
    rows = min(BLOCK_THREADS // columns, power_of_two(threads[1]))
    columns = min(BLOCK_THREADS // rows, power_of_two(threads[0]))
    deep = {
        index.name: min(BLOCK_THREADS // (columns * rows), MAX_BLOCK_Z, -(-extent // outputs.get(index.name, 1)))
        for index, extent in ((index, request.context.max_extent(index)) for index in order[2:3])
    }
    return {names[0]: columns, names[1]: rows, **{name: count for name, count in deep.items() if count > 1}}
