"""Tiled contractions: a single-stage main loop over k-tiles staged in shared memory, optional register tiles."""

from __future__ import annotations

from cugen.families.base import Family, Match, Refusal, Refusals, Request, refuse_tunables
from cugen.families.contraction.recognition import recognise
from cugen.families.contraction.tiled.config import choose_config, placement_refusals, schedule_refusals
from cugen.families.contraction.tiled.kernel import Builder
from cugen.plan.kernel import Kernel
from cugen.rewrite.im2col import im2col
from cugen.spec.expressions import Reduce


def match(request: Request) -> Match | Refusals:
    """The contraction with its tile config, or why there is none or its schedule and placements can't be honoured."""
    contraction = recognise(request)
    if isinstance(contraction, Refusal):
        return Refusals((contraction,))
    config = choose_config(contraction)
    reasons = (
        *schedule_refusals(contraction, config),
        *placement_refusals(contraction, config),
        *refuse_tunables(contraction.request, ()),
    )

    def kernel() -> Kernel:
        return Builder(contraction, config).kernel()

    return Refusals(reasons) if reasons else Match(kernel)


FAMILY = Family(
    "tiled",
    rank=30,
    needs=Reduce,
    doc="contractions with shared-memory tiles in a single-stage main loop, with register tiles for large outputs",
    match=match,
    split=im2col,
)
