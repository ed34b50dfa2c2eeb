"""How a row is laid over threads: how many share it, how wide their accesses are, and where its elements wait."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from cugen.families.rowwise.passes.schedule import Keep, costs, live, plan_sweeps, reduction_levels, successors
from cugen.families.rowwise.passes.storage_levels import MEMORY, REGISTERS, SHARED, Tier
from cugen.families.rowwise.statements.recognition import RowWork
from cugen.pieces.vectors import WIDEST, Width, divisor, is_contiguous, widest
from cugen.plan.memory import Array
from cugen.plan.request import Request, Tunable
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import bounds
from cugen.spec.expressions import Expr, Read, children, free_indices, walk
from cugen.spec.types import DType

_BLOCK = 128  # threads of a block where several rows share one
_ACCESSES = 2  # of a thread to a row, at least, until a row takes 256 threads
_NARROW = 8  # elements that one access moves, from which their types are narrow
_EACH = 8  # elements of a thread, at least
_NEIGHBOURS = 32  # rows side by side in a block
_DEEP = 16  # elements of a thread whose neighbours have neighbouring rows
_FLOATS = 4  # values of 32 bits that one access moves
_MOST = 32  # elements of a thread beyond that; 1024 threads have 64 registers each
_BESIDE = 24  # elements of a thread in registers where it has others in shared memory
_BESIDE_MORE = 16  # and where it reads more anew
_LIKELY = 4096  # elements of a row of any length that get a place; beyond, they are read anew
_FEW = 32  # blocks that leave most of a device idle
_LONG = 1 << 16  # elements of a row for which that matters
_ALONE = 1 << 15  # registers for a row that one block has; beyond, the blocks of a cluster share it where there are any
_SHARE = 1 << 14  # of these in each block then: two blocks of 512 threads with 64 registers fill a multiprocessor
_NARROW_SHARE = 1 << 15  # of narrow types, most of them in shared memory: half as many bytes need twice the elements
_CLUSTERS = (2, 4, 8)
_PLACES = ("argmax", "argmin")
_IN_MEMORY = ("global", "readonly")

THREADS = Tunable(
    "threads",
    (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    "by length",
    "threads that share a row; by default as many as leave each 8 or 16 elements, or 32 of a long row",
    reorders=True,
)
ROWS = Tunable(
    "rows", (1, 2, 4, 8, 16, 32, 64, 128), "as fit", "rows of a block; by default as many as give 128 threads"
)
REGISTER_ELEMENTS = Tunable(
    "registers",
    (0, 8, 16, 24, 32, 40, 48, 64),
    "as fit",
    "values of a row that a thread keeps in registers, the rest waits in shared memory; by default up to 64, or 24",
)
CLUSTER = Tunable(
    "cluster",
    (1, *_CLUSTERS),
    "by length",
    "blocks that share a row, from sm_90 on; by default as many as leave each 16384 values of a row of more than "
    "32768, or 32768 of a narrow type",
    reorders=True,
)


@dataclass(frozen=True, slots=True)
class Shape:
    """`threads` share each of a block's `rows`, with `width` neighbours an access. `tiers` are the parts of a row by
    where they wait. `across` names the index of the rows that are neighbours in memory, where elements of a row
    aren't. `cluster` blocks share each row."""

    threads: int
    rows: int
    width: Width
    tiers: tuple[Tier, ...]
    across: str = ""
    cluster: int = 1
    minimum_blocks: int = 0  # that a multiprocessor must have registers for

    @property
    def stride(self) -> int:
        """Elements that all who share a row take side by side."""
        return self.threads * self.width.count * self.cluster


def choose_shape(request: Request, work: RowWork) -> Shape:
    """The shape that the schedule asks for, or else by the length of the rows."""
    context = request.context
    (column,) = work.domain.columns
    shortest, longest = bounds(to_integer(column.extent, context.symbols), dict(context.ranges))
    is_known = longest <= max(_LONG, 4 * shortest)
    likely = max(longest if is_known else _LIKELY, 1)
    width = _width(request, work)
    across = _across(work)
    asked = {name: int(value) for name, value in request.schedule.tunables}
    rows = asked.get("rows", _NEIGHBOURS if across else 0)
    cluster = asked.get("cluster", 1 if across or rows > 1 else _cluster(request, work, shortest, likely, width.count))
    likely = -(-likely // cluster)
    threads = (
        min(_power_of_two(-(-likely // _DEEP)), 1024 // rows)
        if across
        else _threads(likely, width.count, costs=costs(work.outputs, column.name))
    )
    threads = asked.get("threads", threads)
    if "rows" not in asked:
        rows = max(rows, 1, 1 if cluster > 1 else _BLOCK // threads)
    slots = -(-likely // (threads * width.count))
    tiers = _tiers(request, work, threads * rows, width.count, slots)
    if width.count > _FLOATS and tiers[-1].place == SHARED and _takes_places(work, as_computed=True):
        # Values as computed spare a second computation, and two blocks a multiprocessor if that leaves room.
        waiting = (likely - threads * _BESIDE) * WIDEST // _FLOATS
        wider = threads if "threads" in asked or 2 * waiting <= request.target.shared_opt_in else 1024
        slots = -(-likely // (wider * _FLOATS))
        found = _tiers(request, work, wider * rows, _FLOATS, slots)
        if found[-1].as_computed:
            threads, tiers = wider, found
            width = Width(_FLOATS, f"{_FLOATS} elements as computed are {WIDEST} bytes in shared memory")
    if not is_known and tiers[-1].is_kept:
        sweeps = plan_sweeps(work.outputs, frozenset((column.name,)), Keep.NOTHING)
        tiers = (*tiers, Tier(MEMORY, tiers[-1].start + tiers[-1].slots, 0, sweeps))
    minimum = 0
    if cluster > 1 and threads < 1024 and len(tiers) == 1 and tiers[0].slots * width.count * _words(work) <= _MOST:
        minimum = 1024 // threads
    return Shape(threads, rows, width, tiers, across, cluster, minimum)


def _cluster(request: Request, work: RowWork, shortest: int, likely: int, width: int) -> int:
    """How many blocks share a row: one that held a long row would be alone on its multiprocessor, where its loads
    wait for its stores."""
    words, share = _words(work), _NARROW_SHARE if width >= _NARROW else _SHARE
    if not request.target.has_clusters or shortest * words <= _ALONE:
        return 1
    return next((count for count in _CLUSTERS if likely * words <= count * share), _CLUSTERS[-1])


def _words(work: RowWork) -> int:
    """The registers that what is kept of an element takes."""
    (column,) = work.domain.columns
    sweeps = plan_sweeps(work.outputs, frozenset((column.name,)), Keep.ALL)
    bits = max((expr.dtype.compute.bits for sweep in sweeps for expr in sweep.computed), default=0)
    return live(sweeps) * -(-bits // 32)


def is_few(request: Request, work: RowWork) -> bool:
    """Whether most of the device would idle for long, were each row for one block."""
    ranges, symbols = dict(request.context.ranges), request.context.symbols
    rows = math.prod(bounds(to_integer(index.extent, symbols), ranges)[1] for index in work.domain.rows)
    (column,) = work.domain.columns
    longest = bounds(to_integer(column.extent, symbols), ranges)[1]
    shape = choose_shape(request, work)
    blocks = -(-rows // shape.rows) * (shape.cluster if shape.tiers[-1].is_kept else 1)
    return blocks <= _FEW and longest >= _LONG and request.schedule.family != "rowwise"


def _tiers(request: Request, work: RowWork, threads: int, width: int, slots: int) -> tuple[Tier, ...]:
    """Registers first, then shared memory, as far as a block has them; what is left is read anew in each sweep."""
    (column,) = work.domain.columns
    sweeps = {keep: plan_sweeps(work.outputs, frozenset((column.name,)), keep) for keep in Keep}
    asked = {name: int(value) for name, value in request.schedule.tunables}
    budget = asked.get("registers", 2 * _MOST if threads < 512 else _MOST + 8)
    each = max(live(sweeps[Keep.ALL]), 1) * width
    if slots * each <= budget:
        return (Tier(REGISTERS, 0, slots, sweeps[Keep.ALL]),)
    if not live(sweeps[Keep.LOADED]):
        return (Tier(MEMORY, 0, 0, sweeps[Keep.NOTHING]),)
    held = min(asked.get("registers", _BESIDE) // each, slots)
    free, kept = request.target.shared_opt_in - _result_bytes(work, threads), sweeps[Keep.LOADED][0].computed
    room = free // (threads * width * sum(expr.dtype.bytes for expr in kept))
    as_computed = held + room >= slots and _takes_places(work, as_computed=True)
    as_computed = as_computed and all(width * expr.dtype.bytes <= WIDEST for expr in kept)
    if not as_computed:
        room = free // (threads * width * sum(stored_type(expr, work).bytes for expr in kept))
    if held + room < slots and "registers" not in asked:
        held = min(_BESIDE_MORE // each, slots)  # loops over the rest need registers
    shared = min(room, slots - held)
    in_shared = sweeps[Keep.ALL if _takes_places(work, as_computed=as_computed) else Keep.LOADED]
    tiers = [Tier(REGISTERS, 0, held, sweeps[Keep.ALL]), Tier(SHARED, held, shared, in_shared, as_computed)]
    if held + shared < slots:
        tiers.append(Tier(MEMORY, held + shared, 0, sweeps[Keep.NOTHING]))
    return tuple(tier for tier in tiers if tier.slots or not tier.is_kept)


def _result_bytes(work: RowWork, threads: int) -> int:
    """The most shared memory in which the threads of a block combine all that rows are reduced to."""
    reductions = [reduction for level in reduction_levels(work.outputs) for reduction in level]
    return sum(threads * (r.dtype.bytes + r.body.dtype.bytes * (r.kind in _PLACES)) for r in reductions)


def _takes_places(work: RowWork, *, as_computed: bool) -> bool:
    """Whether in shared memory each costly value can take the place of one that isn't needed any more."""
    (column,) = work.domain.columns
    sweeps = plan_sweeps(work.outputs, frozenset((column.name,)), Keep.ALL)
    later = any(sweep.computed for sweep in sweeps[1:])
    heirs = successors(sweeps, lambda expr: expr.dtype if as_computed else stored_type(expr, work))
    return bool(later and heirs)


def stored_type(expr: Expr, work: RowWork) -> DType:
    """The type of a kept value in shared memory: as stored where it is only read, else as computed."""
    return work.arrays[expr.array].dtype if isinstance(expr, Read) else expr.dtype


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


def _threads(longest: int, width: int, *, costs: bool) -> int:
    """As many as leave each a few elements; of a long row, the most that registers hold. Where half as many leave
    fewer of them idle, these."""
    # So many elements in so few bytes keep a block computing: several blocks have to take turns.
    is_narrow = width >= _NARROW
    each = max(_EACH, width * _ACCESSES * (2 if is_narrow else 1))
    if longest > 256 * each:
        most = 512 if is_narrow and longest <= (_LONG if costs else _LONG // 2) else 1024
        return min(most, max(256, _power_of_two(-(-longest // _MOST))))
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
    if array.space not in _IN_MEMORY or any(isinstance(n, Read) for sub in subscripts for n in walk(sub)):
        return False
    return is_contiguous(array, subscripts, along) and sum(along in free_indices(sub) for sub in subscripts) == 1


def reads_vector(expr: Expr, work: RowWork, width: int) -> bool:
    """Whether one access reads the thread's `width` neighbours at once."""
    return (
        width > 1
        and isinstance(expr, Read)
        and expr.boundary is None
        and is_vector(work.arrays[expr.array], expr.subscripts, work.domain.columns[0].name)
    )


def _reads(expr: Expr) -> Iterator[Read]:
    if isinstance(expr, Read):
        if expr.boundary is None:
            yield expr
        return
    for child in children(expr):
        yield from _reads(child)


def _power_of_two(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()
