"""Sizes of a tiled contraction: a block's tile, a thread's share of it, the step along k; and why they can't be had."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.families.contraction.recognition import Contraction, Operand, recognise
from cugen.plan.request import Refusal, Request, refuse_tunables
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, bounds
from cugen.spec.expressions import Expr

_SMALL = 64  # below this extent a block of 16 x 16 leaves fewer threads idle than one of 64 x 64
_WIDE = 2  # more sums than these leave a thread no registers for 4 x 4 of each


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a block's work: the output tile, what a thread owns of it, and how much of k is staged at a time."""

    rows: int
    columns: int
    thread_rows: int
    thread_columns: int
    step: int

    @property
    def threads_x(self) -> int:
        return self.columns // self.thread_columns

    @property
    def threads_y(self) -> int:
        return self.rows // self.thread_rows

    @property
    def is_single(self) -> bool:
        """One output element in each thread."""
        return self.thread_rows == self.thread_columns == 1


def refusals(request: Request) -> tuple[Refusal, ...]:
    """Why the group is no contraction, or why its sizes and placements can't be had."""
    found = recognise(request)
    if isinstance(found, Refusal):
        return (found,)
    reasons = [*_shape_refusals(request, found), *_placement_refusals(request, found)]
    if not reasons:
        shape = choose_shape(found)
        for operand in staged(found):
            memory = request.context.spec.array(operand.read.array).memory
            width = tile_extent(operand, shape, operand.fast, found)
            if memory.swizzle and width & (width - 1):
                key = f"arrays.{operand.read.array}.memory"
                reasons.append(Refusal(f"the xor swizzle needs rows of a power of two, not of {width}", key))
    return (*reasons, *refuse_tunables(request, ()))


def _shape_refusals(request: Request, found: Contraction) -> list[Refusal]:
    schedule = request.schedule
    allowed = {found.m.name, found.n.name}
    reasons = []
    for key, sizes in (("block", schedule.block), ("thread", schedule.thread)):
        for name, size in sizes:
            if name not in allowed and size != 1:
                reason = f"{key} sizes are for {found.m.name} and {found.n.name}, not for {name}"
                reasons.append(Refusal(reason, f"schedule.{key}.{name}"))
    for name, _ in schedule.step:
        if name != found.k.name:
            reasons.append(Refusal(f"steps along {found.k.name}, not along {name}", f"schedule.step.{name}"))
    if not reasons:
        shape = choose_shape(found)
        for name, block, thread in (
            (found.m.name, shape.rows, shape.thread_rows),
            (found.n.name, shape.columns, shape.thread_columns),
        ):
            if block % thread:
                reason = f"a thread's {thread} must divide the block's {block} along {name}"
                reasons.append(Refusal(reason, f"schedule.thread.{name}"))
    return reasons


def _placement_refusals(request: Request, found: Contraction) -> list[Refusal]:
    reasons = []
    operands = {operand.read.array for operand in found.operands}
    for array in request.touched():
        key, memory = f"arrays.{array.name}.memory", array.memory
        if array.name in operands and memory.space == "shared":
            if memory.stages > 1:
                reasons.append(Refusal(f"has one buffer of {array.name} in flight, not {memory.stages}", key))
        elif memory.space == "shared" or (memory.space == "register" and array.role != "temporary"):
            reasons.append(Refusal(f"stages its operands only; {array.name} is not one of them", key))
    if not staged(found):
        reasons.append(Refusal("stages at least one operand; the spec keeps both out of shared memory", "arrays"))
    return reasons


def staged(found: Contraction) -> list[Operand]:
    """The operands that go through a tile: those asked for, and those of which nothing is said."""
    spec = found.request.context.spec
    return [o for o in found.operands if spec.array(o.read.array).memory.space in (None, "shared", "scratch")]


def choose_shape(found: Contraction) -> Shape:
    """The schedule's sizes, completed: 64 x 64 with 4 x 4 a thread where the matrix is large enough, else 16 x 16."""
    request, schedule = found.request, found.request.schedule
    block, thread, step = dict(schedule.block), dict(schedule.thread), dict(schedule.step)
    extents = [bounds(_extent(request, i.extent), dict(request.context.ranges))[1] for i in (found.m, found.n)]
    large = not block and not thread and min(extents) >= _SMALL and len(found.sums) <= _WIDE
    size, own = (64, 4) if large else (16, 1)
    rows = block.get(found.m.name, size * thread.get(found.m.name, 1))
    columns = block.get(found.n.name, size * thread.get(found.n.name, 1))
    return Shape(
        rows,
        columns,
        thread.get(found.m.name, own),
        thread.get(found.n.name, own),
        step.get(found.k.name, 16),
    )


def tile_extent(operand: Operand, shape: Shape, name: str, found: Contraction) -> int:
    """How far the operand's tile reaches along an index."""
    if name == found.k.name:
        return shape.step
    return shape.rows if name == found.m.name else shape.columns


def _extent(request: Request, extent: Expr) -> Integer:
    return to_integer(extent, request.context.symbols)
