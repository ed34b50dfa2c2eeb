"""Lowering of reductions to loops with accumulators; conditions become loop bounds where possible."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy

from cugen.plan.intervals import bound_local, interval
from cugen.plan.lowering.reads import lower_subscript, unnamed
from cugen.plan.nodes import Assign, Comparison, Condition, For, Guard, If, Index, Let, Loop, Node
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import COMPARISONS, computed_parts, to_guard, to_integer
from cugen.plan.symbols import Integer, Maximum, Minimum, bounds, floor_quotient, integer
from cugen.spec import expressions as spec
from cugen.spec.expressions import (
    Boundary,
    Cast,
    Const,
    Expr,
    IndexValue,
    Local,
    Op,
    Read,
    Reduce,
    Scan,
    Select,
    conjunction,
    conjuncts,
    free_indices,
    walk,
)
from cugen.spec.rewriting import replaced
from cugen.spec.types import BOOL, FLOAT32, INT64, DType

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

# Reductions that evaluate each term once, whatever terms were before it.
_USES_ONCE = ("sum", "prod", "max", "peak", "min")

# Comparisons with both sides negated.
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def reduce_values(lowering: Lowering, reduction: Reduce, scope: Scope) -> Expr:
    """The local of the result; its loops are hoisted to the outermost scope where they are safe to run."""
    known = scope.recall(reduction)
    if known is not None:
        return known
    home = scope.home(free_indices(reduction))
    local = Local(lowering.name_for(reduction, ACCUMULATORS[reduction.kind], home), reduction.dtype)
    second = local
    others = _others_of_loop(lowering, reduction, home)
    if reduction.is_position:
        name = "largest" if reduction.kind == "argmax" else "smallest"
        second = Local(lowering.names.allocate(name), reduction.body.dtype)
    elif _is_compensated(lowering, reduction):
        second = Local(lowering.names.allocate("surplus"), local.dtype)
    _loop(lowering, reduction, reduction.indices, conjuncts(reduction.where), local, second, home, others)
    loop = home.nodes.pop()
    declared = (declare_accumulators(companion, result, result) for companion, result in others)
    home.nodes += [
        *declare_accumulators(reduction, local, second),
        *(node for nodes in declared for node in nodes),
        loop,
    ]
    for companion, result in others:
        home.remember(companion, result)
    home.remember(reduction, local)
    return local


def _others_of_loop(lowering: Lowering, reduction: Reduce, home: Scope) -> tuple[tuple[Reduce, Local], ...]:
    """The other reductions that the loop of one computes, each with its accumulator; none where a sum is
    compensated."""
    group = [r for r in lowering.companions.get(reduction, ()) if r != reduction and home.recall(r) is None]
    if any(_is_compensated(lowering, r) or free_indices(r) != free_indices(reduction) for r in (reduction, *group)):
        return ()
    return tuple((r, Local(lowering.name_for(r, ACCUMULATORS[r.kind], home), r.dtype)) for r in group)


def reduce_onto(lowering: Lowering, reduction: Reduce, first: Expr, scope: Scope) -> Local:
    """The local of `first` combined with all terms, in loops that stay in the scope."""
    local = Local(lowering.name_for(reduction, ACCUMULATORS[reduction.kind], scope), reduction.dtype)
    scope.nodes.append(Let(local, first, mutable=True))
    _loop(lowering, reduction, reduction.indices, conjuncts(reduction.where), local, local, scope)
    return local


def _is_compensated(lowering: Lowering, reduction: Reduce) -> bool:
    """Whether a running sum has so many terms that its rounding errors are compensated."""
    if lowering.plain_terms is None or reduction.kind != "sum" or reduction.dtype != FLOAT32:
        return False
    terms = math.prod(bounds(to_integer(i.extent, lowering.symbols), lowering.ranges)[1] for i in reduction.indices)
    return terms > lowering.plain_terms


def accumulate(
    lowering: Lowering,
    reduction: Reduce,
    accumulator: Local,
    scope: Scope,
    extreme: Local | None = None,
    *,
    begun: bool = False,
    is_ascending: bool = True,
) -> None:
    """Combines one term into `accumulator`, for the index values of `scope` and if the conditions hold.

    For argmax and argmin `accumulator` is the position and `extreme` the element there; `begun` if their first values
    are those of `begin_position`, `is_ascending` if all terms before this one have lower positions."""
    conditions, second = conjuncts(reduction.where), extreme or accumulator
    _accumulate(lowering, reduction, conditions, accumulator, second, scope, begun=begun, is_ascending=is_ascending)


def accumulate_together(
    lowering: Lowering,
    terms: Sequence[tuple[Reduce, Local, Local | None, bool]],
    conditions: tuple[Expr, ...],
    scope: Scope,
) -> None:
    """Combines a term of each reduction into its accumulator, as `accumulate` does, under `conditions` that they share:
    what their terms have in common is evaluated once. `terms`: reductions, accumulators, extremes, and whether they are
    begun."""

    def step(inner: Scope) -> None:
        for reduction, accumulator, extreme, begun in terms:
            _accumulate(lowering, reduction, (), accumulator, extreme or accumulator, inner, begun=begun)

    _where(conditions, lowering, scope, step)


def begin_position(reduction: Reduce, local: Local, second: Local) -> tuple[Node, ...]:
    """The first values of an argmax or argmin over at least one term, all unconditional: the first position, with the
    identity, which no later term equals or exceeds before a greater one."""
    kind = "max" if reduction.kind == "argmax" else "min"
    first = Let(second, identity(kind, second.dtype), mutable=True)
    return Let(local, Const(0, local.dtype), mutable=True), first


def declare_accumulators(reduction: Reduce, local: Local, second: Local) -> tuple[Node, ...]:
    """`second`: the extreme of an argmax or argmin, the rounding error of a compensated sum, else `local` again."""
    if reduction.is_position:
        return Let(local, Const(-1, INT64), mutable=True), Let(second, Const(0, second.dtype), mutable=True)
    accumulators = (local,) if second is local else (local, second)
    return tuple(Let(name, identity(reduction.kind, name.dtype), mutable=True) for name in accumulators)


def _loop(
    lowering: Lowering,
    reduction: Reduce,
    indices: tuple[spec.Index, ...],
    conditions: tuple[Expr, ...],
    local: Local,
    second: Local,
    scope: Scope,
    others: tuple[tuple[Reduce, Local], ...] = (),
) -> None:
    """The loop nest over `indices`; conditions are tested as far out as possible, but in unrolled windows. `others` are
    reductions over the same indices and conditions, with their accumulators."""
    if not indices:
        _accumulate(lowering, reduction, conditions, local, second, scope, is_last=True, others=others)
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
        if bound is None and not stays:
            evaluated = tuple(walk(conjuncts(reduction.where)[0]))
            bound = loaded_bound(lowering, condition, symbol, extent, scope, evaluated)
        if bound is None:
            remaining.append(condition)
        elif bound.operator == "<":
            stop = bound.right if lowering.is_below(bound.right, stop + 1) else Minimum(stop, bound.right)
        else:
            start = bound.right if lowering.is_below(start, bound.right + 1) else Maximum(start, bound.right)
    certain = bounds(stop - start, lowering.ranges)[0] >= 1
    body = Scope(scope, frozenset((index.name,)), certain=certain, is_loop=True)
    # Unrolled windows test all of them innermost, below the loads.
    here, below = _split(remaining, later) if inner_indices and not is_unrolled else ((), tuple(remaining))
    _where(
        here,
        lowering,
        body,
        lambda inner: _loop(lowering, reduction, tuple(inner_indices), below, local, second, inner, others),
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
    key = (f"index {name_hint}", values)
    name = lowering.loops.get(key, "")
    if not name or name in lowering.active:
        name = lowering.names.allocate(name_hint)
        lowering.loops[key] = name
    lowering.active.append(name)
    symbol = sympy.Symbol(name, integer=True)
    lowering.ranges[symbol] = values
    lowering.limits[symbol] = extent
    return symbol


def loop_bound(lowering: Lowering, condition: Expr, symbol: sympy.Symbol) -> Comparison | None:
    """The condition as `symbol < e` or `symbol >= e`, if it is linear in the symbol."""
    return index_bound(condition, lowering.symbols, symbol)


def index_bound(condition: Expr, symbols: Mapping[str, Integer], symbol: sympy.Symbol) -> Comparison | None:
    """The same of a condition over indices with these `symbols`."""
    return _bound(to_guard(condition, symbols), symbol)


def loaded_bound(
    lowering: Lowering,
    condition: Expr,
    symbol: sympy.Symbol,
    extent: Integer,
    scope: Scope,
    evaluated: Collection[Expr] = (),
) -> Comparison | None:
    """The same of a comparison with elements that don't depend on the symbol. They are loaded in `scope`, where the
    loop will be; the bound is named, and between 0 and the symbol's extent, whatever the elements are.

    Other conditions may be what keeps the elements in bounds: those that aren't `evaluated` for each term are the
    nearest ones that are."""
    match condition:
        case Op(name="lt" | "le" | "gt" | "ge" as name, args=(left, right)):
            sides = left, right
        case _:
            return None
    parts = [part for side in sides for part in computed_parts(side)]
    if not all(side.dtype.is_integer for side in sides) or not parts:
        return None
    if not all(_is_loadable(lowering, part, symbol) for part in parts):
        return None

    def inside(node: Expr) -> Expr | None:
        if not isinstance(node, Read) or node in evaluated:
            return None
        subscripts = tuple(replaced(sub, inside) for sub in node.subscripts)
        if node.boundary is not None or _is_inside(lowering, node):
            return replace(node, subscripts=subscripts)
        for part in (part for sub in subscripts for part in computed_parts(sub)):
            lowering.subscripts.pop(part, None)  # whose reads are assumed in bounds where they are evaluated
        return replace(node, subscripts=subscripts, boundary=Boundary("clamp"))

    a, b = (lower_subscript(lowering, replaced(side, inside), scope) for side in sides)
    bound = _bound(Guard((Comparison(a, COMPARISONS[name], b),)), symbol)
    if bound is None:
        return None
    # Of `i <= last` the bound is `last + 1`, which the type of `last` need not hold.
    for less in (0, 1):
        end = (bound.right - less).expand()
        low, high = bounds(end, lowering.ranges)
        if INT64.lowest <= low and high <= INT64.highest:
            within = Minimum(Maximum(end, integer(-less)), extent - less) + less
            named = lowering.define("stop" if bound.operator == "<" else "start", within, scope)
            return Comparison(symbol, bound.operator, named)
    return None


def _is_loadable(lowering: Lowering, part: Expr, symbol: sympy.Symbol) -> bool:
    """Whether a part of a comparison is an element that is known before a loop over the symbol."""
    if not isinstance(part, Read) or part.dtype.highest > INT64.highest:
        return False
    indices = {node.name for node in walk(part) if isinstance(node, IndexValue)}
    return all(symbol not in lowering.symbols[name].free_symbols for name in indices)


def _is_inside(lowering: Lowering, read: Read) -> bool:
    """Whether an element is in bounds for all values of the indices."""
    if any(next(computed_parts(sub), None) is not None for sub in read.subscripts):
        return False
    subscripts = tuple(to_integer(sub, lowering.symbols) for sub in read.subscripts)
    return not lowering.inside(subscripts, lowering.arrays[read.array].shape).terms


def _bound(guard: Guard | None, symbol: sympy.Symbol) -> Comparison | None:
    if guard is None or len(guard.terms) != 1:
        return None
    (term,) = guard.terms
    difference = (term.left - term.right).expand()
    coefficient = difference.coeff(symbol)
    offset = (difference - coefficient * symbol).expand()
    if not coefficient.is_Integer or coefficient == 0 or symbol in offset.free_symbols:
        return None
    # The condition is symbol * coefficient + offset OP 0; a negative coefficient changes the signs of both sides.
    operator, divisor = term.operator, abs(int(coefficient))
    limit = -offset
    if coefficient < 0:
        limit, operator = offset, _MIRRORED.get(operator, operator)
    match operator:
        case "<":
            return Comparison(symbol, "<", floor_quotient(limit + divisor - 1, divisor))
        case "<=":
            return Comparison(symbol, "<", floor_quotient(limit, divisor) + 1)
        case ">":
            return Comparison(symbol, ">=", floor_quotient(limit, divisor) + 1)
        case ">=":
            return Comparison(symbol, ">=", floor_quotient(limit + divisor - 1, divisor))
    return None


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
    """Runs `fill` under the conditions: index comparisons first, then loads. Those of unrolled windows are mostly their
    bounds; a load below each of them would be waited for."""
    pure = [condition for condition in conditions if not _reads(condition)]
    if not conditions:
        fill(scope)
        return
    first = conjunction(pure) or conditions[0]
    remaining = tuple(c for c in conditions if _reads(c)) if pure else conditions[1:]
    condition = lower_condition(lowering, first, scope)
    is_likely = bool(pure) and lowering.unroll > 0
    inner = scope if condition is None else Scope(scope, certain=False, is_likely=is_likely)
    _where(remaining, lowering, inner, fill)
    if condition is not None:
        scope.nodes.append(If(condition, tuple(inner.nodes)))


def _reads(condition: Expr) -> bool:
    return any(isinstance(node, Read | Reduce | Scan) for node in walk(condition))


def _accumulate(
    lowering: Lowering,
    reduction: Reduce,
    conditions: tuple[Expr, ...],
    local: Local,
    second: Local,
    scope: Scope,
    *,
    begun: bool = False,
    is_ascending: bool = True,
    is_last: bool = False,
    others: tuple[tuple[Reduce, Local], ...] = (),
) -> None:
    """`is_last`: nothing else in the scope may use the term, but for `others`."""

    def term(reduction: Reduce, local: Local, second: Local, inner: Scope) -> None:
        value = lowering.lower(reduction.body, inner)
        if is_last and not others and reduction.kind in _USES_ONCE:
            value = unnamed(value, inner)
        if reduction.kind == "sum":
            extents = (to_integer(index.extent, lowering.symbols) for index in reduction.indices)
            count = math.prod(max(bounds(extent, lowering.ranges)[1], 1) for extent in extents)
            bound_sum(lowering, local, value, count)
        inner.nodes.extend(_step(lowering, reduction, local, second, value, begun, is_ascending))

    def step(inner: Scope) -> None:
        term(reduction, local, second, inner)
        for companion, result in others:
            term(companion, result, result, inner)

    _where(conditions, lowering, scope, step)


def bound_sum(lowering: Lowering, local: Local, term: Expr, count: int) -> None:
    """Records the range of an integer sum of up to `count` terms if it can't overflow its type: plain `+=` is then
    correct."""
    if not local.dtype.is_integer:
        return
    low, high = interval(term, {name.name: values for name, values in lowering.ranges.items()})
    bound_local(lowering.ranges, local, (min(low, 0) * count, max(high, 0) * count))


def _step(
    lowering: Lowering,
    reduction: Reduce,
    local: Local,
    second: Local,
    value: Expr,
    begun: bool,
    is_ascending: bool,
) -> tuple[Node, ...]:
    kind = reduction.kind
    if not reduction.is_position:
        if kind == "sum" and local.dtype.is_integer and (condition := _compound_condition(value)) is not None:
            # An addition of the condition would hold those of unrolled terms in registers, a bit for each.
            return (If(condition, (Assign(local, combine(kind, local, Const(1, local.dtype))),)),)
        plain = Assign(local, combine(kind, local, value if value.dtype == local.dtype else _converted(value, local)))
        return (plain,) if second is local else _compensated_step(lowering, local, second, value)
    if not isinstance(value, Local):
        named = Local(lowering.names.allocate("candidate"), value.dtype)
        first: tuple[Node, ...] = (Let(named, value),)
    else:
        named, first = value, ()
    (index,) = reduction.indices
    position = lowering.index_value(index.name)
    chosen = (Assign(second, named), Assign(local, position))
    if begun and is_ascending and named.dtype.is_float:
        # Neither where the extreme is NaN, nor where the term is no better; a term that is NaN compares as neither.
        is_number = Op("eq", (second, second), BOOL)
        no_better = Op("le" if kind == "argmax" else "ge", (named, second), BOOL)
        return (*first, If(Op("and", (is_number, Op("not", (no_better,), BOOL)), BOOL), chosen))
    wins = (
        _is_better(kind, named, second) if is_ascending else takes_precedence(kind, (position, named), (local, second))
    )
    none_yet = Op("lt", (local, Const(0, INT64)), BOOL)
    return (*first, If(wins if begun else Op("or", (none_yet, wins), BOOL), chosen))


def takes_precedence(kind: str, candidate: tuple[Expr, Expr], current: tuple[Expr, Expr]) -> Expr:
    """Whether a candidate (position, element) wins: NaN first, then the better element, ties to the lower position."""
    (position, value), (current_position, current_value) = candidate, current
    tied: Expr = Op("eq", (value, current_value), BOOL)
    if value.dtype.is_float:
        are_nan = (Op("ne", (number, number), BOOL) for number in (value, current_value))
        tied = Op("or", (tied, Op("and", tuple(are_nan), BOOL)), BOOL)
    is_lower = Op("lt", (position, current_position), BOOL)
    return Op("or", (_is_better(kind, value, current_value), Op("and", (tied, is_lower), BOOL)), BOOL)


def _is_better(kind: str, value: Expr, current: Expr) -> Expr:
    """Whether an element comes before another one for argmax or argmin: NaN does before numbers."""
    better = Op("gt" if kind == "argmax" else "lt", (value, current), BOOL)
    if not value.dtype.is_float:
        return better
    is_nan, was_number = Op("ne", (value, value), BOOL), Op("eq", (current, current), BOOL)
    return Op("or", (better, Op("and", (is_nan, was_number), BOOL)), BOOL)


def _compound_condition(value: Expr) -> Expr | None:
    """The condition that a term of a count is, where it is one of several."""
    match value:
        case Cast(arg=arg, to=to) if to.is_integer:
            return _compound_condition(arg)
        case Op(name="and" | "or", dtype=dtype) | Select(dtype=dtype) if dtype == BOOL:
            return value
    return None


def _converted(value: Expr, local: Local) -> Expr:
    """A term as the accumulator has it, where that is narrower."""
    is_narrower = local.dtype.is_integer and value.dtype.is_integer and local.dtype.bits < value.dtype.bits
    return Cast(value, local.dtype) if is_narrower else value


def _compensated_step(lowering: Lowering, total: Local, surplus: Local, value: Expr) -> tuple[Node, ...]:
    """Adds a term to a running sum, less what the addition before rounded up (Kahan).

    Where the sum isn't finite there is nothing to compensate: infinities must not turn into NaN. Contraction of a
    product to a multiply-add only saves the term's own rounding."""
    dtype = total.dtype

    def minus(a: Expr, b: Expr) -> Expr:
        return Op("sub", (a, b), dtype)

    term, rounded, excess = (Local(lowering.names.allocate(name), dtype) for name in ("term", "rounded", "excess"))
    is_finite = Op("lt", (Op("abs", (excess,), dtype), Const(float("inf"), dtype)), BOOL)
    return (
        Let(term, minus(value, surplus)),
        Let(rounded, Op("add", (total, term), dtype)),
        Let(excess, minus(minus(rounded, total), term)),
        Assign(surplus, Select(is_finite, excess, Const(0, dtype), dtype)),
        Assign(total, rounded),
    )


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
