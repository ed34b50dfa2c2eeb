"""Chooses indices of a reduction whose values are partial results, where parts of one index leave the device idle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import prod

from cugen.machine.requests.warp import SECTOR_BYTES, WARP_SIZE
from cugen.plan.context import Context
from cugen.rewrite.stored.sectors import requested_sectors
from cugen.rewrite.sums.short_reductions import OPERATORS
from cugen.rewrite.temporaries import MAX_TEMPORARY_BYTES
from cugen.spec.expressions import Index, Read, Reduce, free_indices, walk
from cugen.spec.model import Statement

_MAX_CHOSEN = 6  # indices, whose choices are all compared: twice as many for each more (heuristic)


def indices_of_partials(
    statement: Statement, reductions: Sequence[Reduce], context: Context, results: int, min_terms: int
) -> tuple[str, ...]:
    """Indices of which partial results fill the device, at least `results` in all or as many as there may be with
    `min_terms` terms each, and of these the ones for which warps request the fewest sectors, in order, lanes along the
    last one; none where no indices do, or where the reductions have different ones."""
    indices = reductions[0].indices
    if any(reduction.indices != indices or reduction.kind not in OPERATORS for reduction in reductions):
        return ()
    counts = {
        whole: prod(map(context.max_extent, (*statement.indices, *whole)))
        for whole in _choices(indices, context)
        if _fit(whole, statement, reductions, context, min_terms)
    }
    enough = min(results, max(counts.values(), default=0))

    def sectors(whole: tuple[Index, ...]) -> float:
        return sum(_sectors(reduction, whole, statement, context) for reduction in reductions)

    filling = [whole for whole, count in counts.items() if count >= enough]
    return tuple(index.name for index in min(filling, key=sectors)) if filling else ()


def _choices(indices: tuple[Index, ...], context: Context) -> Iterator[tuple[Index, ...]]:
    """Some of the longest indices, each of them as the last one."""
    longest = sorted(indices, key=context.max_extent, reverse=True)[:_MAX_CHOSEN]
    for count in range(1, min(len(longest), len(indices) - 1) + 1):
        for chosen in combinations((index for index in indices if index in longest), count):
            yield from ((*(index for index in chosen if index != last), last) for last in reversed(chosen))


def _fit(
    whole: tuple[Index, ...], statement: Statement, reductions: Sequence[Reduce], context: Context, min_terms: int
) -> bool:
    """Whether each partial result has so many terms, and all of them fit the workspace."""
    stored = prod(map(context.max_extent, (*statement.indices, *whole)))
    terms = prod(context.max_extent(index) for index in reductions[0].indices if index not in whole)
    element_bytes = sum(reduction.dtype.bytes for reduction in reductions)
    return terms >= min_terms and stored * element_bytes <= MAX_TEMPORARY_BYTES


def _sectors(reduction: Reduce, whole: tuple[Index, ...], statement: Statement, context: Context) -> float:
    """Sectors that a warp with a partial result in each lane requests per term: what doesn't change from term to term
    is loaded once, as a partial result is stored and loaded."""
    lanes = (*statement.indices, *whole)
    summed = {index.name for index in reduction.indices if index not in whole}
    terms = prod(context.max_extent(index) for index in reduction.indices if index not in whole)
    reads = dict.fromkeys(node for node in walk(reduction) if isinstance(node, Read))
    sectors = 2 * WARP_SIZE * reduction.dtype.bytes / SECTOR_BYTES / terms
    for read in reads:
        requested = requested_sectors(read, lanes, context)
        sectors += requested if free_indices(read) & summed else requested / terms
    return sectors
