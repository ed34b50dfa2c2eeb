"""Reductions by key against the reference: keys in and out of range, all types, every size round a batch."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from tests.drawn import examples

BATCH = 16

VECTOR = """
params: {N: %s, G: %d}
arrays:
  k: {shape: [N], dtype: %s}
  x: {shape: [N], dtype: %s}
  s: {shape: [G], dtype: %s}
compute: s[g] = %s
schedule: {family: grouped%s}
"""


def vector(n=1000, g=16, key="uint8", x="float32", result="float32", value="", schedule=""):
    text = VECTOR % (n, g, key, x, result, value or "sum(x[i], i, where=k[i] == g)", schedule)
    return text if "k[" in (value or "k[") else text.replace(f"  k: {{shape: [N], dtype: {key}}}\n", "")


COLUMNS = """
params: {N: %d, G: %d, E: %d}
arrays:
  k: {shape: [N], dtype: int32}
  x: {shape: [N, E], dtype: %s}
  w: {shape: [N], dtype: float32}
  s: {shape: [G, E], dtype: %s}
compute: s[g, e] = %s
schedule: {family: grouped%s}
"""


def columns(n=300, g=20, e=40, x="float32", result="float32", value="", schedule=""):
    text = COLUMNS % (n, g, e, x, result, value or "sum(x[n, e], n, where=k[n] == g)", schedule)
    return text if "w[" in value else text.replace("  w: {shape: [N], dtype: float32}\n", "")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("size", [1, 31, 32, 33, 32 * BATCH - 1, 32 * BATCH, 32 * BATCH + 1, 3 * 32 * BATCH + 5])
def test_any_number_of_elements_is_right(prove, size):
    prove(vector(size, schedule=", threads: 32"))


@pytest.mark.covering
@pytest.mark.parametrize("size", [0, 1, 997, 100_003])
@pytest.mark.parametrize("schedule", ["", ", split_k: 4", ", split_k: 1"])
def test_a_size_that_is_known_at_launch_is_right(prove, size, schedule):
    prove(vector("dynamic", schedule=schedule), {"N": size})


@pytest.mark.covering
@pytest.mark.parametrize("bins", [2, 31, 33, 257, 1000])
@pytest.mark.parametrize("schedule", ["", ", bins: 32", ", threads: 128, bins: 8"])
def test_any_number_of_bins_is_right_in_one_block_or_several(prove, bins, schedule):
    prove(vector(700, g=bins, key="int16", schedule=schedule))


@pytest.mark.covering
@pytest.mark.parametrize("bins", [0, 1, 33, 256, 1000])
@pytest.mark.parametrize("schedule", ["", ", split_k: 4", ", bins: 32"])
def test_any_number_of_bins_that_is_known_at_launch_is_right(prove, bins, schedule):
    fixed = vector("dynamic", key="int16", schedule=schedule)
    prove(fixed.replace("G: 16", "G: {range: [0, 100000], default: 100}"), {"N": 2003, "G": bins})


@pytest.mark.covering
@pytest.mark.parametrize("extent", [1, 37, 130])
def test_columns_of_a_number_of_bins_that_is_known_at_launch_are_right(prove, extent):
    text = columns(e=40).replace("G: 20", "G: {range: [0, 100000], default: 20}").replace("E: 40", "E: dynamic")
    prove(text, {"G": 47, "E": extent})


@pytest.mark.covering
@pytest.mark.parametrize("key", ["uint8", "int8", "uint16", "int16", "int32", "uint32", "int64"])
@pytest.mark.parametrize("schedule", ["", ", bins: 4"])
def test_keys_of_any_integer_type_outside_of_the_bins_are_left_out(prove, key, schedule):
    prove(vector(key=key, value="sum(x[i], i, where=k[i] - 3 == g)", schedule=schedule))


@pytest.mark.sampled(11)
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32", "int64", "uint32"])
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_values_of_any_type_are_right(prove, dtype, kind):
    prove(vector(x=dtype, result=dtype, value=f"{kind}(x[i], i, where=k[i] == g)"))


def test_bins_without_an_element_have_the_identity(prove):
    prove(vector(5, g=16, value="max(x[i], i, where=k[i] == g)"))
    prove(vector(5, g=16, value="prod(x[i], i, where=k[i] == g)"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("extent", [1, 3, 4, 31, 32, 33, 64, 100])
def test_any_number_of_columns_is_right(prove, extent):
    prove(columns(e=extent))


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("schedule", [", vector: 4", ", vector: 2, bins: 4", ", vector: 4, bins: 4, split_k: 2"])
def test_vectors_of_columns_are_right(prove, dtype, schedule):
    prove(columns(x=dtype, e=64, schedule=f"{schedule}, threads: 64"))


@pytest.mark.sampled(19)
@pytest.mark.parametrize("size", [1, 63, 64, 65, 200, 640])
@pytest.mark.parametrize("schedule", [", vector: 1, threads: 64, bins: 4", ", vector: 2, threads: 32, bins: 8"])
@pytest.mark.parametrize("key", ["int32", "int64", "uint8"])
def test_warps_that_test_chunks_of_keys_are_right(prove, made, size, schedule, key):
    text = columns(size, 150, 64, schedule=schedule).replace("[N], dtype: int32", f"[N], dtype: {key}")
    assert ("__shfl_xor_sync" in made(text).source) == (size >= 64)
    prove(text)


@pytest.mark.covering
@pytest.mark.parametrize("schedule", ["", ", vector: 1, bins: 4", ", vector: 4, bins: 4"])
def test_values_may_have_factors_and_use_indices(prove, schedule):
    prove(columns(value="sum(x[n, e] * w[n] + n - e, n, where=k[n] == g and w[n] > -0.5)", schedule=schedule))


def test_several_bins_rows_and_reductions_are_right(prove):
    prove("""
params: {R: 3, N: 501}
arrays:
  a: {shape: [N, R], dtype: uint8}
  b: {shape: [N], dtype: int8}
  x: {shape: [R, N], dtype: float32}
  s: {shape: [8, R, 5], dtype: float32}
  m: {shape: [8, R, 5], dtype: float32}
compute: |
  s[i, r, j] = sum(x[r, n], n, where=a[n, r] % 8 == i and b[n] == j)
  m[i, r, j] = min(x[r, n], n, where=a[n, r] % 8 == i and b[n] == j)
schedule: {family: grouped}
""")


def test_gathered_values_are_loaded_for_the_keys_of_a_bin(prove):
    prove("""
params: {N: 501, T: 90, G: 7}
arrays:
  k: {shape: [N], dtype: int32}
  t: {shape: [N], dtype: int32}
  x: {shape: [T], dtype: float32}
  s: {shape: [G], dtype: float32}
compute: s[g] = sum(x[t[n]], n, where=k[n] == g)
schedule: {family: grouped}
""")


@pytest.mark.parametrize("schedule", ["", ", bins: 2"])
def test_keys_that_are_computed_from_indices_alone_are_right(prove, schedule):
    prove(vector(700, g=5, value="sum(x[i], i, where=i % 7 == g)", schedule=f", threads: 32{schedule}"))


@pytest.mark.parametrize(
    "value",
    [
        "sum(x[i + 4] if i < N - 4 else x[i], i, where=k[i] == g)",
        "sum(x[i], i, where=i % 3 < 2 and k[i] == g)",
        "sum(x[i], i, where=i >= 100 and i < 690 and k[i - 100] == g)",
    ],
)
def test_reads_under_conditions_stay_inside(prove, value):
    prove(vector(700, value=value, schedule=", threads: 32"), sanitize=True)


def test_elements_of_several_indices_are_right(prove):
    prove("""
params: {A: 13, B: 70, C: 3, G: 9}
arrays:
  k: {shape: [A, B, C], dtype: int32}
  x: {shape: [C, A, B], dtype: float32}
  s: {shape: [G], dtype: float32}
compute: s[g] = sum(x[c, a, b], a, b, c, where=k[a, b, c] == g)
schedule: {family: grouped, bins: 4}
""")


@given(
    size=st.integers(1, 1500),
    bins=st.integers(2, 90),
    extent=st.sampled_from((0, 1, 5, 32, 36)),
    threads=st.sampled_from((32, 64, 128)),
    per_block=st.sampled_from((1, 2, 8, 32)),
    parts=st.sampled_from((1, 2, 4)),
    kind=st.sampled_from(("sum", "max", "min")),
    seed=st.integers(0, 99),
)
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_drawn_reductions_equal_the_reference(made, size, bins, extent, threads, per_block, parts, kind, seed):
    schedule = f", threads: {threads}, bins: {per_block}, split_k: {parts}"
    if extent:
        text = columns(size, bins, extent, value=f"{kind}(x[n, e], n, where=k[n] == g)", schedule=schedule)
    else:
        text = vector(size, bins, "int32", value=f"{kind}(x[i], i, where=k[i] == g)", schedule=schedule)
    kernel = made(text)
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(), seed=seed)
    assert run.verification.passed, run.verification.messages
