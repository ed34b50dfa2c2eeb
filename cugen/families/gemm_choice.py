"""Which shape a product gets: the fastest by the model among those that the spec leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.families.base import Request
from cugen.families.contraction import Contraction
from cugen.families.gemm_model import SPLITS, predict, shapes, with_stages
from cugen.families.gemm_problem import misfit, problem_of
from cugen.families.gemm_shape import ORDER, Shape, with_lanes
from cugen.plan.subscripts import to_integer
from cugen.spec.model import Schedule

_ALIKE = 1.04  # times that the model can't tell apart: the shape that stands first is taken
_ORDERED = 12  # shapes whose other orders are worth timing


def choose_shape(found: Contraction, *, split: bool = False) -> Shape | str:
    """The schedule's sizes, completed; or why they can't be had. With `split` also into how many parts the sum goes."""
    ranked = rank(found, split=split)
    if not ranked:
        return why_none(found)
    best = min(seconds for seconds, _ in ranked)
    return next(shape for seconds, shape in ranked if seconds <= best * _ALIKE)


def rank(found: Contraction, *, split: bool = False) -> list[tuple[float, Shape]]:
    """The shapes that fit, with their predicted seconds, in the order of the list."""
    problem = problem_of(found)
    ranked = []
    for shape in dict.fromkeys(_open_shapes(found, split)):
        if not misfit(found, problem, shape):
            prediction = predict(problem, shape, found.request.target)
            if prediction is not None:
                ranked.append((prediction.seconds, shape))
    return ranked


def reason(found: Contraction, shape: Shape) -> str:
    """Why the shape was taken, where the sizes are known; else empty."""
    context = found.request.context
    indices = (found.row, found.column, found.depth, *found.batch)
    if any(context.static(to_integer(index.extent, context.symbols)) is None for index in indices):
        return ""
    prediction = predict(problem_of(found), shape, found.request.target)
    return prediction.text if prediction is not None else ""


def candidates(request: Request, found: Contraction) -> Iterator[Schedule]:
    """The schedules that are worth timing, by their predicted times; then other orders of the best."""
    ranked = [shape for _, shape in sorted(rank(found, split=_may_split(request)), key=lambda pair: pair[0])]
    chosen = choose_shape(found, split=_may_split(request))
    first = [chosen] if isinstance(chosen, Shape) else []
    asked = dict(request.schedule.tunables)
    others = [
        replace(shape, order=str(order))
        for shape in ranked[:_ORDERED]
        for order in ORDER.values
        if ORDER.name not in asked and order != shape.order
    ]
    for shape in dict.fromkeys((*first, *ranked, *others)):
        yield _schedule(found, shape)


def _may_split(request: Request) -> bool:
    return len(request.group.statements) == 1


def _schedule(found: Contraction, shape: Shape) -> Schedule:
    row, column, depth = found.row.name, found.column.name, found.depth.name
    asked = dict(found.request.schedule.tunables)
    chosen: dict[str, int | str | bool] = {
        "stages": shape.stages,
        "slices": shape.slices,
        "lanes": shape.lanes,
        "order": shape.order,
        "split": shape.split,
    }
    if found.request.context.spec.array(found.operands[0].read.array).memory.stages > 1:
        del chosen["stages"]
    return Schedule(
        "gemm",
        ((row, shape.rows), (column, shape.columns)),
        ((row, shape.thread_rows), (column, shape.thread_columns)),
        ((depth, shape.step),),
        tuple({**asked, **chosen}.items()),
    )


def _open_shapes(found: Contraction, split: bool) -> Iterator[Shape]:
    """The list's shapes with all in place that the spec asks for."""
    tunables = dict(found.request.schedule.tunables)
    spec = found.request.context.spec
    staged = max(spec.array(operand.read.array).memory.stages for operand in found.operands)
    stages = int(tunables.get("stages", staged if staged > 1 else 0))
    splits = _splits(found) if split else (1,)
    for listed in shapes():
        shape = _as_asked(found, listed)
        if shape is None:
            continue
        for deep in (replace(shape, stages=stages),) if stages else with_stages(shape):
            for parts in splits:
                if parts == 1 or _divides(found, parts * deep.step):
                    yield replace(deep, split=parts)


def _splits(found: Contraction) -> tuple[int, ...]:
    """Into how many parts of equal length the sum may go."""
    asked = dict(found.request.schedule.tunables).get("split")
    may_wait = found.request.target.capability >= (7, 0)
    wanted = SPLITS if asked is None else (int(asked),)
    return wanted if may_wait else (1,)


def _divides(found: Contraction, size: int) -> bool:
    """Whether the sum is surely made of so many products a time."""
    context = found.request.context
    depth = context.static(to_integer(found.depth.extent, context.symbols))
    return depth is not None and depth > 0 and depth % size == 0


def _as_asked(found: Contraction, listed: Shape) -> Shape | None:
    schedule = found.request.schedule
    block, thread, step = dict(schedule.block), dict(schedule.thread), dict(schedule.step)
    tunables = dict(schedule.tunables)
    row, column = found.row.name, found.column.name
    rows, columns = block.get(row, listed.rows), block.get(column, listed.columns)
    shape = replace(
        listed,
        rows=rows,
        columns=columns,
        thread_rows=thread.get(row, listed.thread_rows),
        thread_columns=thread.get(column, listed.thread_columns),
        step=step.get(found.depth.name, listed.step),
        slices=int(tunables.get("slices", 1 if block else listed.slices)),
        order=str(tunables.get("order", listed.order)),
        raster=int(tunables.get("raster", listed.raster)),
        blocks=int(tunables.get("blocks", listed.blocks)),
    )
    if rows % shape.thread_rows or columns % shape.thread_columns:
        return None
    return with_lanes(shape, int(tunables.get("lanes", 0)))


def why_none(found: Contraction) -> str:
    """What stands against the last shape that was looked at."""
    problem = problem_of(found)
    for shape in _open_shapes(found, False):
        text = misfit(found, problem, shape)
        if text:
            return text
    lanes = dict(found.request.schedule.tunables).get("lanes")
    return f"the tile can't be shared out by warps of {lanes} lanes down" if lanes else "the tile fills no warps"
