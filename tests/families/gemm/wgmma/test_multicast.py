"""Blocks of clusters that share tiles of an operand."""

from __future__ import annotations

import pytest

from cugen.families.gemm.wgmma.selection import configs
from cugen.kernel import Kernel, generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from tests.families.gemm.wgmma.conftest import contraction_of, product
from tests.families.gemm.wgmma.test_configs import instruction_of
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
        ("multicast: 4, multicast_n: 4", "shares tiles of B and of A in clusters of up to 8 blocks"),
        ("block: {n: 48}, multicast: 4, multicast_n: 2", "by equal parts of whole swizzled rows"),
        ("block: {n: 48}, multicast: 4", "shares tiles of B in clusters that don't split K"),
        ("multicast_n: 2, split_k: 2", "shares tiles of A in clusters that don't split K"),
        ("multicast_n: 2, stream_k: 1", "with stream-K, blocks share no tiles"),
    ],
)
def test_other_clusters_are_refused(schedule: str, reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        kernel_of(schedule, 512, 512, 4096)


# Blocks that share tiles of both operands


@pytest.mark.covering
@pytest.mark.parametrize("device", [{"sanitize": True}, {"races": True, "shuffle": 3}], ids=["sanitised", "races"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
@pytest.mark.parametrize("cluster", [(2, 2), (2, 4), (4, 2)], ids=str)
@pytest.mark.parametrize("more", ["", ", swap_ab: true", ", raster: 2"])
def test_clusters_of_rows_and_columns_equal_the_reference(
    cluster: tuple[int, int], layout: str, more: str, device: dict[str, bool]
) -> None:
    """The last clusters have blocks without a tile, in either direction; stages are refilled."""
    along_m, along_n = cluster
    # Parts of MN-major tiles are blocks of 64 rows or columns.
    m = 64 * along_n if layout == "tn" else 64
    n = 64 if layout == "nt" else 64 * along_m
    schedule = f"block: {{m: {m}, n: {n}}}, stages: 2, multicast: {along_m}, multicast_n: {along_n}{more}"
    kernel = kernel_of(schedule, 328, 328, 200, result="bfloat16", layout=layout)
    assert list(bounds_faults(kernel, {})) == []
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(workers=1, **device))
    assert run.verification.passed, "\n".join(run.verification.messages)


def test_clusters_of_rows_and_columns_are_taken_unasked_and_not_beside_a_request_for_one() -> None:
    instruction = instruction_of(contraction_of(product(4096, 4096, 4096, schedule="")))
    for schedule, others in (("", {(2, 2), (2, 4), (4, 2)}), ("multicast: 2", set()), ("multicast_n: 1", set())):
        contraction = contraction_of(product(4096, 4096, 4096, schedule=schedule))
        shared = {(c.multicast, c.multicast_n) for c in configs(contraction, instruction) if c.shares_both}
        assert shared == others
