"""All pairs in walks: sizes that nothing divides, types, and nested reductions that stay in place."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

import cugen

SIZES = (1, 2, 7, 31, 33, 127, 128, 129, 131, 257, 509, 1021, 2053)
NESTED = "label[i] = argmin(sum((x[i, k] - c[m, k])**2, k), m)"


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def pairs(n: int, m: int, dtype: str = "float32", features: int = 4) -> str:
    """Accelerations of n bodies by m others, each with a position and a mass."""
    result = "float64" if dtype == "float64" else "float32"
    square = " + ".join(f"(p[j, {d}] - q[i, {d}])**2" for d in range(3))
    lines = "".join(
        f"  a[i, {d}] = sum(p[j, 3] * (p[j, {d}] - q[i, {d}]) * rsqrt({square} + 0.5)**3, j)\n" for d in range(3)
    )
    return (
        f"arrays:\n  p: {{shape: [{m}, {features}], dtype: {dtype}}}\n  q: {{shape: [{n}, 4], dtype: {dtype}}}\n"
        f"  a: {{shape: [{n}, 3], dtype: {result}}}\ncompute: |\n{lines}"
    )


def clusters(n: int, m: int, features: int, dtype: str = "float32", compute: str = NESTED) -> str:
    return (
        f"arrays:\n  x: {{shape: [{n}, {features}], dtype: {dtype}}}\n"
        f"  c: {{shape: [{m}, {features}], dtype: {dtype}}}\n  label: {{shape: [{n}], dtype: int64}}\n"
        f"compute: {compute}\n"
    )


def families(kernel):
    return [launch.family for launch in kernel.plan.kernels]


def drawn(seed: int) -> tuple[int, int, int, str]:
    random = Random(seed)
    n, m = random.choice(SIZES), random.choice(SIZES)
    return n, m, random.randint(1, 40), random.choice(["float32", "float32", "float64", "float16"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4, *(slow(seed) for seed in range(40) if seed != 4)])
def test_bodies_of_drawn_sizes(prove, seed):
    n, m, _, dtype = drawn(seed)
    prove(pairs(n, m, dtype), sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(4), *(slow(seed) for seed in range(4, 40))])
def test_clusters_of_drawn_sizes(prove, seed):
    prove(clusters(*drawn(100 + seed)), sanitize=True)


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize(("n", "m"), [(2053, 128), (33, 2053)])
def test_slices_have_no_races(prove, n, m):
    prove(pairs(n, m), races=True)


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("features", [4, 5, 8])
def test_structures_with_a_tail_are_copied_in_bounds(prove, features):
    prove(pairs(300, 1021, features=features), sanitize=True)


@pytest.mark.slow
def test_a_run_is_copied_in_vectors_and_other_rows_by_element(made):
    assert "store<4>(&p_tile[vector][0]" in made(pairs(5000, 5003)).source
    assert "store<4>" not in made(pairs(5000, 5003, features=5)).source


def test_labels_of_clusters_are_one_launch(made):
    assert families(made(clusters(400_000, 300, 18))) == ["staged"]


def test_clusters_of_many_features_are_a_gemm(made):
    assert families(made(clusters(400_000, 300, 150)))[0] == "gemm"


def test_few_outputs_of_nested_sums_fill_the_device_as_a_gemm(made):
    assert families(made(clusters(300, 400_000, 18)))[0] == "gemm"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", ["argmin", "argmax"])
@pytest.mark.parametrize(
    "column",
    [
        pytest.param({}, id="finite"),
        pytest.param({0: math.inf, 1: -math.inf}, id="infinities"),
        pytest.param({3: math.nan, 5: math.nan}, id="the first NaN"),
        pytest.param({0: math.nan}, id="NaN first"),
        pytest.param(dict.fromkeys(range(150), math.inf), id="all inf"),
        pytest.param(dict.fromkeys(range(150), -math.inf), id="all -inf"),
        pytest.param(dict.fromkeys(range(150), 1.0), id="all equal"),
    ],
)
def test_positions_are_those_of_numpy(made, kind, column):
    text = clusters(200, 150, 1, compute=f"label[i] = {kind}(x[i, 0] + c[m, 0], m)")
    kernel = made(text)
    assert kernel.plan.kernels[0].family == "staged"
    random = np.random.default_rng(5)
    x, c = random.standard_normal((200, 1), np.float32), random.standard_normal((150, 1), np.float32)
    for row, value in column.items():
        c[row, 0] = value
    outputs = cugen.run(kernel, {"x": x, "c": c}, device="cpu")
    expected = getattr(np, kind)(x + c.T, axis=1)
    np.testing.assert_array_equal(outputs["label"], expected)


@pytest.mark.slow
@pytest.mark.sampled(5)
@pytest.mark.parametrize("n", [16_384, 17_805, 48_809, 51_702, 131_071])
def test_the_busiest_multiprocessor_has_little_more_than_its_share(planned, n):
    kernel = planned(pairs(n, n))
    blocks, sms = int(kernel.grid[0]), 132
    assert -(-blocks // sms) * -(-n // blocks) <= 1.05 * n / sms, (kernel.grid, kernel.block)


ENERGY = """
params: {N: %d}
arrays:
  p: {shape: [N, 3], dtype: float32}
  e: {shape: [], dtype: float32}
compute: |
  r2[i, j] = (p[i, 0] - p[j, 0])**2 + (p[i, 1] - p[j, 1])**2 + (p[i, 2] - p[j, 2])**2
  e = sum(1 / (1 + r2[i, j]), i, j, where=%s)
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("where", ["i < j", "i != j and r2[i, j] < 500"])
def test_a_sum_over_all_pairs_has_the_first_of_a_pair_in_registers(made, prove, where):
    kernel = made(ENERGY % (1801, where))
    assert families(kernel) == ["staged", "reduce"]
    loop = kernel.source[kernel.source.index("for (int j_first") :].split("__syncthreads();")[1]
    assert "p[" not in loop
    prove(ENERGY % (1801, where))


@pytest.mark.parametrize("structure", ["x[n]", "x[n] + 0.5 * x[n]"])
@pytest.mark.parametrize("bins", [50, 100])
def test_slices_of_one_warp_read_different_banks(bins, structure):
    spec = cugen.load(
        f"cugen: 1\nkernel: edges\nparams: {{N: 1000003, B: {bins}}}\nindices: {{b: B}}\narrays:\n"
        "  x: {shape: [N], dtype: float32}\n  e: {shape: [B + 1], dtype: float32}\n  h: {shape: [B], dtype: int32}\n"
        f'compute: "h[b] = sum(e[b] <= {structure} and {structure} < e[b + 1], n)"\n'
    )
    first, *_ = cugen.generate(spec).reports
    loads = [report for report in first.accesses if report.access.array.symbol == "x_tile"]
    assert loads
    assert {report.verdict for report in loads} == {"ideal"}
