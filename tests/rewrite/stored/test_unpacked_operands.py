"""Numbers that share a byte or a word are stored one by one for GEMMs of few rows."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

SIZES = "N: 600, K: 1280, G: 128"
NIBBLE = "((w[n, k // 2] >> k % 2 * 4) & 15)"


def spec_of(weight: str, m: int = 3, w: str = "uint8", shape: str = "N, K // 2", first: str = "", z: str = "N, K // G"):
    (spec,) = load_text(f"""
cugen: 1
kernel: f
params: {{M: {m}, {SIZES}}}
arrays:
  x: {{shape: [M, K], dtype: float16}}
  w: {{shape: [{shape}], dtype: {w}}}
  s: {{shape: [N, K // G], dtype: float16}}
  z: {{shape: [{z}], dtype: int32}}
  y: {{shape: [M, N], dtype: float32}}
compute: |
  {first}
  y[m, n] = sum(x[m, k] * {weight} * s[n, k // G], k) + z[0, 0]
""")
    return spec


def launches(spec) -> list[str]:
    return [launch.family for launch in generate(spec, analysis=False).plan.kernels]


def passes(spec) -> bool:
    kernel = generate(spec, analysis=False)
    return verify(spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


WEIGHTS = {
    "less 8": {"weight": f"(cast({NIBBLE}, float32) - 8)"},
    "of words": {"weight": "((w[n, k // 8] >> 4 * (k % 8)) & 15)", "w": "int32", "shape": "N, K // 8"},
    "columns": {"weight": "((w[k // 2, n] >> k % 2 * 4) & 15)", "shape": "K // 2, N"},
    "bits": {"weight": "(2 * cast((w[n, k // 8] >> k % 8) & 1, float32) - 1)", "shape": "N, K // 8"},
    "in temporaries": {
        "first": f"c[n, k] = cast({NIBBLE}, int32)\n  d[n, k] = cast(c[n, k] - z[n, k // G], float32)",
        "weight": "d[n, k]",
    },
    "of packed zero points": {
        "first": f"p[n, k] = (z[n // 8, k // G] >> 4 * (n % 8)) & 15\n  c[n, k] = {NIBBLE} - p[n, k]",
        "weight": "c[n, k]",
        "z": "N // 8, K // G",
    },
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", WEIGHTS)
def test_a_gemm_of_few_rows_reads_unpacked_weights_once(name):
    spec = spec_of(**WEIGHTS[name])
    first, second = launches(spec)
    assert (first in ("map", "transpose"), second) == (True, "skinny")
    assert passes(spec)


def test_what_is_unpacked_is_stored_in_a_byte():
    arrays = generate(spec_of(**WEIGHTS["of packed zero points"]), analysis=False).context.spec.arrays
    assert {a.name: a.dtype.name for a in arrays if a.name.endswith("_unpacked")} == {"w_unpacked": "int8"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("m", [1, 17])
def test_single_rows_and_many_rows_are_computed_in_other_ways(m):
    arrays = generate(spec_of(**WEIGHTS["less 8"], m=m), analysis=False).context.spec.arrays
    assert not any(array.name.endswith("_unpacked") for array in arrays)


def test_a_value_under_a_condition_is_left_where_it_is():
    weight = f"(cast({NIBBLE}, float32) if n > 0 else 0)"
    assert not any(a.name.endswith("_unpacked") for a in generate(spec_of(weight), analysis=False).context.spec.arrays)


BYTES = {"weight": "w[n, k]", "w": "int8", "shape": "N, K"}
COLUMNS_OF_WORDS = {
    "first": "p[g, n] = (z[g, n // 8] >> 4 * (n % 8)) & 15",
    "weight": "cast(((w[k // 8, n] >> k % 8 * 4) & 15) - p[k // G, n] - 1, float32)",
    "w": "int32",
    "shape": "K // 8, N",
    "z": "K // G, N // 8",
}


@pytest.mark.parametrize("m", [8, 9, 16, 17])
@pytest.mark.parametrize("weights", [WEIGHTS["less 8"], BYTES, COLUMNS_OF_WORDS], ids=["packed", "bytes", "columns"])
def test_of_more_rows_than_multiply_adds_hide_weights_are_on_tensor_cores(monkeypatch, weights, m):
    monkeypatch.setattr(sys.modules[__name__], "SIZES", "N: 4096, K: 4096, G: 128")
    families = launches(replace(spec_of(**weights, m=m), target="sm_90a"))
    assert ("skinny" in families, families[-1] == "wgmma") == (m == 8, m > 8)


def test_zero_points_in_a_temporary_are_part_of_the_weights_that_are_stored_in_float16():
    (spec,) = load_text("""
cugen: 1
kernel: f
target: sm_90a
params: {M: 300, N: 2048, K: 2048, G: 128}
arrays:
  x: {shape: [M, K], dtype: float16}
  w: {shape: [K // 8, N], dtype: int32}
  z: {shape: [K // G, N // 8], dtype: int32}
  s: {shape: [K // G, N], dtype: float16}
  y: {shape: [M, N], dtype: float16}
compute: |
  p[g, n] = (z[g, n // 8] >> 4 * (n % 8)) & 15
  y[m, n] = sum(x[m, k] * cast(((w[k // 8, n] >> k % 8 * 4) & 15) - p[k // G, n] - 1, float32) * s[k // G, n], k)
""")
    assert launches(spec)[-1] == "wgmma"
