"""Textures with linear filtering: every family takes a sample as a value, and computes what the reference does."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cugen.kernel import generate
from cugen.kernel_report import analyze
from cugen.plan.traversal.walking import accesses
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from tests.drawn import examples

F = "dtype: float32"
FILTERED = "memory: {space: texture, dims: 2, filter: linear}, pitch: {align: 32}"
U = f"u: {{shape: [H, W], {F}, {FILTERED}, boundary: clamp}}"
# Statements by the family that computes them.
SPECS = {
    "map": f"""
params: {{H: 37, W: 64}}
arrays:
  {U}
  x: {{shape: [H, W], {F}}}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = where(x[i, j] > 0, u[i + 0.25, j + x[i, j]], x[i, j])
""",
    "map, warped": f"""
params: {{H: 37, W: 61, N: 300}}
arrays:
  {U}
  v: {{shape: [N], {F}}}
  w: {{shape: [N], dtype: float16}}
  y: {{shape: [N], {F}}}
compute: y[i] = u[v[i] * 20, w[i] * 30 + 2] + v[i]
""",
    "map, at elements of vectors": f"""
params: {{H: 37, W: 64, N: 300}}
arrays:
  {U}
  v: {{shape: [N], {F}}}
  w: {{shape: [N], {F}}}
  y: {{shape: [N], {F}}}
compute: y[i] = u[v[i], w[i]] + u[w[i], v[i]] * v[i]
""",
    "map, in columns": f"""
params: {{H: 40, W: 61}}
arrays:
  u: {{shape: [H, W], {F}, {FILTERED}, layout: column, boundary: symmetric}}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = u[(i + 1) / 2, j / 3 - 4]
""",
    "map, gathered": f"""
params: {{H: 40, W: 61}}
arrays:
  {U}
  rows: {{shape: [H], dtype: int16}}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = u[rows[i] % 5 + 1, 2 * j]
""",
    "map, proved inside": f"""
params: {{H: 40, W: 61}}
arrays:
  u: {{shape: [H, W], {F}, {FILTERED}}}
  v: {{shape: [H], {F}}}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = u[clamp(v[i] * 40, 0, H - 1), j / 2]
""",
    "direct": f"""
params: {{H: 37, W: 61, N: 23}}
arrays:
  {U}
  y: {{shape: [H], {F}}}
compute: y[i] = sum(u[i + k, r * 0.25], r, k, where=k <= i)
indices: {{r: N, k: 3}}
schedule: {{family: direct}}
""",
    "direct, a sum of samples": f"""
params: {{H: 37, W: 61}}
arrays:
  {U}
  y: {{shape: [H], {F}}}
compute: y[i] = sum(u[i, r * 0.25], r)
indices: {{r: W}}
""",
    "direct, a sum of products": f"""
params: {{H: 37, W: 61, K: 40}}
arrays:
  {U}
  B: {{shape: [K, W], {F}}}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = sum(u[i, k * 0.5] * B[k, j], k)
""",
    "tiled, in the epilogue": f"""
params: {{H: 37, W: 61, K: 40}}
arrays:
  {U}
  A: {{shape: [H, K], {F}}}
  B: {{shape: [K, W], {F}}}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = sum(A[i, k] * B[k, j], k) + u[i * 0.5, j * 0.5]
""",
    "gemm, in the epilogue": f"""
params: {{H: 128, W: 128, K: 64}}
arrays:
  {U}
  A: {{shape: [H, K], {F}}}
  B: {{shape: [K, W], {F}}}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = sum(A[i, k] * B[k, j], k) + u[i * 0.5, j * 0.5]
schedule: {{family: gemm}}
""",
    "gemm, of both operands": f"""
params: {{H: 37, W: 64, M: 70, N: 66, K: 40}}
arrays:
  {U}
  A: {{shape: [M, K], {F}}}
  B: {{shape: [K, N], {F}}}
  y: {{shape: [M, N], {F}}}
compute: y[i, j] = sum(u[A[i, k] * 9 + 5, B[k, j] * 9], k)
schedule: {{family: gemm}}
""",
    "skinny": f"""
params: {{H: 37, W: 64, K: 3000, N: 64}}
arrays:
  {U}
  A: {{shape: [1, K], {F}}}
  B: {{shape: [N, K], {F}}}
  y: {{shape: [1, N], {F}}}
compute: y[m, n] = sum(u[A[m, k], 0.5] * B[n, k], k)
schedule: {{family: skinny}}
""",
    "staged, of all pairs": f"""
params: {{H: 37, W: 64, M: 130, N: 260}}
arrays:
  {U}
  p: {{shape: [M, 2], {F}}}
  q: {{shape: [N, 2], {F}}}
  y: {{shape: [M], {F}}}
compute: y[i] = min(u[p[i, 0] * 3, q[j, 1] * 4], j)
schedule: {{family: staged}}
""",
    "stencil, of the result of another": f"""
params: {{H: 37, W: 64}}
arrays:
  {U}
  x: {{shape: [H, W], {F}, boundary: clamp}}
  t: {{shape: [H, W], {F}, memory: scratch, boundary: clamp}}
  y: {{shape: [H, W], {F}}}
compute: |
  t[i, j] = x[i - 1, j] + x[i + 1, j] + u[x[i, j], j]
  y[i, j] = t[i, j - 1] + t[i, j + 1] + u[t[i, j], j]
""",
    "rowwise": f"""
params: {{H: 19, W: 64}}
arrays:
  {U}
  x: {{shape: [H, W], {F}}}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = softmax(x[i, j] * u[i + 0.25, x[i, j]], j)
""",
    "scan": f"""
params: {{H: 19, W: 64}}
arrays:
  {U}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = cumsum(u[i + 0.25, j], j)
""",
    "stencil": f"""
params: {{H: 37, W: 64}}
arrays:
  {U}
  x: {{shape: [H, W], {F}, boundary: zero}}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1] + u[i + 0.25, j + x[i, j]]
""",
    "staged, at elements of a tile": f"""
params: {{H: 37, W: 61, N: 300}}
arrays:
  {U}
  x: {{shape: [N], {F}, memory: shared, boundary: clamp}}
  y: {{shape: [N], {F}}}
compute: y[i] = sum(u[x[i + r - 3] * 9, x[i + r - 3] + r], r)
indices: {{r: 7}}
schedule: {{family: staged}}
""",
    "transpose": f"""
params: {{H: 37, W: 64}}
arrays:
  {U}
  x: {{shape: [W, H], {F}}}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = x[j, i] * u[i + 0.25, j]
""",
    "reduce": f"""
params: {{H: 37, W: 64}}
arrays:
  {U}
  x: {{shape: [H, W], {F}}}
  y: {{shape: [], {F}}}
compute: y = sum(x[i, j] * u[i + 0.25, j + 0.5], i, j)
""",
}


@pytest.mark.sampled(22)
@pytest.mark.parametrize("name", list(SPECS))
def test_a_family_takes_a_sample_as_a_value(made, prove, name):
    kernel = made(SPECS[name])
    assert name.partition(",")[0] in [planned.family for planned in kernel.plan.kernels]
    fetches = [a for k in kernel.plan.kernels for a in accesses(k.body) if a.array.name == "u"]
    assert fetches
    assert all(len(access.coordinates) == 2 and not access.subscripts for access in fetches)
    prove(SPECS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SPECS))
def test_filtered_fetches_are_clean_under_the_sanitizers(prove, name):
    prove(SPECS[name], sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SPECS))
def test_filtered_fetches_compile(compiled, name):
    compiled(SPECS[name])


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", list(SPECS))
def test_the_analysis_knows_no_sectors_of_a_filtered_fetch(name):
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{SPECS[name]}")
    fetches = [a for launch in analyze(generate(spec)).kernels for a in launch.accesses if a.access.array.name == "u"]
    assert {fetch.verdict for fetch in fetches} == {"unknown"}
    assert {fetch.doubt for fetch in fetches} == {"the sectors of 2-D texture fetches are not modelled"}
    assert all(re.fullmatch(r"tex2D<float>\(u_texture, \(?\w+ \+ 0\.5f\)?.*\)", fetch.text) for fetch in fetches)


@pytest.mark.sampled(21)
@pytest.mark.parametrize("name", list(SPECS))
def test_the_other_accesses_are_those_that_the_plan_has(made, name):
    kernel = made(SPECS[name])
    comparison = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert comparison.unknown > 0
    assert not comparison.mismatches, "\n".join(map(str, comparison.mismatches[:10]))


@pytest.mark.parametrize(
    ("boundary", "x"),
    [("clamp", "u_x + 0.5f"), ("zero", "u_x + 0.5f"), ("wrap", "(u_x + 0.5f) * (1.0f / W)")],
)
def test_the_fetch_is_at_the_centre_of_an_element(made, boundary, x):
    source = made(SPECS["map"].replace("boundary: clamp", f"boundary: {boundary}")).source
    assert f"tex2D<float>(u_texture, {x}, {x.replace('u_x', 'u_y').replace('W', 'H')})" in source
    mode = {"clamp": "Clamp", "zero": "Border", "wrap": "Wrap"}[boundary]
    assert f"cudaAddressMode{mode}, cudaFilterModeLinear" in source.replace("\n       ", "")


def test_equal_samples_are_fetched_once_and_their_coordinates_where_they_are_invariant(made):
    source = made(f"""
params: {{H: 37, W: 64}}
arrays:
  {U}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = u[i * 0.5, j * 0.5] * exp(u[i * 0.5, j * 0.5]) + u[i * 0.5, j * 0.25]
schedule: {{family: direct}}
""").source
    assert source.count("= tex2D<float>(") == 2
    assert source.count("= i * 0.5f;") == 1


@pytest.mark.slow
def test_an_array_that_may_be_empty_is_tested(made, prove):
    text = f"""
params: {{H: dynamic, W: {{range: [0, 400], multiple_of: 8}}, N: dynamic}}
arrays:
  u: {{shape: [H, W], {F}, memory: {{space: texture, dims: 2, filter: linear}}, boundary: clamp}}
  y: {{shape: [N], {F}}}
compute: y[i] = u[i * 0.5, i * 0.25]
"""
    assert "H > 0 && W > 0 ? tex2D<float>(" in made(text).source
    for height, width in ((0, 8), (5, 0), (1, 8), (37, 64)):
        prove(text, {"H": height, "W": width, "N": 50})
    assert "H > 0" not in made(text.replace("H: dynamic", "H: {range: [1, 500]}")).source


def test_a_sum_of_samples_is_no_reduction_of_elements(reasons):
    refusals = reasons("reduce", SPECS["direct, a sum of samples"])
    assert [refusal.reason for refusal in refusals] == [
        "reduces array elements; here all values come from filtered textures"
    ]


@pytest.mark.slow
def test_inside_holds_between_the_first_and_the_last_elements(prove):
    prove(f"""
params: {{H: 5, W: 8}}
arrays:
  {U}
  y: {{shape: [20, 40], {F}}}
compute: y[i, j] = u[i * 0.5 - 1, j * 0.25 - 1] if inside(u[i * 0.5 - 1, j * 0.25 - 1]) else -9
""")


@st.composite
def problems(draw: st.DrawFn) -> str:
    """Sizes, boundaries and subscripts: scaled and shifted indices, whole ones, from arrays, and far outside."""

    def subscript(index: str, values: str) -> str:
        scale, shift = (
            draw(st.sampled_from([0.5, 1, 0.3, 1.7, -1])),
            draw(st.sampled_from([0, 0.5, -3.25, 0.001953125])),
        )
        return draw(
            st.sampled_from(
                [
                    f"{index} * {scale} + {shift}",
                    f"{index} - 3",
                    f"{index} // 2 + {shift}",
                    f"{values}[{index}] * {draw(st.sampled_from([4, 30, 1000]))}",
                    f"{values}[{index}] + {index}",
                    f"{values}[{index}]",
                    f"({index} + {shift}) * {scale} if {values}[{index}] > 0 else {index} / 3",
                    f"clamp({values}[{index}] * 9, 0, 3)",
                    f"sqrt(abs({values}[{index}])) * 5 + {shift}",
                    "2.5",
                ]
            )
        )

    size = st.sampled_from([1, 2, 3, 7, 31, 64, 130])
    layout = draw(st.sampled_from(["row", "column"]))
    boundary = draw(st.sampled_from(["clamp", "zero", "wrap", "symmetric"]))
    value = f"u[{subscript('i', 'v')}, {subscript('j', 'w')}]"
    value = draw(
        st.sampled_from(
            [
                value,
                f"{value} * w[j]",
                f"sum(u[i * 0.5, j + r / 3], r) + {value}",
                f"maximum({value}, cumsum({value}, j))",
            ]
        )
    )
    return f"""
cugen: 1
kernel: k
params: {{H: {draw(size)}, W: {draw(size)}, M: {draw(size)}, N: {draw(size)}}}
arrays:
  u: {{shape: [H, W], {F}, {FILTERED}, layout: {layout}, boundary: {boundary}}}
  v: {{shape: [M], {F}}}
  w: {{shape: [N], {F}}}
  y: {{shape: [M, N], {F}}}
compute: y[i, j] = {value} + v[i] * w[j]
{"indices: {r: 4}" if "sum(u" in value.replace("cumsum", "") else ""}
"""


def agrees(text: str) -> None:
    (spec,) = load_text(text)
    kernel = generate(spec, analysis=False)
    run = verify(spec, kernel.source, kernel.manifest, CpuDevice())
    assert run.verification.passed, "\n".join([*run.verification.messages, text, kernel.source])


@pytest.mark.slow
@settings(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems())
def test_drawn_samples_agree_with_the_reference(text: str) -> None:
    agrees(text)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems())
def test_many_drawn_samples_agree_with_the_reference(text: str) -> None:
    agrees(text)
