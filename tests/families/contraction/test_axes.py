"""Which index is M where several of the output are in the A operand alone."""

from __future__ import annotations

import pytest

from tests.families.gemm.wgmma.conftest import contraction_of

TEXT = """
target: {target}
params: {{M: {m}, N: 72, K: {k}, X: {x}}}
arrays:
  A: {{shape: [{a}], dtype: {dtype}}}
  B: {{shape: [N, K], dtype: {dtype}}}
  C: {{shape: [M, X, N], dtype: {dtype}}}
compute: C[m, x, n] = sum(A[{reads}] * B[n, k], k)
"""


def product(
    m: object, x: object, k: int = 64, reads: str = "x, m, k", dtype: str = "bfloat16", target: str = "sm_80"
) -> str:
    return TEXT.format(m=m, x=x, k=k, a=reads.upper(), reads=reads, dtype=dtype, target=target)


@pytest.mark.parametrize(
    ("text", "m"),
    [
        pytest.param(product(1000, 2), "m", id="x is faster, and short"),
        pytest.param(product(1000, 128), "x", id="x is faster, and fills a tile"),
        pytest.param(product(8, 12), "x", id="x is longer"),
        pytest.param(product("dynamic", 12), "m", id="m may be long"),
        pytest.param(product(1000, 2) + "schedule: {block: {x: 2, n: 64}}\n", "x", id="x is scheduled"),
        pytest.param(product(1000, 128, reads="x, k, m"), "m", id="A is contiguous along m"),
        pytest.param(product(1000, 8, reads="m, k, x"), "m", id="A is contiguous along x, which is short"),
        pytest.param(product(1000, 40, reads="m, k, x"), "x", id="A is contiguous along x, which fills a part"),
    ],
)
def test_rows_are_along_an_index_that_fills_a_tile(text: str, m: str) -> None:
    assert contraction_of(text).m.name == m


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("dtype", "target"), [("bfloat16", "sm_80"), ("float32", "sm_80"), ("bfloat16", "sm_90a"), ("float64", "sm_90")]
)
@pytest.mark.parametrize("reads", ["x, m, k", "x, k, m"])
def test_a_short_index_between_the_rows_is_a_batch(made, prove, reads: str, dtype: str, target: str) -> None:
    """Tiles with two rows were left to `staged`, which reads B again for each of them."""
    text = product(200, 2, 136, reads, dtype, target)
    assert made(text).plan.kernels[-1].family in ("gemm", "wgmma")
    prove(text, races=True)
