"""Whether guards exclude each other: what stands under both never runs, and a compiler drops it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

import sympy

from cugen.analysis.totals.sites import Predicate
from cugen.plan.symbols import Integer, bounds, integer


@dataclass(frozen=True)
class _Bound:
    """`Σ coefficient · term + constant <= 0` over integers, where the coefficients have no common divisor."""

    terms: tuple[tuple[Integer, int], ...]
    constant: int

    @property
    def opposite(self) -> tuple[tuple[Integer, int], ...]:
        return tuple((term, -coefficient) for term, coefficient in self.terms)


def excluded(predicates: Sequence[Predicate], ranges: Mapping[sympy.Symbol, tuple[int, int]] | None = None) -> bool:
    """Whether two of the predicates, or one by itself, hold for no values of what they are over, within `ranges` where
    all of it has one.

    `first + 3 >= N` and `first + v < N` exclude each other for v = 3; where `first` is a multiple of 4 and N = 25, for
    1 and 2 too."""
    least: dict[tuple[tuple[Integer, int], ...], int] = {}
    for predicate in predicates:
        for bound in _bounds(predicate):
            least[bound.terms] = max(bound.constant, least.get(bound.terms, bound.constant))
            if (not bound.terms and bound.constant > 0) or _beyond(bound, ranges or {}):
                return True
            other = least.get(bound.opposite)
            if other is not None and other + bound.constant > 0:
                return True
    return False


def _beyond(bound: _Bound, ranges: Mapping[sympy.Symbol, tuple[int, int]]) -> bool:
    """Whether a bound fails wherever its symbols are in their ranges."""
    known = all(term.free_symbols <= ranges.keys() for term, _ in bound.terms)
    return known and bounds(sum((c * term for term, c in bound.terms), integer(bound.constant)), dict(ranges))[0] > 0


def _bounds(predicate: Predicate) -> Iterator[_Bound]:
    if predicate.negated and len(predicate.terms) > 1:
        return  # one of them fails, but not which
    for difference, operator in predicate.terms:
        if operator == "<":
            yield _bound(-difference if predicate.negated else difference + 1)
        elif (operator == "==") != predicate.negated:
            yield _bound(difference)
            yield _bound(-difference)


def _bound(expr: Integer) -> _Bound:
    """`expr <= 0`, divided by what its coefficients have in common."""
    parts: Mapping[Integer, Integer] = sympy.expand(expr).as_coefficients_dict()
    terms = {term: int(coefficient) for term, coefficient in parts.items() if not term.is_Integer}
    constant = int(parts.get(sympy.Integer(1), 0))
    divisor = gcd(*terms.values()) if terms else 1
    listed = sorted(((term, c // divisor) for term, c in terms.items()), key=lambda pair: str(pair[0]))
    return _Bound(tuple(listed), -(-constant // divisor))
