"""Statements that read windows round each element: a thread holds the window of several neighbours in registers."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.families.base import Family
from cugen.families.stencil.config import ROWS, VECTOR, Shape, choose_shape
from cugen.families.stencil.footprint import Window, find_walks, find_windows
from cugen.families.stencil.kernel import Builder
from cugen.pieces.grid import fastest_first
from cugen.pieces.placement import placement_refusals
from cugen.pieces.vectors import is_contiguous
from cugen.plan.kernel import Kernel
from cugen.plan.request import Refusal, Request, refuse_tunables
from cugen.spec.expressions import Const, IndexValue, Read, Scan, walk

MOST_TAPS = 225  # of a window: its loops are unrolled whole
TUNABLES = (VECTOR, ROWS)


def refusals(request: Request) -> tuple[Refusal, ...]:
    found = [*form_refusals(request)]
    if found:
        return tuple(found)
    along = fastest_first(request)[0].name
    windows, others = find_windows(request, along)
    walks = find_walks(request, along)
    if len(walks) > 1 or any(walk.reduction.kind in ("argmax", "argmin") for walk in walks):
        found.append(Refusal("moves windows along one sum, or the like, and not along several or an argmax"))
    found += [*window_refusals(along, windows, others), *_memory_refusals(request, windows)]
    found += [*placement_refusals(request), *refuse_tunables(request, TUNABLES)]
    if found:
        return tuple(found)
    shape = choose_shape(request, windows, walks)
    return shape if not isinstance(shape, Shape) else ()


def form_refusals(request: Request) -> Iterator[Refusal]:
    arrays = request.context.arrays
    for statement in request.group.statements:
        if not statement.indices:
            yield Refusal(f"{statement.target} is a single element")
            return
        if any(not isinstance(sub, IndexValue | Const) for sub in statement.subscripts):
            yield Refusal(f"writes {statement.target} at bare indices only")
        for node in walk(statement.value):
            if isinstance(node, Scan):
                yield Refusal("has windows, not scans")
            if isinstance(node, Read) and any(isinstance(n, Read) for sub in node.subscripts for n in walk(sub)):
                yield Refusal(f"{node.array} is read where other elements say")
    along = fastest_first(request)[0].name
    for statement in request.group.statements:
        if not is_contiguous(arrays[statement.target], statement.subscripts, along):
            yield Refusal(f"neighbours along {along} are no neighbours in {statement.target}")


def window_refusals(along: str, windows: dict[str, Window], others: tuple[str, ...]) -> Iterator[Refusal]:
    yield from map(Refusal, others)
    if not others and not any(window.reaches for window in windows.values()):
        yield Refusal(f"of what moves with {along}, neighbours of the output share nothing")
    for window in windows.values():
        if window.is_scattered(along):
            yield Refusal(f"the reads of {window.array} lie far apart: most of a window would never be used")
        if len(window.points) > MOST_TAPS:
            yield Refusal(f"the window in {window.array} has {len(window.points)} points, {MOST_TAPS} are unrolled")


def _memory_refusals(request: Request, windows: dict[str, Window]) -> Iterator[Refusal]:
    for name in windows:
        space = request.context.spec.array(name).memory.space
        if space in ("shared", "register"):
            yield Refusal(f"keeps windows of {name}, not all of it", f"arrays.{name}.memory")


def build(request: Request) -> Kernel:
    along = fastest_first(request)[0].name
    windows, _ = find_windows(request, along)
    walks = find_walks(request, along)
    shape = choose_shape(request, windows, walks)
    assert isinstance(shape, Shape)
    return Builder(request, windows, shape, walks[0] if walks else None).kernel()


FAMILY = Family(
    "stencil",
    rank=25,
    doc="windows round each element, held in registers for several neighbours at once",
    refusals=refusals,
    build=build,
    tunables=TUNABLES,
)
