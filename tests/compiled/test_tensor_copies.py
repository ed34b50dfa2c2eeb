"""Kernels of wgmma and TMA as compiled: every instruction belongs to a node of the plan, and counters are predicted."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from cugen.compiled.kernels import CompiledKernel
from cugen.compiled.predictions import (
    ASYNC_METRICS,
    COPIED_BYTES,
    METRICS,
    OPERAND_WAVEFRONTS,
    WGMMAS,
    WORDS_READ,
    WORDS_WRITTEN,
    predictions,
)
from cugen.compiled.tensor_copies import compiled_copies
from cugen.kernel import Kernel, generate
from cugen.plan.traversal.walking import accesses
from cugen.spec.load import load_text
from tests.analysis.verdicts.test_async_proxy import wgmmas_along_k
from tests.compiled.test_kernels import compiled

MEASURED = Path(__file__).parents[1] / "data" / "sm90_tensor_copies.csv"


def measured() -> list[dict[str, str]]:
    lines = [line for line in MEASURED.read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def gemm(
    b: str = "[N, K]",
    out: str = "bfloat16",
    sizes: tuple[int, int, int] = (2048, 2048, 2048),
    schedule: str = "block: {m: 128, n: 256}",
) -> Kernel:
    m, n, k = sizes
    read = "n, k" if b == "[N, K]" else "k, n"
    (spec,) = load_text(f"""
cugen: 1
kernel: product
target: sm_90a
params: {{M: {m}, N: {n}, K: {k}}}
arrays:
  A: {{shape: [M, K], dtype: bfloat16}}
  B: {{shape: {b}, dtype: bfloat16}}
  C: {{shape: [M, N], dtype: {out}}}
compute: C[m, n] = sum(A[m, k] * B[{read}], k)
schedule: {{family: wgmma, {schedule}, split_k: 1, multicast: 1}}
""")
    return generate(spec, analysis=False)


@pytest.fixture(scope="module")
def product() -> CompiledKernel:
    (kernel,) = compiled(gemm(), "sm_90a")
    return kernel


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("b", "out", "loads_of_b"), [("[N, K]", "float32", 1), ("[K, N]", "bfloat16", 4)])
def test_every_instruction_of_tma_and_wgmma_belongs_to_a_node(b, out, loads_of_b):
    (kernel,) = compiled(gemm(b, out), "sm_90a")
    assert kernel.unexplained == ()
    k_tiles, tiles = 32, 16 * 8
    assert [mma.executions for mma in kernel.mmas] == [k_tiles * tiles * 4 * 2 * 4]  # by each of 2 x 4 warps
    loads = [k_tiles * tiles, loads_of_b * k_tiles * tiles]
    stores = [4 * 2 * tiles] if out == "bfloat16" else []
    assert [copy.executions for copy in kernel.copies] == loads + stores
    assert all(access.instructions for access in kernel.accesses)


@pytest.mark.slow
def test_counters_of_wgmma_and_tma_are_those_measured(product):
    """Of this tile at this size, on an H200 (stmatrix stored as many words of results)."""
    actual = predictions(product)
    assert list(actual) == [*METRICS, *ASYNC_METRICS]
    wgmmas = 32 * 128 * 4 * 2
    assert actual[OPERAND_WAVEFRONTS].value == 80 * wgmmas
    assert actual[WGMMAS].value == 4 * wgmmas
    barriers = 2 * 4 * 128  # of 4 stages in each of 128 blocks
    assert actual[WORDS_READ].value == 83_886_080 + 2_097_152 + 2 * barriers
    assert actual[WORDS_WRITTEN].value == 50_331_648 + 2_097_152
    assert actual[COPIED_BYTES].value == 4 * 50_331_648


@pytest.mark.slow
@pytest.mark.parametrize("row", measured(), ids=lambda row: "x".join(row[size] for size in ("m", "n", "k")))
def test_counters_of_aligned_and_unaligned_boxes_inside_and_outside_arrays_are_those_measured(row):
    m, n, k, block_m, block_n, stages = (int(row[key]) for key in ("m", "n", "k", "block_m", "block_n", "stages"))
    b = "[K, N]" if row["b"] == "n" else "[N, K]"
    schedule = f"block: {{m: {block_m}, n: {block_n}}}, stages: {stages}"
    (kernel,) = compiled(gemm(b, sizes=(m, n, k), schedule=schedule), "sm_90a")
    actual = predictions(kernel)
    # The kernels that were measured multiplied all of the last k-tile; now its zeros are left out where they are many.
    measured_wavefronts, of_tiles = int(row["wavefronts_gmma"]), 4 * -(-k // 64)
    skipped = measured_wavefronts * (of_tiles - wgmmas_along_k(k)) // of_tiles
    assert actual[OPERAND_WAVEFRONTS].value == measured_wavefronts - skipped
    assert actual[WORDS_READ].value == int(row["data_bank_reads"]) - 32 * skipped
    # The kernels that were measured wrote results inside C only; now threads write whole tiles, in words of two.
    outside = (-(-m // block_m) * block_m * -(-n // block_n) * block_n - m * n) // 2
    assert actual[WORDS_WRITTEN].value == int(row["data_bank_writes"]) + outside
    assert actual[COPIED_BYTES].value == int(row["xbar2l1tex_read_bytes"])


@pytest.mark.slow
def test_every_copy_of_pixels_belongs_to_an_instruction_and_its_words_are_counted():
    (spec,) = load_text("""
cugen: 1
kernel: conv
target: sm_90a
params: {N: 4, H: 16, W: 16, C: 64, K: 64}
arrays:
  x: {shape: [N, H, W, C], dtype: bfloat16, boundary: zero}
  w: {shape: [K, 3, 3, C], dtype: bfloat16}
  y: {shape: [N, H, W, K], dtype: bfloat16}
compute: y[n, h, q, k] = sum(x[n, h + r - 1, q + s - 1, c] * w[k, r, s, c], r, s, c)
schedule: {family: wgmma, multicast: 1}
""")
    (kernel,) = compiled(generate(spec, analysis=False), "sm_90a")
    assert kernel.unexplained == ()
    images, filters, _ = kernel.copies
    block_m, block_n = (int(copy.node.target.array.shape[1]) for copy in (images, filters))
    executions = 9 * (1024 // block_m) * (64 // block_n)
    assert (images.executions, images.words) == (executions, executions * block_m * 32)
    assert (filters.executions, filters.words) == (executions, executions * block_n * 32)
    # What is received for pixels outside isn't measured.
    assert images.sectors is None
    assert filters.sectors == executions * block_n * 4
    assert predictions(kernel)[COPIED_BYTES].value is None


@pytest.mark.slow
def test_counters_that_other_accesses_of_threads_share_are_not_predicted():
    (kernel,) = compiled(gemm(out="float32"), "sm_90a")
    actual = predictions(kernel)
    assert actual[OPERAND_WAVEFRONTS].value == 80 * 32 * 128 * 4 * 2
    assert [actual[name].value for name in (COPIED_BYTES, WORDS_READ, WORDS_WRITTEN)] == [None] * 3


@pytest.mark.slow
def test_a_copy_without_an_instruction_for_each_unrolled_trip_is_unexplained(product):
    (planned,) = (kernel := gemm()).plan.kernels
    lines = kernel.access_lines()
    line_of = {access.serial: lines[n] for n, access in enumerate(accesses(planned.body))}
    params = {"M": 2048, "N": 2048, "K": 2048}
    *_, last = (i for i in product.program.instructions if i.name == "UTMASTG")
    fewer = tuple(i for i in product.program.instructions if i is not last)
    found, others = compiled_copies(planned, replace(product.program, instructions=fewer), line_of, params)
    assert [copy.executions is None for copy in found] == [False, False, True]
    assert found[-1].reason.startswith("unexplained: 3 instructions for 4 trips")
    assert others == ()
