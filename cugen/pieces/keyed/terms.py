"""Terms of reductions that count for one value of an output index each: `v if key[n] == b else 0`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice

from cugen.plan.context import Context
from cugen.plan.lowering.reductions import identity
from cugen.plan.subscripts import is_widening
from cugen.spec.expressions import (
    Cast,
    Const,
    Expr,
    Index,
    IndexValue,
    Op,
    Reduce,
    Select,
    conjuncts,
    free_indices,
)
from cugen.spec.types import BOOL, INT32, INT64, DType

MAX_TERMS = 4  # of an element: more read it for longer than they save (heuristic)
_DIGITS = {"float32": 24, "float64": 53}  # of the significand: integers of up to so many bits are exact


@dataclass(frozen=True, slots=True)
class Term:
    """A value that one element adds to the bin whose number along each bin index is a key, where all conditions
    hold."""

    keys: tuple[Expr, ...]
    conditions: tuple[Expr, ...]
    value: Expr

    def parts(self) -> tuple[Expr, ...]:
        return (*self.keys, *self.conditions, self.value)


Summand = tuple[tuple[Expr, ...], Expr]  # conditions, and the value that is added where all of them hold


def summands_of(reduction: Reduce, *, are_split: bool = True) -> Iterator[Summand]:
    """The parts of a sum's term, each with the conditions but for which it is 0: the operands of additions in the sum's
    type, if they `are_split`. The term of another reduction, with those but for which it is its identity."""
    if reduction.kind == "sum":
        dtype = reduction.dtype if are_split else None
        return _summands(reduction.body, conjuncts(reduction.where), dtype)
    return iter((_chosen(reduction.body, conjuncts(reduction.where), identity(reduction.kind, reduction.dtype)),))


def _chosen(body: Expr, conditions: tuple[Expr, ...], otherwise: Const) -> Summand:
    match body:
        case Select(condition=condition, then=then, orelse=orelse) if orelse == otherwise:
            return _chosen(then, (*conditions, *conjuncts(condition)), otherwise)
    return conditions, body


def _summands(body: Expr, conditions: tuple[Expr, ...], dtype: DType | None) -> Iterator[Summand]:
    """Additions within a conversion aren't told apart, since they may exceed its type."""
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


def cases_of(summand: Summand, outputs: Set[str]) -> Iterator[Summand]:
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


def bins_of(summands: Sequence[Summand], outputs: Sequence[Index], context: Context) -> tuple[Index, ...]:
    """The output indices that every summand only compares with a key, which has none of them."""
    bins = [index for index in outputs if all(_selects(summand, index, context) for summand in summands)]
    for index in tuple(bins):
        keys = (key for conditions, _ in summands for key in _keys(conditions, index, context))
        if any(free_indices(key) & {b.name for b in bins} for key in keys):
            bins.remove(index)
    return tuple(bins)


def _selects(summand: Summand, index: Index, context: Context) -> bool:
    """Whether an index is in equalities with keys, and nowhere else."""
    conditions, value = summand
    using = sum(index.name in free_indices(condition) for condition in conditions)
    return 0 < using == len(_keys(conditions, index, context)) and index.name not in free_indices(value)


def _keys(conditions: Sequence[Expr], index: Index, context: Context) -> tuple[Expr, ...]:
    """The keys that conditions compare an index with."""
    return tuple(key for condition in conditions if (key := _side(condition, index, context)) is not None)


def term_of(summand: Summand, bins: Sequence[Index], context: Context) -> Term:
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


def exclusive(cases: Sequence[Term]) -> Iterator[Term]:
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
