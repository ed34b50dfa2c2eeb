"""How a row is laid over threads: how many share it, how wide their accesses are, and where its elements wait."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cugen.families.base import Request, Tunable
from cugen.families.row_sweeps import Sweep, live, plan_sweeps
from cugen.families.rows import RowWork
from cugen.families.vectors import Width, divisor, is_contiguous, widest
from cugen.plan.ir import Array
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import bounds
from cugen.spec.expressions import Expr, Read, children, free_indices

_BLOCK = 128  # threads of a block where several rows share one
_ACCESSES = 2  # of a thread to a row, at least, until a row takes 256 threads
_EACH = 8  # elements of a thread, at least
_NEIGHBOURS = 32  # rows side by side in a block
_DEEP = 16  # elements of a thread whose neighbours have neighbouring rows
_MOST = 32  # elements of a thread beyond that; 1024 threads have 64 registers each
_IN_MEMORY = ("global", "readonly")

THREADS = Tunable(
    "threads",
    (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    "by length",
    "threads that share a row; by default as many as leave each 8 or 16 elements, or 32 of a long row",
)
ROWS = Tunable(
    "rows", (1, 2, 4, 8, 16, 32, 64, 128), "as fit", "rows of a block; by default as many as give 128 threads"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """`threads` share each of a block's `rows`, with `width` neighbours an access. `slots` accesses make up a row
    that waits in registers; 0 where it is read anew in each sweep. `across` names the index of the rows that are
    neighbours in memory, where elements of a row aren't."""

    threads: int
    rows: int
    width: Width
    slots: int
    across: str = ""

    @property
    def stride(self) -> int:
        """Elements that the team takes side by side."""
        return self.threads * self.width.count


def choose_shape(request: Request, work: RowWork) -> tuple[Shape, tuple[Sweep, ...]]:
    """The shape that the schedule asks for, or else by the length of the rows; and the sweeps that go with it."""
    context, outputs = request.context, work.outputs
    (column,) = work.domain.columns
    extent = to_integer(column.extent, context.symbols)
    longest = max(bounds(extent, dict(context.ranges))[1], 1)
    width = _width(request, work)
    across = _across(work)
    asked = dict(request.schedule.tunables)
    sweeps = plan_sweeps(outputs, frozenset((column.name,)), keep=True)
    kept = max(live(sweeps), 1)
    rows = int(asked["rows"]) if "rows" in asked else _NEIGHBOURS if across else 0
    if "threads" in asked:
        threads = int(asked["threads"])
    elif across:
        threads = min(_power_of_two(-(-longest // _DEEP)), 1024 // rows)
    else:
        threads = _threads(longest, width.count)
    rows = rows or max(1, _BLOCK // threads)
    if across and "rows" not in asked:
        rows = max(rows, _BLOCK // threads)
    slots = -(-longest // (threads * width.count))
    registers = slots * width.count * kept
    if registers > (_MOST + 8 if threads * rows > 512 else 2 * _MOST):
        return Shape(threads, rows, width, 0, across), plan_sweeps(outputs, frozenset((column.name,)), keep=False)
    return Shape(threads, rows, width, slots, across), sweeps


def _across(work: RowWork) -> str:
    """The index of rows along which more of what moves is contiguous than along the rows themselves."""
    (column,) = work.domain.columns
    places = [(o.target, o.subscripts) for o in work.outputs if o.wide]
    places += [(read.array, read.subscripts) for o in work.outputs for read in _reads(o.value)]
    counts = {}
    for index in (column, *reversed(work.domain.rows)):
        moving = [(array, subs) for array, subs in places if any(column.name in free_indices(sub) for sub in subs)]
        counts[index.name] = sum(is_contiguous(work.arrays[array], subs, index.name) for array, subs in moving)
    best = max(counts, key=lambda name: counts[name])
    return best if best != column.name else ""


def _threads(longest: int, width: int) -> int:
    """As many as leave each a few elements; of a long row, the most that registers hold. Where half as many leave
    fewer of them idle, these."""
    each = max(_EACH, width * _ACCESSES)
    if longest > 256 * each:
        return min(1024, max(256, _power_of_two(-(-longest // _MOST))))
    threads = _power_of_two(-(-longest // each))
    padded = [-(-longest // (count * width)) * count * width for count in (threads, threads // 2) if count]
    return threads if min(padded) == padded[0] else threads // 2


def _width(request: Request, work: RowWork) -> Width:
    """The widest access that alignment allows everywhere."""
    context, outputs = request.context, work.outputs
    (column,) = work.domain.columns
    places = [(read.array, read.subscripts) for output in outputs for read in _reads(output.value)]
    places += [(output.target, output.subscripts) for output in outputs if output.wide]
    found = [
        widest(work.arrays[array], subscripts, column.name, context)
        for array, subscripts in places
        if is_vector(work.arrays[array], subscripts, column.name)
    ]
    if not found:
        return Width(1, f"nothing is contiguous along {column.name}")
    width = min(found, key=lambda one: one.count)
    count = width.count
    sure = divisor(to_integer(column.extent, context.symbols), context)
    while sure % count:
        count //= 2
    return width if count == width.count else Width(count, f"the length of a row is surely a multiple of {count} only")


def is_vector(array: Array, subscripts: tuple[Expr, ...], along: str) -> bool:
    """Whether neighbours along the row are neighbours in memory, at places that indices alone say."""
    if array.space not in _IN_MEMORY or any(isinstance(n, Read) for sub in subscripts for n in children(sub)):
        return False
    return is_contiguous(array, subscripts, along) and sum(along in free_indices(sub) for sub in subscripts) == 1


def _reads(expr: Expr) -> Iterator[Read]:
    if isinstance(expr, Read):
        if expr.boundary is None:
            yield expr
        return
    for child in children(expr):
        yield from _reads(child)


def _power_of_two(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()
