"""Statements without loops: each thread computes vectors of neighbours, or several elements."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.families.base import Family
from cugen.families.map.kernel import MapKernel
from cugen.families.map.work import Work, recognise
from cugen.pieces.elementwise import loop_refusals, placement_refusals
from cugen.plan.kernel import Kernel
from cugen.plan.request import Refusal, Request, Tunable, refuse_tunables
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import integer, symbol
from cugen.spec.expressions import IndexValue, free_indices

_SIZES = (1, 2, 4, 8, 16)
_COUNTS = (1, 2, 4, 8)
_VECTOR = Tunable(
    "vector",
    _SIZES,
    "widest",
    "elements that one access moves, 16 bytes at most; by default as many as alignment allows",
)
_VECTORS = Tunable(
    "vectors",
    _COUNTS,
    "enough",
    "vectors in each thread, a block's width apart; by default as many as keep memory busy",
)


def refusals(request: Request) -> tuple[Refusal, ...]:
    found = [
        *loop_refusals(request),
        *_target_refusals(request),
        *placement_refusals(request, {}),
        *refuse_tunables(request, (_VECTOR, _VECTORS)),
    ]
    return tuple(found) if found else tuple(_schedule_refusals(request, recognise(request)))


def _target_refusals(request: Request) -> Iterator[Refusal]:
    """Elements are written in the order of their indices, from wherever the first of them is."""
    for statement in request.group.statements:
        names: list[str] = []
        for sub in statement.subscripts:
            moved = sorted(free_indices(sub))
            names += moved
            if isinstance(sub, IndexValue) or not moved:
                continue
            try:
                place = to_integer(sub, {**request.context.symbols, **{name: symbol(name) for name in moved}})
            except NotAnInteger:
                place = integer(0)
            if len(moved) > 1 or symbol(moved[0]) in (place - symbol(moved[0])).expand().free_symbols:
                yield Refusal(f"writes {statement.target} at indices and behind them only")
        if len(set(names)) < len(names) or set(names) != {index.name for index in statement.indices}:
            yield Refusal(f"writes {statement.target} along each index once")


def _schedule_refusals(request: Request, work: Work) -> Iterator[Refusal]:
    block, sides = dict(request.schedule.block), [index.name for index in work.order[:2]]
    for name, size in request.schedule.block:
        if name not in [index.name for index in request.group.statements[0].indices]:
            yield Refusal(f"has blocks over output indices only, and {name} is none", f"schedule.block.{name}")
        elif size != 1 and name not in sides:
            yield Refusal(f"a block has one {name}: it is flat along {' and '.join(sides)}", f"schedule.block.{name}")
    for name, size in request.schedule.thread:
        if name != work.along and size != 1:
            yield Refusal(f"a thread's elements are neighbours along {work.along}", f"schedule.thread.{name}")
    if request.schedule.step:
        yield Refusal("stages nothing step by step", "schedule.step")
    for asked, key in work.asked_width():
        own = asked * (work.asked_vectors() or 1)
        if asked not in _SIZES:
            yield Refusal(f"a thread may have {', '.join(map(str, _SIZES))} elements, not {asked}", key)
        elif asked > work.most.count:
            yield Refusal(f"{asked} elements at once are too many: {work.most.reason}", key)
        elif block.get(work.along, own) % own:
            reason = f"a thread's {own} elements don't divide the block's {block[work.along]}"
            yield Refusal(reason, f"schedule.block.{work.along}")
    if len({asked for asked, _ in work.asked_width()}) > 1:
        yield Refusal("vector and thread are the same number here, and they differ", "schedule.vector")


def build(request: Request) -> Kernel:
    return MapKernel(recognise(request)).kernel()


FAMILY = Family(
    "map",
    rank=10,
    doc="statements without loops, whatever they read: vectors of neighbours in each thread",
    refusals=refusals,
    build=build,
    tunables=(_VECTOR, _VECTORS),
)
