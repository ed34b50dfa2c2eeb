"""Tiled contractions: a single-stage main loop over k-tiles staged in shared memory, optional register tiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from cugen.families.base import Family, Match, Refusal, Refusals, Request, Single, Steps, refuse_tunables
from cugen.families.contraction.recognition import recognise, request_refusals
from cugen.families.gemm import family as gemm
from cugen.families.gemm.batched import family as batched
from cugen.families.gemm.problem import device_of
from cugen.families.gemm.skinny import family as skinny
from cugen.families.gemm.tiled.config import choose_config, padding_refusals, refusals
from cugen.families.gemm.tiled.kernel import TiledKernel
from cugen.families.gemm.tiled.phases import with_faster_phases
from cugen.families.gemm.tiled.winograd import with_faster_winograd
from cugen.machine.features import WGMMA
from cugen.rewrite.output_order import with_ordered_output
from cugen.rewrite.separate_reductions import separated, with_separate_products
from cugen.rewrite.stored.converted_operands import with_converted_operands
from cugen.rewrite.stored.k_major_operands import with_k_major_operands
from cugen.rewrite.stored_operands import with_stored_operands
from cugen.rewrite.sums.batched_parts import with_batched_parts
from cugen.rewrite.sums.expanded_products import with_expanded_product
from cugen.rewrite.transposed.stored_products import with_stored_products
from cugen.spec.expressions import Read, Reduce, walk

# Float32 on CUDA cores, where register windows take the statement, too: from 32 channels on, products were as fast or
# up to 20 times faster in each of 40 cases (measured on an H200, benchmarks/operators/transposed.py).
MIN_STORED_CHANNELS = 32
MIN_SPLIT_TERMS = 4096  # of a sum that is worth dividing between blocks (heuristic)
# Of sums of several products: from 46 terms on the products of a faster main loop save more than they store by the
# models of an H200, which is doubled twice for launches and for what the models leave out.
MIN_SEPARATE_TERMS = 256
OUTPUTS_OF_A_TILE = 64 * 64


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

    is_taken = partial(_is_taken, single)

    def is_taken_by_others(request: Request) -> bool:
        return any(family.takes(request) for family in (batched.FAMILY, skinny.FAMILY, gemm.FAMILY))

    def is_contraction(request: Request) -> bool:
        return is_taken_by_others(request) or FAMILY.takes(request)

    def is_faster_separated(request: Request) -> bool:
        is_faster = _is_long(single) or _leaves_sms_idle(single) or gemm.uses_tensor_cores(request)
        return is_faster and is_taken_by_others(request)

    def with_stored(last: Single) -> Steps | None:
        return with_stored_operands(last, is_taken)

    def with_parts_or_operands(is_taken: Callable[[Request], bool]) -> Steps | None:
        """Stored operands, or the parts of a GEMM in a batch where these move fewer bytes."""
        stored = with_stored_operands(single, is_taken)
        parts = None if is_placed else with_batched_parts(single, is_taken_by_others, stored)
        return parts or stored

    def with_copies(single: Single) -> Steps | None:
        """Copies of operands where the target has no wgmma, which has copies of its own."""
        device = device_of(single.target)
        is_of_others = WGMMA.is_on(single.target)
        return None if is_of_others else with_k_major_operands(single, gemm.tensor_core_seconds, device)

    is_placed = _has_placed_operands(single)
    is_tiled = not is_placed and FAMILY.takes(single.request())
    return (
        (None if is_placed else with_faster_phases(single))
        or with_stored_products(single, partial(_is_multiplied, single))
        or (None if is_placed else with_converted_operands(single, gemm.uses_undivided_operands))
        or (None if is_placed else with_expanded_product(single, gemm.uses_tensor_cores))
        or (None if is_placed else with_copies(single))
        or with_parts_or_operands(is_taken)
        or (with_parts_or_operands(is_taken_by_others) if is_tiled else None)
        or (with_separate_products(single, is_faster_separated, with_stored) if is_tiled else None)
        or (None if is_tiled or is_placed else with_separate_products(single, is_contraction, with_stored))
        or separated(single, is_taken_by_others, with_stored)
    )


def algorithm(single: Single) -> Steps | None:
    """Winograd's algorithm for a convolution, or one GEMM in place of a batch, where it is allowed and faster."""
    steps = with_faster_winograd(single, partial(_is_taken, single))
    return steps or (None if _has_placed_operands(single) else with_ordered_output(single, batched.FAMILY.name))


def _is_taken(single: Single, request: Request) -> bool:
    return FAMILY.takes(request) or single.is_specialised(request)


def _has_placed_operands(single: Single) -> bool:
    """Whether the statement reads an array that the spec places, other than a temporary that is stored: its tiles are
    those of the statement as it is."""
    reads = (node for node in walk(single.statement.value) if isinstance(node, Read))
    unplaced = (None, "global", "scratch")
    return any(single.context.spec.array(read.array).memory.space not in unplaced for read in reads)


def _is_long(single: Single) -> bool:
    """Whether sums are so long that a better main loop outweighs storing products, and fill the device."""
    return _longest(single) >= MIN_SEPARATE_TERMS and _tiles(single) >= device_of(single.target).sms


def _leaves_sms_idle(single: Single) -> bool:
    """Whether the tiles of a long sum, which this family doesn't split, are fewer than the SMs."""
    return _longest(single) >= MIN_SPLIT_TERMS and 2 * _tiles(single) <= device_of(single.target).sms


def _longest(single: Single) -> int:
    """The most terms of a sum."""
    sums = [node for node in walk(single.statement.value) if isinstance(node, Reduce)]
    return max((math.prod(map(single.context.max_extent, node.indices)) for node in sums), default=0)


def _tiles(single: Single) -> int:
    return math.prod(map(single.context.max_extent, single.statement.indices)) // OUTPUTS_OF_A_TILE


def _is_multiplied(single: Single, products: Request) -> bool:
    """Whether `gemm` takes the products of a transposed convolution, and is faster than register windows where these
    take the statement."""
    if not gemm.FAMILY.takes(products):
        return False
    if not single.is_specialised(single.request()) or gemm.uses_tensor_cores(products):
        return True
    sums = (node for s in products.group.statements for node in walk(s.value) if isinstance(node, Reduce))
    channels = math.prod(products.context.max_extent(index) for node in sums for index in node.indices)
    return channels >= MIN_STORED_CHANNELS


FAMILY = Family(
    "tiled",
    rank=30,
    needs=Reduce,
    doc="contractions with shared-memory tiles in a single-stage main loop, with register tiles for large outputs",
    match=match,
    split=split,
    is_general=True,
    algorithm=algorithm,
)
