"""Matches sums, products and extrema by key, `s[b] = sum(v[n], n, where=key[n] == b)`, and what their vectors load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cugen.pieces.keyed.problem import KeyedProblem, NotByKey, match_keyed
from cugen.pieces.keyed.terms import Summand, Term, summands_of
from cugen.pieces.vectors import is_computed, step_along, widest_at
from cugen.plan.context import Context
from cugen.plan.memory import ADDRESSED
from cugen.plan.request import Refusal, Request
from cugen.rewrite.align_reductions import NotInStages
from cugen.spec.expressions import Index, Read, Reduce, free_indices
from cugen.spec.types import DType

_KINDS = ("sum", "prod", "max", "min")
_MIN_BITS = 32  # of an accumulator: narrower ones of adjacent threads share a bank's word
MAX_WIDTH = 4  # columns of a thread
MIN_COLUMNS = 4  # adjacent columns that are worth a thread each (heuristic)


def match_grouped(request: Request) -> KeyedProblem | Refusal:
    """The reductions by key that a group's statements compute, or the reason against this family."""
    try:
        problem = match_keyed(request, _summands, _accumulator)
    except (NotByKey, NotInStages) as error:
        return Refusal(str(error))
    if column_of(problem) is None:
        return problem
    longest = max(problem.reduced, key=request.context.planned_extent)
    return replace(problem, reduced=(*(index for index in problem.reduced if index != longest), longest))


def _summands(reduction: Reduce) -> Sequence[Summand]:
    if reduction.kind not in _KINDS:
        raise NotByKey(f"takes sums, products and extrema; this is {reduction.kind}")
    whole = list(summands_of(reduction, are_split=False))
    # Of a sum whose operands have keys of their own, each is added apart.
    return whole if any(conditions for conditions, _ in whole) else list(summands_of(reduction))


def _accumulator(reduction: Reduce, _terms: Sequence[Term], _context: Context) -> DType:
    if reduction.dtype.bits < _MIN_BITS:
        raise NotByKey(f"has accumulators of 32 and 64 bits, not of {reduction.dtype}")
    return reduction.dtype


def column_of(problem: KeyedProblem) -> Index | None:
    """The result index along which the values that are read are contiguous, so that adjacent threads have adjacent
    columns of it."""
    for index in problem.rows:
        reads = [read for read in problem.reads() if index.name in free_indices(read)]
        is_long = problem.context.planned_extent(index) >= MIN_COLUMNS
        if is_long and reads and all(_is_row(read, index, problem) for read in reads):
            return index
    return None


def _is_row(read: Read, index: Index, problem: KeyedProblem) -> bool:
    return step_along(problem.arrays[read.array], read.subscripts, index.name, problem.context) == 1


def column_reads(problem: KeyedProblem, column: Index) -> tuple[Read, ...]:
    """The reads that vectors of columns may load."""
    return tuple(read for read in problem.reads() if column.name in free_indices(read) and is_plain(read, problem))


def is_plain(read: Read, problem: KeyedProblem) -> bool:
    """Whether a read is in bounds for all elements, whatever is in memory."""
    is_inside = read.boundary is None and not read.exact and not any(map(is_computed, read.subscripts))
    return is_inside and problem.arrays[read.array].space in ADDRESSED


def widest(problem: KeyedProblem, column: Index | None) -> int:
    """Columns of the widest vectors that all loads allow; 1 where keys or conditions differ between columns."""
    if column is None:
        return 1
    tests = (part for term in problem.terms for part in (*term.keys, *term.conditions))
    reads = [read for read in problem.reads() if column.name in free_indices(read)]
    if any(column.name in free_indices(test) for test in tests) or set(reads) != set(column_reads(problem, column)):
        return 1
    targets = (Read(s.target, s.subscripts, s.value.dtype) for s in problem.request.group.statements)
    accesses = [(problem.arrays[read.array], read.subscripts) for read in (*reads, *targets)]
    widths = (widest_at(array, subscripts, column.name, problem.context).count for array, subscripts in accesses)
    return min((MAX_WIDTH, *widths))
