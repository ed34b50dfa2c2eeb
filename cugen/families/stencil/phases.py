"""Output indices whose subscripts repeat with a period, as those of transposed convolutions.

In `x[(i + 1) // 2 - r] * w[(i + 1) % 2 + 2 * r]` the index i has the period 2: i = 2 * q + phase reads at q plus an
offset that the phase determines. A thread computes whole periods, so that its unrolled outputs have constant phases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from cugen.plan.request import Request
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.split_dimensions import MAX_PERIOD
from cugen.spec.expressions import Const, Expr, IndexValue, Op, Reduce, free_indices, walk
from cugen.spec.model import Param, Spec
from cugen.spec.prove.affine import AffineForm, Quotient, Variable, affine_form, expression_of
from cugen.spec.rewriting import replaced
from cugen.spec.types import INT64

MAX_PHASES = 64  # outputs of a thread in one period of all indices (heuristic)


def find_periods(request: Request) -> Mapping[str, int]:
    """The periods of the output's indices that are divided by constants; none where they are too long to unroll."""
    params = {param.name: param for param in request.context.spec.params}
    periods: dict[str, int] = {}
    for statement in request.group.statements:
        names = {index.name for index in statement.indices}
        for quotient in _quotients(statement.value, params):
            for name in names & free_indices(expression_of(quotient.dividend, params)):
                coefficient = _coefficient(quotient.dividend, name, params)
                if coefficient is None:
                    return {}
                modulus = quotient.divisor.constant
                periods[name] = math.lcm(periods.get(name, 1), modulus // math.gcd(coefficient, modulus))
    periods = {name: period for name, period in periods.items() if period > 1}
    is_short = max(periods.values(), default=1) <= MAX_PERIOD and math.prod(periods.values()) <= MAX_PHASES
    return periods if is_short else {}


def phase(name: str) -> str:
    """The name of an index's distance from a multiple of its period."""
    return f"phase of {name}"


def with_phases(request: Request, periods: Mapping[str, int]) -> Request:
    """The request with remainders of the phases in place of those of the indices in reductions, which are equal."""
    if not periods:
        return request
    params = {param.name: param for param in request.context.spec.params}
    phases = {name: IndexValue(phase(name)) for name in periods}

    def with_phases_in(part: Expr) -> Expr | None:
        is_remainder = _is_division(part, params) and isinstance(part, Op) and part.name == "mod"
        return substitute(part, phases) if is_remainder else None

    def change(part: Expr) -> Expr | None:
        return replaced(part, with_phases_in) if isinstance(part, Reduce) else None

    statements = (replace(s, value=replaced(s.value, change)) for s in request.group.statements)
    return request.with_statements(tuple(statements))


def at_phase(expr: Expr, periods: Mapping[str, int], phases: Mapping[str, int], spec: Spec) -> Expr:
    """The expression over whole periods, at constant phases."""
    params = {param.name: param for param in spec.params}
    values: dict[str, Expr] = {phase(name): Const(value, INT64) for name, value in phases.items()}
    for name, value in phases.items():
        first = Op("mul", (Const(periods[name], INT64), IndexValue(name)), INT64)
        values[name] = Op("add", (first, Const(value, INT64)), INT64)

    def change(part: Expr) -> Expr | None:
        is_division = isinstance(part, Op) and part.name in ("floordiv", "mod") and part.dtype == INT64
        return expression_of(affine_form(part, params), params) if is_division else None

    return replaced(substitute(expr, values), change) if phases else expr


def _quotients(value: Expr, params: Mapping[str, Param]) -> Iterator[Quotient]:
    """The quotients of indices by constants in the reductions of a value."""
    divisions = (n for r in walk(value) if isinstance(r, Reduce) for n in walk(r) if _is_division(n, params))
    for node in divisions:
        yield from (atom for atom, _ in affine_form(node, params).terms if isinstance(atom, Quotient))


def _is_division(part: Expr, params: Mapping[str, Param]) -> bool:
    """Whether a part is a quotient or remainder of indices by a constant."""
    if not isinstance(part, Op) or part.name not in ("floordiv", "mod") or part.dtype != INT64:
        return False
    atoms = [atom for atom, _ in affine_form(part, params).terms]
    return all(isinstance(a, Variable) or (isinstance(a, Quotient) and a.divisor.is_constant) for a in atoms)


def _coefficient(dividend: AffineForm, name: str, params: Mapping[str, Param]) -> int | None:
    """The coefficient of an index in an affine dividend; None where it also occurs in a quotient."""
    coefficient = dict(dividend.terms).get(Variable(name), 0)
    terms_left = replace(dividend, terms=tuple(term for term in dividend.terms if term[0] != Variable(name)))
    return None if name in free_indices(expression_of(terms_left, params)) else coefficient
