"""The `wgmma` family: GEMM on the tensor cores of sm_90a, by wgmma and TMA, with a producer warp."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from cugen.families.base import Family, Match, Refusal, Refusals, Request, refuse_tunables
from cugen.families.contraction.recognition import Contraction, recognise, request_refusals
from cugen.families.gemm.problem import device_of
from cugen.families.gemm.tensor_cores import unit_and_peak
from cugen.families.gemm.wgmma.config import WgmmaConfig
from cugen.families.gemm.wgmma.kernel import WgmmaKernel
from cugen.families.gemm.wgmma.operands import tensor_refusals
from cugen.families.gemm.wgmma.selection import TUNABLES, candidates, choose_config
from cugen.machine import Device
from cugen.machine.features import WGMMA
from cugen.machine.wgmma import WgmmaInstruction, instruction_for
from cugen.plan.kernel import Kernel
from cugen.spec.expressions import Index, Reduce, factors_of_product


def match(request: Request) -> Match | Refusals:
    """The GEMM with its config, or why there is none that wgmma computes."""
    if reason := WGMMA.why_not(request.target):
        return Refusals((Refusal(reason),))
    contraction = recognise(request)
    if isinstance(contraction, Refusal):
        return Refusals((contraction,))
    reasons = [*_form_refusals(contraction), *refuse_tunables(request, TUNABLES), *request_refusals(contraction)]
    if reasons:
        return Refusals(tuple(reasons))
    instruction = _instruction_of(contraction)
    assert instruction is not None
    reasons = list(_operand_refusals(contraction, instruction))
    if reasons:
        return Refusals(tuple(reasons))
    config = choose_config(contraction, instruction)
    if isinstance(config, Refusal):
        return Refusals((config,))
    return Match(partial(_kernel, contraction, config), partial(candidates, contraction, instruction))


def _kernel(contraction: Contraction, config: WgmmaConfig) -> Kernel:
    kernel = WgmmaKernel(contraction, config).kernel()
    unit = _describe(config.wgmma, int(config.block_n), device_of(contraction.request.target))
    return replace(kernel, reasons=(*kernel.reasons, unit))


def _describe(instruction: WgmmaInstruction, n: int, device: Device) -> str:
    """The unit that multiplies, its peak and how it rounds, for reports."""
    text = unit_and_peak(instruction.name(n), instruction.peak, device)
    if instruction.rounds:
        text += "; operands are rounded to tf32, to nearest, when they are copied"
    if instruction.sum_bits:
        return f"{text}; sums keep {instruction.sum_bits} bits of the largest addend"
    return text if instruction.is_integer else f"{text}; additions truncate to float32"


def _instruction_of(contraction: Contraction) -> WgmmaInstruction | None:
    a, b = (operand.array.dtype.name for operand in contraction.operands)
    return instruction_for(a, b, contraction.reductions[0].dtype.name, tf32=contraction.context.spec.precision.tf32)


def _form_refusals(contraction: Contraction) -> Iterator[Refusal]:
    """What a sum must be for tensor cores."""
    if [r.kind for r in contraction.reductions] != ["sum"] or len(contraction.operands) != 2:
        yield Refusal("takes one sum over two operands")
        return
    (reduction,) = contraction.reductions
    if not factors_of_product(reduction.body, reduction.dtype):
        yield Refusal("takes sums of A[m, k] * B[k, n]")
    if contraction.conditions:
        yield Refusal("multiplies whole matrices, of which a condition masks single terms")
    if contraction.context.min_extent(contraction.k) < 1:
        yield Refusal(f"overwrites its accumulators by the first terms, and {contraction.k.name} may have none")
    if len(contraction.batch) > 1:
        yield Refusal("takes one batch index")
    if contraction.tunables.get("cores") == "cuda":
        yield Refusal("multiplies on tensor cores", "schedule.cores")
    if contraction.request.schedule.thread:
        yield Refusal("has thread tiles that the instruction fixes", "schedule.thread")
    if _instruction_of(contraction) is None:
        a, b = (operand.array.dtype.name for operand in contraction.operands)
        yield Refusal(f"has no instruction for {a} x {b} with sums in {reduction.dtype.name}")


def _operand_refusals(contraction: Contraction, instruction: WgmmaInstruction) -> Iterator[Refusal]:
    """What TMA and wgmma can't read."""
    for operand in contraction.operands:
        name, memory, read = operand.read.array, operand.memory, operand.read
        if not operand.is_k_major and not instruction.may_be_mn_major:
            types, k, mn = instruction.types, contraction.k.name, operand.mn.name
            yield Refusal(f"reads operands of {types} that are contiguous along {k}, and {name} is along {mn}")
            continue
        along: Index = contraction.k if operand.is_k_major else operand.mn
        for reason in tensor_refusals(operand.array, read.subscripts, along.name, contraction.context):
            yield Refusal(reason)
        if read.boundary is not None or read.exact:
            yield Refusal(f"copies {name} by boxes, which have zeros outside the array alone")
        if memory.space not in (None, "shared") or memory.pad or memory.swizzle:
            yield Refusal(f"chooses the layout of {name} in shared memory", f"arrays.{name}.memory")


FAMILY = Family(
    "wgmma",
    rank=37,
    needs=Reduce,
    doc="GEMM on the tensor cores of sm_90a: wgmma and TMA, one warp copies, warpgroups multiply",
    match=match,
    tunables=TUNABLES,
)
