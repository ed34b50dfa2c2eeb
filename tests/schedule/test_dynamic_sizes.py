"""Sizes that are known at launch are planned for their defaults, and are right at any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest

from cugen.analysis.launches.price import Price, plan_prices, total
from cugen.analysis.totals.budget import Unknown
from cugen.families.registry import families
from cugen.kernel import Kernel, generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from tests.benchmarks import benchmark

FALLBACKS = {family.name for family in families() if family.fallback}
MAX_RATIO = 1.6  # to the traffic and the modelled time with fixed sizes: unaligned rows, and accesses of one element

# Operators whose shapes have the sizes themselves, and are right for sizes of 0.
OPERATORS = [
    operator
    for operator in benchmark("operators.operator_cases").operators()
    if not operator.derived and "argm" not in operator.compute
]


def with_defaults(operator: Any) -> Any:
    """The operator with its sizes as defaults of sizes that are known at launch."""
    return replace(operator, sizes={name: f"{{default: {size}}}" for name, size in operator.sizes.items()})


@lru_cache(maxsize=64)
def made(text: str) -> Kernel:
    (spec,) = load_text(text)
    return generate(spec, analysis=False)


def price(kernel: Kernel) -> Price | None:
    """The price at typical sizes; None if the analysis can't count it."""
    try:
        return total(plan_prices(kernel.plan, {param.name: param.typical for param in kernel.spec.params}))
    except Unknown:
        return None


@pytest.mark.slow
@pytest.mark.parametrize("operator", [pytest.param(operator, id=operator.kernel[:70]) for operator in OPERATORS])
def test_an_operator_of_sizes_known_at_launch_costs_about_what_it_does_with_fixed_sizes(operator: Any) -> None:
    fixed, dynamic = made(operator.spec()), made(with_defaults(operator).spec())
    assert not {launch.family for launch in dynamic.plan.kernels} & FALLBACKS - {
        launch.family for launch in fixed.plan.kernels
    }
    expected, of_dynamic = price(fixed), price(dynamic)
    if expected is None or of_dynamic is None:
        return
    assert of_dynamic.moved <= 2 * MAX_RATIO * expected.moved
    if expected.is_complete and of_dynamic.is_complete:
        assert of_dynamic.seconds <= MAX_RATIO * expected.seconds


def spec_of(defaults: Mapping[str, int], arrays: str, compute: str, schedule: str = "") -> str:
    params = ", ".join(f"{name}: {{default: {size}}}" for name, size in defaults.items())
    lines = ["cugen: 1", "kernel: f", "target: sm_90", f"params: {{{params}}}", "arrays:"]
    lines += [f"  {a.split(' ', 1)[0]}: {{shape: {a.split(' ', 1)[1]}, dtype: float32}}" for a in arrays.split("; ")]
    return "\n".join([*lines, "compute: |", *(f"  {line}" for line in compute.split("\n")), schedule])


def is_right(text: str, *sizes: int) -> bool:
    """Whether the kernel passes verification at the sizes, in the order of its params."""
    kernel = made(text)
    params = {param.name: size for param, size in zip(kernel.spec.params, sizes, strict=True)}
    return verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(), params=params).verification.passed


def families_of(text: str) -> list[str]:
    return [launch.family for launch in made(text).plan.kernels]


def reasons_of(text: str) -> str:
    return "; ".join(reason for launch in made(text).plan.kernels for reason in launch.reasons)


SOFTMAX = "y[i, j] = softmax(x[i, j], j)"
L2_NORM = "y[i, j] = x[i, j] / norm(x[i, k], k)"
BATCH_NORM = """mu[c] = mean(x[n, c, h], n, h)
v[c] = mean((x[n, c, h] - mu[c]) ** 2, n, h)
y[n, c, h] = (x[n, c, h] - mu[c]) * rsqrt(v[c] + 1e-5)"""
CHANNEL_NORM = "y[n, c, h] = x[n, c, h] / sqrt(mean(x[n, d, h] ** 2, d) + 1e-5)"
PRODUCT = "C[m, n] = sum(A[m, k] * B[k, n], k)"
OPERANDS = "A [M, K]; B [K, N]; C [M, N]"


@pytest.mark.parametrize(("statement", "length", "cluster"), [(SOFTMAX, 393216, 8), (L2_NORM, 65535, 4)])
def test_long_rows_have_the_cluster_and_the_vectors_of_their_default(statement, length, cluster):
    text = spec_of({"M": 4096, "N": length}, "x [M, N]; y [M, N]", statement)
    assert f"a cluster of {cluster} blocks" in reasons_of(text)
    assert "load<4>" in made(text).source
    assert "all others are reloaded" in reasons_of(text)


@pytest.mark.sampled(32)
@pytest.mark.parametrize("statement", [SOFTMAX, L2_NORM])
@pytest.mark.parametrize("columns", [0, 1, 2, 3, 4, 5, 7, 8, 31, 127, 4099, 131075])
def test_rows_of_any_length_are_right_with_the_plan_of_a_long_one(statement, columns):
    text = spec_of({"M": 4096, "N": 65535 if statement == L2_NORM else 393216}, "x [M, N]; y [M, N]", statement)
    assert is_right(text, 3, columns)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("columns", [1, 15, 16, 17, 100, 1000, 5003])
def test_rows_of_any_length_are_right_with_the_plan_of_a_short_one(columns):
    assert is_right(spec_of({"M": 100000, "N": 16}, "x [M, N]; y [M, N]", SOFTMAX), 5, columns)


@pytest.mark.slow
def test_long_rows_in_segments_are_several_launches_with_vectors():
    text = spec_of({"N": 64, "C": 64, "H": 262144}, "x [N, C, H]; y [N, C, H]", BATCH_NORM)
    assert set(families_of(text)) == {"reduce", "map"}
    for sizes in ((1, 1, 1), (3, 5, 77), (2, 3, 4097), (40, 1, 3)):
        assert is_right(text, *sizes)


def test_short_strided_columns_have_the_blocks_of_their_default():
    text = spec_of({"N": 112, "C": 64, "H": 262144}, "x [N, C, H]; y [N, C, H]", CHANNEL_NORM)
    (launch,) = made(text).plan.kernels
    assert launch.block == (128, 4, 1)
    for sizes in ((1, 1, 1), (3, 64, 33), (2, 65, 127), (1, 700, 5)):
        assert is_right(text, *sizes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes",
    [(130, 257, 1000), (1, 1, 0), (1, 1, 1), (1, 3, 7000), (127, 255, 31), (128, 256, 64), (300, 700, 65), (0, 5, 3)],
)
@pytest.mark.parametrize("statement", [PRODUCT, f"{PRODUCT}\nD[m, n] = silu(C[m, n])"], ids=["plain", "epilogue"])
def test_a_long_k_is_split_over_blocks_by_the_sizes_at_launch(statement, sizes):
    arrays = OPERANDS if statement == PRODUCT else OPERANDS.replace("C ", "D ")
    text = spec_of({"M": 256, "N": 256, "K": 524288}, arrays, statement)
    assert "split-K of up to" in reasons_of(text)
    m, n, k = sizes
    assert is_right(text, m, n, k)


def test_the_workspace_of_split_k_has_one_size_for_all_sizes():
    kernel = made(spec_of({"M": 256, "N": 256, "K": 524288}, OPERANDS, PRODUCT))
    assert all(not extent.free_symbols for array in kernel.plan.workspace for extent in array.shape)


@pytest.mark.slow
def test_a_short_k_has_tiles_for_it():
    short, long = (spec_of({"M": 32768, "N": 32768, "K": k}, OPERANDS, PRODUCT) for k in (32, 4096))
    assert reasons_of(short) != reasons_of(long)
    assert is_right(short, 65, 130, 70)


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("b", "element"), [("[N, K]", "n, k"), ("[K, N]", "k, n")])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 0), (65, 63), (17, 4099), (300, 127)])
def test_k_of_a_few_rows_is_split_in_parts_some_of_which_may_be_empty(b, element, sizes):
    text = spec_of({"N": 1024, "K": 65536}, f"A [8, K]; B {b}; C [8, N]", f"C[m, n] = sum(A[m, k] * B[{element}], k)")
    assert families_of(text) == ["skinny", "reduce"]
    assert is_right(text, *sizes)


@pytest.mark.slow
def test_a_matrix_by_a_column_is_a_reduction_of_rows_where_these_are_few():
    text = spec_of({"M": 2048, "K": 1048576}, "A [M, K]; x [K, 1]; y [M, 1]", "y[m, n] = sum(A[m, k] * x[k, n], k)")
    assert families_of(text) == ["reduce"]
    for sizes in ((1, 1), (3, 0), (5, 63), (2, 4099)):
        assert is_right(text, *sizes)


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n", "k"), [pytest.param(130, 257, 70, marks=pytest.mark.slow), (3, 5, 33)])
def test_the_trace_of_a_k_that_is_split_at_launch_is_as_planned(m, n, k):
    kernel = made(spec_of({"M": 256, "N": 256, "K": 524288}, OPERANDS, PRODUCT))
    params = {"M": m, "N": n, "K": k}
    lines = kernel.access_lines()
    assert check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, lines, params).mismatches == []
