"""Windows of what windows make: the first statement's results stay in a tile of shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cugen.families.base import Family
from cugen.families.stencil.config import Shape, load_width, output_order, store_width
from cugen.families.stencil.family import MOST_TAPS, form_refusals, window_refusals
from cugen.families.stencil.footprint import Window, find_windows
from cugen.families.stencil.fused.kernel import CascadeBuilder
from cugen.families.stencil.fused.tile import Cascade
from cugen.pieces.grid import fastest_first
from cugen.pieces.placement import placement_refusals
from cugen.pieces.vectors import WIDEST
from cugen.plan.kernel import Kernel
from cugen.plan.request import Group, Refusal, Request, Tunable, refuse_tunables
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import bounds
from cugen.spec.expressions import IndexValue

_ROWS = Tunable("rows", (1, 2, 4, 8), "by window", "rows of neighbours that a thread computes")
_TILE_BYTES = 48 * 1024
# Threads of a block by the rows of a window beyond one: the taller it is, the less a block of more rows computes again.
_BLOCKS = ((24, (8, 32)), (12, (16, 16)), (0, (32, 8)))
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
    yield from map(Refusal, others)
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
    elif 2 * cascade.shape.idle >= cascade.shape.threads[along]:
        yield Refusal(f"most of a row of the tile of {temporary} would be halo")
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
    """The schedule's block, or 256 threads: more rows of them the taller the windows are, wider where much of a row is
    halo, lower where the tile would be too large or the output is."""
    context, second, along = request.context, parts.second, _along(parts)
    windows, _ = find_windows(second, along)
    before, _ = find_windows(parts.first, _first_along(parts, along))
    order = output_order(second, windows)
    width = _width(parts, before, along)
    height = max((axis.high - axis.low for axis in parts.window.axes if axis.index != along), default=0)
    tunables, block = dict(request.schedule.tunables), dict(request.schedule.block)
    rows = int(tunables.get("rows", 4 if height <= 8 else 8)) if len(order) > 1 else 1
    across, down = next(block for least, block in _BLOCKS if height >= least) if len(order) > 1 else (256, 1)
    axis = parts.window.axes[parts.window.axis_along(along)]
    idle = -(axis.low // width) - (-axis.high // width)
    while across < 4 * idle and across < 256:
        across, down = across * 2, max(down // 2, 1)
    if block:
        across = max(1, block.get(along, 1) // width) + idle
        down = max(1, block.get(order[1].name, 1) // rows) if len(order) > 1 else 1
    last = bounds(to_integer(order[-1 if len(order) < 2 else 1].extent, context.symbols), context.ranges)[1]
    while down > 1 and down * rows >= 2 * max(last, 1) and not block:
        down, rows = (down, rows // 2) if rows > 1 and "rows" not in tunables else (down // 2, rows)

    def of(rows: int) -> Cascade:
        outputs, threads = {order[0].name: width}, {order[0].name: across}
        if len(order) > 1:
            outputs[order[1].name], threads[order[1].name] = rows, down
        shape = Shape(order, outputs, threads, "", idle)
        return Cascade(parts.first, second, parts.window, before, windows, shape)

    while of(rows).tile_bytes > _TILE_BYTES and rows > 1 and "rows" not in tunables:
        rows //= 2
    return of(rows)


def _width(parts: Parts, before: dict[str, Window], along: str) -> int:
    """The neighbours that one access stores, to the tile as to the output, and whose windows wide accesses load."""
    arrays = parts.second.context.arrays
    statement = parts.second.group.statements[0]
    stored = store_width(parts.second, arrays[statement.target], statement.subscripts, along)
    widths = [WIDEST // arrays[parts.window.array].dtype.bytes, stored]
    for window in before.values():
        axis, array = window.axes[window.axis_along(_first_along(parts, along))], arrays[window.array]
        is_wide = load_width(parts.first, array, window, axis.index or "") > 1
        widths.append(max(1, WIDEST // (array.dtype.bytes * axis.scale)) if is_wide else 1)
    return min(widths)


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
