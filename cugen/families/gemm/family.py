"""Large products: warps compute outer products of operands that stream through a ring of stages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cugen.families.base import Family
from cugen.families.contraction.recognition import Contraction, recognise
from cugen.families.gemm.config import TUNABLES, Shape
from cugen.families.gemm.heuristic import candidates as schedules
from cugen.families.gemm.heuristic import choose_shape, reason, shares_of, steps_of
from cugen.families.gemm.kernel import GemmKernel
from cugen.families.gemm.problem import most
from cugen.families.gemm.split.cluster import ClusterKernel
from cugen.families.gemm.split.split_k import SplitKernel
from cugen.families.gemm.split.stream_k import StreamKernel
from cugen.plan.kernel import Kernel
from cugen.plan.request import Refusal, Request, refuse_tunables
from cugen.spec.model import Schedule

_LEAST = 16  # rows and columns, of which the smallest tile leaves half idle
_WORTHWHILE = 1 << 22  # products; fewer are over before a ring is full


def refusals(request: Request) -> tuple[Refusal, ...]:
    """Why the group is no product, or none of the kind, size and placement that this family computes."""
    found = recognise(request)
    if isinstance(found, Refusal):
        return (found,)
    reasons = [*_form_refusals(found), *_placement_refusals(found), *refuse_tunables(request, TUNABLES)]
    if reasons:
        return tuple(reasons)
    return (*_schedule_refusals(found), *_size_refusals(found))


def _form_refusals(found: Contraction) -> Iterator[Refusal]:
    if len(found.sums) > 1 or len(found.operands) > 2:
        yield Refusal("takes one sum of products of two arrays")
    if found.conditions:
        yield Refusal("takes sums over the whole of an index, without a condition")


def _placement_refusals(found: Contraction) -> Iterator[Refusal]:
    request = found.request
    operands = {operand.read.array for operand in found.operands}
    depths = {}
    for array in request.touched():
        key, memory = f"arrays.{array.name}.memory", array.memory
        if array.name not in operands:
            if memory.space == "shared" or (memory.space == "register" and array.role != "temporary"):
                yield Refusal(f"stages its operands only; {array.name} is not one of them", key)
        elif memory.space == "shared":
            if memory.stages < 2:
                yield Refusal(f"has several stages of {array.name} in flight, not one", key)
            if memory.swizzle:
                yield Refusal(f"reads neighbours of {array.name} at once, which a swizzle takes apart", key)
            depths[array.name] = memory.stages
        elif memory.space not in (None, "scratch"):
            yield Refusal(f"stages its operands; {array.name} is kept out of shared memory", key)
    if len(set(depths.values())) > 1:
        yield Refusal("has as many stages of one operand as of the other", f"arrays.{next(iter(depths))}.memory")


def _schedule_refusals(found: Contraction) -> Iterator[Refusal]:
    schedule = found.request.schedule
    tiles = {found.m.name, found.n.name}
    for key, sizes, allowed in (
        ("block", schedule.block, tiles),
        ("thread", schedule.thread, tiles),
        ("step", schedule.step, {found.k.name}),
    ):
        for name, size in sizes:
            if name not in allowed and size != 1:
                known = " and ".join(sorted(allowed))
                yield Refusal(f"{key} sizes are for {known}, not for {name}", f"schedule.{key}.{name}")
    tunables = dict(schedule.tunables)
    if tunables.get("cores") == "tensor" or "depth" in tunables:
        for key in ("lanes", "order", "reads", "copies"):
            if key in tunables:
                yield Refusal(f"{key} is what tensor cores decide", f"schedule.{key}")
    if schedule.block and not schedule.thread:
        yield Refusal("takes a block together with what each thread owns of it", "schedule.block")
        return
    shape = choose_shape(found, split=True)
    if isinstance(shape, Refusal):
        yield shape


def _size_refusals(found: Contraction) -> Iterator[Refusal]:
    """Small products are over before several stages pay; unless the spec asks for what only this family has."""
    request = found.request
    spec, schedule = request.context.spec, request.schedule
    staged = any(spec.array(operand.read.array).memory.stages > 1 for operand in found.operands)
    if staged or schedule.family == "gemm" or schedule.tunables:
        return
    if min(most(found, found.m.name), most(found, found.n.name)) < _LEAST:
        yield Refusal(f"takes matrices of {_LEAST} rows and columns or more")
    count = 1
    for index in (found.m, found.n, found.k, *found.batch):
        count *= most(found, index.name)
    if count < _WORTHWHILE:
        yield Refusal(f"pays from {_WORTHWHILE:,} products on, and these are {count:,}")


def build(request: Request) -> Kernel:
    found = recognise(request)
    assert isinstance(found, Contraction)
    shape = choose_shape(found, split=True)
    assert isinstance(shape, Shape)
    why = reason(found, shape)
    if shape.stream:
        shares = shares_of(found, shape)
        assert shares is not None
        return StreamKernel(found, shape, shares, why).kernel()
    if shape.is_clustered:
        steps = steps_of(found, shape)
        assert steps is not None
        return ClusterKernel(found, shape, steps, why).kernel()
    return (GemmKernel if shape.split == 1 else SplitKernel)(found, shape, why).kernel()


def candidates(request: Request) -> Iterable[Schedule]:
    """The schedules that are worth timing, the best guess first."""
    found = recognise(request)
    return () if isinstance(found, Refusal) else schedules(request, found)


FAMILY = Family(
    "gemm",
    rank=35,
    doc="large products: a ring of stages in shared memory, outer products on CUDA cores, of float64 on tensor cores",
    refusals=refusals,
    build=build,
    tunables=TUNABLES,
    candidates=candidates,
)
