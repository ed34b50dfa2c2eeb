"""Sums whose results are short vectors have all components in one thread, in whichever way they are written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.analysis.launches.price import plan_prices, total
from cugen.kernel import Kernel, generate
from cugen.rewrite.indices.components import with_components
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.spec.model import Spec

HEAD = """cugen: 1
kernel: forces
params: {N: %s}
arrays:
  x: {shape: [N, 3], dtype: %s}
  m: {shape: [N], dtype: %s}
  a: {shape: [N, 3], dtype: %s}
compute: |
"""
SQUARES = "((x[j, 0] - x[i, 0]) ** 2 + (x[j, 1] - x[i, 1]) ** 2 + (x[j, 2] - x[i, 2]) ** 2 + 0.5)"
FORCE = "a[i, {c}] = sum(m[j] * (x[j, {c}] - x[i, {c}]) * rsqrt({r}) ** 3, j)"
SPELLINGS = {
    "components": "\n  ".join(FORCE.format(c=c, r=SQUARES) for c in range(3)),
    "explicit": FORCE.format(c="c", r=SQUARES),
    "nested": FORCE.format(c="c", r="(sum((x[j, d] - x[i, d]) ** 2, d) + 0.5)"),
    "a temporary": "r2[i, j] = sum((x[j, d] - x[i, d]) ** 2, d) + 0.5\n  " + FORCE.format(c="c", r="r2[i, j]"),
}


def spec_of(compute: str, n: int = 16384, dtype: str = "float32", more: str = "") -> Spec:
    (spec,) = load_text(f"{HEAD % (n, dtype, dtype, dtype)}  {compute}\n{more}")
    return spec


def passes(kernel: Kernel) -> bool:
    return verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


@pytest.mark.slow
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_forces_of_all_pairs_take_as_long_in_all_spellings(spelling: str) -> None:
    kernel, components = (generate(spec_of(SPELLINGS[s]), analysis=False) for s in (spelling, "components"))
    assert [launch.family for launch in kernel.plan.kernels] == ["staged"]
    assert total(plan_prices(kernel.plan, {})).seconds <= 1.02 * total(plan_prices(components.plan, {})).seconds


LEFT = {
    "a vector of other components": "a[i, c] = sum(m[j] * (x[j, c] - x[i, c]), j)",
    "no sum": "a[i, c] = m[i] * x[i, c] * x[i, 0]",
    "components of a temporary": "t[i, c] = sum(m[j] * x[j, c] * x[j, 0], j)\n  a[i, c] = t[i, c]",
}


@pytest.mark.parametrize("name", LEFT)
def test_other_statements_are_left_as_they_are(name: str) -> None:
    spec = spec_of(LEFT[name])
    assert with_components(spec) is spec


def test_a_statement_with_a_schedule_is_left_as_it_is() -> None:
    assert len(with_components(spec_of(SPELLINGS["explicit"])).statements) == 3
    scheduled = spec_of(SPELLINGS["explicit"], more="schedule: {family: staged}\n")
    assert with_components(scheduled) is scheduled


@pytest.mark.sampled(2)
@pytest.mark.parametrize("n", [1, 70])
def test_a_sum_into_what_is_there_already_is_added_once(n: int) -> None:
    spec = spec_of(SPELLINGS["explicit"].replace("] =", "] +="), n)
    assert len(with_components(spec).statements) == 3
    assert passes(generate(spec, analysis=False))


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    n=st.integers(1, 200),
    dtype=st.sampled_from(["float32", "float16", "float64"]),
    spelling=st.sampled_from(sorted(SPELLINGS)),
)
def test_results_are_those_of_the_reference(n: int, dtype: str, spelling: str) -> None:
    assert passes(generate(spec_of(SPELLINGS[spelling], n, dtype), analysis=False))


BUTTERFLIES = """cugen: 1
kernel: butterflies
params: {B: %s, N: %s}
arrays:
  x: {shape: [B, 2, N, 2], dtype: float32}
  y: {shape: [B, N, 2, 2], dtype: float32}
compute: |
  c[k] = cos(-pi * k / N)
  s[k] = sin(-pi * k / N)
  dr[b, k] = x[b, 0, k, 0] - x[b, 1, k, 0]
  di[b, k] = x[b, 0, k, 1] - x[b, 1, k, 1]
  y[b, k, 0, r] = x[b, 0, k, r] + x[b, 1, k, r]
  y[b, k, 1, 0] = dr[b, k] * c[k] - di[b, k] * s[k]
  y[b, k, 1, 1] = dr[b, k] * s[k] + di[b, k] * c[k]
"""


def test_components_by_an_index_and_by_constants_are_of_one_thread() -> None:
    (spec,) = load_text(BUTTERFLIES % (1024, 8192))
    plan = generate(spec, analysis=False).plan
    assert len(plan.kernels) == 1
    assert not plan.workspace


@pytest.mark.parametrize(("b", "n"), [(3, 40), (2, 33)])
def test_components_by_an_index_and_by_constants_are_right(b: int, n: int) -> None:
    (spec,) = load_text(BUTTERFLIES % (b, n))
    assert passes(generate(spec))


FIELDS = """cugen: 1
kernel: fields
params: {N: %s}
indices: {%s}
arrays:
  p: {shape: [N, 7], dtype: float32}
  o: {shape: [N, 7], dtype: float32}
compute: |
  o[n, c] = p[n, c] + 0.1 * p[n, 0]
  o[n, %s] = p[n, %s] * p[n, 3]
%s"""
OFFSETS = ("c: 3, q: 4", "q + 3", "q + 3", "")
WITH_ONE_MORE = ("c: 3", "c + 3", "c + 3", "  o[n, 6] = p[n, 6]\n")


@pytest.mark.parametrize("fields", [OFFSETS, WITH_ONE_MORE])
def test_fields_of_a_structure_are_written_in_one_launch(fields: tuple[object, ...]) -> None:
    (spec,) = load_text(FIELDS % (10000019, *fields))
    plan = generate(spec, analysis=False).plan
    assert len(plan.kernels) == 1


@pytest.mark.parametrize("fields", [OFFSETS, WITH_ONE_MORE])
def test_fields_of_a_structure_are_right(fields: tuple[object, ...]) -> None:
    (spec,) = load_text(FIELDS % (37, *fields))
    assert passes(generate(spec))


VALUES = """cugen: 1
kernel: values
params: {C: 3, N: %s, K: %s}
arrays:
  x: {shape: [C, N], dtype: float32}
  q: {shape: [C, K], dtype: float32}
  y: {shape: [C, K], dtype: float32}
compute: y[c, k] = %s
"""
COUNT = "cast(sum(x[c, n] <= q[c, k], n), float32)"


def of_values(value: str = COUNT, n: int | str = 100000, k: int = 9) -> Kernel:
    return generate(load_text(VALUES % (n, k, value))[0], analysis=False)


@pytest.mark.covering
@pytest.mark.parametrize("value", [COUNT, "max(abs(x[c, n] - q[c, k]), n) + q[c, k]"])
@pytest.mark.parametrize("n", [100000, pytest.param(99991, marks=pytest.mark.slow), "dynamic"])
def test_the_same_elements_are_reduced_for_a_few_values_by_one_thread(value: str, n: int | str) -> None:
    kernel = of_values(value, n)
    assert {launch.family for launch in kernel.plan.kernels} == {"reduce"}
    assert len(kernel.plan.kernels) <= 2  # the parts of all values, and what they give
    sizes = {"N": 1031} if n == "dynamic" else {}
    small = kernel if n == "dynamic" else of_values(value, 1031)
    run = verify(small.spec, small.source, small.manifest, CpuDevice(sanitize=True), params=sizes)
    assert run.verification.passed


@pytest.mark.parametrize(
    ("value", "n", "k"),
    [
        pytest.param(COUNT, 100000, 17, id="many values"),
        pytest.param(COUNT, 100, 9, id="few terms"),
        pytest.param("q[c, k] + cast(sum(cast(x[c, n] * 4, int32) == k, n), float32)", 100000, 9, id="keys"),
        pytest.param("sum(x[c, n] * q[c, (n + k) % K], n)", 100000, 9, id="elements of each value"),
    ],
)
def test_other_values_are_left_together(value: str, n: int, k: int) -> None:
    (spec,) = load_text(VALUES % (n, k, value))
    assert with_components(spec) is spec
