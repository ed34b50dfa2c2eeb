"""Which index of a contraction is M, which N, and which operands are A and B."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cugen.families.contraction.subscripts import bare_indices, tile_indices
from cugen.families.contraction.windows import Window
from cugen.pieces.grid import fastest_first
from cugen.pieces.vectors import is_contiguous
from cugen.plan.request import Refusal, Request
from cugen.spec.expressions import Index, Read, free_indices

_TILE_ROWS = 128  # of a large tile
_MIN_ROWS_RATIO = 4  # of rows of a tile in use, which outweighs that its operand is read across rows (heuristic)


@dataclass(frozen=True, slots=True)
class Axes:
    """The output indices by their part in the contraction, and the reads of each side.

    `batch` has the fastest index first. `a_reads` move along M and K, `b_reads` along N and K."""

    m: Index
    n: Index
    batch: tuple[Index, ...]
    a_reads: tuple[Read, ...]
    b_reads: tuple[Read, ...]


def axes_of(request: Request, reads: tuple[Read, ...], k: Index, windows: Mapping[Read, Window]) -> Axes | Refusal:
    """M is an index that all operands on one side have and none on the other, N the fastest that some operand lacks."""
    order = fastest_first(request)
    broadcast = [i.name for i in order if not any(i.name in free_indices(read) for read in reads)]
    if broadcast:
        return Refusal(f"takes output indices on which an operand depends; none depends on {broadcast[0]}")
    matrices = tuple(read for read in reads if read not in windows)
    free = [index for index in order if _is_plain(index.name, matrices)]
    n = next((i for i in free if not all(i.name in tile_indices(read, windows) for read in reads)), None)
    a_reads = tuple(read for read in reads if n and n.name not in tile_indices(read, windows))
    b_reads = tuple(read for read in reads if read not in a_reads)
    rows = [i for i in free if all((i.name in tile_indices(read, windows)) == (read in a_reads) for read in reads)]
    m = rows[0] if windows and rows else _long_rows(request, rows, a_reads, k)
    if n is None or m is None:
        return Refusal("takes an M index that only the A operands have and an N index that only the B operands have")
    return Axes(m, n, tuple(index for index in order if index not in (m, n)), a_reads, b_reads)


def _long_rows(request: Request, candidates: list[Index], a_reads: tuple[Read, ...], k: Index) -> Index | None:
    """The M of several indices that only the A operands have; the others are a batch:

        C[i, m, n] = sum(A[m, i, k] * B[k, n], k)
    has tiles whose rows are along i or along m, and a short M leaves rows of a tile unused. It is the one that the
    schedule has a size for, else the fastest of those that have the rows of a large tile, else the longest. A is
    contiguous along it, or along K, unless that leaves more of a tile unused than its copies are slower otherwise."""
    schedule = request.schedule
    scheduled = {name for name, _ in (*schedule.block, *schedule.thread)}
    if requested := next((index for index in candidates if index.name in scheduled), None):
        return requested

    def is_read_in_rows(index: Index) -> bool:
        reads = ((request.context.arrays[read.array], read.subscripts) for read in a_reads)
        return all(any(is_contiguous(*read, name) for name in (index.name, k.name)) for read in reads)

    def used_rows(index: Index) -> int:
        return min(request.context.planned_extent(index), _TILE_ROWS)

    longest = max(candidates, key=used_rows, default=None)
    in_rows = max(filter(is_read_in_rows, candidates), key=used_rows, default=None)
    if in_rows is None:
        return candidates[0] if candidates else None
    return longest if longest and used_rows(longest) >= _MIN_ROWS_RATIO * used_rows(in_rows) else in_rows


def _is_plain(name: str, reads: Sequence[Read]) -> bool:
    """Whether the index is at most one bare subscript of each operand, and in no compound one."""
    mentions = ([name in free_indices(sub) for sub in read.subscripts].count(True) for read in reads)
    return all(bare_indices(read).count(name) == count <= 1 for read, count in zip(reads, mentions, strict=True))
