"""Statements are split into steps that their families take; no step is a demand that a spec didn't make."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

SPLIT_MEAN = """
params: {N: 4, F: 128, I: 1024}
arrays:
  x: {shape: [N, F, I], dtype: float32}
  beta: {shape: [F], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: |
  z[n, f, i] = x[n, f, i] * beta[f]
  y[n] = mean(z[n, f, i], f, i)
"""
SKINNY_GEMM = """
params: {M: 4, N: 64, K: 4096}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K // 2, N], dtype: float32, boundary: clamp}
  C: {shape: [M, N], dtype: float32}
compute: |
  t[k, n] = 2 * B[k // 2 + 1, n]
  C[m, n] = sum(A[m, k] * t[k, n], k)
"""


DIAGONAL = """
params: {A: 37}
indices: {i: A, j: A}
arrays:
  scalar: {shape: [], dtype: float32}
  matrix: {shape: [A, A], dtype: float32}
  vector: {shape: [A], dtype: float32}
compute: |
  t[i, j] = scalar
  matrix[i, j] = t[i, j] * 2 + scalar
  u[i] = t[i, i]
  vector[i] = u[i] * 2 + scalar
"""


def kernel_of(text: str):
    (spec,) = load_text(f"cugen: 1\nkernel: split{text}")
    return generate(spec, analysis=False)


def families_of(kernel) -> list[str]:
    return [planned.family for planned in kernel.plan.kernels]


def passes(kernel) -> bool:
    return verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


def test_a_mean_of_a_temporary_is_split_as_one_of_its_expression():
    kernel = kernel_of(SPLIT_MEAN)
    assert families_of(kernel) == ["reduce", "reduce"]
    assert passes(kernel)
    inlined = SPLIT_MEAN.replace("z[n, f, i] = x[n, f, i] * beta[f]\n  ", "").replace(
        "z[n, f, i]", "x[n, f, i] * beta[f]"
    )
    assert [k.grid for k in kernel_of(inlined).plan.kernels] == [k.grid for k in kernel.plan.kernels]


def test_the_notes_say_that_the_temporary_is_recomputed():
    assert "z is recomputed where it is read: it has no reduction of its own" in kernel_of(SPLIT_MEAN).plan.notes


def test_a_temporary_of_a_temporary_that_reads_a_scalar_is_planned():
    kernel = kernel_of(DIAGONAL)
    assert families_of(kernel) == ["map", "map"]
    assert passes(kernel)


@pytest.mark.slow
def test_an_operand_that_no_skinny_gemm_takes_leaves_parts_of_the_sums_to_single_threads():
    kernel = kernel_of(SKINNY_GEMM)
    assert families_of(kernel) == ["direct", "reduce"]
    assert passes(kernel)


def test_the_same_without_the_quotient_is_split():
    plain = SKINNY_GEMM.replace("k // 2 + 1", "k").replace("K // 2", "K")
    assert families_of(kernel_of(plain))[0] == "skinny"


@pytest.mark.slow
def test_the_same_without_a_boundary_is_an_implicit_gemm():
    kernel = kernel_of(SKINNY_GEMM.replace(" + 1", "").replace(", boundary: clamp", ""))
    assert families_of(kernel) == ["gemm"]
    assert passes(kernel)


@pytest.mark.parametrize("family", ["reduce", "direct"])
def test_a_family_that_the_schedule_names_computes_a_split_mean(family):
    kernel = kernel_of(SPLIT_MEAN + f"schedule: {{family: {family}}}\n")
    assert set(families_of(kernel)) == {family}


PLACED_ROWS = """
cugen: 1
kernel: log_of_sums
params: {M: 16384, N: %s}
arrays:
  x: {shape: [M, N], dtype: float32, memory: %s}
  y: {shape: [M], dtype: float32}
compute: |
  largest[i] = max(x[i, j], j)
  y[i] = largest[i] + log(sum(exp(x[i, k] - largest[i]), k))
"""


@pytest.mark.parametrize("space", ["shared", "register"])
def test_statements_that_only_together_honour_a_placement_are_not_split(space):
    """Each alone reads an element of a row once, and no family would have it in shared memory."""
    (spec,) = load_text(PLACED_ROWS % (1200, space))
    assert [launch.family for launch in generate(spec, remarks="none").plan.kernels] == ["rowwise"]
