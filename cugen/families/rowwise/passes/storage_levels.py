"""The parts of a row by storage level between passes, and the loops over a thread's elements in each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

import sympy

from cugen.families.rowwise.passes.schedule import RowPass
from cugen.pieces.sections import guarded
from cugen.plan.nodes import Comparison, Define, For, Index, Loop, Section
from cugen.plan.symbols import Integer, integer
from cugen.plan.traversal.usage import mentions

UNROLL_BEYOND_REGISTERS = 4  # loads in flight per thread outside of registers; heuristic
UNROLL_WITH_OPERANDS = 2  # of vectors in shared memory, with those of other arrays: more take registers


class Storage(StrEnum):
    """Where the elements of a part of a row are between passes."""

    REGISTERS = "registers"
    SHARED = "shared memory"
    GLOBAL = "global memory"
    EDGES = "registers of edges"  # the elements before and after the vectors of a row that begins anywhere


@dataclass(frozen=True, slots=True)
class StorageLevel:
    """The thread's slots (vector accesses) from `start` on: `slots` of them, in global memory all to the row's end.

    `passes` are those of this part: what is reused and cached depends on the storage. With `as_computed` the buffers
    have the compute type, also for values that are only loaded."""

    storage: Storage
    start: int
    slots: int
    passes: tuple[RowPass, ...]
    as_computed: bool = False

    @property
    def is_cached(self) -> bool:
        return self.storage != Storage.GLOBAL


@dataclass(frozen=True, slots=True)
class Segment:
    """Slots `start` to `stop` (exclusive) of a level. With `is_guarded` some may be past the end of the row."""

    level: StorageLevel
    start: int
    stop: int
    is_guarded: bool

    @property
    def count(self) -> int:
        return self.stop - self.start

    @property
    def is_straight_line(self) -> bool:
        """Whether its code needs neither a loop nor a guard."""
        return self.level.is_cached and self.count == 1 and not self.is_guarded


def ascending_count(levels: Sequence[StorageLevel]) -> int:
    """How many levels, in this order, have elements of a thread that are after those of all levels before."""
    count = 1
    for before, level in pairwise(levels):
        if Storage.EDGES in (before.storage, level.storage) or level.start < before.start:
            break
        count += 1
    return count


def segments(level: StorageLevel, stride: int, shortest: int, *, in_branches: bool = False) -> Iterator[Segment]:
    """The level's full slots and those that need a guard, for rows of at least `shortest` elements; `in_branches`, a
    single slot has one in any case."""
    if level.storage == Storage.EDGES:
        yield Segment(level, 0, 1, is_guarded=True)
        return
    if not level.is_cached:
        yield Segment(level, 0, 0, is_guarded=False)
        return
    full = max(min(shortest // stride - level.start, level.slots), 0)
    if full == level.slots or (full < 2 and level.slots > 1) or full == 0:
        yield Segment(level, 0, level.slots, is_guarded=full < level.slots or (in_branches and level.slots == 1))
        return
    yield Segment(level, 0, full, is_guarded=False)
    yield Segment(level, full, level.slots, is_guarded=True)


@dataclass(frozen=True, slots=True)
class RowIndexing:
    """The element indices of a thread: slot s starts at `offset + s * stride`.

    `first` is the index of the slot's first element, `slot` the loop variable over slots. Where rows begin anywhere,
    a slot has the `width` elements of a vector or none, and `edge` is the index of the thread's edge element. With a
    `margin`, a row has as many vectors as if they started with the row, and not `head` elements after it, and so many
    elements were left after them: two vectors of a row that starts aligned have the elements of each."""

    first: Index
    slot: Integer
    offset: Integer
    stride: int
    extent: Integer
    width: int = 1
    edge: Integer = sympy.S.Zero
    head: Integer = sympy.S.Zero
    margin: int = 0

    @property
    def reach(self) -> Integer:
        """How far after its first element a slot's last one, or its margin, ends."""
        return self.width - 1 if self.margin == 0 else self.width - 1 + self.margin - self.head

    @property
    def uncovered(self) -> int:
        """The most elements of a row that full slots leave at its end."""
        return max(self.width - 1, self.margin)

    def is_inside(self, start: Integer) -> Comparison:
        """Whether the slot that starts at an element is in the row."""
        return Comparison((start + self.reach).expand(), "<", self.extent)

    def slot_of(self, segment: Segment) -> Integer:
        return integer(segment.start) if segment.count == 1 else self.slot

    def start_of(self, segment: Segment) -> Integer:
        """The first element of the current slot; in global memory that of the thread's first access."""
        if segment.level.storage == Storage.EDGES:
            return self.edge
        slot = self.slot_of(segment) if segment.level.is_cached else integer(0)
        return self.offset + (slot + segment.level.start) * self.stride

    def loop_over(
        self, segment: Segment, body: tuple[Section, ...], terms: tuple[Comparison, ...], unroll: int
    ) -> tuple[Section, ...]:
        """The body in its loop over the segment, with the element index defined, where `terms` hold; unrolled by
        `unroll` outside of registers."""
        start = self.start_of(segment)
        if segment.level.storage == Storage.EDGES:
            return guarded("guard", (Comparison(start, "<", self.extent), *terms), body)
        if not segment.level.is_cached:
            vectors = For(Loop(self.first, start, self.extent - self.reach, self.stride), body)
            return guarded("guard", terms, (Section("vectors", (vectors,)),))
        index = Section("index", (Define(Index(self.first.name, start, self.first.range)),))
        is_used = mentions(body, self.first.name)
        if segment.count == 1:
            terms = (self.is_inside(start), *terms) if segment.is_guarded else terms
            return guarded("guard", terms, (index, *body) if is_used else body)
        if segment.is_guarded:
            is_used = True
            body = guarded("guard", (self.is_inside(self.first.symbol),), body)
        slots = Index(str(self.slot), integer(segment.start), (segment.start, segment.stop - 1))
        loop = Loop(slots, integer(segment.start), integer(segment.stop), unroll=True)
        if segment.level.storage != Storage.REGISTERS:
            loop = replace(loop, unroll=False, unroll_by=unroll)
        return guarded("guard", terms, (Section("vectors", (For(loop, (index, *body) if is_used else body),)),))
