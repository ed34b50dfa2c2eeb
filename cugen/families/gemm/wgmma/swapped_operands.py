"""A GEMM with swapped operands (swap_ab): C = A·B is computed as the transposed matrix of Bᵀ·Aᵀ.

    C[m, n] = sum(A[m, k] * B[k, n], k)
is the contraction whose M is n and whose N is m. The 64 rows of an instruction are columns of C then, and its N, any
multiple of 8, is a number of rows of C. No element moves: a K-major B is a K-major A of the instruction.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm.wgmma.config import WgmmaConfig


@lru_cache(maxsize=16)
def with_swapped_operands(contraction: Contraction) -> Contraction:
    """The contraction with M and N, and A and B, in each other's place."""
    return replace(
        contraction,
        m=contraction.n,
        n=contraction.m,
        a_operands=tuple(replace(operand, is_along_m=True) for operand in contraction.b_operands),
        b_operands=tuple(replace(operand, is_along_m=False) for operand in contraction.a_operands),
        is_swapped=not contraction.is_swapped,
    )


def as_computed(contraction: Contraction, config: WgmmaConfig) -> Contraction:
    """The contraction with the operands as a config has them."""
    return contraction if contraction.is_swapped == config.swaps_ab else with_swapped_operands(contraction)
