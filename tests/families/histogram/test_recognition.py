"""Which statements are histograms, in whatever way they are spelt, and which are not."""

from __future__ import annotations

import pytest

COUNTS = """
params: {N: 1000, G: 64}
arrays:
  k: {shape: [N], dtype: %s}
  k2: {shape: [N], dtype: int32}
  v: {shape: [N], dtype: int32}
  f: {shape: [N], dtype: float32}
  x: {shape: [N], dtype: float32}
  h: {shape: [G], dtype: %s}
compute: h[g] = %s
schedule: {family: histogram}
"""


def counts(value: str, key: str = "int32", result: str = "int32") -> str:
    unused = [name for name in ("k", "k2", "v", "f", "x") if f"{name}[" not in value]
    lines = (COUNTS % (key, result, value)).splitlines()
    return "\n".join(line for line in lines if not line.startswith(tuple(f"  {name}:" for name in unused)))


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    "value",
    [
        "sum(k[i] == g, i)",
        "sum(g == k[i], i)",
        "sum(1, i, where=k[i] == g)",
        "sum(1 if k[i] == g else 0, i)",
        "sum(where(k[i] == g, 1, 0), i)",
        "sum(cast(k[i] == g, int32), i)",
        "sum(k[i] % 7 == g and k[i] > 3, i)",
        "sum(k[i] == g, i, where=f[i] > 0)",
        "sum(v[i], i, where=k[i] == g)",
        "sum(v[i] if k[i] == g else 0, i)",
        "sum(v[i] * (k[i] == g), i)",
        "sum((k[i] == g) * v[i], i)",
        "sum(cast(v[i], int8) * (k[i] == g), i)",
        "sum(where(k[i] == g, cast(cast(100 * v[i] + k2[i], int8), int32), 0), i)",
        "sum(where(k[i] == g, cast(cast(100 * v[i], int8) + cast(100 * k2[i], int8), int16), 0), i)",
        "sum(k[i] == g or k2[i] == g, i)",
        "sum(cast(k[i] == g, int32) + cast(k2[i] == g, int32), i)",
        "sum(k[i] == g and k2[i] == g, i)",
        "sum(cast(floor(f[i] * 8), int32) == g, i)",
        "sum(floor(f[i] * 8) == g, i)",
        "sum(f[i] * 8 == g or g == floor(x[i]), i)",
        "sum(g == cast(floor(x[i]), float64), i)",
        "cast(sum(k[i] == g, i), int32) * 3 + g",
    ],
)
def test_counts_and_integer_sums_by_key_are_taken_and_right(prove, planned, value):
    assert planned(counts(value)).family == "histogram"
    prove(counts(value))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("max(v[i], i, where=k[i] == g)", "takes sums of integers, whose order changes nothing"),
        ("sum(k[i] < g, i)", "counts by keys; here no output index is only compared with one"),
        ("sum(v[i], i, where=k[i] == g and i > g)", "counts by keys; here no output index is only compared with one"),
        ("sum(g * (k[i] == g), i)", "counts by keys; here no output index is only compared with one"),
        ("sum(i == 3 and k[4] == g, i, where=v[i] > 0)", "counts by keys; here no key depends on the index of the sum"),
        ("sum(k[i] == g, i) + max(v[i], i)", "takes sums of integers, whose order changes nothing"),
        (
            "sum(k[i] == g, i, where=v[i] > sum(v[j], j))",
            "takes reductions over the same indices, none of which depends on another",
        ),
    ],
)
def test_other_reductions_are_refused_with_a_reason(reasons, value, reason):
    assert reason in [refusal.reason for refusal in reasons("histogram", counts(value))]


def test_a_sum_of_floats_by_key_is_refused_since_its_order_would_vary(reasons):
    refused = reasons("histogram", counts("sum(f[i], i, where=k[i] == g)", result="float32"))
    assert "takes sums of integers, whose order changes nothing" in [refusal.reason for refusal in refused]


def test_a_number_of_bins_that_is_known_at_launch_has_counters_for_the_most(reasons, planned):
    text = counts("sum(k[i] == g, i)").replace("G: 64", "G: {range: [0, 300], default: 20}")
    assert planned(text).reasons == ("a block counts a row of elements into up to 300 bins, each of 4 counters",)
    (refusal,) = reasons("histogram", text.replace("300", "12289"))
    assert refusal.reason == "the counters take 49156 bytes of shared memory, 49152 are allowed"


def test_bins_of_several_keys_are_of_a_fixed_number(reasons):
    text = counts("sum(k[i] == g and k2[i] == b, i)").replace("h: {shape: [G]", "h: {shape: [G, 9]")
    text = text.replace("h[g] =", "h[g, b] =").replace("G: 64", "G: dynamic")
    (refusal,) = reasons("histogram", text)
    assert refusal.reason == "has bins of several keys for a fixed number of them"


def test_long_histograms_of_a_number_of_bins_known_at_launch_are_counted_by_atomics(made):
    text = counts("sum(k[i] == g, i)").replace("schedule: {family: histogram}", "").replace("N: 1000", "N: 10000000")
    text = text.replace("G: 64", "G: {range: [1, 4096], default: 256}")
    assert [kernel.family for kernel in made(text).plan.kernels] == ["histogram", "reduce"]


def test_more_bins_than_shared_memory_holds_are_refused(reasons):
    text = counts("sum(k[i] == g, i)").replace("G: 64", "G: 20_000")
    (refusal,) = reasons("histogram", text)
    assert refusal.reason == "the counters take 80000 bytes of shared memory, 49152 are allowed"


def test_keys_that_are_compared_as_unsigned_64_bits_are_refused(reasons):
    refused = reasons("histogram", counts("sum(k[i] == cast(g, uint64), i)", key="uint64"))
    reason = "takes integers of up to 64 bits with a sign as keys, not uint64"
    assert [refusal.reason for refusal in refused] == [reason]


def test_a_single_bin_is_counted_without_counters(made):
    text = counts("sum(k[i] == g, i)").replace("G: 64", "G: 1").replace("schedule: {family: histogram}", "")
    assert "histogram" not in [kernel.family for kernel in made(text).plan.kernels]


def test_few_bins_are_compared_unless_the_family_is_asked_for(made):
    text = counts("sum(k[i] == g, i)").replace("N: 1000", "N: 10_000_000").replace("G: 64", "G: 2")
    assert "histogram" in [kernel.family for kernel in made(text).plan.kernels]
    unasked = text.replace("schedule: {family: histogram}", "")
    assert "histogram" not in [kernel.family for kernel in made(unasked).plan.kernels]


@pytest.mark.parametrize("bins", [16, 256, 4096])
def test_long_histograms_are_counted_by_atomics(made, bins):
    text = counts("sum(k[i] == g, i)").replace("N: 1000", "N: 10_000_000").replace("G: 64", f"G: {bins}")
    kernels = made(text.replace("schedule: {family: histogram}", "")).plan.kernels
    assert [kernel.family for kernel in kernels] == ["histogram", "reduce"]


SEVERAL = """
params: {N: %s, G: %s}
arrays:
  k: {shape: [N], dtype: int32}
  v: {shape: [N], dtype: %s}
  h: {shape: [G], dtype: int32}
  s: {shape: [G], dtype: %s}
compute: |
  h[g] = sum(k[i] == g, i)
  s[g] = sum(v[i], i, where=k[i] == g)
"""


def test_counts_and_sums_by_one_key_share_a_launch(made):
    kernels = made(SEVERAL % (10_000_000, 256, "int32", "int32")).plan.kernels
    assert [kernel.family for kernel in kernels] == ["histogram", "reduce"]


@pytest.mark.covering
@pytest.mark.parametrize("size", [10_000, 1_000_000, 10_000_000])
@pytest.mark.parametrize("bins", [16, 256])
def test_counts_beside_sums_of_floats_fill_the_device(made, size, bins):
    for kernel in made(SEVERAL % (size, bins, "float32", "float32")).plan.kernels:
        assert kernel.family != "histogram" or size == 10_000 or kernel.grid[0] > 100


def test_cases_beyond_those_that_are_taken_are_not_enumerated(reasons):
    """Each condition of several keys doubles them."""
    value = f"sum({' and '.join('(k[i] == g or k2[i] == g)' for _ in range(40))}, i)"
    assert "adds up to 4 values for each element" in reasons("histogram", counts(value))[0].reason
