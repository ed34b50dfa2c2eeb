"""Lowering of reductions to loops with accumulators; conditions become loop bounds where possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import sympy

from cugen.plan.intervals import fits, interval
from cugen.plan.nodes import Assign, Comparison, Condition, For, If, Index, Let, Loop, Node
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_guard, to_integer
from cugen.plan.symbols import Integer, Maximum, Minimum, bounds, integer
from cugen.spec import expressions as spec
from cugen.spec.expressions import Const, Expr, Local, Op, Read, Reduce, Scan, Select, free_indices, walk
from cugen.spec.types import BOOL, INT64, DType

if TYPE_CHECKING:
    from cugen.plan.lowering.expressions import Lowering

# Names of accumulators.
ACCUMULATORS = {
    "sum": "sum",
    "prod": "product",
    "max": "largest",
    "peak": "largest",  # internal: the maximum that ignores NaN
    "min": "smallest",
    "any": "any",
    "all": "all",
    "argmax": "argmax",
    "argmin": "argmin",
}

_OPERATORS = {
    "sum": "add",
    "prod": "mul",
    "max": "maximum",
    "peak": "fmax",
    "min": "minimum",
    "any": "or",
    "all": "and",
}


def reduce_values(lowering: Lowering, reduction: Reduce, scope: Scope) -> Expr:
    """The local of the result; its loops are hoisted to the outermost scope where they are safe to run."""
    known = scope.recall(reduction)
    if known is not None:
        return known
    home = scope.home(free_indices(reduction))
    local = Local(lowering.name_for(reduction, ACCUMULATORS[reduction.kind], home), reduction.dtype)
    extreme = local
    if reduction.kind in ("argmax", "argmin"):
        name = "largest" if reduction.kind == "argmax" else "smallest"
        extreme = Local(lowering.names.allocate(name), reduction.body.dtype)
    _loop(lowering, reduction, reduction.indices, conjuncts(reduction.where), local, extreme, home)
    loop = home.nodes.pop()
    home.nodes += [*_declare_accumulator(reduction, local, extreme), loop]
    home.remember(reduction, local)
    return local


def accumulate(
    lowering: Lowering, reduction: Reduce, accumulator: Local, scope: Scope, extreme: Local | None = None
) -> None:
    """Combines one term into `accumulator`, for the index values of `scope` and if the conditions hold.

    For argmax and argmin `accumulator` is the position and `extreme` the element there."""
    _accumulate(lowering, reduction, conjuncts(reduction.where), accumulator, extreme or accumulator, scope)


def _declare_accumulator(reduction: Reduce, local: Local, extreme: Local) -> tuple[Node, ...]:
    if extreme is local:
        return (Let(local, identity(reduction.kind, reduction.dtype), mutable=True),)
    return Let(local, Const(-1, INT64), mutable=True), Let(extreme, Const(0, extreme.dtype), mutable=True)


def _loop(
    lowering: Lowering,
    reduction: Reduce,
    indices: tuple[spec.Index, ...],
    conditions: tuple[Expr, ...],
    local: Local,
    extreme: Local,
    scope: Scope,
) -> None:
    """The loop nest over `indices`; conditions are tested as far out as possible."""
    if not indices:
        _accumulate(lowering, reduction, conditions, local, extreme, scope)
        return
    index, *inner_indices = indices
    extent = to_integer(index.extent, lowering.symbols)
    start, stop = integer(0), extent
    outer, later = lowering.symbols.get(index.name), {i.name for i in inner_indices}
    symbol = _loop_symbol(lowering, index.name, extent)
    lowering.symbols[index.name] = symbol
    remaining: list[Expr] = []
    # Full unrolling needs constant bounds.
    is_unrolled = bounds(extent, lowering.ranges)[1] <= lowering.unroll
    for condition in conditions:
        stays = is_unrolled or free_indices(condition) & later
        bound = None if stays else loop_bound(lowering, condition, symbol)
        if bound is None:
            remaining.append(condition)
        elif bound.operator == "<":
            stop = bound.right if lowering.is_below(bound.right, stop + 1) else Minimum(stop, bound.right)
        else:
            start = bound.right if lowering.is_below(start, bound.right + 1) else Maximum(start, bound.right)
    certain = bounds(stop - start, lowering.ranges)[0] >= 1
    body = Scope(scope, frozenset((index.name,)), certain=certain)
    here, below = _split(remaining, later) if inner_indices else ((), tuple(remaining))
    _where(
        here,
        lowering,
        body,
        lambda inner: _loop(lowering, reduction, tuple(inner_indices), below, local, extreme, inner),
    )
    lowering.active.remove(symbol.name)
    high = bounds(stop - start, lowering.ranges)[1]
    loop = Loop(Index(symbol.name, symbol, lowering.ranges[symbol]), start, stop, unroll=high <= lowering.unroll)
    scope.nodes.append(For(loop, tuple(body.nodes)))
    if outer is None:
        del lowering.symbols[index.name]
    else:
        lowering.symbols[index.name] = outer


def _loop_symbol(lowering: Lowering, name_hint: str, extent: Integer) -> sympy.Symbol:
    """The loop's variable; successive loops over equal ranges share a name."""
    values = (0, max(bounds(extent, lowering.ranges)[1] - 1, 0))
    name = lowering.loops.get((name_hint, values), "")
    if not name or name in lowering.active:
        name = lowering.names.allocate(name_hint)
        lowering.loops[name_hint, values] = name
    lowering.active.append(name)
    symbol = sympy.Symbol(name, integer=True)
    lowering.ranges[symbol] = values
    lowering.limits[symbol] = extent
    return symbol


def loop_bound(lowering: Lowering, condition: Expr, symbol: sympy.Symbol) -> Comparison | None:
    """The condition as `symbol < e` or `symbol >= e`, if it has that form."""
    guard = to_guard(condition, lowering.symbols)
    if guard is None or len(guard.terms) != 1:
        return None
    (term,) = guard.terms
    difference = term.left - term.right
    coefficient = difference.coeff(symbol)
    offset = difference - coefficient * symbol
    if coefficient not in (1, -1) or symbol in offset.free_symbols or term.operator in ("==", "!="):
        return None
    # The condition is symbol·c + offset OP 0; with c = -1 both sides change sign.
    operator = term.operator
    limit = -offset
    if coefficient == -1:
        limit, operator = offset, {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[operator]
    match operator:
        case "<":
            return Comparison(symbol, "<", limit)
        case "<=":
            return Comparison(symbol, "<", limit + 1)
        case ">":
            return Comparison(symbol, ">=", limit + 1)
        case _:
            return Comparison(symbol, ">=", limit)


def lower_condition(lowering: Lowering, condition: Expr, scope: Scope) -> Condition | None:
    """A guard if the condition is over indices alone, else its value with loads in `scope`; None if it always holds."""
    guard = lowering.guard(condition)
    if guard is None:
        return lowering.lower(condition, scope)
    return guard if guard.terms else None


def _split(conditions: list[Expr], later: set[str]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The conditions that can be tested before the loops over `later`, and the others; loads stay behind all
    earlier conditions."""
    here: list[Expr] = []
    below: list[Expr] = []
    for condition in conditions:
        stays = not free_indices(condition) & later and not (below and _reads(condition))
        (here if stays else below).append(condition)
    return tuple(here), tuple(below)


def _where(conditions: tuple[Expr, ...], lowering: Lowering, scope: Scope, fill: Callable[[Scope], None]) -> None:
    """Runs `fill` under the conditions: index comparisons first, then loads."""
    pure = [condition for condition in conditions if not _reads(condition)]
    if not conditions:
        fill(scope)
        return
    first = _conjunction(pure) if pure else conditions[0]
    remaining = tuple(c for c in conditions if _reads(c)) if pure else conditions[1:]
    condition = lower_condition(lowering, first, scope)
    inner = scope if condition is None else Scope(scope, certain=False)
    _where(remaining, lowering, inner, fill)
    if condition is not None:
        scope.nodes.append(If(condition, tuple(inner.nodes)))


def _reads(condition: Expr) -> bool:
    return any(isinstance(node, Read | Reduce | Scan) for node in walk(condition))


def _accumulate(
    lowering: Lowering, reduction: Reduce, conditions: tuple[Expr, ...], local: Local, extreme: Local, scope: Scope
) -> None:
    def step(inner: Scope) -> None:
        value = lowering.lower(reduction.body, inner)
        if reduction.kind == "sum":
            bound_sum(lowering, reduction, local, value)
        inner.nodes.extend(_step(lowering, reduction, local, extreme, value))

    _where(conditions, lowering, scope, step)


def bound_sum(lowering: Lowering, reduction: Reduce, local: Local, term: Expr) -> None:
    """Records the range of an integer sum if it can't overflow its type: plain `+=` is then correct."""
    if not local.dtype.is_integer:
        return
    steps = 1
    for index in reduction.indices:
        steps *= max(bounds(to_integer(index.extent, lowering.symbols), lowering.ranges)[1], 1)
    low, high = interval(term, {name.name: values for name, values in lowering.ranges.items()})
    total = (min(low, 0) * steps, max(high, 0) * steps)
    if fits(total, local.dtype):
        lowering.ranges[sympy.Symbol(local.name, integer=True)] = total


def _step(lowering: Lowering, reduction: Reduce, local: Local, extreme: Local, value: Expr) -> tuple[Node, ...]:
    kind = reduction.kind
    if kind not in ("argmax", "argmin"):
        return (Assign(local, combine(kind, local, value)),)
    if not isinstance(value, Local):
        named = Local(lowering.names.allocate("candidate"), value.dtype)
        first: tuple[Node, ...] = (Let(named, value),)
    else:
        named, first = value, ()
    (index,) = reduction.indices
    better: Expr = Op("gt" if kind == "argmax" else "lt", (named, extreme), BOOL)
    if named.dtype.is_float:
        is_nan = Op("ne", (named, named), BOOL)
        was_number = Op("eq", (extreme, extreme), BOOL)
        better = Op("or", (better, Op("and", (is_nan, was_number), BOOL)), BOOL)
    none_yet = Op("lt", (local, Const(0, INT64)), BOOL)
    condition = Op("or", (none_yet, better), BOOL)
    chosen = (Assign(extreme, named), Assign(local, lowering.index_value(index.name)))
    return (*first, If(condition, chosen))


def identity(kind: str, dtype: DType) -> Const:
    """The identity of a reduction: its value over no elements, and the initial accumulator."""
    match kind:
        case "sum":
            return Const(0, dtype)
        case "prod":
            return Const(1, dtype)
        case "any" | "all":
            return Const(kind == "all", BOOL)
    if dtype.is_float:
        return Const(float("inf") if kind == "min" else float("-inf"), dtype)
    return Const(dtype.highest if kind == "min" else dtype.lowest, dtype)


def combine(kind: str, accumulator: Expr, value: Expr) -> Expr:
    """The accumulator combined with a value."""
    return Op(_OPERATORS[kind], (accumulator, value), accumulator.dtype)


def conjuncts(where: Expr | None) -> tuple[Expr, ...]:
    """The conjuncts in test order; `a and b`, where b reads data, is `b if a else false`."""
    if where is None:
        return ()
    match where:
        case Op(name="and", args=parts):
            return tuple(condition for part in parts for condition in conjuncts(part))
        case Select(condition=first, then=second, orelse=Const(value=False)):
            return (*conjuncts(first), *conjuncts(second))
    return (where,)


def _conjunction(conditions: list[Expr]) -> Expr:
    result = conditions[0]
    for condition in conditions[1:]:
        result = Op("and", (result, condition), BOOL)
    return result
