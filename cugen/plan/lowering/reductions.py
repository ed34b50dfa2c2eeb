"""Reductions as loops with a running value; conditions become the bounds of loops where they can."""

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

# What running values are called.
ACCUMULATORS = {
    "sum": "sum",
    "prod": "product",
    "max": "largest",
    "peak": "largest",  # a plan's own: the maximum of what isn't NaN
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
    """The local that holds the result, with the loops that compute it put where they are safe to run."""
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
    home.nodes += [*_first_values(reduction, local, extreme), loop]
    home.remember(reduction, local)
    return local


def accumulate(
    lowering: Lowering, reduction: Reduce, running: Local, scope: Scope, extreme: Local | None = None
) -> None:
    """One step of a reduction into `running`: for the values that its indices have in `scope`, and where its conditions
    hold. argmax and argmin, whose `running` is the place, keep the element there in `extreme`."""
    _accumulate(lowering, reduction, conjuncts(reduction.where), running, extreme or running, scope)


def _first_values(reduction: Reduce, local: Local, extreme: Local) -> tuple[Node, ...]:
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
    """The loop over the first of `indices` and, inside it, the rest; conditions stand as far out as they can."""
    if not indices:
        _accumulate(lowering, reduction, conditions, local, extreme, scope)
        return
    index, *rest = indices
    extent = to_integer(index.extent, lowering.symbols)
    start, stop = integer(0), extent
    outer, later = lowering.symbols.get(index.name), {i.name for i in rest}
    symbol = _loop_symbol(lowering, index.name, extent)
    lowering.symbols[index.name] = symbol
    remaining: list[Expr] = []
    # A loop that must be unrolled runs from 0 to a number.
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
    here, below = _split(remaining, later) if rest else ((), tuple(remaining))
    _where(here, lowering, body, lambda inner: _loop(lowering, reduction, tuple(rest), below, local, extreme, inner))
    lowering.active.remove(symbol.name)
    high = bounds(stop - start, lowering.ranges)[1]
    loop = Loop(Index(symbol.name, symbol, lowering.ranges[symbol]), start, stop, unroll=high <= lowering.unroll)
    scope.nodes.append(For(loop, tuple(body.nodes)))
    if outer is None:
        del lowering.symbols[index.name]
    else:
        lowering.symbols[index.name] = outer


def _loop_symbol(lowering: Lowering, wish: str, extent: Integer) -> sympy.Symbol:
    """The loop's variable; loops side by side over equal ranges share a name, as people write them."""
    values = (0, max(bounds(extent, lowering.ranges)[1] - 1, 0))
    name = lowering.loops.get((wish, values), "")
    if not name or name in lowering.active:
        name = lowering.names.allocate(wish)
        lowering.loops[wish, values] = name
    lowering.active.append(name)
    symbol = sympy.Symbol(name, integer=True)
    lowering.ranges[symbol] = values
    lowering.limits[symbol] = extent
    return symbol


def loop_bound(lowering: Lowering, condition: Expr, symbol: sympy.Symbol) -> Comparison | None:
    """`symbol < e` or `symbol >= e` where the condition amounts to that."""
    guard = to_guard(condition, lowering.symbols)
    if guard is None or len(guard.terms) != 1:
        return None
    (term,) = guard.terms
    difference = term.left - term.right
    coefficient = difference.coeff(symbol)
    rest = difference - coefficient * symbol
    if coefficient not in (1, -1) or symbol in rest.free_symbols or term.operator in ("==", "!="):
        return None
    # The condition reads symbol·c + rest OP 0; with c = -1 both sides change sign.
    operator = term.operator
    limit = -rest
    if coefficient == -1:
        limit, operator = rest, {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[operator]
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
    """A guard where indices alone decide; else the value of the condition, its loads in `scope`. None where it always
    holds."""
    guard = lowering.guard(condition)
    if guard is None:
        return lowering.lower(condition, scope)
    return guard if guard.terms else None


def _split(conditions: list[Expr], later: set[str]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The conditions that can be tested before the loops over `later` begin, and those that can't: data may be read
    only where all conditions before it hold."""
    here: list[Expr] = []
    below: list[Expr] = []
    for condition in conditions:
        stays = not free_indices(condition) & later and not (below and _reads(condition))
        (here if stays else below).append(condition)
    return tuple(here), tuple(below)


def _where(conditions: tuple[Expr, ...], lowering: Lowering, scope: Scope, fill: Callable[[Scope], None]) -> None:
    """Lets `fill` put its nodes where the conditions hold: indices are compared first, then data is read."""
    pure = [condition for condition in conditions if not _reads(condition)]
    if not conditions:
        fill(scope)
        return
    first = _conjunction(pure) if pure else conditions[0]
    rest = tuple(c for c in conditions if _reads(c)) if pure else conditions[1:]
    condition = lower_condition(lowering, first, scope)
    inner = scope if condition is None else Scope(scope, certain=False)
    _where(rest, lowering, inner, fill)
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
    """Records what a sum of integers can reach, where that is inside its type: plain `+=` is then right."""
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
    """What an empty reduction yields, which is also where a running value starts."""
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


def combine(kind: str, running: Expr, value: Expr) -> Expr:
    """One step of a reduction."""
    return Op(_OPERATORS[kind], (running, value), running.dtype)


def conjuncts(where: Expr | None) -> tuple[Expr, ...]:
    """What must hold, in the order in which it is tested: `a and b`, where b reads data, is `b if a else false`."""
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
