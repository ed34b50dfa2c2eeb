"""Sizes that the call tells are planned for as those of their defaults are."""

from __future__ import annotations

import pytest

from cugen.analysis.launches.price import plan_prices, total
from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

DENSITY = ("x: {shape: [N], dtype: float32}, y: {shape: [M], dtype: float32}, d: {shape: [M], dtype: float32}",)
DENSITY += ("d[m] = sum(exp(-0.5 * (y[m] - x[n]) ** 2), n)",)
RANKS = ("x: {shape: [M, N], dtype: float32}, r: {shape: [M, N], dtype: int32}", "r[m, i] = sum(x[m, n] < x[m, i], n)")
POTENTIAL = ("q: {shape: [N, 2], dtype: float32}, v: {shape: [M, M], dtype: float32}",)
POTENTIAL += ("v[i, j] = sum(rsqrt((q[n, 0] - i) ** 2 + (q[n, 1] - j) ** 2 + 1), n)",)
SUMS = pytest.mark.parametrize(
    ("arrays", "statement"), [DENSITY, RANKS, POTENTIAL], ids=["density", "ranks", "potential"]
)


def spec_of(arrays: str, statement: str, params: str):
    text = f"cugen: 1\nkernel: f\ntarget: sm_90a\nparams: {{{params}}}\narrays: {{{arrays}}}\ncompute: {statement}\n"
    (spec,) = load_text(text)
    return spec


def dynamic(m: int, n: int) -> str:
    return ", ".join(f"{name}: {{range: [0, 100000], default: {size}}}" for name, size in (("M", m), ("N", n)))


@SUMS
def test_long_sums_of_typical_sizes_take_about_as_long_as_those_of_fixed_ones(arrays: str, statement: str) -> None:
    fixed = generate(spec_of(arrays, statement, "M: 500, N: 5001"), analysis=False)
    kernel = generate(spec_of(arrays, statement, dynamic(500, 5001)), analysis=False)
    seconds = total(plan_prices(kernel.plan, {"M": 500, "N": 5001})).seconds
    assert seconds < 1.5 * total(plan_prices(fixed.plan, {})).seconds


@pytest.mark.sampled(4)
@SUMS
@pytest.mark.parametrize("typical", [(500, 5001), (0, 0), (7, 0), (0, 3000)])
def test_results_are_right_at_all_other_sizes(arrays: str, statement: str, typical: tuple[int, int]) -> None:
    spec = spec_of(arrays, statement, dynamic(*typical))
    kernel = generate(spec, analysis=False)
    for m, n in ((0, 3), (3, 0), (1, 1), (33, 1001)):
        run = verify(spec, kernel.source, kernel.manifest, CpuDevice(), params={"M": m, "N": n})
        assert run.verification.passed, "\n".join(run.verification.messages)


def test_few_lags_of_a_long_signal_are_sums_of_parts_where_their_number_is_known_at_the_call() -> None:
    arrays = "x: {shape: [N], dtype: float32, boundary: zero}, r: {shape: [M], dtype: float32}"
    spec = spec_of(arrays, "r[m] = sum(x[n] * x[n + m], n)", dynamic(40, 100_000))
    kernel = generate(spec, analysis=False)
    assert [array.name for array in kernel.plan.workspace] == ["r_parts"]
    run = verify(spec, kernel.source, kernel.manifest, CpuDevice(), params={"M": 7, "N": 5003})
    assert run.verification.passed
