"""What a block of a kernel costs, and which of several variants is taken for it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from cugen.abi.errors import RunError
from cugen.abi.limits import Limits, largest_that_fits
from cugen.analysis.verdicts.report import analyze_kernel
from cugen.kernel import Kernel, generate
from cugen.kernel_choice import block_cost, fastest_that_fits
from cugen.spec.load import load_text

SPEC = """\
cugen: 1
kernel: product
variants: {tile: [8, 16, 32]}
params: {M: dynamic}
arrays:
  A: {shape: [M, 256], dtype: float32, memory: shared}
  B: {shape: [256, 256], dtype: float32, memory: shared}
  C: {shape: [M, 256], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {block: {m: $tile, n: $tile}, step: {k: $tile}}
"""
PADS = (
    SPEC.replace("tile: [8, 16, 32]", "pad: [0, 900]")
    .replace("$tile", "32")
    .replace(
        "A: {shape: [M, 256], dtype: float32, memory: shared}",
        "A: {shape: [M, 256], dtype: float32, memory: {space: shared, dynamic: true, pad: $pad}}",
    )
)
TWO_LAUNCHES = """\
cugen: 1
kernel: share
variants: {size: [64, 128]}
params: {M: dynamic}
arrays:
  x: {shape: [M], dtype: float32}
  part: {shape: [M], dtype: float32, memory: scratch}
  y: {shape: [M], dtype: float32}
compute: |
  part[i] = 2 * x[i]
  y[i] = part[i] / sum(part[j], j)
schedule: {family: direct, block: {i: $size}}
"""
DEVICE = Limits("a made-up GPU", 1024, (1024, 1024, 64), (2**31 - 1, 65535, 65535), 232448, 65536)


@cache
def variants(text: str = SPEC) -> tuple[Kernel, ...]:
    return tuple(generate(spec, analysis=False) for spec in load_text(text))


def test_a_block_moves_its_share_of_the_sectors_of_a_typical_grid() -> None:
    kernel = variants()[2]
    cost = block_cost(kernel)
    reports = analyze_kernel(kernel.plan.kernels[0], "sm_90", {"M": 1024}).accesses
    sectors = sum(r.totals.sectors for r in reports if r.space == "global" and r.totals is not None)
    assert cost is not None
    assert cost.moved == pytest.approx(sectors * 32 / (1024 // 32 * 256 // 32), rel=1e-5)
    assert cost.in_flight == 1024 * 8  # an element of A and of B for each thread
    assert cost.saturating == 48 * 1024  # as measured on the default device


@pytest.mark.parametrize(
    "text",
    [
        SPEC.replace("kernel: product", "kernel: product\ntarget: sm_52"),
        TWO_LAUNCHES,
    ],
    ids=["no device of the target", "two launches"],
)
def test_a_cost_that_is_not_known_leaves_the_largest(text: str) -> None:
    kernels = variants(text)
    assert block_cost(kernels[0]) is None
    assert fastest_that_fits(kernels, DEVICE, 132, {"M": 1000}) is largest_that_fits(kernels, DEVICE)


def test_the_variant_that_moves_least_is_taken_where_all_fill_the_device() -> None:
    assert fastest_that_fits(variants(), DEVICE, 132, {"M": 100000}).name == "product__32"


def test_one_that_does_not_fit_is_left_out_and_where_none_does_it_is_refused() -> None:
    assert fastest_that_fits(variants(), replace(DEVICE, threads=1023), 132, {"M": 100000}).name == "product__16"
    with pytest.raises(RunError, match="`product__8` needs 64 threads"):
        fastest_that_fits(variants(), replace(DEVICE, threads=63), 132, {"M": 100000})


def test_of_tiles_that_move_as_much_the_one_with_more_resident_blocks_is_taken() -> None:
    kernels = variants(PADS)
    assert largest_that_fits(kernels, DEVICE).name == "product__900"
    assert fastest_that_fits(kernels, DEVICE, 132, {"M": 100000}).name == "product__0"
