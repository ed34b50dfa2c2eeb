"""Histograms against the reference: keys in and out of range, all types, every size round a block."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.toolchain.cuda import compile_cubin
from tests.drawn import examples

BLOCK = 512 * 16  # bytes that a block of keys of one byte takes at once

ROWS = """
params: {R: %d, L: %d, G: %d}
arrays:
  k: {shape: [R, L], dtype: %s}
  h: {shape: [R, G], dtype: %s}
compute: h[r, g] = %s
schedule: {family: histogram%s}
"""


def rows(r=3, n=100, g=16, key="uint8", result="int32", value="sum(k[r, i] == g, i)", schedule=""):
    return ROWS % (r, n, g, key, result, value, schedule)


VECTOR = """
params: {N: %s, G: %d}
arrays:
  k: {shape: [N], dtype: %s}
  h: {shape: [G], dtype: %s}
compute: h[g] = %s
schedule: {family: histogram%s}
"""


def vector(n=1000, g=16, key="uint8", result="int32", value="sum(k[i] == g, i)", schedule=""):
    return VECTOR % (n, g, key, result, value, schedule)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_vectors_of_any_size_are_right(prove, size):
    prove(vector(size))


@pytest.mark.covering
@pytest.mark.parametrize("size", [0, 1, 997, 100_003])
@pytest.mark.parametrize("schedule", ["", ", split_k: 4", ", split_k: 1"])
def test_a_size_that_is_known_at_launch_is_right(prove, size, schedule):
    prove(vector("dynamic", schedule=schedule), {"N": size})


@pytest.mark.covering
@pytest.mark.parametrize("bins", [2, 31, 32, 33, 256, 257, 5000])
@pytest.mark.parametrize("replicas", [1, 2])
def test_any_number_of_bins_is_right(prove, bins, replicas):
    prove(vector(g=bins, schedule=f", replicas: {replicas}"))


@pytest.mark.covering
@pytest.mark.parametrize("bins", [0, 1, 33, 256, 1000])
@pytest.mark.parametrize("schedule", ["", ", split_k: 4", ", replicas: 2"])
def test_any_number_of_bins_that_is_known_at_launch_is_right(prove, bins, schedule):
    fixed = vector("dynamic", key="int16", schedule=schedule)
    prove(fixed.replace("G: 16", "G: {range: [0, 1000], default: 100}"), {"N": 2003, "G": bins})


@pytest.mark.covering
@pytest.mark.parametrize("key", ["uint8", "int8", "uint16", "int16", "int32", "uint32", "int64"])
@pytest.mark.parametrize("shift", ["- 3", "+ 100"])
def test_keys_of_any_integer_type_count_nowhere_outside_of_the_bins(prove, key, shift):
    prove(vector(key=key, value=f"sum(k[i] {shift} == g, i)"))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("result", ["uint8", "int8", "uint16", "int32", "uint32", "int64", "uint64", "float32"])
def test_results_of_any_type_are_right(prove, result):
    prove(vector(3000, 2, result=result, value=f"cast(sum(k[i] % 2 == g, i), {result})"))


def test_sums_wrap_as_their_type_does(prove):
    prove(vector(result="int32", key="int32", value="sum(k[i] * 1_000_003, i, where=abs(k[i]) % 16 == g)"))


def test_sums_in_64_bits_hold_what_32_bits_would_not(prove, made):
    value = "sum(cast(k[i], int64) * k[i] * 1_000_007, i, where=k[i] % 16 == g)"
    assert "unsigned long long bins" in made(vector(key="int32", result="int64", value=value)).source
    prove(vector(key="int32", result="int64", value=value))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(1, 1), (1, 1000), (7, 3), (33, 150), (1000, 5), (5, 4096)])
def test_rows_of_any_length_are_right(prove, shape):
    prove(rows(*shape))


def test_rows_that_begin_anywhere_are_read_inside_of_them(prove):
    prove(rows(5, 150, value="sum(k[r, i + 2] == g, i)").replace("compute:", "indices: {i: L - 2}\ncompute:"))


def test_joint_histograms_are_right(prove):
    text = """
params: {N: 5003}
arrays:
  a: {shape: [N], dtype: uint8}
  b: {shape: [N], dtype: int8}
  h: {shape: [8, 5, 3], dtype: int32}
compute: h[i, j, m] = sum(a[n] // 32 == i and b[n] // 32 == j and n % 4 == m, n)
schedule: {family: histogram}
"""
    prove(text)


def test_bins_and_rows_may_be_in_any_order(prove):
    text = """
params: {R: 6, N: 1001}
arrays:
  a: {shape: [N, R], dtype: uint8}
  b: {shape: [R], dtype: uint8}
  h: {shape: [8, R, 4], dtype: int32}
compute: h[i, r, j] = sum(a[n, r] % 8 == i and (a[n, r] + b[r]) % 4 == j, n)
schedule: {family: histogram}
"""
    prove(text)


def test_images_are_counted_over_several_indices(prove):
    text = """
params: {H: 37, W: 53}
arrays:
  x: {shape: [H, W], dtype: uint8, pitch: 64}
  h: {shape: [256], dtype: int32}
compute: h[k] = sum(x[i, j] == k, i, j, where=i + j >= 9)
schedule: {family: histogram}
"""
    prove(text)


def test_truth_values_are_counted(prove):
    prove(vector(g=2, key="bool"))


def over_n(text):
    return text.replace("compute:", "indices: {i: N}\ncompute:")


def test_reads_beyond_a_boundary_are_counted(prove):
    text = over_n(vector(value="sum(k[i - 1] == g, i)"))
    prove(text.replace("dtype: uint8}", "dtype: uint8, boundary: wrap}"))


def test_conditions_on_indices_keep_reads_inside(prove):
    prove(over_n(vector(value="sum(k[i - 2] == g, i, where=i >= 2)")), sanitize=True)
    prove(vector(value="sum(k[i] == g, i, where=i % 3 == 0 and i < 777)"))


def test_keys_that_are_gathered_are_right(prove):
    text = """
params: {N: 2003, M: 300}
arrays:
  ids: {shape: [N], dtype: int32}
  k: {shape: [M], dtype: uint8}
  h: {shape: [256], dtype: int32}
compute: h[b] = sum(k[ids[i]] == b, i)
schedule: {family: histogram}
"""
    prove(text)


@pytest.mark.parametrize("size", [1, 1001, 30_011])
def test_several_sums_by_key_are_right(prove, size):
    text = f"""
params: {{N: {size}, G: 50}}
arrays:
  k: {{shape: [N], dtype: uint8}}
  v: {{shape: [N], dtype: int32}}
  n: {{shape: [G], dtype: int32}}
  s: {{shape: [G], dtype: int64}}
  mean: {{shape: [G], dtype: float32}}
compute: |
  n[g] = sum(k[i] == g, i)
  s[g] = sum(cast(v[j], int64), j, where=k[j] == g)
  mean[g] = cast(s[g], float32) / cast(maximum(n[g], 1), float32)
schedule:
  n: {{family: histogram}}
  s: {{family: histogram}}
"""
    prove(text)


def test_counts_are_added_to_an_array(prove):
    prove(vector().replace("h[g] =", "h[g] +="))


@pytest.mark.parametrize(
    "text",
    [vector(3 * BLOCK + 5, 256), rows(33, 150, 64), vector(20_011, schedule=", split_k: 4")],
    ids=["vector", "rows", "parts"],
)
def test_no_thread_races_and_no_access_is_outside(prove, text):
    prove(text, sanitize=True)
    prove(text, races=True)


@pytest.mark.parametrize(
    "text", [vector(20_011, 256, schedule=", split_k: 4"), rows(33, 150, 64, result="int64")], ids=["parts", "rows"]
)
def test_kernels_compile_without_a_warning(compiled, text):
    source = compiled(text).source
    for target in ("sm_80", "sm_100"):
        assert compile_cubin(source, "k", target).warnings == ()


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    r=st.integers(1, 40),
    n=st.integers(1, 300),
    g=st.integers(2, 70),
    key=st.sampled_from(["uint8", "int8", "int32", "int64"]),
    divisor=st.integers(1, 9),
    shift=st.integers(-20, 20),
    replicas=st.sampled_from([1, 2, 8]),
    threads=st.sampled_from([32, 64]),
    per_block=st.sampled_from([1, 2, 4]),
    split_k=st.sampled_from([1, 2, 4]),
)
def test_drawn_histograms_are_right(prove, r, n, g, key, divisor, shift, replicas, threads, per_block, split_k):
    schedule = f", threads: {threads}, rows: {per_block}, replicas: {replicas}, split_k: {split_k}"
    prove(rows(r, n, g, key, value=f"sum(k[r, i] // {divisor} + {shift} == g, i)", schedule=schedule))


@pytest.mark.parametrize(
    ("before", "after"),
    [("atomicAdd(&bins[replica][k_2], 1U)", "bins[replica][k_2] += 1U"), ("__syncthreads();", ";")],
    ids=["an addition that isn't atomic", "a barrier too few"],
)
def test_threads_race_without(made, before, after):
    kernel = made(vector(5000, 256))
    assert before in kernel.source
    source = kernel.source.replace(before, after, 1)
    run = verify(kernel.spec, source, kernel.manifest, CpuDevice(races=True, workers=1, shuffle=7))
    assert {fault.kind for fault in run.outcome.faults} == {"race"}
