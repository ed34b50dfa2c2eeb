"""Results that are short rows of shared terms have a thread for each row, where loops would be one for each result."""

from __future__ import annotations

import pytest

from cugen.kernel import Kernel, generate
from cugen.plan.traversal.walking import accesses
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

OTHERS = """cugen: 1
kernel: others
params: {M: %s, N: 40037, C: %s}
arrays:
  x: {shape: [N], dtype: float32}
  msg: {shape: [M, C], dtype: float32}
  nb: {shape: [M, C], dtype: int32}
  out: {shape: [M, C], dtype: float32}
compute: |
  q[m, k] = x[nb[m, k]] - msg[m, k]
  neg[m] = sum(q[m, k] < 0, k)
  mn[m, k] = min(abs(q[m, j]), j, where=%s)
  out[m, k] = 0.75 * mn[m, k] * (1 if (neg[m] - (q[m, k] < 0)) %% 2 == 0 else -1)
"""
BONES = """cugen: 1
kernel: bones
params: {V: %s, B: 128}
indices: {c: 3}
arrays:
  x: {shape: [V, 3], dtype: float32}
  w: {shape: [V, 4], dtype: float32}
  id: {shape: [V, 4], dtype: uint8}
  m: {shape: [B, 3, 4], dtype: float32}
  y: {shape: [V, 3], dtype: float32}
compute: |
  y[v, r] = sum(w[v, k] * (sum(m[id[v, k], r, c] * x[v, c], c) + m[id[v, k], r, 3]), k)
"""
WINDOW = """cugen: 1
kernel: window
params: {M: %s, K: 3, T: 5}
arrays:
  x: {shape: [M, K + T - 1], dtype: float32}
  w: {shape: [T], dtype: float32}
  y: {shape: [M, K], dtype: float32}
compute: y[m, k] = sum(x[m, k + t] * w[t], t)
"""
LARGE = 300_007


def kernel_of(text: str) -> Kernel:
    return generate(load_text(text)[0], analysis=False)


@pytest.mark.parametrize("text", [OTHERS % (LARGE, 7, "j != k"), BONES % LARGE], ids=["others", "bones"])
def test_one_thread_computes_a_row(text: str) -> None:
    kernel = kernel_of(text)
    (launch,) = kernel.plan.kernels
    assert launch.family == "map"
    assert not kernel.plan.workspace


def test_what_results_of_a_row_gather_is_loaded_once_and_by_vectors() -> None:
    (launch,) = kernel_of(BONES % LARGE).plan.kernels
    loads = [access for access in accesses(launch.body) if access.array.symbol == "m"]
    assert [access.width for access in loads] == [4] * 12


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(OTHERS % (LARGE, 9, "j != k"), id="long rows"),
        pytest.param(OTHERS % (1000, 7, "j != k"), id="few rows"),
        pytest.param(OTHERS % (LARGE, 7, "nb[m, j] != nb[m, k]"), id="conditions on data"),
        pytest.param(OTHERS % (LARGE, 7, "j > k"), id="a result without terms"),
    ],
)
def test_other_rows_stay_loops(text: str) -> None:
    assert len(kernel_of(text).plan.kernels) > 1


def test_a_window_begins_at_the_index_of_its_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first result of a row reads `x[m, t]`, whose dimension is longer than t."""
    assert len(kernel_of(WINDOW % LARGE).plan.kernels) == 1
    monkeypatch.setattr("cugen.rewrite.sums.short_rows._MIN_ROWS", 1)
    kernel = kernel_of(WINDOW % 41)
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


@pytest.mark.sampled(2)
@pytest.mark.parametrize("condition", ["j != k", "j <= k", "j >= k"])
def test_results_of_rows_are_right(monkeypatch: pytest.MonkeyPatch, condition: str) -> None:
    monkeypatch.setattr("cugen.rewrite.sums.short_rows._MIN_ROWS", 1)
    for text in (OTHERS % (61, 7, condition), BONES % 43):
        kernel = kernel_of(text)
        assert [launch.family for launch in kernel.plan.kernels] == ["map"]
        assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


def test_rows_whose_terms_are_read_where_results_are_stored_stay_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cugen.rewrite.sums.short_rows._MIN_ROWS", 1)
    kernel = kernel_of("""cugen: 1
kernel: in_place
arrays:
  y: {shape: [37, 5], dtype: float32}
compute: |
  t[m, k] = 2 * y[m, k]
  y[m, k] = min(abs(t[m, j]), j, where=j != k)
""")
    assert "y[m * 5 + k] = " in kernel.source
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed
