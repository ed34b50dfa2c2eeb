"""Skinny GEMM and GEMV: few rows of A times a large matrix B, which is read once; bound by memory bandwidth."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from cugen.families.base import Family, Match, Refusal, Refusals, Request, Single, Steps
from cugen.families.contraction.contraction import Contraction
from cugen.families.contraction.recognition import recognise as recognise_contraction
from cugen.families.gemm.skinny.config import (
    LANES,
    TILE_N,
    TUNABLES,
    GemvConfig,
    choose_config,
    fills_device,
    split_k_of,
)
from cugen.families.gemm.skinny.grouped_rows import with_grouped_rows
from cugen.families.gemm.skinny.k_major import KMajorKernel
from cugen.families.gemm.skinny.k_major_rows import with_k_major_rows
from cugen.families.gemm.skinny.n_major import NMajorKernel
from cugen.families.gemm.skinny.recognition import SkinnyGemm, recognise
from cugen.families.gemm.wgmma.family import match as match_wgmma
from cugen.machine.features import WGMMA
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.grid import divides
from cugen.pieces.placement import tunables_only
from cugen.pieces.vectors import MAX_ACCESS_BYTES
from cugen.plan.context import make_context
from cugen.plan.symbols import bounds
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.split_dimensions import with_split_dimensions
from cugen.rewrite.stored.converted_operands import with_converted_operands
from cugen.rewrite.temporaries import last_request, steps_of, temporary
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Reduce, walk
from cugen.spec.prove.affine import text_of
from cugen.spec.rewriting import replaced
from cugen.spec.types import BOOL, INT64

# Rows up to which, and bytes of B below which, tiles of wgmma aren't taken. With 8 rows and 8 to 235 MB they were 1.3
# to 1.6 times as fast, with one row as fast (on an H100, in bfloat16).
_MAX_FMA_M, _MIN_WGMMA_BYTES = 2, 1 << 22


def match(request: Request) -> Match | Refusals:
    """The skinny GEMM with its config, or why there is none or its schedule and placements can't be honoured."""
    reasons = tunables_only(request, TUNABLES, "has the tunables `tile_n` and `warps` in place of tile sizes")
    gemm = recognise(request)
    if isinstance(gemm, Refusal):
        return Refusals((*reasons, gemm))
    if gemm.is_k_major and LANES.name in dict(request.schedule.tunables):
        reasons.append(Refusal("splits K over whole warps where B is K-major", f"schedule.{LANES.name}"))
    if _is_faster_by_rows(request, gemm):
        reason = "unasked, leaves to `reduce` columns that begin anywhere, and those that are too few for the device"
        reasons.append(Refusal(reason))
    if _is_faster_over_groups(request, gemm):
        reasons.append(
            Refusal("unasked, leaves to `wgmma` as many members of groups as take it longer than their tiles")
        )
    if _is_faster_by_tiles(request, gemm):
        reasons.append(Refusal("unasked, leaves to `gemm` as many rows as take it longer than their tiles"))
    if reasons:
        return Refusals(tuple(reasons))
    config = choose_config(gemm)
    if reasons := list(_limit_refusals(gemm, config)):
        return Refusals(tuple(reasons))
    return _match(gemm, config)


def _is_faster_by_rows(request: Request, gemm: SkinnyGemm) -> bool:
    """Whether the spec leaves the family open, and a GEMV would load narrow vectors, or be split along K: a reduction
    has wide ones of columns that begin anywhere, and a block for each column."""
    if request.schedule.family is not None or request.schedule.tunables:
        return False
    if not gemm.is_k_major or gemm.m_extent > 1:
        return False
    if gemm.context.static_extent(gemm.k) is not None and not gemm.uses_operands_only:
        return False  # others, as scales of groups, are read once for a vector here
    vector_bytes = gemm.vector_width(gemm.b, gemm.k) * gemm.array(gemm.b).dtype.bytes
    return vector_bytes < MAX_ACCESS_BYTES or not fills_device(gemm, 4)


def _is_faster_by_tiles(request: Request, gemm: SkinnyGemm) -> bool:
    """Whether the spec leaves the family open, and another has tiles for these rows."""
    if request.schedule.family is not None or request.schedule.tunables:
        return False
    if _has_scales(request):
        return gemm.m_extent > 1 and WGMMA.is_on(request.target) and isinstance(match_wgmma(request), Match)
    if gemm.pays and not _is_faster_by_wgmma(request, gemm):
        return False
    return isinstance(recognise_contraction(request, masks_padding=True), Contraction)


def _is_faster_over_groups(request: Request, gemm: SkinnyGemm) -> bool:
    """Whether rows are the members of groups, `k[h // R, j, d]`, for which `wgmma` has tiles once their index and the
    dimensions of arrays are split."""
    if request.schedule.family is not None or request.schedule.tunables or not _takes_longer(request, gemm):
        return False
    if with_grouped_rows(request, gemm.m_extent) is None:
        return False
    (statement,), spec = request.group.statements, request.context.spec
    split = with_split_dimensions(spec, temporaries=True)
    position = next((n for n, old in enumerate(spec.statements) if old.target == statement.target), None)
    if split is spec or position is None or spec.statements[position] != statement:
        return False
    grouped = replace(request.with_statements((split.statements[position],)), context=make_context(split))
    return isinstance(match_wgmma(grouped), Match)


def _has_scales(request: Request) -> bool:
    """Whether groups of terms have factors, which a thread would load and multiply for each of its terms."""
    contraction = recognise_contraction(request, takes_scales=True)
    return isinstance(contraction, Contraction) and contraction.scales is not None


def _is_faster_by_wgmma(request: Request, gemm: SkinnyGemm) -> bool:
    """Whether so many rows take FMAs longer than B takes to arrive, and wgmma computes them, in tiles of 64 rows."""
    return _takes_longer(request, gemm) and isinstance(match_wgmma(request), Match)


def _takes_longer(request: Request, gemm: SkinnyGemm) -> bool:
    """Whether so many rows take FMAs longer than B takes to arrive, on a target with wgmma."""
    array = gemm.array(gemm.b)
    sizes = (bounds(extent, gemm.context.ranges)[0] for extent in array.shape)
    is_large = gemm.m_extent > _MAX_FMA_M and math.prod(sizes) * array.dtype.bytes >= _MIN_WGMMA_BYTES
    return is_large and WGMMA.is_on(request.target)


def _match(gemm: SkinnyGemm, config: GemvConfig) -> Match:
    def smaller() -> Match | None:
        """Half the warps, so that each thread may have twice the registers; else half the columns of a warp."""
        if config.warps > 1:
            return _match(gemm, replace(config, warps=config.warps // 2))
        if gemm.is_k_major and config.tile_n > 1:
            return _match(gemm, replace(config, tile_n=config.tile_n // 2, warps=choose_config(gemm).warps))
        return None

    builder = KMajorKernel if gemm.is_k_major else NMajorKernel
    return Match(lambda: builder(gemm, config).kernel(), smaller=smaller)


def _limit_refusals(gemm: SkinnyGemm, config: GemvConfig) -> Iterator[Refusal]:
    threads = config.warps * WARP_SIZE
    if threads > gemm.request.target.threads_per_block:
        yield Refusal(f"a block of {threads} threads is too large", "schedule.warps")
    if not gemm.is_k_major and not divides(config.tile_n, gemm.context.extent(gemm.n), gemm.context):
        reason = f"a thread's {config.tile_n} columns don't provably divide the extent of {gemm.n.name}"
        yield Refusal(reason, f"schedule.{TILE_N.name}")


def split(single: Single) -> Steps | None:
    """The two launches of split-K, partial sums over parts of K and their sum; None if another family may split it.

    A GEMV that fills the device stays a single launch."""
    schedule, statement = single.schedule, single.statement
    if schedule.block or schedule.thread or schedule.step or dict(schedule.tunables).get("split_k") == 1:
        return None
    gemm = recognise(single.request())
    if not isinstance(gemm, SkinnyGemm):
        return None
    if (steps := with_k_major_rows(single, gemm)) is not None and _takes_product(single, steps):
        return steps
    if _is_faster_by_tiles(single.request(), gemm):
        return None
    if _is_faster_by_rows(single.request(), gemm):
        return None
    if not gemm.pays and with_converted_operands(single, lambda gemm: isinstance(match_wgmma(gemm), Match)) is not None:
        return None  # `wgmma` takes B in the type of A, with scales of groups of terms
    config = choose_config(gemm)
    if config.min_blocks_per_sm:
        return Steps((statement,), ())
    factor, k = split_k_of(gemm, config), gemm.context.typical_extent(gemm.k)
    (reduction,) = dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Reduce))
    if factor < 2 or k is None or len(reduction.indices) > 1 or reduction.where is not None:
        return None
    (index,) = reduction.indices
    taken = taken_names(single.context.spec, (*statement.indices, index))
    chunk, chunk_k, where = Index(fresh("part", taken), Const(factor, INT64)), _quotient(index.extent, factor), None
    is_static = gemm.context.static_extent(gemm.k) is not None
    if is_static:
        chunk_k = Const(k // factor if k % factor == 0 else _aligned(-(-k // factor)), INT64)
    k_value = Op("add", (Op("mul", (IndexValue(chunk.name), chunk_k), INT64), IndexValue(index.name)), INT64)
    if not is_static or k % factor:
        where = Op("lt", (k_value, index.extent), BOOL)
    body = substitute(reduction.body, {index.name: k_value})
    partial = replace(reduction, body=body, where=where, indices=(Index(index.name, chunk_k),))
    what = f"{text_of(chunk_k)} terms of: {statement.text}"
    parts = temporary(fresh(f"{statement.target}_parts", taken), (chunk, *statement.indices), partial, what, statement)
    total = replace(reduction, body=parts.read, indices=(chunk,))
    last = replace(statement, value=replaced(statement.value, lambda node: total if node == reduction else None))
    return replace(steps_of((parts,), last, tuned=(parts.array.name,)), opens_last=True)


def _takes_product(single: Single, steps: Steps) -> bool:
    """Whether no other family is faster for the last of the steps."""
    request = last_request(single, steps)
    gemm = recognise(request)
    if not isinstance(gemm, SkinnyGemm) or gemm.has_strided_rows:
        return False
    return not _is_faster_by_tiles(request, gemm) and not _is_faster_by_rows(request, gemm)


def _aligned(length: int) -> int:
    """The length of parts that begin at multiples of all vectors."""
    return -(-length // MAX_ACCESS_BYTES) * MAX_ACCESS_BYTES


def _quotient(extent: Expr, divisor: int) -> Expr:
    """The extent divided by a number, rounded up."""
    padded = Op("add", (extent, Const(divisor - 1, INT64)), INT64)
    return Op("floordiv", (padded, Const(divisor, INT64)), INT64)


FAMILY = Family(
    "skinny",
    rank=40,
    needs=Reduce,
    doc="skinny GEMM and GEMV: M up to 16, each element of B is read once, split-K where N is small",
    match=match,
    tunables=TUNABLES,
    split=split,
)
