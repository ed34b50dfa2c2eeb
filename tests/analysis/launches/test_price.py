"""The price of a plan: its modelled time, its traffic and their bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cugen.analysis.launches.price import Price, plan_prices, total
from cugen.analysis.totals.budget import Unknown
from cugen.machine import device
from cugen.machine.latency import EMPTY_LAUNCH_SECONDS
from cugen.schedule.planner import make_plan
from cugen.spec.load import load_text

N = 1 << 24
COPY = f"""
cugen: 1
kernel: copy
params: {{N: {N}}}
arrays:
  x: {{shape: [N], dtype: float32}}
  y: {{shape: [N], dtype: float32}}
compute: y[i] = x[i]
"""
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
GATHER = """
cugen: 1
kernel: gather
params: {N: 1000}
arrays:
  ids: {shape: [N], dtype: int32, boundary: clamp}
  x: {shape: [N], dtype: float32, boundary: zero}
  y: {shape: [N], dtype: float32}
compute: y[i] = x[ids[i]]
"""


def prices(text: str, **params: int) -> tuple[Price, ...]:
    (spec,) = load_text(text)
    return plan_prices(make_plan(spec), params)


def test_a_copy_takes_its_bytes_at_the_bandwidth_of_device_memory():
    (price,) = prices(COPY)
    assert price.seconds == pytest.approx(8 * N / device("H200").bandwidth)
    assert price.bound_seconds == pytest.approx(price.seconds)
    assert (price.moved, price.compulsory) == (8 * N, 8 * N)
    assert (price.limiter, price.bound_limiter) == ("memory", "memory")
    assert not price.exceeds(price.bound, 1.0001)


@pytest.mark.slow
def test_a_gemm_is_bound_by_its_arithmetic():
    (price,) = prices(GEMM)
    assert price.bound_limiter == "arithmetic"
    assert price.bound_seconds == pytest.approx(2 * 1024**3 / device("H200").peak(), rel=0.01)
    assert price.compulsory == 3 * 4 * 1024**2


@pytest.mark.slow
def test_a_gemm_on_tensor_cores_is_bound_by_their_peak():
    (on_tensor_cores,) = prices(GEMM.replace("N: 1024", "N: 4096").replace("float32", "bfloat16"))
    (on_cuda_cores,) = prices(GEMM.replace("N: 1024", "N: 4096"))
    assert on_tensor_cores.bound_seconds == pytest.approx(2 * 4096**3 / dict(device("H200").peaks)["tensor_bfloat16"])
    assert on_tensor_cores.seconds < on_cuda_cores.seconds / 4


def test_one_thread_per_element_costs_more_than_tiles_in_time_and_traffic():
    (tiled,), (direct,) = prices(GEMM), prices(GEMM + "schedule: {family: direct}\n")
    assert direct.seconds > 5 * tiled.seconds
    assert direct.moved > 20 * tiled.moved
    assert direct.exceeds(tiled, 1.2)
    assert not tiled.exceeds(direct, 1.2)


def test_blocks_on_few_multiprocessors_leave_the_others_idle():
    dots = """
cugen: 1
kernel: dots
params: {N: 1024, K: 8192}
arrays:
  A: {shape: [N, K], dtype: float32}
  b: {shape: [K], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = sum(A[i, k] * b[k], k)
schedule: {family: direct, block: {i: 32}}
"""
    (spread,), (packed,) = prices(dots), prices(dots.replace("i: 32", "i: 1024"))
    assert packed.moved == spread.moved
    assert packed.seconds == pytest.approx(32 * spread.seconds)


def test_a_launch_takes_no_less_than_an_empty_kernel():
    (price,) = prices(COPY.replace(str(N), "100"))
    assert (price.seconds, price.limiter) == (EMPTY_LAUNCH_SECONDS, "launch")
    assert not price.exceeds(price.bound, 1.2)


def test_the_price_of_a_plan_is_the_sum_over_its_launches():
    (copy,) = prices(COPY)
    both = total((copy, replace(copy, seconds=5.0, limiter="L2")))
    assert (both.seconds, both.limiter) == (copy.seconds + 5.0, "L2")
    assert (both.moved, both.compulsory) == (2 * copy.moved, 2 * copy.compulsory)


def test_less_traffic_is_no_better_plan_where_it_takes_longer():
    (price,) = prices(COPY)
    assert price.exceeds(replace(price, moved=price.moved // 2), 1.2)
    assert not price.exceeds(replace(price, moved=price.moved // 2, seconds=2 * price.seconds), 1.2)


def test_a_time_that_is_a_lower_bound_proves_nothing_of_a_better_plan():
    (price,) = prices(COPY)
    partial = replace(price, seconds=price.seconds / 10, is_complete=False)
    assert not price.exceeds(partial, 1.2)
    assert price.exceeds(replace(partial, is_complete=True), 1.2)
    assert price.exceeds(replace(partial, moved=price.moved // 2), 1.2)


def test_the_time_of_a_plan_with_a_spin_wait_is_a_lower_bound():
    scan = COPY.replace("y[i] = x[i]", "y[i] = cumsum(x[i], i)") + "schedule: {algorithm: look_back}\n"
    (price,) = prices(scan)
    assert not price.is_complete
    assert price.seconds >= price.bound_seconds


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (COPY.replace(str(N), "dynamic"), "N has no value"),
        (GATHER, "an address depends on data"),
    ],
)
def test_what_the_analysis_does_not_know_has_no_price(text: str, reason: str):
    with pytest.raises(Unknown, match=reason):
        prices(text)


def test_a_dynamic_size_is_priced_at_a_value():
    assert prices(COPY.replace(str(N), "dynamic"), N=N) == prices(COPY)


def test_a_target_without_a_device_has_no_price():
    with pytest.raises(Unknown, match="the table has no device of sm_103"):
        prices(COPY + "target: sm_103\n")


BLOCKS = """
cugen: 1
kernel: blocks
params: {N: 3000017}
arrays:
  x: {shape: [N, 4], dtype: float32}
  y: {shape: [N, 4], dtype: float32}
compute: y[i, j] = x[i, j]
schedule: {family: direct, block: {j: 4, i: 1}}
"""


def test_a_launch_takes_the_time_in_which_its_blocks_start():
    (small,), (large,) = prices(BLOCKS), prices(BLOCKS.replace("i: 1}", "i: 128}"))
    assert small.limiter == "the start of blocks"
    assert small.seconds == pytest.approx(1808e-6, rel=0.02)  # as a gather in such blocks took on an H200
    assert large.limiter == "memory"


POWERS = """
cugen: 1
kernel: powers
params: {N: 16384}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = sum((x[i] * x[i] + x[j] * x[j]) ** %s, j)
schedule: {family: direct}
"""


def test_a_function_is_as_many_instructions_as_it_takes():
    (function,), (product,) = prices(POWERS % "2.7"), prices(POWERS % "2")
    assert (function.limiter, product.limiter) == ("instructions", "instructions")
    assert function.seconds > 5 * product.seconds


def test_a_function_in_float64_takes_longer_and_by_units_that_are_fewer():
    text = POWERS % "2.7"
    (single,), (double,) = prices(text), prices(text.replace("float32", "float64"))
    assert (single.limiter, double.limiter) == ("instructions", "instructions")
    assert 2.5 * single.seconds < double.seconds < 6 * single.seconds


def test_what_threads_load_in_an_epilogue_waits_apart_from_the_copies_of_operands():
    """A bias is a thousandth of the bytes, and its loads are all that threads have in flight."""
    text = """
cugen: 1
kernel: layer
target: sm_90a
params: {M: 32, N: 8192, K: 8192}
arrays:
  x: {shape: [M, K], dtype: float16}
  w: {shape: [N, K], dtype: float16}
  b: {shape: [N], dtype: float32}
  y: {shape: [M, N], dtype: float16}
compute: y[m, n] = sum(x[m, k] * w[n, k], k) + b[n]
"""
    (with_bias,), (alone,) = prices(text), prices(text.replace(" + b[n]", "").replace("  b: {shape: [N]", "  #"))
    assert with_bias.limiter == "memory"
    assert with_bias.seconds == pytest.approx(alone.seconds, rel=0.05)


PAIRS = """
cugen: 1
kernel: pairs
params: {N: 20000}
arrays:
  x: {shape: [N], dtype: %s}
  y: {shape: [N], dtype: %s}
compute: y[i] = sum(%s, j)
schedule: {family: direct}
"""


def test_comparisons_take_two_slots_of_a_multiply_add():
    (compared,) = prices(PAIRS % ("float32", "int32", "x[i] < x[j]"))
    (counted,) = prices(PAIRS % ("float32", "int32", "x[i] < x[j] or (x[i] == x[j] and j < i)"))
    assert compared.limiter == counted.limiter == "instructions"
    assert counted.seconds > 1.4 * compared.seconds


def test_functions_of_float64_take_its_rate():
    text = PAIRS.replace("sum(", "max(")
    (wide,) = prices(text % ("float64", "float64", "sqrt(x[i] * x[j])"))
    (narrow,) = prices(text % ("float32", "float32", "sqrt(x[i] * x[j])"))
    assert wide.seconds > 1.8 * narrow.seconds


def test_powers_of_integers_are_loops():
    (power,) = prices(PAIRS % ("int64", "int64", "x[i] ** (x[j] & 7)"))
    (product,) = prices(PAIRS % ("int64", "int64", "x[i] * (x[j] & 7)"))
    assert power.seconds > 20 * product.seconds
