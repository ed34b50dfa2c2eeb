"""Recognises reductions whose elements go into one result each, in their plainest form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cugen.pieces.vectors import divisor
from cugen.plan.memory import Array
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import Integer, bounds, integer, symbol
from cugen.rewrite.align_reductions import NotInStages, collected, with_common_indices
from cugen.rewrite.fuse_dimensions import Plain, merged
from cugen.spec import expressions as spec
from cugen.spec.expressions import Const, Expr, IndexValue, Read, Reduce, free_indices, walk
from cugen.spec.model import Statement

IN_MEMORY = ("global", "readonly")  # where it matters that lanes read neighbours


@dataclass(frozen=True, slots=True)
class Stage:
    """Reductions over the same indices, the fastest last; `reads` are those that move with them.

    `extremes` holds each max and min whose result an argmax or argmin among the reductions has anyway."""

    indices: tuple[spec.Index, ...]
    reductions: tuple[Reduce, ...]
    reads: tuple[Read, ...]
    extremes: tuple[tuple[Reduce, Reduce], ...] = ()

    @property
    def fastest(self) -> spec.Index:
        return self.indices[-1]


@dataclass(frozen=True, slots=True)
class Reduction:
    """What a group computes over as few indices as memory allows: `kept` are the output's, the fastest first, `stages`
    the reductions, in an order in which each needs only results of those before it.

    `along` is the index whose neighbours are neighbours in memory where that one is kept: then threads take columns.
    Where it is empty, each stage's fastest index is that."""

    request: Request  # its statements hold the reductions of the stages
    unified: tuple[Statement, ...]  # the statements before indices were merged
    arrays: Mapping[str, Array]
    origins: Mapping[str, tuple[spec.Index, ...]]  # what each index that stands for several was merged from
    kept: tuple[spec.Index, ...]
    stages: tuple[Stage, ...]
    along: str

    def extent(self, index: spec.Index) -> Integer:
        return to_integer(index.extent, self.request.context.symbols)

    def most(self, index: spec.Index) -> int:
        """The greatest extent that the index can have."""
        return bounds(self.extent(index), dict(self.request.context.ranges))[1]


def recognise(request: Request) -> Reduction | Refusal:
    """The reductions that the group's statements hold, or why they can't be spread over threads."""
    statements = request.group.statements
    try:
        if not collected(statements):
            return Refusal("takes reductions, and there are none")
    except NotInStages as error:
        return Refusal(str(error))
    refusal = _form_refusal(statements)
    if refusal is not None:
        return refusal
    unified = with_common_indices(statements, request.context)
    return _oriented(request, unified, merged(unified, request.context))


def _form_refusal(statements: tuple[Statement, ...]) -> Refusal | None:
    written = [statement.target for statement in statements]
    for statement in statements:
        if not all(isinstance(sub, IndexValue | Const) for sub in statement.subscripts):
            return Refusal(f"writes {statement.target} at bare indices only")
    for read in _reads_inside(statements):
        if read.array in written:
            return Refusal(f"{read.array} is read inside the reduction and written: threads would see both")
    return None


def _reads_inside(statements: tuple[Statement, ...]) -> Iterator[Read]:
    for statement in statements:
        for reduction in (node for node in walk(statement.value) if isinstance(node, Reduce)):
            yield from (node for node in walk(reduction) if isinstance(node, Read))


def _oriented(request: Request, unified: tuple[Statement, ...], plain: Plain) -> Reduction | Refusal:
    """The stages with their indices in the order of memory, all in rows or all in columns."""
    kept = _fastest_first(plain)
    names = [index.name for index in kept]
    stages: list[Stage] = []
    columns: list[str] = []
    for reductions in collected(plain.statements):
        stage = _stage(request, plain, names, reductions)
        if isinstance(stage, Refusal):
            return stage
        stages.append(stage[0])
        columns.append(stage[1])
    if len(set(columns)) > 1:
        return Refusal("takes reductions along rows or along columns, not both in one launch")
    along = columns[0]
    if along:
        kept = (*(i for i in kept if i.name == along), *(i for i in kept if i.name != along))
    group = replace(request.group, statements=plain.statements)
    return Reduction(replace(request, group=group), unified, plain.arrays, plain.origins, kept, tuple(stages), along)


def _stage(
    request: Request, plain: Plain, kept: list[str], reductions: tuple[Reduce, ...]
) -> tuple[Stage, str] | Refusal:
    """One stage, and the kept index along which its elements are neighbours, empty where it's a reduced one."""
    indices = reductions[0].indices
    own = {index.name for index in indices}
    inside = {node: None for r in reductions for node in own_nodes(r) if isinstance(node, Read)}
    moving = tuple(read for read in inside if free_indices(read) & own)
    for read in moving:
        if not _is_plain(read, own, indices, kept, request):
            return Refusal(f"reads at bare indices only; {read.array} is read beside them")
    if not moving:
        return Refusal("reduces elements of memory; here all come from indices")
    largest = max(moving, key=lambda read: len(free_indices(read) & {*own, *kept}))
    if not set(kept) <= free_indices(largest):
        return Refusal("reads each element for one result; here several results share all that they read")
    steps = _steps(largest, plain, {*own, *kept}, request)
    fastest = _smallest(steps, request)
    if fastest is None:
        return Refusal(f"which elements of {largest.array} are neighbours depends on params")
    size = len(free_indices(largest) & {*own, *kept})
    for read in moving:
        if len(free_indices(read) & {*own, *kept}) < size or plain.arrays[read.array].space not in IN_MEMORY:
            continue
        if _smallest(_steps(read, plain, {*own, *kept}, request), request) != fastest:
            return Refusal(f"neighbours along {fastest} are no neighbours in {read.array}")
    order = tuple(sorted(indices, key=lambda index: _slowness(index, steps, fastest, request)))
    extremes = tuple((r, place) for r in reductions if (place := _place_of(r, reductions)) is not None)
    taken = tuple(r for r in reductions if all(r != extreme for extreme, _ in extremes))
    return Stage(order, taken, moving, extremes), "" if fastest in own else fastest


def _place_of(reduction: Reduce, others: tuple[Reduce, ...]) -> Reduce | None:
    """The argmax or argmin that finds where the greatest or least value is."""
    same = (reduction.body, reduction.where, reduction.dtype)
    found = (o for o in others if o.kind == f"arg{reduction.kind}" and (o.body, o.where, o.body.dtype) == same)
    return next(found, None)


def own_nodes(reduction: Reduce) -> Iterator[Expr]:
    """All nodes of the terms and conditions, those of reductions inside left out."""
    open_: list[Expr] = list(spec.children(reduction))
    while open_:
        expr = open_.pop(0)
        if not isinstance(expr, Reduce):
            yield expr
            open_ += spec.children(expr)


def _is_plain(read: Read, own: set[str], indices: tuple[spec.Index, ...], kept: list[str], request: Request) -> bool:
    """Whether the reduced indices occur bare, or next to what moves whole stretches of them; the others anyhow."""
    if read.boundary is not None:
        return False
    symbols = {**request.context.symbols, **{name: symbol(name) for name in (*own, *kept)}}
    for sub in read.subscripts:
        used = free_indices(sub) & own
        if not used or isinstance(sub, IndexValue):
            continue
        if len(used) != 1 or any(isinstance(node, Read) for node in walk(sub)):
            return False
        (name,) = used
        try:
            whole = to_integer(sub, symbols)
        except NotAnInteger:
            return False
        rest = (whole - symbol(name)).expand()
        (index,) = (index for index in indices if index.name == name)
        extent = to_integer(index.extent, request.context.symbols)
        moved = [other for other in kept if symbol(other) in rest.free_symbols]
        if symbol(name) in rest.free_symbols or len(moved) != 1:
            return False
        stride = rest.coeff(symbol(moved[0]))
        if symbol(moved[0]) in (rest - stride * symbol(moved[0])).free_symbols or (stride - extent).expand() != 0:
            return False
    return True


def _steps(read: Read, plain: Plain, names: set[str], request: Request) -> dict[str, Integer]:
    """How far apart neighbours along each index are in memory, as far as they are equally far everywhere."""
    array = plain.arrays[read.array]
    symbols = {**request.context.symbols, **{name: symbol(name) for name in names}}
    found: dict[str, Integer] = {}
    for sub, stride in zip(read.subscripts, array.strides, strict=True):
        for name in sorted(free_indices(sub) & names):
            try:
                place = to_integer(sub, symbols).expand()
            except NotAnInteger:
                continue
            step = place.coeff(symbol(name))
            if symbol(name) not in (place - step * symbol(name)).free_symbols:
                found[name] = found.get(name, integer(0)) + stride * step
    return found


def _smallest(steps: Mapping[str, Integer], request: Request) -> str | None:
    """The index with the least stride, where that is sure."""
    ones = [name for name, stride in steps.items() if stride == 1]
    if ones:
        return ones[-1]
    known = {name: request.context.static(stride) for name, stride in steps.items()}
    fixed = {name: value for name, value in known.items() if value is not None}
    return min(fixed, key=lambda name: fixed[name]) if fixed and len(fixed) == len(steps) else None


def _slowness(index: spec.Index, steps: Mapping[str, Integer], fastest: str, request: Request) -> tuple[int, int]:
    """Sorts the fastest index last, and those that memory doesn't order before it as they are written."""
    if index.name == fastest:
        return (1, 0)
    stride = steps.get(index.name)
    if stride is None:
        return (0, 0)
    return (0, -max(bounds(stride, dict(request.context.ranges))[1], divisor(stride, request.context)))


def _fastest_first(plain: Plain) -> tuple[spec.Index, ...]:
    """The output's indices, the one that walks it contiguously first, then from the right to the left."""
    statement = plain.statements[0]
    target = plain.arrays[statement.target]
    order = list(reversed(statement.indices))
    for sub, stride in zip(statement.subscripts, target.strides, strict=True):
        if stride == 1 and isinstance(sub, IndexValue):
            order.sort(key=lambda index: index.name != sub.name)
    return tuple(order)
