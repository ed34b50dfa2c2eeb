"""How many threads share a scan, and how much of it each has at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from cugen.families.scan.columns import Strips
from cugen.families.scan.recognition import Work
from cugen.families.scan.rows import Team
from cugen.families.scan.segments import Segments
from cugen.pieces.vectors import WIDEST
from cugen.plan.request import Refusal, Request, Tunable
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import bounds
from cugen.spec import expressions as spec

_LONG = 1 << 22  # elements; of fewer, two launches without flags are faster on an H200
_WARP = 32
_BLOCK = 256
_ENOUGH = 65_536  # so many threads with several vectors each keep the memory of a device busy
_MOST_STRIPS = 64
_FEW_STEPS = 1024  # vectors of a row up to which a block takes few steps
_ELEMENTS = 64  # of a thread that has columns
_FULL = 1024  # so many blocks fill a device several times
_MANY_ROWS = 80  # so many blocks keep a device busier than three launches would
_MANY_NARROW_ROWS = 200  # the same of elements that take more computing for their bytes
_LONG_ROW = 131_072  # bytes of a row; for fewer, another launch takes longer
_SEGMENTS = 256  # of a row, where that makes them neither short nor long
_SHORTEST_SEGMENT, _SEGMENT, _LONGEST_SEGMENT = 8_192, 32_768, 65_536  # bytes
_LONG_COLUMN = 1024  # elements of a column's segment
_LINE = 128  # bytes of a line in memory
_BYTES = 128  # of a thread that looks back
_RESIDENT = 1024  # threads of a multiprocessor that have room for so many

THREADS = Tunable(
    "threads",
    (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    "by length",
    "threads that share a row, or that have neighbouring columns",
    reorders=True,
)
ROWS = Tunable("rows", (1, 2, 4, 8, 16, 32, 64), "as fit", "rows of a block, where a warp or less has each")
STRIPS = Tunable(
    "strips",
    (1, 2, 4, 8, 16, 32, 64, 128),
    "as needed",
    "threads that follow each other along columns and share them",
    reorders=True,
)
VECTORS = Tunable(
    "vectors", (1, 2, 4, 8, 16), "by length", "vectors that a thread has in flight at a time", reorders=True
)
HOW = Tunable(
    "how",
    ("passes", "look_back"),
    "by length",
    "whether a few long rows take several launches, or one whose blocks wait for what those before them combine to",
    reorders=True,
)
TUNABLES = (THREADS, ROWS, STRIPS, VECTORS, HOW)


def size_refusals(work: Work) -> Iterator[Refusal]:
    """What a schedule asks for and can't have."""
    request, asked = work.request, dict(work.request.schedule.tunables)
    if work.is_row and "strips" in asked:
        yield Refusal(f"{work.along.name} runs along rows, and strips are of columns", "schedule.strips")
    if not work.is_row and "rows" in asked:
        yield Refusal(f"{work.along.name} runs along columns: it has strips, no rows", "schedule.rows")
    if asked.get("how") == "look_back" and (reason := _why_not_back(work)):
        yield Refusal(reason, "schedule.how")
    if looks_back(work):
        team = look_back_team(work)
        if team.threads <= _WARP:
            yield Refusal("blocks that look back have several warps", "schedule.threads")
        if "rows" in asked:
            yield Refusal("blocks that look back have one row", "schedule.rows")
    elif work.is_row:
        team = team_of(work)
        if work.segments is not None and work.segments.length % team.step:
            yield Refusal(f"steps of {team.step} don't divide a segment of {work.segments.length}", "schedule.threads")
        if team.threads > _WARP and team.rows > 1:
            yield Refusal("a block has several rows only where a warp or less has each", "schedule.rows")
    x, y = block_of(work)
    if x * y > request.target.threads_per_block:
        key = next((key for key in ("strips", "rows", "threads") if key in asked), "threads")
        reason = f"a block of {x} x {y} threads; {request.target.name} allows {request.target.threads_per_block}"
        yield Refusal(reason, f"schedule.{key}")


def block_of(work: Work) -> tuple[int, int]:
    if work.is_row:
        team = look_back_team(work) if looks_back(work) else team_of(work)
        return team.threads, team.rows
    strips = strips_of(work)
    return strips.threads, strips.strips


def team_of(work: Work) -> Team:
    """A warp or less for short rows, else a block; where that takes many steps, it loads the next one while it scans
    one."""
    asked = dict(work.request.schedule.tunables)
    longest, width = most(work.request, work.along), _width(work)
    if work.segments is not None:
        longest = work.segments.length
    slots = max(-(-longest // width), 1)
    narrow = max(WIDEST // (width * _widest_element(work)), 1)  # accesses that move as much as the widest one
    is_few = others(work) < _many_rows(work)
    ahead = False
    if slots <= _WARP:
        threads, vectors = _power_of_two(slots), 1
    elif slots <= _WARP * 2 * narrow:
        threads, vectors = _WARP, min(-(-slots // _WARP), 4)
    elif (slots <= _FEW_STEPS * narrow or _may_be_short(work)) and not is_few and work.segments is None:
        vectors = min(2 * narrow, 8)
        threads = min(_power_of_two(-(-slots // vectors)), _BLOCK // 2)
    else:
        vectors = min(4 * narrow, 8)
        threads = 4 * _BLOCK if is_few else 2 * _BLOCK
        ahead = slots > threads * vectors
        if ahead and width > 4:  # narrow elements take registers to compute with
            fills = others(work) >= _FULL
            threads, vectors, ahead = (_BLOCK, 1, False) if fills else (threads, min(vectors, 2), True)
        threads = min(_power_of_two(-(-slots // vectors)), threads)
    vectors = int(asked.get("vectors", vectors))
    threads = int(asked.get("threads", threads))
    rows = 1
    if work.rest and threads <= _WARP and work.segments is None:
        rows = min(_BLOCK // 2 // threads, _power_of_two(most(work.request, work.rest[0])))
    return Team(threads, int(asked.get("rows", rows)), vectors, width, ahead)


def looks_back(work: Work) -> bool:
    """Whether rows are taken in segments by blocks that wait for each other."""
    how = dict(work.request.schedule.tunables).get("how")
    if how == "passes" or _why_not_back(work):
        return False
    if how == "look_back":
        return True
    is_long = most(work.request, work.along) * others(work) >= _LONG
    return is_long and segment_length(work) is not None and not _is_step(work)


def _is_step(work: Work) -> bool:
    """Whether the scan is one of those that passes are made of."""
    asked = {array.name for array in work.request.context.asked.arrays}
    return all(statement.target not in asked for statement in work.request.group.statements)


def _why_not_back(work: Work) -> str:
    if not work.is_row:
        return f"{work.along.name} runs along columns: blocks look back along rows"
    if work.segments is not None:
        return "begins anew with every segment"
    target = work.request.target
    if target.capability < (7, 0):
        return f"threads of {target.name} can't wait for each other one by one; sm_70 is the first where they can"
    blocks = others(work) * -(-most(work.request, work.along) // look_back_team(work).step)
    return "" if blocks <= target.grid_x else f"{blocks} blocks; {target.name} allows {target.grid_x}"


def look_back_team(work: Work) -> Team:
    """Blocks with as many bytes in flight as leave room for several side by side; fewer where blocks would be few."""
    asked = dict(work.request.schedule.tunables)
    width = _width(work)
    arrays = work.request.context.arrays
    held = sum(arrays[read.array].dtype.bytes for read in work.wide_reads)
    # Narrow elements take registers to compute with.
    vectors = min(max(_power_of_two(_BYTES // (width * max(_widest_element(work), held, 4)) + 1) // 2, 1), 16)
    threads = int(asked.get("threads", _BLOCK))
    longest = most(work.request, work.along)
    while vectors > 1 and others(work) * -(-longest // (threads * vectors * width)) < _FULL // 2:
        vectors //= 2
    return Team(threads, 1, int(asked.get("vectors", vectors)), width)


def resident_blocks(work: Work, team: Team) -> int:
    """How many blocks that look back a multiprocessor is to hold; fewer of wide values, which take more registers."""
    is_wide = _widest_element(work) > 4 or any(scan.dtype.bytes > 4 for scan in work.scans)
    return max((_RESIDENT * 3 // 4 if is_wide else _RESIDENT) // team.threads, 1)


def strips_of(work: Work) -> Strips:
    """As many strips as it takes to keep a device busy, and as are of use; blocks as narrow as a line of 128 bytes, so
    that there are many."""
    asked = dict(work.request.schedule.tunables)
    longest, width = most(work.request, work.along), _width(work)
    if work.segments is not None:
        longest = work.segments.length
    slots = max(-(-most(work.request, work.fast) // width), 1)
    vectors = int(asked.get("vectors", max(min(8, _ELEMENTS // width), 1)))
    line = max(_LINE // (width * _widest_element(work)), 8)
    strips, most_strips = 1, min(_MOST_STRIPS, work.request.target.threads_per_block // min(line, _power_of_two(slots)))
    while strips < most_strips and slots * others(work) * strips < _ENOUGH and strips * vectors < longest:
        strips *= 2
    strips = int(asked.get("strips", strips))
    threads = int(asked.get("threads", min(max(_BLOCK // strips, line), _power_of_two(slots))))
    return Strips(threads, strips, vectors, width)


def segment_length(work: Work) -> int | None:
    """How many elements make a segment, where there are too few rows or columns to keep a device busy, and long ones;
    None where each is walked whole."""
    longest = most(work.request, work.along)
    if work.is_row:
        size = _widest_element(work)
        if others(work) >= _many_rows(work) or longest * size < _LONG_ROW:
            return None
        length = _power_of_two(-(-longest // _SEGMENTS))
        length = min(max(length, _SHORTEST_SEGMENT // size), _LONGEST_SEGMENT // size)
        if not may_look_back(work, length):
            length = _SEGMENT // size
        step = team_of(replace(work, segments=Segments(length, ""))).step
        return -(-length // step) * step
    strips = strips_of(work)
    columns = others(work) * max(-(-most(work.request, work.fast) // strips.width), 1)
    length = strips.step * -(-_LONG_COLUMN // strips.step)
    return length if columns * _MOST_STRIPS < _ENOUGH and longest >= 4 * length else None


def may_look_back(work: Work, length: int) -> bool:
    """Whether there are so few segments of a row that each can combine all those in front of it."""
    return work.is_row and not _may_be_short(work) and -(-most(work.request, work.along) // length) <= 2 * _SEGMENTS


def _many_rows(work: Work) -> int:
    return _MANY_ROWS if _width(work) <= 4 else _MANY_NARROW_ROWS


def others(work: Work) -> int:
    """How many rows there are at most, or how many times the columns."""
    return math.prod(max(most(work.request, index), 1) for index in work.rest)


def most(request: Request, index: spec.Index) -> int:
    """The largest extent that the index may have."""
    return bounds(to_integer(index.extent, request.context.symbols), dict(request.context.ranges))[1]


def _may_be_short(work: Work) -> bool:
    """Whether rows get their length at run time, perhaps a small one."""
    context = work.request.context
    return context.static(to_integer(work.along.extent, context.symbols)) is None


def _widest_element(work: Work) -> int:
    """Bytes of the widest element that vectors hold."""
    arrays = work.request.context.arrays
    stored = [s.target for s in work.request.group.statements if work.is_stored(s)]
    return max(arrays[name].dtype.bytes for name in (*stored, *(read.array for read in work.wide_reads)))


def _width(work: Work) -> int:
    """The widest access that alignment allows and that one line of the output fills."""
    width, longest = work.most.count, most(work.request, work.fast)
    while width > max(longest, 1):
        width //= 2
    return width


def _power_of_two(count: int) -> int:
    """The least power of two that covers `count`."""
    return 1 << max(count - 1, 0).bit_length()
