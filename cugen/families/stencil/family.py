"""Stencils with register windows: a thread computes several outputs from one window of elements in registers."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.families.base import Family
from cugen.families.stencil.config import ROWS, VECTOR, StencilConfig, choose_config
from cugen.families.stencil.footprint import Footprint, find_channel_reductions, find_footprints
from cugen.families.stencil.kernel import StencilBuilder
from cugen.pieces.grid import fastest_first
from cugen.pieces.placement import placement_refusals
from cugen.pieces.vectors import is_contiguous
from cugen.plan.kernel import Kernel
from cugen.plan.request import Refusal, Request, refuse_tunables
from cugen.spec.expressions import Const, IndexValue, Read, Scan, walk

MAX_UNROLLED_TAPS = 225  # of a footprint; its loops are unrolled completely
TUNABLES = (VECTOR, ROWS)


def refusals(request: Request) -> tuple[Refusal, ...]:
    refused = [*form_refusals(request)]
    if refused:
        return tuple(refused)
    along = fastest_first(request)[0].name
    footprints, reasons = find_footprints(request, along)
    channel_reductions = find_channel_reductions(request, along)
    if len(channel_reductions) > 1 or any(
        reduction.reduction.kind in ("argmax", "argmin") for reduction in channel_reductions
    ):
        refused.append(Refusal("takes one reduction over channels, and neither argmax nor argmin"))
    refused += [*footprint_refusals(along, footprints, reasons), *_memory_refusals(request, footprints)]
    refused += [*placement_refusals(request), *refuse_tunables(request, TUNABLES)]
    if refused:
        return tuple(refused)
    config = choose_config(request, footprints, channel_reductions)
    return config if not isinstance(config, StencilConfig) else ()


def form_refusals(request: Request) -> Iterator[Refusal]:
    arrays = request.context.arrays
    for statement in request.group.statements:
        if not statement.indices:
            yield Refusal(f"{statement.target} is a single element")
            return
        if any(not isinstance(sub, IndexValue | Const) for sub in statement.subscripts):
            yield Refusal(f"writes {statement.target} at plain indices only")
        for node in walk(statement.value):
            if isinstance(node, Scan):
                yield Refusal("takes no scans")
            if isinstance(node, Read) and any(isinstance(n, Read) for sub in node.subscripts for n in walk(sub)):
                yield Refusal(f"gathers from {node.array}")
    along = fastest_first(request)[0].name
    for statement in request.group.statements:
        if not is_contiguous(arrays[statement.target], statement.subscripts, along):
            yield Refusal(f"{statement.target} is not contiguous along {along}")


def footprint_refusals(along: str, footprints: dict[str, Footprint], reasons: tuple[str, ...]) -> Iterator[Refusal]:
    yield from map(Refusal, reasons)
    if not reasons and not any(footprint.overlaps for footprint in footprints.values()):
        yield Refusal(f"adjacent outputs along {along} share no elements")
    for footprint in footprints.values():
        if footprint.is_scattered(along):
            yield Refusal(f"the footprint in {footprint.array} is sparse: most of a register window would be unused")
        if len(footprint.points) > MAX_UNROLLED_TAPS:
            points = f"{len(footprint.points)} points, at most {MAX_UNROLLED_TAPS} are unrolled"
            yield Refusal(f"the footprint in {footprint.array} has {points}")


def _memory_refusals(request: Request, footprints: dict[str, Footprint]) -> Iterator[Refusal]:
    for name in footprints:
        space = request.context.spec.array(name).memory.space
        if space in ("shared", "register"):
            yield Refusal(f"keeps register windows of {name}, not the whole array", f"arrays.{name}.memory")


def build(request: Request) -> Kernel:
    along = fastest_first(request)[0].name
    footprints, _ = find_footprints(request, along)
    channel_reductions = find_channel_reductions(request, along)
    config = choose_config(request, footprints, channel_reductions)
    assert isinstance(config, StencilConfig)
    return StencilBuilder(request, footprints, config, channel_reductions[0] if channel_reductions else None).kernel()


FAMILY = Family(
    "stencil",
    rank=25,
    doc="stencils and convolutions, with register windows for several outputs per thread",
    refusals=refusals,
    build=build,
    tunables=TUNABLES,
)
