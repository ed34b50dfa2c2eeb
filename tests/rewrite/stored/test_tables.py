"""A costly function of few indices is computed once, in a table, where many outputs have its value."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

ROPE = """w[t, e] = t * exp(-log(10000.0) * e / E)
  y[t, h, e] = x[t, h, e] * cos(w[t, e]) - x[t, h, e + E] * sin(w[t, e])
  y[t, h, e + E] = x[t, h, e + E] * cos(w[t, e]) + x[t, h, e] * sin(w[t, e])"""
HALVES = """y[t, h, e] = x[t, h, e] * sin(exp(0.1 * e) * t * sin(0.5 * e))
  y[t, h, e + E] = x[t, h, e + E]
  z[t, h, d] = x[t, h, d] * sin(exp(0.1 * d) * t * sin(0.5 * d))"""
IN_ONE_STATEMENT = "y[t, h, d] = x[t, h, d] * cos(t * exp(f[d])) + sin(t * exp(f[d])) * x[t, h, 0]"
CHOSEN = "y[t, h, d] = x[t, h, d] + (sin(t * exp(f[d])) if d % 2 == 0 else cos(t * exp(f[d])))"
GUARDED = "y[t, h, d] = x[t, h, d] * sin(t * cos(f[d + 1])) if d < D - 1 else x[t, h, d]"
WRITTEN = "y[t, h, d] = x[t, h, d] * sin(v[t, d]) * cos(v[t, d])\n  v[t, d] = v[t, d] + 1"
OF_ALL_INDICES = "y[t, h, d] = x[t, h, d] * sin(t * cos(x[t, h, d]))"
CHEAP = "y[t, h, d] = x[t, h, d] * (f[d] * t + 1)"


ARRAYS = {
    "x": "{shape: [T, H, D], dtype: bfloat16}",
    "f": "{shape: [D], dtype: float32}",
    "v": "{shape: [T, D], dtype: float32}",
    "z": "{shape: [T, H, D], dtype: bfloat16}",
    "y": "{shape: [T, H, D], dtype: bfloat16}",
}


def spec_of(compute: str, t: int | str, h: int, d: int, w: str = ""):
    arrays = "".join(f"  {name}: {array}\n" for name, array in ARRAYS.items() if f"{name}[" in compute)
    half = ", E: D // 2" if compute in (ROPE, HALVES) else ""
    (spec,) = load_text(f"""cugen: 1
kernel: f
params: {{T: {t}, H: {h}, D: {d}{half}}}
arrays:
{arrays}{w}
{"indices: {e: E}" if half else ""}
compute: |
  {compute}
""")
    return spec


def launches_of(compute: str, t: int | str = 65536, h: int = 32, d: int = 128) -> list[str]:
    return [launch.name for launch in generate(spec_of(compute, t, h, d), analysis=False).plan.kernels]


@pytest.mark.parametrize("compute", [ROPE, IN_ONE_STATEMENT, CHOSEN])
@pytest.mark.parametrize("t", [65536, "dynamic"])
def test_it_is_stored_by_a_launch_of_its_own(compute, t):
    assert launches_of(compute, t) == ["f_y_table", "f_y"]


def test_statements_share_a_table():
    kernel = generate(spec_of(ROPE, 65536, 32, 128), analysis=False)
    assert kernel.source.count("cosf(") == kernel.source.count("sinf(") == 1


def test_statements_over_other_extents_have_tables_of_their_own():
    spec = spec_of(HALVES, "dynamic", 33, 14)
    kernel = generate(spec, analysis=False)
    assert "y_table" in kernel.source
    assert "z_table" in kernel.source
    device = CpuDevice(sanitize=True)
    assert verify(spec, kernel.source, kernel.manifest, device, params={"T": 5}).verification.passed


@pytest.mark.parametrize("compute", [GUARDED, OF_ALL_INDICES, CHEAP])
def test_others_are_computed_for_each_output(compute):
    assert launches_of(compute) == ["f"]


def test_values_that_a_statement_writes_are_no_table():
    assert not any("table" in name for name in launches_of(WRITTEN))


def test_a_table_that_few_outputs_read_is_none():
    assert launches_of(ROPE, h=2) == ["f"]


def test_a_table_takes_no_longer_than_its_launch():
    assert launches_of(ROPE, t=16) == ["f"]


def test_a_temporary_in_registers_stays_there():
    spec = spec_of(ROPE, 65536, 32, 128, "  w: {shape: [T, E], dtype: float32, memory: register}")
    assert [launch.name for launch in generate(spec, analysis=False).plan.kernels] == ["f"]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("compute", [ROPE, IN_ONE_STATEMENT, CHOSEN])
@pytest.mark.parametrize("t", [1, 5, 37])
def test_its_results_are_right(compute, t):
    spec = spec_of(compute, "dynamic", 33, 14)
    kernel = generate(spec, analysis=False)
    assert "y_table" in kernel.source
    device = CpuDevice(sanitize=True)
    assert verify(spec, kernel.source, kernel.manifest, device, params={"T": t}).verification.passed


WEIGHTS = "exp(-((r - 4) * (r - 4) + (s - 4) * (s - 4)) * width)"
BLUR = f"y[i, j] = sum({WEIGHTS} * x[i + r - 4, j + s - 4], r, s)"
WAVELETS = """q[c, s] = (cast(s, float32) - 4) / (c + 1)
  z[c, i, j] = sum((1 - q[c, s] ** 2) * exp(-q[c, s] ** 2 / 2) * x[i, j + s - 4], s)"""
# A term for each result, weights of elements, and an operand of the sum, which families of products store themselves.
OF_ALL_TERMS = "y[i, j] = sum(exp(-(x[i + r - 4, j + s - 4] - x[i, j]) ** 2) * x[i + r - 4, j + s - 4], r, s)"
OF_NO_RESULT = f"y[i, j] = x[i, j] / sum({WEIGHTS}, r, s)"
OF_ELEMENTS = "y[i, j] = sum(exp(w[r, s]) * x[i + r - 4, j + s - 4], r, s)"


def windows_of(compute: str, height: int | str, columns: int):
    (spec,) = load_text(f"""cugen: 1
kernel: f
params: {{H: {height}, W: {columns}}}
{"scalars: {width: {dtype: float32}}" if "width" in compute else ""}
arrays:
  x: {{shape: [H, W], dtype: float32, boundary: reflect}}
{"  w: {shape: [9, 9], dtype: float32}" if "w[" in compute else ""}
  {"z: {shape: [5, H, W], dtype: float32}" if "z[" in compute else "y: {shape: [H, W], dtype: float32}"}
indices: {{i: H, j: W, {"c: 5" if "z[" in compute else "r: 9"}, s: 9}}
compute: |
  {compute}
""")
    return spec


@pytest.mark.parametrize("compute", [BLUR, WAVELETS])
@pytest.mark.parametrize("height", [2048, "dynamic"])
def test_weights_of_a_reduction_are_computed_once(compute, height):
    kernel = generate(windows_of(compute, height, 2048), analysis=False)
    assert "_table" in kernel.plan.kernels[0].name
    assert kernel.source.count("expf(") == 1


@pytest.mark.parametrize("compute", [OF_ALL_TERMS, OF_NO_RESULT, OF_ELEMENTS])
def test_other_terms_are_no_tables(compute):
    kernel = generate(windows_of(compute, 2048, 2048), analysis=False)
    assert not any("table" in launch.name for launch in kernel.plan.kernels)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compute", [BLUR, WAVELETS])
@pytest.mark.parametrize("height", [1, 21])
def test_results_of_weights_in_tables_are_right(compute, height):
    spec = windows_of(compute, "dynamic", 2048)
    kernel = generate(spec, analysis=False)
    assert "_table" in kernel.source
    device = CpuDevice(sanitize=True)
    assert verify(spec, kernel.source, kernel.manifest, device, params={"H": height}).verification.passed


RANKS = """
cugen: 1
kernel: ranks
params: {{T: {rows}, E: {length}}}
arrays:
  x: {{shape: [T, E], dtype: bfloat16}}
  bias: {{shape: [E], dtype: float32}}
  rank: {{shape: [T, E], dtype: int32}}
compute: |
  s[t, e] = sigmoid(x[t, e]) + bias[e]
  rank[t, e] = sum(s[t, j] > s[t, e] or (s[t, j] == s[t, e] and j < e), j)
"""


def test_what_all_pairs_are_compared_by_is_computed_once() -> None:
    """In one table, though a row is read at two indices, as for the experts of a token."""
    (spec,) = load_text(RANKS.format(rows=16384, length=256))
    kernel = generate(spec, analysis=False)
    assert [array.name for array in kernel.plan.workspace] == ["rank_table"]
    assert len(kernel.plan.kernels) == 2


def test_pairs_are_compared_by_the_same_numbers() -> None:
    (spec,) = load_text(RANKS.format(rows=2000, length=131))
    kernel = generate(spec, analysis=False)
    assert [array.name for array in kernel.plan.workspace] == ["rank_table"]
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


HASHES = """
cugen: 1
kernel: hashes
params: {{N: {rows}, L: 37}}
arrays:
  s: {{shape: [N, L], dtype: uint8}}
  h: {{shape: [N], dtype: uint64}}
compute: h[n] = sum(cast(s[n, l] + 1, uint64) * 1099511628211 ** (L - l), l)
"""


def test_powers_of_integers_are_computed_once_for_all_rows() -> None:
    (spec,) = load_text(HASHES.format(rows=2000003))
    kernel = generate(spec, analysis=False)
    assert [launch.name for launch in kernel.plan.kernels] == ["hashes_h_table", "hashes_h"]


def test_powers_of_integers_from_a_table_wrap_around() -> None:
    (spec,) = load_text(HASHES.format(rows="dynamic"))
    kernel = generate(spec, analysis=False)
    assert "h_table" in kernel.source
    device = CpuDevice(sanitize=True)
    assert verify(spec, kernel.source, kernel.manifest, device, params={"N": 7}).verification.passed
