"""What a placement, a family or a size costs is said where it is more than 1.2 times the best plan's."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import cugen
from cugen.kernel import generate
from cugen.kernel_price import PlanPrice, price_of, price_warnings, requested_keys
from cugen.schedule.codes import CODES
from cugen.spec.load import load_text
from cugen.spec.model import Spec, Tuned

PACKAGE = Path(cugen.__file__).parent
GEMM = """
cugen: 1
kernel: product
params: {N: 1024}
arrays:
  A: {shape: [N, N], dtype: float32}
  B: {shape: [N, N], dtype: float32}
  C: {shape: [N, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
"""
DIRECT = GEMM + "schedule: {family: direct}\n"
A_IN_GLOBAL_MEMORY = GEMM.replace("float32}", "float32, memory: global}", 1)
COPY = """
cugen: 1
kernel: copy
params: {N: 1000}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = x[i]
"""
BLUR = """
cugen: 1
kernel: blur
params: {H: 2000, W: 3000}
arrays:
  x: {shape: [H, W], dtype: float32, boundary: clamp}
  rows: {shape: [H, W], dtype: float32, memory: scratch, boundary: clamp}
  y: {shape: [H, W], dtype: float32}
indices: {r: 3}
compute: |
  rows[i, j] = sum(x[i, j + r - 1], r)
  y[i, j] = sum(rows[i + r - 1, j], r)
"""
UPSAMPLE = """
cugen: 1
kernel: upsample
params: {N: 200}
arrays:
  w: {shape: [4], dtype: float32}
  x: {shape: [N, N], dtype: float32, boundary: zero}
  y: {shape: [2 * N, 2 * N], dtype: float32}
compute: y[p, q] = sum(w[r] * w[s] * x[(p - 30000 * r) // 16, (q - s) // 16], r, s)
"""


def spec_of(text: str) -> Spec:
    (spec,) = load_text(text)
    return spec


def priced(text: str, **params: int) -> PlanPrice:
    price = price_of(generate(spec_of(text)), params)
    assert price is not None
    return price


@pytest.mark.slow
def test_a_spec_that_requests_nothing_has_no_price():
    assert price_of(generate(spec_of(GEMM))) is None


@pytest.mark.slow
def test_a_forced_family_is_priced_against_the_family_without_it():
    price = priced(DIRECT)
    assert price.families == ("direct",)
    assert price.alternative is not None
    assert price.alternative.families == ("gemm",)
    assert [key.key for key in price.alternative.without] == ["schedule.family"]
    assert re.fullmatch(
        r"`direct`: about \S+ µs, \S+ GB moved \(bounds: \S+ µs of arithmetic, 12\.6 MB\); "
        r"without `family: direct`, `gemm`: about \S+ µs, \S+ MB moved",
        price.text,
    )


def test_a_placement_is_priced_with_the_reason_of_the_better_family():
    price = priced(A_IN_GLOBAL_MEMORY)
    assert price.alternative is not None
    assert price.alternative.families == ("gemm",)
    assert [key.text for key in price.alternative.without] == ["A: global"]
    assert price.because == "gemm: stages its operands; A is kept out of shared memory"
    assert price.because in price.text


def test_the_placement_of_a_temporary_is_priced():
    price = priced(BLUR)
    assert price.alternative is not None
    assert (price.families, price.alternative.families) == (("stencil",), ("fused_stencil",))
    assert [key.key for key in price.alternative.without] == ["arrays.rows.memory"]


@pytest.mark.slow
def test_the_one_placement_of_several_that_costs_is_named():
    bias = "  bias: {shape: [N], dtype: float32, memory: readonly}\n  C:"
    price = priced(A_IN_GLOBAL_MEMORY.replace("  C:", bias).replace("n], k)", "n], k) + bias[n]"))
    assert price.alternative is not None
    assert [key.text for key in price.alternative.without] == ["A: global"]


def test_a_schedule_and_a_family_that_only_cost_together_are_named_together():
    price = priced(GEMM + "schedule: {family: direct, block: {m: 8, n: 32}}\n")
    assert price.alternative is not None
    assert [key.text for key in price.alternative.without] == ["family: direct", "block"]


def test_a_placement_that_costs_nothing_gives_no_warning():
    kernel = generate(spec_of(COPY.replace("float32}", "float32, memory: readonly}", 1)))
    price = price_of(kernel)
    assert price is not None
    assert not price.is_costly
    assert "without" not in price.text
    assert price_warnings(kernel) == ()


def test_a_fall_to_the_fallback_is_priced_against_the_bound_with_the_reason_of_the_best_family():
    price = priced(UPSAMPLE)
    assert (price.families, price.alternative, price.is_fallback) == (("direct",), None, True)
    assert price.because == "correlation: windows of x don't slide along q"
    assert price.price is not None
    assert price.price.moved > 1.2 * price.price.compulsory


def test_a_fallback_at_the_bound_gives_no_warning():
    assert not priced(COPY + "schedule: {family: direct}\n").is_costly


@pytest.mark.slow
def test_an_unknown_price_is_said_and_not_compared():
    text = DIRECT.replace("N: 1024", "N: dynamic")
    price = priced(text)
    assert (price.price, price.unknown, price.alternative) == (None, "N has no value", None)
    assert price.text == "`direct`: unknown cost: N has no value"
    assert price_warnings(generate(spec_of(text))) == ()
    assert priced(text, N=1024).alternative is not None


def test_a_fall_to_the_fallback_of_unknown_price_is_said():
    price = priced(UPSAMPLE.replace("N: 200", "N: dynamic"))
    assert price.is_fallback
    assert price.text.startswith("`direct`: unknown cost: N has no value, because correlation: ")


@pytest.mark.slow
def test_a_dynamic_param_is_priced_at_its_default():
    text = DIRECT.replace("N: 1024", "N: {range: [1, 4096], default: 1024}")
    assert priced(text).alternative is not None
    assert not priced(text, N=1).is_costly


def test_the_warning_points_to_the_key():
    spec = spec_of(A_IN_GLOBAL_MEMORY)
    (warning,) = price_warnings(generate(spec))
    assert (warning.code, warning.severity, warning.key) == ("CG2108", "warning", "arrays.A.memory")
    assert warning.source_line[warning.span.column - 1 :].startswith("global}")
    assert "\n" not in warning.message


@pytest.mark.slow
def test_the_warning_of_a_fall_points_to_the_statement():
    (warning,) = price_warnings(generate(spec_of(UPSAMPLE)))
    assert warning.source_line.startswith("compute: y[p, q]")


def test_a_schedule_of_a_lock_file_is_not_priced():
    spec = spec_of(DIRECT)
    tuned = Tuned("cugen.lock", "H200", "1.0", "", ())
    assert requested_keys(replace(spec, tuned=tuned)) == ()
    assert [key.key for key in requested_keys(spec)] == ["schedule.family"]


def test_the_page_shows_its_finding_and_the_cure():
    page = (PACKAGE / "explain" / "CG2108.md").read_text()
    assert page.startswith(f"# CG2108: {CODES['CG2108']}\n\n")
    bad, good = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (warning,) = price_warnings(generate(spec_of(bad)))
    assert warning.code == "CG2108"
    assert warning.message in page
    assert price_warnings(generate(spec_of(good))) == ()


@pytest.mark.parametrize("key", ["{block: {m: 8, n: 32}}", "{step: {k: 8}}", "{family: gemm}", "{stages: 3}"])
def test_each_key_of_a_schedule_can_be_left_out(key: str):
    spec = spec_of(GEMM + f"schedule: {key}\n")
    (requested,) = requested_keys(spec)
    assert requested.removed(spec).schedules == (("", requested.removed(spec).schedules[0][1]),)
    assert requested_keys(requested.removed(spec)) == ()
