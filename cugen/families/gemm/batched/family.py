"""Small batched GEMM: a block stages the whole operands of several matrices, with no loop over k-tiles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from cugen.families.base import Family, Match, Refusal, Refusals, Request, refuse_tunables
from cugen.families.contraction.contraction import Contraction, Operand
from cugen.families.contraction.recognition import recognise, request_refusals
from cugen.families.gemm.batched.config import BATCH, BatchConfig, choose_config
from cugen.families.gemm.batched.kernel import BatchedKernel
from cugen.machine.requests.warp import WARP_SIZE
from cugen.spec.expressions import Reduce, free_indices

_MAX_MN = 64  # extent of M and of N: the whole operands must fit shared memory
_MAX_K = 256
_THREAD_TILE_SIZES = (1, 2, 4, 8)  # elements per thread along M or N
_MIN_THREADS = 16  # of a block; with fewer, one for each output takes less time by the model (heuristic)
_MAX_COPIES = 8  # of the elements of both operands; beyond, they are those of larger matrices (heuristic)
_MIN_BATCH = 64  # below, a matrix over several blocks (`tiled`, `gemm`) fills more of a device (heuristic)


def match(request: Request) -> Match | Refusals:
    """The batched contraction with its config, or why there is none or its schedule can't be honoured."""
    contraction = recognise(request, fuses_batch=True)
    if isinstance(contraction, Refusal):
        return Refusals((contraction,))
    if not contraction.batch:
        return Refusals((Refusal("takes a batch of matrices, and there is no batch index"),))
    reasons = (
        *_size_refusals(contraction),
        *refuse_tunables(request, (BATCH,)),
        *_placement_refusals(contraction),
        *_schedule_refusals(contraction),
        *request_refusals(contraction),
    )
    if reasons:
        return Refusals(reasons)
    config = choose_config(contraction)
    reasons = tuple(_config_refusals(contraction, config))
    return Refusals(reasons) if reasons else Match(BatchedKernel(contraction, config).kernel)


def _size_refusals(contraction: Contraction) -> Iterator[Refusal]:
    for index, limit in ((contraction.m, _MAX_MN), (contraction.n, _MAX_MN), (contraction.k, _MAX_K)):
        extent = contraction.context.static_extent(index)
        if extent is None:
            yield Refusal(f"unrolls loops over {index.name}, so its extent must be fixed")
        elif not 0 < extent <= limit:
            yield Refusal(f"stages whole matrices: the extent of {index.name} may be up to {limit}, not {extent}")


def _placement_refusals(contraction: Contraction) -> Iterator[Refusal]:
    for operand in contraction.operands:
        name, memory = operand.read.array, operand.memory
        key = f"arrays.{name}.memory"
        if memory.space not in (None, "scratch", "shared", "readonly", "texture", "register"):
            yield Refusal(f"stages its operands in shared memory; {name} is placed in {memory.space} memory", key)
        elif memory.pad or memory.swizzle or memory.dynamic or memory.stages > 1:
            yield Refusal(f"chooses the layout of {name} in shared memory", key)


def _schedule_refusals(contraction: Contraction) -> Iterator[Refusal]:
    schedule = contraction.request.schedule
    for key in ("block", "step"):
        if getattr(schedule, key):
            yield Refusal("has the tunable `batch` in place of block and step sizes", f"schedule.{key}")
    for name, size in schedule.thread:
        if size not in _THREAD_TILE_SIZES:
            allowed = ", ".join(map(str, _THREAD_TILE_SIZES))
            yield Refusal(f"a thread may have {allowed} elements along {name}, not {size}", f"schedule.thread.{name}")


def _config_refusals(contraction: Contraction, config: BatchConfig) -> Iterator[Refusal]:
    """The limits of a block. Few matrices, and those that fill shared memory before their threads make up a warp, as
    with a long K and few outputs, are refused unless the spec requests this family, as are blocks of a few threads for
    the few small matrices along the last batch index."""
    target, schedule, key = contraction.request.target, contraction.request.schedule, f"schedule.{BATCH.name}"
    is_requested = schedule.family == "batched" or bool(schedule.tunables)
    count = math.prod(map(contraction.context.max_extent, contraction.batch))
    if count < _MIN_BATCH and not is_requested:
        yield Refusal(f"is chosen from {_MIN_BATCH} matrices on, and these are {count}")
    copies = min(_copies(contraction, operand) for operand in contraction.operands)
    if copies > _MAX_COPIES and not is_requested:
        yield Refusal(f"stages each matrix of both operands up to {_MAX_COPIES} times, not {copies} times")
    if config.threads > target.threads_per_block:
        yield Refusal(f"a block of {config.threads} threads is too large", key)
    if config.shared_bytes > target.shared_per_block:
        yield Refusal(f"needs {config.shared_bytes} bytes of shared memory, {target.shared_per_block} are allowed", key)
    last = contraction.batch[0]
    max_threads = contraction.context.max_extent(last) * config.threads_per_matrix
    if max_threads < _MIN_THREADS and not is_requested:
        yield Refusal(f"all matrices along {last.name} take {max_threads} threads")
    of_a_warp = replace(config, batch=-(-WARP_SIZE // config.threads_per_matrix))
    if of_a_warp.shared_bytes > target.shared_per_block and of_a_warp.batch > 1 and not is_requested:
        yield Refusal(f"the matrices of a warp's threads need {of_a_warp.shared_bytes} bytes of shared memory")


def _copies(contraction: Contraction, operand: Operand) -> int:
    """The matrices of the batch that have the same elements of an operand."""
    read = free_indices(operand.read)
    return math.prod(contraction.context.max_extent(index) for index in contraction.batch if index.name not in read)


FAMILY = Family(
    "batched",
    rank=45,
    needs=Reduce,
    doc="small batched GEMM: several matrices per block, whole operands in shared memory",
    match=match,
    tunables=(BATCH,),
)
