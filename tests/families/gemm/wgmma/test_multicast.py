"""Blocks of clusters that share tiles of an operand."""

from __future__ import annotations

import pytest

from cugen.kernel import Kernel, generate
from cugen.spec.load import load_text
from tests.families.gemm.wgmma.conftest import product
from tests.fuzz.bounds import bounds_faults


def kernel_of(schedule: str, **changes: object) -> Kernel:
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{product(schedule=f'family: wgmma, {schedule}', **changes)}")  # type: ignore[arg-type]
    return generate(spec, remarks="none")


@pytest.mark.parametrize("result", ["float32", "bfloat16"])
def test_the_last_block_of_a_cluster_may_have_no_tile(result: str) -> None:
    """Three whole tiles of clusters of two: what the fourth block computes is beyond the output."""
    kernel = kernel_of("block: {m: 64, n: 64}, multicast: 2", m=192, n=128, result=result)
    assert list(bounds_faults(kernel, {})) == []
