"""The terms of a walk: what reductions share is computed once, and a term has few instructions."""

from __future__ import annotations

import numpy as np
import pytest

import cugen

NEAREST = """
params: {Q: %d, C: %d}
arrays:
  q: {shape: [Q, 2], dtype: float32}
  c: {shape: [C, 2], dtype: float32}
  id: {shape: [Q], dtype: int32}
  km: {shape: [Q], dtype: float32}
compute: |
  h[i, j] = sin((q[i, 0] - c[j, 0]) / 2) ** 2 + cos(q[i, 0]) * cos(c[j, 0]) * sin((q[i, 1] - c[j, 1]) / 2) ** 2
  km[i] = 12742 * asin(sqrt(min(h[i, j], j)))
  id[i] = cast(argmin(h[i, j], j), int32)
"""
MATCHES = """
params: {N: %d, M: %d}
arrays:
  a: {shape: [N], dtype: int32}
  b: {shape: [M], dtype: int32}
  index: {shape: [N], dtype: int64}
compute: index[i] = %s
"""
RANKS = """
params: {B: 33, N: 1023}
arrays:
  x: {shape: [B, N], dtype: float32}
  r: {shape: [B, N], dtype: int32}
compute: r[b, i] = sum(x[b, j] < x[b, i] or (x[b, j] == x[b, i] and j < i), j)
"""
LAST = "max(where(a[i] == b[j], j, -1), j)"


def loop_of(kernel: cugen.Kernel) -> str:
    """The loop over the steps of a tile."""
    _, _, loop = kernel.source.partition("for (int j_step")
    return loop.partition("__syncthreads();")[0]


def test_reductions_of_a_part_share_their_term(made):
    kernel = made(NEAREST % (20011, 4001))
    assert kernel.plan.kernels[-2].family == "staged"
    assert loop_of(kernel).count("sinf(") == 2


def test_functions_of_a_part_of_the_terms_are_in_tables(made):
    kernel = made(NEAREST % (20011, 4001))
    assert [launch.family for launch in kernel.plan.kernels[:2]] == ["map", "map"]
    assert "cosf(" not in loop_of(kernel)
    assert len(kernel.plan.kernels) == 4  # none of a temporary that no launch stores


def test_the_last_part_ends_the_loop(made):
    loop = loop_of(made(NEAREST % (20011, 4001)))
    assert "C - 667 * part" in loop.splitlines()[0]
    assert "< C" not in "".join(loop.splitlines()[1:])


@pytest.mark.parametrize("sizes", [(1033, 4001), (3000, 1999)])
def test_parts_of_all_pairs_are_right(made, sizes):
    kernel = made(NEAREST % sizes)
    random = np.random.default_rng(3)
    q, c = (random.uniform(-1.5, 1.5, (size, 2)).astype(np.float32) for size in sizes)
    outputs = cugen.run(kernel, {"q": q, "c": c}, device="cpu")
    d = (q[:, None].astype(np.float64) - c) / 2
    h = np.sin(d[..., 0]) ** 2 + np.cos(q[:, :1]) * np.cos(c[:, 0]) * np.sin(d[..., 1]) ** 2
    np.testing.assert_allclose(np.take_along_axis(h, outputs["id"][:, None], 1)[:, 0], h.min(1), rtol=1e-4)
    np.testing.assert_allclose(outputs["km"], 12742 * np.arcsin(np.sqrt(h.min(1))), rtol=1e-3)


def test_functions_with_branches_are_not_interleaved(made):
    """More warps hide their latency, not more outputs of a thread."""
    assert "int u = 0" not in loop_of(made(NEAREST % (20011, 4001)))


def test_long_terms_are_unrolled_as_far_as_the_instruction_cache_holds_them(made):
    functions = " + ".join(f"sin(x[i] * z[j] + {n})" for n in range(12))
    text = (
        "params: {N: 20000, M: 4000}\narrays:\n  x: {shape: [N], dtype: float32}\n  z: {shape: [M], dtype: float32}\n"
    )
    text += "  y: {shape: [N], dtype: float32}\n"
    long = made(f"{text}compute: y[i] = max({functions}, j)\n").source
    short = made(f"{text}compute: y[i] = max(sin(x[i] * z[j]), j)\n").source
    assert "#pragma unroll 2" in long
    assert "#pragma unroll 8" in short


def test_a_count_of_compound_conditions_branches(made):
    """Their sum would hold conditions of unrolled terms in bits of registers."""
    loop = loop_of(made(RANKS))
    assert "if (" in loop
    assert "+= 1;" in loop


@pytest.mark.parametrize(("kind", "is_narrow"), [(LAST, True), (LAST.replace(", -1", ", -(1 << 40)"), False)])
def test_an_extremum_of_indices_has_32_bits_where_these_hold_it(made, kind, is_narrow):
    kernel = made(MATCHES % (10003, 5003, kind))
    assert kernel.plan.kernels[0].family == "staged"
    assert ("Vector<long long" in kernel.source) is not is_narrow


@pytest.mark.parametrize("text", [MATCHES % (517, 1000, LAST), MATCHES % (517, 1000, f"-{LAST}"), RANKS])
def test_results_of_narrow_accumulators_are_right(prove, text):
    prove(text)
