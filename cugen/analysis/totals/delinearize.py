"""Delinearisation of counters: `b // 64` and `b % 64` become two counters.

Both are affine then, so a 1-D grid of fused block indices is counted as fast as a 2-D grid. Of `(c * b + …) % n` with a
constant c, the period of b becomes a counter: the misalignment of a row takes few values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

import sympy

from cugen.analysis.totals.sites import Counter, Predicate
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer

_MAX_ENUMERATED_VALUES = 64  # of a counter of which only remainders have a period: cheaper than two counters; heuristic


def delinearized(
    offset: Integer, counters: Sequence[Counter], predicates: Sequence[Predicate]
) -> tuple[Integer, tuple[Counter, ...], tuple[Predicate, ...]]:
    """Offset, counters and predicates with each divided counter split into mixed-radix digits."""
    pending, done = list(counters), []
    kept = list(predicates)
    while pending:
        counter = pending.pop(0)
        divisor = _divisor(counter, (offset, *(d for p in kept for d, _ in p.terms)))
        if divisor is None or counter.count <= divisor:
            done.append(counter)
            continue
        high = Counter(sympy.Symbol(f"{counter.symbol.name} / {divisor}", integer=True), -(-counter.count // divisor))
        low = Counter(sympy.Symbol(f"{counter.symbol.name} % {divisor}", integer=True), divisor)
        digits = (counter.symbol, divisor, high.symbol, low.symbol)
        offset = _substituted(offset, *digits)
        kept = [Predicate(tuple((_substituted(d, *digits), op) for d, op in p.terms), p.negated) for p in kept]
        if counter.count % divisor:
            kept.append(Predicate(((divisor * high.symbol + low.symbol - counter.count, "<"),)))
        pending[:0] = (high, low)
    return offset, tuple(done), tuple(kept)


def _divisor(counter: Counter, expressions: Iterable[Integer]) -> int | None:
    """Smallest divisor of the counter; None unless it divides all others."""
    divisors = {
        _period(part, counter.symbol)
        for expr in expressions
        if counter.symbol in expr.free_symbols
        for part in sympy.preorder_traversal(expr)
        if isinstance(part, FloorDiv | Mod) and part.args[1].is_Integer
        if part.args[0] == counter.symbol or counter.count > _MAX_ENUMERATED_VALUES
    } - {1}
    smallest = min(divisors, default=0)
    return smallest if smallest > 1 and all(divisor % smallest == 0 for divisor in divisors) else None


def _period(part: Integer, counter: sympy.Symbol) -> int:
    """The divisor of a counter, or the period of a remainder along it; 1 if it has none."""
    dividend, divisor = part.args[0], int(part.args[1])
    if dividend == counter:
        return divisor
    step = _step(dividend, counter) if isinstance(part, Mod) else 0
    return divisor // gcd(divisor, step) if step else 1


def _step(expr: Integer, counter: sympy.Symbol) -> int:
    """The coefficient of a counter in an expression that is affine in it; 0 in any other."""
    expr = expr.expand()
    step = expr.coeff(counter)
    is_affine = step.is_Integer and counter not in (expr - step * counter).expand().free_symbols
    return int(step) if is_affine else 0


def _substituted(expr: Integer, counter: sympy.Symbol, divisor: int, high: sympy.Symbol, low: sympy.Symbol) -> Integer:
    if expr == counter:
        return divisor * high + low
    if counter not in expr.free_symbols:
        return expr
    if isinstance(expr, FloorDiv | Mod) and expr.args[0] == counter and expr.args[1].is_Integer:
        quotient = integer(int(expr.args[1]) // divisor)
        return FloorDiv(high, quotient) if isinstance(expr, FloorDiv) else divisor * Mod(high, quotient) + low
    step = _step(expr.args[0], counter) if isinstance(expr, Mod) and expr.args[1].is_Integer else 0
    if step and divisor % _period(expr, counter) == 0:
        return Mod((expr.args[0].expand() + step * (low - counter)).expand(), expr.args[1])
    return expr.func(*(_substituted(arg, counter, divisor, high, low) for arg in expr.args))
