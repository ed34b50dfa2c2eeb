"""Scans in scans and reductions, several that no launch computes together, and reductions in scans are launches of
their own, with the results of the nested form."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

STATEMENTS = (
    "y[i, j] = cumsum(cumsum(x[i, j], j), i)",
    "y[i, j] = cumsum(cumsum(x[i, j], i), j, reverse=true) - x[i, j]",
    "y[i, j] = max(cumsum(x[k, j], j), k) + x[i, 0]",
    "y[i, j] = cumprod(cummin(x[i, j], j, where=j > i), i)",
)
STAGES = (
    "y[i, j] = cumsum(x[i, j], j) - cumsum(x[i, j], j, reverse=true)",
    "y[i, j] = cumsum(x[i, j], i) * cummax(x[i, j], j) + x[i, j]",
    "y[i, j] = cumsum(x[i, j] / sum(abs(x[i, k]) + 1, k), j)",
    "y[i, j] = log(cumsum(exp(x[i, j] - max(x[i, k], k)), j))",
)


def spec_of(compute: str, m: int | str, n: int | str):
    (spec,) = load_text(f"""cugen: 1
kernel: f
params: {{M: {m}, N: {n}}}
arrays:
  x: {{shape: [M, N], dtype: float32}}
  y: {{shape: [M, N], dtype: float32}}
compute: "{compute}"
""")
    return spec


def passes(spec, params: dict[str, int]) -> bool:
    kernel = generate(spec, analysis=False)
    return verify(spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True), params=params).verification.passed


@pytest.mark.parametrize("compute", [*STATEMENTS[:3], *STAGES])
def test_they_are_launches_of_their_own(compute):
    families = [launch.family for launch in generate(spec_of(compute, 1000, 1500), analysis=False).plan.kernels]
    assert "scan" in families
    assert "direct" not in families


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compute", STAGES)
def test_results_of_stages_are_right(compute):
    assert passes(spec_of(compute, 33, 1500), {})


@pytest.mark.sampled(28)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (5, 33), (33, 7), ("dynamic", "dynamic")])
@pytest.mark.parametrize("compute", [*STATEMENTS, *STAGES])
def test_their_results_are_right(compute, m, n):
    assert passes(spec_of(compute, m, n), {"M": 6, "N": 40} if m == "dynamic" else {})
