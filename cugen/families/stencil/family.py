"""Stencils with register windows: a thread computes several outputs from one window of elements in registers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator

from cugen.families.base import Family, Match, Refusal, Refusals, Request, refuse_tunables
from cugen.families.stencil import cost_model
from cugen.families.stencil.config import ROWS, VECTOR, StencilConfig, choose_config, smaller_config
from cugen.families.stencil.footprint import MAX_UNROLLED_TAPS, Footprints, find_footprints
from cugen.families.stencil.kernel import StencilBuilder
from cugen.families.stencil.ordered_weights import with_ordered_weights
from cugen.families.stencil.periodic_config import choose_periodic_config
from cugen.families.stencil.phases import find_periods, with_phases
from cugen.families.stencil.unaligned_rows import UnalignedRowsKernel, row_vectors
from cugen.pieces.grid import fastest_first
from cugen.pieces.placement import placement_refusals
from cugen.pieces.vectors import step_along
from cugen.plan.kernel import Kernel
from cugen.plan.request import Single, Steps
from cugen.plan.traversal.ragged import has_ragged_range
from cugen.rewrite.fuse_dimensions import with_zeros
from cugen.spec.expressions import IndexValue, Read, Reduce, Scan, free_indices, walk
from cugen.spec.model import Statement

TUNABLES = (VECTOR, ROWS)
MAX_SHARED_TERMS = 64  # of a reduction that each thread of a row computes for itself (heuristic)


def match(request: Request) -> Match | Refusals:
    """The footprints with the config of their windows, or why there are none or the schedule can't be honoured."""
    chosen = _choose(request)
    return chosen if isinstance(chosen, Refusals) else _match(*chosen)


def predict(request: Request, outputs: int) -> float | None:
    """The predicted seconds of register windows for so many outputs; None where the family refuses the request."""
    chosen = _choose(request)
    if isinstance(chosen, Refusals):
        return None
    changed, footprints, config = chosen
    channels = next(iter(footprints.channel_reductions), None)
    return cost_model.predict(changed, footprints.by_array, channels, config, outputs)


def split(single: Single) -> Steps | None:
    """The steps that copy weights which a stencil alone keeps from register windows."""
    return with_ordered_weights(single, lambda request: isinstance(match(request), Match))


def _choose(request: Request) -> tuple[Request, Footprints, StencilConfig] | Refusals:
    if reasons := tuple(form_refusals(request)):
        return Refusals(reasons)
    request = _without_unit_indices(request)
    along = fastest_first(request)[0].name
    periods = find_periods(request)
    request = with_phases(request, periods)
    footprints = find_footprints(request, along, periods)
    reasons = (
        *_channel_refusals(footprints),
        *footprint_refusals(along, footprints),
        *window_refusals(request, footprints.by_array, ("shared",)),
        *placement_refusals(request, footprints.by_array),
        *refuse_tunables(request, TUNABLES),
    )
    if reasons:
        return Refusals(reasons)
    config = (
        choose_periodic_config(request, footprints.by_array, footprints.channel_reductions, periods)
        if periods
        else choose_config(request, footprints.by_array, footprints.channel_reductions)
    )
    if not isinstance(config, StencilConfig):
        return Refusals(config)
    return request, footprints, config


def _without_unit_indices(request: Request) -> Request:
    """The request with 0 in place of output indices of extent 1, whose strides say nothing of alignments; not along
    windows, where the schedule may name them, or if all are."""
    statements = request.group.statements
    subscripts = [
        sub for s in statements for node in walk(s.value) if isinstance(node, Read) for sub in node.subscripts
    ]
    moved = {name for sub in subscripts if not isinstance(sub, IndexValue) for name in free_indices(sub)}
    indices = [index for index in statements[0].indices if index.name not in moved]
    unit = [index.name for index in indices if request.context.static_extent(index) == 1]
    if len(unit) in (0, len(statements[0].indices)) or request.schedule.block or request.schedule.thread:
        return request
    return request.with_statements(tuple(with_zeros(statement, unit) for statement in statements))


def _match(request: Request, footprints: Footprints, config: StencilConfig) -> Match:
    vectors = None if footprints.channel_reductions else row_vectors(request, footprints.by_array, config)

    def kernel() -> Kernel:
        if vectors is not None:
            return UnalignedRowsKernel(request, footprints.by_array, config, vectors).kernel()
        channels = next(iter(footprints.channel_reductions), None)
        return StencilBuilder(request, footprints.by_array, config, channels).kernel()

    def smaller() -> Match | None:
        fewer = None if vectors is not None else smaller_config(request, config)
        return None if fewer is None else _match(request, footprints, fewer)

    return Match(kernel, smaller=smaller)


def form_refusals(request: Request) -> Iterator[Refusal]:
    arrays = request.context.arrays
    for statement in request.group.statements:
        if not statement.indices:
            yield Refusal(f"{statement.target} is a single element")
            return
        for node in walk(statement.value):
            if isinstance(node, Scan):
                yield Refusal("takes no scans")
            if isinstance(node, Reduce) and has_ragged_range(node) and request.schedule.family != "stencil":
                yield Refusal("reads windows of the same size; ranges that end at elements are reduced by `reduce`")
            if isinstance(node, Read) and any(isinstance(n, Read) for sub in node.subscripts for n in walk(sub)):
                yield Refusal(f"gathers from {node.array}")
    along = fastest_first(request)[0].name
    for statement in request.group.statements:
        yield from _row_refusals(request, statement, along)
        if step_along(arrays[statement.target], statement.subscripts, along, request.context) != 1:
            yield Refusal(f"{statement.target} is not contiguous along {along}")


def _row_refusals(request: Request, statement: Statement, along: str) -> Iterator[Refusal]:
    """Why long reductions that all outputs of a row share, or whose terms do, are left to families that compute or load
    each once."""
    for node in walk(statement.value):
        if isinstance(node, Reduce) and request.schedule.family != "stencil":
            terms = math.prod(map(request.context.planned_extent, node.indices))
            if terms > MAX_SHARED_TERMS and along not in free_indices(node):
                yield Refusal(f"has reductions of windows; a {node.kind} of {terms} terms is the same along {along}")
            elif terms > MAX_SHARED_TERMS and not _has_window(node, along):
                yield Refusal(
                    f"has reductions of windows; a {node.kind} of {terms} terms has none that moves along {along}"
                )


def _has_window(reduction: Reduce, along: str) -> bool:
    """Whether the terms read elements that the index of a row moves."""
    names = {index.name for index in reduction.indices}
    reads = [free_indices(node) for node in walk(reduction.body) if isinstance(node, Read)]
    return any(along in read and not read.isdisjoint(names) for read in reads)


def footprint_refusals(along: str, footprints: Footprints) -> Iterator[Refusal]:
    yield from map(Refusal, footprints.reasons)
    if not footprints.reasons and not any(footprint.overlaps for footprint in footprints.by_array.values()):
        yield Refusal(f"adjacent outputs along {along} share no elements")
    for footprint in footprints.by_array.values():
        if footprint.is_scattered(along):
            yield Refusal(f"the footprint in {footprint.array} is sparse: most of a register window would be unused")
        if len(footprint.points) > MAX_UNROLLED_TAPS:
            points = f"{len(footprint.points)} points, at most {MAX_UNROLLED_TAPS} are unrolled"
            yield Refusal(f"the footprint in {footprint.array} has {points}")


def _channel_refusals(footprints: Footprints) -> Iterator[Refusal]:
    kinds = [reduction.reduction.kind for reduction in footprints.channel_reductions]
    if len(kinds) > 1 or "argmax" in kinds or "argmin" in kinds:
        yield Refusal("takes one reduction over channels, and neither argmax nor argmin")


def window_refusals(request: Request, arrays: Iterable[str], spaces: Collection[str]) -> Iterator[Refusal]:
    """Arrays in `spaces`, of which threads read register windows."""
    for name in arrays:
        if request.context.spec.array(name).memory.space in spaces:
            yield Refusal(f"keeps register windows of {name}, not the whole array", f"arrays.{name}.memory")


FAMILY = Family(
    "stencil",
    rank=25,
    doc="stencils and convolutions, with register windows for several outputs per thread",
    match=match,
    tunables=TUNABLES,
    split=split,
)
