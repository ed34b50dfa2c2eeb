"""Counters taken apart where an index is: of `b // 64` and `b % 64` each becomes a counter of its own.

Then both are linear, and a launch whose blocks are numbered along one axis counts as fast as one with two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sympy

from cugen.analysis.totals.sites import Counter, Predicate
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer


def unfolded(
    offset: Integer, counters: Sequence[Counter], predicates: Sequence[Predicate]
) -> tuple[Integer, tuple[Counter, ...], tuple[Predicate, ...]]:
    """The same offset, counters and predicates over as many digits as the divisors ask for."""
    waiting, done = list(counters), []
    kept = list(predicates)
    while waiting:
        counter = waiting.pop(0)
        divisor = _divisor(counter.symbol, (offset, *(d for p in kept for d, _ in p.terms)))
        if divisor is None or counter.count <= divisor:
            done.append(counter)
            continue
        high = Counter(sympy.Symbol(f"{counter.symbol.name} / {divisor}", integer=True), -(-counter.count // divisor))
        low = Counter(sympy.Symbol(f"{counter.symbol.name} % {divisor}", integer=True), divisor)
        digits = (counter.symbol, divisor, high.symbol, low.symbol)
        offset = _rewritten(offset, *digits)
        kept = [Predicate(tuple((_rewritten(d, *digits), op) for d, op in p.terms), p.negated) for p in kept]
        if counter.count % divisor:
            kept.append(Predicate(((divisor * high.symbol + low.symbol - counter.count, "<"),)))
        waiting[:0] = (high, low)
    return offset, tuple(done), tuple(kept)


def _divisor(counter: sympy.Symbol, expressions: Iterable[Integer]) -> int | None:
    """The least number that the counter itself is divided by; None unless it divides all others."""
    found = {
        int(part.args[1])
        for expr in expressions
        if counter in expr.free_symbols
        for part in sympy.preorder_traversal(expr)
        if isinstance(part, FloorDiv | Mod) and part.args[0] == counter and part.args[1].is_Integer
    }
    least = min(found, default=0)
    return least if least > 1 and all(divisor % least == 0 for divisor in found) else None


def _rewritten(expr: Integer, counter: sympy.Symbol, divisor: int, high: sympy.Symbol, low: sympy.Symbol) -> Integer:
    if expr == counter:
        return divisor * high + low
    if counter not in expr.free_symbols:
        return expr
    if isinstance(expr, FloorDiv | Mod) and expr.args[0] == counter and expr.args[1].is_Integer:
        rest = integer(int(expr.args[1]) // divisor)
        return FloorDiv(high, rest) if isinstance(expr, FloorDiv) else divisor * Mod(high, rest) + low
    return expr.func(*(_rewritten(arg, counter, divisor, high, low) for arg in expr.args))
