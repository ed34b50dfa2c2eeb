"""Expands integer products of sums, as of numbers with zero points, so that tensor cores multiply what is stored.

    y[m, n] = sum((a[m, k] - p[m]) * (b[k, n] - q[n]), k)      a, b: 8 bits
becomes
    y_a[m] = sum(a[m, k], k);  y_b[n] = sum(b[k, n], k)
    y[m, n] = sum(a[m, k] * b[k, n], k) - q[n] * y_a[m] - p[m] * y_b[n] + K * p[m] * q[n]
Integers that wrap are a ring: products may be expanded, and factors that all terms have moved out of a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from math import prod

from cugen.plan.request import Request, Single, Steps
from cugen.plan.subscripts import is_exact, is_widening
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.temporaries import Temporary, last_request, steps_of, temporary
from cugen.spec.expressions import Cast, Expr, Op, Read, Reduce, Scan, free_indices, walk
from cugen.spec.model import Schedule
from cugen.spec.rewriting import converted, replaced
from cugen.spec.types import DType

_MIN_MULTIPLY_ADDS = 1 << 26  # on CUDA cores they take as long as the launches of the corrections (heuristic)
_MAX_TERMS = 16  # of an expanded product


@dataclass(frozen=True, slots=True)
class _Term:
    """A signed product: of factors that depend on the indices of a sum, and of such that don't."""

    is_negative: bool
    inner: tuple[Expr, ...]
    outer: tuple[Expr, ...]

    def __mul__(self, factor: _Term) -> _Term:
        inner, outer = (*self.inner, *factor.inner), (*self.outer, *factor.outer)
        return _Term(self.is_negative != factor.is_negative, inner, outer)

    def __neg__(self) -> _Term:
        return replace(self, is_negative=not self.is_negative)


def with_expanded_product(single: Single, uses_tensor_cores: Callable[[Request], bool]) -> Steps | None:
    """The launches that sum one operand each, and the GEMM with these in its epilogue; None where the sum is none of
    integers, where it doesn't pay off, and where the GEMM uses tensor cores as it is, or doesn't then."""
    statement = single.statement
    loops = list(dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Reduce | Scan)))
    reduction = loops[0] if len(loops) == 1 else None
    if not isinstance(reduction, Reduce) or reduction.kind != "sum" or reduction.where is not None:
        return None
    if not reduction.dtype.is_integer or reduction.body.dtype != reduction.dtype or single.schedule != Schedule():
        return None
    work = prod(map(single.context.max_extent, (*statement.indices, *reduction.indices)))
    terms = _terms(reduction.body, reduction)
    products = [term for term in terms if len(term.inner) > 1]
    if work < _MIN_MULTIPLY_ADDS or not 1 < len(terms) <= _MAX_TERMS or len(products) != 1:
        return None
    if uses_tensor_cores(single.request()):
        return None
    temporaries, total = _sums(single, reduction, terms)
    of_sum: dict[Expr, Expr] = {reduction: total}
    # The last may be split as copies of operands that tensor cores would gather.
    steps = steps_of(temporaries, replace(statement, value=replaced(statement.value, of_sum.get)), splits_last=True)
    return steps if uses_tensor_cores(last_request(single, steps)) else None


def _terms(expr: Expr, reduction: Reduce) -> list[_Term]:
    """The expanded terms of a sum, but for those past the first that are too many."""
    dtype, names = reduction.dtype, {index.name for index in reduction.indices}

    def terms(expr: Expr) -> list[_Term]:
        match expr:
            case Op(name="add" | "sub" as name, args=(left, right)) if _is_of_ring(expr, dtype):
                others = terms(right)
                return [*terms(left), *(others if name == "add" else map(_Term.__neg__, others))]
            case Op(name="mul", args=(left, right)) if _is_of_ring(expr, dtype):
                others = terms(right)
                return [a * b for a in terms(left)[: _MAX_TERMS + 1] for b in others[: _MAX_TERMS + 1]]
            case Op(name="neg", args=(arg,)) if _is_of_ring(expr, dtype):
                return [-term for term in terms(arg)]
            case Cast(arg=arg) if is_widening(expr):
                return terms(arg)
        factor = (converted(expr, dtype),)
        return [_Term(False, factor, ()) if free_indices(expr) & names else _Term(False, (), factor)]

    return terms(expr)


def _is_of_ring(op: Op, dtype: DType) -> bool:
    """Whether an operation gives what it gives modulo the numbers of the type."""
    return op.dtype == dtype or (op.dtype.is_integer and is_exact(op))


def _sums(single: Single, reduction: Reduce, terms: list[_Term]) -> tuple[list[Temporary], Expr]:
    """Stored sums of single operands, and the sum of all terms."""
    statement, dtype = single.statement, reduction.dtype
    taken = taken_names(single.context.spec, (*statement.indices, *reduction.indices))
    stored: dict[Expr, Temporary] = {}

    def factors(term: _Term) -> Iterator[Expr]:
        match term.inner:
            case ():
                yield from (converted(index.extent, dtype) for index in reduction.indices)
            case (operand,):
                if operand not in stored:
                    stored[operand] = _stored_sum(single, replace(reduction, body=operand), taken)
                yield stored[operand].read
            case _:
                yield replace(reduction, body=_product(term.inner))
        yield from term.outer

    first, *others = sorted(terms, key=lambda term: (term.is_negative, -len(term.inner)))
    total = _product(factors(first))
    if first.is_negative:
        total = Op("neg", (total,), dtype)
    for term in others:
        total = Op("sub" if term.is_negative else "add", (total, _product(factors(term))), dtype)
    return list(stored.values()), total


def _stored_sum(single: Single, total: Reduce, taken: set[str]) -> Temporary:
    statement, names = single.statement, free_indices(total)
    indices = tuple(index for index in statement.indices if index.name in names)
    array = next((node.array for node in walk(total) if isinstance(node, Read)), statement.target)
    name = fresh(f"{statement.target}_{array}_sum", taken)
    return temporary(name, indices, total, f"sum of {array} in: {statement.text}", statement, is_stored=True)


def _product(factors: Iterable[Expr]) -> Expr:
    return reduce(lambda a, b: Op("mul", (a, b), a.dtype), factors)
