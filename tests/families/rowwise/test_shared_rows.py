"""Rows of narrow elements in shared memory, of which several blocks fit a multiprocessor."""

from __future__ import annotations

import pytest

from cugen.families.rowwise.shared_rows import blocks_per_multiprocessor, threads_of_row
from cugen.machine import target
from cugen.plan.traversal.walking import accesses

STATISTICS = "  mu[i] = mean(x[i, j], j)\n  scale[i] = rsqrt(var(x[i, j], j) + 1e-5)\n"
NORM = f"{STATISTICS}  y[i, j] = (x[i, j] - mu[i]) * scale[i] * a[j] + b[j]\n"


def rows(m, n, compute=NORM, dtype="bfloat16", operands="ab"):
    arrays = "".join(f"  {name}: {{shape: [N], dtype: {dtype}}}\n" for name in operands)
    return (
        f"params: {{M: {m}, N: {n}}}\ntarget: sm_90\n"
        f"arrays:\n  x: {{shape: [M, N], dtype: {dtype}}}\n  y: {{shape: [M, N], dtype: {dtype}}}\n{arrays}"
        f"compute: |\n{compute}"
    )


@pytest.mark.parametrize(
    ("length", "threads"), [(8200, 256), (16384, 512), (20473, 512), (24576, 1024), (28665, 512), (50000, 1024)]
)
def test_threads_are_those_of_which_few_idle(length, threads):
    assert threads_of_row(length, 8, target("sm_90")) == threads


def test_two_blocks_fit_targets_of_fewer_threads(planned):
    for name in ("sm_86", "sm_120"):
        assert threads_of_row(24576, 8, target(name)) == 512
        assert planned(rows(3000, 16385).replace("sm_90", name)).threads == 512


def test_blocks_are_as_many_as_registers_and_shared_memory_allow():
    assert blocks_per_multiprocessor(target("sm_90"), 512, 40_000) == 3
    assert blocks_per_multiprocessor(target("sm_90"), 1024, 100_000) == 2


@pytest.mark.parametrize("n", [32768, 47193])
def test_long_rows_are_in_shared_memory_and_two_blocks_fit(planned, n):
    kernel = planned(rows(3000, n))
    assert (kernel.block, kernel.minimum_blocks) == ((1024, 1, 1), 2)
    assert 2 * kernel.dynamic_shared_bytes <= 227 * 1024
    shared = {access.width for access in accesses(kernel.body) if access.array.dynamic}
    assert shared == {8}


def test_short_rows_are_in_registers(planned):
    assert planned(rows(3000, 8192)).dynamic_shared_bytes == 0


def test_rows_of_computed_values_are_in_registers_while_these_suffice(planned):
    softmax = "  y[i, j] = softmax(x[i, j], j)\n"
    assert planned(rows(3000, 16384, softmax, operands="")).dynamic_shared_bytes == 0
    assert planned(rows(3000, 32768, softmax, operands="")).minimum_blocks == 2


def test_blocks_are_fewer_where_a_thread_needs_more_registers(planned):
    names = "abcd"
    compute = f"{STATISTICS}  y[i, j] = (x[i, j] - mu[i]) * scale[i] + {' * '.join(f'{name}[j]' for name in names)}\n"
    kernel = planned(rows(3000, 32768, compute, operands=names))
    assert (kernel.dynamic_shared_bytes, kernel.minimum_blocks) == (65536, 0)


def test_rows_are_right(prove):
    prove(rows(3, 8201))
    prove(rows(2, 9000))
