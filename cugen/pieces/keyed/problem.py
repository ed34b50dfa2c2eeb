"""Matches reductions by key, whose terms count for one value of an output index each:
`s[b] = sum(v[n], n, where=key[n] == b)`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cugen.pieces.grid import contiguous_first
from cugen.pieces.keyed.terms import MAX_TERMS, Summand, Term, bins_of, cases_of, exclusive, term_of
from cugen.pieces.vectors import is_computed, step_along
from cugen.plan.context import Context
from cugen.plan.memory import Array
from cugen.plan.request import Request
from cugen.plan.symbols import Integer, integer
from cugen.rewrite.align_reductions import collected, with_common_indices
from cugen.rewrite.fuse_dimensions import with_fused_dimensions
from cugen.spec.expressions import Index, Read, Reduce, free_indices, walk
from cugen.spec.model import Statement
from cugen.spec.types import UINT64, DType


class NotByKey(ValueError):
    """Why statements aren't reductions by key."""


@dataclass(frozen=True, slots=True)
class KeyedReduction:
    """A reduction of terms by their keys, in accumulators of a type."""

    reduction: Reduce
    terms: tuple[Term, ...]
    accumulator: DType


@dataclass(frozen=True, slots=True)
class KeyedProblem:
    """Reductions over the `reduced` indices, the fastest last, into `bins` for each element of `rows`, the fastest
    first."""

    request: Request  # its statements hold the reductions
    unfused: tuple[Statement, ...]  # the statements before dimensions were fused
    arrays: Mapping[str, Array]
    origins: Mapping[str, tuple[Index, ...]]  # the indices that each fused one replaces
    reductions: tuple[KeyedReduction, ...]
    bins: tuple[Index, ...]
    rows: tuple[Index, ...]
    reduced: tuple[Index, ...]

    @property
    def context(self) -> Context:
        return self.request.context

    @property
    def fastest(self) -> Index:
        return self.reduced[-1]

    @property
    def terms(self) -> tuple[Term, ...]:
        """Those of all reductions."""
        return tuple(term for keyed in self.reductions for term in keyed.terms)

    @property
    def bin_count(self) -> int:
        """The bins that are planned for."""
        return self.planned_count(self.bins)

    @property
    def max_bin_count(self) -> int:
        """The bins for which there may be accumulators."""
        return math.prod(map(self.context.max_extent, self.bins))

    @property
    def has_fixed_bins(self) -> bool:
        """Whether the number of bins is known when the code is generated."""
        return all(self.context.static_extent(index) is not None for index in self.bins)

    @property
    def bin_extent(self) -> Integer:
        """The number of bins; where it isn't fixed, as an expression over params."""
        if self.has_fixed_bins:
            return integer(self.bin_count)
        (index,) = self.bins
        return self.context.extent(index)

    @property
    def bin_bytes(self) -> int:
        """Of the accumulators of a bin, one for each reduction."""
        return sum(keyed.accumulator.bytes for keyed in self.reductions)

    def planned_count(self, indices: tuple[Index, ...]) -> int:
        """The points of an index space, for the extents that are planned for."""
        return math.prod(self.context.planned_extent(index) for index in indices)

    def reads(self) -> tuple[Read, ...]:
        """The reads of all terms, each once."""
        nodes = (node for term in self.terms for part in term.parts() for node in walk(part))
        return tuple(dict.fromkeys(node for node in nodes if isinstance(node, Read)))


def match_keyed(
    request: Request,
    summands: Callable[[Reduce], Sequence[Summand]],
    accumulator: Callable[[Reduce, Sequence[Term], Context], DType],
) -> KeyedProblem:
    """The reductions by key that a group's statements compute. NotByKey or NotInStages where they aren't.

    `summands` are those of a reduction, `accumulator` the type of its accumulators; both may raise NotByKey."""
    unfused = with_common_indices(request.group.statements, request.context)
    fused = with_fused_dimensions(unfused, request.context)
    first, context = fused.statements[0], request.context
    reductions = _of_one_stage(fused.statements)
    outputs = {index.name for index in first.indices}
    cases = [[list(cases_of(summand, outputs)) for summand in summands(reduction)] for reduction in reductions]
    bins = bins_of([case for groups in cases for group in groups for case in group], first.indices, context)
    if not bins:
        raise NotByKey("counts by keys; here no output index is only compared with one")
    keyed = []
    for reduction, groups in zip(reductions, cases, strict=True):
        terms = [term for group in groups for term in exclusive([term_of(case, bins, context) for case in group])]
        keyed.append(KeyedReduction(reduction, tuple(terms), accumulator(reduction, terms, context)))
    problem = KeyedProblem(
        request.with_statements(fused.statements),
        unfused,
        fused.arrays,
        fused.origins,
        tuple(keyed),
        bins,
        tuple(index for index in contiguous_first(first, fused.arrays[first.target]) if index not in bins),
        reductions[0].indices,
    )
    _check(problem)
    return replace(problem, reduced=_contiguous_last(problem))


def _of_one_stage(statements: tuple[Statement, ...]) -> tuple[Reduce, ...]:
    """The reductions of statements, which are in one stage."""
    stages = collected(statements)
    if len(stages) != 1:
        raise NotByKey("takes reductions over the same indices, none of which depends on another")
    return stages[0]


def _check(problem: KeyedProblem) -> None:
    reduced = {index.name for index in problem.reduced}
    if any(len(keyed.terms) > MAX_TERMS for keyed in problem.reductions):
        raise NotByKey(f"adds up to {MAX_TERMS} values for each element")
    if not problem.has_fixed_bins and len(problem.bins) > 1:
        raise NotByKey("has bins of several keys for a fixed number of them")
    for term in problem.terms:
        if not any(free_indices(key) & reduced for key in term.keys):
            raise NotByKey("counts by keys; here no key depends on the index of the sum")
        for key in term.keys:
            if not key.dtype.is_integer or key.dtype == UINT64:
                raise NotByKey(f"takes integers of up to 64 bits with a sign as keys, not {key.dtype}")
    written = [statement.target for statement in problem.unfused]
    for read in problem.reads():
        if read.array in written:
            raise NotByKey(f"{read.array} is read by the sum and written by the same kernel")


def _contiguous_last(problem: KeyedProblem) -> tuple[Index, ...]:
    """The reduced indices, the one along which most reads are contiguous last."""

    def contiguous(index: Index) -> int:
        reads = (read for read in problem.reads() if index.name in free_indices(read))
        return sum(
            not any(map(is_computed, read.subscripts))
            and step_along(problem.arrays[read.array], read.subscripts, index.name, problem.context) == 1
            for read in reads
        )

    fastest = max(reversed(problem.reduced), key=contiguous)
    return (*(index for index in problem.reduced if index != fastest), fastest)
