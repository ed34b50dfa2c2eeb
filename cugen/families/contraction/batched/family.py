"""Many small products: a block stages the whole matrices of several, and threads own a few elements of each result."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from cugen.families.base import Family
from cugen.families.contraction.batched.config import PRODUCTS, choose_shape, extent_of
from cugen.families.contraction.batched.kernel import Builder
from cugen.families.contraction.recognition import Contraction, recognise
from cugen.plan.kernel import Kernel
from cugen.plan.request import Refusal, Request, refuse_tunables
from cugen.rewrite.align_reductions import NotInStages, with_common_indices
from cugen.rewrite.fuse_dimensions import merged

_LONGEST = 64  # rows and columns of a small matrix
_DEEPEST = 256  # of the summed index
_SIZES = (1, 2, 4, 8)
_ENOUGH = 64  # products; of fewer, each is better spread over several blocks


def refusals(request: Request) -> tuple[Refusal, ...]:
    found = find(request)
    if isinstance(found, Refusal):
        return (found,)
    reasons = [*_size_refusals(found), *refuse_tunables(request, (PRODUCTS,))]
    reasons += [*_placement_refusals(found), *_schedule_refusals(found)]
    return tuple(reasons or (*_count_refusals(found), *_room_refusals(found)))


def find(request: Request) -> Contraction | Refusal:
    """The products that the group computes, over one batch index where memory has several as one."""
    try:
        plain = merged(with_common_indices(request.group.statements, request.context), request.context)
    except NotInStages as error:
        return Refusal(str(error))
    asked = {name for sizes in (request.schedule.block, request.schedule.thread) for name, _ in sizes}
    found: Contraction | Refusal = Refusal("")
    if asked <= {index.name for index in plain.statements[0].indices}:
        group = replace(request.group, statements=plain.statements)
        context = replace(request.context, arrays=plain.arrays)
        found = recognise(replace(request, group=group, context=context))
    if isinstance(found, Refusal):
        found = recognise(request)
    if isinstance(found, Contraction) and not found.batch:
        return Refusal("takes many products, and this is one")
    return found


def _size_refusals(found: Contraction) -> Iterator[Refusal]:
    for index, most in ((found.m, _LONGEST), (found.n, _LONGEST), (found.k, _DEEPEST)):
        low, high = extent_of(found, index)
        if low != high:
            yield Refusal(f"writes loops along {index.name} out, so its extent must be fixed")
        elif not 0 < high <= most:
            yield Refusal(f"holds whole matrices: {index.name} has up to {most} values, not {high}")


def _count_refusals(found: Contraction) -> Iterator[Refusal]:
    count = math.prod(extent_of(found, index)[1] for index in found.batch)
    schedule = found.request.schedule
    if count < _ENOUGH and schedule.family != "batched" and not schedule.tunables:
        yield Refusal(f"pays from {_ENOUGH} products on, and these are {count}")


def _placement_refusals(found: Contraction) -> Iterator[Refusal]:
    operands = {operand.read.array for operand in found.operands}
    for array in found.request.touched():
        key, memory = f"arrays.{array.name}.memory", array.memory
        if array.name in operands and memory.space not in (None, "shared"):
            yield Refusal(f"stages its operands; {array.name} is to stay in {memory.space} memory", key)
        elif array.name in operands and (memory.pad or memory.swizzle or memory.dynamic or memory.stages > 1):
            yield Refusal(f"lays out the tiles of {array.name} itself", key)
        elif array.name not in operands and memory.space == "shared":
            yield Refusal(f"stages its operands only; {array.name} is not one of them", key)
        elif array.name not in operands and memory.space == "register" and array.role != "temporary":
            yield Refusal(f"has no use for all of {array.name} in registers", key)


def _schedule_refusals(found: Contraction) -> Iterator[Refusal]:
    schedule = found.request.schedule
    for key in ("block", "step"):
        if getattr(schedule, key):
            yield Refusal("has `products` in place of a block and a step", f"schedule.{key}")
    for name, size in schedule.thread:
        if name not in (found.m.name, found.n.name):
            yield Refusal(f"a thread owns rows and columns, not {name}", f"schedule.thread.{name}")
        elif size not in _SIZES:
            allowed = ", ".join(map(str, _SIZES))
            yield Refusal(f"a thread may have {allowed} elements along {name}, not {size}", f"schedule.thread.{name}")


def _room_refusals(found: Contraction) -> Iterator[Refusal]:
    shape, limits = choose_shape(found), found.request.target
    if shape.threads > limits.threads_per_block:
        yield Refusal(f"a block of {shape.threads} threads is too large", "schedule.products")
    bytes_ = shape.shared_bytes(found)
    if bytes_ > limits.shared_per_block:
        reason = f"its matrices take {bytes_} bytes of shared memory, {limits.shared_per_block} are allowed"
        yield Refusal(reason, "schedule.products")


def build(request: Request) -> Kernel:
    found = find(request)
    assert isinstance(found, Contraction)
    return Builder(found, choose_shape(found)).kernel()


FAMILY = Family(
    "batched",
    rank=45,
    doc="many small products, several to a block, each held whole in shared memory",
    refusals=refusals,
    build=build,
    tunables=(PRODUCTS,),
)
