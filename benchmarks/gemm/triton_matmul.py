"""Triton GEMM as a user would write it, in float32 without TensorFloat-32, autotuned over a few block sizes."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=warps, num_stages=stages)
    for m, n, k, warps, stages in (
        (32, 64, 32, 4, 3),
        (64, 64, 16, 4, 3),
        (64, 128, 16, 8, 3),
        (128, 64, 16, 8, 3),
        (128, 128, 16, 8, 3),
    )
]


@triton.autotune(configs=_CONFIGS, key=["M", "N", "K"])
@triton.jit
def _product(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    block = tl.program_id(0)
    columns = tl.cdiv(N, BLOCK_N)
    group = block // (8 * columns)
    rows_of_group = min(tl.cdiv(M, BLOCK_M) - group * 8, 8)
    m = (group * 8 + block % (8 * columns) % rows_of_group) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = (block % (8 * columns) // rows_of_group) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        left = tl.load(a + m[:, None] * K + start + k[None, :], (m[:, None] < M) & (start + k[None, :] < K), 0.0)
        right = tl.load(b + (start + k[:, None]) * N + n[None, :], (start + k[:, None] < K) & (n[None, :] < N), 0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(c + m[:, None] * N + n[None, :], total, (m[:, None] < M) & (n[None, :] < N))


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Multiplies two contiguous float32 matrices."""
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)

    def blocks(chosen: dict[str, int]) -> tuple[int]:
        return (triton.cdiv(m, chosen["BLOCK_M"]) * triton.cdiv(n, chosen["BLOCK_N"]),)

    _product[blocks](a, b, c, m, n, k)
    return c
