"""Which statements are reductions by key, in whatever way they are spelt, and which are left to other families."""

from __future__ import annotations

import pytest

BY_KEY = """
params: {N: 1000, G: 24}
arrays:
  k: {shape: [N], dtype: %s}
  k2: {shape: [N], dtype: int32}
  v: {shape: [N], dtype: int32}
  f: {shape: [N], dtype: float32}
  x: {shape: [N], dtype: %s}
  s: {shape: [G], dtype: %s}
compute: s[g] = %s
schedule: {family: grouped}
"""


def by_key(value: str, key: str = "int32", x: str = "float32", result: str = "float32") -> str:
    unused = [name for name in ("k", "k2", "v", "f", "x") if f"{name}[" not in value]
    lines = (BY_KEY % (key, x, result, value)).splitlines()
    return "\n".join(line for line in lines if not line.startswith(tuple(f"  {name}:" for name in unused)))


@pytest.mark.sampled(11)
@pytest.mark.parametrize(
    "value",
    [
        "sum(x[i], i, where=k[i] == g)",
        "sum(x[i], i, where=g == k[i])",
        "sum(x[i] if k[i] == g else 0, i)",
        "sum(where(k[i] == g, x[i], 0), i)",
        "sum(x[i] * f[i], i, where=k[i] == g and f[i] > 0)",
        "sum(x[i] * i, i, where=k[i] == g)",
        "sum(x[i], i, where=k[i] == g and i > 20 and i <= 990)",
        "sum(abs(x[i]), i, where=k[i] % 24 == g)",
        "sum(x[i], i, where=cast(floor(f[i] * 24), int32) == g)",
        "sum(x[i], i, where=k[i] == g or k2[i] == g)",
        "sum((x[i] if k[i] == g else 0) + (f[i] if k2[i] == g else 0), i)",
        "sum(cast(x[i], float64), i, where=k[i] == g)",
        "sum(k[i] == g, i) / 1000 + sum(x[i], i, where=k[i] == g)",
        "max(x[i], i, where=k[i] == g)",
        "max(x[i] if k[i] == g else -inf, i)",
        "min(x[i] if k[i] == g else inf, i)",
        "min(cast(v[i], int64), i, where=k[i] == g)",
        "prod(1 + 0.01 * x[i], i, where=k[i] == g)",
        "max(x[i], i, where=k[i] == g) - min(x[i], i, where=k[i] == g) + g",
    ],
)
def test_sums_products_and_extrema_by_key_are_taken_and_right(prove, planned, value):
    assert planned(by_key(value)).family == "grouped"
    prove(by_key(value))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("any(x[i] > 0 and k[i] == g, i)", "takes sums, products and extrema; this is any"),
        ("argmax(x[i], i, where=k[i] == g)", "takes sums, products and extrema; this is argmax"),
        ("sum(x[i], i, where=k[i] < g)", "counts by keys; here no output index is only compared with one"),
        ("sum(x[i] * (k[i] == g), i)", "counts by keys; here no output index is only compared with one"),
        ("sum(x[i], i, where=k[i] == g and i > g)", "counts by keys; here no output index is only compared with one"),
        ("sum(x[i], i, where=k[3] == g)", "counts by keys; here no key depends on the index of the sum"),
        ("max(cast(v[i], int8), i, where=k[i] == g)", "has accumulators of 32 and 64 bits, not of int8"),
    ],
)
def test_other_reductions_are_refused_with_a_reason(reasons, value, reason):
    assert reason in [refusal.reason for refusal in reasons("grouped", by_key(value))]


def test_a_number_of_bins_that_is_known_at_launch_is_taken(planned):
    text = by_key("sum(x[i], i, where=k[i] == g)").replace("G: 24", "G: {range: [0, 100000], default: 24}")
    assert planned(text).reasons == ("each thread has accumulators of its own for 24 bins",)


def test_bins_of_several_keys_are_of_a_fixed_number(reasons):
    text = by_key("sum(x[i], i, where=k[i] == g and k2[i] == b)").replace("s: {shape: [G]", "s: {shape: [G, 9]")
    text = text.replace("s[g] =", "s[g, b] =").replace("G: 24", "G: dynamic")
    (refusal,) = reasons("grouped", text)
    assert refusal.reason == "has bins of several keys for a fixed number of them"


def unasked(size: int, bins: int, value: str = "sum(x[i], i, where=k[i] == g)") -> str:
    text = by_key(value).replace("schedule: {family: grouped}", "")
    return text.replace("N: 1000", f"N: {size}").replace("G: 24", f"G: {bins}")


@pytest.mark.parametrize("bins", [12, 256, 5000])
def test_long_sums_by_key_take_two_launches_unasked(made, bins):
    kernels = made(unasked(10_000_000, bins)).plan.kernels
    assert [kernel.family for kernel in kernels] == ["grouped", "reduce"]
    assert kernels[0].grid[0] * kernels[0].grid[2] > 100


def test_short_ones_are_compared_with_each_bin(made):
    assert "grouped" not in [kernel.family for kernel in made(unasked(1000, 10)).plan.kernels]


ORDERED_ROWS = """
params: {M: 3000000, K: 4}
arrays:
  x: {shape: [M, K], dtype: float32}
  y: {shape: [M, K], dtype: float32}
compute: |
  rank[m, i] = sum(x[m, j] < x[m, i] or (x[m, j] == x[m, i] and j < i), j)
  y[m, k] = sum(x[m, l], l, where=rank[m, l] == k)
"""


def test_many_rows_of_a_few_elements_have_no_block_each(made):
    """Three million blocks would start in two milliseconds."""
    assert "grouped" not in [launch.family for launch in made(ORDERED_ROWS).plan.kernels]


GRADIENT = """
params: {N: 8192, V: 32000, E: 1024}
arrays:
  g: {shape: [N, E], dtype: bfloat16}
  id: {shape: [N], dtype: int32}
  d: {shape: [V, E], dtype: float32}
compute: d[v, e] = sum(cast(g[n, e], float32), n, where=id[n] == v)
"""


def test_the_gradient_of_a_gathered_table_tests_batches_of_keys(made):
    (kernel,) = made(GRADIENT).plan.kernels
    assert kernel.family == "grouped"
    assert "if (nearest < " in made(GRADIENT).source


SEVERAL = """
params: {N: 4_000_000, G: 24}
arrays:
  k: {shape: [N], dtype: uint8}
  x: {shape: [N], dtype: float32}
  s: {shape: [G], dtype: float32}
  m: {shape: [G], dtype: float32}
compute: |
  s[g] = sum(x[i], i, where=k[i] == g)
  m[g] = max(x[i], i, where=k[i] == g)
"""


def test_reductions_by_one_key_share_a_launch(made):
    kernels = made(SEVERAL).plan.kernels
    assert [kernel.family for kernel in kernels].count("grouped") == 1
