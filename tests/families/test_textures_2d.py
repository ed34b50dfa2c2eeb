"""Inputs as 2-D textures: every family that reads them by single loads fetches them by two coordinates, with boundaries
by the hardware's address modes."""

from __future__ import annotations

import re

import pytest

from cugen.plan.traversal.walking import accesses
from cugen.runtime.honesty import check_honesty
from cugen.spec.diagnostics import SpecError

F = "dtype: float32"
TEXTURE = "memory: {space: texture, dims: 2}, pitch: {align: 32}"
# Statements by the family that computes them.
SPECS = {
    "map": f"""
params: {{M: 9, N: 37}}
arrays:
  x: {{shape: [M, N], {F}, {TEXTURE}}}
  z: {{shape: [M, N], {F}, memory: texture}}
  y: {{shape: [M, N], {F}}}
compute: y[i, j] = x[i, j] + z[i, j]
""",
    "map, of all elements": f"""
params: {{M: 9, N: 40}}
arrays:
  x: {{shape: [M, N], {F}, {TEXTURE}}}
  y: {{shape: [M, N], {F}}}
compute: y[i, j] = 2 * x[i, j]
""",
    "map, gathered": f"""
params: {{N: 100, V: 23, W: 9}}
arrays:
  table: {{shape: [V, W], dtype: float16, {TEXTURE}, boundary: wrap}}
  ids: {{shape: [N], dtype: int16}}
  y: {{shape: [N], {F}}}
compute: y[i] = table[ids[i], i - 50]
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
    "stencil, wrapped": f"""
params: {{H: 19, W: 64}}
arrays:
  u: {{shape: [H, W], {F}, {TEXTURE}, boundary: wrap}}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
schedule: {{family: stencil}}
""",
    "stencil, mirrored": f"""
params: {{H: 17, W: 33}}
arrays:
  u: {{shape: [H, W], {F}, {TEXTURE}, boundary: symmetric}}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = max(u[i + r - 2, j + s - 2], r, s)
indices: {{r: 5, s: 5}}
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
    "transpose": f"""
params: {{M: 40, N: 70}}
arrays:
  x: {{shape: [M, N], dtype: float16, {TEXTURE}}}
  y: {{shape: [N, M], dtype: float16}}
compute: y[j, i] = x[i, j]
""",
    "reduce": f"""
params: {{M: 5, N: 1000}}
arrays:
  x: {{shape: [M, N], {F}, {TEXTURE}}}
  y: {{shape: [M], {F}}}
compute: y[i] = sum(x[i, j], j)
""",
    "reduce, of all": f"""
params: {{M: 50, N: 1000}}
arrays:
  x: {{shape: [M, N], {F}, {TEXTURE}}}
  y: {{shape: [], {F}}}
compute: y = sum(x[i, j], i, j)
""",
    "reduce, of columns": f"""
params: {{M: 500, N: 40}}
arrays:
  x: {{shape: [M, N], {F}, {TEXTURE}}}
  y: {{shape: [N], {F}}}
compute: y[j] = sum(x[i, j], i)
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
    "gemm": f"""
params: {{M: 70, K: 40, N: 130}}
arrays:
  A: {{shape: [M, K], {F}, {TEXTURE}}}
  B: {{shape: [K, N], {F}}}
  residual: {{shape: [M, N], {F}, {TEXTURE}}}
  C: {{shape: [M, N], {F}}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k) + residual[m, n]
schedule: {{family: gemm}}
""",
    "staged": f"""
params: {{N: 100, M: 300, D: 8}}
arrays:
  p: {{shape: [N, D], {F}}}
  q: {{shape: [M, D], {F}, {TEXTURE}}}
  y: {{shape: [N], {F}}}
compute: y[i] = min(sum((p[i, d] - q[j, d]) ** 2, d), j)
schedule: {{family: staged}}
""",
    "skinny": f"""
params: {{K: 3000, N: 64}}
arrays:
  A: {{shape: [1, K], {F}}}
  B: {{shape: [N, K], {F}, {TEXTURE}}}
  C: {{shape: [1, N], {F}}}
compute: C[m, n] = sum(A[m, k] * B[n, k], k)
schedule: {{family: skinny}}
""",
}


@pytest.mark.sampled(32)
@pytest.mark.parametrize("name", list(SPECS))
def test_a_family_fetches_its_2d_textures_and_computes_the_same(made, prove, name):
    kernel = made(SPECS[name])
    assert name.partition(",")[0] in [planned.family for planned in kernel.plan.kernels]
    fetched = {a.array.name for k in kernel.plan.kernels for a in accesses(k.body) if a.array.texture_2d is not None}
    assert fetched == set(re.findall(r"\w+(?=: {shape[^}]*dims: 2)", SPECS[name]))
    assert "tex2D<float>(" in kernel.source
    prove(SPECS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SPECS))
def test_2d_fetches_are_clean_under_the_sanitizers(prove, name):
    prove(SPECS[name], sanitize=True)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", list(SPECS))
def test_2d_fetches_are_those_that_the_plan_has(made, name):
    kernel = made(SPECS[name])
    comparison = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert comparison.compared > 0
    assert not comparison.mismatches, "\n".join(map(str, comparison.mismatches[:10]))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SPECS))
def test_2d_fetches_compile(compiled, name):
    compiled(SPECS[name])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "int32", "int16", "int8", "uint32", "uint16", "uint8"])
def test_every_element_type_is_read_as_it_is_stored(made, prove, dtype):
    text = f"""
params: {{M: 5, N: 70}}
arrays:
  x: {{shape: [M, N], dtype: {dtype}, {TEXTURE}, boundary: symmetric}}
  y: {{shape: [M, N], dtype: {dtype}}}
compute: y[i, j] = x[i - 1, j + 1]
"""
    fetched = "float" if dtype == "float16" else {"int8": "signed char"}.get(dtype, "")
    assert f"tex2D<{fetched}" in made(text).source
    prove(text)


BOUNDARIES = ["zero", "clamp", "wrap", "reflect", "symmetric", "{value: 2}"]
SHIFTS = f"""
params: {{H: HEIGHT, W: WIDTH}}
arrays:
  x: {{shape: [H, W], {F}, {TEXTURE}, layout: LAYOUT, boundary: MODE}}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = x[i - 2, j + 1] + x[i + 7, j - 13]
schedule: {{family: direct}}
"""


def shifts(mode: str, height: object = 6, width: object = 11, layout: str = "row") -> str:
    text = SHIFTS.replace("MODE", mode).replace("LAYOUT", layout)
    return text.replace("HEIGHT", str(height)).replace("WIDTH", str(width))


@pytest.mark.sampled(16)
@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_every_boundary_is_right_in_rows_and_columns(prove, boundary, layout):
    prove(shifts(boundary, layout=layout))


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1, 1), (1, 257), (37, 131), (31, 31), (33, 33), (64, 256)], ids=str)
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_every_boundary_is_right_at_every_size(prove, boundary, size):
    prove(shifts(boundary, *size), sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize("extent", ["dynamic", "{range: [0, 300]}"], ids=["any size", "a range"])
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_sizes_that_are_known_at_launch_are_right(prove, boundary, extent):
    text = shifts(boundary, extent, extent)
    for height, width in ((0, 0), (1, 1), (13, 37)):
        prove(text, {"H": height, "W": width})


def lines_of(source: str) -> list[str]:
    return [line.strip() for line in source.splitlines() if "tex2D<" in line and "//" not in line]


@pytest.mark.parametrize(
    ("boundary", "mode", "x", "y"),
    [
        ("zero", "Border", "j + 1 + 0.5f", "i - 2 + 0.5f"),
        ("clamp", "Clamp", "j + 1 + 0.5f", "i - 2 + 0.5f"),
        ("wrap", "Wrap", "(j + 1 + 0.5f) * (1.0f / W)", "(i - 2 + 0.5f) * (1.0f / H)"),
        ("symmetric", "Mirror", "(j + 1 + 0.5f) * (1.0f / W)", "(i - 2 + 0.5f) * (1.0f / H)"),
    ],
)
def test_the_hardware_applies_the_boundary(made, boundary, mode, x, y):
    source = made(shifts(boundary)).source
    assert lines_of(source)[0] == f"const float x_im2_jp1 = tex2D<float>(x_texture, {x}, {y});"
    assert f"cudaAddressMode{mode}" in source
    assert "?" not in source.partition("#if defined(__CUDACC__)")[0]


@pytest.mark.parametrize(("boundary", "sign"), [("reflect", "min("), ("{value: 2}", "?")])
def test_other_boundaries_are_in_the_code(made, boundary, sign):
    source = made(shifts(boundary)).source
    assert sign in source.partition("#if defined(__CUDACC__)")[0]
    assert "cudaAddressModeClamp" in source


@pytest.mark.slow
@pytest.mark.parametrize("boundary", ["wrap", "symmetric"])
def test_a_subscript_that_is_too_large_for_a_normalized_coordinate_is_folded_in_the_code(made, prove, boundary):
    text = f"""
params: {{N: 40, H: 6, W: 11}}
arrays:
  x: {{shape: [H, W], {F}, {TEXTURE}, boundary: {boundary}}}
  ids: {{shape: [N], dtype: int32}}
  y: {{shape: [N], {F}}}
compute: y[i] = x[ids[i], i - 20]
"""
    (line,) = lines_of(made(text).source)
    assert "ids_i" not in line  # y, folded before
    assert "(i - 20 + 0.5f) * (1.0f / W)" in line
    prove(text)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("boundary", ["zero", "clamp"])
def test_a_gather_by_any_integer_is_left_to_the_hardware(made, prove, boundary):
    text = f"""
params: {{N: 40, H: 6, W: 11}}
arrays:
  x: {{shape: [H, W], {F}, {TEXTURE}, boundary: {boundary}}}
  rows: {{shape: [N], dtype: int32}}
  columns: {{shape: [N], dtype: int64}}
  y: {{shape: [N], {F}}}
compute: y[i] = x[rows[i], columns[i]]
"""
    (line,) = lines_of(made(text).source)
    assert "?" not in line
    assert "min(" not in made(text).source
    prove(text)


def test_an_array_that_may_be_empty_is_tested(made):
    text = f"""
params: {{N: dynamic, M: dynamic}}
arrays:
  x: {{shape: [N, N], {F}, {TEXTURE}, boundary: zero}}
  y: {{shape: [M], {F}}}
compute: y[i] = x[i - 1, i + 0]
schedule: {{family: direct}}
"""
    (line,) = lines_of(made(text).source)
    assert "?" in line


def refusal(made, text: str):
    with pytest.raises(SpecError) as caught:
        made(text)
    (finding,) = caught.value.diagnostics
    assert finding.key == "arrays.x.memory"
    return finding


@pytest.mark.parametrize(
    ("target", "height", "width", "dtype", "message"),
    [
        ("sm_90", 8, 131104, "uint8", "rows of 131104 elements; a texture of sm_90 has at most 131072"),
        ("sm_90", 65001, 32, "uint8", "65001 rows; a texture of sm_90 has at most 65000"),
        ("sm_50", 8, 65568, "uint8", "rows of 65568 elements; a texture of sm_50 has at most 65536"),
        ("sm_35", 8, 65024, "uint8", "rows of 65024 elements; a texture of sm_35 has at most 65000"),
    ],
)
def test_a_2d_texture_that_is_too_large_is_refused_with_the_limit(made, target, height, width, dtype, message):
    text = f"""
target: {target}
arrays:
  x: {{shape: [{height}, {width}], dtype: {dtype}, {TEXTURE}}}
  y: {{shape: [{height}, {width}], dtype: {dtype}}}
compute: y[i, j] = x[i, j]
"""
    finding = refusal(made, text)
    assert (finding.code, finding.message) == ("CG3105", f"`x` has {message}")


def test_a_pitch_beyond_the_limit_is_refused(made):
    text = f"""
arrays:
  x: {{shape: [8, 100], {F}, memory: {{space: texture, dims: 2}}, pitch: 600000}}
  y: {{shape: [8, 100], {F}}}
compute: y[i, j] = x[i, j]
"""
    assert refusal(made, text).message == ("`x` has a pitch of 2400000 bytes; a texture of sm_90 has at most 2097120")


def test_sizes_beyond_the_limits_are_refused_at_launch(made):
    kernel = made(shifts("clamp", "dynamic", "dynamic"))
    assert kernel.manifest.require == ("W <= 131072", "H <= 65000", "((W + 7) // 8) * 32 <= 2097120")
    for check in ("W > 131072", "H > 65000", "> 2097120"):
        assert check in kernel.source


@pytest.mark.parametrize(
    ("width", "dtype", "message"),
    [
        ("37", "float32", "rows of 148 bytes"),
        ("40", "uint8", "rows of 40 bytes"),
        ("dynamic", "float32", "rows"),
        ("{range: [4, 400], multiple_of: 4}", "float32", "rows"),
    ],
    ids=["odd", "bytes", "dynamic", "multiple of 4"],
)
def test_a_pitch_that_may_not_be_aligned_is_refused_with_the_cure(made, width, dtype, message):
    text = f"""
params: {{W: {width}}}
arrays:
  x: {{shape: [8, W], dtype: {dtype}, memory: {{space: texture, dims: 2}}}}
  y: {{shape: [8, W], dtype: {dtype}}}
compute: y[i, j] = x[i, j]
"""
    finding = refusal(made, text)
    assert finding.code == "CG3106"
    assert finding.message == f"`x` has {message}; the pitch of a 2-D texture must be a multiple of 32 bytes"
    assert "pitch: {align: 32}" in finding.help
    made(text.replace("dims: 2}", "dims: 2}, pitch: {align: 32}"))


@pytest.mark.slow
def test_a_dense_row_of_a_proved_multiple_needs_no_pitch(made, prove):
    text = f"""
params: {{W: {{range: [0, 400], multiple_of: 8}}}}
arrays:
  x: {{shape: [8, W], {F}, memory: {{space: texture, dims: 2}}, boundary: wrap}}
  y: {{shape: [8, W], {F}}}
compute: y[i, j] = x[i + 1, j + 1]
"""
    assert "tex2D<float>(" in made(text).source
    for width in (0, 8, 64):
        prove(text, {"W": width})


@pytest.mark.sampled(4)
@pytest.mark.parametrize("boundary", ["zero", "clamp", "wrap", "symmetric"])
def test_a_register_window_has_no_branch_at_the_edges(made, prove, boundary):
    text = f"""
params: {{H: 70, W: 131}}
arrays:
  u: {{shape: [H, W], {F}, {TEXTURE}, boundary: {boundary}}}
  y: {{shape: [H, W], {F}}}
compute: y[i, j] = sum(u[i + r - 1, j + s - 1], r, s)
indices: {{r: 3, s: 3}}
schedule: {{family: stencil, thread: {{i: 4}}}}
"""
    source = made(text).source.partition("#if defined(__CUDACC__)")[0]
    assert "else" not in source
    assert "?" not in source
    prove(text, sanitize=True)
