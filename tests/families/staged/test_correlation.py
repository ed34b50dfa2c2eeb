"""Correlations: long windows of adjacent outputs, by register windows that slide along tiles in shared memory."""

from __future__ import annotations

import re

import pytest

from cugen import generate, load
from cugen.families.registry import families
from cugen.families.staged.correlation.conditions import guard_of_all
from cugen.plan.nodes import Comparison, Guard
from cugen.plan.symbols import integer, symbol
from cugen.runtime.honesty import check_honesty

FILTER = """
params: {N: %s, T: %s}
arrays:
  x: {shape: [%s], dtype: %s%s}
  h: {shape: [T], dtype: %s}
  y: {shape: [N], dtype: %s}
compute: y[i] = %s
"""
FORCED = "schedule: {family: correlation}\n"


def filtered(value, n=500, taps=40, length="4 * N + 2 * T", dtype="float32", boundary="", result=""):
    boundary = f", boundary: {boundary}" if boundary else ""
    return FILTER % (n, taps, length, dtype, boundary, dtype, result or dtype, value) + FORCED


@pytest.mark.sampled(20)
@pytest.mark.parametrize("stride", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("taps", [2, 16, 37, 64, 65, 130])
def test_any_stride_and_length_of_a_filter_is_right(prove, stride, taps):
    prove(filtered(f"sum(h[k] * x[{stride} * i + k], k)", n=333, taps=taps, length=f"{stride} * N + T"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("size", [1, 7, 8, 127, 1024, 1025, 70_003])
def test_any_number_of_results_is_right(prove, size):
    prove(filtered("sum(h[k] * x[i + k], k)", n=size, taps=24, length="N + T"))


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "value",
    [
        "sum(h[k] * x[2 * i + T - 1 - k], k)",
        "sum(h[k] * x[i + 3 * k + 5], k)",
        "sum(h[k] * (x[2 * i + k] + x[2 * i + 2 * T - 1 - k]), k)",
        "sum(h[k] * x[2 * i + k] - x[2 * i + k + 3] * h[T - 1 - k], k)",
        "2 * sum(h[k] * x[3 * i + k], k) + sum(h[k] + x[3 * i + k] ** 2, k)",
        "max(x[i + k] - h[k], k)",
        "min(abs(x[2 * i + k] - h[k]), k)",
        "prod(1 + 0.01 * x[i + k] * h[k], k)",
        "sum((x[i + k] - h[k]) ** 2, k) / sum(x[i + k] ** 2 + h[k] ** 2, k)",
        "sum(k * x[i + k] * h[k] + i, k)",
        "mean(x[i + k] * h[k], k)",
    ],
)
def test_windows_in_whatever_form_are_right(prove, value):
    prove(filtered(value))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "where",
    ["k <= i", "k + i < N", "i - k >= 3 and k > 2", "(k + i) % 3 != 0", "x[i + k] > 0", "k <= i and h[k] < x[i + k]"],
)
def test_conditions_are_tested_where_they_may_fail(prove, where):
    prove(filtered(f"sum(h[k] * x[i + k], k, where={where})", n=900))


@pytest.mark.covering
@pytest.mark.parametrize("boundary", ["zero", "clamp", "wrap", "reflect", "symmetric", "{value: 2}"])
@pytest.mark.parametrize("stride", [1, 2])
def test_windows_beyond_a_boundary_are_right(prove, boundary, stride):
    value = f"sum(h[k] * x[{stride} * i + k - 19], k)"
    prove(filtered(value, n=333, length=f"{stride} * N", boundary=boundary))


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32", "int16", "uint8", "int64"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_elements_of_any_size_are_in_different_banks_and_right(prove, dtype, stride):
    result = "int32" if dtype in ("int16", "uint8") else dtype
    prove(filtered(f"sum(h[k] * x[{stride} * i + k], k)", dtype=dtype, result=result))


@pytest.mark.parametrize("sizes", [{"N": 1, "T": 1}, {"N": 1000, "T": 3}, {"N": 300, "T": 3000}, {"N": 0, "T": 5}])
def test_sizes_that_are_known_at_launch_are_right(prove, sizes):
    prove(filtered("sum(h[k] * x[i + k], k)", n="dynamic", taps="dynamic", length="N + T"), sizes)


LAGS = """
params: {B: 3, N: %d, L: %d}
arrays:
  x: {shape: [B, N], dtype: float32%s}
  r: {shape: [B, L], dtype: float32}
indices: {t: N, l: L}
compute: r[b, l] = %s
"""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("lags", [2, 5, 100, 300])
@pytest.mark.parametrize("length", [301, 2048, 5001])
def test_the_slices_of_a_block_share_the_terms_of_an_autocorrelation(prove, length, lags):
    prove(LAGS % (length, lags, "", "sum(x[b, t] * x[b, t + l], t, where=t + l < N)") + FORCED)


def test_lags_of_differences_beyond_the_end_are_right(prove):
    prove(LAGS % (700, 50, ", boundary: clamp", "mean((x[b, t + l] - x[b, t]) ** 2, t)") + FORCED)


IMAGE = """
params: {H: 37, W: %d, P: %d, Q: %d}
arrays:
  x: {shape: [2 * H + P, 3 * W + Q], dtype: %s}
  w: {shape: [P, Q], dtype: %s}
  y: {shape: [H, W], dtype: %s}
compute: y[i, j] = %s
"""


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "value",
    [
        "sum((x[i + u, j + v] - w[u, v]) ** 2, u, v)",
        "sum(x[2 * i + u, 3 * j + v] * w[u, v], u, v)",
        "max(abs(x[i + P - 1 - u, j + Q - 1 - v] - w[u, v]), v, u)",
        "sum(abs(x[i + u, j + v] - x[i + 3, j + 5]) * w[u, v], u, v)",
    ],
)
@pytest.mark.parametrize(("width", "height", "length"), [(130, 17, 19), (45, 3, 40), (200, 20, 64)])
def test_windows_of_several_rows_are_right(prove, value, width, height, length):
    prove(IMAGE % (width, height, length, "float32", "float32", "float32", value) + FORCED)


SIGNALS = """
params: {N: %d, T: 24, D: %d}
arrays:
  x: {shape: [D * N + T, 2], dtype: float32}
  h: {shape: [T, 2], dtype: float32}
  y: {shape: [N, 2], dtype: float32}
indices: {k: T}
compute: |
  y[i, 0] = sum(h[k, 0] * x[D * i + k, 0] - h[k, 1] * x[D * i + k, 1], k)
  y[i, 1] = sum(h[k, 0] * x[D * i + k, 1] + h[k, 1] * x[D * i + k, 0], k)
"""


@pytest.mark.covering
@pytest.mark.parametrize("distance", [1, 4])
@pytest.mark.parametrize("size", [999, 70_000])
def test_complex_numbers_are_windows_of_their_parts(prove, made, size, distance):
    prove(SIGNALS % (size, distance) + FORCED)
    assert "+= h_k_0" in made(SIGNALS % (size, distance) + FORCED).source  # not of a product and a difference


COMPONENTS = """
params: {N: %d, T: 32, C: %d}
arrays:
  x: {shape: [2 * N + T%s], dtype: float32}
  h: {shape: [T%s], dtype: float32}
  y: {shape: [N, C], dtype: float32}
compute: y[i, c] = %s
"""


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("of_x", "of_h", "value"),
    [
        (", C", "", "sum(h[k] * x[2 * i + k, c], k)"),
        ("", ", C", "sum(h[k, c] * x[2 * i + k], k)"),
        (", C", ", C", "sum(h[k, c] * x[2 * i + k, c], k)"),
    ],
)
@pytest.mark.parametrize("count", [2, 3, 4])
def test_components_of_one_result_share_a_thread(prove, planned, of_x, of_h, value, count):
    text = COMPONENTS % (1003, count, of_x, of_h, value)
    assert planned(text).family == "correlation"
    prove(text)


@pytest.mark.parametrize(
    ("text", "family"),
    [
        (filtered("sum(h[k] * x[4 * i + k], k)", n=1_000_000), "correlation"),
        (filtered("sum(h[k] * x[i + k], k)", n=1_000_000, taps=1000), "correlation"),
        (filtered("sum(h[k] * x[i + k], k)", n=1_000_000, taps=50), "stencil"),
        (filtered("sum(h[k] * x[2 * i + k], k)", n=1_000_000, taps=20), "correlation"),
        (filtered("sum(h[k] * x[64 * i + k], k)", length="64 * N + T"), "reduce"),
        (IMAGE % (3000, 5, 5, "float32", "float32", "float32", "sum(x[i + u, j + v] * w[u, v], u, v)"), "stencil"),
        (IMAGE % (3000, 20, 20, "uint8", "uint8", "int32", "sum(x[i + u, j + v] * w[u, v], u, v)"), "correlation"),
    ],
)
def test_long_windows_are_taken_unasked(planned, text, family):
    assert planned(text.replace(FORCED, "")).family == family


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("argmax(x[i + k] - h[k], k) + 0.0", "takes no argmax or argmin"),
        (
            "sum(h[k] * x[k + 1] + x[i + 1], k)",
            "takes windows that slide along i and one index of a reduction; here it is none",
        ),
        ("sum(x[(i + k) % 7] * h[k], k)", "windows of x don't slide along i"),
        ("sum(max(x[i + k + j], j) * h[k], k)", "takes no nested reductions"),
    ],
)
def test_other_reductions_are_refused(reasons, value, reason):
    text = filtered(value).replace(FORCED, "indices: {j: 5}\n" if "j)" in value else "")
    assert reason in [refusal.reason for refusal in reasons("correlation", text)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("shape", "index"), [("N", "n"), ("1, N", "a, n"), ("N, 1", "n, a"), ("2, N, 1", "a, n, b")])
def test_indices_of_extent_one_change_nothing(planned, prove, shape, index):
    text = """
params: {N: %d}
arrays:
  x: {shape: [%s], dtype: float32, boundary: zero}
  h: {shape: [65], dtype: float32}
  y: {shape: [%s], dtype: float32}
compute: y[%s] = sum(x[%s] * h[r], r)
"""
    read = index.replace("n", "n + r - 32")
    assert planned(text % (4_000_000, shape, shape, index, read)).family == "correlation"
    prove(text % (1237, shape, shape, index, read))


@pytest.mark.parametrize(
    ("array", "memory", "family"),
    [
        ("x", "shared", "correlation"),
        ("x", "{space: shared, pad: 1}", "correlation"),
        ("x", "{space: shared, swizzle: xor}", "correlation"),
        ("x", "register", "correlation"),
        ("h", "shared", "correlation"),
        ("h", "{space: shared, pad: 1}", "correlation"),
        ("h", "register", "stencil"),
        ("x", "{space: shared, dynamic: true}", "staged"),
    ],
)
def test_windows_slide_along_tiles_where_the_spec_places_them(planned, prove, array, memory, family):
    text = filtered("sum(h[k] * x[i + k], k)", n=50_003, taps=60, length="N + T").replace(FORCED, "")
    shape = {"x": "[N + T]", "h": "[T]"}[array]
    text = text.replace(f"{array}: {{shape: {shape}", f"{array}: {{shape: {shape}, memory: {memory}")
    assert planned(text).family == family
    prove(text)


def test_rows_have_the_pad_of_the_spec_in_place_of_their_own(made):
    text = filtered("sum(h[k] * x[4 * i + k], k)", n=50_003, taps=32, length="4 * N + T")
    padded = [text.replace("x: {", f"x: {{memory: {{space: shared, pad: {pad}}}, ") for pad in (1, 5)]
    extents = [re.findall(r"float x_tile((?:\[\d+\])+)", made(each).source)[0] for each in (text, *padded)]
    of_itself, *of_the_spec = [[int(extent) for extent in re.findall(r"\d+", each)] for each in extents]
    assert len(of_itself) == 2
    assert [len(sizes) for sizes in of_the_spec] == [1, 1]
    assert of_the_spec[1][0] - of_the_spec[0][0] == 4


@pytest.mark.parametrize("boundary", ["", "clamp", "zero"])
def test_tiles_are_filled_by_vectors_whatever_the_length(made, boundary):
    offset = " - 19" if boundary else ""
    text = filtered(f"sum(h[k] * x[2 * i + k{offset}], k)", n=100_001, length="2 * N + T + 3", boundary=boundary)
    assert "load<4>(&x[" in made(text).source


@pytest.mark.parametrize("lags", [2, 40])
def test_blocks_have_whole_warps_that_the_device_allows(planned, lags):
    for rank in (1, 2):
        text = LAGS % (2048, lags, "", "sum(x[b, t] * x[b, t + l], t, where=t + l < N)") + FORCED
        text = text if rank == 2 else text.replace("B, ", "").replace("b, ", "").replace("params: {B: 3, ", "params: {")
        x, y, z = planned(text).block
        assert z <= 64
        assert x * y * z % 32 == 0


def test_few_results_have_parts_of_the_terms(made):
    text = LAGS % (400_000, 64, "", "sum(x[b, t] * x[b, t + l], t, where=t + l < N)")
    kernels = made(text).plan.kernels
    assert [kernel.family for kernel in kernels] == ["correlation", "reduce"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "text",
    [
        filtered("sum(h[k] * x[2 * i + k], k)", n=1001, taps=100),
        LAGS % (5001, 100, "", "sum(x[b, t] * x[b, t + l], t, where=t + l < N)") + FORCED,
        SIGNALS % (1001, 3) + FORCED,
    ],
)
def test_compilers_warn_of_nothing(compiled, text):
    compiled(text)


@pytest.mark.parametrize("stride", [1, 2, 4, 6])
def test_the_loads_of_a_window_have_no_bank_conflicts(stride):
    text = filtered(f"sum(h[k] * x[{stride} * i + k], k)", n=100_000, length=f"{stride} * N + T")
    (report,) = generate(load(f"cugen: 1\nkernel: k\n{text}")).reports
    loads = [r for r in report.accesses if r.access.array.space == "shared" and r.access.is_load]
    assert loads
    assert all(r.ratio == 1 for r in loads)


def test_a_guard_of_all_values_is_that_of_the_nearest_to_a_limit():
    i, u, n = symbol("i"), symbol("u"), symbol("n")
    below, above = Comparison(i + u, "<", n), Comparison(2 * i - u, ">=", integer(3))
    guard = guard_of_all(Guard((below, above)), {u: 8})
    assert guard == Guard((Comparison(i + 7, "<", n), Comparison(2 * i - 7, ">=", integer(3))))
    assert guard_of_all(Guard((Comparison(i + u, "==", n),)), {u: 8}) is None
    assert guard_of_all(Guard((Comparison(i * u * u, "<", n),)), {u: 8}) is None


def test_the_family_comes_before_stencils():
    ranks = {family.name: family.rank for family in families()}
    assert ranks["gemm"] > ranks["correlation"] > ranks["stencil"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        filtered("sum(h[k] * x[2 * i + k], k)", n=301, taps=70),
        LAGS % (1500, 40, "", "sum(x[b, t] * x[b, t + l], t, where=t + l < N)") + FORCED,
        SIGNALS % (150, 3) + FORCED,
    ],
)
def test_accesses_are_as_predicted_without_races(prove, text):
    kernel = generate(load(f"cugen: 1\nkernel: k\n{text}"))
    lines = kernel.access_lines()
    assert check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, lines, {}).mismatches == []
    prove(text, races=True)


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("sum(cast(x[i + k], int32) * h[k], k)", "int32"),
        ("max(x[i + k] * h[k], k)", "int16"),
        ("sum(cast(-x[i + k] // (h[k] | 1), int32), k)", "int32"),
    ],
)
def test_narrow_integers_are_converted_once_for_all_terms(made, prove, value, result):
    text = filtered(value, dtype="int16", result=result)
    assert re.search(r"\bint x_window\[", made(text).source)
    prove(text)
