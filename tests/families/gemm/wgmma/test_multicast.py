"""Blocks of clusters that share tiles of an operand."""

from __future__ import annotations

import pytest

from cugen.kernel import Kernel, generate
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from tests.families.gemm.wgmma.conftest import product
from tests.fuzz.bounds import bounds_faults

SHARED = ("multicast: 2", "multicast: 4", "multicast_n: 2", "multicast_n: 4")


def kernel_of(schedule: str, m: int, n: int, k: int = 256, *, result: str = "float32", layout: str = "nt") -> Kernel:
    text = product(m, n, k, result=result, layout=layout, schedule=f"family: wgmma, {schedule}")
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{text}")
    return generate(spec, remarks="none")


@pytest.mark.covering
@pytest.mark.parametrize("result", ["float32", "bfloat16"])
@pytest.mark.parametrize("shared", SHARED)
def test_the_last_blocks_of_a_cluster_may_have_no_tile(shared: str, result: str) -> None:
    """Three or five whole tiles: what the last blocks compute is beyond the output."""
    kernel = kernel_of(f"block: {{m: 64, n: 64}}, {shared}", 320, 192, result=result)
    assert list(bounds_faults(kernel, {})) == []


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        ("multicast: 2, multicast_n: 2", "shares tiles of B or of A, not of both"),
        ("block: {n: 48}, multicast: 4", "shares tiles of B in clusters that don't split K"),
        ("multicast_n: 2, split_k: 2", "shares tiles of A in clusters that don't split K"),
        ("multicast_n: 2, stream_k: 1", "with stream-K, blocks share no tiles"),
    ],
)
def test_other_clusters_are_refused(schedule: str, reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        kernel_of(schedule, 512, 512, 4096)
