"""How many threads share a result of a reduction, and how much each has in flight: the schedule's, or by size."""

from __future__ import annotations

import math

from cugen.families.reduce.accumulate import together, wide_reads
from cugen.families.reduce.columns import ColumnShape, column_width
from cugen.families.reduce.recognition import Reduction, Stage
from cugen.families.reduce.rows import RowShape, row_width
from cugen.families.reduce.short_rows import ShortShape, is_stored_wide, short_shape
from cugen.plan.request import Tunable
from cugen.spec.expressions import Index, Read

WARP = 32
_FEW_ROWS = 1024  # below, a block for each row leaves threads without work unless it is as large as it gets
_COLUMN_THREADS = 256
_THREADS_OF_A_DEVICE = 4 * 132 * 2048  # several waves
_SHORT_COLUMN = 64  # elements; what is stored for them then matters beside what is read
_NARROW = 8  # threads along few columns: a line of memory
_MOST_ACROSS = 128
_SHARED_BYTES = 48 << 10  # of a block, for what the threads of a column hand on
_THREADS = Tunable(
    "threads",
    (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    "by length",
    "threads that share a row, by default up to 32 with two loads each, then eight; threads of a block along columns",
    reorders=True,
)
_ROWS = Tunable(
    "rows",
    (1, 2, 4, 8, 16, 32, 64, 128),
    "as fit",
    "rows of a block where a warp or less has each; the threads that share a column",
    reorders=True,
)
_VECTOR = Tunable(
    "vector",
    (1, 2, 4, 8, 16),
    "widest",
    "elements that a thread loads at once; by default as many as alignment allows",
    reorders=True,
)
_UNROLL = Tunable(
    "unroll", (1, 2, 4, 8, 16), "by width", "loads that a thread has in flight; by default 64 bytes", reorders=True
)
_PARTS = Tunable(
    "parts",
    (1, *(1 << n for n in range(1, 13))),
    "as fill the device",
    "parts of each result, which a second launch combines; by default 1 where the results fill the device",
    reorders=True,
)
TUNABLES = (_THREADS, _ROWS, _VECTOR, _UNROLL, _PARTS)

Shape = RowShape | ColumnShape | ShortShape


def shape_of(found: Reduction) -> Shape:
    if found.along:
        return _column_shape(found)
    short = None if found.request.schedule.tunables else short_shape(found)
    return short or _row_shape(found)


def count(found: Reduction, indices: tuple[Index, ...]) -> int:
    """The points of an index space, as many as there can be."""
    return math.prod(found.most(index) for index in indices)


def _row_shape(found: Reduction) -> RowShape:
    asked = dict(found.request.schedule.tunables)
    width = min(row_width(found, stage).count for stage in found.stages)
    width = min(width, int(asked.get("vector", width)))
    longest = max(found.most(stage.fastest) for stage in found.stages)
    while width > 1 and width > longest:
        width //= 2
    rows = count(found, found.kept)
    across = 1
    if "threads" in asked:
        threads = int(asked["threads"])
    elif int(asked.get("rows", 1)) > 1:
        threads = WARP
    else:
        vectors = -(-longest // width)
        threads = _lanes(vectors) if vectors <= 8 * WARP else _power_of_two(vectors // 8)
        threads = min(threads, 512)
        if rows < _FEW_ROWS and threads >= WARP:
            threads = min(_power_of_two(max(vectors, WARP)), 1024)
        outer = max((found.most(index) for stage in found.stages for index in stage.indices[:-1]), default=1)
        if outer > 1:
            across = min(_power_of_two(outer), max(256 // threads, 1))
    teams = 1
    if threads <= WARP and across == 1 and found.kept:
        teams = min(256 // threads, _power_of_two(found.most(found.kept[0])))
        teams = int(asked.get("rows", teams))
    return RowShape(threads, across, teams, width, int(asked.get("unroll", _unroll(found, width))))


def _lanes(vectors: int) -> int:
    """Lanes for a short row: each has two vectors where that leaves no lane without work, else three."""
    each = 2 if vectors == _power_of_two(vectors) else 3
    return min(max(_power_of_two(vectors // each + 1) // 2, 1), WARP)


def _column_shape(found: Reduction) -> ColumnShape:
    asked = dict(found.request.schedule.tunables)
    (columns,) = (found.most(index) for index in found.kept if index.name == found.along)
    longest = max(count(found, stage.indices) for stage in found.stages)
    width = column_width(found).count
    if longest < _SHORT_COLUMN:
        width = min(width, max(16 // _result_bytes(found), 1))
    elif _least_bytes(found) == 1:
        width = min(width, 4)  # more running values would leave room for fewer threads
    width = min(width, int(asked.get("vector", width)))
    slots, results = -(-columns // width), -(-count(found, found.kept) // width)
    threads = _columns_of_a_block(slots, results, longest, width * _least_bytes(found))
    threads = int(asked.get("threads", threads))
    across = int(asked.get("rows", _threads_of_a_column(found, threads, results, longest, width)))
    if across == 1 and "threads" not in asked:
        threads = max(threads, min(_power_of_two(slots), _COLUMN_THREADS))
    unroll = min(
        _unroll(found, width), 4 if threads == slots else 8
    )  # more loads from more rows at once slow memory down
    return ColumnShape(threads, across, width, int(asked.get("unroll", unroll)))


def _columns_of_a_block(slots: int, results: int, longest: int, bytes_: int) -> int:
    """Threads along the columns: all of few columns, so that none is left without work. Of many, as many as read 512
    neighbouring bytes, narrow ones 1024, since what lies beside them is read by others, at other times."""
    if slots <= 64 and slots * _whole_warps(slots) <= _COLUMN_THREADS:
        threads = max(slots, 1)
    else:
        threads = min((512 if bytes_ > 4 else 1024) // bytes_, 256)
    return min(threads, _NARROW) if _is_narrow(results, longest) else threads


def _is_narrow(results: int, longest: int) -> bool:
    """Whether blocks are better narrow than few."""
    return results < 132 * WARP and longest >= 2 * _MOST_ACROSS


def _threads_of_a_column(found: Reduction, threads: int, results: int, longest: int, width: int) -> int:
    """As many as fill the device, with several loads for each."""
    most = min(_MOST_ACROSS if _is_narrow(results, longest) else WARP, 1024 // threads)
    most = min(most, _SHARED_BYTES // (threads * width * _running_bytes(found)))
    across = _whole_warps(threads)
    while 2 * across <= most and (
        (longest >= 16 * across and results * across < _THREADS_OF_A_DEVICE)
        or (longest >= 2 * across and threads * across < _COLUMN_THREADS)
    ):
        across *= 2
    return across if longest >= 2 * across or across > most else 1


def _whole_warps(threads: int) -> int:
    """Rows of so many threads that make up whole warps."""
    return WARP // math.gcd(threads, WARP)


def _unroll(found: Reduction, width: int) -> int:
    """Loads of a thread that are in flight together: 64 bytes."""
    return min(max(64 // (width * _least_bytes(found)), 4), 16)


def _least_bytes(found: Reduction) -> int:
    return min(found.arrays[read.array].dtype.bytes for stage in found.stages for read in stage.reads)


def _running_bytes(found: Reduction) -> int:
    """What one thread hands to others for each of its columns."""
    return max(
        sum(r.dtype.bytes + (r.body.dtype.bytes if r.kind in ("argmax", "argmin") else 0) for r in stage.reductions)
        for stage in found.stages
    )


def _result_bytes(found: Reduction) -> int:
    return max(found.arrays[statement.target].dtype.bytes for statement in found.request.group.statements)


def aligned(found: Reduction, shape: Shape) -> tuple[tuple[str, int], ...]:
    """The bytes by which arrays must be aligned for wide accesses."""
    if shape.width == 1:
        return ()
    bytes_: dict[str, int] = {}
    for stage in found.stages:
        reads = stage.reads if isinstance(shape, ShortShape) else _loaded_wide(found, stage, shape.width)
        bytes_.update({read.array: shape.width * found.arrays[read.array].dtype.bytes for read in reads})
    if isinstance(shape, ShortShape):
        targets = [found.arrays[statement.target] for statement in found.request.group.statements]
        bytes_.update({t.name: shape.rows * t.dtype.bytes for t in targets if is_stored_wide(t, shape)})
    arrays = found.request.context.spec.arrays
    return tuple((a.name, bytes_[a.name]) for a in arrays if a.name in bytes_ and not a.is_temporary)


def _loaded_wide(found: Reduction, stage: Stage, width: int) -> tuple[Read, ...]:
    return wide_reads(found, stage, found.along) if found.along else together(found, stage, width)


def reasons(found: Reduction, shape: Shape) -> tuple[str, ...]:
    if isinstance(shape, ColumnShape):
        share = f"{shape.across} threads share each column" if shape.across > 1 else "a thread has whole columns"
        return (f"{share}, {shape.width} neighbours along {found.along} in each", column_width(found).reason)
    along = found.stages[0].fastest.name
    if isinstance(shape, ShortShape):
        loads = f"{shape.rows} rows of {shape.length} elements in each thread, loaded as {shape.vectors} vectors"
        return (loads, f"a row along {along} alone would fill no vector")
    threads = shape.threads * shape.across
    who = f"{threads} threads share each result" if threads > 1 else "a thread has each result"
    text = f"{who} and read {shape.width} neighbours along {along} at a time"
    return (text, row_width(found, found.stages[0]).reason)


def _power_of_two(count: int) -> int:
    """The least power of two that covers `count`."""
    return 1 << max(count - 1, 0).bit_length()
