"""Matches sums of terms that count for one bin each: `h[b] = sum(key[n] == b, n)`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice

from cugen.pieces.grid import contiguous_first
from cugen.pieces.vectors import is_computed, step_along
from cugen.plan.context import Context
from cugen.plan.intervals import interval
from cugen.plan.memory import Array
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import is_widening
from cugen.rewrite.align_reductions import NotInStages, collected, with_common_indices
from cugen.rewrite.fuse_dimensions import with_fused_dimensions
from cugen.spec.expressions import (
    Cast,
    Const,
    Expr,
    Index,
    IndexValue,
    Op,
    Read,
    Reduce,
    Select,
    conjuncts,
    free_indices,
    walk,
)
from cugen.spec.model import Statement
from cugen.spec.types import BOOL, INT32, INT64, UINT32, UINT64, DType

MAX_TERMS = 4  # of an element: more read it for longer than they save (heuristic)
_DIGITS = {"float32": 24, "float64": 53}  # of the significand: integers of up to so many bits are exact
_NARROW = 32  # bits of a counter that every target adds to in shared memory


@dataclass(frozen=True, slots=True)
class Term:
    """A value that one element adds to the bin whose number along each bin index is a key, where all conditions
    hold."""

    keys: tuple[Expr, ...]
    conditions: tuple[Expr, ...]
    value: Expr

    def parts(self) -> tuple[Expr, ...]:
        return (*self.keys, *self.conditions, self.value)


@dataclass(frozen=True, slots=True)
class Histogram:
    """A sum of terms by their keys, with counters of an unsigned type: those of 32 bits give the result modulo 2³², or
    hold it."""

    reduction: Reduce
    terms: tuple[Term, ...]
    counter: DType


@dataclass(frozen=True, slots=True)
class HistogramProblem:
    """Sums over the `reduced` indices, the fastest last, into histograms over `bins` for each element of `rows`, the
    fastest first."""

    request: Request  # its statements hold the reductions
    unfused: tuple[Statement, ...]  # the statements before dimensions were fused
    arrays: Mapping[str, Array]
    origins: Mapping[str, tuple[Index, ...]]  # the indices that each fused one replaces
    histograms: tuple[Histogram, ...]
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
        """Those of all histograms."""
        return tuple(term for histogram in self.histograms for term in histogram.terms)

    @property
    def bin_count(self) -> int:
        return math.prod(self.context.static_extent(index) or 0 for index in self.bins)

    def planned_count(self, indices: tuple[Index, ...]) -> int:
        """The points of an index space, for the extents that are planned for."""
        return math.prod(self.context.planned_extent(index) for index in indices)

    def reads(self) -> tuple[Read, ...]:
        """The reads of all terms, each once."""
        nodes = (node for term in self.terms for part in term.parts() for node in walk(part))
        return tuple(dict.fromkeys(node for node in nodes if isinstance(node, Read)))


class NotAHistogram(ValueError):
    """Why statements don't match the family."""


def match_histogram(request: Request) -> HistogramProblem | Refusal:
    """The histograms that a group's statements compute, or the reason against this family."""
    try:
        return _problem(request)
    except (NotAHistogram, NotInStages) as error:
        return Refusal(str(error))


def _problem(request: Request) -> HistogramProblem:
    unfused = with_common_indices(request.group.statements, request.context)
    fused = with_fused_dimensions(unfused, request.context)
    first, context = fused.statements[0], request.context
    (reductions,) = _check_form(fused.statements)
    outputs = {index.name for index in first.indices}
    cases = [[list(_cases(summand, outputs)) for summand in _summands_of(reduction)] for reduction in reductions]
    bins = _bins([case for groups in cases for group in groups for case in group], first.indices, context)
    histograms = []
    for reduction, groups in zip(reductions, cases, strict=True):
        terms = [term for group in groups for term in _exclusive([_term(case, bins, context) for case in group])]
        histograms.append(Histogram(reduction, tuple(terms), _counter(reduction, terms, context)))
    problem = HistogramProblem(
        request.with_statements(fused.statements),
        unfused,
        fused.arrays,
        fused.origins,
        tuple(histograms),
        bins,
        tuple(index for index in contiguous_first(first, fused.arrays[first.target]) if index not in bins),
        reductions[0].indices,
    )
    _check(problem)
    return replace(problem, reduced=_contiguous_last(problem))


def _check_form(statements: tuple[Statement, ...]) -> tuple[tuple[Reduce, ...], ...]:
    """The reductions of statements, in one stage: integer sums."""
    stages = collected(statements)
    if len(stages) != 1:
        raise NotAHistogram("takes reductions over the same indices, none of which depends on another")
    for reduction in stages[0]:
        if reduction.kind != "sum" or not reduction.dtype.is_integer or reduction.dtype.bits < INT32.bits:
            raise NotAHistogram("takes sums of integers, whose order changes nothing")
    for statement in statements:
        if not all(isinstance(sub, IndexValue | Const) for sub in statement.subscripts):
            raise NotAHistogram(f"subscripts outputs by indices alone; {statement.target} has an expression")
    return stages


def _counter(reduction: Reduce, terms: Sequence[Term], context: Context) -> DType:
    if reduction.dtype.bits <= _NARROW:
        return UINT32
    names = {name.name: values for name, values in context.ranges.items()}
    ranges = [interval(term.value, names) for term in terms]
    count = math.prod(context.max_extent(index) for index in reduction.indices)
    largest = sum(high for _, high in ranges) * count
    return UINT32 if min(low for low, _ in ranges) >= 0 and largest <= UINT32.highest else UINT64


Summand = tuple[tuple[Expr, ...], Expr]  # conditions, and the value that is added where all of them hold


def _summands_of(reduction: Reduce) -> Iterator[Summand]:
    return _summands(reduction.body, conjuncts(reduction.where), reduction.dtype)


def _summands(body: Expr, conditions: tuple[Expr, ...], dtype: DType | None) -> Iterator[Summand]:
    """The parts of a sum's term, of which each is 0 but under its conditions; additions in the sum's type are told
    apart, but within a conversion, which they may exceed."""
    match body:
        case Cast(arg=arg, to=to) if arg.dtype == BOOL:
            yield (*conditions, *conjuncts(arg)), Const(1, to)
        case Cast(arg=arg, to=to):
            for inner, value in _summands(arg, conditions, None):
                yield inner, Const(1, to) if value == Const(1, arg.dtype) else replace(body, arg=value)
        case Select(condition=condition, then=then, orelse=Const(value=0)):
            yield from _summands(then, (*conditions, *conjuncts(condition)), dtype)
        case Op(name="mul", args=(Cast(arg=condition), factor)) if _is_flag(condition, body):
            yield from _summands(factor, (*conditions, *conjuncts(condition)), dtype)
        case Op(name="mul", args=(factor, Cast(arg=condition))) if _is_flag(condition, body):
            yield from _summands(factor, (*conditions, *conjuncts(condition)), dtype)
        case Op(name="add", args=(first, second)) if body.dtype == dtype:
            yield from _summands(first, conditions, dtype)
            yield from _summands(second, conditions, dtype)
        case _:
            yield conditions, body


def _is_flag(condition: Expr, product: Expr) -> bool:
    return condition.dtype == BOOL and product.dtype.is_integer


def _cases(summand: Summand, outputs: Set[str]) -> Iterator[Summand]:
    """The cases of a summand, which may be exponentially many; no more than one beyond those that are taken."""
    conditions, value = summand
    return ((case, value) for case in islice(_alternatives(conditions, outputs), MAX_TERMS + 1))


def _alternatives(conditions: tuple[Expr, ...], outputs: Set[str]) -> Iterator[tuple[Expr, ...]]:
    """The cases of a conjunction: alternatives that have an output index are told apart."""
    for position, condition in enumerate(conditions):
        parts = _disjuncts(condition)
        if len(parts) > 1 and free_indices(condition) & outputs:
            for part in parts:
                case = (*conditions[:position], *conjuncts(part), *conditions[position + 1 :])
                yield from _alternatives(case, outputs)
            return
    yield conditions


def _disjuncts(condition: Expr) -> tuple[Expr, ...]:
    match condition:
        case Op(name="or", args=parts):
            return parts
        case Select(condition=first, then=Const(value=True), orelse=second):
            return first, second
    return (condition,)


def _side(condition: Expr, index: Index, context: Context) -> Expr | None:
    """The key of an equality with an index; None where a condition is none."""
    match condition:
        case Op(name="eq", args=(left, right)):
            for bin_side, key in ((left, right), (right, left)):
                is_bin = _is_index(bin_side, IndexValue(index.name), context.max_extent(index) - 1)
                if is_bin and index.name not in free_indices(key):
                    return _widened(key)
    return None


def _is_index(expr: Expr, value: IndexValue, last: int) -> bool:
    """Whether an expression is an index of up to `last`, in a type that holds all of its values."""
    if not isinstance(expr, Cast):
        return expr == value
    highest = 1 << _DIGITS.get(expr.to.name, 0) if expr.to.is_float else expr.to.highest
    return last <= highest and _is_index(expr.arg, value, last)


def _widened(expr: Expr) -> Expr:
    """What is converted to a type that holds all of its values."""
    while isinstance(expr, Cast) and is_widening(expr):
        expr = expr.arg
    return expr


def _bins(summands: Sequence[Summand], outputs: Sequence[Index], context: Context) -> tuple[Index, ...]:
    """The output indices that every summand only compares with a key, which has none of them."""
    bins = [index for index in outputs if all(_selects(summand, index, context) for summand in summands)]
    for index in tuple(bins):
        keys = (key for conditions, _ in summands for key in _keys(conditions, index, context))
        if any(free_indices(key) & {b.name for b in bins} for key in keys):
            bins.remove(index)
    if not bins:
        raise NotAHistogram("counts by keys; here no output index is only compared with one")
    return tuple(bins)


def _selects(summand: Summand, index: Index, context: Context) -> bool:
    """Whether an index is in equalities with keys, and nowhere else."""
    conditions, value = summand
    using = sum(index.name in free_indices(condition) for condition in conditions)
    return 0 < using == len(_keys(conditions, index, context)) and index.name not in free_indices(value)


def _keys(conditions: Sequence[Expr], index: Index, context: Context) -> tuple[Expr, ...]:
    """The keys that conditions compare an index with."""
    return tuple(key for condition in conditions if (key := _side(condition, index, context)) is not None)


def _term(summand: Summand, bins: Sequence[Index], context: Context) -> Term:
    """The summand as a term. Where it compares a bin with several keys, these are equal, and a key that is a real
    number is an integer."""
    conditions, value = summand
    names = {index.name for index in bins}
    remaining = [condition for condition in conditions if not free_indices(condition) & names]
    chosen: list[Expr] = []
    for index in bins:
        integers: list[Expr] = []
        for key in _keys(conditions, index, context):
            integers.append(Cast(key, INT32) if key.dtype.is_float else key)
            if key.dtype.is_float:
                remaining.append(Op("eq", (Cast(integers[-1], key.dtype), key), BOOL))
        chosen.append(integers[0])
        remaining += [_equal(integers[0], key) for key in integers[1:]]
    return Term(tuple(chosen), tuple(remaining), value)


def _equal(first: Expr, second: Expr) -> Expr:
    return Op("eq", (_as_int64(first), _as_int64(second)), BOOL)


def _as_int64(key: Expr) -> Expr:
    return key if key.dtype == INT64 else Cast(key, INT64)


def _exclusive(cases: Sequence[Term]) -> Iterator[Term]:
    """The cases of one summand, each where no case before it adds to the same bin."""
    for number, case in enumerate(cases):
        conditions = case.conditions
        for earlier in cases[:number]:
            same: Expr = Const(True, BOOL)
            pairs = (_equal(a, b) for a, b in zip(earlier.keys, case.keys, strict=True))
            for condition in reversed((*earlier.conditions, *pairs)):
                same = condition if same == Const(True, BOOL) else Select(condition, same, Const(False, BOOL), BOOL)
            conditions = (*conditions, Op("not", (same,), BOOL))
        yield replace(case, conditions=conditions)


def _check(problem: HistogramProblem) -> None:
    reduced = {index.name for index in problem.reduced}
    if any(len(histogram.terms) > MAX_TERMS for histogram in problem.histograms):
        raise NotAHistogram(f"adds up to {MAX_TERMS} values for each element")
    if any(problem.context.static_extent(index) is None for index in problem.bins):
        raise NotAHistogram("has counters for a fixed number of bins")
    for term in problem.terms:
        if not any(free_indices(key) & reduced for key in term.keys):
            raise NotAHistogram("counts by keys; here no key depends on the index of the sum")
        for key in term.keys:
            if not key.dtype.is_integer or key.dtype == UINT64:
                raise NotAHistogram(f"takes integers of up to 64 bits with a sign as keys, not {key.dtype}")
    written = [statement.target for statement in problem.unfused]
    for read in problem.reads():
        if read.array in written:
            raise NotAHistogram(f"{read.array} is read by the sum and written by the same kernel")


def _contiguous_last(problem: HistogramProblem) -> tuple[Index, ...]:
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
