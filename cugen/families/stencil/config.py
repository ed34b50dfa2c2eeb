"""How many neighbours a thread of a stencil computes, and how many threads stand side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from cugen.families.stencil.footprint import Walk, Window
from cugen.pieces.grid import fastest_first
from cugen.pieces.vectors import WIDEST, divisor
from cugen.plan.memory import Array
from cugen.plan.request import Refusal, Request, Tunable
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import bounds
from cugen.spec import expressions as spec
from cugen.spec.expressions import Expr, IndexValue

_SIZES = (1, 2, 4, 8, 16)
VECTOR = Tunable("vector", _SIZES, "by alignment", "neighbours in a row that a thread computes")
ROWS = Tunable("rows", _SIZES, "by window", "rows of neighbours that a thread computes")
_NEIGHBOURS = 8  # at most, unless a schedule says more: bytes are many to a vector, and each takes a register
_CHANNELS = 4  # of the output that share a window in registers, where it moves along a sum
_THREADS = 128
_WARP = 32
_REGISTERS = 128  # of a thread, for its windows
_ENOUGH_THREADS = 132 * 1024  # that fill a device
_UNROLLED = 4096  # steps of all the loops that a thread runs through


@dataclass(frozen=True, slots=True)
class Shape:
    """`order` are the output's indices, the one along its rows first; `outputs` says how many elements along each a
    thread computes, `threads` how many threads a block has along it; both are 1 for those left out. The last `idle`
    threads of a row have no output."""

    order: tuple[spec.Index, ...]
    outputs: dict[str, int]
    threads: dict[str, int]
    reason: str
    idle: int = 0

    @property
    def along(self) -> str:
        return self.order[0].name

    @property
    def width(self) -> int:
        return self.outputs.get(self.along, 1)

    def per_block(self, name: str) -> int:
        """The outputs of a block along an index."""
        busy = self.threads.get(name, 1) - (self.idle if name == self.along else 0)
        return self.outputs.get(name, 1) * busy


def choose_shape(
    request: Request, windows: dict[str, Window], walks: tuple[Walk, ...] = ()
) -> Shape | tuple[Refusal, ...]:
    order = output_order(request, windows)
    refused = tuple(_schedule_refusals(request, order))
    if refused:
        return refused
    along = order[0].name
    asked = dict(request.schedule.thread)
    tunables = dict(request.schedule.tunables)
    widest, reason = _widest(request, windows, order)
    width = int(tunables.get("vector", asked.get(along, min(widest, _NEIGHBOURS))))
    if width > widest:
        return (Refusal(f"{width} neighbours along {along} are too many: {reason}", "schedule.vector"),)
    outputs = {along: width}
    second = order[1].name if len(order) > 1 else None
    deep = [name for name in (index.name for index in order[2:]) if _reach(windows, name)]
    if second is not None:
        outputs[second] = int(tunables.get("rows", asked.get(second, _rows(request, windows, order, outputs))))
    if deep:
        outputs[deep[0]] = asked.get(deep[0], 4)
    if walks:
        still = [
            index for index in order[2:] if not any(a.index == index.name for w in windows.values() for a in w.axes)
        ]
        for index in still[:1]:
            outputs[index.name] = _CHANNELS
    return Shape(order, outputs, _threads(request, order, outputs), reason)


def output_order(request: Request, windows: dict[str, Window]) -> tuple[spec.Index, ...]:
    """The output's indices, the one along its rows first, then the fastest along which windows reach."""
    first, *rest = fastest_first(request)
    reaching = [index for index in rest if _reach(windows, index.name)]
    if reaching:
        rest.remove(reaching[0])
        rest.insert(0, reaching[0])
    return (first, *rest)


def _reach(windows: dict[str, Window], name: str) -> int:
    """How much further than one element windows reach along an index."""
    return max((a.high - a.low for w in windows.values() for a in w.axes if a.index == name), default=0)


def _schedule_refusals(request: Request, order: tuple[spec.Index, ...]) -> Iterator[Refusal]:
    names = [index.name for index in order]
    for key, sizes in (("block", request.schedule.block), ("thread", request.schedule.thread)):
        for name, size in sizes:
            if name not in names or (names.index(name) > 1 and size != 1):
                reason = f"{key} sizes are for {' and '.join(names[:2])}, not for {name}"
                yield Refusal(reason, f"schedule.{key}.{name}")
    for name, size in request.schedule.thread:
        if size not in _SIZES:
            allowed = ", ".join(map(str, _SIZES))
            yield Refusal(f"a thread may have {allowed} elements along {name}, not {size}", f"schedule.thread.{name}")
    if request.schedule.step:
        yield Refusal("stages nothing step by step", "schedule.step")


def _widest(request: Request, windows: dict[str, Window], order: tuple[spec.Index, ...]) -> tuple[int, str]:
    """The most neighbours that one access stores, or whose windows accesses of 16 bytes load."""
    context, along = request.context, order[0].name
    width, reason = max(_SIZES), "no thread has more"
    for statement in request.group.statements:
        array = context.arrays[statement.target]
        if context.spec.array(statement.target).role == "temporary" and statement.target not in request.stored:
            continue
        count = store_width(request, array, statement.subscripts, along)
        if count < width:
            width, reason = count, f"an access stores at most {count} neighbours in {array.name}"
    for window in windows.values():
        array = context.arrays[window.array]
        scale = window.axes[window.axis_along(along)].scale
        count = max(1, WIDEST // (array.dtype.bytes * scale)) if load_width(request, array, window, along) > 1 else 1
        if count < width:
            width, reason = count, f"an access loads at most {count} neighbours' elements of {array.name}"
    return width, reason


def store_width(request: Request, array: Array, subscripts: tuple[Expr, ...], along: str) -> int:
    """The most neighbours along an index that one access stores."""
    steps = [
        stride if isinstance(sub, IndexValue) else stride * to_integer(sub, request.context.symbols)
        for sub, stride in zip(subscripts, array.strides, strict=True)
        if sub != IndexValue(along)
    ]
    return math.gcd(WIDEST // array.dtype.bytes, *(divisor(step, request.context) for step in steps))


def load_width(request: Request, array: Array, window: Window, along: str) -> int:
    """The most elements along an index that one access loads, from any row of the window."""
    steps = [s for axis, s in zip(window.axes, array.strides, strict=True) if axis.index != along]
    return math.gcd(WIDEST // array.dtype.bytes, *(divisor(step, request.context) for step in steps))


def _rows(request: Request, windows: dict[str, Window], order: tuple[spec.Index, ...], outputs: dict[str, int]) -> int:
    """4 rows in each thread, or 2 in several planes, as an H200 likes it best; more where windows are tall or rows are
    loaded element by element, fewer where windows fill the registers or threads would be too few."""
    along, second = order[0].name, order[1].name
    context = request.context
    extents = [bounds(to_integer(index.extent, context.symbols), context.ranges)[1] for index in order]
    height, others = _reach(windows, second), any(_reach(windows, index.name) for index in order[2:])
    if not height:
        return 1
    if _reach(windows, along) or others:
        bytes_ = all(context.arrays[window.array].dtype.bits == 8 for window in windows.values())
        rows = 2 if others else 8 if outputs[along] == 1 or bytes_ else 4
    else:
        rows = 16 if height >= 24 else 8 if height >= 8 else 4
    taken = sum(_registers(request, window, {**outputs, second: rows}) for window in windows.values())
    while rows > 1 and (
        (_reach(windows, along) and taken > _REGISTERS)
        or rows >= 2 * max(extents[1], 1)
        or math.prod(extents) < _ENOUGH_THREADS * rows * outputs[along]
        or _steps(windows) * rows * outputs[along] > _UNROLLED
    ):
        rows //= 2
        taken = sum(_registers(request, window, {**outputs, second: rows}) for window in windows.values())
    return rows


def _steps(windows: dict[str, Window]) -> int:
    return sum(len(window.points) for window in windows.values())


def _registers(request: Request, window: Window, outputs: dict[str, int]) -> int:
    """What a thread's window takes, where all of the box that it fills is read."""
    counts = [axis.scale * (outputs.get(axis.index or "", 1) - 1) + axis.high - axis.low + 1 for axis in window.axes]
    words = max(1, request.context.arrays[window.array].dtype.compute.bytes // 4)
    return math.prod(counts) * words


def _threads(request: Request, order: tuple[spec.Index, ...], outputs: dict[str, int]) -> dict[str, int]:
    """The schedule's block, or a warp along the rows and as many rows as fill 128 threads."""
    asked = dict(request.schedule.block)
    names = [index.name for index in order[:2]]
    if asked:
        return {name: max(1, asked.get(name, 1) // outputs.get(name, 1)) for name in names}
    context = request.context
    extents = [bounds(to_integer(index.extent, context.symbols), context.ranges)[1] for index in order[:2]]
    slots = [-(-extent // outputs.get(name, 1)) for name, extent in zip(names, extents, strict=True)]
    if len(names) == 1:
        return {names[0]: _THREADS}
    columns = min(_WARP, _power_of_two(slots[0]))
    rows = min(_THREADS // columns, _power_of_two(slots[1]))
    return {names[0]: min(_THREADS // rows, _power_of_two(slots[0])), names[1]: rows}


def _power_of_two(count: int) -> int:
    """The least power of two that covers `count`."""
    return 1 << max(count - 1, 0).bit_length()
