"""Windows of what windows make: the first statement's results stay in a tile of shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cugen.families.base import Family, Refusal, Request, Tunable, refuse_tunables
from cugen.families.cascade_kernel import CascadeBuilder
from cugen.families.cascade_tile import Cascade
from cugen.families.grid import fastest_first
from cugen.families.placement import placement_refusals
from cugen.families.stencil import MOST_TAPS, form_refusals, window_refusals
from cugen.families.stencil_shape import Shape, load_width, output_order, store_width
from cugen.families.vectors import WIDEST
from cugen.families.windows import Window, find_windows
from cugen.plan.grouping import Group
from cugen.plan.ir import Kernel
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import bounds
from cugen.spec import expressions as spec
from cugen.spec.expressions import IndexValue

_ROWS = Tunable("rows", (1, 2, 4, 8), "by window", "rows of neighbours that a thread computes")
_TILE_BYTES = 48 * 1024
_THREADS = (32, 8)
_MOST_AGAIN = 2.5  # times that a tile may hold of the first statement's results what its block stores


@dataclass(frozen=True, slots=True)
class Parts:
    """The two statements by themselves; `window` is what the second reads of the first's results."""

    first: Request
    second: Request
    window: Window


def refusals(request: Request) -> tuple[Refusal, ...]:
    parts = _parts(request)
    if isinstance(parts, Refusal):
        return (parts,)
    found = [*form_refusals(parts.first), *form_refusals(parts.second), *refuse_tunables(request, (_ROWS,))]
    for key in ("thread", "step"):
        if getattr(request.schedule, key):
            found.append(Refusal("has `rows`, and stages nothing step by step", f"schedule.{key}"))
    if found:
        return tuple(found)
    sides = [index.name for index in output_order(parts.second, find_windows(parts.second, _along(parts))[0])[:2]]
    for name, _ in request.schedule.block:
        if name not in sides:
            found.append(
                Refusal(f"block sizes are for {' and '.join(sides)}, not for {name}", f"schedule.block.{name}")
            )
    return (*found, *_window_refusals(request, parts))


def _along(parts: Parts) -> str:
    """The index along the rows of what the second statement stores."""
    return fastest_first(parts.second)[0].name


def _parts(request: Request) -> Parts | Refusal:
    """The statements apart, where the second reads neighbours of a temporary that the first makes."""
    statements = request.group.statements
    if not request.group.mixed or len(statements) != 2:
        return Refusal("takes two statements, of which the second reads windows of what the first makes")
    maker = statements[0]
    array = request.context.spec.array(maker.target)
    if array.role != "temporary" or maker.target in request.stored or array.memory.space not in (None, "shared"):
        return Refusal(f"keeps {maker.target} in shared memory, and it must be stored")
    if not statements[1].indices or not maker.indices:
        return Refusal(f"{maker.target} and what is computed from it must have rows")
    if maker.accumulate or not all(isinstance(sub, IndexValue) for sub in maker.subscripts):
        return Refusal(f"{maker.target} is no temporary over bare indices")
    if array.memory.pad or array.memory.swizzle or array.memory.dynamic or array.memory.stages > 1:
        return Refusal(f"lays out the tile of {maker.target} itself", f"arrays.{maker.target}.memory")
    first, second = (replace(request, group=Group((statement,))) for statement in statements)
    windows, _ = find_windows(second, fastest_first(second)[0].name)
    if maker.target not in windows:
        return Refusal(f"no window of {maker.target} is read along the rows of {statements[1].target}")
    return Parts(first, second, windows[maker.target])


def _window_refusals(request: Request, parts: Parts) -> Iterator[Refusal]:
    temporary, along = parts.window.array, _along(parts)
    if any(axis.index is None or axis.scale != 1 for axis in parts.window.axes):
        yield Refusal(f"a tile of {temporary} has a cell for each output beside its halo")
        return
    if len(parts.window.axes) != len(parts.second.group.statements[0].indices):
        yield Refusal(f"{temporary} has not the indices of what is computed from it")
        return
    windows, others = find_windows(parts.second, along)
    yield from window_refusals(along, windows, others)
    before = _first_along(parts, along)
    windows, others = find_windows(parts.first, before)
    for read in others:
        yield Refusal(f"what is read of {read.array} moves with {before}, but is no window along its rows")
    if any(len(window.points) > MOST_TAPS for window in windows.values()):
        yield Refusal(f"windows of more than {MOST_TAPS} points aren't unrolled")
    moved = {f"arrays.{name}.memory" for name in {*windows, *find_windows(parts.second, along)[0]}}
    for array in request.touched():
        key = f"arrays.{array.name}.memory"
        if key in moved and array.name != temporary and array.memory.space in ("shared", "register"):
            yield Refusal(f"keeps windows of {array.name}, not all of it", key)
    yield from (refusal for refusal in placement_refusals(request) if refusal.key != f"arrays.{temporary}.memory")
    cascade = _choose(request, parts)
    reaching = [a.index for a in parts.window.axes if a.index not in cascade.shape.threads and a.high > a.low]
    if reaching:
        yield Refusal(f"a tile of {temporary} has no planes along {reaching[0]}")
    elif cascade.tile_bytes > _TILE_BYTES:
        yield Refusal(f"the tile of {temporary} would take {cascade.tile_bytes} bytes of shared memory")
    elif cascade.again > _MOST_AGAIN and request.schedule.family is None and not _is_asked(request, temporary):
        yield Refusal(f"a block would compute {cascade.again:.1f} elements of {temporary} for each that it stores")


def _is_asked(request: Request, temporary: str) -> bool:
    return request.context.spec.array(temporary).memory.space == "shared"


def _first_along(parts: Parts, along: str) -> str:
    """The first statement's index in place of the second's index along rows."""
    sub = parts.first.group.statements[0].subscripts[parts.window.axis_along(along)]
    assert isinstance(sub, IndexValue)
    return sub.name


def _choose(request: Request, parts: Parts) -> Cascade:
    context = request.context
    second, along = parts.second, _along(parts)
    windows, _ = find_windows(second, along)
    before, _ = find_windows(parts.first, _first_along(parts, along))
    order = output_order(second, windows)
    statement = second.group.statements[0]
    temporary = context.arrays[parts.window.array]
    width = min(
        WIDEST // temporary.dtype.bytes,
        store_width(second, context.arrays[statement.target], statement.subscripts, along),
    )
    for window in before.values():
        axis = window.axes[window.axis_along(_first_along(parts, along))]
        loaded = load_width(second, context.arrays[window.array], window, axis.index or "")
        width = min(
            width, max(1, WIDEST // (context.arrays[window.array].dtype.bytes * axis.scale)) if loaded > 1 else 1
        )
    height = max((a.high - a.low for a in parts.window.axes if a.index != along), default=0)
    rows = int(dict(request.schedule.tunables).get("rows", 4 if height <= 8 else 8)) if len(order) > 1 else 1
    across, down = _THREADS if len(order) > 1 else (_THREADS[0] * _THREADS[1], 1)
    if block := dict(request.schedule.block):
        across = max(1, block.get(along, width * across) // width)
        down = max(1, block.get(order[1].name, rows * down) // rows) if len(order) > 1 else 1
    extents = [bounds(to_integer(index.extent, context.symbols), context.ranges)[1] for index in order]
    while down > 1 and down * rows >= 2 * max(extents[1], 1):
        down, rows = (down, rows // 2) if rows > 1 else (down // 2, rows)
    while across > 32 and across * width >= 2 * max(extents[0], 1):
        across //= 2
    cascade = Cascade(parts.first, second, parts.window, before, windows, _shape(order, width, rows, across, down))
    while cascade.tile_bytes > _TILE_BYTES and rows > 1 and "rows" not in dict(request.schedule.tunables):
        rows //= 2
        cascade = replace(cascade, shape=_shape(order, width, rows, across, down))
    return cascade


def _shape(order: tuple[spec.Index, ...], width: int, rows: int, across: int, down: int) -> Shape:
    outputs, threads = {order[0].name: width}, {order[0].name: across}
    if len(order) > 1:
        outputs[order[1].name], threads[order[1].name] = rows, down
    return Shape(order, outputs, threads, "")


def build(request: Request) -> Kernel:
    parts = _parts(request)
    assert isinstance(parts, Parts)
    return CascadeBuilder(request, _choose(request, parts)).kernel()


FAMILY = Family(
    "cascade",
    rank=26,
    doc="windows of what windows make, which stays in a tile of shared memory",
    refusals=refusals,
    build=build,
    tunables=(_ROWS,),
    mixes=True,
)
