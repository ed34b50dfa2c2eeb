"""Statements that turn their input: a tile is read along the input's rows and written along the output's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.families.base import Family
from cugen.families.transpose.config import STATIC, Turn, choose_brick, shared_bytes
from cugen.families.transpose.packed_tile import BrickKernel
from cugen.families.transpose.shifted_rows import ShiftedKernel
from cugen.families.transpose.square_tile import SquareKernel, choose_square
from cugen.pieces.elementwise import IN_MEMORY, certain_reads, form_refusals, placement_refusals
from cugen.pieces.vectors import is_contiguous
from cugen.plan.kernel import Kernel
from cugen.plan.request import Refusal, Request, refuse_tunables
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import bounds
from cugen.rewrite.dense_indices import Form, canonical, walking_order
from cugen.spec import expressions as spec
from cugen.spec.expressions import IndexValue, Read

_LITTLE = 8  # below this extent most of a tile would stay empty


def refusals(request: Request) -> tuple[Refusal, ...]:
    found = list(form_refusals(request))
    if found:
        return tuple(found)
    turn = _recognise(request)
    if isinstance(turn, Refusal):
        return (turn,)
    staged = {read.array: None for read in turn.reads}
    found += [*placement_refusals(request, staged), *_memory_refusals(request, staged), *refuse_tunables(request, ())]
    found += _schedule_refusals(request, turn)
    if not found:
        found += _size_refusals(turn)
    return tuple(found)


def _recognise(request: Request) -> Turn | Refusal:
    placed = any(array.memory.space == "shared" for array in request.touched())
    form = Form(request.group.statements, request.context.arrays) if placed else canonical(request)
    request = replace(request, group=replace(request.group, statements=form.statements))
    order = walking_order(request, form)
    answers = [_turned(request, form, across, order) for across in order if _is_row(form, across)]
    if not answers:
        return Refusal(f"neighbours along {order[0].name} are no neighbours in every output")
    # More than one answer is left only where an extent of 1 makes rows and columns the same.
    return next((answer for answer in answers if isinstance(answer, Turn)), answers[0])


def _is_row(form: Form, across: spec.Index) -> bool:
    """Whether the outputs' rows run along the index."""
    return all(is_contiguous(form.arrays[s.target], s.subscripts, across.name) for s in form.statements)


def _turned(request: Request, form: Form, across: spec.Index, order: tuple[spec.Index, ...]) -> Turn | Refusal:
    down: dict[str, Read] = {}
    reads = []
    for read in certain_reads(request, form.arrays):
        name = _row_index(request, form, read, across.name)
        if name is not None:
            down.setdefault(name, read)
            reads.append(read)
    if not reads:
        return Refusal(f"no input has rows along another index than the output's, {across.name}")
    if len(down) > 1:
        arrays = " and ".join(read.array for read in down.values())
        return Refusal(f"turns inputs one way only; the rows of {arrays} run along {' and '.join(down)}")
    (name,) = down
    second = next(index for index in order if index.name == name)
    rest = tuple(index for index in order if index.name not in (across.name, name))
    return Turn(request, form.arrays, across, second, (across, second, *rest), tuple(reads))


def _row_index(request: Request, form: Form, read: Read, across: str) -> str | None:
    """The index along the rows of what is read, where the output's rows cross them."""
    declared, array = request.context.spec.array(read.array), form.arrays[read.array]
    names = [sub.name for sub in read.subscripts if isinstance(sub, IndexValue)]
    if declared.memory.space not in (None, "shared", "readonly") or array.space not in IN_MEMORY:
        return None
    if names.count(across) != 1:
        return None
    rows = [name for name in names if name != across and is_contiguous(array, read.subscripts, name)]
    return rows[-1] if rows else None


def _is_laid_out(turn: Turn) -> bool:
    """Whether the spec says what the tile is."""
    request = turn.request
    placed = any(request.context.spec.array(read.array).memory.space == "shared" for read in turn.reads)
    return placed or bool(request.schedule.block or request.schedule.thread)


def _memory_refusals(request: Request, staged: dict[str, None]) -> Iterator[Refusal]:
    for name in staged:
        memory = request.context.spec.array(name).memory
        if memory.stages > 1:
            yield Refusal(f"fills the tile of {name} once: there is nothing to pipeline", f"arrays.{name}.memory")


def _schedule_refusals(request: Request, turn: Turn) -> Iterator[Refusal]:
    schedule, sides = request.schedule, (turn.across.name, turn.down.name)
    for key, sizes in (("block", schedule.block), ("thread", schedule.thread)):
        for name, size in sizes:
            if name not in sides and size != 1:
                reason = f"{key} sizes are for {' and '.join(sides)}, not for {name}"
                yield Refusal(reason, f"schedule.{key}.{name}")
    if schedule.step:
        yield Refusal("stages its tile at once, not step by step", "schedule.step")
    block = [size for name, size in schedule.block if name in sides]
    rows = [size for name, size in schedule.thread if name in sides and size != 1]
    if len(set(block)) > 1:
        yield Refusal(f"its tile is a square, not {' x '.join(map(str, block))}", "schedule.block")
    if len(rows) > 1:
        yield Refusal("a thread's elements lie in one column of the tile", "schedule.thread")


def _size_refusals(turn: Turn) -> Iterator[Refusal]:
    request, context = turn.request, turn.request.context
    if _is_laid_out(turn):
        tile = choose_square(turn)
        if tile.size % tile.rows:
            yield Refusal(f"a thread's {tile.rows} rows must divide the tile's {tile.size}", "schedule.thread")
        for read in turn.reads:
            if context.spec.array(read.array).memory.swizzle and tile.size & (tile.size - 1):
                key = f"arrays.{read.array}.memory"
                yield Refusal(f"the xor swizzle needs a tile of a power of two, not of {tile.size}", key)
    elif (count := shared_bytes(turn, choose_brick(turn))) > STATIC:
        yield Refusal(f"{len(turn.reads)} tiles at once take {count} bytes of shared memory")
    asked = any(context.spec.array(read.array).memory.space == "shared" for read in turn.reads)
    if request.schedule.family is None and not asked:
        for index in (turn.across, turn.down):
            count = bounds(to_integer(index.extent, context.symbols), context.ranges)[1]
            if count < _LITTLE:
                yield Refusal(f"with {count} along {index.name} most of a tile would stay empty")


def build(request: Request) -> Kernel:
    turn = _recognise(request)
    assert isinstance(turn, Turn)
    if _is_laid_out(turn):
        return SquareKernel(turn, choose_square(turn)).kernel()
    brick = choose_brick(turn)
    return (ShiftedKernel if brick.shift else BrickKernel)(turn, brick).kernel()


FAMILY = Family(
    "transpose",
    rank=20,
    doc="inputs whose rows become the output's columns, turned in a tile of shared memory",
    refusals=refusals,
    build=build,
)
