"""Infeasible guards: code under contradicting conditions never runs, and compilers eliminate it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

import sympy

from cugen.analysis.totals.sites import Predicate
from cugen.plan.symbols import Integer, bounds, integer


@dataclass(frozen=True)
class _Inequality:
    """`Σ coefficient · term + constant <= 0` over integers, where the coefficients have no common divisor."""

    terms: tuple[tuple[Integer, int], ...]
    constant: int

    @property
    def opposite(self) -> tuple[tuple[Integer, int], ...]:
        return tuple((term, -coefficient) for term, coefficient in self.terms)


def are_infeasible(
    predicates: Sequence[Predicate], ranges: Mapping[sympy.Symbol, tuple[int, int]] | None = None
) -> bool:
    """Whether one predicate, or a pair, has no integer solution; `ranges` are used where they bound all symbols.

    `first + 3 >= N` and `first + v < N` contradict for v = 3; with `first` a multiple of 4 and N = 25 also for 1 and 2.
    """
    largest: dict[tuple[tuple[Integer, int], ...], int] = {}
    for predicate in predicates:
        for bound in _inequalities(predicate):
            largest[bound.terms] = max(bound.constant, largest.get(bound.terms, bound.constant))
            if (not bound.terms and bound.constant > 0) or _fails_in(bound, ranges or {}):
                return True
            opposite = largest.get(bound.opposite)
            if opposite is not None and opposite + bound.constant > 0:
                return True
    return False


def _fails_in(bound: _Inequality, ranges: Mapping[sympy.Symbol, tuple[int, int]]) -> bool:
    """Whether an inequality fails for all values of its symbols in their ranges."""
    known = all(term.free_symbols <= ranges.keys() for term, _ in bound.terms)
    return known and bounds(sum((c * term for term, c in bound.terms), integer(bound.constant)), dict(ranges))[0] > 0


def _inequalities(predicate: Predicate) -> Iterator[_Inequality]:
    if predicate.negated and len(predicate.terms) > 1:
        return  # some term fails, but which one is unknown
    for difference, operator in predicate.terms:
        if operator == "<":
            yield _inequality(-difference if predicate.negated else difference + 1)
        elif (operator == "==") != predicate.negated:
            yield _inequality(difference)
            yield _inequality(-difference)


def _inequality(expr: Integer) -> _Inequality:
    """`expr <= 0`, normalised by the gcd of the coefficients."""
    parts: Mapping[Integer, Integer] = sympy.expand(expr).as_coefficients_dict()
    terms = {term: int(coefficient) for term, coefficient in parts.items() if not term.is_Integer}
    constant = int(parts.get(sympy.Integer(1), 0))
    divisor = gcd(*terms.values()) if terms else 1
    listed = sorted(((term, c // divisor) for term, c in terms.items()), key=lambda pair: str(pair[0]))
    return _Inequality(tuple(listed), -(-constant // divisor))
