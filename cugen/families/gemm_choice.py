"""Which shape a product gets: the fastest by the model among those that the spec leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.families import gemm_tensor
from cugen.families.base import Request
from cugen.families.contraction import Contraction
from cugen.families.gemm_model import SPLITS, predict, shapes, with_stages
from cugen.families.gemm_problem import device_of, misfit, problem_of
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
    alike = [shape for seconds, shape in ranked if seconds <= best * _ALIKE]
    return next((shape for shape in alike if shape.split == 1), alike[0])


def rank(found: Contraction, *, split: bool = False, every: bool = False) -> list[tuple[float, Shape]]:
    """The shapes that fit, with their predicted seconds, in the order of the list: `every` depth of the ring, or the
    first that fits."""
    problem, target = problem_of(found), found.request.target
    splits = _splits(found) if split else (1,)
    ranked = []
    for depths in _open_shapes(found):
        fitting = [shape for shape in depths if not misfit(found, problem, shape)]
        for shape in fitting if every else fitting[:1]:
            for parts in splits:
                if parts > 1 and not _divides(found, parts * shape.step):
                    continue
                apart = replace(shape, split=parts)
                prediction = predict(problem, apart, target)
                if prediction is not None:
                    ranked.append((prediction.seconds, apart))
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
    ranked = [shape for _, shape in sorted(rank(found, split=True, every=True), key=lambda pair: pair[0])]
    chosen = choose_shape(found, split=True)
    first = [chosen] if isinstance(chosen, Shape) else []
    asked = dict(request.schedule.tunables)
    others = [
        replace(shape, order=str(order))
        for shape in ranked[:_ORDERED]
        for order in ORDER.values
        if ORDER.name not in asked and order != shape.order and not shape.is_on_tensor_cores
    ]
    for shape in dict.fromkeys((*first, *ranked, *others)):
        yield _schedule(found, shape)


def _schedule(found: Contraction, shape: Shape) -> Schedule:
    row, column, depth = found.row.name, found.column.name, found.depth.name
    asked = dict(found.request.schedule.tunables)
    chosen: dict[str, int | str | bool] = {"stages": shape.stages, "lanes": shape.lanes, "order": shape.order}
    # Sums that one thread takes from end to end are in the order of the spec, and nothing is said of them.
    chosen |= {name: count for name, count in (("slices", shape.slices), ("split", shape.split)) if count > 1}
    if shape.is_on_tensor_cores:
        del chosen["lanes"], chosen["order"]
        chosen |= {"cores": shape.cores, "depth": shape.depth}
    elif not gemm_tensor.why_not(found):
        chosen["cores"] = shape.cores
    if found.request.context.spec.array(found.operands[0].read.array).memory.stages > 1:
        del chosen["stages"]
    return Schedule(
        "gemm",
        ((row, shape.rows), (column, shape.columns)),
        ((row, shape.thread_rows), (column, shape.thread_columns)),
        ((depth, shape.step),),
        tuple({**asked, **chosen}.items()),
    )


def _open_shapes(found: Contraction) -> Iterator[tuple[Shape, ...]]:
    """The list's shapes with all in place that the spec asks for, each with the depths that its ring may have."""
    tunables = dict(found.request.schedule.tunables)
    spec = found.request.context.spec
    staged = max(spec.array(operand.read.array).memory.stages for operand in found.operands)
    stages = int(tunables.get("stages", staged if staged > 1 else 0))
    placed = (_as_asked(found, listed) for listed in _listed(found))
    for shape in dict.fromkeys(shape for shape in placed if shape is not None):
        yield (replace(shape, stages=stages),) if stages else tuple(with_stages(shape))


def _listed(found: Contraction) -> Iterator[Shape]:
    """The shapes for the cores that are asked for; else those for tensor cores too where these are worth it."""
    tunables = dict(found.request.schedule.tunables)
    asked = tunables.get("cores", "tensor" if "depth" in tunables else "")
    may = not gemm_tensor.why_not(found) and gemm_tensor.are_faster(device_of(found.request.target))
    if "lanes" in tunables or "order" in tunables:
        may = False  # it's the tensor cores that decide these
    if asked == "tensor" or (may and not asked):
        yield from gemm_tensor.shapes()
    if asked != "tensor":
        yield from shapes()


def _splits(found: Contraction) -> tuple[int, ...]:
    """Into how many parts of equal length the sum may go."""
    schedule = found.request.schedule
    asked = dict(schedule.tunables).get("split", 1 if schedule.block else 0)
    may_wait = found.request.target.capability >= (7, 0)
    return (1,) if not may_wait else (int(asked),) if asked else SPLITS


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
    if shape.is_on_tensor_cores:
        return gemm_tensor.laid_out(shape, int(tunables.get("depth", 0)))
    return with_lanes(shape, int(tunables.get("lanes", 0)))


def why_none(found: Contraction) -> str:
    """What stands against the last shape that was looked at."""
    problem = problem_of(found)
    for shape, *_ in _open_shapes(found):
        text = misfit(found, problem, shape)
        if text:
            return text
    tunables = dict(found.request.schedule.tunables)
    lanes, parts = tunables.get("lanes"), int(tunables.get("split", 1))
    if parts > 1 and any(True for _ in _open_shapes(found)):
        return f"{parts} parts of the sum are no whole steps each, or {found.request.target.name} can't add them"
    return f"the tile can't be shared out by warps of {lanes} lanes down" if lanes else "the tile fills no warps"
