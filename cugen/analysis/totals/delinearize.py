"""Delinearisation of counters: `b // 64` and `b % 64` become two counters.

Both are affine then, so a 1-D grid of fused block indices is counted as fast as a 2-D grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sympy

from cugen.analysis.totals.sites import Counter, Predicate
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer


def delinearized(
    offset: Integer, counters: Sequence[Counter], predicates: Sequence[Predicate]
) -> tuple[Integer, tuple[Counter, ...], tuple[Predicate, ...]]:
    """Offset, counters and predicates with each divided counter split into mixed-radix digits."""
    pending, done = list(counters), []
    kept = list(predicates)
    while pending:
        counter = pending.pop(0)
        divisor = _divisor(counter.symbol, (offset, *(d for p in kept for d, _ in p.terms)))
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


def _divisor(counter: sympy.Symbol, expressions: Iterable[Integer]) -> int | None:
    """Smallest divisor of the counter; None unless it divides all others."""
    divisors = {
        int(part.args[1])
        for expr in expressions
        if counter in expr.free_symbols
        for part in sympy.preorder_traversal(expr)
        if isinstance(part, FloorDiv | Mod) and part.args[0] == counter and part.args[1].is_Integer
    }
    smallest = min(divisors, default=0)
    return smallest if smallest > 1 and all(divisor % smallest == 0 for divisor in divisors) else None


def _substituted(expr: Integer, counter: sympy.Symbol, divisor: int, high: sympy.Symbol, low: sympy.Symbol) -> Integer:
    if expr == counter:
        return divisor * high + low
    if counter not in expr.free_symbols:
        return expr
    if isinstance(expr, FloorDiv | Mod) and expr.args[0] == counter and expr.args[1].is_Integer:
        quotient = integer(int(expr.args[1]) // divisor)
        return FloorDiv(high, quotient) if isinstance(expr, FloorDiv) else divisor * Mod(high, quotient) + low
    return expr.func(*(_substituted(arg, counter, divisor, high, low) for arg in expr.args))
