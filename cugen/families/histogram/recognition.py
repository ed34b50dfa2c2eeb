"""Matches counts and integer sums by key: `h[b] = sum(key[n] == b, n)`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cugen.pieces.keyed.problem import KeyedProblem, NotByKey, match_keyed
from cugen.pieces.keyed.terms import Summand, Term, summands_of
from cugen.plan.context import Context
from cugen.plan.intervals import interval
from cugen.plan.request import Refusal, Request
from cugen.rewrite.align_reductions import NotInStages
from cugen.spec.expressions import Reduce
from cugen.spec.types import INT32, UINT32, UINT64, DType

_NARROW = 32  # bits of a counter that every target adds to in shared memory


def match_histogram(request: Request) -> KeyedProblem | Refusal:
    """The histograms that a group's statements compute, or the reason against this family."""
    try:
        return match_keyed(request, _summands, _counter)
    except (NotByKey, NotInStages) as error:
        return Refusal(str(error))


def _summands(reduction: Reduce) -> Sequence[Summand]:
    if reduction.kind != "sum" or not reduction.dtype.is_integer or reduction.dtype.bits < INT32.bits:
        raise NotByKey("takes sums of integers, whose order changes nothing")
    return list(summands_of(reduction))


def _counter(reduction: Reduce, terms: Sequence[Term], context: Context) -> DType:
    """The unsigned type of the counters: those of 32 bits give the result modulo 2³², or hold it."""
    if reduction.dtype.bits <= _NARROW:
        return UINT32
    names = {name.name: values for name, values in context.ranges.items()}
    ranges = [interval(term.value, names) for term in terms]
    count = math.prod(context.max_extent(index) for index in reduction.indices)
    largest = sum(high for _, high in ranges) * count
    return UINT32 if min(low for low, _ in ranges) >= 0 and largest <= UINT32.highest else UINT64
