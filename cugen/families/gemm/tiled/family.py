"""Tiled contractions: a single-stage main loop over k-tiles staged in shared memory, optional register tiles."""

from __future__ import annotations

import math

from cugen.families.base import Family, Match, Refusal, Refusals, Request, Single, Steps, refuse_tunables
from cugen.families.contraction.recognition import recognise, request_refusals
from cugen.families.gemm import family as gemm
from cugen.families.gemm.batched import family as batched
from cugen.families.gemm.skinny import family as skinny
from cugen.families.gemm.tiled.config import choose_config, padding_refusals, refusals
from cugen.families.gemm.tiled.kernel import TiledKernel
from cugen.rewrite.separate_reductions import separated
from cugen.rewrite.stored_operands import with_stored_operands
from cugen.rewrite.transposed.stored_products import with_stored_products
from cugen.spec.expressions import Reduce, walk

_MIN_STORED_CHANNELS = 256  # on CUDA cores, whose products are worth storing where register windows do, too (models)


def match(request: Request) -> Match | Refusals:
    """The contraction with its tile config, or why there is none or its schedule and placements can't be honoured."""
    contraction = recognise(request)
    if isinstance(contraction, Refusal):
        return Refusals((contraction,))
    config = choose_config(contraction)
    reasons = (
        *request_refusals(contraction),
        *refusals(contraction, config),
        *padding_refusals(contraction, config),
        *refuse_tunables(contraction.request, ()),
    )
    small = choose_config(contraction, may_be_large=False)
    smaller = None if small == config else lambda: Match(TiledKernel(contraction, small).kernel)
    return Refusals(reasons) if reasons else Match(TiledKernel(contraction, config).kernel, smaller=smaller)


def split(single: Single) -> Steps | None:
    """What stores operands, or all reductions but one, so that a family with a better main loop takes the last."""

    def is_taken(request: Request) -> bool:
        return FAMILY.takes(request) or single.is_specialised(request)

    def is_taken_by_others(request: Request) -> bool:
        return any(family.takes(request) for family in (batched.FAMILY, skinny.FAMILY, gemm.FAMILY))

    def is_multiplied(request: Request) -> bool:
        if not gemm.FAMILY.takes(request):
            return False
        channels = [n for s in request.group.statements for n in walk(s.value) if isinstance(n, Reduce)]
        terms = math.prod(request.context.max_extent(index) for node in channels for index in node.indices)
        is_left = terms < _MIN_STORED_CHANNELS and single.is_specialised(single.request())
        return not is_left or gemm.uses_tensor_cores(request)

    products = with_stored_products(single, is_multiplied)
    return products or with_stored_operands(single, is_taken) or separated(single, is_taken_by_others)


FAMILY = Family(
    "tiled",
    rank=30,
    needs=Reduce,
    doc="contractions with shared-memory tiles in a single-stage main loop, with register tiles for large outputs",
    match=match,
    split=split,
    is_general=True,
)
