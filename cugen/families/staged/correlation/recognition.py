"""Recognises correlations: reductions along which the windows of adjacent outputs slide."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import sympy

from cugen.families.staged.walk import walks
from cugen.pieces.elementwise import IN_MEMORY
from cugen.plan.context import Context
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import Integer
from cugen.spec.expressions import Expr, Index, Read, Reduce, free_indices, walk

MIN_TERMS = 16  # along rows, unasked: `stencil` has fewer in the registers of a thread at once (heuristic)
MIN_ADJACENT_TERMS = 56  # of windows of adjacent elements, unasked: `stencil` is as fast with fewer (measured on H200)
MIN_SHARED = 4  # outputs that read an element, unasked: `reduce` loads it for each (heuristic)


@dataclass(frozen=True, slots=True)
class SlidingRead:
    """A read of the element `scale * i + step * k + offset` of a dimension, for output i and term k, from where other
    indices of the output begin, each by its factor in `origin`."""

    read: Read
    dimension: int
    scale: int
    step: int
    offset: int
    origin: tuple[tuple[str, int], ...] = ()

    @property
    def is_adjacent(self) -> bool:
        """Whether adjacent outputs and terms read adjacent elements."""
        return self.scale == abs(self.step) == 1 and self.dimension == len(self.read.subscripts) - 1

    @property
    def others(self) -> tuple[Expr, ...]:
        """The subscripts of the other dimensions."""
        subscripts = self.read.subscripts
        return (*subscripts[: self.dimension], *subscripts[self.dimension + 1 :])


@dataclass(frozen=True, slots=True)
class Correlation:
    """Reductions whose windows slide along `term`, one of their indices, and from output to output along an index."""

    term: Index
    along: str
    reads: tuple[SlidingRead, ...]
    reductions: tuple[Reduce, ...]

    @property
    def indices(self) -> tuple[Index, ...]:
        """The indices of the reductions, `term` last."""
        return (*(index for index in self.reductions[0].indices if index != self.term), self.term)


def recognise(request: Request, order: tuple[Index, ...]) -> Correlation | Refusal:
    """The reductions that slide along the contiguous index of the output, or why there are none."""
    walked = list(walks(request))
    if not walked:
        return Refusal("takes reductions over the same indices, none of which needs another's result")
    reductions = walked[0][1]
    for reduction in reductions:
        if reduction.is_position:
            return Refusal("takes no argmax or argmin")
        if any(isinstance(node, Reduce) for node in walk(reduction.body)):
            return Refusal("takes no nested reductions")
    along = order[0].name
    reads: dict[SlidingRead, Index] = {}
    for read in dict.fromkeys(_reads(reductions)):
        names = free_indices(read)
        if along not in names or not names & {index.name for index in reductions[0].indices}:
            continue
        sliding = _sliding(request, read, along, reductions[0].indices)
        if sliding is None:
            return Refusal(f"windows of {read.array} don't slide along {along}")
        reads[sliding[0]] = sliding[1]
    terms = dict.fromkeys(reads.values())
    if len(terms) != 1:
        listed = " and ".join(index.name for index in terms) or "none"
        return Refusal(f"takes windows that slide along {along} and one index of a reduction; here it is {listed}")
    (term,) = terms
    return Correlation(term, along, tuple(reads), reductions)


def unasked_refusals(request: Request, correlation: Correlation) -> Iterator[Refusal]:
    """Why windows are left to families that load each element for few outputs, or for one."""
    terms = request.context.planned_extent(correlation.term)
    if terms < MIN_TERMS:
        yield Refusal(f"slides along {correlation.term.name} of {terms} values; unasked it has at least {MIN_TERMS}")
    all_terms = math.prod(request.context.planned_extent(index) for index in correlation.indices)
    if all_terms < MIN_ADJACENT_TERMS and all(read.is_adjacent for read in correlation.reads):
        yield Refusal(f"sums {all_terms} adjacent elements; unasked it has at least {MIN_ADJACENT_TERMS} of them")
    for read in correlation.reads:
        if terms * abs(read.step) < MIN_SHARED * read.scale:
            yield Refusal(f"fewer than {MIN_SHARED} outputs share an element of {read.read.array}")


def _reads(reductions: tuple[Reduce, ...]) -> Iterator[Read]:
    for reduction in reductions:
        yield from (node for node in walk(reduction) if isinstance(node, Read))


def _sliding(request: Request, read: Read, along: str, indices: tuple[Index, ...]) -> tuple[SlidingRead, Index] | None:
    """The read as one of windows, with the index of the reductions along which they slide."""
    array = request.context.arrays[read.array]
    dimensions = [d for d, sub in enumerate(read.subscripts) if along in free_indices(sub)]
    if read.exact or array.space not in IN_MEMORY or array.values is not None or len(dimensions) != 1:
        return None
    (dimension,) = dimensions
    sub = read.subscripts[dimension]
    terms = [index for index in indices if index.name in free_indices(sub)]
    factors = linear_factors(sub, request.context)
    if factors is None or len(terms) != 1 or any(index.name in factors for index in indices if index != terms[0]):
        return None
    scale, step, offset = factors.pop(along), factors.pop(terms[0].name), factors.pop("")
    if scale < 1 or step == 0:
        return None
    sliding = SlidingRead(read, dimension, scale, step, offset, tuple(factors.items()))
    return None if terms[0].name in {n for o in sliding.others for n in free_indices(o)} else (sliding, terms[0])


def linear_factors(sub: Expr, context: Context) -> dict[str, int] | None:
    """The factors of the indices in a subscript, and its constant under an empty name; None if it isn't linear."""
    symbols: dict[str, Integer] = {name: sympy.Symbol(f"index {name}", integer=True) for name in free_indices(sub)}
    fixed = {name: sympy.Integer(low) for name, (low, high) in context.ranges.items() if low == high}
    try:
        value = to_integer(sub, {**context.symbols, **symbols}).xreplace(fixed).expand()
    except NotAnInteger:
        return None
    factors: dict[str, Integer] = {name: value.coeff(symbol) for name, symbol in sorted(symbols.items())}
    factors[""] = (value - sympy.Add(*(factors[name] * symbol for name, symbol in symbols.items()))).expand()
    is_linear = all(factor.is_Integer for factor in factors.values())
    return {name: int(factor) for name, factor in factors.items()} if is_linear else None
