"""Recognises contractions C[batch, m, n] = f(sum over k of A[batch, m, k]·B[batch, k, n]), with one or several sums.

A term may be another function of the elements than their product, as (A[batch, m, k] - B[batch, k, n])², and be reduced
to its minimum or maximum, where a family asks for such."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from cugen.families.contraction.axes import axes_of
from cugen.families.contraction.chosen_terms import with_chosen_terms
from cugen.families.contraction.contraction import Contraction, operand_of
from cugen.families.contraction.k_range import k_bounds_refusal
from cugen.families.contraction.scales import Scales, without_scales
from cugen.families.contraction.subscripts import conditions_of, operand_refusal, store_refusal, uniform_refusal
from cugen.families.contraction.terms import factors_refusal, reductions_of, with_aligned_reductions
from cugen.families.contraction.windows import Window, window_refusal, with_linear_windows
from cugen.pieces.placement import is_loaded_by_element, size_refusals
from cugen.plan.request import Refusal, Request
from cugen.rewrite.align_reductions import NotInStages, collected, with_common_indices
from cugen.rewrite.fuse_dimensions import squeezed, with_fused_dimensions
from cugen.spec.expressions import Index, Read, free_indices, walk


def recognise(
    request: Request,
    *,
    fuses_batch: bool = False,
    masks_padding: bool = False,
    takes_windows: bool = False,
    takes_scales: bool = False,
) -> Contraction | Refusal:
    """The contraction in the group's first statement, or why there is none.

    Dimensions are fused where only one operand depends on a batch index, which then may become a part of M or N, and
    where a sum runs over several indices; with `fuses_batch` wherever they can be. With `masks_padding` the terms may
    be any function of the elements, and be reduced to their minimum or maximum, too: the family masks zero-filled
    elements of k. With `takes_windows` an operand may be read at computed subscripts. With `takes_scales` groups of
    terms may have factors."""
    if takes_scales and (scaled := _recognise_scaled(request, fuses_batch)) is not None:
        return scaled
    match = _recognise_dense(request, fuses_batch, masks_padding)
    if not takes_windows or (isinstance(match, Contraction) and not _has_single_operand_batch(match)):
        return match
    over_windows = _recognise_windows(request)
    if over_windows is None or (isinstance(over_windows, Refusal) and isinstance(match, Contraction)):
        return match
    return over_windows


@lru_cache(maxsize=16)
def _recognise_scaled(request: Request, fuses_batch: bool) -> Contraction | None:
    """The contraction of the factors of single terms, with the scales of groups; None where there are none."""
    unscaled = without_scales(request)
    match = None if unscaled is None else _recognise_dense(unscaled[0], fuses_batch, masks_padding=False)
    if unscaled is None or not isinstance(match, Contraction):
        return None
    others, factors = unscaled
    statements = with_common_indices(others.group.statements, request.context)
    is_fused = match.request.group.statements != statements
    origins = with_fused_dimensions(statements, request.context).origins if is_fused else {}
    return replace(match, scales=Scales.of(factors, match.k, origins, request.context))


def _recognise_dense(request: Request, fuses_batch: bool, masks_padding: bool) -> Contraction | Refusal:
    match = _recognise(request, masks_padding)
    if isinstance(match, Contraction) and not (fuses_batch or _has_single_operand_batch(match)):
        return match
    try:
        stages = collected(request.group.statements)
    except NotInStages:
        return match
    has_single_indices = all(len(node.indices) == 1 for stage in stages for node in stage)
    if isinstance(match, Refusal) and has_single_indices and not fuses_batch:
        return match
    fused = with_fused_indices(request)
    if fused.group == request.group or not _keeps_scheduled_indices(request, fused):
        return match
    fused_match = _recognise(fused, masks_padding)
    return fused_match if isinstance(fused_match, Contraction) else match


@lru_cache(maxsize=16)
def with_fused_indices(request: Request) -> Request:
    """The request over fused dimensions. NotInStages for reductions inside another's loop, and for scans."""
    statements = with_common_indices(request.group.statements, request.context)
    fused = squeezed(with_fused_dimensions(statements, request.context), request.context)
    return replace(request.with_statements(fused.statements), context=replace(request.context, arrays=fused.arrays))


def _keeps_scheduled_indices(request: Request, fused: Request) -> bool:
    """Whether the schedule has no size along an output index that is no longer there in the fused request."""
    schedule = request.schedule
    scheduled = {name for sizes in (schedule.block, schedule.thread, schedule.step) for name, _ in sizes}
    return scheduled & {i.name for i in _indices(request)} <= {i.name for i in _indices(fused)}


def _indices(request: Request) -> tuple[Index, ...]:
    return request.group.statements[0].indices


def _has_single_operand_batch(contraction: Contraction) -> bool:
    """Whether some operand does not depend on one of the batch indices."""
    names = {index.name for index in contraction.batch}
    return any(not names <= free_indices(operand.read) for operand in contraction.operands)


@lru_cache(maxsize=16)
def _recognise(request: Request, masks_padding: bool) -> Contraction | Refusal:
    return _contraction(request, masks_padding, {})


@lru_cache(maxsize=16)
def _recognise_windows(request: Request) -> Contraction | Refusal | None:
    """The contraction of an operand read at computed subscripts; None where no operand is."""
    linear = with_linear_windows(request)
    if linear is None or isinstance(linear, Refusal):
        return linear
    over_linear, windows = linear
    if not _keeps_scheduled_indices(request, over_linear):
        arrays = ", ".join(read.array for read in windows)
        return Refusal(f"fuses indices of the windows of {arrays}; the schedule has a size along one of them")
    return _contraction(over_linear, False, windows)


def _contraction(request: Request, masks_padding: bool, windows: Mapping[Read, Window]) -> Contraction | Refusal:
    request = with_aligned_reductions(with_chosen_terms(request) if masks_padding else request)
    reductions = reductions_of(request, masks_padding=masks_padding)
    if isinstance(reductions, Refusal):
        return reductions
    (k,) = reductions[0].indices
    reads = tuple({node: None for reduction in reductions for node in walk(reduction.body) if isinstance(node, Read)})
    if (refusal := operand_refusal(reads, k, windows)) is not None:
        return refusal
    axes = axes_of(request, reads, k, windows)
    if isinstance(axes, Refusal):
        return axes
    matrices, batch = tuple(read for read in reads if read not in windows), [index.name for index in axes.batch]
    conditions = conditions_of(request, reductions)
    refusal = (
        factors_refusal(reductions, axes.a_reads, axes.b_reads, masks_padding=masks_padding)
        or store_refusal(request, reads, axes.batch)
        or uniform_refusal(request, reductions, matrices, set(batch))
        or next(filter(None, (window_refusal(request, *window, conditions) for window in windows.items())), None)
        or k_bounds_refusal(request, reductions[0], (axes.m.name, axes.n.name), batch)
    )
    if refusal is not None:
        return refusal
    a_operands = (operand_of(request, read, axes.m, k, windows.get(read), is_along_m=True) for read in axes.a_reads)
    b_operands = (operand_of(request, read, axes.n, k, windows.get(read), is_along_m=False) for read in axes.b_reads)
    return Contraction(
        request, reductions, axes.m, axes.n, k, axes.batch, a_operands=tuple(a_operands), b_operands=tuple(b_operands)
    )


def request_refusals(contraction: Contraction) -> Iterator[Refusal]:
    """What no tile config can honour: arrays placed where they have no tile, and sizes along indices without one."""
    request = contraction.request
    operands = dict.fromkeys(operand.read.array for operand in contraction.operands)
    for array in request.touched():
        if array.name not in operands and array.memory.space == "shared":
            reason = f"stages {' and '.join(operands)} only; {array.name} is read in the epilogue"
            yield Refusal(f"{reason}: leave it in global memory", f"arrays.{array.name}.memory")
        is_placed = array.memory.space == "register" and array.role != "temporary"
        if is_placed and not is_loaded_by_element(request, array):
            reason = f"has no use for all of {array.name} in registers: a thread reads an element of it once"
            yield Refusal(reason, f"arrays.{array.name}.memory")
    mn_names = sorted((contraction.m.name, contraction.n.name))
    yield from size_refusals(request, {"block": mn_names, "thread": mn_names, "step": [contraction.k.name]})
