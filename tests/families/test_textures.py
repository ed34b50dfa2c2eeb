"""Inputs as textures: every family that reads them by single loads fetches them, with the same results."""

from __future__ import annotations

import re

import pytest

from cugen.plan.traversal.walking import accesses
from cugen.runtime.honesty import check_honesty
from cugen.spec.diagnostics import SpecError

F = "dtype: float32"
TEXTURE = "memory: texture"
# Statements by the family that computes them, with the arrays that are no textures elsewhere.
SPECS = {
    "map": f"""
params: {{M: 9, N: 37}}
arrays:
  x: {{shape: [M, N], {F}, {TEXTURE}}}
  bias: {{shape: [N], {F}, {TEXTURE}}}
  y: {{shape: [M, N], {F}}}
compute: y[i, j] = x[i, j] + bias[j]
""",
    "map, gathered": f"""
params: {{N: 100, V: 23}}
arrays:
  table: {{shape: [V], {F}, {TEXTURE}}}
  ids: {{shape: [N], dtype: int16, {TEXTURE}}}
  y: {{shape: [N], {F}}}
compute: y[i] = table[ids[i]]
""",
    "direct": f"""
params: {{M: 9, N: 14}}
arrays:
  L: {{shape: [M, M], {F}, {TEXTURE}}}
  B: {{shape: [M, N], {F}, {TEXTURE}}}
  y: {{shape: [M, N], {F}}}
compute: y[i, j] = sum(L[i, k] * B[k, j], k, where=k <= i)
schedule: {{family: direct}}
""",
    "stencil": f"""
params: {{H: 19, W: 70}}
arrays:
  u: {{shape: [H, W], {F}, {TEXTURE}, boundary: zero}}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
schedule: {{family: stencil}}
""",
    "fused_stencil": f"""
params: {{H: 40, W: 96}}
arrays:
  u: {{shape: [H, W], {F}, {TEXTURE}, boundary: clamp}}
  t: {{shape: [H, W], {F}, memory: shared, boundary: clamp}}
  y: {{shape: [H, W], {F}}}
compute: |
  t[i, j] = u[i, j - 1] + u[i, j + 1]
  y[i, j] = t[i - 1, j] + t[i + 1, j]
""",
    "transpose": """
params: {M: 40, N: 70}
arrays:
  x: {shape: [M, N], dtype: float16, memory: texture}
  y: {shape: [N, M], dtype: float16}
compute: y[j, i] = x[i, j]
""",
    "reduce": f"""
params: {{M: 5, N: 1000}}
arrays:
  x: {{shape: [M, N], {F}, {TEXTURE}}}
  y: {{shape: [M], {F}}}
compute: y[i] = sum(x[i, j], j)
""",
    "rowwise": f"""
params: {{M: 7, N: 300}}
arrays:
  x: {{shape: [M, N], {F}, {TEXTURE}}}
  y: {{shape: [M, N], {F}}}
compute: y[i, j] = softmax(x[i, j], j)
""",
    "scan": f"""
params: {{M: 3, N: 700}}
arrays:
  x: {{shape: [M, N], {F}, {TEXTURE}}}
  y: {{shape: [M, N], {F}}}
compute: y[i, j] = cumsum(x[i, j], j)
""",
    "tiled": f"""
params: {{M: 33, K: 20, N: 40}}
arrays:
  A: {{shape: [M, K], {F}, {TEXTURE}}}
  B: {{shape: [K, N], {F}}}
  C: {{shape: [M, N], {F}}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {{family: tiled}}
""",
    "gemm, of the epilogue": f"""
params: {{M: 70, K: 40, N: 130}}
arrays:
  A: {{shape: [M, K], {F}}}
  B: {{shape: [K, N], {F}}}
  bias: {{shape: [N], dtype: float16, {TEXTURE}}}
  residual: {{shape: [M, N], {F}, {TEXTURE}}}
  C: {{shape: [M, N], {F}}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k) + bias[n] + residual[m, n]
schedule: {{family: gemm}}
""",
    "batched, of the epilogue": f"""
params: {{L: 50, M: 5, K: 6, N: 7}}
arrays:
  A: {{shape: [L, M, K], {F}}}
  B: {{shape: [L, K, N], {F}}}
  bias: {{shape: [N], {F}, {TEXTURE}}}
  C: {{shape: [L, M, N], {F}}}
compute: C[l, m, n] = sum(A[l, m, k] * B[l, k, n], k) + bias[n]
schedule: {{family: batched}}
""",
    "stencil, of channels": f"""
params: {{C: 3, F: 4, H: 11, W: 40}}
arrays:
  x: {{shape: [C, H, W], dtype: float16, {TEXTURE}, boundary: symmetric}}
  w: {{shape: [F, C, 3, 3], {F}, {TEXTURE}}}
  y: {{shape: [F, H, W], {F}}}
compute: y[f, i, j] = sum(x[c, i + r - 1, j + s - 1] * w[f, c, r, s], c, r, s)
schedule: {{family: stencil}}
""",
    "skinny": f"""
params: {{K: 3000, N: 64}}
arrays:
  A: {{shape: [1, K], {F}, {TEXTURE}}}
  B: {{shape: [N, K], {F}, {TEXTURE}}}
  C: {{shape: [1, N], {F}}}
compute: C[m, n] = sum(A[m, k] * B[n, k], k)
schedule: {{family: skinny}}
""",
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", list(SPECS))
def test_a_family_fetches_its_textures_and_computes_the_same(made, prove, name):
    kernel = made(SPECS[name])
    assert name.partition(",")[0] in [planned.family for planned in kernel.plan.kernels]
    assert "tex1Dfetch<" in kernel.source
    for texture in re.findall(r"\w+(?=: {[^}]*memory: texture)", SPECS[name]):
        assert f"cudaTextureObject_t {texture}_texture" in kernel.source
        assert not re.search(rf"\* __restrict__ {texture}\b", kernel.source)
    prove(SPECS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SPECS))
def test_fetches_are_clean_under_the_sanitizers(prove, name):
    prove(SPECS[name], sanitize=True)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("name", list(SPECS))
def test_fetches_are_those_that_the_plan_has(made, name):
    kernel = made(SPECS[name])
    comparison = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert comparison.compared > 0
    assert not comparison.mismatches, "\n".join(map(str, comparison.mismatches[:10]))


@pytest.mark.sampled(14)
@pytest.mark.parametrize("name", list(SPECS))
def test_fetches_compile(compiled, name):
    compiled(SPECS[name])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "int16", "int8", "uint32", "uint16", "uint8"])
def test_every_element_type_is_read_as_it_is_stored(made, prove, dtype):
    text = f"""
params: {{N: 70}}
arrays:
  x: {{shape: [N], dtype: {dtype}, memory: texture, boundary: {{value: 3}}}}
  y: {{shape: [N], dtype: {dtype}}}
compute: y[i] = x[i + 1]
"""
    fetched = {"float16": "float", "bfloat16": "unsigned short", "int8": "signed char"}.get(dtype, "")
    assert f"tex1Dfetch<{fetched}" in made(text).source
    prove(text)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("boundary", ["zero", "clamp", "wrap", "reflect", "symmetric", "{value: 2}"])
def test_every_boundary_and_pitch_is_right(prove, boundary):
    text = f"""
params: {{H: 6, W: 11}}
arrays:
  x: {{shape: [H, W], {F}, {TEXTURE}, pitch: 13, boundary: {boundary}}}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = x[i - 2, j + 1] + x[i + 7, j - 13]
schedule: {{family: direct}}
"""
    prove(text)


@pytest.mark.parametrize("size", [0, 1, 100])
def test_a_size_that_is_known_at_launch_is_right(prove, size):
    text = f"""
params: {{N: dynamic}}
arrays:
  x: {{shape: [N], {F}, {TEXTURE}, boundary: zero}}
  y: {{shape: [N], {F}}}
compute: y[i] = x[i - 1] + x[i + 1]
"""
    prove(text, {"N": size})


PRODUCT = f"""
params: {{M: 70, K: 36, N: 68}}
arrays:
  A: {{shape: [M, K], {F}, {TEXTURE}}}
  B: {{shape: [K, N], {F}{{more}}}}
  C: {{shape: [M, N], {F}}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {{family: {{family}}}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", f", {TEXTURE}"], ids=["one operand", "both operands"])
@pytest.mark.parametrize("family", ["gemm", "tiled"])
def test_operands_of_a_gemm_are_staged_by_single_fetches(made, prove, family, more):
    text = PRODUCT.replace("{family}", family).replace("{more}", more).replace("{{", "{").replace("}}", "}")
    (kernel,) = made(text).plan.kernels
    fetches = [access for access in accesses(kernel.body) if access.array.space == "texture"]
    stores = [access.array.name for access in accesses(kernel.body) if access.array.space == "shared"]
    assert {access.array.name for access in fetches} <= set(stores)
    assert {access.width for access in fetches} == {1}
    prove(text, sanitize=True)
    prove(text, races=True)


@pytest.mark.parametrize(("elements", "target"), [(2**27 + 1, "sm_70"), (2**28 + 1, "sm_90")])
def test_a_texture_with_too_many_elements_is_refused_with_the_limit(made, elements, target):
    text = f"""
target: {target}
arrays:
  x: {{shape: [{elements}], dtype: uint8, {TEXTURE}}}
  y: {{shape: [{elements}], dtype: uint8}}
compute: y[i] = x[i]
"""
    with pytest.raises(SpecError) as caught:
        made(text)
    (finding,) = caught.value.diagnostics
    assert (finding.code, finding.key) == ("CG3105", "arrays.x.memory")
    assert str(elements - 1) in finding.message


def lines_of(source: str) -> list[str]:
    return [line.strip() for line in source.splitlines() if "tex1Dfetch<" in line and "//" not in line]


def test_a_fetch_outside_a_vector_costs_no_test(made):
    text = f"""
params: {{N: 100}}
arrays:
  x: {{shape: [N], {F}, {TEXTURE}, boundary: zero}}
  y: {{shape: [N], {F}}}
compute: y[i] = x[i - 1] + x[i + 1]
schedule: {{family: direct}}
"""
    assert lines_of(made(text).source) == [
        "const float x_im1 = tex1Dfetch<float>(x_texture, i - 1);",
        "const float x_ip1 = tex1Dfetch<float>(x_texture, i + 1);",
    ]


def test_rows_outside_cost_no_test_and_columns_do(made):
    text = f"""
params: {{H: 20, W: 30}}
arrays:
  x: {{shape: [H, W], {F}, {TEXTURE}, boundary: zero}}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = x[i - 1, j] + x[i, j + 1]
schedule: {{family: direct}}
"""
    assert lines_of(made(text).source) == [
        "const float x_im1_j = tex1Dfetch<float>(x_texture, (i - 1) * W + j);",
        "const float x_i_jp1 = j + 1 < W ? tex1Dfetch<float>(x_texture, i * W + j + 1) : 0.0f;",
    ]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("boundary", "dtype"), [("zero", "int64"), ("zero", "uint32"), ("{value: 1}", "int32"), ("clamp", "int32")]
)
def test_other_values_and_offsets_of_64_bits_are_tested(made, prove, boundary, dtype):
    text = f"""
params: {{N: 40}}
arrays:
  x: {{shape: [N], {F}, {TEXTURE}, boundary: {boundary}}}
  ids: {{shape: [N], dtype: {dtype}}}
  y: {{shape: [N], {F}}}
compute: y[i] = x[ids[i]]
"""
    (line,) = lines_of(made(text).source)
    assert "?" in line or "min(" in made(text).source
    prove(text)


def test_a_gather_of_any_int32_costs_no_test(made, prove):
    text = f"""
params: {{N: 40}}
arrays:
  x: {{shape: [N], {F}, {TEXTURE}, boundary: zero}}
  ids: {{shape: [N], dtype: int32}}
  y: {{shape: [N], {F}}}
compute: y[i] = x[ids[i]]
"""
    assert lines_of(made(text).source) == ["const float x_ = tex1Dfetch<float>(x_texture, ids_i);"]
    prove(text)


def test_an_array_that_may_be_empty_is_tested(made):
    text = f"""
params: {{N: dynamic, M: dynamic}}
arrays:
  x: {{shape: [N], {F}, {TEXTURE}, boundary: zero}}
  y: {{shape: [M], {F}}}
compute: y[i] = x[i - 1]
schedule: {{family: direct}}
"""
    (line,) = lines_of(made(text).source)
    assert "?" in line
