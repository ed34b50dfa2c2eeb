"""What is assumed of params holds for all values that meet the requirements."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cugen.spec.load import load_text
from cugen.spec.prove.affine import expression_of
from cugen.spec.prove.integers import evaluate
from cugen.spec.prove.requirements import assumed
from cugen.spec.resolve.param_expressions import holds

NAMES = ("N", "G", "H")
NUMBERS = st.integers(-9, 9)
TERMS = st.builds(
    lambda a, x, b: f"{a} * {x} + {b}", NUMBERS, st.sampled_from([*NAMES, "G * H", "N // 3", "N % 4"]), NUMBERS
)
COMPARISONS = st.builds(
    lambda a, operator, b: f"{a} {operator} {b}", TERMS, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), TERMS
)
CONDITIONS = st.one_of(COMPARISONS, st.builds(lambda a, b: f"{a} or {b}", COMPARISONS, COMPARISONS))


@settings(deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(st.lists(CONDITIONS, min_size=1, max_size=3), st.tuples(*[st.integers(0, 5)] * 3), st.integers(1, 3))
def test_assumptions_hold_where_the_requirements_do(conditions: list[str], chosen: tuple[int, ...], unit: int) -> None:
    (spec,) = load_text(
        f"""cugen: 1
kernel: k
params: {{N: {{multiple_of: {unit}}}, G: dynamic, H: dynamic}}
require: [{", ".join(f'"{condition}"' for condition in conditions)}]
arrays:
  x: {{shape: [N, G, H], dtype: float32}}
  y: {{shape: [N, G, H], dtype: float32}}
compute: y[i, j, k] = x[i, j, k]
"""
    )
    values = dict(zip(NAMES, (unit * chosen[0], *chosen[1:]), strict=True))
    assume(all(holds(requirement.condition, values) for requirement in spec.require))
    params = {param.name: param for param in spec.params}
    assumptions = assumed(spec.require, params)
    assert all(param.minimum <= values[name] <= param.maximum for name, param in assumptions.params.items())
    assert any(
        all(evaluate(expression_of(fact, assumptions.params), values) >= 0 for fact in case)
        for case in assumptions.cases
    )
