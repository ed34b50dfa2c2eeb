"""Elementwise statements and gathers: no loops, each thread computes one or several vectors."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.families.base import Family, Match, Refusal, Refusals, Request, Tunable, refuse_tunables
from cugen.families.map.kernel import MapKernel
from cugen.families.map.recognition import recognise
from cugen.families.map.work import Work
from cugen.pieces.elementwise import loop_refusals
from cugen.pieces.placement import useless_placements
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import integer, symbol
from cugen.spec.expressions import IndexValue, free_indices

_WIDTHS = (1, 2, 4, 8, 16)
_VECTOR = Tunable(
    "vector", _WIDTHS, "widest", "elements per access, at most 16 bytes; by default the widest that alignment allows"
)
_VECTORS = Tunable(
    "vectors",
    (1, 2, 4, 8),
    "enough",
    "vectors per thread, one block width apart; by default enough bytes in flight to hide memory latency",
)


def match(request: Request) -> Match | Refusals:
    reasons = [
        *loop_refusals(request),
        *_target_refusals(request),
        *useless_placements(request),
        *refuse_tunables(request, (_VECTOR, _VECTORS)),
    ]
    if reasons:
        return Refusals(tuple(reasons))
    work = recognise(request)
    reasons += [*_scattered_refusals(request, work), *_schedule_refusals(request, work)]
    return Refusals(tuple(reasons)) if reasons else Match(lambda: MapKernel(work).kernel())


def _target_refusals(request: Request) -> Iterator[Refusal]:
    """Stores whose subscripts don't have each index in one dimension."""
    for statement in request.group.statements:
        names: list[str] = []
        for sub in statement.subscripts:
            names += sorted(free_indices(sub))
            if len(free_indices(sub)) > 1:
                yield Refusal(f"writes {statement.target} at indices plus offsets only")
        if len(set(names)) < len(names) or set(names) != {index.name for index in statement.indices}:
            yield Refusal(f"writes {statement.target} along each index once")


def _scattered_refusals(request: Request, work: Work) -> Iterator[Refusal]:
    """Stores at other subscripts than indices plus offsets, unless they store all fields of structures, or have
    multiples of an index that isn't the contiguous one."""
    in_structures = {reference for structure in work.stored for reference in structure.fields}
    stored = [(s.target, s.subscripts) for s in work.request.stored_statements()]
    structures = {name for name, _ in stored} - {name for name, subs in stored if (name, subs) not in in_structures}
    for statement in request.group.statements:
        for sub in statement.subscripts:
            if isinstance(sub, IndexValue) or statement.target in structures:
                continue
            try:
                symbols = {**request.context.symbols, **{name: symbol(name) for name in free_indices(sub)}}
                subscript = to_integer(sub, symbols)
            except NotAnInteger:
                subscript = integer(0)
            factors = {n: 1 if n == work.along else subscript.expand().coeff(symbol(n)) for n in free_indices(sub)}
            if any(symbol(n) in (subscript - f * symbol(n)).expand().free_symbols for n, f in factors.items()):
                yield Refusal(f"writes {statement.target} at indices plus offsets only")


def _schedule_refusals(request: Request, work: Work) -> Iterator[Refusal]:
    block, sides = dict(request.schedule.block), [index.name for index in work.order[:2]]
    for name, size in request.schedule.block:
        if name not in [index.name for index in request.group.statements[0].indices]:
            yield Refusal(f"has blocks over output indices only, and {name} is none", f"schedule.block.{name}")
        elif size != 1 and name not in sides:
            yield Refusal(f"a block has one {name}; its axes are {' and '.join(sides)}", f"schedule.block.{name}")
    for name, size in request.schedule.thread:
        if name != work.along and size != 1:
            yield Refusal(f"a thread's elements are consecutive along {work.along}", f"schedule.thread.{name}")
    if request.schedule.step:
        yield Refusal("has no tiled loop to step through", "schedule.step")
    for width, key in work.requested_widths():
        per_thread = width * (work.requested_vectors() or 1)
        if width not in _WIDTHS:
            yield Refusal(f"a thread may have {', '.join(map(str, _WIDTHS))} elements, not {width}", key)
        elif width > work.max_width.count:
            yield Refusal(f"{width} elements per access are too many: {work.max_width.reason}", key)
        elif block.get(work.along, per_thread) % per_thread:
            reason = f"a thread's {per_thread} elements don't divide the block's {block[work.along]}"
            yield Refusal(reason, f"schedule.block.{work.along}")
    if len({width for width, _ in work.requested_widths()}) > 1:
        yield Refusal("vector and thread both set the vector width, and they differ", "schedule.vector")


FAMILY = Family(
    "map",
    rank=10,
    doc="statements without loops, gathers included: vectors of consecutive elements in each thread",
    match=match,
    tunables=(_VECTOR, _VECTORS),
    guards_results=True,
    elementwise=True,
)
