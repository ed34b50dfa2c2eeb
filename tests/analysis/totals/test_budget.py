"""Work is counted: an analysis that takes too many steps ends as unknown, with its reason, and the same everywhere."""

from __future__ import annotations

import pytest

from cugen.analysis.totals import budget
from cugen.analysis.verdicts.dynamic import analyze_any_size
from cugen.analysis.verdicts.report import analyze_kernel
from cugen.kernel import generate
from cugen.spec.load import load_text

COPY = """
cugen: 1
kernel: copy
params: {M: 40, N: 333}
arrays:
  A: {shape: [M, N], dtype: float32}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = A[m, n]
schedule: {family: direct}
"""


def test_steps_are_taken_until_too_few_are_left():
    steps = budget.Budget(60)
    steps.access()
    steps.patterns(10)
    with pytest.raises(budget.Unknown, match="takes more than"):
        steps.regions(1)


@pytest.mark.parametrize("params", [{"M": 40, "N": 333}, {"M": 40}])
def test_accesses_beyond_the_budget_of_a_launch_are_unknown_and_say_why(monkeypatch, params):
    text = COPY if "N" in params else COPY.replace("N: 333", "N: dynamic")
    launch = generate(load_text(text)[0]).plan.kernels[0]
    monkeypatch.setattr(budget.Budget.__init__, "__defaults__", (10,))
    dynamic = {} if "N" in params else {"N": 1}
    for access in analyze_any_size(launch, "sm_90", params, dynamic).accesses:
        assert access.verdict == "unknown"
        assert access.reason == f"the analysis of this launch takes more than {budget.MAX_STEPS:,} steps"


def test_a_budget_is_of_one_launch(monkeypatch):
    launch = generate(load_text(COPY)[0]).plan.kernels[0]
    for _ in range(3):
        assert {a.verdict for a in analyze_kernel(launch, "sm_90", {"M": 40, "N": 333}).accesses} == {"costly"}
