"""Clusters of a GEMM by wgmma: blocks that split K, or share tiles of an operand."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from cugen.families.contraction.contraction import Contraction, Operand
from cugen.families.gemm.problem import device_of, problem_of
from cugen.families.gemm.wgmma.config import MULTICASTS, STMATRIX
from cugen.families.gemm.wgmma.operands.pixels import k_tiles_of
from cugen.machine.wgmma import SWIZZLE_PERIOD_ROWS, SWIZZLED_ROW_BYTES, WgmmaInstruction
from cugen.plan.request import Refusal

_MIN_K_TILES = 4  # of a block that splits K: fewer are copied before the partial sums are exchanged (heuristic)
CLUSTER_SIZES = (2, 4, 8)  # of split-K
MULTICAST_SIZES = (2, 4)


def clusters_of(
    contraction: Contraction, block_m: int, block_n: int, instruction: WgmmaInstruction
) -> Iterator[tuple[int, int, int]]:
    """The clusters of a block tile: blocks that split K, blocks that share tiles of B, and blocks that share tiles of
    A. With a request for one of the latter the other is 1."""
    along_m, along_n = (int(contraction.tunables.get(name, 0)) for name in multicasts(contraction))
    max_extent = contraction.context.max_extent

    def may_share(multicast: int, multicast_n: int) -> bool:
        """Of clusters that nobody requested more than half of the blocks along M, or N, have a tile."""
        has_rows = along_m == multicast or (not along_m and max_extent(contraction.m) > multicast // 2 * block_m)
        has_columns = along_n == multicast_n or (not along_n and max_extent(contraction.n) > multicast_n // 2 * block_n)
        shares_b = multicast == 1 or _may_share(contraction.b_operands, block_n, multicast, contraction)
        shares_a = multicast_n == 1 or _may_share(contraction.a_operands, block_m, multicast_n, contraction)
        return has_rows and has_columns and shares_a and shares_b

    shared = [(size, 1) for size in MULTICAST_SIZES] + [(1, size) for size in MULTICAST_SIZES]
    if (along_m > 1) == (along_n > 1):
        shared += [(m, n) for m, n in product(MULTICAST_SIZES, MULTICAST_SIZES) if m * n <= CLUSTER_SIZES[-1]]
    for split_k in _splits(contraction, block_m, block_n, instruction):
        if along_m <= 1 and along_n <= 1:
            yield split_k, 1, 1
        if split_k == 1:
            yield from ((1, *cluster) for cluster in shared if may_share(*cluster))


def multicasts(contraction: Contraction) -> tuple[str, str]:
    """The tunables by which blocks along m share tiles, and by which those along n do: their names are about M and N
    of the spec."""
    of_b, of_a = MULTICASTS
    return (of_a, of_b) if contraction.is_swapped else (of_b, of_a)


def _may_share(operands: tuple[Operand, ...], extent: int, size: int, contraction: Contraction) -> bool:
    """Whether so many blocks can each copy an equal part of an operand's tile of so many rows or columns. Pixels of
    images aren't copied for other blocks."""
    (operand,) = operands
    if operand.window is not None:
        return False
    unit = SWIZZLE_PERIOD_ROWS if operand.is_k_major else SWIZZLED_ROW_BYTES // operand.array.dtype.bytes
    return contraction.context.max_extent(operand.mn) >= extent and extent % (size * unit) == 0


def _splits(contraction: Contraction, block_m: int, block_n: int, instruction: WgmmaInstruction) -> Iterator[int]:
    """The requested number of blocks that split K, or those that leave multiprocessors with work and k-tiles."""
    if "split_k" in contraction.tunables:
        yield int(contraction.tunables["split_k"])
        return
    yield 1
    if (
        contraction.is_swapped or contraction.tunables.get("epilogue") == STMATRIX
    ):  # partial sums are reduced from registers
        return
    problem, sms = problem_of(contraction), device_of(contraction.request.target).sms
    tiles = -(-problem.m // block_m) * -(-problem.n // block_n) * problem.batch
    k = contraction.context.static_extent(contraction.k)
    if k is None:
        return
    k_tiles = k_tiles_of(contraction, k, SWIZZLED_ROW_BYTES // instruction.element_bytes)
    yield from (count for count in CLUSTER_SIZES if tiles * count <= sms and k_tiles >= _MIN_K_TILES * count)


def refused_multicast(contraction: Contraction) -> Refusal:
    """Why no cluster shares the tiles that the schedule requests."""
    along_m, along_n = (int(contraction.tunables.get(name, 1)) > 1 for name in multicasts(contraction))
    name = multicasts(contraction)[along_n]
    if along_m and along_n:
        parts = f"clusters of up to {CLUSTER_SIZES[-1]} blocks, by equal parts of whole swizzled rows"
        return Refusal(f"shares tiles of B and of A in {parts}", f"schedule.{name}")
    key = f"schedule.{name}"
    (operand,) = contraction.a_operands if along_n else contraction.b_operands
    if operand.window is not None:
        return Refusal(f"shares tiles of matrices, and {operand.read.array} has images", key)
    shared, parts = "BA"[MULTICASTS.index(name)], "by equal parts of whole swizzled rows"
    text = f"shares tiles of {shared} in clusters that don't split K, {parts} inside {operand.mn.name}"
    return Refusal(text, key)
