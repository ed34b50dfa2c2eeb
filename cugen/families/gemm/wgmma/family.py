"""The `wgmma` family: GEMM on the tensor cores of sm_90a, by wgmma and TMA, with or without a producer warp."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from cugen.families.base import Family, Match, Refusal, Refusals, Request, Single, Steps, refuse_tunables
from cugen.families.contraction.channels_last import with_channels_last
from cugen.families.contraction.contraction import Contraction
from cugen.families.contraction.recognition import request_refusals
from cugen.families.contraction.scales import without_scales
from cugen.families.contraction.unfolded_windows import with_unfolded_windows
from cugen.families.gemm.problem import device_of, problem_of, read_elements
from cugen.families.gemm.selection import cost_model as gemm_model
from cugen.families.gemm.selection import heuristic as gemm
from cugen.families.gemm.tensor_cores import unit_and_peak
from cugen.families.gemm.wgmma.config import STMATRIX, WgmmaConfig
from cugen.families.gemm.wgmma.cost_model import predict
from cugen.families.gemm.wgmma.epilogues.tensor_store import stores_by_tma
from cugen.families.gemm.wgmma.kernel import WgmmaKernel
from cugen.families.gemm.wgmma.operands.aligned_copies import with_aligned_copies
from cugen.families.gemm.wgmma.operands.pixels import Images, images_of, k_tiles_of, padded_channels, padding_refusal
from cugen.families.gemm.wgmma.operands.rows import recognise_gemm
from cugen.families.gemm.wgmma.operands.scales import scale_refusals
from cugen.families.gemm.wgmma.operands.tiles import layout_refusal, operand_refusals
from cugen.families.gemm.wgmma.selection import NO_PRODUCER, SHARING, TUNABLES, candidates, choose_config
from cugen.families.gemm.wgmma.split.work_units import why_no_stream_k
from cugen.families.gemm.wgmma.stream_k import StreamKWgmmaKernel
from cugen.families.gemm.wgmma.without_producer import BarrierWgmmaKernel
from cugen.machine import Device
from cugen.machine.features import WGMMA
from cugen.machine.wgmma import SWIZZLED_ROW_BYTES, WgmmaInstruction, instruction_for
from cugen.plan.context import make_context
from cugen.plan.kernel import Kernel
from cugen.plan.request import Group
from cugen.rewrite.stored.converted_operands import with_converted_operands
from cugen.rewrite.temporaries import storing_seconds
from cugen.spec.expressions import Reduce, factors_of_product

_MIN_COPIED_EXTENT = 4  # of M and N: each element that is copied is multiplied so often (heuristic)


def match(request: Request) -> Match | Refusals:
    """The GEMM with its config, or why there is none that wgmma computes."""
    contraction = recognise_gemm(request, takes_windows=True)
    if isinstance(contraction, Refusal):
        return Refusals((contraction,))
    if reason := WGMMA.why_not(request.target):
        return Refusals((Refusal(reason),))
    reasons = [*_form_refusals(contraction), *refuse_tunables(request, TUNABLES), *request_refusals(contraction)]
    if reasons:
        return Refusals(tuple(reasons))
    instruction = _instruction_of(contraction)
    assert instruction is not None
    for operand in contraction.operands:
        layout: Images | str = layout_refusal(contraction, operand, instruction)
        if operand.window is not None:
            layout = images_of(contraction, operand)
        reasons += [*operand_refusals(operand), *([Refusal(layout)] if layout and isinstance(layout, str) else [])]
    block_k = SWIZZLED_ROW_BYTES // instruction.element_bytes
    if padding := padding_refusal(contraction, block_k):
        reasons.append(Refusal(padding))
    if contraction.scales is not None:
        reasons += scale_refusals(contraction, contraction.scales, block_k, instruction.k)
    reasons += [*_split_refusals(contraction, block_k), *_stream_k_refusals(contraction)]
    reasons += [*_producer_refusals(contraction), *_epilogue_refusals(contraction), *_swap_refusals(contraction)]
    if reasons:
        return Refusals(tuple(reasons))
    config = choose_config(contraction, instruction)
    if isinstance(config, Refusal):
        return Refusals((config,))
    if request.schedule.family != FAMILY.name and _pads_too_many_channels(contraction, config):
        return Refusals((Refusal("takes longer than `gemm` for few channels, which it pads, by the cost models"),))
    return Match(partial(_kernel, contraction, config), partial(candidates, contraction, instruction))


def predicted_seconds(request: Request) -> float | None:
    """The predicted time of the launch; None where the family refuses the request."""
    if not FAMILY.takes(request):
        return None
    contraction = recognise_gemm(request, takes_windows=True)
    assert isinstance(contraction, Contraction)
    instruction = _instruction_of(contraction)
    assert instruction is not None
    config = choose_config(contraction, instruction)
    return None if isinstance(config, Refusal) else 1e-6 * predict(contraction, config)


def _pads_too_many_channels(contraction: Contraction, config: WgmmaConfig) -> bool:
    """Whether the zeros of padded channels take longer than what `mma.sync` is slower by."""
    if padded_channels(contraction, int(config.block_k)) is None:
        return False
    by_mma = gemm.choose_config(contraction)
    if isinstance(by_mma, Refusal):
        return False
    predicted = gemm_model.predict(problem_of(contraction), by_mma, contraction.request.target)
    return predicted is not None and 1e-6 * predict(contraction, config) > predicted.seconds


def _kernel(contraction: Contraction, config: WgmmaConfig) -> Kernel:
    kernel = kernel_kind(config)(contraction, config).kernel()
    unit = _describe(config.wgmma, int(config.block_n), device_of(contraction.request.target))
    return replace(kernel, reasons=(*kernel.reasons, unit))


def kernel_kind(config: WgmmaConfig) -> type[WgmmaKernel]:
    """The builder of a config's kernel."""
    if not config.has_producer:
        return BarrierWgmmaKernel
    return StreamKWgmmaKernel if config.stream_k else WgmmaKernel


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
    if contraction.tunables.get("cores") == "cuda":
        yield Refusal("multiplies on tensor cores", "schedule.cores")
    if contraction.request.schedule.thread:
        yield Refusal("has thread tiles that the instruction fixes", "schedule.thread")
    if _instruction_of(contraction) is None:
        a, b = (operand.array.dtype.name for operand in contraction.operands)
        yield Refusal(f"has no instruction for {a} x {b} with sums in {reduction.dtype.name}")


def _split_refusals(contraction: Contraction, block_k: int) -> Iterator[Refusal]:
    """Each block of a cluster has a k-tile at least: its first multiplication overwrites the accumulators."""
    split_k, k = int(contraction.tunables.get("split_k", 1)), contraction.k
    k_tiles = k_tiles_of(contraction, contraction.context.min_extent(k), block_k)
    if k_tiles < split_k:
        yield Refusal(
            f"splits k-tiles among {split_k} blocks, and {k.name} may have only {k_tiles}", "schedule.split_k"
        )


def _stream_k_refusals(contraction: Contraction) -> Iterator[Refusal]:
    if contraction.tunables.get("stream_k") and (reason := why_no_stream_k(contraction)):
        yield Refusal(reason, "schedule.stream_k")


def _producer_refusals(contraction: Contraction) -> Iterator[Refusal]:
    """Without a producer a block computes a whole output tile, and copies what it reads."""
    tunables = contraction.tunables
    if tunables.get("producer") != NO_PRODUCER:
        return
    for name in SHARING:
        if int(tunables.get(name, 0)) > (0 if name == "stream_k" else 1):
            text = f"has `{name}` with a producer only: without one a block computes an output tile alone"
            yield Refusal(text, f"schedule.{name}")


def _epilogue_refusals(contraction: Contraction) -> Iterator[Refusal]:
    tunables = contraction.tunables
    if tunables.get("epilogue") != STMATRIX:
        return
    if int(tunables.get("split_k", 1)) > 1 or not stores_by_tma(contraction):
        text = "has `stmatrix` for results that TMA stores: of 16 bits, of one statement, and without `split_k`"
        yield Refusal(text, "schedule.epilogue")


def _swap_refusals(contraction: Contraction) -> Iterator[Refusal]:
    tunables = contraction.tunables
    if not tunables.get("swap_ab"):
        return
    if int(tunables.get("split_k", 1)) > 1:
        yield Refusal("has `swap_ab` without `split_k`, whose sums are added in rows", "schedule.swap_ab")
    if "epilogue" in tunables:
        text = "writes the transposed tiles of `swap_ab` in one way: leave `epilogue` to it"
        yield Refusal(text, "schedule.epilogue")


def split(single: Single) -> Steps | None:
    """Copies of operands that TMA or wgmma can't read, and the GEMM of these; None where it needs none, or where they
    don't pay off."""
    request = single.request()
    if not WGMMA.is_on(request.target) or Reduce not in request.node_kinds():
        return None
    for with_copies in (with_unfolded_windows, with_channels_last):
        if (steps := with_copies(single, FAMILY.takes)) is not None:
            return steps
    contraction = recognise_gemm(request)
    if without_scales(request) is not None and (steps := with_converted_operands(single, FAMILY.takes)) is not None:
        return steps
    if not isinstance(contraction, Contraction) or any(_form_refusals(contraction)):
        return None
    instruction = _instruction_of(contraction)
    assert instruction is not None
    steps = with_aligned_copies(single, contraction, instruction)
    if steps is None or single.schedule.family == FAMILY.name:
        return steps
    return steps if _copies_pay_off(single, contraction, instruction, steps) else None


def _copies_pay_off(single: Single, contraction: Contraction, instruction: WgmmaInstruction, steps: Steps) -> bool:
    """Whether the copies and a GEMM of them take less time than `gemm` of the operands as they are, by the models, and
    all dimensions have some extent: a copy of a matrix times a vector takes longer than the product."""
    if any(contraction.context.max_extent(index) < _MIN_COPIED_EXTENT for index in (contraction.m, contraction.n)):
        return False
    if contraction.scales is not None:  # which `gemm` doesn't take
        return True
    by_mma = gemm.choose_config(contraction)
    if isinstance(by_mma, Refusal):
        return True
    predicted = gemm_model.predict(problem_of(contraction), by_mma, single.target)
    if predicted is None:
        return True
    spec = single.context.spec
    context = make_context(replace(spec, arrays=(*spec.arrays, *steps.temporaries)))
    product = steps.statements[-1]
    stored = (product.target,)  # also where it is a temporary
    copied = recognise_gemm(Request("", Group((product,)), context, single.schedule, single.target, stored))
    if not isinstance(copied, Contraction) or isinstance(config := choose_config(copied, instruction), Refusal):
        return False
    problem, names = problem_of(copied), {array.name for array in steps.temporaries}
    copied_bytes = (
        read_elements(problem, tile) * tile.element_bytes
        for operand, tile in zip(copied.operands, problem.operands, strict=True)
        if operand.read.array in names
    )
    seconds = 1e-6 * predict(copied, config)
    seconds += sum(storing_seconds(size, device_of(single.target)) for size in copied_bytes)
    return seconds < predicted.seconds


FAMILY = Family(
    "wgmma",
    rank=37,
    needs=Reduce,
    doc="GEMM on the tensor cores of sm_90a: wgmma and TMA, one warp copies, warpgroups multiply",
    match=match,
    tunables=TUNABLES,
    split=split,
    predicted_seconds=predicted_seconds,
)
