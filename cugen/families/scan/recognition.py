"""Recognises statements with scans along one index, and says which index walks memory contiguously."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from cugen.families.scan.segments import Segments, count_of, without_segments
from cugen.pieces.elementwise import loaded_reads
from cugen.pieces.grid import fastest_first
from cugen.pieces.serial_scan import Walk, recognise
from cugen.pieces.vectors import Width, divisor, is_contiguous, is_fixed, widest
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import to_integer
from cugen.spec import expressions as spec
from cugen.spec.expressions import Const, Expr, IndexValue, Read, Reduce, Scan, free_indices, walk
from cugen.spec.model import Statement

_IN_MEMORY = ("global", "readonly")


@dataclass(frozen=True, slots=True)
class Work:
    """Scans along `walk.index`. Neighbours along `fast` are neighbours in memory, for all that is stored and for
    `wide_reads`; `rest` are the other indices of the output, the number of
    the segment before them where the scans begin anew in each. `most` is how many neighbours one access may move."""

    walk: Walk
    fast: spec.Index
    rest: tuple[spec.Index, ...]
    wide_reads: tuple[Read, ...]
    most: Width
    segments: Segments | None = None
    fronts: tuple[Reduce, ...] = ()  # what the segments in front of each combine to
    reads_elsewhere: bool = False  # what can't be loaded with the vectors, nor for an element that isn't there

    @property
    def request(self) -> Request:
        """The group with the terms of its scans at the current element."""
        return self.walk.request

    @property
    def scans(self) -> tuple[Scan, ...]:
        return self.walk.scans

    @property
    def along(self) -> spec.Index:
        return self.walk.index

    @property
    def is_row(self) -> bool:
        """Whether the scans run along neighbours."""
        return self.fast == self.along

    def is_stored(self, statement: Statement) -> bool:
        role = self.request.context.spec.array(statement.target).role
        return role != "temporary" or statement.target in self.request.stored


def find_work(request: Request) -> Work | Refusal:
    """The group's scans, or why a team of threads can't share them."""
    if not any(isinstance(node, Scan) for s in request.group.statements for node in walk(s.value)):
        return Refusal("takes scans, and there are none")
    request, segments = without_segments(request)
    walked = recognise(request)
    if walked is None:
        return Refusal("takes scans that run along one index in one direction, in every element")
    statements = walked.request.group.statements
    fronts = () if segments is None else _fronts(walked, segments)
    for statement in statements:
        if not all(isinstance(sub, IndexValue | Const) for sub in statement.subscripts):
            return Refusal(f"writes {statement.target} at bare indices only")
        if any(isinstance(node, Reduce) and node not in fronts for node in walk(statement.value)):
            return Refusal(f"has no loops beside the scan's, and {statement.target} needs one")
    reads = loaded_reads(statements)
    elsewhere = tuple(read for read in reads if read.boundary is not None or not all(map(_is_plain, read.subscripts)))
    order = fastest_first(request)
    fast = order[0]
    moving = tuple(
        read
        for read in reads
        if read not in elsewhere
        and IndexValue(fast.name) in read.subscripts
        and request.context.arrays[read.array].space in _IN_MEMORY
    )
    places = [(read.array, read.subscripts) for read in moving]
    places += [(s.target, s.subscripts) for s in statements if _is_stored(request, s)]
    for array, subscripts in places:
        if not is_contiguous(request.context.arrays[array], subscripts, fast.name):
            return Refusal(f"neighbours along {fast.name} are no neighbours in {array}")
    widths = [
        widest(request.context.arrays[array], subscripts, fast.name, request.context) for array, subscripts in places
    ]
    most = min(widths, key=lambda width: width.count)
    count = math.gcd(divisor(to_integer(fast.extent, request.context.symbols), request.context), most.count)
    if count < most.count and fast != walked.index:
        most = Width(count, f"the extent of {fast.name} is surely a multiple of {count}, not of more")
    rest = tuple(index for index in order if index not in (fast, walked.index))
    if fronts and fast != walked.index:
        return Refusal("combines what is in front of segments of rows, not of columns")
    if elsewhere:
        most = Width(1, f"{elsewhere[0].array} is read elsewhere than at bare indices, element by element")
    if segments is not None:
        rest = (spec.Index(segments.index, count_of(walked.index.extent, segments.length)), *rest)
    return Work(walked, fast, rest, moving, most, segments, fronts, bool(elsewhere))


def in_segments(work: Work, length: int) -> Work:
    """The same scans with a number for each segment of so many elements, which go on from one to the next."""
    name = "segment" if all(index.name != "segment" for index in (*work.rest, work.along)) else "segment_"
    number = spec.Index(name, count_of(work.along.extent, length))
    return replace(work, segments=Segments(length, name), rest=(number, *work.rest))


def _fronts(walked: Walk, segments: Segments) -> tuple[Reduce, ...]:
    """Reductions over the segments in front of the present one, alike for all of its elements."""
    values = [statement.value for statement in walked.request.group.statements]
    found = {node: None for value in values for node in walk(value) if isinstance(node, Reduce)}
    return tuple(
        front
        for front in found
        if len(front.indices) == 1
        and isinstance(front.body, Read)
        and segments.index in free_indices(front)
        and walked.index.name not in free_indices(front)
    )


def _is_stored(request: Request, statement: Statement) -> bool:
    role = request.context.spec.array(statement.target).role
    return role != "temporary" or statement.target in request.stored


def _is_plain(sub: Expr) -> bool:
    """A bare index, or a place that is the same for all."""
    return isinstance(sub, IndexValue) or is_fixed(sub)
