"""Conditions of windows: where they hold for all outputs and terms of one, its loop tests none."""

from __future__ import annotations

from collections.abc import Mapping

import sympy

from cugen.plan.nodes import Comparison, Guard
from cugen.plan.symbols import integer, slope


def guard_of_all(guard: Guard, counts: Mapping[sympy.Symbol, int]) -> Guard | None:
    """The guard under which another one holds for all values below their counts of some symbols: for those that come
    nearest to its limits. None where these are unknown."""
    terms: list[Comparison] = []
    for term in guard.terms:
        if term.operator not in ("<", "<=", ">", ">="):
            return None
        difference = term.left - term.right
        nearest: dict[sympy.Symbol, sympy.Integer] = {}
        for name, count in counts.items():
            rises = slope(difference, name)
            if rises is None:
                return None
            is_last = (rises > 0) == (term.operator in ("<", "<="))
            nearest[name] = integer(count - 1 if is_last else 0)
        terms.append(
            Comparison(term.left.xreplace(nearest).expand(), term.operator, term.right.xreplace(nearest).expand())
        )
    return Guard(tuple(terms))
