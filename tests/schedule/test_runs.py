"""Statements that are grouped into one kernel, where none loses the family that computes it best."""

from __future__ import annotations

from typing import Any

import pytest

from cugen.kernel import Kernel, generate
from cugen.plan.context import make_context
from cugen.rewrite.grouping import Grouping, group_statements
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.schedule import runs
from cugen.spec.load import load_text
from cugen.spec.model import Spec

PROJECTIONS = """
params: {N: 300, D: 130}
arrays:
  x: {shape: [N, D], dtype: float16}
  wq: {shape: [D, D], dtype: float16}
  wk: {shape: [D, D], dtype: float16}
  q: {shape: [N, D], dtype: float16}
  k: {shape: [N, D], dtype: float16}
compute: |
  q[n, e] = sum(x[n, d] * wq[d, e], d)
  k[n, e] = sum(x[n, d] * wk[d, e], d)
"""
STATISTICS = """
params: {N: 300, D: 1000}
arrays:
  x: {shape: [N, D], dtype: float32}
  s: {shape: [N], dtype: float32}
  m: {shape: [N], dtype: float32}
compute: |
  s[n] = sum(x[n, d], d)
  m[n] = max(x[n, d], d)
"""
SCAN = """
params: {N: 133}
arrays:
  x: {shape: [N, N], dtype: float32}
  y: {shape: [N, N], dtype: float32}
  z: {shape: [N, N], dtype: float32}
compute: |
  y[i, j] = %s
  z[i, j] = 2 * %s
"""
WITH_SUM = "cumsum(x[i, j], j, where=x[j, i] > 0) + sum(x[i, k] * x[k, j], k)"  # no family but direct takes both


def kernel_of(text: str) -> Kernel:
    (spec,) = load_text(f"cugen: 1\nkernel: grouped{text}")
    return generate(spec, analysis=False)


def families_of(kernel: Kernel) -> list[str]:
    return [planned.family for planned in kernel.plan.kernels]


@pytest.mark.slow
def test_products_of_one_operand_are_gemms_of_their_own() -> None:
    kernel = kernel_of(PROJECTIONS)
    assert families_of(kernel) == ["gemm", "gemm"]
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


def test_products_with_a_schedule_for_both_stay_in_one_kernel() -> None:
    assert families_of(kernel_of(f"{PROJECTIONS}schedule: {{family: tiled}}\n")) == ["tiled"]


def test_reductions_of_the_same_rows_share_a_kernel() -> None:
    assert families_of(kernel_of(STATISTICS)) == ["reduce"]


@pytest.mark.parametrize(
    ("scan", "read", "families"),
    [
        pytest.param("cumsum(x[i, j], j)", "x[i, j]", ["scan"], id="a map of the same elements"),
        pytest.param("cumsum(x[i, j], j)", "y[i, j]", ["scan"], id="a map of the results"),
        pytest.param(WITH_SUM, "x[j, i]", ["direct"], id="a scan and a sum"),
    ],
)
def test_a_scan_shares_its_kernel_with_a_map(scan: str, read: str, families: list[str]) -> None:
    assert families_of(kernel_of(SCAN % (scan, read))) == families


def test_a_scan_and_a_transposition_of_many_elements_are_kernels_of_their_own() -> None:
    text = SCAN % ("cumsum(x[i, j], j)", "x[j, i]")
    assert families_of(kernel_of(text.replace("133", "1024"))) == ["scan", "transpose"]


WITH_A_MAP = """
params: {M: 130, N: 140, K: 150}
arrays:
  a: {shape: [M, K], dtype: %s}
  b: {shape: [K, N], dtype: %s}
  z: {shape: [M, N], dtype: float32}
  u: {shape: [M, N], dtype: float32}
  y: {shape: [M, N], dtype: float32}
compute: |
  u[m, n] = silu(z[m, n])
  y[m, n] = %s * sum(a[m, k] * b[k, n], k)
"""


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("factor", ["u[m, n]", "2"])
def test_a_map_before_a_product_leaves_it_its_family(dtype: str, factor: str) -> None:
    kernel = kernel_of(WITH_A_MAP % (dtype, dtype, factor))
    assert families_of(kernel) == ["map", "gemm"]


def test_a_map_before_a_reduction_that_takes_both_shares_its_kernel() -> None:
    text = STATISTICS.replace("s[n] = sum(x[n, d], d)", "s[n] = 2.0 * n")
    assert families_of(kernel_of(text)) == ["reduce"]


UNRELATED = """
params: {N: 260}
arrays:
  x: {shape: [N, N], dtype: float32, boundary: zero}
  a: {shape: [N, N], dtype: float32}
  u: {shape: [N, N], dtype: float32}
  y: {shape: [N, N], dtype: float32}
compute: |
  u[m, n] = x[m - 1, n] + x[m + 1, n] + x[m, n - 1] + x[m, n + 1]
  y[m, n] = %s
"""


@pytest.mark.parametrize(
    ("value", "family"),
    [
        pytest.param("sum(a[m, k] * a[k, n], k)", "gemm", id="a product"),
        pytest.param("softmax(a[m, n], n)", "rowwise", id="a softmax"),
        pytest.param("u[m, n] * softmax(a[m, n], n)", "rowwise", id="a softmax times the windows"),
        pytest.param("a[m, n] / sum(a[m, k], k)", "rowwise", id="a norm"),
    ],
)
def test_windows_and_what_another_family_reduces_are_launches_of_their_own(value: str, family: str) -> None:
    assert families_of(kernel_of(UNRELATED % value)) == ["stencil", family]


def test_a_map_of_other_arrays_is_no_part_of_an_epilogue() -> None:
    text = WITH_A_MAP % ("float16", "float16", "2")
    first, second = text.splitlines()[-2:]
    swapped = text.replace(f"{first}\n{second}", f"{second}\n{first}")
    assert families_of(kernel_of(swapped)) == ["gemm", "map"]


def test_the_groups_of_a_spec_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of planning asks for them, and families answer for every group that may be one."""
    questions = []

    def grouped(spec: Spec, *answers: Any) -> Grouping:
        questions.append((spec, [id(statement) for statement in spec.statements]))
        return group_statements(spec, *answers)

    runs._grouped.cache_clear()
    monkeypatch.setattr(runs, "group_statements", grouped)
    kernel_of(STATISTICS)
    assert len(questions) > 0
    assert [question for number, question in enumerate(questions) if question in questions[:number]] == []


def test_equal_statements_keep_their_own_places() -> None:
    """Findings quote them."""
    for text in (STATISTICS, f"doc: another line\n{STATISTICS}"):
        (spec,) = load_text(f"cugen: 1\nkernel: grouped\n{text}")
        ((first, _),) = [group.statements for group in runs.group(make_context(spec)).groups]
        assert first.span == spec.statements[0].span
