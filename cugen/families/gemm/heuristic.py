"""Which shape a product gets: the fastest by the model among those that the spec leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm import tensor_cores as gemm_tensor
from cugen.families.gemm.config import CLUSTERS, COPIES, JOIN, ORDER, READS, STREAM, Shape, with_lanes, with_words
from cugen.families.gemm.cost_model import SPLITS, STREAMS, predict, resident, shapes, with_stages
from cugen.families.gemm.ineffective_tunables import idle_word, without_idle
from cugen.families.gemm.problem import device_of, misfit, problem_of
from cugen.families.gemm.stream_k_schedule import Shares, share_out
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import to_integer
from cugen.spec.model import Schedule

_ALIKE = 1.02  # times that the model can't tell apart: the shape that stands first is taken
_CLEAR = 1.02  # times more that tiles without shared ends must take for their ends to be shared unasked
_PAYS = 1.0005  # times that another wave shared out must save
_LONG = 2048  # products of a sum
_CLEAR_PARTS = 1.05  # the same for sums that are parted
_UNEVEN = 6  # blocks of a cluster, of which some multiprocessors were seen to get two while others had none
_FIRST = 12  # shapes that are timed before variants of any of them
_VARIED = 8  # shapes of which all variants are


def choose_shape(found: Contraction, *, split: bool = False) -> Shape | Refusal:
    """The schedule's sizes, completed; or why they can't be had. With `split` also into how many parts the sum goes."""
    ranked = rank(found, split=split)
    if not ranked:
        return why_none(found, split=split)
    shape = first_of(ranked)
    asked = dict(found.request.schedule.tunables)
    if COPIES.name in asked or not _is_long(found, shape):
        return shape
    return without_idle(found, replace(shape, copies="apart"))


def _is_long(found: Contraction, shape: Shape) -> bool:
    """Whether blocks of one slice walk over whole tiles with long sums: then copies among the products were faster, by
    1 to 2 %; else, by as much and more, copies before them."""
    is_one = shape.stream > 0 and shape.slices == 1 and not shape.is_on_tensor_cores
    shares = shares_of(found, shape) if is_one else None
    return shares is not None and shares.rounds > 0 and shares.steps * shape.step >= _LONG


def first_of(ranked: list[tuple[float, Shape]]) -> Shape:
    """The shape to take of those with their predicted seconds, which stand in the order in which they are preferred."""
    alone = [pair for pair in ranked if not pair[1].is_shared]
    shared = [pair for pair in ranked if pair[1].is_shared]
    if alone:  # sharing was measured on CUDA cores; on tensor cores it is for those who ask, and for the tuner
        shared = [pair for pair in shared if not pair[1].is_on_tensor_cores]
    shared = [pair for pair in shared if not (pair[1].is_clustered and pair[1].split == _UNEVEN)] or shared
    if not alone or not shared:
        return _first_alike(alone or shared)[1]
    seconds, shape = _first_alike(shared)
    longer, plain = _first_alike(alone)
    return shape if seconds * (_CLEAR if shape.stream else _CLEAR_PARTS) < longer else plain


def _first_alike(ranked: list[tuple[float, Shape]]) -> tuple[float, Shape]:
    """The first that takes about the least time, with no more waves of tiles shared out than pay."""
    best = min(seconds for seconds, _ in ranked)
    _, first = next(pair for pair in ranked if pair[0] <= best * _ALIKE)
    likes = [pair for pair in ranked if replace(pair[1], stream=first.stream) == first]
    best = min(seconds for seconds, _ in likes)
    return min((pair for pair in likes if pair[0] <= best * _PAYS), key=lambda pair: pair[1].stream)


def rank(found: Contraction, *, split: bool = False, every: bool = False) -> list[tuple[float, Shape]]:
    """The shapes that fit and have all that is asked for, with their predicted seconds, in the order of the list:
    `every` depth of the ring, or the first that fits."""
    problem, target = problem_of(found), found.request.target
    ranked = []
    for shape in _fitting(found, split=split, every=every):
        prediction = predict(problem, shape, target)
        if prediction is not None and not idle_word(found, shape):
            ranked.append((prediction.seconds, without_idle(found, shape)))
    return ranked


def _fitting(found: Contraction, *, split: bool, every: bool) -> Iterator[Shape]:
    problem = problem_of(found)
    for depths in _open_shapes(found):
        fitting = [shape for shape in depths if not misfit(found, problem, shape)]
        for shape in fitting if every else fitting[:3]:
            yield from _apart(found, shape) if split else (shape,)


def reason(found: Contraction, shape: Shape) -> str:
    """Why the shape was taken, where the sizes are known; else empty."""
    context = found.request.context
    indices = (found.m, found.n, found.k, *found.batch)
    if any(context.static(to_integer(index.extent, context.symbols)) is None for index in indices):
        return ""
    prediction = predict(problem_of(found), shape, found.request.target)
    return prediction.text if prediction is not None else ""


def candidates(request: Request, found: Contraction) -> Iterator[Schedule]:
    """The schedules that are worth timing, by their predicted times; those of the best that differ in nothing but the
    code that the compiler makes of them stand in front of the slower ones."""
    ranked = [shape for _, shape in sorted(rank(found, split=True, every=True), key=lambda pair: pair[0])]
    chosen = choose_shape(found, split=True)
    first = [chosen] if isinstance(chosen, Shape) else []
    varied = [alike for shape in (*first, *ranked[:_VARIED]) for alike in _alike(found, shape)]
    for shape in dict.fromkeys((*first, *ranked[:_FIRST], *varied, *ranked)):
        yield _schedule(found, shape)


def _alike(found: Contraction, shape: Shape) -> Iterator[Shape]:
    """The same work in other words: compilers take other registers for it, and up to 5 % more or less time."""
    asked = dict(found.request.schedule.tunables)
    if shape.is_on_tensor_cores:
        return
    choices = [
        tunable.values if tunable.name not in asked else (getattr(shape, tunable.name),)
        for tunable in (COPIES, READS, ORDER)
    ]
    for copies, reads, order in product(*choices):
        yield without_idle(found, replace(shape, copies=str(copies), reads=str(reads), order=str(order)))


def _schedule(found: Contraction, shape: Shape) -> Schedule:
    row, column, depth = found.m.name, found.n.name, found.k.name
    asked = dict(found.request.schedule.tunables)
    chosen: dict[str, int | str | bool] = {
        "stages": shape.stages,
        "lanes": shape.lanes,
        "order": shape.order,
        "reads": shape.reads,
        "copies": shape.copies,
    }
    # Sums that one thread takes from end to end are in the order of the spec, and nothing is said of them.
    chosen |= {name: count for name, count in (("slices", shape.slices), ("split", shape.split)) if count > 1}
    chosen |= {"join": shape.join} if shape.split > 1 else {}
    if shape.is_on_tensor_cores:
        for name in ("lanes", "order", "reads", "copies"):
            del chosen[name]
        chosen |= {"cores": shape.cores, "depth": shape.depth}
    elif not gemm_tensor.why_not(found):
        chosen["cores"] = shape.cores
    chosen |= {"stream": shape.stream} if shape.stream else {}
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
        depths = (replace(shape, stages=stages),) if stages else with_stages(shape)
        yield tuple(
            with_words(deep, str(tunables.get("reads", "")), str(tunables.get("copies", ""))) for deep in depths
        )


def _listed(found: Contraction) -> Iterator[Shape]:
    """The shapes for the cores that are asked for; else those for tensor cores too where these are worth it."""
    tunables = dict(found.request.schedule.tunables)
    asked = tunables.get("cores", "tensor" if "depth" in tunables else "")
    may = not gemm_tensor.why_not(found) and gemm_tensor.are_faster(device_of(found.request.target))
    if any(name in tunables for name in ("lanes", "order", "reads", "copies")):
        may = False  # it's the tensor cores that decide these
    if asked == "tensor" or (may and not asked):
        yield from gemm_tensor.shapes()
    if asked != "tensor":
        yield from shapes()


def _apart(found: Contraction, shape: Shape) -> Iterator[Shape]:
    """The shape as it is, and with the ways in which blocks may share sums."""
    for waves in _streams(found):
        for parts in _splits(found) if not waves else ():
            for join in _joins(found) if parts > 1 else (shape.join,):
                apart = replace(shape, split=parts, join=join)
                if not why_not_apart(found, apart):
                    yield apart
        shared = replace(shape, stream=waves)
        if not waves or why_not_shared(found, shared):
            continue
        shares = shares_of(found, shared)
        if shares is None or not shares.joins:  # each block gets whole tiles, as without sharing
            if 0 not in _streams(found):
                yield replace(shape, stream=0)
        elif not _is_known(found, shared):
            yield shared


def _splits(found: Contraction) -> tuple[int, ...]:
    """Into how many parts the sum may go."""
    schedule = found.request.schedule
    asked = dict(schedule.tunables).get("split", 1 if schedule.block else 0)
    return (1,) if not _may_wait(found) else (int(asked),) if asked else SPLITS


def _joins(found: Contraction) -> tuple[str, ...]:
    """Where parts of a sum may meet."""
    asked = dict(found.request.schedule.tunables).get(JOIN.name)
    return (str(asked),) if asked else tuple(map(str, JOIN.values))


def why_not_apart(found: Contraction, shape: Shape) -> str:
    """Why blocks can't share each sum of a shape's tiles, empty where they can, or where none is shared."""
    parts, target = shape.split, found.request.target
    if parts == 1:
        return ""
    if not shape.is_clustered:
        if not _may_wait(found) or not _divides(found, parts * shape.step):
            return f"{parts} parts of the sum are no whole steps each, or {target.name} can't add them"
        return ""
    if not target.has_clusters:
        return f"clusters of blocks are from sm_90 on; {target.name} has none"
    if parts not in CLUSTERS:
        return f"{', '.join(map(str, CLUSTERS[:-1]))} or {CLUSTERS[-1]} blocks of a cluster share a sum, not {parts}"
    steps = steps_of(found, shape)
    if steps is None:
        return "which steps each block of a cluster takes must be known, so the sum's length is to be fixed"
    if steps < 2 * parts:
        return f"each of {parts} blocks of a cluster takes 2 steps or more; the sum has {steps} steps of {shape.step}"
    return misfit(found, problem_of(found), shape)


def steps_of(found: Contraction, shape: Shape) -> int | None:
    """The steps of a sum; None where its length isn't known."""
    context = found.request.context
    depth = context.static(to_integer(found.k.extent, context.symbols))
    return None if depth is None else -(-depth // shape.step)


def _streams(found: Contraction) -> tuple[int, ...]:
    """Of how many waves of tiles the steps may be shared out."""
    schedule = found.request.schedule
    asked = dict(schedule.tunables)
    if STREAM.name in asked:
        return (int(asked[STREAM.name]),)
    return (0,) if schedule.block or "split" in asked else STREAMS


def _may_wait(found: Contraction) -> bool:
    """Whether threads of a device wait for each other and all come forward."""
    return found.request.target.capability >= (7, 0)


def _is_known(found: Contraction, shape: Shape) -> bool:
    """Whether fewer waves come to the same, and are among what is looked at."""
    fewer = replace(shape, stream=shape.stream - 1)
    return fewer.stream in _streams(found)[1:] and shares_of(found, fewer) == shares_of(found, shape)


def why_not_shared(found: Contraction, shape: Shape) -> str:
    """Why blocks can't share out the last waves of a shape's tiles, empty where they can."""
    asked = dict(found.request.schedule.tunables)
    if int(asked.get("split", 1)) > 1:
        return "sums are parted by `split` or shared out by `stream`, not both"
    if asked.get(JOIN.name) == "cluster":
        return "what `stream` shares out meets in the workspace, not in a cluster"
    if not _may_wait(found):
        return f"threads of {found.request.target.name} can't wait for each other"
    if shares_of(found, shape) is None:
        return "what each block takes of the last waves must be known, so sizes are to be fixed"
    return ""


def shares_of(found: Contraction, shape: Shape) -> Shares | None:
    """What each block takes of the shape's tiles; None where that isn't known or can't be."""
    context, target = found.request.context, found.request.target
    indices = (found.m, found.n, found.k, *found.batch)
    extents = [context.static(to_integer(index.extent, context.symbols)) for index in indices]
    if any(not extent for extent in extents):
        return None
    slots = resident(problem_of(found), shape, target) * device_of(target).sms
    rows, columns, depth, *batch = (extent or 0 for extent in extents)
    tiles = -(-rows // shape.rows) * -(-columns // shape.columns) * prod(batch)
    return share_out(tiles, -(-depth // shape.step), slots, shape.stream, shape.threads) if slots else None


def _divides(found: Contraction, size: int) -> bool:
    """Whether the sum is surely made of so many products a time."""
    context = found.request.context
    depth = context.static(to_integer(found.k.extent, context.symbols))
    return depth is not None and depth > 0 and depth % size == 0


def _as_asked(found: Contraction, listed: Shape) -> Shape | None:
    schedule = found.request.schedule
    block, thread, step = dict(schedule.block), dict(schedule.thread), dict(schedule.step)
    tunables = dict(schedule.tunables)
    row, column = found.m.name, found.n.name
    rows, columns = block.get(row, listed.rows), block.get(column, listed.columns)
    shape = replace(
        listed,
        rows=rows,
        columns=columns,
        thread_rows=thread.get(row, listed.thread_rows),
        thread_columns=thread.get(column, listed.thread_columns),
        step=step.get(found.k.name, listed.step),
        slices=int(tunables.get("slices", 1 if block else listed.slices)),
        order=str(tunables.get("order", listed.order)),
        raster=int(tunables.get("raster", listed.raster)),
        blocks=int(tunables.get("blocks", listed.blocks)),
        stream=int(tunables.get("stream", 0)),
    )
    if rows % shape.thread_rows or columns % shape.thread_columns:
        return None
    if shape.is_on_tensor_cores:
        return gemm_tensor.laid_out(shape, int(tunables.get("depth", 0)))
    return with_lanes(shape, int(tunables.get("lanes", 0)))


def why_none(found: Contraction, *, split: bool = False) -> Refusal:
    """What stands against the last shape that was looked at."""
    for shape in _fitting(found, split=split, every=False):
        if idle := idle_word(found, shape):
            return idle
    return Refusal(_why_none_fits(found), "schedule.block" if found.request.schedule.block else "")


def _why_none_fits(found: Contraction) -> str:
    problem = problem_of(found)
    for shape, *_ in _open_shapes(found):
        text = misfit(found, problem, shape)
        if text:
            return text
        if int(dict(found.request.schedule.tunables).get("stream", 0)):
            return why_not_shared(found, shape)
    tunables = dict(found.request.schedule.tunables)
    lanes, parts = tunables.get("lanes"), int(tunables.get("split", 1))
    if parts > 1:
        for shape, *_ in _open_shapes(found):
            texts = (why_not_apart(found, replace(shape, split=parts, join=join)) for join in _joins(found))
            if reasons := [text for text in texts if text]:
                return "; ".join(reasons)
    return f"the tile can't be shared out by warps of {lanes} lanes down" if lanes else "the tile fills no warps"
