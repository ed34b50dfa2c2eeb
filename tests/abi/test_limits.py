"""The largest of several variants that a device allows."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from cugen.abi.errors import RunError
from cugen.abi.limits import Limits, largest_that_fits
from cugen.kernel import Kernel, generate
from cugen.spec.load import load_text

SPEC = """\
cugen: 1
kernel: product
variants: {tile: [16, 8, 32]}
params: {M: 40, K: 30, N: 50}
arrays:
  A: {shape: [M, K], dtype: float32, memory: shared}
  B: {shape: [K, N], dtype: float32, memory: shared}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {block: {m: $tile, n: $tile}, step: {k: $tile}}
"""
DEVICE = Limits("a made-up GPU", 1024, (1024, 1024, 64), (2**31 - 1, 65535, 65535), 232448, 65536)


@cache
def variants(text: str = SPEC) -> tuple[Kernel, ...]:
    return tuple(map(generate, load_text(text)))


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("threads", "shared", "taken"),
    [
        (1024, 232448, 32),
        (1024, 8192, 32),
        (1024, 8191, 16),
        (1023, 8192, 16),
        (256, 2048, 16),
        (255, 8192, 8),
        (64, 512, 8),
    ],
)
def test_the_largest_tile_within_both_limits_is_taken(threads: int, shared: int, taken: int) -> None:
    limits = replace(DEVICE, threads=threads, shared_bytes=shared)
    assert largest_that_fits(variants(), limits).name == f"product__{taken}"


def test_where_none_fits_the_error_has_what_the_smallest_needs_and_what_there_is() -> None:
    with pytest.raises(RunError) as caught:
        largest_that_fits(variants(), replace(DEVICE, threads=63, shared_bytes=511))
    assert caught.value.code == "CG5010"
    assert caught.value.message == (
        "`product__8` needs 64 threads and 512 bytes of shared memory per block; "
        "a made-up GPU allows 63 threads and 511 bytes of shared memory"
    )


def test_only_dynamic_tiles_may_use_what_a_device_gives_on_request() -> None:
    large = SPEC.replace("[16, 8, 32]", "[8, 32]")
    dynamic = variants(large.replace("memory: shared", "memory: {space: shared, dynamic: true, pad: 200}"))
    needed = dynamic[1].manifest.launches[0].dynamic_shared_bytes
    assert needed > 48 * 1024
    assert largest_that_fits(dynamic, replace(DEVICE, shared_bytes=needed)) is dynamic[1]
    assert largest_that_fits(dynamic, replace(DEVICE, shared_bytes=needed - 1)) is dynamic[0]


def test_there_must_be_something_to_choose_from() -> None:
    with pytest.raises(ValueError, match="no kernels"):
        largest_that_fits((), DEVICE)
