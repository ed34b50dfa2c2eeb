"""Small batched GEMM: a block stages the whole operands of several matrices, with no loop over k-tiles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from cugen.families.base import Family, Match, Refusal, Refusals, Request, refuse_tunables
from cugen.families.contraction.batched.config import BATCH, BatchConfig, choose_config, extent_bounds
from cugen.families.contraction.batched.kernel import Builder
from cugen.families.contraction.recognition import Contraction, recognise
from cugen.plan.kernel import Kernel
from cugen.rewrite.align_reductions import NotInStages, with_common_indices
from cugen.rewrite.fuse_dimensions import with_fused_dimensions
from cugen.spec.expressions import Reduce

_MAX_MN = 64  # extent of M and of N: the whole operands must fit shared memory
_MAX_K = 256
_THREAD_TILE_SIZES = (1, 2, 4, 8)  # elements per thread along M or N
_MIN_BATCH = 64  # below, a matrix over several blocks (`tiled`, `gemm`) fills more of a device (heuristic)


def match(request: Request) -> Match | Refusals:
    """The batched contraction with its config, or why there is none or its schedule can't be honoured."""
    contraction = recognise_batch(request)
    if isinstance(contraction, Refusal):
        return Refusals((contraction,))
    reasons = (
        *_size_refusals(contraction),
        *refuse_tunables(request, (BATCH,)),
        *_placement_refusals(contraction),
        *_schedule_refusals(contraction),
    )
    if reasons:
        return Refusals(reasons)
    config = choose_config(contraction)
    reasons = (*_batch_refusals(contraction), *_limit_refusals(contraction, config))

    def kernel() -> Kernel:
        return Builder(contraction, config).kernel()

    return Refusals(reasons) if reasons else Match(kernel)


def recognise_batch(request: Request) -> Contraction | Refusal:
    """The batched contraction of the group, its batch dimensions fused where memory allows."""
    try:
        fused = with_fused_dimensions(with_common_indices(request.group.statements, request.context), request.context)
    except NotInStages as error:
        return Refusal(str(error))
    scheduled = {name for sizes in (request.schedule.block, request.schedule.thread) for name, _ in sizes}
    contraction: Contraction | Refusal = Refusal("")
    if scheduled <= {index.name for index in fused.statements[0].indices}:
        group = replace(request.group, statements=fused.statements)
        context = replace(request.context, arrays=fused.arrays)
        contraction = recognise(replace(request, group=group, context=context))
    if isinstance(contraction, Refusal):
        contraction = recognise(request)
    if isinstance(contraction, Contraction) and not contraction.batch:
        return Refusal("takes a batch of matrices, and there is no batch index")
    return contraction


def _size_refusals(contraction: Contraction) -> Iterator[Refusal]:
    for index, limit in ((contraction.m, _MAX_MN), (contraction.n, _MAX_MN), (contraction.k, _MAX_K)):
        low, high = extent_bounds(contraction, index)
        if low != high:
            yield Refusal(f"unrolls loops over {index.name}, so its extent must be fixed")
        elif not 0 < high <= limit:
            yield Refusal(f"stages whole matrices: the extent of {index.name} may be up to {limit}, not {high}")


def _batch_refusals(contraction: Contraction) -> Iterator[Refusal]:
    count = math.prod(extent_bounds(contraction, index)[1] for index in contraction.batch)
    schedule = contraction.request.schedule
    if count < _MIN_BATCH and schedule.family != "batched" and not schedule.tunables:
        yield Refusal(f"is chosen from {_MIN_BATCH} matrices on, and these are {count}")


def _placement_refusals(contraction: Contraction) -> Iterator[Refusal]:
    operands = {operand.read.array for operand in contraction.operands}
    for array in contraction.request.touched():
        key, memory = f"arrays.{array.name}.memory", array.memory
        if array.name in operands and memory.space not in (None, "shared"):
            yield Refusal(f"stages its operands in shared memory; {array.name} is placed in {memory.space} memory", key)
        elif array.name in operands and (memory.pad or memory.swizzle or memory.dynamic or memory.stages > 1):
            yield Refusal(f"chooses the layout of {array.name} in shared memory", key)
        elif array.name not in operands and memory.space == "shared":
            yield Refusal(f"stages its operands only; {array.name} is not one of them", key)
        elif array.name not in operands and memory.space == "register" and array.role != "temporary":
            yield Refusal(f"can't hold {array.name} in registers", key)


def _schedule_refusals(contraction: Contraction) -> Iterator[Refusal]:
    schedule = contraction.request.schedule
    for key in ("block", "step"):
        if getattr(schedule, key):
            yield Refusal("has the tunable `batch` in place of block and step sizes", f"schedule.{key}")
    for name, size in schedule.thread:
        if name not in (contraction.m.name, contraction.n.name):
            yield Refusal(
                f"thread sizes are for {contraction.m.name} and {contraction.n.name}, not for {name}",
                f"schedule.thread.{name}",
            )
        elif size not in _THREAD_TILE_SIZES:
            allowed = ", ".join(map(str, _THREAD_TILE_SIZES))
            yield Refusal(f"a thread may have {allowed} elements along {name}, not {size}", f"schedule.thread.{name}")


def _limit_refusals(contraction: Contraction, config: BatchConfig) -> Iterator[Refusal]:
    target = contraction.request.target
    key = f"schedule.{BATCH.name}"
    if config.threads > target.threads_per_block:
        yield Refusal(f"a block of {config.threads} threads is too large", key)
    shared_bytes = config.shared_bytes(contraction)
    if shared_bytes > target.shared_per_block:
        yield Refusal(f"needs {shared_bytes} bytes of shared memory, {target.shared_per_block} are allowed", key)


FAMILY = Family(
    "batched",
    rank=45,
    needs=Reduce,
    doc="small batched GEMM: several matrices per block, whole operands in shared memory",
    match=match,
    tunables=(BATCH,),
)
