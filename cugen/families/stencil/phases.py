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
from cugen.spec.expressions import Const, Expr, IndexValue, Op, Read, Reduce, free_indices, walk
from cugen.spec.model import Param, Spec
from cugen.spec.prove.affine import Variable, affine_form, expression_of
from cugen.spec.rewriting import replaced
from cugen.spec.types import INT64

MAX_PERIOD = 8  # outputs of a thread along an index (heuristic)
MAX_PHASES = 64  # outputs of a thread in one period of all indices (heuristic)


def find_periods(request: Request) -> Mapping[str, int]:
    """The periods of the output's indices that are divided by constants; none where they are too long to unroll."""
    params = {param.name: param for param in request.context.spec.params}
    periods: dict[str, int] = {}
    for statement in request.group.statements:
        names = {index.name for index in statement.indices}
        reductions = [node for node in walk(statement.value) if isinstance(node, Reduce)]
        for division, modulus in (found for node in reductions for found in _divisions(node, params)):
            for name in names & free_indices(division):
                coefficient = _coefficient(division.args[0], name, params)
                if coefficient is None:
                    return {}
                period = modulus // math.gcd(coefficient, modulus)
                periods[name] = math.lcm(periods.get(name, 1), period)
    periods = {name: period for name, period in periods.items() if period > 1}
    is_short = max(periods.values(), default=1) <= MAX_PERIOD and math.prod(periods.values()) <= MAX_PHASES
    return periods if is_short else {}


def phase(name: str) -> str:
    """The name of an index's distance from a multiple of its period."""
    return f"phase of {name}"


def with_phases(request: Request, periods: Mapping[str, int]) -> Request:
    """The request with remainders of the phases in place of those of the indices, which are equal."""
    phases = {name: IndexValue(phase(name)) for name in periods}

    def change(expr: Expr) -> Expr | None:
        return substitute(expr, phases) if isinstance(expr, Op) and expr.name == "mod" else None

    statements = (replace(s, value=replaced(s.value, change)) for s in request.group.statements)
    return request.with_statements(tuple(statements)) if periods else request


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


def _divisions(value: Expr, params: Mapping[str, Param]) -> Iterator[tuple[Op, int]]:
    """The divisions of indices by constants in subscripts and conditions."""
    for node in walk(value):
        if isinstance(node, Op) and node.name in ("floordiv", "mod") and node.dtype == INT64:
            divisor = affine_form(node.args[1], params)
            if divisor.is_constant and divisor.constant > 1 and not any(isinstance(n, Read) for n in walk(node)):
                yield node, divisor.constant


def _coefficient(dividend: Expr, name: str, params: Mapping[str, Param]) -> int | None:
    """The coefficient of an index in an affine dividend; None where it also occurs in a quotient."""
    form = affine_form(dividend, params)
    coefficient = dict(form.terms).get(Variable(name), 0)
    rest = replace(form, terms=tuple(term for term in form.terms if term[0] != Variable(name)))
    return None if name in free_indices(expression_of(rest, params)) else coefficient
